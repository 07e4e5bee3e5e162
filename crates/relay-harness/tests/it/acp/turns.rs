//! Prompts, what comes of them, and cancelling.

use relay_harness::acp::event::{Event, StopReason, Tokens};
use relay_harness::acp::host::{HostError, Steered};
use serde_json::{Value, json};

use super::support::{all, ask, chunk, handshake, received, session, soon, text, until_text};

fn pair(text: &str, end: &str) -> (String, String) {
    (text.to_owned(), end.to_owned())
}

#[tokio::test]
async fn a_turn_is_streamed_in_order() {
    let script = json!({"turns": [[
        {"text": "one "},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls", "kind": "execute"}},
        {"update": {"sessionUpdate": "hologram", "beam": 3}},
        {"text": "two"},
        {"answer": {"stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}}},
    ]]});
    let session = session(script).await;
    let turn = session.prompt(["go"]).await.unwrap();
    assert_eq!(turn.number(), 1);
    let events = all(turn).await;
    assert!(events.iter().all(|event| event.turn == Some(1)));
    let kinds: Vec<Value> = events
        .iter()
        .map(|event| serde_json::to_value(&event.event).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds, ["text", "tool-call", "raw", "text", "turn-ended"]);
    let Event::TurnEnded { tokens, .. } = &events[4].event else {
        panic!("{:?}", events[4]);
    };
    assert_eq!(
        *tokens,
        Some(Tokens {
            input: 3,
            output: 4,
            total: 7
        })
    );
    assert!(!session.is_busy());
}

#[tokio::test]
async fn stop_reasons_and_errors_come_through() {
    let script = json!({"turns": [
        [{"stop": "max_tokens"}],
        [{"stop": "weather"}],
        [{"error": {"code": -32603, "message": "model is gone"}}],
        [{"answer": null}],
        [{"stop": "end_turn"}],
    ]});
    let session = session(script).await;
    let next = async || session.prompt(["go"]).await.unwrap().finish().await;
    assert_eq!(next().await.unwrap().stop_reason, StopReason::MaxTokens);
    assert_eq!(
        next().await.unwrap().stop_reason,
        StopReason::Other("weather".to_owned())
    );
    let error = next().await.unwrap_err();
    assert!(
        matches!(&error, HostError::Refused { code: -32603, .. }),
        "{error}"
    );
    assert_eq!(
        next().await.unwrap().stop_reason,
        StopReason::Other(String::new())
    );
    assert_eq!(next().await.unwrap().stop_reason, StopReason::EndTurn);
}

#[tokio::test]
async fn a_busy_session_takes_no_prompt() {
    let session = session(
        json!({"turns": [[{"text": "x"}, {"untilCancelled": true}, {"stop": "cancelled"}]]}),
    )
    .await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "x").await;
    assert_eq!(session.prompt(["again"]).await.unwrap_err().code(), "busy");
    turn.cancel();
    assert_eq!(
        turn.finish().await.unwrap().stop_reason,
        StopReason::Cancelled
    );
}

#[tokio::test]
async fn after_a_cancel_nothing_of_the_turn_is_handed_on() {
    // The agent goes on talking after the cancel, and once more after its answer.
    let script = json!({"turns": [
        [
            {"text": "before"}, {"untilCancelled": true},
            {"flood": 50},
            {"update": {"sessionUpdate": "usage_update", "used": 5, "size": 10}},
            {"stop": "end_turn"},
            {"text": "even later"},
        ],
        [{"text": "second"}, {"stop": "end_turn"}],
    ]});
    let session = session(script).await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "before").await;
    turn.cancel();
    let rest = all(turn).await;
    assert_eq!(text(&rest), "");
    let end = &rest.last().unwrap().event;
    assert!(
        matches!(
            end,
            Event::TurnEnded {
                stop_reason: StopReason::Cancelled,
                ..
            }
        ),
        "{end:?}"
    );
    // What is the session's own is not lost.
    assert_eq!(session.usage().used, Some(5));
    // Waits for the answer to the first prompt, and is not mixed up with it.
    assert_eq!(ask(&session).await, pair("second", "end_turn"));
}

#[tokio::test]
async fn what_waited_to_be_read_when_it_was_cancelled_is_gone() {
    let script = json!({"turns": [[{"flood": 100}, {"untilCancelled": true}, {"stop": "cancelled"}], [{"stop": "end_turn"}]]});
    let session = session(script).await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "0 ").await;
    turn.cancel();
    assert_eq!(text(&all(turn).await), "");
    // The next prompt right behind a cancel: it waits for the turn that ends.
    let second = session.prompt(["go"]).await.unwrap();
    assert_eq!(
        second.finish().await.unwrap().stop_reason,
        StopReason::EndTurn
    );
}

