//! Sessions: what they declare, report and answer. From spec/session-capabilities.txt and
//! spec/acp-capabilities.txt.

use relay_protocol::acp::{AgentCapabilities, McpTransport, PromptPart};
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::link::{Link, LinkKind, SessionCall};
use relay_protocol::message::AttachmentKind;
use relay_protocol::negotiation::{LifecycleOp, Negotiated};
use relay_protocol::session::*;
use relay_protocol::session_event::*;
use relay_protocol::session_input::SessionEventInput;
use relay_protocol::status::AgentStatus;

use super::{Example, has_literals, shows_every_tag};

const MINIMUM: &str = r#"{
    "messaging":{"receive":true,"attachments":["text"]},
    "delivery":{"modes":["immediate"]},
    "events":{"emits":["status.changed"]},
    "lifecycle":{"release":true}}"#;

const MAXIMUM: &str = r#"{
    "messaging":{"receive":true,"send":true,"attachments":["text","image"]},
    "delivery":{"modes":["immediate","next-message","next-tool-call","on-idle","manual"],"queue":true},
    "events":{"emits":[
        "status.changed","status.idle","status.active","status.blocked","status.waiting","status.offline",
        "tool.called","tool.completed","tool.failed","tool.output","message.received","message.sent",
        "delivery.accepted","delivery.delivered","delivery.deferred","delivery.failed",
        "action.invoked","action.completed","action.failed","action.denied","transcript.chunk",
        "file.changed","command.started","command.completed","command.failed","terminal.output",
        "terminal.screen","usage.updated","session.started","session.released","session.resumed",
        "session.forked","log","error"]},
    "actions":{"invoke":true,"expose":true},
    "lifecycle":{"release":true,"pause":true,"resume":true,"fork":true,"snapshot":true}}"#;

pub(super) const EVENTS: &[&str] = &[
    r#"{"type":"status.changed","status":"idle"}"#,
    r#"{"type":"status.changed","status":"blocked","previousStatus":"active","reason":"needs a key"}"#,
    r#"{"type":"tool.called","tool":"bash"}"#,
    r#"{"type":"tool.called","run":"r1","tool":"bash","input":{"command":"ls"}}"#,
    r#"{"type":"tool.completed","tool":"bash"}"#,
    r#"{"type":"tool.completed","run":"r1","tool":"bash","output":["a"],"durationMs":12}"#,
    r#"{"type":"tool.failed","tool":"bash","error":"exit 1"}"#,
    r#"{"type":"tool.failed","run":"r1","tool":"bash","error":"exit 1","retryable":true}"#,
    r#"{"type":"tool.output","tool":"bash","output":"a\n"}"#,
    r#"{"type":"tool.output","run":"r1","tool":"bash","output":"a\n"}"#,
    r#"{"type":"message.received","messageId":"%1"}"#,
    r#"{"type":"message.received","messageId":"%1","deliveryId":"%4"}"#,
    r#"{"type":"message.sent","messageId":"%1"}"#,
    r#"{"type":"delivery.accepted","deliveryId":"%4","messageId":"%1"}"#,
    r#"{"type":"delivery.delivered","deliveryId":"%4","messageId":"%1"}"#,
    r#"{"type":"delivery.deferred","deliveryId":"%4","messageId":"%1","availableAt":"%T"}"#,
    r#"{"type":"delivery.deferred","deliveryId":"%4","messageId":"%1","availableAt":"%T","reason":"busy"}"#,
    r#"{"type":"delivery.failed","deliveryId":"%4","messageId":"%1","reason":"closed"}"#,
    r#"{"type":"delivery.failed","deliveryId":"%4","messageId":"%1","reason":"closed","retryable":false}"#,
    r#"{"type":"action.invoked","action":"classify","invocationId":"%5"}"#,
    r#"{"type":"action.completed","action":"classify","invocationId":"%5"}"#,
    r#"{"type":"action.completed","action":"classify","invocationId":"%5","durationMs":3}"#,
    r#"{"type":"action.failed","action":"classify","invocationId":"%5","error":"boom"}"#,
    r#"{"type":"action.failed","action":"classify","invocationId":"%5","error":"boom","retryable":true}"#,
    r#"{"type":"action.denied","action":"classify","invocationId":"%5","reason":"not for you"}"#,
    r#"{"type":"transcript.chunk","chunk":{"id":"c1","at":"%T","role":"agent","content":"Hello","sequence":1}}"#,
    r#"{"type":"file.changed","path":"src/lib.rs","operation":"update"}"#,
    r#"{"type":"file.changed","path":"src/lib.rs","operation":"create","diff":"+a"}"#,
    r#"{"type":"command.started","command":"cargo test"}"#,
    r#"{"type":"command.started","command":"cargo test","cwd":"/work"}"#,
    r#"{"type":"command.completed","command":"cargo test"}"#,
    r#"{"type":"command.completed","command":"cargo test","exitCode":-1,"durationMs":900}"#,
    r#"{"type":"command.failed","command":"cargo test","error":"not found"}"#,
    r#"{"type":"command.failed","command":"cargo test","error":"not found","exitCode":127}"#,
    r#"{"type":"terminal.output","text":"$ ls\n"}"#,
    r#"{"type":"terminal.output","stream":"combined","text":"$ ls\n"}"#,
    r#"{"type":"terminal.screen","text":"$ ls"}"#,
    r#"{"type":"terminal.screen","text":"$ ls","rows":24,"cols":80}"#,
    r#"{"type":"usage.updated"}"#,
    r#"{"type":"usage.updated","tokens":1200,"costUsd":0.25,"metadata":{"model":"x"}}"#,
    r#"{"type":"session.started","sessionId":"%6"}"#,
    r#"{"type":"session.released","sessionId":"%6"}"#,
    r#"{"type":"session.released","sessionId":"%6","reason":"done"}"#,
    r#"{"type":"session.resumed","sessionId":"%6"}"#,
    r#"{"type":"session.forked","sessionId":"%6","parentSessionId":"%7"}"#,
    r#"{"type":"log","level":"warn","message":"slow"}"#,
    r#"{"type":"error","error":"boom"}"#,
    r#"{"type":"error","error":"boom","code":"E1","retryable":false}"#,
];

