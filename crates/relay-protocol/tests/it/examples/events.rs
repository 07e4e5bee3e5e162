//! The one vocabulary of events. From spec/events.txt and spec/delivery.txt.

use relay_protocol::channel::Channel;
use relay_protocol::event::{LoggedEvent, ReactionChange, RelayEvent, TokenKind};
use relay_protocol::wire::decode_value;
use serde_json::{Value, json};

use super::permissions::{GRANT, RECORD};
use super::{Example, has_literals, parse, shows_every_tag, values};

/// Exactly as in the spec, without anything that Relay adds.
const SPEC: &[&str] = &[
    r#"{"type":"message.created","message":%M,"envelope":{}}"#,
    r#"{"type":"message.read","messageId":"%1","agentName":"bob"}"#,
    r#"{"type":"message.read","messageId":"%1","agentName":"bob","readAt":"%T"}"#,
    r#"{"type":"message.reacted","messageId":"%1","emoji":":rocket:","agentName":"bob","action":"added"}"#,
    r#"{"type":"message.reacted","messageId":"%1","emoji":":rocket:","agentName":"bob","action":"removed"}"#,
    r#"{"type":"action.completed","action":"classify","agent":{"name":"codex-1"},"at":"%T"}"#,
    r#"{"type":"action.completed","action":"classify","agent":{"name":"codex-1","id":"%2","type":"agent"},
        "input":{"text":"t"},"output":{"label":"l"},"at":"%T"}"#,
    r#"{"type":"agent.status.idle","agentId":"%2"}"#,
    r#"{"type":"agent.status.idle","agentId":"%2","status":"idle","reason":"r"}"#,
    r#"{"type":"delivery.created","deliveryId":"%4","message":%M,"agent":%A}"#,
    r#"{"type":"delivery.accepted","deliveryId":"%4","agent":%A}"#,
    r#"{"type":"delivery.delivered","deliveryId":"%4","agent":%A}"#,
    r#"{"type":"delivery.deferred","deliveryId":"%4","agent":%A,"availableAt":"%T"}"#,
    r#"{"type":"delivery.deferred","deliveryId":"%4","agent":%A,"availableAt":"%T","reason":"busy"}"#,
    r#"{"type":"delivery.failed","deliveryId":"%4","message":%M,"agent":%A,"reason":"closed"}"#,
    r#"{"type":"delivery.failed","deliveryId":"%4","message":%M,"agent":%A,"reason":"closed","retryable":true}"#,
    r#"{"type":"tool.called","agentId":"%2","event":{"type":"tool.called","tool":"bash"}}"#,
];

