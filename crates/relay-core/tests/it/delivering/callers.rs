//! What callers can do about a delivery: `deliver` and `retry`, and what they are told.

use relay_core::{Error, Result};
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{
    DeliveryMode, DeliveryReason, DeliveryState, MessageReceipt, Priority,
};
use relay_protocol::delivery_record::{CancelDelivery, DeliverContext, DeliverMessage};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use relay_protocol::status::AgentStatus;
use serde_json::{Value, json};

use super::kit::{Call, Kind, Lab, deferred, failed, mail, minimum, only};
use crate::support::target;

fn to_bob(message_id: MessageId) -> DeliverMessage {
    DeliverMessage {
        message_id,
        agent: Some("@bob".to_owned()),
        session_id: None,
        context: None,
    }
}

fn begin_deliver<'l>(
    lab: &'l Lab,
    who: &str,
    body: DeliverMessage,
) -> Call<'l, Result<MessageReceipt>> {
    let (engine, caller) = (lab.engine(), lab.who(who));
    lab.begin(async move { engine.deliver(&caller, body).await })
}

fn begin_retry<'l>(lab: &'l Lab, who: &str, id: DeliveryId) -> Call<'l, Result<MessageReceipt>> {
    let (engine, caller) = (lab.engine(), lab.who(who));
    lab.begin(async move { engine.retry(&caller, id).await })
}

/// Something that alice has written down and that concerns nobody: a post in a room of her own.
fn note(lab: &Lab) -> MessageId {
    let alice = lab.who("alice");
    let body = relay_protocol::api::workspace::CreateChannel {
        name: "notes".to_owned(),
        topic: None,
    };
    lab.drive(lab.engine().create_channel(&alice, body))
        .unwrap();
    let post = SendMessage::text(target("#notes"), "a note");
    lab.send("alice", post).message_id
}

fn delivery_of(receipt: &MessageReceipt) -> DeliveryId {
    serde_json::from_value(json!(receipt)["deliveryId"].clone()).unwrap()
}

/// The answer while Relay holds a delivery.
fn held(receipt: &MessageReceipt) -> Value {
    let receipt = json!(receipt);
    assert_eq!(receipt["status"], "accepted", "{receipt}");
    assert_eq!(receipt["metadata"]["heldBy"], "relay", "{receipt}");
    receipt["metadata"]["waitsFor"].clone()
}

#[test]
fn deliver_answers_with_what_the_session_says() {
    let answers: [fn(&Lab, DeliveryId) -> MessageReceipt; 4] = [
        |_, id| super::kit::delivered(id),
        |_, id| super::kit::accepted(id),
        |lab, _| deferred(lab.later(5_000)),
        |_, _| failed("no", Some(true)),
    ];
    for answer in answers {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let mut call = begin_deliver(&lab, "key", to_bob(note(&lab)));
        assert!(call.waits());
        let offer = bob.offer();
        assert_eq!(offer.message.text, "a note");
        let receipt = answer(&lab, offer.context.id);
        bob.answer(&offer, receipt.clone());
        let told = call.end().unwrap();
        assert_eq!(told.tag(), receipt.tag());
        assert_eq!(delivery_of(&told), offer.context.id);
    }
}

#[test]
fn deliver_says_that_relay_holds_it_and_what_it_waits_for() {
    let lab = Lab::pair();
    let message = note(&lab);
    let alone = begin_deliver(&lab, "key", to_bob(message)).end().unwrap();
    assert_eq!(held(&alone), Value::Null, "no session");
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let busy = begin_deliver(&lab, "key", to_bob(message)).end().unwrap();
    assert_eq!(held(&busy), "next-tool-call");
    let id = delivery_of(&busy);
    assert_eq!(delivery_of(&alone), id, "it is the same one");
    assert_eq!(
        lab.delivery(id).receipts.unwrap(),
        [],
        "an answer, not a receipt"
    );
    bob.becomes(AgentStatus::Idle);
    bob.answer(&bob.offer(), deferred(lab.later(5_000)));
    let resting = begin_deliver(&lab, "key", to_bob(message)).end().unwrap();
    assert_eq!(held(&resting), Value::Null, "put off");
}

