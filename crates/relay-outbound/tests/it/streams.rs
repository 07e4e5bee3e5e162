//! Answers that are read as they come.

use relay_outbound::{Error, Limits, Streaming};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use crate::support::{SHORT, Server, outbound, post, read_head};

async fn stream(server: &Server, limits: Limits) -> Result<Streaming, Error> {
    let url = format!("http://127.0.0.1:{}/stream", server.port());
    outbound(&["127.0.0.1"], limits).stream(post(&url)).await
}

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn pieces_come_one_by_one_and_a_reader_who_leaves_closes_the_connection() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = Server::with("127.0.0.1:0", move |mut stream| {
        let tell = tell.clone();
        async move {
            let _ = read_head(&mut stream).await;
            let _ = stream.write_all(HEAD).await;
            let _ = stream.write_all(b"3\r\none\r\n").await;
            // Ends when the other side closes.
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            let _ = tell.send(());
        }
    });
    let server = server.await;
    let mut answer = stream(&server, Limits::default()).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
    drop(answer);
    told.recv().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_one_that_ends_is_not() {
    let broken = Server::at(
        "127.0.0.1:0",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n",
    );
    let mut answer = stream(&broken.await, Limits::default()).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
    let error = answer.chunk().await.unwrap_err();
    assert!(matches!(error, Error::Http { .. }), "{error}");

    let whole = Server::inside().await;
    let mut answer = stream(&whole, Limits::default()).await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "inside");
    assert!(answer.chunk().await.unwrap().is_none());
}

#[tokio::test]
async fn the_way_to_the_head_is_that_of_every_call() {
    let silent = Server::with("127.0.0.1:0", |mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let error = stream(&silent.await, SHORT).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");

    let elsewhere = Server::at(
        "127.0.0.1:0",
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n",
    );
    let error = stream(&elsewhere.await, SHORT).await.unwrap_err();
    assert!(
        matches!(error, Error::Redirect { status: 302, .. }),
        "{error}"
    );

    let inside = Server::inside().await;
    let url = format!("http://127.0.0.1:{}/", inside.port());
    let error = outbound(&[], SHORT).stream(post(&url)).await.unwrap_err();
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    inside.assert_never_reached("a stream").await;
}
