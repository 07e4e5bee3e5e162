//! What a session can't do: the delivery fails with the problem, or another way is found if that is
//! allowed. A send is never refused because of it.

use base64::Engine as _;
use relay_protocol::api::messages::{MessageSent, NewAttachment, SendMessage};
use relay_protocol::delivery::{DeliveryMode, DeliveryState, Surfaced};
use relay_protocol::message::AttachmentKind;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, mail, minimum, only};
use crate::support::target;

fn asking(mode: DeliveryMode) -> SendMessage {
    SendMessage {
        mode: Some(mode),
        ..mail("hello")
    }
}

/// It may go another way.
fn flexible(body: SendMessage) -> SendMessage {
    SendMessage {
        allow_downgrade: Some(true),
        ..body
    }
}

fn with_picture(body: SendMessage) -> SendMessage {
    let data = base64::engine::general_purpose::STANDARD.encode(b"\x89PNG\r\n\x1a\n");
    SendMessage {
        attachments: Some(vec![NewAttachment {
            attachment_id: None,
            kind: Some(AttachmentKind::Image),
            media_type: Some("image/png".to_owned()),
            name: Some("plan.png".to_owned()),
            data: Some(data),
        }]),
        ..body
    }
}

fn check_problem(problem: &Problem, capability: &str) {
    assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
    assert_eq!(problem.capability.as_deref(), Some(capability));
}

#[test]
fn a_mode_that_the_session_cannot_do_fails_that_delivery_and_no_other() {
    let lab = Lab::new(["alice", "bob", "carol", "dave"]);
    let bob = lab.attach("bob", &Kind::polite());
    let carol = lab.attach("carol", &Kind::able());
    let sent = lab.send(
        "alice",
        SendMessage {
            mode: Some(DeliveryMode::Immediate),
            ..SendMessage::text(target("#general"), "hello")
        },
    );
    let states = |sent: &MessageSent| -> Vec<_> {
        let deliveries = sent.deliveries.iter();
        deliveries
            .map(|delivery| (delivery.agent.clone(), delivery.state))
            .collect()
    };
    let expected = [
        ("bob".to_owned(), DeliveryState::Failed),
        ("carol".to_owned(), DeliveryState::Pending),
        ("dave".to_owned(), DeliveryState::Pending),
    ];
    assert_eq!(states(&sent), expected);
    let failed = &sent.deliveries[0];
    let problem = failed.error.as_ref().unwrap();
    check_problem(problem, "delivery.modes");
    assert_eq!(problem.requested, Some(json!("immediate")));
    assert_eq!(problem.supported, Some(json!(["on-idle"])));

    let told = only(&lab.events("delivery.failed")).clone();
    assert_eq!(told["deliveryId"], json!(failed.delivery_id));
    assert_eq!(told["reason"], "capability_not_supported");
    assert_eq!(told["error"], json!(problem));
    assert_eq!(told["message"]["text"], "hello");
    assert_eq!(
        [&told["terminal"], &told["retryable"]],
        [&json!(true), &json!(false)]
    );
    assert_eq!(told["surfaced"], "no");
    let kept = lab.delivery(failed.delivery_id);
    assert_eq!(
        (kept.error.as_ref(), kept.surfaced),
        (Some(problem), Some(Surfaced::No))
    );
    assert_eq!(bob.texts(), [""; 0]);
    assert_eq!(carol.texts(), ["hello"]);
}

#[test]
fn without_a_session_the_check_is_made_when_one_attaches() {
    let lab = Lab::pair();
    let strict = lab.post(asking(DeliveryMode::NextMessage));
    let free = lab.post(flexible(asking(DeliveryMode::NextMessage)));
    assert_eq!(lab.state(strict), DeliveryState::Pending);
    let bob = lab.attach("bob", &Kind::polite());
    assert_eq!(lab.state(strict), DeliveryState::Failed);
    let told = lab.last("delivery.failed");
    assert_eq!(told["error"]["capability"], "delivery.modes");
    assert_eq!(told["sessionId"], json!(bob.id()));
    assert_eq!(bob.offer().context.id, free);
}