#[test]
fn deliver_says_what_has_happened_before() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let message = note(&lab);
    let call = begin_deliver(&lab, "key", to_bob(message));
    let offer = bob.offer();
    let second = begin_deliver(&lab, "key", to_bob(message));
    bob.accept(&offer);
    for call in [call, second] {
        assert_eq!(call.end().unwrap().tag(), "accepted");
    }
    let third = begin_deliver(&lab, "key", to_bob(message)).end().unwrap();
    assert_eq!(json!(third), json!(super::kit::accepted(offer.context.id)));
    bob.deliver_held(offer.context.id);
    let again = begin_deliver(&lab, "key", to_bob(message)).end();
    assert_eq!(again.unwrap_err().code(), ErrorCode::AlreadyDelivered);
    assert_eq!(lab.events("delivery.created").len(), 1);
}

#[test]
fn a_repeated_deliver_with_a_key_has_the_first_result() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let message = note(&lab);
    let body = |mode| DeliverMessage {
        context: Some(DeliverContext {
            idempotency_key: Some("once".to_owned()),
            mode,
            ..DeliverContext::default()
        }),
        ..to_bob(message)
    };
    let call = begin_deliver(&lab, "key", body(None));
    bob.deliver(&bob.offer());
    let first = call.end().unwrap();
    let again = begin_deliver(&lab, "key", body(None)).end().unwrap();
    assert_eq!(again, first);
    let other = begin_deliver(&lab, "key", body(Some(DeliveryMode::Manual))).end();
    assert_eq!(other.unwrap_err().code(), ErrorCode::IdempotencyConflict);
}

#[test]
fn deliver_to_a_session_that_cannot_take_it_says_so() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite());
    let body = DeliverMessage {
        context: Some(DeliverContext {
            mode: Some(DeliveryMode::Immediate),
            ..DeliverContext::default()
        }),
        ..to_bob(note(&lab))
    };
    let told = begin_deliver(&lab, "key", body).end().unwrap();
    let MessageReceipt::Failed(told) = told else {
        panic!("{told:?}");
    };
    assert_eq!(told.reason, "capability_not_supported");
    assert_eq!(told.retryable, Some(false));
    let kept = lab.delivery(told.delivery_id.unwrap());
    assert_eq!(
        kept.error.unwrap().capability.as_deref(),
        Some("delivery.modes")
    );
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn what_is_said_about_a_delivery_reaches_the_session() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let deadline = lab.later(60_000);
    let body = DeliverMessage {
        context: Some(DeliverContext {
            mode: Some(DeliveryMode::Immediate),
            reason: Some(DeliveryReason::Notification),
            priority: Some(Priority::Urgent),
            deadline: Some(deadline),
            ..DeliverContext::default()
        }),
        ..to_bob(note(&lab))
    };
    begin_deliver(&lab, "key", body);
    let context = bob.offer().context;
    assert_eq!(context.mode, DeliveryMode::Immediate);
    assert_eq!(context.reason, DeliveryReason::Notification);
    assert_eq!(context.priority, Some(Priority::Urgent));
    assert_eq!(context.deadline, Some(deadline));
}

