use axum::http::HeaderValue;

use super::*;

fn home(listens_on: &str) -> Home {
    Home::new(
        listens_on.parse().unwrap(),
        &["Relay.example".to_owned()],
        &["https://page.example".to_owned()],
    )
}

fn head(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

#[test]
fn hosts() {
    let cases = [
        ("127.0.0.1", "localhost", true),
        ("127.0.0.1", "LOCALHOST:4000", true),
        ("127.0.0.1", "127.0.0.1:4000", true),
        ("127.0.0.1", "127.0.0.9", true),
        ("127.0.0.1", "[::1]:4000", true),
        ("127.0.0.1", "relay.example:4000", true),
        ("127.0.0.1", "192.168.0.1", false),
        ("127.0.0.1", "evil.example", false),
        ("127.0.0.1", "localhost.evil.example", false),
        ("127.0.0.1", "localhost@evil.example", false),
        ("127.0.0.1", "evil.example:4000", false),
        ("127.0.0.1", "0.0.0.0", false),
        ("127.0.0.1", "", false),
        ("127.0.0.1", "local host", false),
        ("192.168.0.1", "192.168.0.1:4000", true),
        ("192.168.0.1", "localhost", false),
        ("192.168.0.1", "127.0.0.1", false),
        ("192.168.0.1", "evil.example", false),
        ("0.0.0.0", "192.168.0.7", true),
        ("0.0.0.0", "localhost", true),
        ("0.0.0.0", "evil.example", false),
        ("0.0.0.0", "0.0.0.0", false),
    ];
    let uri = Uri::from_static("/v1/me");
    for (listens_on, host, expected) in cases {
        let found = check_host(&home(listens_on), &uri, &head(&[("host", host)]));
        assert_eq!(found.is_ok(), expected, "{listens_on} {host}");
    }
    let loopback = home("127.0.0.1");
    assert!(check_host(&loopback, &uri, &head(&[])).is_err());
    let two = head(&[("host", "localhost"), ("host", "evil.example")]);
    assert!(check_host(&loopback, &uri, &two).is_err());
    let absolute = Uri::from_static("http://evil.example/v1/me");
    assert!(check_host(&loopback, &absolute, &head(&[("host", "localhost")])).is_err());
}

#[test]
fn origins() {
    let cases = [
        ("http://localhost:4000", true),
        ("https://localhost:4000", true),
        ("HTTP://LOCALHOST:4000", true),
        ("https://page.example", true),
        ("http://localhost:3000", false),
        ("http://localhost", false),
        ("http://127.0.0.1:4000", false),
        ("https://evil.example", false),
        ("https://page.example.evil.example", false),
        ("null", false),
        ("", false),
        ("file://", false),
        ("chrome-extension://abc", false),
    ];
    for (origin, expected) in cases {
        let headers = head(&[("origin", origin)]);
        let found = check_origin(&home("127.0.0.1"), "localhost:4000", &headers);
        assert_eq!(found.is_ok(), expected, "{origin}");
    }
    let none = check_origin(&home("127.0.0.1"), "localhost:4000", &head(&[]));
    assert!(none.is_ok());
}

#[test]
fn credentials_in_urls() {
    let secret = "x".repeat(43);
    let cases = [
        ("/v1/me".to_owned(), true),
        ("/v1/events?after=3&types=message.*".to_owned(), true),
        ("/v1/search?q=at_home".to_owned(), true),
        ("/v1/agents/at_the_door".to_owned(), true),
        (format!("/v1/me?x=at_{secret}"), false),
        (format!("/v1/me?x=rk%5f{secret}"), false),
        (format!("/v1/me?at_{secret}"), false),
        (format!("/v1/agents/ak_{secret}"), false),
        (format!("/v1/ws?resume=st_{secret}"), false),
        ("/v1/me?token=x".to_owned(), false),
        ("/v1/me?Access_Token=x".to_owned(), false),
        ("/v1/me?%74oken=x".to_owned(), false),
        ("/v1/me?a=b&key".to_owned(), false),
    ];
    for (uri, expected) in cases {
        let found = check_url(&uri.parse().unwrap());
        assert_eq!(found.is_ok(), expected, "{uri}");
    }
}

#[test]
fn bodies() {
    let json = ("content-type", "application/json; charset=utf-8");
    let length = ("content-length", "5");
    let cases = [
        (Method::GET, vec![("content-type", "text/html")], true),
        (Method::POST, vec![json, length], true),
        (Method::POST, vec![], true),
        (Method::POST, vec![("content-length", "0")], true),
        (Method::POST, vec![length], false),
        (Method::POST, vec![("transfer-encoding", "chunked")], false),
        (Method::POST, vec![("content-type", "text/plain")], false),
        (
            Method::POST,
            vec![("content-type", "text/plain"), length],
            false,
        ),
        (
            Method::PATCH,
            vec![
                ("content-type", "application/x-www-form-urlencoded"),
                length,
            ],
            false,
        ),
        (Method::DELETE, vec![], true),
        (
            Method::DELETE,
            vec![("content-type", "multipart/form-data")],
            false,
        ),
        (
            Method::POST,
            vec![json, ("content-type", "text/plain")],
            false,
        ),
    ];
    for (method, headers, expected) in cases {
        let found = check_json(&method, &head(&headers));
        assert_eq!(found.is_ok(), expected, "{method} {headers:?}");
    }
    for (media_type, expected) in [
        ("image/png", true),
        ("text/plain", true),
        ("multipart/form-data; boundary=x", false),
        ("application/x-www-form-urlencoded", false),
    ] {
        let found = check_not_a_form(&head(&[("content-type", media_type)]));
        assert_eq!(found.is_ok(), expected, "{media_type}");
    }
}
