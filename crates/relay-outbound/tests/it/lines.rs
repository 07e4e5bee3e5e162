//! Connections that are kept: by one caller, for one end, while they work.

use std::time::Duration;

use relay_outbound::{Limits, Line};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{Server, outbound, post, read_head};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Answers as often as it is asked.
async fn patient(mut stream: TcpStream) {
    while read_head(&mut stream).await.is_ok() {
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}

/// Answers once, and lets the second call run into a connection that ends.
async fn forgetful(mut stream: TcpStream) {
    let _ = read_head(&mut stream).await;
    let _ = stream.write_all(ANSWER).await;
    let _ = read_head(&mut stream).await;
}

fn line() -> Line {
    outbound(&["127.0.0.1", "127.0.0.2"], Limits::default()).line()
}

async fn call(line: &Line, server: &Server) {
    let url = format!("http://127.0.0.1:{}/hook", server.port());
    let answer = line.call(post(&url)).await.unwrap();
    assert_eq!(&answer.body[..], b"ok");
}

#[tokio::test]
async fn one_after_the_other_goes_over_one_connection() {
    let server = Server::with("127.0.0.1:0", patient).await;
    let line = line();
    for _ in 0..5 {
        call(&line, &server).await;
    }
    assert_eq!(server.reached(), 1);
}

#[tokio::test]
async fn at_the_same_time_goes_over_as_many_and_later_over_these() {
    let server = Server::with("127.0.0.1:0", patient).await;
    let line = line();
    for _ in 0..2 {
        tokio::join!(
            call(&line, &server),
            call(&line, &server),
            call(&line, &server)
        );
    }
    assert_eq!(server.reached(), 3);
}

#[tokio::test]
async fn a_connection_that_ends_costs_no_call() {
    let server = Server::with("127.0.0.1:0", forgetful).await;
    let line = line();
    for _ in 0..4 {
        call(&line, &server).await;
    }
    assert_eq!(server.reached(), 4);
}

#[tokio::test]
async fn nothing_is_kept_for_others() {
    let server = Server::with("127.0.0.1:0", patient).await;
    call(&line(), &server).await;
    let one = line();
    call(&one, &server).await;
    assert_eq!(server.reached(), 2);
    let elsewhere = Server::with("127.0.0.1:0", patient).await;
    call(&one, &elsewhere).await;
    call(&one, &server).await;
    assert_eq!((server.reached(), elsewhere.reached()), (3, 1));
}

#[tokio::test]
async fn what_nobody_uses_is_closed() {
    let (closed, mut is_closed) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::with("127.0.0.1:0", move |stream| {
        let closed = closed.clone();
        async move {
            patient(stream).await;
            closed.send(()).unwrap();
        }
    })
    .await;
    let line = line();
    call(&line, &server).await;
    // Whoever looks after the connection begins to.
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(20)).await;
    tokio::time::resume();
    is_closed.recv().await.unwrap();
    call(&line, &server).await;
    assert_eq!(server.reached(), 2);
}