#[test]
fn the_senders_key_and_the_callers_metadata_reach_the_session() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let keyed = || SendMessage {
        idempotency_key: Some("7f3c".to_owned()),
        ..mail("keyed")
    };
    lab.send("alice", keyed());
    let offer = bob.offer();
    assert_eq!(offer.context.idempotency_key.as_deref(), Some("7f3c"));
    bob.deliver(&offer);
    lab.say("without a key");
    let offer = bob.offer();
    assert_eq!(offer.context.idempotency_key, None);
    bob.deliver(&offer);
    // It is read from the store again after a restart, and after an edit.
    let metadata = json!({ "ticket": 7 });
    let body = DeliverMessage {
        context: Some(DeliverContext {
            idempotency_key: Some("mine".to_owned()),
            metadata: metadata.as_object().cloned(),
            ..DeliverContext::default()
        }),
        ..to_bob(note(&lab))
    };
    begin_deliver(&lab, "key", body.clone());
    let context = bob.offer().context;
    assert_eq!(context.idempotency_key.as_deref(), Some("mine"));
    assert_eq!(context.metadata.as_ref().unwrap()["ticket"], 7);
    assert!(context.epoch().is_some());
    // The same again is the same; other metadata would be lost.
    let same = DeliverMessage {
        context: body.context.clone().map(|context| DeliverContext {
            idempotency_key: None,
            ..context
        }),
        ..body.clone()
    };
    begin_deliver(&lab, "key", same.clone());
    let other = DeliverMessage {
        context: same.context.clone().map(|context| DeliverContext {
            metadata: json!({ "ticket": 8 }).as_object().cloned(),
            ..context
        }),
        ..same
    };
    let refused = begin_deliver(&lab, "key", other).end().unwrap_err();
    assert_eq!(refused.problem().path.as_deref(), Some("context.metadata"));
    let lab = lab.restarted();
    let bob = lab.attach("bob", &Kind::able());
    let context = bob.offer().context;
    assert_eq!(context.idempotency_key.as_deref(), Some("mine"));
    assert_eq!(context.metadata.unwrap()["ticket"], 7);
}

#[test]
fn a_key_outlives_an_edit_and_a_repetition() {
    let lab = Lab::pair();
    let keyed = || SendMessage {
        idempotency_key: Some("7f3c".to_owned()),
        ..mail("first words")
    };
    let sent = lab.send("alice", keyed());
    assert_eq!(lab.send("alice", keyed()), sent);
    let (engine, alice) = (lab.engine(), lab.who("alice"));
    let edited = engine.edit_message(&alice, sent.message_id, "second words".to_owned());
    lab.drive(edited).unwrap();
    let offer = lab.attach("bob", &Kind::able()).offer();
    assert_eq!(offer.message.text, "second words");
    assert_eq!(offer.context.idempotency_key.as_deref(), Some("7f3c"));
}

#[test]
fn metadata_that_relay_writes_itself_is_refused() {
    let lab = Lab::pair();
    let body = DeliverMessage {
        context: Some(DeliverContext {
            metadata: json!({ "epoch": 1 }).as_object().cloned(),
            ..DeliverContext::default()
        }),
        ..to_bob(note(&lab))
    };
    let refused = begin_deliver(&lab, "key", body).end().unwrap_err();
    let problem = refused.problem();
    assert_eq!(problem.path.as_deref(), Some("context.metadata"));
    assert_eq!(problem.found.as_deref(), Some("\"epoch\""));
}

#[test]
fn a_delivery_that_is_named_is_the_one_that_is_delivered() {
    let lab = Lab::pair();
    let sent = lab.send("alice", mail("hello"));
    let id = only(&sent.deliveries).delivery_id;
    let named = |id| DeliverMessage {
        context: Some(DeliverContext {
            id: Some(id),
            ..DeliverContext::default()
        }),
        ..to_bob(sent.message_id)
    };
    let told = begin_deliver(&lab, "key", named(id)).end().unwrap();
    assert_eq!(delivery_of(&told), id);
    let invented = DeliveryId::new(lab.now(), 7);
    let refused = begin_deliver(&lab, "key", named(invented))
        .end()
        .unwrap_err();
    let problem = refused.problem();
    assert_eq!(problem.code, ErrorCode::InvalidRequest);
    assert_eq!(problem.path.as_deref(), Some("context.id"));
    assert_eq!(problem.found, Some(invented.to_string()));
    let key = lab.who("key");
    let cancelled = lab
        .engine()
        .cancel_delivery(&key, id, CancelDelivery::default());
    lab.drive(cancelled).unwrap();
    let refused = begin_deliver(&lab, "key", named(id)).end().unwrap_err();
    assert_eq!(refused.code(), ErrorCode::IllegalTransition);
    assert!(
        refused.to_string().contains("without context.id"),
        "{refused}"
    );
}

#[test]
fn a_second_deliver_of_a_delivered_message_says_how_to_show_it_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let sent = lab.send("alice", mail("hello"));
    bob.deliver(&bob.offer());
    let refused = begin_deliver(&lab, "key", to_bob(sent.message_id))
        .end()
        .unwrap_err();
    assert_eq!(refused.code(), ErrorCode::AlreadyDelivered);
    let id = only(&sent.deliveries).delivery_id;
    let said = refused.to_string();
    assert!(said.contains(&id.to_string()), "{said}");
    assert!(said.contains("send it as a new one"), "{said}");
    assert!(said.contains("sessionId"), "{said}");
}