const NEGOTIATED: &str = r#"{
    "attachments":["text"],"modes":["on-idle"],"queue":false,"send":true,"invoke":false,"expose":false,
    "emits":["status.changed"],"lifecycle":["release","fork"],"safeStates":["idle"]}"#;

pub(super) fn examples() -> Vec<Example> {
    let mut all = super::examples![
        AgentSessionCapabilities: MINIMUM, MAXIMUM;
        TranscriptChunk:
            r#"{"id":"c1","at":"%T","role":"user","content":"Hi","sequence":0}"#,
            r#"{"id":"c1","at":"%T","role":"tool","content":"Hi","sequence":7,"metadata":{"a":null}}"#;
        AgentCapabilities: r#"{
            "loadSession":true,"forkSession":false,"resumeSession":false,"closeSession":false,
            "listSessions":true,"additionalDirectories":false,
            "mcp":{"stdio":true,"http":true,"sse":false},
            "prompt":{"text":true,"image":true,"audio":false,"embeddedContext":true}}"#;
        Link:
            r#"{"kind":"poll"}"#,
            r#"{"kind":"none"}"#,
            r#"{"kind":"webhook","url":"https://example.com/agent"}"#,
            r#"{"kind":"webhook","url":"https://example.com/agent","secret":"whsec_x"}"#;
        Negotiated: NEGOTIATED;
        Attach:
            &format!(r#"{{"agent":"engineer","harness":"codex","capabilities":{MINIMUM}}}"#),
            &format!(r#"{{"agent":"engineer","harness":"codex","capabilities":{MAXIMUM},
                "safeStates":["idle"],"status":"starting","resume":"rt_1"}}"#);
        CreateSession: &format!(r#"{{"agent":"engineer","harness":"codex","capabilities":{MINIMUM},
            "safeStates":["idle","blocked"],"status":"active","resume":"rt_1","link":{{"kind":"poll"}}}}"#);
        Attached:
            &format!(r#"{{"sessionId":"%6","resumeToken":"rt_1","negotiated":{NEGOTIATED},"keep":[],"acked":0}}"#),
            &format!(r#"{{"sessionId":"%6","resumeToken":"rt_1","negotiated":{NEGOTIATED},"keep":["%4"],"acked":7,
                "webhookSecret":"whsec_x"}}"#);
        SessionSummary: &format!(r#"{{"sessionId":"%6","agent":%A,"harness":"codex","link":"websocket",
            "status":"idle","reason":"turn ended","current":true,"capabilities":{MINIMUM},
            "safeStates":["idle"],"parentSessionId":"%7","createdAt":"%T","lastSeenAt":"%T","endedAt":"%T"}}"#);
        ReportEvents:
            r#"{"n":1,"event":{"type":"log","level":"info","message":"m"}}"#,
            r#"{"events":[{"n":1,"event":{"type":"session.started","sessionId":"%6"}},
                {"n":2,"event":{"type":"status.changed","status":"idle"}}]}"#;
        Acked: r#"{"acked":2}"#;
        AtBoundary:
            r#"{"kind":"next-tool-call"}"#,
            r#"{"kind":"on-idle","limit":5,"maxBytes":1024}"#;
        DueDeliveries: r#"{"deliveries":[{"message":%M,
            "context":{"id":"%4","mode":"on-idle","reason":"message"},"text":"[relay] …"}],"more":false}"#;
        Polled:
            r#"{"deliveries":[],"more":false}"#,
            r#"{"deliveries":[],"controls":[{"controlId":"%8","sessionId":"%6","op":"pause"}],"more":true}"#;
        SessionCall:
            r#"{"type":"deliver","sessionId":"%6","message":%M,
            "context":{"id":"%4","mode":"on-idle","reason":"message"},"text":"[relay] …"}"#,
            r#"{"type":"control","controlId":"%8","sessionId":"%6","op":"pause"}"#;
        LifecycleRequest: r#"{}"#, r#"{"reason":"lunch"}"#;
        ForkSession: r#"{}"#, r#"{"as":"engineer-2"}"#;
        SessionForkedAnswer: r#"{"sessionId":"%6","agent":%A}"#;
        SnapshotTaken: r#"{"snapshotId":"snap"}"#;
    ];
    all.extend(super::of::<AgentSessionEvent>("AgentSessionEvent", EVENTS));
    all.extend(super::of::<SessionEventInput>("SessionEventInput", EVENTS));
    all
}

