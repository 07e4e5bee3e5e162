//! Chats by the client library: events are read, questions decided, and a chat that is held goes on over a network that breaks.

use relay_sdk::{Chat, ChatDecided, ChatEvent, NewChat, PermissionResponse, Relay};
use serde_json::{Value, json};

use super::room::{MODEL, Room, calls, text};
use crate::support::{Proxy, Weather, soon};

async fn until(chat: &mut Chat, kind: &str) -> ChatEvent {
    loop {
        let event = soon("an event", chat.next()).await.unwrap().unwrap();
        if event.kind() == kind {
            return event;
        }
    }
}

fn client(room: &Room, url: &str) -> Relay {
    Relay::with_options(url, &room.desk.server.key, relay_sdk::Options::default()).unwrap()
}

fn saying(words: &str) -> NewChat {
    NewChat::saying(words).with_model(MODEL)
}

#[tokio::test]
async fn a_chat_is_read_and_decided() {
    let room = Room::new().await;
    let relay = client(&room, &room.desk.server.url);
    let models = relay.chats().models().await.unwrap();
    assert_eq!(models.models, [MODEL]);
    assert_eq!(models.default_model, None);

    let words = calls(&["touch one", "touch two"]);
    let mut chat = relay.chats().begin(&saying(&words)).await.unwrap();
    let connected = chat.next().await.unwrap().unwrap();
    assert_eq!(connected.kind(), "connected");
    assert_eq!(text(&connected.data, "sessionId"), chat.session_id());
    let first = text(&until(&mut chat, "relay").await.data, "id");
    let wrong = PermissionResponse {
        args_hash: Some("of something else".to_owned()),
        ..PermissionResponse::approve()
    };
    // What can't be is an error, and the question waits on.
    chat.resolve(&first, &wrong).await.unwrap_err();
    let decided = chat
        .resolve(&first, &PermissionResponse::approve())
        .await
        .unwrap();
    assert_eq!(decided, ChatDecided::Taken);
    let late = chat
        .resolve(&first, &PermissionResponse::approve())
        .await
        .unwrap();
    assert_eq!(late, ChatDecided::TooLate);
    let second = text(&until(&mut chat, "relay").await.data, "id");
    let no = PermissionResponse::deny(Some("one is enough"));
    chat.resolve(&second, &no).await.unwrap();
    let end = until(&mut chat, "harness_end").await;
    assert_eq!(end.data["reason"], "final");
    assert_eq!(chat.next().await.unwrap(), None);
    assert!(room.has("one") && !room.has("two"));
    // One that is over needs no cancelling.
    chat.cancel().await.unwrap();
}

#[tokio::test]
async fn refusals_say_what_the_server_says() {
    let room = Room::new().await;
    let relay = client(&room, &room.desk.server.url);
    let refused = relay.chats().begin(&NewChat::saying("hello")).await;
    let problem = refused.err().unwrap();
    let detail = problem.problem().map(|problem| problem.detail.as_str());
    assert_eq!(detail, Some("model and messages are required"));
    let gone = relay.chats().look("no such chat", 0).await.err().unwrap();
    let gone = gone.problem().unwrap();
    assert_eq!(
        (gone.status, gone.detail.as_str()),
        (404, "Session not found")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_chat_goes_on_when_the_network_is_back() {
    let room = Room::new().await;
    let proxy = Proxy::to(room.desk.server.address).await;
    let relay = client(&room, &proxy.url());
    let script = json!([
        [{ "text": "word ", "times": 50 }, { "tool": "bash", "arguments": { "command": "touch one" } }],
        [{ "text": "more ", "times": 50 }],
    ]);
    let new = NewChat {
        hold: Some(std::time::Duration::from_secs(60)),
        ..saying(&format!("script:{script}"))
    };
    let mut chat = relay.chats().begin(&new).await.unwrap();
    let mut seen = Vec::new();
    let asked = loop {
        let event = soon("an event", chat.next()).await.unwrap().unwrap();
        seen.push(event.clone());
        if event.kind() == "relay" {
            break text(&event.data, "id");
        }
    };
    proxy.set(Weather::Down);
    let direct = client(&room, &room.desk.server.url).chats();
    let yes = PermissionResponse::approve();
    let decided = direct.resolve(chat.session_id(), &asked, &yes).await;
    assert_eq!(decided.unwrap(), ChatDecided::Taken);
    let rest = async {
        while let Some(event) = chat.next().await.unwrap() {
            seen.push(event);
        }
    };
    let back = async {
        // It has noticed, and comes again.
        let before = proxy.connections();
        proxy.set(Weather::Fine);
        before
    };
    let (before, ()) = soon("the end", async { tokio::join!(back, rest) }).await;
    assert!(proxy.connections() > before, "it never came back");
    let numbers: Vec<u64> = seen.iter().filter_map(|event| event.number).collect();
    assert!(
        numbers.iter().copied().eq(1..=numbers.len() as u64),
        "{numbers:?}"
    );
    let said: String = seen
        .iter()
        .filter(|event| event.kind() == "text")
        .map(|event| event.data["content"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(said, "word ".repeat(50) + &"more ".repeat(50));
    assert!(room.has("one"));
    let is_last = |event: &Value| event["type"] == "harness_end";
    assert!(is_last(&seen.last().unwrap().data));
}
