//! Chats over HTTP, with the real program: the published commands as they are, every error byte for byte, who may what, and a
//! server that is killed.

#[cfg(target_os = "linux")]
mod agents;
mod library;
mod room;
mod sdk;

use serde_json::{Value, json};
use tokio::process::Command;

pub(crate) use self::room::Room;
use self::room::{Client, Watching, calls, chat, text};
use crate::support::{finish, installed, soon};

/// The commands of the contract's page, as they stand there.
const APPROVE: &str = r#"curl -X POST http://localhost:4000/chat/relay/01963a5c-7893-7abc-def0-123456789abc \
  -H "Content-Type: application/json" \
  -d '{
    "sessionId": "01963a5c-7890-7abc-def0-123456789abc",
    "response": {
      "approved": true
    }
  }'"#;
const APPROVE_ALWAYS: &str = r#"curl -X POST http://localhost:4000/chat/relay/01963a5c-7893-7abc-def0-123456789abc \
  -H "Content-Type: application/json" \
  -d '{
    "sessionId": "01963a5c-7890-7abc-def0-123456789abc",
    "response": {
      "approved": true,
      "always": true
    }
  }'"#;
const DENY: &str = r#"curl -X POST http://localhost:4000/chat/relay/01963a5c-7893-7abc-def0-123456789abc \
  -H "Content-Type: application/json" \
  -d '{
    "sessionId": "01963a5c-7890-7abc-def0-123456789abc",
    "response": {
      "approved": false,
      "reason": "This operation could delete important files"
    }
  }'"#;

/// What is said to a decision that counts.
const SUCCESS: &str = r#"{"success":true}"#;

/// Somebody who pastes commands into a shell. Port, relay and session are those of here.
async fn pasted(room: &Room, command: &str, relay_id: &str, session_id: &str) -> String {
    let port = room.desk.server.address.port();
    let command = command
        .replace("localhost:4000", &format!("localhost:{port}"))
        .replace("01963a5c-7893-7abc-def0-123456789abc", relay_id)
        .replace("01963a5c-7890-7abc-def0-123456789abc", session_id);
    let done = finish(Command::new("bash").args(["-c", &command])).await;
    assert_eq!(done.code, 0, "{done:?}");
    done.out
}

fn has_curl() -> bool {
    installed("the contract's commands", &["curl"], "--version").is_some()
}

#[tokio::test]
async fn approving_by_the_published_command() {
    let room = Room::new().await;
    if !has_curl() {
        return;
    }
    let mut chat = room.owner().say("What is here?").await;
    let asked = chat.until("relay").await;
    assert_eq!(asked["kind"], "permission");
    assert_eq!(asked["tool"], "bash");
    assert_eq!(asked["params"], json!({ "command": "ls -la" }));
    let id = text(&asked, "id");
    assert_eq!(pasted(&room, APPROVE, &id, &chat.session_id).await, SUCCESS);
    let called = chat.until("tool_call").await;
    assert_eq!(called["id"], asked["toolCallId"]);
    let result = chat.until("tool_result").await;
    let seen = result["output"].to_string();
    assert!(seen.contains("notes.txt"), "{seen}");
    let end = chat.until("harness_end").await;
    assert_eq!(end["reason"], "final");
    assert_eq!(chat.next().await, None);
}

#[tokio::test]
async fn approving_always_by_the_published_command() {
    let room = Room::new().await;
    if !has_curl() {
        return;
    }
    let words = calls(&["touch one", "touch two", "rm one"]);
    let mut chat = room.owner().say(&words).await;
    let asked = chat.until("relay").await;
    let rule = asked["suggestions"][0]["rule"].clone();
    let id = text(&asked, "id");
    let said = pasted(&room, APPROVE_ALWAYS, &id, &chat.session_id).await;
    assert_eq!(said, SUCCESS);
    // The second is covered, so the next question is about the third.
    let asked = chat.until("relay").await;
    assert_eq!(asked["params"]["command"], "rm one");
    assert!(room.has("one") && room.has("two"));
    let grants = room.desk.json(&["grant", "list"]).await;
    assert_eq!(grants["items"][0]["rule"], rule);
    let id = text(&asked, "id");
    assert_eq!(pasted(&room, DENY, &id, &chat.session_id).await, SUCCESS);
    chat.until("harness_end").await;
    assert!(room.has("one"));
}

