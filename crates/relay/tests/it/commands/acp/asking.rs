//! `relay acp ask`, `stream` and `json`: answers, what the agent may do, what it may cost, and how it is stopped.

use serde_json::{Value, json};

use super::{command, interrupted, json_of, ok, playing, refused, run};
use crate::support::{ended, processes_with, text, told};

/// A turn that asks for permission.
fn asks() -> Value {
    json!([
        {"text": "I will. "},
        {"ask": {
            "toolCall": {"toolCallId": "c", "kind": "execute", "title": "rm x", "rawInput": {"command": "rm x"}},
            "options": [
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ],
        }},
        {"stop": "end_turn"},
    ])
}

#[tokio::test]
async fn an_answer_is_printed_and_told() {
    let setup = playing(json!({"turns": [[
        {"text": "Four, "}, {"text": "of course.\u{1b}[31m"},
        {"answer": {"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 2}}},
    ]]}));
    assert_eq!(
        ok(&setup, &["acp", "ask", "fake", "2+2?"]).await,
        "Four, of course.[31m\n"
    );
    let answer = json_of(&setup, &["acp", "ask", "fake", "2+2?"]).await;
    assert_eq!(answer["agent"], "fake");
    assert_eq!(answer["sessionId"], "session-1");
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(
        answer["tokens"],
        json!({"input": 5, "output": 2, "total": 7})
    );
    let log = setup.file("agent-log");
    assert_eq!(
        told(&log, "session/prompt")[0]["params"]["prompt"][0]["text"],
        "2+2?"
    );

    // From standard input.
    let mut child = command(&setup, &["acp", "ask", "fake", "-"]);
    child.stdin(std::process::Stdio::piped());
    child.stdout(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"a long question")
        .await
        .unwrap();
    drop(stdin);
    assert_eq!(ended(child).await.code, 0);
    let prompts = told(&log, "session/prompt");
    assert_eq!(
        prompts.last().unwrap()["params"]["prompt"][0]["text"],
        "a long question"
    );
}

#[tokio::test]
async fn a_stream_is_told_piece_by_piece() {
    let setup = playing(json!({"turns": [[
        {"text": "one\ntwo"},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read", "title": "Read a.txt"}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}},
        {"text": "three"},
        {"stop": "end_turn"},
    ]]}));
    assert_eq!(
        ok(&setup, &["acp", "stream", "fake", "go"]).await,
        "one\ntwo\ntool read: Read a.txt  called\ntool read: Read a.txt  completed\nthree\n"
    );
    let out = ok(&setup, &["acp", "stream", "fake", "go", "--json"]).await;
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0],
        json!({"turn": 1, "event": {"type": "text", "text": "one\ntwo"}})
    );
    assert_eq!(lines.last().unwrap()["answer"]["text"], "one\ntwothree");
}

#[tokio::test]
async fn nothing_is_allowed_without_a_word() {
    let setup = playing(json!({"turns": [asks()]}));
    let rejected = "I will. outcome {\"outcome\":\"selected\",\"optionId\":\"no\"}\n";
    let allowed = "I will. outcome {\"outcome\":\"selected\",\"optionId\":\"yes\"}\n";
    assert_eq!(ok(&setup, &["acp", "ask", "fake", "go"]).await, rejected);
    let asked = ["acp", "ask", "fake", "go", "--allow"];
    assert_eq!(
        ok(&setup, &[&asked[..], &["none"]].concat()).await,
        rejected
    );
    assert_eq!(ok(&setup, &[&asked[..], &["each"]].concat()).await, allowed);
    let (code, said) = refused(&setup, &[&asked[..], &["all"]].concat()).await;
    assert_eq!(code, 2);
    assert!(said.contains("[possible values: each, none]"), "{said}");
}

#[tokio::test]
async fn a_budget_ends_the_turn_in_which_it_is_reached() {
    let cost = |amount: f64| json!({"update": {"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": {"amount": amount, "currency": "USD"}}});
    let setup = playing(json!({"turns": [[
        cost(0.1), cost(0.6), {"untilCancelled": true}, {"stop": "cancelled"},
    ]]}));
    let (code, said) = refused(&setup, &["acp", "ask", "fake", "go", "--max-cost", "0.50"]).await;
    assert_eq!(
        (code, said.as_str()),
        (1, "relay: the budget is spent: 0.6000 USD of 0.5000 USD\n")
    );
    let (code, said) = refused(&setup, &["acp", "ask", "fake", "go", "--max-cost", "much"]).await;
    assert_eq!(code, 2);
    assert!(said.contains("expected US dollars, such as 0.50"), "{said}");
}

