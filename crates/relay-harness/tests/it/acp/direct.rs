//! Agents without a relay.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay_harness::acp::direct::{
    self, Budget, DirectError, JsonForm, Recorder, Replay, Setup, SystemPromptWay,
};
use relay_harness::acp::event::{Event, StopReason};
use relay_harness::child::RestartPolicy;
use serde_json::{Value, json};

use super::support::{Warnings, agent, environment, folder, handshake, methods, received, soon};
use crate::processes::is_running;

fn setup(script: &Value) -> Setup {
    Setup::new(agent(script), environment(), folder())
}

fn usage(cost: f64) -> Value {
    json!({"update": {"sessionUpdate": "usage_update", "used": 1, "cost": {"amount": cost, "currency": "USD"}}})
}

fn said(text: &str) -> Value {
    json!([{"text": text}, {"stop": "end_turn"}])
}

#[tokio::test]
async fn one_question() {
    let thought =
        json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}});
    let script = json!({"turns": [[
        {"update": thought}, {"text": "four"}, {"text": "teen"}, usage(0.1), usage(0.25),
        {"answer": {"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 2}}},
    ]]});
    let answer = soon(direct::ask(&setup(&script), ["7 + 7?"]))
        .await
        .unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.thoughts.as_str()),
        ("fourteen", "hm")
    );
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!((answer.spent.turns, answer.spent.total_tokens), (1, 3));
    assert!((answer.spent.cost_usd - 0.25).abs() < 1e-9);
    assert_eq!(
        (answer.agent.as_str(), answer.session_id.as_str()),
        ("fake", "session-1")
    );
}

#[tokio::test]
async fn a_stream_ends_with_its_agent() {
    let script = json!({"turns": [[{"text": "a"}, {"text": "b"}, {"stop": "end_turn"}]]});
    let mut stream = direct::stream(&setup(&script), ["go"]).await.unwrap();
    let pid = stream.session().host().pid().unwrap();
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(
        first.event,
        Event::Text {
            text: "a".to_owned()
        }
    );
    let answer = soon(stream.finish()).await.unwrap();
    assert_eq!(answer.text, "ab");
    assert!(!is_running(pid));
}

#[tokio::test]
async fn a_stream_is_cancelled_from_elsewhere() {
    let script = json!({"turns": [[{"text": "a"}, {"untilCancelled": true}, {"text": "b"}, {"stop": "end_turn"}]]});
    let mut stream = direct::stream(&setup(&script), ["go"]).await.unwrap();
    let session = stream.session().clone();
    stream.next().await.unwrap().unwrap();
    session.cancel();
    let answer = soon(stream.finish()).await.unwrap();
    assert_eq!(
        (answer.text.as_str(), answer.stop_reason),
        ("a", StopReason::Cancelled)
    );
}

#[tokio::test]
async fn a_conversation_counts_what_it_grows_by() {
    let script = json!({"turns": [
        [usage(0.1), {"text": "1"}, {"stop": "end_turn"}],
        [usage(0.2), {"text": "2"}, {"stop": "end_turn"}],
        [usage(0.3), {"text": "3"}, {"stop": "end_turn"}],
    ]});
    let mut conversation = direct::session(setup(&script)).await.unwrap();
    for expected in ["1", "2", "3"] {
        assert_eq!(conversation.ask(["go"]).await.unwrap().text, expected);
    }
    let spent = conversation.spending().spent();
    assert!((spent.cost_usd - 0.3).abs() < 1e-9, "{spent:?}");
    assert_eq!(spent.turns, 3);
    conversation.close().await;
}

#[tokio::test]
async fn a_budget_ends_the_turn_and_refuses_the_next() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let script = json!({"log": log, "turns": [[
        {"text": "x"}, usage(0.1), usage(0.6), {"untilCancelled": true}, {"text": "more"}, {"stop": "cancelled"},
    ]]});
    let mut setup = setup(&script);
    setup.budget = Budget {
        cost_usd: Some(0.5),
        tokens: None,
    };
    let mut conversation = direct::session(setup).await.unwrap();
    let error = soon(conversation.ask(["go"])).await.unwrap_err();
    assert_eq!(error.code(), "budget-exceeded");
    assert!(!conversation.session().is_busy());
    let error = conversation.ask(["again"]).await.unwrap_err();
    assert_eq!(error.code(), "budget-exceeded");
    conversation.close().await;
    assert_eq!(
        methods(&log),
        [
            "initialize",
            "session/new",
            "session/prompt",
            "session/cancel"
        ]
    );
}