#[test]
fn every_tag_is_shown() {
    shows_every_tag("AgentSessionEvent", "type", AgentSessionEvent::TAGS);
    shows_every_tag("Link", "kind", Link::TAGS);
    shows_every_tag("SessionCall", "type", SessionCall::TAGS);
    assert_eq!(AgentSessionEvent::TAGS.len(), 29);
}

#[test]
fn literals() {
    has_literals::<AgentStatus>(&[
        "starting",
        "active",
        "idle",
        "waiting",
        "blocked",
        "paused",
        "releasing",
        "released",
        "offline",
        "failed",
    ]);
    has_literals::<AgentSessionEventType>(&[
        "status.changed",
        "status.idle",
        "status.active",
        "status.blocked",
        "status.waiting",
        "status.offline",
        "tool.called",
        "tool.completed",
        "tool.failed",
        "tool.output",
        "message.received",
        "message.sent",
        "delivery.accepted",
        "delivery.delivered",
        "delivery.deferred",
        "delivery.failed",
        "action.invoked",
        "action.completed",
        "action.failed",
        "action.denied",
        "transcript.chunk",
        "file.changed",
        "command.started",
        "command.completed",
        "command.failed",
        "terminal.output",
        "terminal.screen",
        "usage.updated",
        "session.started",
        "session.released",
        "session.resumed",
        "session.forked",
        "log",
        "error",
    ]);
    has_literals::<AttachmentKind>(&["text", "image"]);
    has_literals::<TranscriptRole>(&["agent", "user", "system", "tool"]);
    has_literals::<FileOperation>(&["create", "update", "delete"]);
    has_literals::<TerminalStream>(&["stdout", "stderr", "combined"]);
    has_literals::<LogLevel>(&["debug", "info", "warn", "error"]);
    has_literals::<BoundaryKind>(&["next-message", "next-tool-call", "on-idle"]);
    has_literals::<LinkKind>(&["websocket", "poll", "webhook", "in-process", "none"]);
    has_literals::<LifecycleOp>(&["release", "pause", "resume", "fork", "snapshot"]);
    has_literals::<McpTransport>(&["stdio", "http", "sse"]);
    has_literals::<PromptPart>(&["text", "image", "audio", "embeddedContext"]);
}
