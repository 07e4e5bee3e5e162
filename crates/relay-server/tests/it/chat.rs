//! The place for chats: who is let in, as whom a chat runs, and what is handed on.

use std::sync::Arc;

use axum::http::Response;
use futures_util::future::BoxFuture;
use relay_protocol::limits::CHAT_BODY_BYTES;
use relay_server::{Body, Chat, ChatCall, ChatPlace, ChatService, Config};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Client, Raw, World};

/// Hands everything to the test.
struct Recorder(mpsc::UnboundedSender<ChatCall>);

impl ChatService for Recorder {
    fn answer(&self, call: ChatCall) -> BoxFuture<'static, Response<Body>> {
        let (status, media_type, body) = match call {
            ChatCall::Begin { .. } | ChatCall::Look { .. } => (200, "text/event-stream", ""),
            ChatCall::Cancel { .. } => (204, "none", ""),
            ChatCall::Models | ChatCall::Resolve { .. } => (200, "application/json", "{}"),
        };
        self.0.send(call).unwrap();
        let response = Response::builder()
            .status(status)
            .header("content-type", media_type);
        let response = response.body(Body::from(body)).unwrap();
        Box::pin(async { response })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

async fn world(anonymous: bool) -> (World, mpsc::UnboundedReceiver<ChatCall>) {
    let (tell, told) = mpsc::unbounded_channel();
    let tell = Arc::new(tell);
    let make = |place: ChatPlace| Config {
        chat: Chat::by(Recorder((*tell).clone()), place),
        ..Config::default()
    };
    let world = World::start_with(make(ChatPlace::default())).await;
    if !anonymous {
        return (world, told);
    }
    // The key is known only once there is a workspace.
    let key = world.key.token.clone();
    let place = ChatPlace {
        anonymous: key,
        ..ChatPlace::default()
    };
    (world.restart(make(place)).await, told)
}

fn begin() -> Raw {
    let body = json!({ "messages": [] }).to_string();
    Raw::new("POST", "/chat").body("application/json", body)
}

async fn person(world: &World) -> Client {
    let ana = json!({ "name": "ana", "type": "human" });
    let ana = world.key.post("/v1/agents", ana).await.expect(201);
    world.with(ana["token"].as_str().unwrap())
}

/// The agent that a chat runs as.
async fn runs_as(world: &World, call: Option<ChatCall>) -> Value {
    let Some(ChatCall::Begin { visitor, .. }) = call else {
        panic!("{call:?}");
    };
    let agent = world.with(&visitor.agent_token);
    agent.get("/v1/me").await.expect(200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_begins_chats_and_as_whom_they_run() {
    let (world, mut told) = world(false).await;
    let nobody = world.nobody();
    assert_eq!(nobody.ask(begin()).await.refused(401), "unauthorized");
    let agent = world.agent("alice").await;
    assert_eq!(agent.ask(begin()).await.refused(403), "forbidden");
    assert!(told.try_recv().is_err());
    world.key.ask(begin()).await.expect(200);
    let first = runs_as(&world, told.recv().await).await;
    assert_eq!(first["agent"]["name"], "chat");
    world.key.ask(begin()).await.expect(200);
    let second = runs_as(&world, told.recv().await).await;
    assert_eq!(first["agent"]["id"], second["agent"]["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chats_of_different_people_share_no_mailbox_and_are_in_no_channel() {
    let (world, mut told) = world(false).await;
    world.key.ask(begin()).await.expect(200);
    let workspaces = runs_as(&world, told.recv().await).await;
    let ana = person(&world).await;
    ana.ask(begin()).await.expect(200);
    let anas = runs_as(&world, told.recv().await).await;
    assert_eq!(workspaces["agent"]["name"], "chat");
    assert_eq!(anas["agent"]["name"], "chat-ana");
    assert_ne!(workspaces["agent"]["id"], anas["agent"]["id"]);
    let members = world.key.get("/v1/channels/general/members").await;
    let members = members.expect(200).to_string();
    assert!(members.contains("ana"), "{members}");
    assert!(!members.contains("chat"), "{members}");
    // Another person who gets the name later does not get the mailbox.
    world.key.delete("/v1/agents/ana").await.expect(204);
    person(&world).await.ask(begin()).await.expect(200);
    let others = runs_as(&world, told.recv().await).await;
    assert_eq!(others["agent"]["name"], "chat-ana");
    assert_ne!(others["agent"]["id"], anas["agent"]["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_somebody_else_is_left_alone() {
    let (world, mut told) = world(false).await;
    let own = world.agent("chat").await;
    assert_eq!(world.key.ask(begin()).await.refused(409), "name_taken");
    assert!(told.try_recv().is_err());
    own.get("/v1/me").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handed_on() {
    let (world, mut told) = world(false).await;
    let nobody = world.nobody();
    nobody.get("/models").await.expect(200);
    assert!(matches!(told.recv().await, Some(ChatCall::Models)));
    let resolve = Raw::new("POST", "/chat/relay/r1").body("application/json", "{");
    nobody.ask(resolve.clone()).await.expect(200);
    let Some(ChatCall::Resolve { relay_id, body }) = told.recv().await else {
        panic!();
    };
    assert_eq!((relay_id.as_str(), &*body), ("r1", &b"{"[..]));
    // An agent decides nothing, not even where nobody has to say who they are.
    let agent = world.agent("alice").await;
    assert_eq!(agent.ask(resolve).await.refused(403), "forbidden");
    let look = |query: &str| Raw::new("GET", &format!("/chat/s1/events{query}"));
    assert_eq!(nobody.ask(look("")).await.refused(401), "unauthorized");
    for (request, expected) in [
        (look(""), None),
        (look("").header("last-event-id", "7"), Some("7")),
        (look("?lastEventId=8"), Some("8")),
        (
            look("?lastEventId=8").header("last-event-id", "7"),
            Some("7"),
        ),
    ] {
        world.key.ask(request).await.expect(200);
        let Some(ChatCall::Look { session_id, seen }) = told.recv().await else {
            panic!();
        };
        assert_eq!((session_id.as_str(), seen.as_deref()), ("s1", expected));
    }
    world
        .key
        .ask(Raw::new("DELETE", "/chat/s1"))
        .await
        .expect(204);
    assert!(matches!(told.recv().await, Some(ChatCall::Cancel { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_is_refused_in_the_contracts_form() {
    let (world, _told) = world(false).await;
    let large = "x".repeat(CHAT_BODY_BYTES + 1);
    let request = Raw::new("POST", "/chat").body("application/json", large);
    let refused = world.key.ask(request).await.expect(413);
    assert!(refused["error"].is_string(), "{refused}");
    world.key.ask(begin()).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anybody_may_begin_chats_if_the_program_says_so() {
    let (world, mut told) = world(true).await;
    world.nobody().ask(begin()).await.expect(200);
    assert_eq!(
        runs_as(&world, told.recv().await).await["agent"]["name"],
        "chat"
    );
    let agent = world.agent("alice").await;
    assert_eq!(agent.ask(begin()).await.refused(403), "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_before_the_route_is_in_the_contracts_form() {
    let (world, _told) = world(false).await;
    let form = Raw::new("POST", "/chat").body("application/x-www-form-urlencoded", "a=b");
    let requests = [
        (
            begin().header("host", "evil.example"),
            403,
            "foreign_origin",
        ),
        (
            begin().header("origin", "https://evil.example"),
            403,
            "foreign_origin",
        ),
        (form, 415, "unsupported_media_type"),
        (
            Raw::new("GET", "/models").header("origin", "null"),
            403,
            "foreign_origin",
        ),
    ];
    for (request, status, code) in requests {
        let answer = world.key.ask(request).await;
        let refused = answer.expect(status);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(refused["error"].is_string(), "{refused}");
        assert_eq!(refused["code"], code);
    }
}
