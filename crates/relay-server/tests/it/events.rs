//! The log: by pages and as a stream.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::{Client, Raw, World, dechunk, soon};

/// A stream of server-sent events.
pub(crate) struct Stream {
    stream: TcpStream,
    /// What came after the head, in chunks.
    bytes: Vec<u8>,
    /// How much of the content was looked at.
    seen: usize,
}

impl Stream {
    pub(crate) async fn open(client: &Client, path: &str, last: Option<&str>) -> Self {
        let mut raw = Raw::new("GET", path);
        if let Some(last) = last {
            raw = raw.header("last-event-id", last);
        }
        let mut stream = client.send(&raw).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(soon("a head", stream.read_u8()).await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self {
            stream,
            bytes: Vec::new(),
            seen: 0,
        }
    }

    /// The next piece of text up to an empty line; nothing at the end.
    pub(crate) async fn piece(&mut self) -> Option<String> {
        loop {
            let content = String::from_utf8(dechunk(&self.bytes)).unwrap();
            if let Some((piece, _)) = content[self.seen..].split_once("\n\n") {
                self.seen += piece.len() + 2;
                return Some(piece.to_owned());
            }
            let mut buffer = [0; 4096];
            let read = soon("a piece", self.stream.read(&mut buffer)).await;
            match read.unwrap_or(0) {
                0 => return None,
                read => self.bytes.extend_from_slice(&buffer[..read]),
            }
        }
    }

    /// The next event: its id and what it is.
    pub(crate) async fn event(&mut self) -> (u64, Value) {
        loop {
            let piece = self.piece().await.expect("the stream goes on");
            let field = |name: &str| {
                let line = piece.lines().find(|line| line.starts_with(name))?;
                Some(line[name.len()..].to_owned())
            };
            if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                let event: Value = serde_json::from_str(&data).unwrap();
                assert_eq!(event["seq"].to_string(), id);
                return (id.parse().unwrap(), event);
            }
        }
    }
}

async fn post(client: &Client, text: &str) {
    let body = json!({ "to": "#general", "text": text });
    client.post("/v1/messages", body).await.expect(201);
}

#[tokio::test]
async fn the_log_is_read_by_pages() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    for text in ["one", "two", "three"] {
        post(&alice, text).await;
    }
    let mut after = 0;
    let mut texts = Vec::new();
    loop {
        let path = format!("/v1/events?types=message.created,thread.*&limit=2&after={after}");
        let page = world.key.get(&path).await.expect(200);
        for event in page["items"].as_array().unwrap() {
            texts.push(event["message"]["text"].as_str().unwrap().to_owned());
        }
        after = page["after"].as_u64().unwrap();
        match page.get("nextCursor") {
            Some(cursor) => assert_eq!(cursor.as_str().unwrap(), after.to_string()),
            None => break,
        }
    }
    assert_eq!(texts, ["one", "two", "three"]);
    let all = world.key.get("/v1/events?limit=200").await.expect(200);
    let seqs: Vec<u64> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let unknown = world.key.get("/v1/events?types=mesage.created").await;
    assert_eq!(unknown.refused(400), "unknown_event");
    assert_eq!(unknown.json()["suggestions"][0], "message.created");
    assert_eq!(
        world.key.get("/v1/events?after=999999").await.refused(400),
        "bad_cursor"
    );
    assert_eq!(
        world.key.get("/v1/events?after=x").await.refused(400),
        "invalid_request"
    );
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_left() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    post(&alice, "before").await;
    let path = "/v1/events/stream?types=message.created";
    let mut live = Stream::open(&world.key, path, None).await;
    assert_eq!(live.piece().await.unwrap(), ": heartbeat".to_owned());
    post(&alice, "one").await;
    let (first, event) = live.event().await;
    assert_eq!(event["message"]["text"], "one");
    drop(live);
    for text in ["two", "three"] {
        post(&alice, text).await;
    }
    let mut again = Stream::open(&world.key, path, Some(&first.to_string())).await;
    assert_eq!(again.event().await.1["message"]["text"], "two");
    assert_eq!(again.event().await.1["message"]["text"], "three");
    post(&alice, "four").await;
    assert_eq!(again.event().await.1["message"]["text"], "four");
    // The header says more exactly than the address where a client is.
    let mut both = Stream::open(
        &world.key,
        &format!("{path}&after=0"),
        Some(&first.to_string()),
    )
    .await;
    assert_eq!(both.event().await.1["message"]["text"], "two");
    let mut all = Stream::open(&world.key, &format!("{path}&after=0"), None).await;
    assert_eq!(all.event().await.1["message"]["text"], "before");
}

#[tokio::test]
async fn a_stream_that_can_not_begin_is_refused() {
    let world = World::start().await;
    let ask = |path: &str, last: Option<&str>| {
        let raw = Raw::new("GET", path);
        match last {
            Some(last) => raw.header("last-event-id", last),
            None => raw,
        }
    };
    let path = "/v1/events/stream";
    let cases = [
        (ask(path, Some("x")), "invalid_request"),
        (ask(path, Some("999999")), "bad_cursor"),
        (ask("/v1/events/stream?limit=3", None), "invalid_request"),
        (ask("/v1/events/stream?types=x", None), "unknown_event"),
    ];
    for (raw, code) in cases {
        assert_eq!(
            world.key.ask(raw.clone()).await.refused(400),
            code,
            "{raw:?}"
        );
    }
}

#[tokio::test]
async fn a_silent_stream_gives_signs_of_life() {
    let config = relay_server::Config {
        heartbeat: std::time::Duration::from_millis(5),
        ..relay_server::Config::default()
    };
    let world = World::start_with(config).await;
    let mut stream = Stream::open(&world.key, "/v1/events/stream", None).await;
    for _ in 0..3 {
        assert_eq!(stream.piece().await.unwrap(), ": heartbeat".to_owned());
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_token_does_and_when_the_server_stops() {
    let config = relay_server::Config {
        heartbeat: std::time::Duration::from_millis(5),
        ..relay_server::Config::default()
    };
    let mut world = World::start_with(config).await;
    let alice = world.agent("alice").await;
    let mut hers = Stream::open(&alice, "/v1/events/stream", None).await;
    let mut ours = Stream::open(&world.key, "/v1/events/stream", None).await;
    hers.piece().await.unwrap();
    ours.piece().await.unwrap();
    world.key.delete("/v1/agents/alice").await.expect(204);
    while hers.piece().await.is_some() {}
    let stopped = world.stop();
    while ours.piece().await.is_some() {}
    soon("the end", stopped).await.unwrap().unwrap();
}
