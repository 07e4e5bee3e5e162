//! Secrets in what sessions say are nowhere: not in the log, not in a receipt, not in an explanation.

use relay_protocol::delivery::{DeferredReceipt, FailedReceipt, MessageReceipt};
use serde_json::{Value, json};

use super::kit::{Kind, Lab, Session};

/// A token that never was one, put together here so that no scanner takes this file for a leak.
fn secret(filler: char) -> String {
    format!("{}{}", ["gh", "p_"].concat(), filler.to_string().repeat(36))
}

/// Everything that was logged, and everything that is told about deliveries.
fn everything(lab: &Lab) -> String {
    let mut text = serde_json::to_string(&lab.log()).unwrap();
    for event in lab.events("delivery.created") {
        let id = serde_json::from_value(event["deliveryId"].clone()).unwrap();
        text.push_str(&serde_json::to_string(&lab.delivery(id)).unwrap());
    }
    text
}

fn check_gone(lab: &Lab, secret: &str) {
    let text = everything(lab);
    assert!(!text.contains(secret), "{secret} was kept");
    // Nor the most of it.
    assert!(!text.contains(&secret[..20]), "a part of {secret} was kept");
}

#[test]
fn secrets_in_events_of_every_kind_are_removed() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let secret = secret('a');
    let with = |event: &str| -> Value {
        let text = event.replace("SECRET", &secret);
        serde_json::from_str(&text).unwrap()
    };
    let events = [
        r#"{"type":"status.changed","status":"active","reason":"uses SECRET"}"#,
        r#"{"type":"tool.called","tool":"bash","input":{"command":["echo","SECRET"]}}"#,
        r#"{"type":"tool.completed","tool":"bash","output":{"deep":[{"er":"SECRET"}]}}"#,
        r#"{"type":"tool.failed","tool":"bash","error":"no SECRET"}"#,
        r#"{"type":"tool.output","tool":"bash","output":"it is SECRET\n"}"#,
        r#"{"type":"file.changed","path":".env","operation":"update","diff":"+TOKEN=SECRET"}"#,
        r#"{"type":"command.started","command":"curl -H SECRET","cwd":"/"}"#,
        r#"{"type":"command.failed","command":"curl","error":"bad SECRET"}"#,
        r#"{"type":"terminal.output","text":"$ echo SECRET\n"}"#,
        r#"{"type":"terminal.screen","text":"SECRET"}"#,
        r#"{"type":"usage.updated","tokens":1,"metadata":{"key":"SECRET"}}"#,
        r#"{"type":"log","level":"info","message":"SECRET"}"#,
        r#"{"type":"error","error":"SECRET is wrong"}"#,
    ];
    for event in events {
        bob.report(with(event)).unwrap();
    }
    let names = lab.log();
    let count = names
        .iter()
        .filter(|event| event["sessionId"] == json!(bob.id()));
    assert!(count.count() >= events.len(), "each of them is there");
    check_gone(&lab, &secret);
}

/// Reports pieces of terminal output, and tells what others see of them.
fn shown(lab: &Lab, bob: &Session<'_>, pieces: &[&str]) -> String {
    for piece in pieces {
        drop(bob.emit(json!({ "type": "terminal.output", "text": piece })));
    }
    let seen = lab.events("terminal.output");
    let text = |event: &Value| event["event"]["text"].as_str().unwrap().to_owned();
    seen.iter().map(text).collect()
}

#[test]
fn a_secret_that_comes_in_two_pieces_is_removed() {
    for at in [1, 3, 4, 10, 39] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let secret = secret('b');
        let (first, second) = secret.split_at(at);
        let first = format!("before {first}");
        let second = format!("{second} after\n");
        let seen = shown(&lab, &bob, &[&first, &second, "end\n"]);
        assert!(seen.starts_with("before "), "{seen}");
        assert!(seen.ends_with(" after\nend\n"), "{seen}");
        check_gone(&lab, &secret);
    }
}

