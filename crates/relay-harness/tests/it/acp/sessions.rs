//! Opening, listing and closing sessions; what is refused before anything is sent.

use std::collections::BTreeMap;

use relay_harness::acp::content::{McpServer, PromptContent};
use relay_harness::acp::event::Event;
use relay_harness::acp::host::{HostError, HostOptions, OpenSession, probe};
use serde_json::{Value, json};

use super::support::{
    Warnings, agent, ask, chunk, environment, folder, handshake, methods, received, session,
    session_with, start, try_start,
};
use crate::processes::until;

fn capability(error: HostError) -> &'static str {
    match error {
        HostError::Capability(error) => error.capability,
        error => panic!("{error}"),
    }
}

fn http() -> McpServer {
    McpServer::Http {
        name: "x".to_owned(),
        url: "http://127.0.0.1:1".to_owned(),
        headers: BTreeMap::new(),
    }
}

fn sse() -> McpServer {
    McpServer::Sse {
        name: "x".to_owned(),
        url: "http://127.0.0.1:1".to_owned(),
        headers: BTreeMap::new(),
    }
}

#[tokio::test]
async fn what_is_not_advertised_is_refused_before_anything_is_sent() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let host = start(json!({"log": log})).await;
    let open = || OpenSession::new(folder());
    let with = |server| OpenSession {
        mcp_servers: vec![server],
        ..open()
    };
    let refusals = [
        (
            host.load_session("s", open()).await.unwrap_err(),
            "loadSession",
        ),
        (
            host.resume_session("s", open()).await.unwrap_err(),
            "sessionCapabilities.resume",
        ),
        (
            host.fork_session("s", open()).await.unwrap_err(),
            "sessionCapabilities.fork",
        ),
        (
            host.list_sessions(None, None).await.unwrap_err(),
            "sessionCapabilities.list",
        ),
        (
            host.new_session(with(http())).await.unwrap_err(),
            "mcpCapabilities.http",
        ),
        (
            host.new_session(with(sse())).await.unwrap_err(),
            "mcpCapabilities.sse",
        ),
        (
            host.new_session(OpenSession {
                system_prompt: Some("x".to_owned()),
                ..open()
            })
            .await
            .unwrap_err(),
            "sessionCapabilities.systemPrompt",
        ),
    ];
    for (error, expected) in refusals {
        assert_eq!(error.code(), "capability-not-supported");
        assert_eq!(capability(error), expected);
    }
    let error = host.stream_all_sessions(None).err().unwrap();
    assert_eq!(error.capability, "sessionCapabilities.list");
    let relative = host
        .new_session(OpenSession::new("here"))
        .await
        .unwrap_err();
    assert_eq!(relative.code(), "invalid-request");
    host.stop().await;
    assert_eq!(methods(&log), ["initialize"]);
}

#[tokio::test]
async fn the_load_of_an_agent_that_can_is_refused_servers_too() {
    let host =
        start(json!({"handshake": handshake(&[], json!({"mcpCapabilities": {"http": true}}))}))
            .await;
    let open = OpenSession {
        mcp_servers: vec![http(), sse()],
        ..OpenSession::new(folder())
    };
    let error = host.load_session("s", open).await.unwrap_err();
    assert_eq!(capability(error), "mcpCapabilities.sse");
}

#[tokio::test]
async fn directories_are_sent_where_advertised_and_else_dropped_with_one_warning() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let open = || OpenSession {
        additional_directories: vec!["/a".into(), "/b".into()],
        ..OpenSession::new(folder())
    };
    let warnings = Warnings::default();
    let script = json!({"log": log, "handshake": handshake(&[], json!({}))});
    let mut codex = agent(&script);
    codex.id = "codex".to_owned();
    let host =
        relay_harness::acp::host::Host::start(codex, environment(), folder(), warnings.options());
    let host = host.await.unwrap();
    host.new_session(open()).await.unwrap();
    host.new_session(open()).await.unwrap();
    let one = OpenSession {
        additional_directories: vec!["/a".into()],
        ..open()
    };
    host.load_session("old", one).await.unwrap();
    assert_eq!(
        warnings.all(),
        ["Agent codex does not advertise additionalDirectories capability — ignoring 2 entries."]
    );
    host.stop().await;
    let sent = received(&log);
    assert!(
        sent.iter()
            .all(|message| message["params"].get("additionalDirectories").is_none())
    );

    let script = json!({"log": log, "handshake": handshake(&["additionalDirectories"], json!({}))});
    let host = try_start(&script, warnings.options()).await.unwrap();
    host.new_session(open()).await.unwrap();
    host.load_session("old", open()).await.unwrap();
    host.stop().await;
    let sent: Vec<Value> = received(&log);
    let sent = sent
        .iter()
        .filter(|message| message["params"]["additionalDirectories"] == json!(["/a", "/b"]));
    assert_eq!(sent.count(), 2);
    assert_eq!(warnings.all().len(), 1);
}