/// With everything that Relay adds.
const FULL: &[&str] = &[
    r#"{"type":"message.updated","message":%M,"envelope":{"from":{"name":"engineer"}}}"#,
    r#"{"type":"thread.reply","message":%M,"envelope":{"parent":"%9"}}"#,
    r#"{"type":"dm.received","message":%M,"envelope":{"to":{"kind":"dm","conversationId":"%8"}}}"#,
    r#"{"type":"group_dm.received","message":%M,"envelope":{"to":{"kind":"group_dm","conversationId":"%8"}}}"#,
    r#"{"type":"action.invoked","action":"classify","invocationId":"%5","agent":{"name":"a"},"input":1,"at":"%T"}"#,
    r#"{"type":"action.failed","action":"classify","invocationId":"%5","agent":{"name":"a"},"error":"e",
        "retryable":true,"durationMs":4,"at":"%T"}"#,
    r#"{"type":"action.denied","action":"classify","invocationId":"%5","agent":{"name":"a"},"reason":"r","at":"%T"}"#,
    r#"{"type":"action.registered","action":"classify","agent":{"name":"a","id":"%2","type":"agent"},
        "availableTo":[{"channel":"ops"}],"at":"%T"}"#,
    r#"{"type":"action.registered","action":"classify","at":"%T"}"#,
    r#"{"type":"action.removed","action":"classify","agent":{"name":"a","id":"%2","type":"agent"},"at":"%T"}"#,
    r#"{"type":"agent.status.changed","agentId":"%2","agentName":"engineer","sessionId":"%6",
        "status":"paused","previousStatus":"active","reason":"r"}"#,
    r#"{"type":"agent.status.active","agentId":"%2","agentName":"engineer","status":"active"}"#,
    r#"{"type":"agent.status.blocked","agentId":"%2","agentName":"engineer","status":"blocked"}"#,
    r#"{"type":"agent.status.waiting","agentId":"%2","agentName":"engineer","status":"waiting"}"#,
    r#"{"type":"agent.status.offline","agentId":"%2","agentName":"engineer","status":"offline"}"#,
    r#"{"type":"delivery.created","deliveryId":"%4","messageId":"%1","message":%M,"agent":%A,"agentId":"%2","mode":"manual"}"#,
    r#"{"type":"delivery.accepted","deliveryId":"%4","messageId":"%1","agent":%A,"agentId":"%2","sessionId":"%6",
        "event":{"type":"delivery.accepted","deliveryId":"%4","messageId":"%1"},"metadata":{"door":"pty"}}"#,
    r#"{"type":"delivery.delivered","deliveryId":"%4","messageId":"%1","agent":%A,"agentId":"%2","sessionId":"%6",
        "event":{"type":"delivery.delivered","deliveryId":"%4","messageId":"%1"},"terminal":true,"metadata":{}}"#,
    r#"{"type":"delivery.failed","deliveryId":"%4","messageId":"%1","message":%M,"agent":%A,"agentId":"%2",
        "sessionId":"%6","reason":"attempts_exhausted: no_receipt","retryable":false,"attempt":8,
        "nextAttemptAt":"%T","terminal":true,"surfaced":"unknown","error":{"type":"t","title":"t","status":409,
        "detail":"d","code":"capability_not_supported","retryable":false},
        "event":{"type":"delivery.failed","deliveryId":"%4","messageId":"%1","reason":"r"}}"#,
    r#"{"type":"delivery.cancelled","deliveryId":"%4","messageId":"%1","agent":%A,"agentId":"%2","sessionId":"%6",
        "reason":"r","terminal":true,"surfaced":"no"}"#,
    r#"{"type":"delivery.late_receipt","deliveryId":"%4","messageId":"%1","agent":%A,"agentId":"%2","sessionId":"%6",
        "receipt":{"status":"delivered","deliveryId":"%4"}}"#,
    r#"{"type":"channel.created","channel":{"id":"%3","name":"ops","createdAt":"%T"},"by":"ana"}"#,
    r#"{"type":"channel.updated","channel":{"id":"%3","name":"ops","topic":"t","createdAt":"%T","archivedAt":"%T","memberCount":2}}"#,
    r#"{"type":"channel.member_joined","channel":{"id":"%3","name":"ops"},"agentId":"%2","agentName":"engineer"}"#,
    r#"{"type":"channel.member_left","channel":{"name":"ops"},"agentId":"%2","agentName":"engineer","by":"ana"}"#,
    r#"{"type":"agent.registered","agent":%A}"#,
    r#"{"type":"agent.released","agent":%A,"reason":"r","by":"relay"}"#,
    r#"{"type":"permission.resolved","permissionId":"%3","agentId":"%2","sessionId":"%6",
        "outcome":{"decision":"approved","at":"%T"}}"#,
    r#"{"type":"permission.expired","permissionId":"%3","agentId":"%2","outcome":{"decision":"expired","at":"%T"}}"#,
    r#"{"type":"permission.seen","permissionId":"%3","agentId":"%2","sessionId":"%6","by":{"kind":"human","name":"ana"}}"#,
    r#"{"type":"permission.refused","permissionId":"%3","agentId":"%2","by":{"kind":"agent","name":"ada"},"reason":"r"}"#,
    r#"{"type":"permission.started","permissionId":"%3","agentId":"%2","sessionId":"%6","argsHash":"h",
        "execution":{"state":"started","startedAt":"%T"}}"#,
    r#"{"type":"permission.finished","permissionId":"%3","agentId":"%2","argsHash":"h","execution":{"state":"completed"}}"#,
    r#"{"type":"permission.cancelled","permissionId":"%3","agentId":"%2","outcome":{"decision":"cancelled","at":"%T"}}"#,
    r#"{"type":"webhook.failed","webhookId":"%8","eventId":"%9","attempt":2,"reason":"500","nextAttemptAt":"%T"}"#,
    r#"{"type":"webhook.disabled","webhookId":"%8","reason":"three days"}"#,
    r#"{"type":"token.created","tokenId":"%8","kind":"agent","agentName":"engineer"}"#,
    r#"{"type":"token.rotated","tokenId":"%8","kind":"observer","agentName":"bob","graceUntil":"%T","by":"bob"}"#,
    r#"{"type":"token.revoked","tokenId":"%8","kind":"workspace","agentName":"bob"}"#,
    r#"{"type":"workspace.updated","name":"team","policyVersion":2}"#,
    r#"{"type":"audit.erased","entries":1,"fromSeq":4,"toSeq":4,"reason":"leak"}"#,
    r#"{"type":"audit.erased","entries":2,"fromSeq":4,"toSeq":8,"ranges":[{"fromSeq":4,"toSeq":4},{"fromSeq":7,"toSeq":8}],"reason":"leak"}"#,
    r#"{"type":"session.started","sessionId":"%6","agentId":"%2","agentName":"engineer","agentType":"agent",
        "event":{"type":"session.started","sessionId":"%6"}}"#,
    r#"{"type":"session.released","sessionId":"%6","agentId":"%2","reason":"r"}"#,
    r#"{"type":"session.resumed","sessionId":"%6","agentId":"%2"}"#,
    r#"{"type":"session.forked","sessionId":"%6","parentSessionId":"%7","agentId":"%2"}"#,
];

/// Session events that reach listeners nested under `event`.
const REPORTED: &[&str] = &[
    "message.received",
    "message.sent",
    "tool.called",
    "tool.completed",
    "tool.failed",
    "tool.output",
    "transcript.chunk",
    "file.changed",
    "command.started",
    "command.completed",
    "command.failed",
    "terminal.output",
    "terminal.screen",
    "usage.updated",
    "log",
    "error",
];

