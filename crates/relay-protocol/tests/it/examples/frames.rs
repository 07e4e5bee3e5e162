//! The frames of the socket.

use relay_protocol::socket::*;

use super::{Example, has_literals, shows_every_tag};

const CAPABILITIES: &str = r#"{"messaging":{"receive":true,"attachments":["text"]},
    "delivery":{"modes":["immediate"]},"events":{"emits":["status.changed"]},"lifecycle":{"release":true}}"#;

pub(super) fn examples() -> Vec<Example> {
    super::examples![
        ClientFrame:
            r#"{"type":"hello","token":"at_x"}"#,
            r##"{"ref":"a","type":"send","to":"#general","text":"hi"}"##,
            r#"{"ref":7,"type":"subscribe","id":"s","pattern":"message.*","after":12}"#,
            r#"{"type":"subscribe","id":"s","filter":{"event":"delivery.failed","agent":"a"}}"#,
            r#"{"type":"unsubscribe","id":"s"}"#,
            &format!(r#"{{"type":"attach","agent":"a","harness":"h","capabilities":{CAPABILITIES},
                "safeStates":["idle"],"status":"idle","resume":"rt_1"}}"#),
            &format!(r#"{{"type":"attach","agent":"a","harness":"h","capabilities":{CAPABILITIES},
                "keepsMessages":true}}"#),
            r#"{"type":"receipt","deliveryId":"%4","epoch":2,
                "receipt":{"status":"delivered","deliveryId":"%4"}}"#,
            r#"{"type":"event","sessionId":"%6","n":1,"event":{"type":"status.changed","status":"idle"}}"#,
            r#"{"type":"boundary","sessionId":"%6","kind":"next-message"}"#,
            r#"{"type":"registerAction","name":"classify","inputSchema":{}}"#,
            r#"{"type":"invocationResult","invocationId":"%5","output":{"a":1}}"#,
            r#"{"type":"invocationResult","invocationId":"%5","error":"boom","retryable":true}"#,
            r#"{"type":"controlResult","controlId":"%8","ok":true,"result":{"snapshotId":"s"}}"#,
            r#"{"type":"controlResult","controlId":"%8","ok":false,"problem":{"type":"t","title":"t",
                "status":501,"detail":"d","code":"unsupported_operation","retryable":false}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"ping","ref":"last"}"#,
            r#"{"id":"s","ref":"between","type":"unsubscribe"}"#;
        ServerFrame:
            r#"{"type":"welcome","protocol":1,"version":"0.1.0","connectionId":"%8","serverTime":"%T",
                "limits":{"frameBytes":1,"textBytes":1,"inlineAttachmentBytes":1,"subscriptions":1,"silenceMs":1}}"#,
            r#"{"ref":"a","type":"sent","messageId":"%1","message":%M,"deliveries":[]}"#,
            r#"{"ref":"a","type":"attached","sessionId":"%6","resumeToken":"rt_1","negotiated":{
                "attachments":["text"],"modes":["immediate"],"queue":false,"send":false,"invoke":false,
                "expose":false,"emits":[],"lifecycle":["release"],"safeStates":["idle"]},"keep":[],"acked":0}"#,
            r#"{"type":"event","seq":4,"event":{"seq":4,"id":"%9","at":"%T","workspaceId":"%5",
                "type":"message.read","messageId":"%1","agentName":"bob"}}"#,
            r#"{"type":"lagged","resumeAfter":4}"#,
            r#"{"type":"deliver","sessionId":"%6","message":%M,
                "context":{"id":"%4","mode":"on-idle","reason":"message","metadata":{"epoch":1}}}"#,
            r#"{"type":"invoke","invocationId":"%5","action":"classify","agent":{"name":"a"},"input":{}}"#,
            r#"{"type":"control","controlId":"%8","sessionId":"%6","op":"fork","deliveryId":"%4",
                "mode":"manual","as":"b","fork":{"sessionId":"%6","resumeToken":"st_1"},"reason":"r"}"#,
            r#"{"ref":3,"type":"ack","sessionId":"%6","n":9}"#,
            r#"{"ref":3,"type":"ok"}"#,
            r#"{"ref":3,"type":"ok","duplicate":true,"result":{},"warnings":[{"type":"t","title":"t",
                "status":409,"detail":"d","code":"capability_not_supported","retryable":false}]}"#,
            r#"{"ref":3,"type":"error","problem":{"type":"t","title":"t","status":404,"detail":"d",
                "code":"unknown_agent","retryable":false,"suggestions":["engineer"]}}"#,
            r#"{"type":"pong"}"#;
    ]
}

#[test]
fn an_event_becomes_a_frame_without_being_read() {
    let mut shown = 0;
    for example in examples() {
        let Ok(frame) = serde_json::from_value::<ServerFrame>(example.value.clone()) else {
            continue;
        };
        if let ServerMessage::Event(event) = &frame.message {
            let text = event_frame(event.seq, &event.event.to_json());
            assert_eq!(text, serde_json::to_string(&frame).unwrap());
            shown += 1;
        }
    }
    assert!(shown > 0);
}

#[test]
fn every_tag_is_shown() {
    shows_every_tag("ClientFrame", "type", ClientRequest::TAGS);
    shows_every_tag("ServerFrame", "type", ServerMessage::TAGS);
}

#[test]
fn literals() {
    has_literals::<ControlOp>(&[
        "release", "pause", "resume", "fork", "snapshot", "flush", "cancel",
    ]);
}

#[test]
fn subscriptions_name_their_selector() {
    let subscribe = |json: &str| -> Subscribe { serde_json::from_str(json).unwrap() };
    assert!(subscribe(r#"{"id":"s","pattern":"*"}"#).selector().is_ok());
    assert!(subscribe(r#"{"id":"s","filter":{}}"#).selector().is_ok());
    for json in [
        r#"{"id":"s"}"#,
        r#"{"id":"s","pattern":"*","filter":{}}"#,
        r#"{"id":"s","pattern":"nope"}"#,
    ] {
        assert_eq!(
            subscribe(json).selector().unwrap_err().status,
            400,
            "{json}"
        );
    }
}