#[tokio::test]
async fn sessions_are_opened_in_every_way() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let script = json!({
        "log": log,
        "handshake": handshake(&["fork", "resume", "close", "systemPrompt"], json!({})),
        "history": [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}}, chunk("I said this")],
        "opened": {"modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]}},
    });
    let host = start(script).await;
    let open = || OpenSession::new(folder());
    let system = OpenSession {
        system_prompt: Some("Be brief.".to_owned()),
        ..open()
    };
    let new = host.new_session(system).await.unwrap();
    assert_eq!(new.id(), "session-1");
    assert_eq!(new.settings().modes.unwrap().current, "ask");
    let fork = host.fork_session(new.id(), open()).await.unwrap();
    assert_eq!(fork.id(), "session-2");
    let loaded = host.load_session("old", open()).await.unwrap();
    assert_eq!(loaded.settings().modes.unwrap().available, ["ask", "code"]);
    let history = [
        loaded.next_event_now().unwrap(),
        loaded.next_event_now().unwrap(),
    ];
    assert_eq!(
        history[0].event,
        Event::UserText {
            text: "hi".to_owned()
        }
    );
    assert_eq!(
        history[1].event,
        Event::Text {
            text: "I said this".to_owned()
        }
    );
    assert!(history.iter().all(|event| event.turn.is_none()));
    let resumed = host.resume_session("older", open()).await.unwrap();
    assert_eq!(resumed.next_event_now(), None);
    let again = host.load_session("old", open()).await.unwrap_err();
    assert_eq!(again.code(), "invalid-request");
    loaded.close().await.unwrap();
    assert_eq!(
        loaded.prompt(["x"]).await.unwrap_err().code(),
        "invalid-request"
    );
    host.load_session("old", open()).await.unwrap();
    host.stop().await;
    assert_eq!(
        methods(&log),
        [
            "initialize",
            "session/new",
            "session/fork",
            "session/load",
            "session/resume",
            "session/close",
            "session/load"
        ]
    );
    let sent = received(&log);
    assert_eq!(
        sent[1]["params"]["systemPrompt"]["content"][0]["text"],
        "Be brief."
    );
    assert_eq!(sent[1]["params"]["mcpServers"], json!([]));
}

#[tokio::test]
async fn a_load_that_fails_leaves_nothing_behind() {
    let script = json!({
        "handshake": handshake(&[], json!({})),
        "errors": {"session/load": {"code": -32002, "message": "no such session"}},
    });
    let host = start(script).await;
    for _ in 0..2 {
        let error = host
            .load_session("gone", OpenSession::new(folder()))
            .await
            .unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }
}

#[tokio::test]
async fn a_session_that_nobody_waits_for_is_called_off() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = json!({"log": log, "silent": ["session/new", "session/load"], "handshake": handshake(&[], json!({}))});
    let host = start(script).await;
    for named in [false, true] {
        let open = OpenSession::new(folder());
        let opening = async {
            match named {
                true => host.load_session("old", open).await,
                false => host.new_session(open).await,
            }
        };
        let asked = 2 + 2 * usize::from(named);
        tokio::select! {
            opened = opening => panic!("{opened:?}"),
            () = until("the call is read", || methods(&log).len() >= asked) => {}
        }
        until("it is called off", || methods(&log).len() > asked).await;
    }
    let expected = [
        "initialize",
        "session/new",
        "$/cancel_request",
        "session/load",
        "$/cancel_request",
    ];
    assert_eq!(methods(&log), expected);
    host.stop().await;
}

#[tokio::test]
async fn stored_sessions_come_page_by_page() {
    let entry =
        |id: &str| json!({"sessionId": id, "cwd": "/w", "title": "T", "updatedAt": "2026-01-01"});
    let pages = json!([[entry("a"), entry("b"), {"no": "id"}], [], [entry("c")]]);
    let host = start(json!({"handshake": handshake(&["list"], json!({})), "pages": pages})).await;
    let page = host.list_sessions(None, None).await.unwrap();
    assert_eq!(page.sessions.len(), 2);
    assert_eq!(page.next_cursor.as_deref(), Some("1"));
    let mut all = host.stream_all_sessions(Some(folder())).unwrap();
    let mut ids = Vec::new();
    while let Some(session) = all.next().await.unwrap() {
        ids.push(session.id);
    }
    assert_eq!(ids, ["a", "b", "c"]);

    let endless = json!({"handshake": handshake(&["list"], json!({})), "pages": [[entry("a")]], "pagesNeverEnd": true});
    let mut all = start(endless).await.stream_all_sessions(None).unwrap();
    let mut count = 0;
    while all.next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 1);
}

