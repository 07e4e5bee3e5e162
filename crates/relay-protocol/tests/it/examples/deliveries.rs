//! Deliveries: contexts, receipts, records and their bodies. From spec/delivery.txt.

use relay_protocol::delivery::*;
use relay_protocol::delivery_record::*;

use super::{Example, has_literals, shows_every_tag};

const ERROR: &str = r#"{"type":"urn:relay:problem:capability_not_supported","title":"t","status":409,
    "detail":"d","code":"capability_not_supported","retryable":false,"path":"p","expected":"e","found":"f",
    "suggestions":["s"],"capability":"delivery.modes","requested":"on-idle","supported":["immediate"],
    "operation":"o","why":"w","retryAfterMs":5,"next":"attach","outcome":{"decision":"denied","at":"%T"}}"#;

pub(super) const RECEIPTS: &[&str] = &[
    r#"{"status":"accepted","deliveryId":"%4"}"#,
    r#"{"status":"accepted","deliveryId":"%4","retryable":false,"metadata":{"door":"pty"}}"#,
    r#"{"status":"delivered","deliveryId":"%4"}"#,
    r#"{"status":"delivered","deliveryId":"%4","metadata":{"door":"acp.prompt"}}"#,
    r#"{"status":"deferred","availableAt":"%T"}"#,
    r#"{"status":"deferred","deliveryId":"%4","availableAt":"%T","reason":"busy","metadata":{}}"#,
    r#"{"status":"failed","reason":"closed"}"#,
    r#"{"status":"failed","deliveryId":"%4","reason":"closed","retryable":true,"metadata":{}}"#,
];

pub(super) fn examples() -> Vec<Example> {
    let mut all = super::examples![
        MessageContext:
            r#"{"id":"%4","mode":"immediate","reason":"dm"}"#,
            r#"{"id":"%4","mode":"on-idle","reason":"mention","priority":"urgent","deadline":"%T",
                "idempotencyKey":"k","metadata":{"epoch":1,"waiting":2}}"#;
        Delivery:
            r#"{"deliveryId":"%4","messageId":"%1","agent":"engineer","state":"pending","reason":"dm",
                "priority":"normal","allowDowngrade":false,"attempt":0,
                "generation":1,"deadline":"%T","waiting":{"why":"paused","code":"session_paused","since":"%T"}}"#,
            &format!(r#"{{"deliveryId":"%4","messageId":"%1","agent":"engineer","state":"failed",
                "reason":"mention","priority":"urgent","allowDowngrade":true,
                "requestedMode":"on-idle","mode":"immediate","modeReason":"m","sessionId":"%6","attempt":3,
                "generation":2,"deadline":"%T","nextAttemptAt":"%T","surfaced":"unknown","error":{ERROR},
                "decisions":[{{"at":"%T","outcome":"hold","reason":"active","sessionId":"%6","mode":"on-idle",
                    "waitsFor":"on-idle","until":"%T"}}],
                "attempts":[{{"epoch":1,"generation":1,"sessionId":"%6","mode":"on-idle","offeredAt":"%T",
                    "settledAt":"%T","outcome":"no_receipt","counted":true}}],
                "receipts":[{{"at":"%T","by":"relay","epoch":1,"sessionId":"%6","late":false,
                    "receipt":{{"status":"failed","reason":"no_receipt"}}}}],
                "story":"It waited."}}"#);
        WaitReason:
            r#"{"why":"the session is active","code":"boundary","waitsFor":"on-idle","since":"%T"}"#,
            r#"{"why":"too fast","code":"runaway_guard","since":"%T","until":"%T"}"#;
        DeliverMessage:
            r#"{"messageId":"%1","agent":"engineer"}"#,
            r#"{"messageId":"%1","sessionId":"%6","context":{"id":"%4","mode":"manual","reason":"notification",
                "priority":"normal","deadline":"%T","idempotencyKey":"k","allowDowngrade":true,"metadata":{}}}"#;
        PostReceipt:
            r#"{"receipt":{"status":"delivered","deliveryId":"%4"}}"#,
            r#"{"receipt":{"status":"failed","reason":"x"},"epoch":2}"#;
        RetryDelivery: r#"{}"#;
        CancelDelivery: r#"{}"#, r#"{"reason":"changed my mind"}"#;
        Flush: r#"{}"#, r#"{"mode":"manual","deliveryId":"%4"}"#;
        Flushed: r#"{"receipts":[{"status":"deferred","availableAt":"%T"}]}"#;
    ];
    all.extend(super::of::<MessageReceipt>("MessageReceipt", RECEIPTS));
    all
}

#[test]
fn every_tag_is_shown() {
    shows_every_tag("MessageReceipt", "status", MessageReceipt::TAGS);
    assert_eq!(
        MessageReceipt::TAGS,
        ["accepted", "delivered", "deferred", "failed"]
    );
}

#[test]
fn literals() {
    has_literals::<DeliveryMode>(&[
        "immediate",
        "next-message",
        "next-tool-call",
        "on-idle",
        "manual",
    ]);
    has_literals::<DeliveryReason>(&[
        "message",
        "mention",
        "dm",
        "thread-reply",
        "action-result",
        "notification",
    ]);
    has_literals::<Priority>(&["normal", "urgent"]);
    has_literals::<DeliveryState>(&[
        "pending",
        "offered",
        "accepted",
        "deferred",
        "delivered",
        "failed",
        "cancelled",
    ]);
    has_literals::<Surfaced>(&["no", "unknown"]);
    has_literals::<DecisionOutcome>(&["offer", "hold", "defer", "reopen", "fail", "cancel"]);
    has_literals::<WaitCode>(&[
        "due",
        "offered",
        "accepted",
        "accepted_unreachable",
        "no_session",
        "session_absent",
        "session_starting",
        "session_paused",
        "session_unavailable",
        "no_link",
        "boundary",
        "manual",
        "capability_missing",
        "window_full",
        "backlog",
        "retry_backoff",
        "deferred",
        "sender_rate",
        "runaway_guard",
    ]);
    has_literals::<ReceiptSource>(&["session", "relay"]);
}