#[tokio::test]
async fn a_budget_that_can_not_be_kept_is_said() {
    let warnings = Warnings::default();
    let mut setup = setup(&json!({}));
    setup.host = warnings.options();
    setup.budget = Budget {
        cost_usd: Some(1.0),
        tokens: None,
    };
    direct::ask(&setup, ["go"]).await.unwrap();
    assert_eq!(
        warnings.all(),
        ["Agent fake does not tell its cost — the budget can't be kept."]
    );
}

#[tokio::test]
async fn an_answer_in_a_given_form_is_asked_for_until_it_is() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let form = JsonForm::new(
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}),
    );
    let form = form.unwrap();
    let script = json!({"log": log, "turns": [
        said("I think it is seven."), said("```json\n{\"n\": \"seven\"}\n```"), said("{\"n\": 7}"),
    ]});
    let answer = soon(direct::ask_json(&setup(&script), "How many?", &form))
        .await
        .unwrap();
    assert_eq!((answer.value, answer.attempts), (json!({"n": 7}), 3));
    let prompts: Vec<String> = received(&log)
        .iter()
        .filter(|message| message["method"] == "session/prompt")
        .map(|message| message["params"]["prompt"][0]["text"].to_string())
        .collect();
    assert!(prompts[0].contains("How many?") && prompts[0].contains("integer"));
    assert!(prompts[1].contains("no JSON"), "{}", prompts[1]);
    assert!(prompts[2].contains("/n"), "{}", prompts[2]);

    let never = json!({"turns": [said("{\"n\": \"seven\"}")]});
    let error = soon(direct::ask_json(&setup(&never), "How many?", &form))
        .await
        .unwrap_err();
    let DirectError::Json { text, issues } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (text.as_str(), issues[0].path.as_str()),
        ("{\"n\": \"seven\"}", "/n")
    );
}

#[tokio::test]
async fn a_system_prompt_goes_the_way_that_there_is() {
    let place = tempfile::tempdir().unwrap();
    let sent = async |script: Value, name: &str| {
        let log = place.path().join(name);
        let mut script = script;
        script["log"] = json!(log);
        let mut setup = setup(&script);
        setup.system_prompt = Some("Be brief.".to_owned());
        let mut conversation = direct::session(setup).await.unwrap();
        let way = conversation.system_prompt_way();
        conversation.ask(["go"]).await.unwrap();
        conversation.close().await;
        let sent = received(&log);
        let in_new = sent[1]["params"]["systemPrompt"]["content"][0]["text"] == "Be brief.";
        let in_prompt = sent[2]["params"]["prompt"][0]["text"] == "Be brief.\n\n";
        (way, in_new, in_prompt)
    };
    let able = json!({"handshake": handshake(&["systemPrompt"], json!({}))});
    assert_eq!(sent(able, "a").await, (SystemPromptWay::Field, true, false));
    assert_eq!(
        sent(json!({}), "b").await,
        (SystemPromptWay::InFront, false, true)
    );
}

#[tokio::test]
async fn a_stored_session_goes_on_at_the_first_opening() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let history: Vec<Value> = (0..50).map(|_| super::support::chunk("old")).collect();
    let opened = |capabilities: &[&str], is_late: bool| json!({"log": log, "handshake": handshake(capabilities, json!({})), "history": history, "historyIsLate": is_late});
    for (capabilities, is_late, method) in [
        (&[][..], false, "session/load"),
        // Some agents play back what was said only when they have answered.
        (&[], true, "session/load"),
        (&["resume"], false, "session/resume"),
    ] {
        let _ = std::fs::remove_file(&log);
        let mut setup = setup(&opened(capabilities, is_late));
        setup.load = Some("stored".to_owned());
        let answer = soon(direct::ask(&setup, ["go"])).await.unwrap();
        assert_eq!(
            (answer.session_id.as_str(), answer.text.as_str()),
            ("stored", "hello")
        );
        assert_eq!(methods(&log), ["initialize", method, "session/prompt"]);
    }
}

