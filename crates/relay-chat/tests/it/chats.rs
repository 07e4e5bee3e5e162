//! Viewers, decisions, and time.

use std::time::Duration;

use relay_chat::Viewer;
use relay_protocol::limits::{CHAT_HEARTBEAT_MS, CHAT_LOG_EVENTS, CHATS};
use serde_json::{Value, json};

use crate::puppet::{Stage, at, relay, seen};

/// All that is left, as `type` or the text.
async fn rest(viewer: &mut Viewer) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((_, event)) = seen(viewer).await {
        found.push(word(&event));
    }
    found
}

fn word(event: &Value) -> String {
    let content = event["content"].as_str().or(event["type"].as_str());
    content.unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_chat_from_beginning_to_end() {
    let mut stage = Stage::new();
    let (mut viewer, session, mut strings) = stage.begin(json!({})).await;
    strings.tell("a");
    strings.tell("b");
    assert_eq!(seen(&mut viewer).await.unwrap().0, Some(2));
    strings.finish().await;
    assert_eq!(rest(&mut viewer).await, ["b"]);
    // Who has seen the end leaves nothing behind.
    drop(viewer);
    assert_eq!(
        stage.gateway.look(&session, None).unwrap_err().to_string(),
        "Session not found"
    );
}

#[tokio::test]
async fn a_run_that_breaks_down_ends_its_chat() {
    let mut stage = Stage::new();
    let (mut viewer, session, mut strings) = stage.begin(json!({})).await;
    strings.tell("a");
    strings.ask(relay(1));
    strings.break_down();
    assert_eq!(rest(&mut viewer).await, ["a", "relay", "error"]);
    let late = stage
        .resolve(&relay(1).to_string(), &session, json!({ "approved": true }))
        .await;
    assert_eq!(late.unwrap_err().to_string(), "Session not found");
    stage.gateway.stop().await;
}

#[tokio::test]
async fn who_may_decide_and_when() {
    let mut stage = Stage::new();
    let (_viewer, session, mut strings) = stage.begin(json!({})).await;
    let (_other_viewer, other, _other_strings) = stage.begin(json!({})).await;
    let (asked, never) = (relay(1), relay(2));
    strings.ask(asked);
    let (id, yes) = (asked.to_string(), json!({ "approved": true }));
    let not_found = |what: &str| json!({ "error": format!("{what} not found") });
    for (relay, session, expected) in [
        (&*id, "nobody", not_found("Session")),
        (
            &*id,
            "01963a5c-7890-7abc-8ef0-123456789abc",
            not_found("Session"),
        ),
        (&*never.to_string(), &*session, not_found("Relay")),
        ("x", &*session, not_found("Relay")),
        // Of another chat: as if it was not there.
        (&*id, &*other, not_found("Relay")),
    ] {
        let refused = stage
            .resolve(relay, session, yes.clone())
            .await
            .unwrap_err();
        assert_eq!(
            (refused.status, refused.body),
            (404, expected),
            "{relay} {session}"
        );
    }
    for response in [
        json!(null),
        json!({}),
        json!("yes"),
        json!([]),
        json!({ "approved": "false" }),
    ] {
        let refused = stage.resolve(&id, &session, response).await.unwrap_err();
        assert_eq!(refused.status, 400);
    }
    assert!(strings.decided.0.lock().unwrap().is_empty());
    let success = stage.resolve(&id, &session, yes.clone()).await.unwrap();
    assert_eq!(success, json!({ "success": true }));
    let late = stage
        .resolve(&id, &session, json!({ "approved": false }))
        .await
        .unwrap_err();
    assert_eq!(
        (late.status, late.to_string().as_str()),
        (404, "Relay not found")
    );
    assert_eq!(late.body["code"], "relay_already_resolved");
    assert_eq!(late.body["decision"], "approved");
    assert_eq!(strings.decided.0.lock().unwrap().len(), 1);
    strings.finish().await;
    while stage
        .resolve(&id, &session, yes.clone())
        .await
        .unwrap_err()
        .to_string()
        != "Session not found"
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn without_hold_a_chat_ends_with_its_last_viewer() {
    let mut stage = Stage::new();
    let (viewer, session, mut strings) = stage.begin(json!({})).await;
    let second = stage.gateway.look(&session, None).unwrap();
    drop(viewer);
    strings.ask(relay(1));
    drop(second);
    strings.cancelled().await;
    let late = stage
        .resolve(&relay(1).to_string(), &session, json!({ "approved": true }))
        .await;
    assert_eq!(late.unwrap_err().to_string(), "Session not found");
    assert!(strings.decided.0.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_is_held_goes_on_and_can_be_picked_up() {
    let mut stage = Stage::new();
    let hold = json!({ "onDisconnect": { "hold": 60 } });
    let (mut viewer, session, mut strings) = stage.begin(hold).await;
    strings.tell("a");
    let (last, _) = seen(&mut viewer).await.unwrap();
    drop(viewer);
    strings.tell("b");
    strings.ask(relay(1));
    strings.ask(relay(2));
    strings.resolved(relay(1));
    strings.tell("c");
    tokio::time::sleep(Duration::from_secs(59)).await;
    let seen_last = last.unwrap().to_string();
    let mut again = stage.gateway.look(&session, Some(&seen_last)).unwrap();
    // The question that waits is first, and does not come again.
    let (id, first) = seen(&mut again).await.unwrap();
    assert_eq!(
        (id, &first["id"], &first["replay"]),
        (None, &json!(relay(2)), &json!(true))
    );
    let mut found = Vec::new();
    for _ in 0..4 {
        let (id, event) = seen(&mut again).await.unwrap();
        found.push((id.unwrap(), word(&event)));
    }
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["b", "relay", "relay_resolved", "c"]);
    assert!(found.is_sorted());
    // Somebody looks: time stands still.
    tokio::time::sleep(Duration::from_secs(600)).await;
    drop(again);
    strings.tell("d");
    tokio::time::sleep(Duration::from_secs(61)).await;
    strings.cancelled().await;
    assert_eq!(stage.gateway.look(&session, None).unwrap_err().status, 404);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_held_chat_can_be_seen_later() {
    let mut stage = Stage::new();
    let hold = json!({ "onDisconnect": { "hold": 60 } });
    let (viewer, session, mut strings) = stage.begin(hold).await;
    drop(viewer);
    strings.tell("last words");
    strings.finish().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mut again = stage.gateway.look(&session, Some("1")).unwrap();
    assert_eq!(rest(&mut again).await, ["last words"]);
}

#[tokio::test]
async fn who_is_too_far_behind_is_told() {
    let mut stage = Stage::new();
    let (mut slow, session, mut strings) = stage.begin(json!({})).await;
    strings.ask(relay(1));
    for _ in 0..CHAT_LOG_EVENTS {
        strings.tell("x");
    }
    strings.finish().await;
    let mut again = stage.gateway.look(&session, Some("1")).unwrap();
    let (_, told) = seen(&mut again).await.unwrap();
    assert_eq!(
        (&told["type"], &told["firstId"]),
        (&json!("resync_required"), &json!(3))
    );
    assert_eq!(word(&seen(&mut again).await.unwrap().1), "relay");
    assert_eq!(rest(&mut again).await.len(), CHAT_LOG_EVENTS);
    // One that looked all the time and did not read is no better off, and sees what waits as well.
    assert_eq!(word(&seen(&mut slow).await.unwrap().1), "resync_required");
    let (_, waiting) = seen(&mut slow).await.unwrap();
    assert_eq!(
        (&waiting["id"], &waiting["replay"]),
        (&json!(relay(1)), &json!(true))
    );
    assert_eq!(rest(&mut slow).await.len(), CHAT_LOG_EVENTS);
    for wrong in ["999999", "18446744073709551615"] {
        let mut mistaken = stage.gateway.look(&session, Some(wrong)).unwrap();
        let (_, told) = seen(&mut mistaken).await.unwrap();
        assert_eq!(
            (&told["type"], &told["firstId"]),
            (&json!("resync_required"), &json!(3))
        );
        assert_eq!(word(&seen(&mut mistaken).await.unwrap().1), "relay");
        assert_eq!(rest(&mut mistaken).await.len(), CHAT_LOG_EVENTS);
    }
    for wrong in ["x", "-1", "1.5"] {
        assert_eq!(
            stage
                .gateway
                .look(&session, Some(wrong))
                .unwrap_err()
                .status,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_shows_that_it_lives() {
    let mut stage = Stage::new();
    let (mut viewer, _session, _strings) = stage.begin(json!({})).await;
    let before = tokio::time::Instant::now();
    assert_eq!(&*viewer.next().await.unwrap(), b": heartbeat\n\n");
    assert_eq!(before.elapsed(), Duration::from_millis(CHAT_HEARTBEAT_MS));
}

#[tokio::test]
async fn there_is_place_for_so_many_chats() {
    let stage = Stage::new();
    let body = json!({ "messages": [] }).to_string();
    let mut viewers = Vec::new();
    for _ in 0..CHATS {
        viewers.push(
            stage
                .gateway
                .begin(body.as_bytes(), (), at())
                .await
                .unwrap(),
        );
    }
    let refused = stage
        .gateway
        .begin(body.as_bytes(), (), at())
        .await
        .unwrap_err();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (429, &json!("limit_exceeded"))
    );
    viewers.pop();
    stage
        .gateway
        .begin(body.as_bytes(), (), at())
        .await
        .unwrap();
}

#[tokio::test]
async fn the_end_of_the_server_is_the_end_of_chats() {
    let mut stage = Stage::new();
    let (mut viewer, session, mut strings) =
        stage.begin(json!({ "onDisconnect": { "hold": 60 } })).await;
    stage.gateway.stop().await;
    strings.cancelled().await;
    assert_eq!(rest(&mut viewer).await, Vec::<String>::new());
    let body = json!({ "messages": [] }).to_string();
    let refused = stage
        .gateway
        .begin(body.as_bytes(), (), at())
        .await
        .unwrap_err();
    assert_eq!(refused.status, 503);
    assert_eq!(stage.gateway.cancel(&session), Ok(()));
}