#[tokio::test]
async fn denying_by_the_published_command() {
    let room = Room::new().await;
    if !has_curl() {
        return;
    }
    let mut chat = room.owner().say(&calls(&["touch ran"])).await;
    let asked = chat.until("relay").await;
    let id = text(&asked, "id");
    assert_eq!(pasted(&room, DENY, &id, &chat.session_id).await, SUCCESS);
    let rest = chat.rest().await;
    assert!(!rest.iter().any(|event| event["type"] == "tool_call"));
    let result = rest.iter().find(|event| event["type"] == "tool_result");
    let denied =
        json!({ "status": "denied", "reason": "This operation could delete important files" });
    assert_eq!(result.unwrap()["output"], denied);
    assert!(!room.has("ran"));
}

/// A chat that waits at its first question.
async fn waiting(client: &Client) -> (Watching, String) {
    let mut chat = client.say(&calls(&["touch ran"])).await;
    let asked = chat.until("relay").await;
    let id = text(&asked, "id");
    (chat, id)
}

fn approve(session_id: &str) -> Value {
    json!({ "sessionId": session_id, "response": { "approved": true } })
}

#[tokio::test]
async fn every_error_of_the_contract_byte_for_byte() {
    let room = Room::new().await;
    let owner = room.owner();
    let anybody = room.stranger();
    let (chat, id) = waiting(&owner).await;
    let session = chat.session_id.clone();
    let nobody = "01963a5c-7890-7abc-def0-123456789abc";

    let no_json = r#"{"error":"Invalid JSON body"}"#;
    let required = r#"{"error":"sessionId and response are required"}"#;
    let no_session = r#"{"error":"Session not found"}"#;
    let no_relay = r#"{"error":"Relay not found"}"#;
    let path = format!("/chat/relay/{id}");
    for (path, body, status, expected) in [
        (path.as_str(), String::new(), 400, no_json),
        (&path, "{".to_owned(), 400, no_json),
        (&path, "{}".to_owned(), 400, required),
        (
            &path,
            json!({ "sessionId": session }).to_string(),
            400,
            required,
        ),
        (
            &path,
            r#"{"response":{"approved":true}}"#.to_owned(),
            400,
            required,
        ),
        (&path, approve(nobody).to_string(), 404, no_session),
        (
            "/chat/relay/none",
            approve(&session).to_string(),
            404,
            no_relay,
        ),
        (
            &format!("/chat/relay/{nobody}"),
            approve(&session).to_string(),
            404,
            no_relay,
        ),
    ] {
        let answer = anybody.ask("POST", path, &body).await;
        assert_eq!(answer, (status, expected.to_owned()), "{path} {body}");
    }
    for (body, expected) in [
        ("", no_json),
        ("{}", r#"{"error":"model and messages are required"}"#),
    ] {
        let answer = owner.ask("POST", "/chat", body).await;
        assert_eq!(answer, (400, expected.to_owned()), "{body}");
    }

    // Nothing of it has decided anything.
    assert!(!room.has("ran"));
    assert_eq!(
        anybody.resolve(&id, &approve(&session)).await,
        (200, SUCCESS.to_owned())
    );
    chat.rest().await;
    assert!(room.has("ran"));
    // The chat is over, so it can't be found.
    let late = anybody.resolve(&id, &approve(&session)).await;
    assert_eq!(late, (404, no_session.to_owned()));
}

#[tokio::test]
async fn a_decision_that_comes_second_is_told_so() {
    let room = Room::new().await;
    let mut chat = room.owner().say(&calls(&["touch ran", "true"])).await;
    let asked = chat.until("relay").await;
    let id = text(&asked, "id");
    room.desk.ok(&["permission", "deny", &id]).await;
    // The next question shows that the first one is settled and the chat goes on.
    chat.until("relay").await;
    let (status, body) = room
        .stranger()
        .resolve(&id, &approve(&chat.session_id))
        .await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(status, 404);
    assert_eq!(body["error"], "Relay not found");
    assert_eq!(body["code"], "relay_already_resolved");
    assert_eq!(body["decision"], "denied");
    assert!(!room.has("ran"));
}

#[tokio::test]
async fn chats_are_for_owners_and_people() {
    let room = Room::new().await;
    let body = chat("What is here?").to_string();
    let (status, said) = room.stranger().ask("POST", "/chat", &body).await;
    assert_eq!(status, 401);
    assert!(said.contains(r#""code":"unauthorized""#), "{said}");
    room.desk.register(&["ada"]).await;
    let agent = room.desk.agent("ada").await;
    let agent = Client {
        token: Some(agent.token().to_owned()),
        ..room.owner()
    };
    let (waits, id) = waiting(&room.owner()).await;
    let path = format!("/chat/relay/{id}");
    let looking = format!("/chat/{}/events", waits.session_id);
    let decision = approve(&waits.session_id).to_string();
    for (method, path, body) in [
        ("POST", "/chat", &body),
        ("POST", &path, &decision),
        ("GET", &looking, &String::new()),
    ] {
        let (status, said) = agent.ask(method, path, body).await;
        assert_eq!(status, 403, "{method} {path}: {said}");
        assert!(said.contains(r#""code":"forbidden""#), "{said}");
    }
    assert!(!room.has("ran"));
}

#[tokio::test]
async fn anybody_may_chat_where_the_owner_says_so() {
    let room = Room::with(&[("RELAY_CHAT_ANONYMOUS", "true")]).await;
    let anybody = room.stranger();
    let (chat, id) = waiting(&anybody).await;
    let decided = anybody.resolve(&id, &approve(&chat.session_id)).await;
    assert_eq!(decided, (200, SUCCESS.to_owned()));
    chat.rest().await;
    assert!(room.has("ran"));
}

#[tokio::test]
async fn a_killed_server_runs_nothing_that_was_asked() {
    let mut room = Room::new().await;
    let (chat, id) = waiting(&room.owner()).await;
    let session = chat.session_id.clone();
    room.desk.server.kill().await;
    room.desk.server = room.desk.setup.start().await;
    let gone = room.stranger().resolve(&id, &approve(&session)).await;
    assert_eq!(gone, (404, r#"{"error":"Session not found"}"#.to_owned()));
    let shown = room.desk.json(&["permission", "show", &id]).await;
    let record = &shown["permission"];
    assert_eq!(record["state"], "cancelled", "{shown}");
    let reason = "the session is released: the server that ran the chat ended before it";
    assert_eq!(record["outcome"]["reason"], reason, "{shown}");
    // A chat that comes after it runs what it asks for, and nothing of the one before.
    let (after, other) = waiting_for(&room, "touch other").await;
    let decided = room
        .stranger()
        .resolve(&other, &approve(&after.session_id))
        .await;
    assert_eq!(decided.0, 200, "{decided:?}");
    after.rest().await;
    assert!(room.has("other") && !room.has("ran"));
    let shown = room.desk.json(&["permission", "show", &id]).await;
    assert_eq!(shown["permission"].get("execution"), None, "{shown}");
}

#[tokio::test]
async fn what_ran_when_the_server_was_killed_has_an_unknown_end_and_a_grant_of_the_chat_is_over() {
    let mut room = Room::new().await;
    let words = calls(&["touch one", "mkfifo gate && cat gate"]);
    let mut chat = room.owner().say(&words).await;
    let mut decide = async |always: bool| {
        let id = text(&chat.until("relay").await, "id");
        let response = json!({ "approved": true, "always": always });
        let body = json!({ "sessionId": chat.session_id, "response": response });
        let decided = room.stranger().resolve(&id, &body).await;
        assert_eq!(decided.0, 200, "{decided:?}");
        id
    };
    decide(true).await;
    let id = decide(false).await;
    let grants = room.desk.json(&["grant", "list"]).await;
    assert_eq!(grants["items"].as_array().unwrap().len(), 1, "{grants}");
    let has_begun = async {
        while !room.has("gate") {
            tokio::task::yield_now().await;
        }
    };
    soon("the command", has_begun).await;
    room.desk.server.kill().await;
    room.desk.server = room.desk.setup.start().await;
    let shown = room.desk.json(&["permission", "show", &id]).await;
    // Nobody is there any more to end it.
    std::fs::write(room.path("gate"), "").unwrap();
    let execution = &shown["permission"]["execution"];
    assert_eq!(execution["state"], "unknown", "{shown}");
    let sessions = room.desk.json(&["session", "list", "--all"]).await;
    assert_eq!(sessions["items"][0]["status"], "released", "{sessions}");
    let grants = room.desk.json(&["grant", "list"]).await;
    assert_eq!(grants["items"], json!([]));
}

async fn waiting_for(room: &Room, command: &str) -> (Watching, String) {
    let mut chat = room.owner().say(&calls(&[command])).await;
    let asked = chat.until("relay").await;
    let id = text(&asked, "id");
    (chat, id)
}