#[test]
fn the_mode_is_decided_again_for_another_session() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let strict = lab.post(asking(DeliveryMode::NextMessage));
    let adaptive = lab.say("whenever");
    let other = lab.attach("bob", &Kind::polite().doing(AgentStatus::Active));
    assert_eq!(lab.state(strict), DeliveryState::Failed);
    assert_eq!(lab.state(adaptive), DeliveryState::Pending);
    other.becomes(AgentStatus::Idle);
    assert_eq!(other.offer().context.id, adaptive);
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn another_boundary_is_found_if_that_is_allowed_and_the_explanation_says_why() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite().doing(AgentStatus::Active));
    let id = lab.post(flexible(asking(DeliveryMode::NextToolCall)));
    assert_eq!(lab.state(id), DeliveryState::Pending);
    bob.becomes(AgentStatus::Idle);
    let offer = bob.offer();
    assert_eq!(offer.context.mode, DeliveryMode::OnIdle);
    bob.deliver(&offer);
    let delivery = lab.delivery(id);
    assert_eq!(delivery.requested_mode, Some(DeliveryMode::NextToolCall));
    assert_eq!(delivery.mode, Some(DeliveryMode::OnIdle));
    let why = "next-tool-call is not supported, on-idle is used instead: the session is idle";
    assert_eq!(delivery.mode_reason.as_deref(), Some(why));
}

#[test]
fn every_mode_finds_a_way_into_every_session_that_takes_anything() {
    for &asked in DeliveryMode::ALL {
        for kind in [minimum(), Kind::polite(), Kind::polite().queueing()] {
            let lab = Lab::pair();
            let bob = lab.attach("bob", &kind);
            lab.post(flexible(asking(asked)));
            assert_eq!(bob.texts(), ["hello"], "{asked}");
        }
    }
}

#[test]
fn a_tool_call_that_no_longer_comes_is_not_waited_for() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let free = lab.post(flexible(asking(DeliveryMode::NextToolCall)));
    let strict = lab.post(asking(DeliveryMode::NextToolCall));
    lab.pass(60_000);
    assert_eq!(bob.texts(), [""; 0]);
    bob.becomes(AgentStatus::Idle);
    let offer = bob.offer();
    assert_eq!(
        (offer.context.id, offer.context.mode),
        (free, DeliveryMode::OnIdle)
    );
    let why = "the turn ended without a tool call";
    assert_eq!(lab.delivery(free).mode_reason.as_deref(), Some(why));
    assert_eq!(lab.state(strict), DeliveryState::Pending);
    bob.stands_at(BoundaryKind::NextToolCall);
    assert_eq!(bob.offer().context.id, strict);
}

#[test]
fn a_tool_call_that_comes_is_taken() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    lab.post(flexible(asking(DeliveryMode::NextToolCall)));
    bob.ran_a_tool();
    assert_eq!(bob.offer().context.mode, DeliveryMode::NextToolCall);
}

#[test]
fn a_picture_for_one_that_reads_only_text_fails() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let sent = lab.send("alice", with_picture(mail("look")));
    let failed = only(&sent.deliveries);
    assert_eq!(failed.state, DeliveryState::Failed);
    let problem = failed.error.as_ref().unwrap();
    check_problem(problem, "messaging.attachments");
    assert_eq!(problem.requested, Some(json!("image")));
    assert_eq!(problem.supported, Some(json!(["text"])));
    assert_eq!(lab.last("delivery.failed")["error"], json!(problem));
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn a_picture_is_checked_when_a_session_attaches() {
    let lab = Lab::pair();
    let id = lab.post(with_picture(mail("look")));
    assert_eq!(lab.state(id), DeliveryState::Pending);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(lab.state(id), DeliveryState::Failed);
    let error = lab.delivery(id).error.unwrap();
    check_problem(&error, "messaging.attachments");
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn a_picture_becomes_a_line_if_that_is_allowed() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let sent = lab.send("alice", flexible(with_picture(mail("look"))));
    let picture = sent.message.attachments[0].attachment_id.unwrap();
    let offer = bob.offer();
    let line = format!("look\n[image \"plan.png\", image/png, 8 bytes, attachment {picture}]");
    assert_eq!(offer.message.text, line);
    assert_eq!(offer.message.attachments, []);
    bob.deliver(&offer);
    let story = lab.delivery(offer.context.id).story.unwrap();
    assert!(
        story.contains("its image becomes a line of text"),
        "{story}"
    );
    // Others see the message as it was sent.
    let key = lab.who("key");
    let kept = lab
        .drive(lab.engine().message(&key, sent.message_id))
        .unwrap();
    assert_eq!(kept.message.text, "look");
    assert_eq!(kept.message.attachments.len(), 1);
}

#[test]
fn one_that_takes_pictures_gets_the_picture() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().with_images());
    for body in [
        with_picture(mail("look")),
        flexible(with_picture(mail("look"))),
    ] {
        lab.post(body);
        let offer = bob.offer();
        assert_eq!(offer.message.text, "look");
        assert_eq!(offer.message.attachments.len(), 1);
    }
}