#[test]
fn deliver_needs_a_message_and_somebody_who_may_have_it() {
    let lab = Lab::pair();
    let message = note(&lab);
    let with = |agent: Option<&str>, session_id| DeliverMessage {
        agent: agent.map(str::to_owned),
        session_id,
        ..to_bob(message)
    };
    let nobody = SessionId::new(lab.now(), 7);
    let past = DeliverMessage {
        context: Some(DeliverContext {
            deadline: Some(lab.now()),
            ..DeliverContext::default()
        }),
        ..to_bob(message)
    };
    let unknown = to_bob(MessageId::new(lab.now(), 7));
    let cases = [
        ("key", with(None, None), ErrorCode::InvalidRequest),
        (
            "key",
            with(Some("bob"), Some(nobody)),
            ErrorCode::InvalidRequest,
        ),
        ("key", with(Some("carol"), None), ErrorCode::UnknownAgent),
        ("key", with(None, Some(nobody)), ErrorCode::UnknownSession),
        ("key", past, ErrorCode::InvalidRequest),
        ("key", unknown, ErrorCode::UnknownMessage),
        // Bob is not where the note is.
        ("alice", to_bob(message), ErrorCode::NotAMember),
        ("bob", to_bob(message), ErrorCode::UnknownMessage),
    ];
    for (who, body, code) in cases {
        let refused = begin_deliver(&lab, who, body.clone()).end().unwrap_err();
        assert_eq!(refused.code(), code, "{who} {body:?}");
    }
    assert_eq!(lab.events("delivery.created").len(), 0);
}

#[test]
fn a_session_that_says_nothing_has_failed_to_answer() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let mut call = begin_deliver(&lab, "key", to_bob(note(&lab)));
    bob.offer();
    lab.pass(29_999);
    assert!(call.waits());
    lab.pass(1);
    let told = call.end().unwrap();
    assert_eq!(lab.state(delivery_of(&told)), DeliveryState::Pending);
    let MessageReceipt::Failed(told) = told else {
        panic!("{told:?}");
    };
    assert_eq!(
        (told.reason.as_str(), told.retryable),
        ("no_receipt", Some(true))
    );
}

/// A delivery that has failed.
fn lost(lab: &Lab, bob: &super::kit::Session<'_>) -> DeliveryId {
    let id = lab.say("hello");
    bob.answer(&bob.offer(), failed("no", None));
    assert_eq!(lab.state(id), DeliveryState::Failed);
    id
}

#[test]
fn a_retry_opens_the_same_delivery_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lost(&lab, &bob);
    let mut call = begin_retry(&lab, "alice", id);
    assert!(call.waits());
    let open = lab.delivery(id);
    assert_eq!((open.generation, open.attempt), (2, 0));
    assert_eq!((open.state, open.surfaced), (DeliveryState::Offered, None));
    let offer = bob.offer();
    assert_eq!(offer.context.id, id);
    bob.deliver(&offer);
    assert_eq!(call.end().unwrap().tag(), "delivered");
    assert_eq!(
        lab.course(id),
        ["created", "failed", "deferred", "delivered"]
    );
    let told = lab.last("delivery.deferred");
    assert_eq!(told["reason"], "retry");
}

#[test]
fn a_retry_has_all_attempts_again_and_a_deadline_that_has_not_passed() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let deadline = lab.later(7_200_000);
    let id = lab.post(SendMessage {
        deadline: Some(deadline),
        ..mail("hello")
    });
    lab.pass(3_600_000);
    assert_eq!(bob.offers().len(), 8);
    assert_eq!(lab.state(id), DeliveryState::Failed);
    begin_retry(&lab, "key", id);
    assert_eq!(lab.delivery(id).deadline, deadline);
    lab.pass(3_600_000 - 1);
    assert_eq!(bob.offers().len(), 8);
    lab.pass(1);
    begin_retry(&lab, "key", id);
    let open = lab.delivery(id);
    assert_eq!(open.generation, 3);
    assert_eq!(open.deadline, lab.later(7 * 24 * 3_600_000));
}