#[tokio::test]
async fn the_asking_mode_and_the_model_are_set() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let modes =
        json!({"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "read-only"}]});
    let models =
        json!({"currentModelId": "a", "availableModels": [{"modelId": "a"}, {"modelId": "b"}]});
    let script = json!({"log": log, "opened": {"modes": modes, "models": models}});
    let mut setup = setup(&script);
    setup.agent.asking_mode = Some("read-only".to_owned());
    setup.model = Some("b".to_owned());
    direct::ask(&setup, ["go"]).await.unwrap();
    let sent = received(&log);
    assert_eq!(sent[2]["params"]["modeId"], "read-only");
    assert_eq!(sent[3]["params"]["modelId"], "b");
    // One that the agent does not have is not asked for.
    setup.agent.asking_mode = Some("paranoid".to_owned());
    direct::ask(&setup, ["go"]).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_ended_is_started_again_where_the_policy_says_so() {
    let script =
        json!({"handshake": handshake(&[], json!({})), "turns": [[{"text": "x"}, {"exit": 1}]]});
    let mut once = setup(&script);
    once.restart = RestartPolicy {
        attempts: 1,
        first_delay: Duration::ZERO,
        ..RestartPolicy::STANDARD
    };
    let mut conversation = direct::session(once).await.unwrap();
    let first = conversation.session().host().pid();
    for _ in 0..2 {
        let error = soon(conversation.ask(["go"])).await.unwrap_err();
        assert_eq!(error.code(), "connection-closed");
    }
    let second = conversation.session().host().pid();
    assert_ne!(first, second);
    assert_eq!(conversation.session().id(), "session-1");
    let error = soon(conversation.ask(["go"])).await.unwrap_err();
    assert_eq!(error.code(), "connection-closed");
    assert_eq!(conversation.session().host().pid(), second);

    let mut never = direct::session(setup(&script)).await.unwrap();
    let first = never.session().host().pid();
    for _ in 0..2 {
        soon(never.ask(["go"])).await.unwrap_err();
    }
    assert_eq!(never.session().host().pid(), first);
}

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_was_recorded_can_be_played_again() {
    let script = json!({"turns": [
        [{"update": {"sessionUpdate": "hologram", "x": 1}}, {"text": "a"}, usage(0.5),
            {"text": " OPENAI_API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz012345"},
            {"answer": {"stopReason": "end_turn", "usage": {"totalTokens": 9}}}],
        said("b"),
    ]});
    let mut conversation = direct::session(setup(&script)).await.unwrap();
    let paper = Paper::default();
    conversation.record(Recorder::new(paper.clone())).unwrap();
    let first = conversation.ask(["one"]).await.unwrap();
    let second = conversation.ask(["two"]).await.unwrap();
    conversation.close().await;
    let written = paper.0.lock().unwrap().clone();
    let text = String::from_utf8(written.clone()).unwrap();
    assert!(!text.contains("abcdefghijkl"), "{text}");

    let mut replay = Replay::read(&written[..]).unwrap();
    assert_eq!(
        (replay.agent.as_str(), replay.session_id.as_str()),
        ("fake", "session-1")
    );
    let (prompt, played) = replay.next_answer().unwrap();
    assert_eq!(prompt, "one");
    assert!(
        played.text.starts_with("a OPENAI_API_KEY=[redacted"),
        "{}",
        played.text
    );
    assert_eq!(
        (played.stop_reason, played.tokens),
        (first.stop_reason, first.tokens)
    );
    assert!((played.spent.cost_usd - 0.5).abs() < 1e-9);
    let (prompt, played) = replay.next_answer().unwrap();
    assert_eq!(
        (prompt.as_str(), played.text.as_str()),
        ("two", second.text.as_str())
    );
    assert!(replay.next_answer().is_none());

    let mut replay = Replay::read(&written[..]).unwrap();
    let mut raw = 0;
    while let Some(event) = replay.next_in_time().await {
        raw += usize::from(matches!(event.event, Event::Raw { .. }));
    }
    assert_eq!(raw, 1);
}