#[tokio::test]
async fn what_was_recorded_is_played_without_the_agent() {
    let setup = playing(json!({"turns": [[{"text": "Recorded."}, {"stop": "end_turn"}]]}));
    let file = setup.file("record.jsonl");
    let file = text(&file);
    ok(&setup, &["acp", "ask", "fake", "hello", "--record", file]).await;
    setup.agents(&[]);
    for kind in ["ask", "stream"] {
        let played = ok(&setup, &["acp", kind, "fake", "hello", "--replay", file]).await;
        assert_eq!(played, "Recorded.\n", "{kind}");
    }
    let (code, said) = refused(&setup, &["acp", "ask", "fake", "bye", "--replay", file]).await;
    assert_eq!(code, 4);
    assert_eq!(
        said,
        format!("relay: expected the prompt \"bye\" in {file}, found \"hello\"\n")
    );
    std::fs::write(file, "words\n").unwrap();
    let (code, said) = refused(&setup, &["acp", "ask", "fake", "hello", "--replay", file]).await;
    assert_eq!(code, 2);
    assert!(said.contains("line 1 of the transcript"), "{said}");
}

#[tokio::test]
async fn an_answer_has_the_form_that_was_asked_for() {
    let setup = playing(json!({"turns": [
        [{"text": "Well, it is {\"age\": \"old\"}"}, {"stop": "end_turn"}],
        [{"text": "```json\n{\"age\": 7}\n```"}, {"stop": "end_turn"}],
    ]}));
    let schema = setup.file("schema.json");
    std::fs::write(
        &schema,
        r#"{"type": "object", "properties": {"age": {"type": "integer"}}}"#,
    )
    .unwrap();
    let schema = text(&schema);
    let asked = ["acp", "json", "fake", "How old?", "--schema", schema];
    assert_eq!(ok(&setup, &asked).await, "{\n  \"age\": 7\n}\n");
    let shown = json_of(&setup, &asked).await;
    assert_eq!(
        (&shown["value"]["age"], &shown["attempts"]),
        (&json!(7), &json!(2))
    );
    let (code, said) = refused(&setup, &[&asked[..], &["--retries", "0"]].concat()).await;
    assert_eq!(code, 1);
    assert!(
        said.starts_with("relay: no answer of the form that was asked for: /age: "),
        "{said}"
    );
    let nowhere = [
        "acp",
        "json",
        "fake",
        "How old?",
        "--schema",
        "/no/such/file",
    ];
    assert_eq!(refused(&setup, &nowhere).await.0, 4);
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn_and_a_second_one_ends_the_agent() {
    let setup = playing(json!({"turns": [[
        {"text": "first words\n"}, {"untilCancelled": true}, {"stop": "cancelled"},
    ]]}));
    let done = interrupted(&setup, &["acp", "stream", "fake", "go"], 1).await;
    assert_eq!(done.code, 130, "{done:?}");
    assert_eq!(done.out, "first words\nthe turn was cancelled\n");
    let cancelling = "cancelling the turn; Ctrl-C again ends the agent\n";
    assert_eq!(
        done.err,
        format!("{cancelling}relay: the turn was cancelled\n")
    );
    assert_eq!(told(&setup.file("agent-log"), "session/cancel").len(), 1);

    // One that does not care.
    let stubborn = playing(json!({"turns": [[{"text": "first words\nmore\n"}, {"hang": true}]]}));
    let done = interrupted(&stubborn, &["acp", "stream", "fake", "go"], 2).await;
    assert_eq!(done.code, 130, "{done:?}");
    assert_eq!(
        done.err,
        format!("{cancelling}relay: stopped; the agent was ended\n")
    );
    let log = stubborn.file("agent-log");
    assert_eq!(processes_with(text(&log)), [""; 0]);
}

#[tokio::test]
async fn an_agent_that_fails_says_why() {
    let dies = playing(json!({"turns": [[{"stderr": "out of memory"}, {"die": true}]]}));
    let done = run(&dies, &["acp", "ask", "fake", "go"]).await;
    assert_eq!(done.code, 1);
    assert!(done.err.starts_with("relay: fake has ended ("), "{done:?}");
    assert!(done.err.contains("out of memory"), "{done:?}");

    let modes = playing(json!({"opened": {
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]},
    }}));
    let (code, said) = refused(&modes, &["acp", "ask", "fake", "go", "--mode", "plan"]).await;
    assert_eq!(
        (code, said.as_str()),
        (
            2,
            "relay: there is no mode `plan`, expected one of ask, code\n"
        )
    );
    let (code, said) = refused(&modes, &["acp", "ask", "fake", "go", "--resume", "old"]).await;
    assert_eq!(code, 8);
    assert!(said.contains("does not advertise loadSession"), "{said}");
    let (code, said) = refused(&modes, &["acp", "ask", "fake", "go", "--cwd", "/no/such"]).await;
    assert_eq!(code, 2);
    assert!(
        said.contains("expected a directory, found nothing of that kind at /no/such"),
        "{said}"
    );
    ok(&modes, &["acp", "ask", "fake", "go", "--mode", "code"]).await;
    let set = told(&modes.file("agent-log"), "session/set_mode");
    assert_eq!(set.last().unwrap()["params"]["modeId"], "code");
}
