//! What keeps browsers out, on every route and on the socket; and what no route answers.

use relay_protocol::event::TokenKind;
use relay_server::{Config, route_list};
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use crate::matrix::Everything;
use crate::support::{Client, Raw, Socket, World};

/// Headers, and how they are refused.
type Foreign = (Vec<(&'static str, String)>, u16, &'static str);

/// Headers that no route may accept.
fn foreign(client: &Client) -> Vec<Foreign> {
    let port = client.address.port();
    let host = |name: &str| vec![("host", name.to_owned())];
    let origin = |name: &str| vec![("origin", name.to_owned())];
    vec![
        (host("evil.example"), 403, "foreign_origin"),
        (host(&format!("evil.example:{port}")), 403, "foreign_origin"),
        (host("127.0.0.1.evil.example"), 403, "foreign_origin"),
        (host("0.0.0.0"), 403, "foreign_origin"),
        (host(""), 403, "foreign_origin"),
        (origin("null"), 403, "foreign_origin"),
        (origin("https://evil.example"), 403, "foreign_origin"),
        (origin("http://127.0.0.1:1"), 403, "foreign_origin"),
        (origin("http://localhost"), 403, "foreign_origin"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_refuses_foreign_pages_and_hosts() {
    let everything = Everything::make().await;
    for route in route_list() {
        let kind = route
            .credentials
            .first()
            .copied()
            .unwrap_or(TokenKind::Workspace);
        let client = everything.holder(kind);
        for (headers, status, code) in foreign(client) {
            let mut request = everything.example(&route);
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            let refused = client.ask(request).await;
            let what = format!("{} {} {headers:?}", route.method, route.path);
            assert_eq!(refused.refused(status), code, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_refuses_forms() {
    let everything = Everything::make().await;
    let forms = [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
    ];
    for route in route_list().iter().filter(|route| route.method != "GET") {
        let kind = route.credentials.first();
        let client = everything.holder(kind.copied().unwrap_or(TokenKind::Workspace));
        for form in forms {
            if route.path == "/v1/attachments" && form == "text/plain" {
                continue;
            }
            let mut request = everything.example(route);
            request.headers.retain(|(name, _)| name != "content-type");
            let refused = client.ask(request.body(form, "a=b")).await;
            let what = format!("{} {} {form}", route.method, route.path);
            assert_eq!(refused.refused(415), "unsupported_media_type", "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_refuses_tokens_in_its_url() {
    let everything = Everything::make().await;
    let token = everything.world.key.token.clone().unwrap();
    for route in route_list() {
        for query in [
            format!("token={token}"),
            format!("x={token}"),
            "access_token=x".to_owned(),
        ] {
            let mut request = everything.example(&route);
            let mark = if request.path.contains('?') { '&' } else { '?' };
            request.path = format!("{}{mark}{query}", request.path);
            let refused = everything.world.nobody().ask(request).await;
            let what = format!("{} {}", route.method, route.path);
            assert_eq!(refused.refused(400), "token_in_url", "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_refuses_them_too() {
    let world = World::start().await;
    for (headers, status, _) in foreign(&world.key) {
        let mut request = Socket::request(&world.key);
        for (name, value) in headers {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let refused = Socket::connect(request).await.err();
        let Some(Error::Http(answer)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(answer.status(), status);
    }
    let mut request = Socket::request(&world.key);
    let token = world.key.token.as_ref().unwrap();
    let url = format!("ws://{}/v1/ws?token={token}", world.address);
    *request.uri_mut() = url.parse().unwrap();
    assert!(matches!(
        Socket::connect(request).await.err(),
        Some(Error::Http(_))
    ));
}

#[tokio::test]
async fn own_pages_and_names_are_welcome() {
    let config = Config {
        allowed_hosts: vec!["relay.example".to_owned()],
        allowed_origins: vec!["https://page.example".to_owned()],
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let port = world.address.port();
    let own = format!("localhost:{port}");
    for (host, origin) in [
        (own.clone(), format!("http://{own}")),
        (
            format!("127.0.0.1:{port}"),
            format!("http://127.0.0.1:{port}"),
        ),
        (
            "relay.example".to_owned(),
            "https://relay.example".to_owned(),
        ),
        (own, "https://page.example".to_owned()),
    ] {
        let request = Raw::new("GET", "/v1/me")
            .header("host", &host)
            .header("origin", &origin);
        world.key.ask(request).await.expect(200);
    }
    let mut request = Socket::request(&world.key);
    let origin = format!("http://127.0.0.1:{port}").parse().unwrap();
    request.headers_mut().insert("origin", origin);
    assert!(Socket::connect(request).await.is_ok());
}

#[tokio::test]
async fn what_no_route_answers_is_a_problem() {
    let world = World::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/nope",
        "/v1/agents/a/b/c",
        "/v2/me",
        "/v1/me/",
    ] {
        assert_eq!(
            world.key.get(path).await.refused(404),
            "not_found",
            "{path}"
        );
    }
    let wrong = world.key.json("PUT", "/v1/agents", json!({})).await;
    assert_eq!(wrong.refused(405), "method_not_allowed");
    let allowed = wrong.header("allow").unwrap();
    assert!(
        allowed.contains("GET") && allowed.contains("POST"),
        "{allowed}"
    );
    let preflight = world
        .nobody()
        .json("OPTIONS", "/v1/messages", json!(null))
        .await;
    assert_eq!(preflight.refused(405), "method_not_allowed");
    let plain = world.key.get("/v1/ws").await;
    assert_eq!(plain.refused(400), "invalid_request");
    let unknown = world.key.get("/v1/agents?limt=3").await;
    assert_eq!(unknown.expect(400)["path"], "limt");
    let unknown = world.key.get("/v1/me?x=1").await;
    assert_eq!(unknown.expect(400)["path"], "x");
    for limit in ["0", "201", "-1", "x", ""] {
        let bad = world.key.get(&format!("/v1/agents?limit={limit}")).await;
        assert_eq!(bad.refused(400), "invalid_request", "{limit}");
    }
}

#[tokio::test]
async fn the_server_tells_how_it_is() {
    let world = World::start().await;
    let nobody = world.nobody();
    assert_eq!(nobody.get("/health").await.expect(200)["status"], "ok");
    assert_eq!(nobody.get("/ready").await.expect(200)["status"], "ok");
    world.agent("very-special-name").await;
    let metrics = nobody.get("/metrics").await;
    metrics.expect(200);
    let text = metrics.text();
    let line =
        "relay_http_request_seconds_count{route=\"/v1/agents\",method=\"POST\",status=\"201\"} 1";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("relay_connections "), "{text}");
    assert!(!text.contains("special"), "{text}");
}
