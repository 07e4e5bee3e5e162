//! Actions and webhooks.

use relay_protocol::action::*;
use relay_protocol::selector::{Filter, Selector};
use relay_protocol::webhook::*;

use super::{Example, has_literals};

pub(super) fn examples() -> Vec<Example> {
    super::examples![
        ActionCaller:
            r#"{"name":"engineer"}"#,
            r#"{"name":"engineer","id":"%2","type":"system"}"#;
        RegisterAction:
            r#"{"name":"classify","inputSchema":{"type":"object"},"availableTo":[{"name":"codex-1"}]}"#,
            r#"{"name":"classify","description":"d","inputSchema":{},"outputSchema":{},
                "availableTo":[{"name":"a","id":"%2","type":"agent","channel":"ops"}],
                "notifyCaller":true,"atMostOnce":true,"timeoutMs":1000}"#;
        ActionInfo: r#"{"name":"classify","description":"d","inputSchema":{},"outputSchema":{},
            "availableTo":[],"notifyCaller":false,"atMostOnce":false,"timeoutMs":300000,"owner":"coordinator",
            "handlers":1,"createdAt":"%T"}"#;
        InvokeAction: r#"{}"#, r#"{"input":{"text":"t"}}"#;
        Invoked: r#"{"invocationId":"%5"}"#;
        CompleteInvocation: r#"{}"#, r#"{"output":{"label":"l"}}"#;
        FailInvocation: r#"{"error":"boom"}"#, r#"{"error":"boom","retryable":true}"#;
        Invocation:
            r#"{"invocationId":"%5","action":"classify","agent":{"name":"codex-1"},"state":"invoked",
                "offers":0,"createdAt":"%T"}"#,
            r#"{"invocationId":"%5","action":"classify","agent":{"name":"codex-1"},"state":"failed",
                "input":1,"output":2,"error":"e","reason":"r","retryable":false,"offers":2,
                "createdAt":"%T","endedAt":"%T","durationMs":5}"#;
        Filter:
            r#"{}"#,
            r#"{"event":"agent.status.changed","agent":"engineer","status":"idle"}"#,
            r#"{"event":"action.*","action":"spawn-claude","calledBy":"engineer"}"#,
            r#"{"and":[{"inChannel":"general","from":"a"},{"or":[{"mentions":"b"}]}],"not":{"event":"log"}}"#;
        Selector:
            r#""*""#,
            r#""message.*""#,
            r#"{"event":"delivery.failed","agent":"engineer"}"#,
            r#"{"and":[{"inChannel":"general"},{"not":{"from":"bob"}}]}"#;
        CreateWebhook:
            r#"{"url":"https://your-service.dev/webhooks/relay",
                "events":["message.created","action.completed"],"secret":"RELAY_SECRET_1234"}"#,
            r#"{"url":"https://x.dev/","events":["*"],"filter":{"agent":"a"},"headers":{"x-a":"b"}}"#;
        WebhookCreated: r#"{"id":"%8","url":"https://x.dev/","events":["*"],"secret":"whsec_x"}"#;
        WebhookInfo: r#"{"id":"%8","url":"https://x.dev/","events":["*"],"filter":{},"headerNames":["x-a"],
            "state":"active","createdAt":"%T","lastSuccessAt":"%T","lastError":"e","waiting":0}"#;
        UpdateWebhook: r#"{"state":"disabled"}"#;
        RotateWebhookSecret: "{}", r#"{"secret":"RELAY_SECRET_1234"}"#;
        WebhookSecret: r#"{"secret":"whsec_x","oldValidUntil":"%T"}"#;
        WebhookAttempt: r#"{"eventId":"%9","seq":4,"eventType":"message.created","attempt":1,"at":"%T",
            "status":500,"error":"e","durationMs":20,"nextAttemptAt":"%T"}"#;
        ReplayWebhook: r#"{"ids":["%9"]}"#, r#"{"from":1,"to":9}"#;
        WebhookReplayed: r#"{"queued":9}"#;
        CreateInboundWebhook: r##"{"channel":"#ops"}"##, r#"{"channel":"ops","name":"CI"}"#;
        InboundWebhookCreated: r#"{"id":"%8","url":"http://127.0.0.1:4000/hooks/1","token":"wh_x"}"#;
        InboundWebhookInfo: r#"{"id":"%8","channel":"ops","createdAt":"%T"}"#,
            r#"{"id":"%8","channel":"ops","name":"CI","createdAt":"%T"}"#;
        InboundMessage: r#"{"message":"green"}"#, r#"{"message":"green","author":"CI"}"#;
    ]
}

#[test]
fn literals() {
    has_literals::<InvocationState>(&["invoked", "completed", "failed", "denied"]);
    has_literals::<WebhookState>(&["active", "disabled"]);
}
