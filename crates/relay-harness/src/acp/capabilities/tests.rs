use relay_protocol::delivery::DeliveryMode;
use relay_protocol::link::LinkKind;
use relay_protocol::message::AttachmentKind;
use serde_json::json;

use super::*;
use crate::acp::catalogue::MidTurn;

macro_rules! answer {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/handshakes/",
            $name,
            ".json"
        ))
    };
}

fn read(text: &str) -> Result<Handshake, HandshakeError> {
    Handshake::read(serde_json::from_str(text).unwrap())
}

/// What is advertised, in words: sessions, then MCP, then content, then what is beyond the protocol.
fn words(handshake: &Handshake) -> String {
    let of = &handshake.capabilities;
    let beyond = &handshake.extensions;
    let all = [
        (of.load_session, "load"),
        (of.fork_session, "fork"),
        (of.resume_session, "resume"),
        (of.close_session, "close"),
        (of.list_sessions, "list"),
        (of.additional_directories, "directories"),
        (of.mcp.http, "http"),
        (of.mcp.sse, "sse"),
        (of.prompt.image, "image"),
        (of.prompt.audio, "audio"),
        (of.prompt.embedded_context, "context"),
        (beyond.steering, "+steering"),
        (beyond.prompt_queueing, "+queueing"),
        (beyond.system_prompt, "+system"),
        (beyond.delete_session, "+delete"),
    ];
    assert!(of.mcp.stdio && of.prompt.text);
    let said = all.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
    said.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_answers_of_real_agents() {
    let table = [
        (answer!("auggie-0.36.0"), "auggie", "load list image"),
        (
            answer!("claude-agent-acp-0.49.0"),
            "@agentclientprotocol/claude-agent-acp",
            "load fork resume close list directories http sse image context +queueing +delete",
        ),
        (
            answer!("claude-agent-acp-0.99.1"),
            "@agentclientprotocol/claude-agent-acp",
            "load fork resume close list directories http sse image context +steering +queueing +system +delete",
        ),
        (answer!("cline-3.0.65"), "cline", "load image"),
        (
            answer!("codex-acp-2.6.0"),
            "@agentclientprotocol/codex-acp",
            "load fork resume close list directories http image context +steering +system +delete",
        ),
        (
            answer!("copilot-1.0.102"),
            "Copilot",
            "load close list http sse image context",
        ),
        (
            answer!("droid-0.215.0"),
            "@factory/cli",
            "load resume list image context",
        ),
        (
            answer!("gemini-cli-0.61.0"),
            "gemini-cli",
            "load http sse image audio context",
        ),
        (
            answer!("goose-1.50.0"),
            "goose",
            "load close list http image context +delete",
        ),
        (
            answer!("hermes-agent-0.19.0"),
            "hermes-agent",
            "load fork resume list image",
        ),
        (
            answer!("kilo-7.7.7"),
            "Kilo",
            "load fork resume close list http sse image context",
        ),
        (
            answer!("kimi-code-2.1.0"),
            "Kimi Code CLI",
            "load fork resume close list directories http sse image context +delete",
        ),
        (
            answer!("opencode-1.18.33"),
            "OpenCode",
            "load fork resume close list http sse image context",
        ),
        (
            answer!("pi-acp-0.0.34"),
            "pi-acp",
            "load list image +delete",
        ),
        (
            answer!("qodercli-1.1.52"),
            "qoder-cli",
            "load fork resume close list directories http sse image context +queueing +delete",
        ),
        (
            answer!("qwen-code-0.15.10"),
            "qwen-code",
            "load resume list http sse image audio context",
        ),
        (
            answer!("qwen-code-0.24.4"),
            "qwen-code",
            "load resume list http sse image audio context",
        ),
        (
            answer!("zed-claude-code-acp-0.16.2"),
            "@zed-industries/claude-code-acp",
            "load fork resume list http sse image context",
        ),
        (
            answer!("zed-codex-acp-0.16.0"),
            "codex-acp",
            "load resume close list http image context",
        ),
    ];
    for (text, name, expected) in table {
        let handshake = read(text).unwrap();
        assert_eq!(handshake.agent.name.as_deref(), Some(name));
        assert_eq!(words(&handshake), expected, "{name}");
    }
    let example = read(answer!("sdk-example-agent-0.21.0")).unwrap();
    assert_eq!(example.agent, AgentInfo::default());
    assert_eq!(example.capabilities, AgentCapabilities::baseline());
}

#[test]
fn a_newer_version_is_refused() {
    for text in [
        answer!("claude-agent-acp-0.99.1.v2"),
        answer!("codex-acp-2.6.0.v2"),
    ] {
        assert_eq!(read(text), Err(HandshakeError::Version { found: 2 }));
    }
    assert_eq!(read("{}").unwrap().protocol_version, 1);
    assert_eq!(
        read(r#"{"protocolVersion": 0}"#).unwrap().protocol_version,
        0
    );
    for text in ["null", "[]", r#""x""#, r#"{"protocolVersion": "1"}"#] {
        let error = read(text).unwrap_err();
        assert!(matches!(error, HandshakeError::Malformed(_)), "{text}");
    }
}

#[test]
fn only_what_is_said_plainly_counts() {
    let answer = json!({
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": "yes",
            "sessionCapabilities": {"list": null, "fork": false, "close": true, "resume": {}, "additionalDirectories": 1},
            "mcpCapabilities": {"http": {}, "sse": 1},
            "promptCapabilities": [],
        },
        "authMethods": [{"name": "no id"}, {"id": "a"}, 3],
    });
    let handshake = Handshake::read(answer).unwrap();
    assert_eq!(words(&handshake), "resume close");
    assert_eq!(handshake.auth_methods.len(), 1);
    assert_eq!(handshake.auth_methods[0].kind, "agent");
}

#[test]
fn ways_to_sign_in() {
    let codex = read(answer!("zed-codex-acp-0.16.0")).unwrap();
    let methods: Vec<_> = codex
        .auth_methods
        .iter()
        .map(|method| (method.id.as_str(), method.kind.as_str()))
        .collect();
    assert_eq!(
        methods,
        [
            ("chatgpt", "agent"),
            ("codex-api-key", "env_var"),
            ("openai-api-key", "env_var")
        ]
    );
}

#[test]
fn refusals_name_the_capability() {
    let name = |result: Result<(), CapabilityNotSupportedError>| {
        result.err().map(|error| error.capability)
    };
    let cline = read(answer!("cline-3.0.65")).unwrap().capabilities;
    assert_eq!(name(check_fork(&cline)), Some("sessionCapabilities.fork"));
    assert_eq!(
        name(check_resume(&cline)),
        Some("sessionCapabilities.resume")
    );
    assert_eq!(name(check_close(&cline)), Some("sessionCapabilities.close"));
    let kimi = read(answer!("kimi-code-2.1.0")).unwrap().capabilities;
    let all = [check_fork(&kimi), check_resume(&kimi), check_close(&kimi)];
    assert!(all.iter().all(Result::is_ok));
}

#[test]
fn what_an_agent_that_answers_anything_claims_is_not_used() {
    let mut claude = read(answer!("claude-agent-acp-0.99.1")).unwrap();
    claude.distrust();
    assert!(claude.answers_anything);
    assert_eq!(
        words(&claude),
        "load resume close list directories http sse image context"
    );
}

#[test]
fn a_session_on_the_relay() {
    use DeliveryMode::{Immediate, NextMessage, NextToolCall, OnIdle};
    let claude = answer!("claude-agent-acp-0.99.1");
    let gemini = answer!("gemini-cli-0.61.0");
    let kilo = answer!("kilo-7.7.7");
    let example = answer!("sdk-example-agent-0.21.0");
    let boundaries = &[NextMessage, OnIdle][..];
    let table = [
        // answer, strategy, may interrupt, modes
        (
            claude,
            MidTurn::Queue,
            false,
            &[Immediate, NextMessage, NextToolCall, OnIdle][..],
        ),
        (
            kilo,
            MidTurn::Queue,
            false,
            &[Immediate, NextMessage, OnIdle],
        ),
        (kilo, MidTurn::Steer, true, boundaries),
        (
            gemini,
            MidTurn::CancelAndPrompt,
            true,
            &[Immediate, NextMessage, OnIdle],
        ),
        (gemini, MidTurn::CancelAndPrompt, false, boundaries),
        (example, MidTurn::None, true, boundaries),
    ];
    for (text, mid_turn, may_interrupt, modes) in table {
        for has_relay_tools in [false, true] {
            let facts = SessionFacts {
                mid_turn,
                may_interrupt,
                has_relay_tools,
            };
            let handshake = read(text).unwrap();
            let session = session_capabilities(&handshake, facts);
            assert_eq!(session.delivery.modes, modes, "{facts:?}");
            session.validate(LinkKind::WebSocket, SAFE_STATES).unwrap();
            let invoke = session.actions.and_then(|actions| actions.invoke);
            assert_eq!(invoke == Some(true), has_relay_tools);
            assert_eq!(session.messaging.send == Some(true), has_relay_tools);
            let image = session
                .messaging
                .attachments
                .contains(&AttachmentKind::Image);
            assert_eq!(image, handshake.capabilities.prompt.image);
            let fork = session.lifecycle.fork == Some(true);
            assert_eq!(fork, handshake.capabilities.fork_session);
            assert_eq!(
                (session.lifecycle.pause, session.lifecycle.snapshot),
                (None, None)
            );
        }
    }
}
