//! What is told of updates: in which order, and put together how.

use serde_json::json;

use super::*;
use crate::acp::event::StopReason;

fn reports(updates: &[Value]) -> Vec<Value> {
    let mut reporter = Reporter::new("s", false, AgentStatus::Idle);
    let mut reports = Vec::new();
    for (number, update) in (0..).zip(updates) {
        let event = match update["ask"].as_bool() {
            Some(true) => Event::PermissionAsked {
                tool_call: ToolCall::default(),
            },
            Some(false) => Event::PermissionAnswered { option_id: None },
            None => Event::read(update.clone()),
        };
        let event = SessionEvent {
            turn: Some(1),
            event,
        };
        reports.extend(reporter.take(&event, Timestamp::from_millis(number * 1000)));
    }
    reports.extend(reporter.flush());
    let written = reports
        .iter()
        .map(|report| serde_json::to_value(report).unwrap());
    written.collect()
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

#[test]
fn words_are_put_together_and_kept_in_order() {
    let said = reports(&[
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_message_chunk", "one "),
        chunk("agent_message_chunk", "two"),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read", "rawInput": {"path": "/a"}}),
        chunk("agent_message_chunk", "three"),
    ]);
    let kinds: Vec<_> = said
        .iter()
        .map(|report| report["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "transcript.chunk",
            "transcript.chunk",
            "tool.called",
            "transcript.chunk"
        ]
    );
    assert_eq!(said[0]["chunk"]["metadata"]["kind"], "thought");
    assert_eq!(said[1]["chunk"]["content"], "one two");
    assert_eq!(said[1]["chunk"]["sequence"], 2);
    assert_eq!(said[3]["chunk"]["content"], "three");
}

#[test]
fn enough_text_is_reported_at_once() {
    let long = "x".repeat(ENOUGH_TEXT);
    let said = reports(&[
        chunk("agent_message_chunk", &long),
        chunk("agent_message_chunk", "y"),
    ]);
    assert_eq!(said.len(), 2);
}

#[test]
fn tools_are_followed_however_an_agent_tells() {
    let said = reports(&[
        json!({"sessionUpdate": "tool_call", "toolCallId": "a", "kind": "edit", "title": "Write /w/n"}),
        // What it changes is said before the end, and not again.
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "in_progress", "content": [
            {"type": "diff", "path": "/w/n", "oldText": null, "newText": "x"},
            {"type": "diff", "path": "/w/o", "oldText": "a", "newText": "b"}]}),
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed"}),
        // Nothing but its end.
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "b", "kind": "execute", "status": "failed",
            "content": [{"type": "content", "content": {"type": "text", "text": "exit 1"}}]}),
    ]);
    let short: Vec<Value> = said
        .iter()
        .map(|report| {
            json!([
                report["type"],
                report["tool"],
                report["path"],
                report["operation"],
                report["error"]
            ])
        })
        .collect();
    assert_eq!(
        short,
        [
            json!(["tool.called", "edit", null, null, null]),
            json!(["file.changed", null, "/w/n", "create", null]),
            json!(["file.changed", null, "/w/o", "update", null]),
            json!(["tool.completed", "edit", null, null, null]),
            json!(["tool.called", "execute", null, null, null]),
            json!(["tool.failed", "execute", null, null, "exit 1"]),
        ]
    );
    assert_eq!(said[3]["durationMs"], 2000);
}

#[test]
fn status_usage_and_what_was_lost() {
    let said = reports(&[
        json!({"ask": true}),
        json!({"ask": false}),
        json!({"sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": {"amount": 0.5, "currency": "USD"}}),
        json!({"sessionUpdate": "hologram"}),
    ]);
    assert_eq!(
        said,
        [
            json!({"type": "status.changed", "status": "waiting", "reason": "permission"}),
            json!({"type": "status.changed", "status": "active"}),
            json!({"type": "usage.updated", "tokens": 5, "costUsd": 0.5, "metadata": {"contextSize": 9}}),
        ]
    );
    let mut reporter = Reporter::new("s", false, AgentStatus::Idle);
    let end = SessionEvent {
        turn: Some(1),
        event: Event::TurnEnded {
            stop_reason: StopReason::EndTurn,
            tokens: None,
        },
    };
    assert!(reporter.take(&end, Timestamp::from_millis(0)).is_empty());
    assert!(reporter.status(AgentStatus::Idle, None).is_none());
}

#[test]
fn a_session_waits_until_the_last_of_its_questions_is_answered() {
    let asked = |is: bool| json!({ "ask": is });
    let said = reports(&[asked(true), asked(true), asked(false), asked(false)]);
    let statuses: Vec<_> = said.iter().map(|report| &report["status"]).collect();
    assert_eq!(statuses, ["waiting", "active"]);
}
