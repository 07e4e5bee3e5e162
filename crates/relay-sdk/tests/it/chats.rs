//! Chats with servers that behave badly: none is asked twice for what costs, and none is waited for for ever. What chats with a good one are is in the
//! program's own tests.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use relay_sdk::{Chat, Error, NewChat, Options, Relay};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;

/// What `SILENCE` and `EVENT_BYTES` of the client are.
const SILENCE: Duration = Duration::from_secs(45);
const EVENT_BYTES: usize = 64 * 1024 * 1024;

const CONNECTED: &str =
    "id: 1\nevent: connected\ndata: {\"type\":\"connected\",\"sessionId\":\"s\"}\n\n";
const END: &str =
    "id: 2\nevent: harness_end\ndata: {\"type\":\"harness_end\",\"reason\":\"final\"}\n\n";

/// One connection: its request is read, and it is answered with these bytes.
async fn answer(mut pipe: DuplexStream, body: String, stays: bool) {
    let mut request = Vec::new();
    while !request.ends_with(b"}") && !request.ends_with(b"\r\n\r\n") {
        assert!(pipe.read_buf(&mut request).await.unwrap() > 0);
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    // Who has read enough leaves.
    let _ = pipe.write_all(format!("{head}{body}").as_bytes()).await;
    if stays {
        std::future::pending::<()>().await;
    }
}

/// A server that answers each connection in its own way: nothing is one that can't be had.
fn server(answers: Vec<Option<(String, bool)>>) -> (Relay, Arc<AtomicUsize>) {
    let (answers, dialed) = (Arc::new(answers), Arc::new(AtomicUsize::new(0)));
    let count = dialed.clone();
    let dial = move || {
        let next = answers.get(count.fetch_add(1, Ordering::SeqCst)).cloned();
        async move {
            let Some((body, stays)) = next.expect("no more connections are made") else {
                return Err(ErrorKind::ConnectionRefused.into());
            };
            let (near, far) = tokio::io::duplex(64 * 1024);
            tokio::spawn(answer(far, body, stays));
            Ok(near)
        }
    };
    (Relay::over(dial, "rk_x", Options::default()), dialed)
}

async fn begun(relay: &Relay, hold: Option<Duration>) -> Chat {
    let new = NewChat {
        hold,
        ..NewChat::saying("hello")
    };
    let mut chat = relay.chats().begin(&new).await.unwrap();
    assert_eq!(chat.next().await.unwrap().unwrap().kind(), "connected");
    chat
}

#[tokio::test(start_paused = true)]
async fn a_chat_begins_when_the_server_can_be_reached() {
    let (relay, dialed) = server(vec![None, None, Some((format!("{CONNECTED}{END}"), false))]);
    let mut chat = begun(&relay, None).await;
    assert_eq!(chat.next().await.unwrap().unwrap().kind(), "harness_end");
    assert_eq!(chat.next().await.unwrap(), None);
    assert_eq!(dialed.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_left() {
    let (relay, _) = server(vec![Some((CONNECTED.to_owned(), true))]);
    let mut chat = begun(&relay, None).await;
    let begun = Instant::now();
    let error = chat.next().await.unwrap_err();
    assert!(matches!(error, Error::TimedOut(SILENCE)), "{error}");
    assert_eq!(begun.elapsed(), SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_is_held_is_looked_for_after_silence() {
    let (relay, dialed) = server(vec![
        Some((CONNECTED.to_owned(), true)),
        None,
        Some((END.to_owned(), false)),
    ]);
    let mut chat = begun(&relay, Some(Duration::from_secs(60))).await;
    assert_eq!(chat.next().await.unwrap().unwrap().kind(), "harness_end");
    assert_eq!(dialed.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn an_event_that_is_too_large_is_an_error() {
    let event = |bytes: usize| {
        let frame = "data: \"\"".len();
        format!("data: \"{}\"\n\n", "x".repeat(bytes - frame))
    };
    for (bytes, is_taken) in [(EVENT_BYTES, true), (EVENT_BYTES + 1, false)] {
        let body = format!("{CONNECTED}{}{END}", event(bytes));
        let (relay, _) = server(vec![Some((body, false))]);
        let mut chat = begun(&relay, None).await;
        let next = chat.next().await;
        assert_eq!(next.is_ok(), is_taken, "{bytes}");
    }
}