#[tokio::test]
async fn a_prompt_right_behind_a_cancel_waits_for_its_confirmation() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let script = json!({"log": log, "turns": [
        [{"text": "x"}, {"untilCancelled": true}, {"text": "old"}, {"stop": "cancelled"}],
        [{"text": "new"}, {"stop": "end_turn"}],
    ]});
    let session = session(script).await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "x").await;
    session.cancel();
    let second = session.prompt(["next"]).await.unwrap();
    assert_eq!(second.number(), 2);
    drop(turn);
    assert_eq!(text(&all(second).await), "new");
    let sent: Vec<Value> = received(&log)
        .iter()
        .map(|message| message["method"].clone())
        .collect();
    assert_eq!(
        sent,
        [
            "initialize",
            "session/new",
            "session/prompt",
            "session/cancel",
            "session/prompt"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_is_never_confirmed_does_not_hang() {
    let (mine, theirs) = tokio::io::duplex(64 * 1024);
    let agent = super::support::agent(&json!({}));
    tokio::spawn(mute_agent(theirs));
    let (input, output) = tokio::io::split(mine);
    let options = relay_harness::acp::host::HostOptions::default();
    let host = relay_harness::acp::host::Host::connect(agent, input, output, options)
        .await
        .unwrap();
    let open = relay_harness::acp::host::OpenSession::new(super::support::folder());
    let session = host.new_session(open).await.unwrap();
    let turn = session.prompt(["go"]).await.unwrap();
    turn.cancel();
    assert_eq!(turn.finish().await.unwrap_err().code(), "stuck");
    assert_eq!(session.prompt(["go"]).await.unwrap_err().code(), "stuck");
}

/// Opens a session and never answers a prompt.
async fn mute_agent(stream: tokio::io::DuplexStream) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": 1}),
            Some("session/new") => json!({"sessionId": "s"}),
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        output
            .write_all(format!("{answer}\n").as_bytes())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_turn_that_nobody_reads_any_more_is_cancelled() {
    let script = json!({"turns": [[{"text": "x"}, {"untilCancelled": true}, {"stop": "cancelled"}], [{"text": "y"}, {"stop": "end_turn"}]]});
    let session = session(script).await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "x").await;
    drop(turn);
    soon(session.idle()).await.unwrap();
    assert_eq!(ask(&session).await, pair("y", "end_turn"));
}

#[tokio::test]
async fn updates_between_turns_belong_to_none() {
    let script = json!({"turns": [
        [{"text": "first"}, {"stop": "end_turn"}, {"text": "late"},
            {"update": {"sessionUpdate": "session_info_update", "title": "About it"}}],
        [{"text": "second"}, {"stop": "end_turn"}],
    ]});
    let session = session(script).await;
    assert_eq!(ask(&session).await, pair("first", "end_turn"));
    let late = session.next_event().await.unwrap();
    assert_eq!((late.turn, text(&[late])), (None, "late".to_owned()));
    let title = session.next_event().await.unwrap();
    assert_eq!(
        title.event,
        Event::Title {
            title: "About it".to_owned()
        }
    );
    assert_eq!(session.settings().title.as_deref(), Some("About it"));
    assert_eq!(ask(&session).await, pair("second", "end_turn"));
}

#[tokio::test]
async fn sessions_in_one_process_do_not_mix() {
    let script = json!({"turns": [
        [{"text": "a"}, {"stop": "end_turn"}],
        [{"text": "b"}, {"stop": "end_turn"}],
    ]});
    let one = session(script).await;
    let open = relay_harness::acp::host::OpenSession::new(super::support::folder());
    let two = one.host().new_session(open).await.unwrap();
    assert_eq!(ask(&one).await, pair("a", "end_turn"));
    assert_eq!(ask(&two).await, pair("b", "end_turn"));
    assert_eq!((one.next_event_now(), two.next_event_now()), (None, None));
}

#[tokio::test]
async fn a_second_prompt_can_be_queued_where_the_agent_does_that() {
    let script = json!({"turns": [
        [{"text": "one"}, {"untilPrompt": true}, {"text": "!"}, {"stop": "end_turn"}],
        [{"text": "two"}, {"stop": "end_turn"}],
    ]});
    let session = session(script).await;
    let mut first = session.prompt(["go"]).await.unwrap();
    until_text(&mut first, "one").await;
    let second = session.prompt_behind(["more"]).await.unwrap();
    assert_eq!(
        (text(&all(first).await), text(&all(second).await)),
        ("!".to_owned(), "two".to_owned())
    );
}

#[tokio::test]
async fn steering_is_used_only_where_advertised() {
    let mut steers = handshake(&[], json!({}));
    steers["_meta"] = json!({"steering": {"supported": true}});
    let script = |outcome: &str| json!({"handshake": steers, "steering": outcome});
    let injected = session(script("injected")).await;
    assert_eq!(injected.steer(["now"]).await.unwrap(), Steered::Injected);
    let began = session(script("startedNewTurn")).await;
    assert_eq!(began.steer(["now"]).await.unwrap(), Steered::StartedTurn);
    let odd = session(script("perhaps")).await;
    assert_eq!(
        odd.steer(["now"]).await.unwrap_err().code(),
        "malformed-answer"
    );
    let not = session(json!({})).await;
    assert_eq!(
        not.steer(["now"]).await.unwrap_err().code(),
        "capability-not-supported"
    );
}

#[tokio::test]
async fn usage_without_a_cost_does_not_erase_it() {
    let usage = |value: Value| json!({"update": {"sessionUpdate": "usage_update", "used": 1, "cost": value}});
    let script = json!({"turns": [[
        usage(json!({"amount": 0.25, "currency": "USD"})), usage(Value::Null), {"stop": "end_turn"}
    ]], "after": [chunk("x")]});
    let session = session(script).await;
    ask(&session).await;
    assert_eq!(session.usage().cost_usd, Some(0.25));
}