#[tokio::test]
async fn updates_around_the_opening_are_kept() {
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "init"}]});
    let script = json!({
        "early": [commands, chunk("early")],
        "after": [chunk("after")],
        "turns": [[{"text": "in"}, {"stop": "end_turn"}]],
    });
    let session = session(script).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(session.next_event().await.unwrap());
    }
    assert!(seen.iter().all(|event| event.turn.is_none()));
    assert_eq!(super::support::text(&seen), "earlyafter");
    assert_eq!(session.settings().commands, ["init"]);
    assert_eq!(
        ask(&session).await,
        ("in".to_owned(), "end_turn".to_owned())
    );
}

#[tokio::test]
async fn settings_are_checked_and_sent() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let option = json!({"id": "model", "category": "model", "type": "select", "currentValue": "a",
        "options": [{"value": "a"}, {"value": "b"}]});
    let modes = json!({"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]});
    let session =
        session(json!({"log": log, "opened": {"modes": modes, "configOptions": [option]}})).await;
    session.set_mode("code").await.unwrap();
    assert_eq!(session.settings().modes.unwrap().current, "code");
    assert_eq!(
        session.set_mode("fly").await.unwrap_err().code(),
        "invalid-request"
    );
    session.set_model("b").await.unwrap();
    assert_eq!(session.settings().options[0].current, "b");
    assert_eq!(
        session.set_model("z").await.unwrap_err().code(),
        "invalid-request"
    );
    assert_eq!(
        session
            .set_option("none", "x".into())
            .await
            .unwrap_err()
            .code(),
        "invalid-request"
    );
    session.host().stop().await;
    assert_eq!(
        methods(&log),
        [
            "initialize",
            "session/new",
            "session/set_mode",
            "session/set_config_option"
        ]
    );
}

#[tokio::test]
async fn an_old_list_of_models_is_used_too() {
    let models =
        json!({"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]});
    let session = session(json!({"opened": {"models": models}})).await;
    session.set_model("b").await.unwrap();
    assert_eq!(session.settings().models.unwrap().current, "b");
}

#[tokio::test]
async fn content_that_can_not_be_taken_is_dropped_with_a_warning() {
    let warnings = Warnings::default();
    let session = session_with(json!({}), warnings.options()).await;
    let image = || PromptContent::Image {
        data: "AA==".to_owned(),
        mime_type: "image/png".to_owned(),
    };
    session
        .prompt(["look".into(), image()])
        .await
        .unwrap()
        .finish()
        .await
        .unwrap();
    assert_eq!(
        warnings.all(),
        ["Agent fake does not take image in a prompt — 1 of 2 parts are dropped."]
    );
    let error = session.prompt([image()]).await.unwrap_err();
    assert_eq!(error.code(), "invalid-request");
}

#[tokio::test]
async fn a_probe_tells_who_is_ready_and_who_claims_too_much() {
    let look = |script: Value, open| {
        probe(
            agent(&script),
            environment(),
            folder(),
            HostOptions::default(),
            open,
        )
    };
    let mut claims = handshake(&["fork", "list"], json!({}));
    claims["_meta"] = json!({"steering": {"supported": true}});
    let honest = look(json!({"handshake": claims}), true).await.unwrap();
    assert!(honest.handshake.extensions.steering && !honest.handshake.answers_anything);
    assert!(honest.session.unwrap().is_ok());

    let liar = json!({"handshake": claims, "answersAnything": true});
    let liar = look(liar, false).await.unwrap();
    assert!(liar.handshake.answers_anything && !liar.handshake.extensions.steering);
    assert!(!liar.handshake.capabilities.fork_session);
    assert!(liar.handshake.capabilities.list_sessions);
    assert!(liar.session.is_none());

    // A host that works with it believes it as little.
    let liar = start(json!({"handshake": claims, "answersAnything": true})).await;
    assert!(!liar.capabilities().fork_session && !liar.handshake().extensions.steering);
    liar.stop().await;

    let signed_out = json!({"errors": {"session/new": {"code": -32000, "message": "sign in"}}});
    let signed_out = look(signed_out, true).await.unwrap();
    assert_eq!(
        signed_out.session.unwrap().unwrap_err().code(),
        "auth-required"
    );
}
