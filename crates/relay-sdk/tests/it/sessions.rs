//! Sessions that are served: every kind of receipt, reports, boundaries.

use std::sync::Mutex;

use relay_sdk::protocol::capability::AgentSessionCapabilities;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::protocol::session_event::{LogLevel, LogLine, StatusChanged};
use relay_sdk::{
    AgentClient, AgentSessionEvent, AgentStatus, BoundaryKind, CallbackSession, DeliveryMode,
    ErrorCode, MessageReceipt, SessionError, Timestamp, accepted, deferred, delivered, events,
    failed, failed_for_now,
};
use tokio::sync::mpsc;

use crate::support::{PATIENCE, World, next};

pub(crate) fn status(status: AgentStatus) -> AgentSessionEvent {
    AgentSessionEvent::StatusChanged(StatusChanged {
        status,
        previous_status: None,
        reason: None,
    })
}

pub(crate) fn log(message: &str) -> AgentSessionEvent {
    AgentSessionEvent::Log(LogLine {
        level: LogLevel::Info,
        message: message.to_owned(),
    })
}

/// Waits until a delivery has ended, and says how.
pub(crate) async fn ended(client: &AgentClient, id: DeliveryId) -> (DeliveryState, Option<String>) {
    let started = tokio::time::Instant::now();
    loop {
        let delivery = client.delivery(id).await.unwrap();
        if matches!(
            delivery.state,
            DeliveryState::Delivered | DeliveryState::Failed | DeliveryState::Cancelled
        ) {
            return (delivery.state, delivery.error.map(|error| error.detail));
        }
        if started.elapsed() > PATIENCE {
            panic!("a delivery did not end: {delivery:#?}");
        }
        tokio::task::yield_now().await;
    }
}

/// A session that answers what a function says, and tells what it got.
pub(crate) fn answering(
    client: &AgentClient,
    answer: impl Fn(&str, DeliveryId) -> Result<MessageReceipt, SessionError> + Send + Sync + 'static,
) -> (
    CallbackSession,
    mpsc::UnboundedReceiver<(String, DeliveryId)>,
) {
    let (tell, told) = mpsc::unbounded_channel();
    let session = CallbackSession::new(client.identity().clone(), move |message, ctx| {
        let _ = tell.send((message.text.clone(), ctx.id));
        let answer = answer(&message.text, ctx.id);
        async move { answer }
    });
    (session, told)
}

#[tokio::test]
async fn what_is_surfaced_is_delivered() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let session = bob.attach(session).harness("test").await.unwrap();
    let summary = bob.session(session.session_id().unwrap()).await.unwrap();
    assert_eq!((summary.harness.as_str(), summary.current), ("test", true));
    for text in ["one", "two", "three"] {
        let sent = alice.send_message("@bob", text).await.unwrap();
        let id = sent.deliveries[0].delivery_id;
        assert_eq!(next("the message", &mut told).await, (text.to_owned(), id));
        assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
        let delivery = alice.delivery(id).await.unwrap();
        let receipt = delivery.receipts.unwrap().remove(0).receipt;
        let MessageReceipt::Delivered(receipt) = receipt else {
            panic!("{receipt:?}");
        };
        assert_eq!(receipt.metadata.unwrap()["door"], "callback");
    }
}