#[test]
fn a_retry_says_that_relay_holds_it() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lost(&lab, &bob);
    bob.becomes(AgentStatus::Active);
    let told = begin_retry(&lab, "key", id).end().unwrap();
    assert_eq!(held(&told), "next-tool-call");
    assert_eq!(lab.delivery(id).receipts.unwrap().len(), 1);
    bob.becomes(AgentStatus::Failed);
    assert_eq!(lab.state(id), DeliveryState::Pending);
}

#[test]
fn a_retry_of_what_cannot_be_taken_fails_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite());
    let id = lab.post(SendMessage {
        mode: Some(DeliveryMode::Immediate),
        ..mail("hello")
    });
    let told = begin_retry(&lab, "key", id).end().unwrap();
    let told = json!(told);
    assert_eq!(
        [&told["status"], &told["reason"]],
        ["failed", "capability_not_supported"]
    );
    assert_eq!(lab.delivery(id).generation, 2);
    assert_eq!(bob.texts(), [""; 0]);
    let bob = lab.attach("bob", &minimum());
    begin_retry(&lab, "key", id);
    assert_eq!(bob.texts(), ["hello"]);
}

#[test]
fn only_what_has_failed_is_tried_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let seen = lab.say("seen");
    bob.deliver(&bob.offer());
    let held = lab.say("held");
    bob.accept(&bob.offer());
    let offered = lab.say("offered");
    bob.becomes(AgentStatus::Failed);
    let cancelled = lab.say("cancelled");
    let key = lab.who("key");
    let cancel = lab
        .engine()
        .cancel_delivery(&key, cancelled, CancelDelivery::default());
    lab.drive(cancel).unwrap();
    for (id, code) in [
        (seen, ErrorCode::AlreadyDelivered),
        (cancelled, ErrorCode::IllegalTransition),
        (held, ErrorCode::IllegalTransition),
        (offered, ErrorCode::IllegalTransition),
    ] {
        let problem = begin_retry(&lab, "key", id).end().unwrap_err().problem();
        assert_eq!((problem.code, problem.status), (code, 409));
        assert_eq!(lab.delivery(id).generation, 1);
    }
}

#[test]
fn a_retry_for_a_session_that_is_no_more_is_refused() {
    let lab = Lab::pair();
    let older = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let bob = lab.attach("bob", &Kind::able());
    let sent = lab.post_all("hello");
    bob.deliver(&bob.offer());
    let id = lab.deliver_to(sent.message_id, older.id());
    older.becomes(AgentStatus::Failed);
    assert_eq!(lab.state(id), DeliveryState::Failed);
    let refused = begin_retry(&lab, "key", id).end().unwrap_err();
    assert!(matches!(refused, Error::SessionEnded { .. }), "{refused}");
    assert_eq!(lab.delivery(id).generation, 1);
}

#[test]
fn author_recipient_and_workspace_may_retry_and_nobody_else() {
    for (who, allowed) in [
        ("alice", true),
        ("bob", true),
        ("key", true),
        ("carol", false),
    ] {
        let lab = Lab::new(["alice", "bob", "carol"]);
        let bob = lab.attach("bob", &Kind::able());
        let id = lost(&lab, &bob);
        let mut call = begin_retry(&lab, who, id);
        assert_eq!(call.waits(), allowed, "{who}");
        if !allowed {
            assert_eq!(call.end().unwrap_err().code(), ErrorCode::UnknownDelivery);
        }
    }
}

#[test]
fn deliver_to_an_agent_for_whom_too_much_waits_says_so() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        queue_limit: Some(2),
        ..PolicyPatch::default()
    });
    lab.flood(2);
    let told = begin_deliver(&lab, "key", to_bob(note(&lab)))
        .end()
        .unwrap();
    let told = json!(told);
    assert_eq!([&told["status"], &told["reason"]], ["failed", "queue_full"]);
    let events = lab.events("delivery.failed");
    assert_eq!(only(&events)["reason"], "queue_full");
}