#[test]
fn pieces_of_different_streams_and_sessions_are_kept_apart() {
    let lab = Lab::pair();
    let alice = lab.attach("alice", &Kind::able());
    let bob = lab.attach("bob", &Kind::able());
    let secret = secret('c');
    let (first, second) = secret.split_at(12);
    let piece = |stream: &str, text: &str| json!({ "type": "terminal.output", "stream": stream, "text": text });
    drop(bob.emit(piece("stdout", first)));
    drop(bob.emit(piece("stderr", "something else\n")));
    alice.report(piece("stdout", "and else\n")).unwrap();
    drop(bob.emit(piece("stdout", second)));
    drop(bob.emit(piece("stdout", " done\n")));
    check_gone(&lab, &secret);
    let text = everything(&lab);
    for kept in ["something else", "and else", " done"] {
        assert!(text.contains(kept), "{kept}");
    }
}

#[test]
fn a_report_that_is_repeated_does_not_enter_the_stream_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let secret = secret('d');
    let (first, second) = secret.split_at(12);
    let piece = |text: &str| json!({ "type": "terminal.output", "text": text });
    for (n, text) in [(1, first), (1, first), (2, second), (3, "\n")] {
        drop(bob.emit_all(&[(n, piece(text))]));
    }
    assert_eq!(told(&lab, "terminal.").len(), 3);
    check_gone(&lab, &secret);
}

#[test]
fn secrets_in_receipts_are_removed() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let secret = secret('e');
    let metadata = serde_json::from_value(json!({ "evidence": [secret] })).unwrap();
    lab.say("one");
    bob.answer(
        &bob.offer(),
        MessageReceipt::Deferred(DeferredReceipt {
            delivery_id: None,
            available_at: lab.later(1_000),
            reason: Some(format!("no {secret}")),
            metadata: Some(metadata),
        }),
    );
    lab.say("two");
    bob.answer(
        &bob.offer(),
        MessageReceipt::Failed(FailedReceipt {
            delivery_id: None,
            reason: format!("bad {secret}"),
            retryable: None,
            metadata: None,
        }),
    );
    lab.say("three");
    let offer = bob.offer();
    let event = json!({ "type": "delivery.failed", "deliveryId": offer.context.id,
                        "messageId": offer.message.id, "reason": secret });
    bob.report(event).unwrap();
    check_gone(&lab, &secret);
}

#[test]
fn text_that_might_have_begun_a_secret_is_shown_after_a_moment() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(shown(&lab, &bob, &["$ gh"]), "");
    lab.pass(199);
    assert_eq!(shown(&lab, &bob, &[]), "");
    lab.pass(1);
    assert_eq!(shown(&lab, &bob, &[]), "$ gh");
    // It is not said twice.
    assert_eq!(shown(&lab, &bob, &[" pr list\n"]), "$ gh pr list\n");
    lab.pass(1_000);
    assert_eq!(shown(&lab, &bob, &[]), "$ gh pr list\n");
}

/// The events whose names begin so, each with its text.
fn told(lab: &Lab, prefix: &str) -> Vec<String> {
    let mut told = Vec::new();
    for event in lab.log() {
        let name = event["type"].as_str().unwrap();
        let text = ["text", "output"].map(|field| event["event"][field].as_str());
        if name.starts_with(prefix) {
            let text = text.into_iter().flatten().next();
            told.push(format!("{name} {}", text.unwrap_or_default()));
        }
    }
    told
}

#[test]
fn a_secret_in_pieces_is_removed_after_a_long_absence_as_well() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.lose_link();
    lab.pass(24 * 3_600_000);
    let secret = secret('b');
    let (begins, ends) = secret.split_at(12);
    shown(&lab, &bob, &[begins, ends, "\n"]);
    check_gone(&lab, &secret);
    assert!(
        !everything(&lab).contains(&begins[..8]),
        "its beginning was kept"
    );
}