#[tokio::test]
async fn what_is_accepted_is_delivered_later_by_receipt_or_event() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let (session, mut told) = answering(&bob, |_, id| Ok(accepted(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.queue = Some(true);
    capabilities
        .events
        .emits
        .push("delivery.delivered".parse().unwrap());
    let session = session.with_capabilities(capabilities);
    let session = bob.attach(session).await.unwrap();
    let (tell, mut accepted_events) = mpsc::unbounded_channel();
    relay
        .add_listener(events::DELIVERY_ACCEPTED, move |event| {
            let _ = tell.send(event.delivery_id);
            async {}
        })
        .await
        .unwrap();
    for by_event in [false, true] {
        let sent = alice.send_message("@bob", "later").await.unwrap();
        let (_, id) = next("the message", &mut told).await;
        assert_eq!(next("accepted", &mut accepted_events).await, id);
        if by_event {
            let report = serde_json::json!({
                "type": "delivery.delivered", "deliveryId": id, "messageId": sent.message_id,
            });
            let event = serde_json::from_value(report).unwrap();
            session.emit_session_event(event).await.unwrap();
        } else {
            session.receipt(delivered(id)).await.unwrap();
        }
        assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
    }
}

#[tokio::test]
async fn what_is_deferred_comes_again() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let attempts = Mutex::new(0);
    let (session, mut told) = answering(&bob, move |_, id| {
        let mut attempts = attempts.lock().unwrap();
        *attempts += 1;
        match *attempts {
            1 => Ok(deferred(Timestamp::from_millis(0), "busy")),
            2 => Ok(failed_for_now("not yet")),
            _ => Ok(delivered(id)),
        }
    });
    let _session = bob.attach(session).await.unwrap();
    let sent = alice.send_message("@bob", "hello").await.unwrap();
    for _ in 0..3 {
        next("an attempt", &mut told).await;
    }
    let id = sent.deliveries[0].delivery_id;
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
}

#[tokio::test]
async fn refusals_errors_and_panics_are_failed_receipts() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let (session, _told) = answering(&bob, |text, id| match text {
        "refuse" => Ok(failed("no")),
        "error" => Err("it broke".into()),
        "panic" => panic!("a session that panics"),
        _ => Ok(delivered(id)),
    });
    let _session = bob.attach(session).await.unwrap();
    for (text, reason) in [
        ("refuse", Some("no")),
        ("error", Some("it broke")),
        ("panic", Some("the session panicked")),
        ("fine", None),
    ] {
        let sent = alice.send_message("@bob", text).await.unwrap();
        let id = sent.deliveries[0].delivery_id;
        let state = match reason {
            Some(_) => DeliveryState::Failed,
            None => DeliveryState::Delivered,
        };
        assert_eq!(ended(&alice, id).await.0, state, "{text}");
        let receipts = alice.delivery(id).await.unwrap().receipts.unwrap();
        match (&receipts[0].receipt, reason) {
            (MessageReceipt::Failed(failed), Some(reason)) => assert_eq!(failed.reason, reason),
            (MessageReceipt::Delivered(_), None) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn reports_come_in_order_and_wrong_ones_are_refused_alone() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let (session, _told) = answering(&bob, |_, id| Ok(delivered(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.events.emits.push("log".parse().unwrap());
    let session = session.with_capabilities(capabilities);
    let session = bob.attach(session).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(events::LOG, move |event| {
            if let AgentSessionEvent::Log(line) = &event.event {
                let _ = tell.send(line.message.clone());
            }
            async {}
        })
        .await
        .unwrap();
    let id = session.session_id().unwrap();
    for number in 0..200 {
        bob.emit_session_event(id, log(&number.to_string()))
            .unwrap();
        if number == 100 {
            // Nothing becomes `starting` again.
            bob.emit_session_event(id, status(AgentStatus::Starting))
                .unwrap();
        }
    }
    for number in 0..200 {
        assert_eq!(next("a report", &mut told).await, number.to_string());
    }
    let refused = session
        .emit_session_event(status(AgentStatus::Starting))
        .await;
    assert!(refused.unwrap_err().problem().is_some());
    session.emit_session_event(log("after")).await.unwrap();
    assert_eq!(next("a report", &mut told).await, "after");
}

#[tokio::test]
async fn a_boundary_brings_what_waits_for_it() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = vec![DeliveryMode::NextToolCall];
    let session = session.with_capabilities(capabilities);
    let session = bob
        .attach(session)
        .status(AgentStatus::Active)
        .await
        .unwrap();
    let sent = alice
        .send_message("@bob", "before you run it")
        .mode(DeliveryMode::NextToolCall);
    let sent = sent.await.unwrap();
    let id = sent.deliveries[0].delivery_id;
    let state = alice.delivery(id).await.unwrap().state;
    assert_eq!(state, DeliveryState::Pending);
    session.boundary(BoundaryKind::NextToolCall).await.unwrap();
    assert_eq!(next("the message", &mut told).await.1, id);
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
}

#[tokio::test]
async fn an_owner_that_receives_what_is_due_waits_until_all_of_it_was_answered() {
    const COUNT: usize = 5;
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = vec![DeliveryMode::NextMessage];
    let session = bob
        .attach(session.with_capabilities(capabilities))
        .await
        .unwrap();
    session
        .receive_due(BoundaryKind::NextMessage)
        .await
        .unwrap();
    for number in 0..COUNT {
        let sending = alice.send_message("@bob", number.to_string());
        sending.mode(DeliveryMode::NextMessage).await.unwrap();
    }
    session
        .receive_due(BoundaryKind::NextMessage)
        .await
        .unwrap();
    for _ in 0..COUNT {
        told.try_recv().expect("it was received before");
    }
}

#[tokio::test]
async fn a_session_that_can_not_be_is_refused() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let (session, _told) = answering(&bob, |_, id| Ok(delivered(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes.clear();
    let session = session.with_capabilities(capabilities);
    let refused = bob.attach(session).await.err().unwrap();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest));
    let unknown = bob.emit_session_event(
        "0198c0de-0000-7000-8000-000000000000".parse().unwrap(),
        log("x"),
    );
    assert_eq!(unknown.unwrap_err().code(), Some(ErrorCode::UnknownSession));
    // The workspace may attach an agent's session, too.
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let _session = relay.attach(session).await.unwrap();
    relay.send_message("@bob", "hello").await.unwrap();
    assert_eq!(next("the message", &mut told).await.0, "hello");
}

#[tokio::test]
async fn what_is_too_late_is_not_surfaced() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let (tell, mut told) = mpsc::unbounded_channel();
    let session = CallbackSession::new(bob.identity().clone(), move |message, ctx| {
        let (tell, mut gate) = (tell.clone(), gate.clone());
        async move {
            let _ = tell.send(message.text);
            gate.wait_for(|open| *open).await?;
            Ok(delivered(ctx.id))
        }
    });
    let _session = bob.attach(session).await.unwrap();
    alice.send_message("@bob", "first").await.unwrap();
    assert_eq!(next("the first", &mut told).await, "first");
    // It waits behind the first one until it is of no use any more.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let now = Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap());
    let send = alice
        .send_message("@bob", "too late")
        .deadline(now.plus_millis(500));
    let id = send.await.unwrap().deliveries[0].delivery_id;
    let (state, why) = ended(&alice, id).await;
    assert_eq!(state, DeliveryState::Failed, "{why:?}");
    open.send(true).unwrap();
    alice.send_message("@bob", "third").await.unwrap();
    assert_eq!(next("the third", &mut told).await, "third");
}