fn reports() -> Vec<String> {
    let session_events = super::sessions::EVENTS.iter().map(|text| parse(text));
    session_events
        .filter(|event| REPORTED.contains(&event["type"].as_str().unwrap()))
        .map(|event| {
            let id = parse(r#""%2""#);
            json!({ "type": event["type"], "agentId": id, "sessionId": id, "event": event })
                .to_string()
        })
        .collect()
}

fn relay_events() -> Vec<Example> {
    let permission = format!(r#"{{"type":"permission.requested","permission":{RECORD}}}"#);
    let created = format!(r#"{{"type":"grant.created","agentId":"%2","grant":{GRANT}}}"#);
    let revoked = format!(r#"{{"type":"grant.revoked","grant":{GRANT}}}"#);
    let reports = reports();
    let texts: Vec<&str> = SPEC
        .iter()
        .chain(FULL)
        .copied()
        .chain([permission.as_str(), created.as_str(), revoked.as_str()])
        .chain(reports.iter().map(String::as_str))
        .collect();
    super::of::<RelayEvent>("RelayEvent", &texts)
}

/// The same events with their place in the log.
fn logged_events() -> Vec<Example> {
    let texts: Vec<String> = relay_events()
        .into_iter()
        .map(|example| {
            let mut value = example.value;
            for (name, text) in [("id", "%9"), ("at", "%T"), ("workspaceId", "%5")] {
                value[name] = parse(&format!("\"{text}\""));
            }
            value["seq"] = json!(4);
            value.to_string()
        })
        .chain([
            r#"{"seq":4,"id":"%9","at":"%T","workspaceId":"%5","type":"log","erased":true}"#
                .to_owned(),
        ])
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    super::of::<LoggedEvent>("LoggedEvent", &texts)
}

pub(super) fn examples() -> Vec<Example> {
    let mut all = relay_events();
    all.extend(logged_events());
    all.extend(super::examples![
        Channel:
            r#"{"id":"%3","name":"ops","createdAt":"%T"}"#,
            r#"{"id":"%3","name":"ops","topic":"t","createdAt":"%T","archivedAt":"%T","memberCount":2}"#;
    ]);
    all
}

#[test]
fn every_tag_is_shown() {
    shows_every_tag("RelayEvent", "type", RelayEvent::TAGS);
    shows_every_tag("LoggedEvent", "type", RelayEvent::TAGS);
}

#[test]
fn the_names_of_the_spec_are_all_there() {
    for name in [
        "message.created",
        "message.updated",
        "thread.reply",
        "dm.received",
        "group_dm.received",
        "message.read",
        "message.reacted",
        "action.invoked",
        "action.completed",
        "action.failed",
        "action.denied",
        "agent.status.changed",
        "agent.status.idle",
        "agent.status.active",
        "agent.status.blocked",
        "agent.status.waiting",
        "agent.status.offline",
        "delivery.created",
        "delivery.accepted",
        "delivery.delivered",
        "delivery.deferred",
        "delivery.failed",
    ] {
        assert!(RelayEvent::TAGS.contains(&name), "{name}");
    }
}

#[test]
fn literals() {
    has_literals::<ReactionChange>(&["added", "removed"]);
    has_literals::<TokenKind>(&["admin", "workspace", "agent", "observer", "webhook"]);
}

#[test]
fn logged_events_keep_their_parts() {
    for value in values("LoggedEvent") {
        let logged: LoggedEvent = decode_value(value.clone()).unwrap();
        assert_eq!(logged.seq, 4);
        assert_eq!(logged.event_type, value["type"].as_str().unwrap());
        assert_eq!(logged.event.is_none(), value["erased"] == true);
        if let Some(event) = &logged.event {
            assert_eq!(event.tag(), logged.event_type);
        }
        let raw: Value = serde_json::from_str(logged.to_json().get()).unwrap();
        assert_eq!(raw, value);
        let once = logged
            .to_json()
            .get()
            .matches("\"at\":\"2025-11-15T22:14:20.123Z\",")
            .count();
        assert!(once >= 1);
    }
}

#[test]
fn an_erased_event_carries_nothing_else() {
    let with_text = parse(
        r#"{"seq":4,"id":"%9","at":"%T","workspaceId":"%5","type":"log","erased":true,"event":{}}"#,
    );
    let error = decode_value::<LoggedEvent>(with_text).unwrap_err();
    assert_eq!(error.path, "event");
}

/// The message was optional, although the spec's listener reads it.
#[test]
fn a_failed_delivery_always_carries_its_message() {
    for value in values("RelayEvent") {
        if value["type"] != "delivery.failed" {
            continue;
        }
        let mut without = value.clone();
        without.as_object_mut().unwrap().remove("message");
        let error = relay_protocol::wire::decode_value::<RelayEvent>(without).unwrap_err();
        assert!(error.message.contains("message"), "{error}");
    }
}
