//! What is sent, and answers that have no end, no beginning or no sense.

use relay_outbound::{Error, Limits, Outbound, Request};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::support::{SHORT, Server, outbound, post, read_head};

async fn call(server: &Server, limits: Limits) -> Result<relay_outbound::Answer, Error> {
    let url = format!("http://127.0.0.1:{}/hook", server.port());
    here(limits).call(post(&url)).await
}

fn here(limits: Limits) -> Outbound {
    outbound(&["127.0.0.1"], limits)
}

/// Answers with a head, then with the same piece until nobody listens.
async fn repeat(mut stream: TcpStream, head: &str, piece: &[u8]) {
    let _ = read_head(&mut stream).await;
    let _ = stream.write_all(head.as_bytes()).await;
    while stream.write_all(piece).await.is_ok() {}
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    let plain = Server::with("127.0.0.1:0", |stream| {
        repeat(stream, "HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 1024])
    });
    let chunked = Server::with("127.0.0.1:0", |stream| {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        repeat(stream, head, b"4\r\nxxxx\r\n")
    });
    let announced = Server::with("127.0.0.1:0", |stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
        repeat(stream, head, &[b'x'; 1024])
    });
    for server in [plain.await, chunked.await, announced.await] {
        let limits = Limits {
            answer_bytes: 4096,
            ..Limits::default()
        };
        let failed = call(&server, limits).await.unwrap_err();
        assert!(
            matches!(failed, Error::TooLarge { most: 4096, .. }),
            "{failed}"
        );
    }
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_read() {
    let answer = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(4096));
    let server = Server::at("127.0.0.1:0", answer.leak()).await;
    let limits = Limits {
        answer_bytes: 4096,
        ..Limits::default()
    };
    assert_eq!(call(&server, limits).await.unwrap().body.len(), 4096);
}

#[tokio::test]
async fn endless_heads_are_cut_off() {
    let server = Server::with("127.0.0.1:0", |stream| {
        repeat(stream, "HTTP/1.1 200 OK\r\n", b"x-more: and more\r\n")
    });
    let failed = call(&server.await, Limits::default()).await.unwrap_err();
    assert!(matches!(failed, Error::Http { .. }), "{failed}");
}

#[tokio::test]
async fn slow_answers_are_given_up() {
    let silent = Server::with("127.0.0.1:0", |stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    });
    let dripping = Server::with("127.0.0.1:0", |mut stream| async move {
        let _ = read_head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut pace = tokio::time::interval(SHORT.timeout / 10);
        while stream.write_all(b"x").await.is_ok() {
            pace.tick().await;
        }
    });
    for server in [silent.await, dripping.await] {
        let failed = call(&server, SHORT).await.unwrap_err();
        assert!(matches!(failed, Error::TimedOut { .. }), "{failed}");
        assert!(failed.is_retryable());
    }
}

#[tokio::test]
async fn nonsense_is_no_answer() {
    for answer in [
        "",
        "hello\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx",
    ] {
        let server = Server::at("127.0.0.1:0", answer).await;
        let failed = call(&server, Limits::default()).await.unwrap_err();
        assert!(matches!(failed, Error::Http { .. }), "{answer:?}: {failed}");
    }
}

#[tokio::test]
async fn the_call_is_what_was_asked_for() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let server = Server::with("127.0.0.1:0", move |mut stream| {
        let seen = seen.clone();
        async move {
            let _ = seen.send(read_head(&mut stream).await);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    });
    let server = server.await;
    let url = format!("http://127.0.0.1:{}/hook?x=1", server.port());
    let mut request = Request::post_json(url, "{}");
    request.headers.insert("x-own", "1".parse().unwrap());
    assert_eq!(here(SHORT).call(request).await.unwrap().status, 204);
    let head = requests.recv().await.unwrap().unwrap();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{head}");
    for line in [
        format!("host: 127.0.0.1:{}", server.port()),
        "connection: close".to_owned(),
        "content-type: application/json".to_owned(),
        "content-length: 2".to_owned(),
        "x-own: 1".to_owned(),
    ] {
        assert!(head.contains(&format!("{line}\r\n")), "{line} in {head}");
    }
}

#[tokio::test]
async fn headers_that_change_the_call_are_refused() {
    let server = Server::inside().await;
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
    ] {
        let mut request = post(&format!("http://127.0.0.1:{}/", server.port()));
        let name: http::HeaderName = name.parse().unwrap();
        request.headers.insert(&name, "x".parse().unwrap());
        let refused = here(Limits::default()).call(request).await.unwrap_err();
        assert!(matches!(refused, Error::Header(refused) if refused == name));
    }
    server.assert_never_reached("a header").await;
}

#[tokio::test]
async fn an_unencrypted_server_is_not_taken_for_an_encrypted_one() {
    let server = Server::with("127.0.0.1:0", |mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let url = format!("https://127.0.0.1:{}/", server.await.port());
    let failed = here(Limits::default()).call(post(&url)).await.unwrap_err();
    assert!(
        matches!(failed, Error::Connect { .. } | Error::Tls(_)),
        "{failed}"
    );
}
