//! The spec's `DeliveryRunner`: deliver, retry, flush.

use std::sync::Mutex;

use relay_sdk::protocol::capability::AgentSessionCapabilities;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::delivery_record::DeliverContext;
use relay_sdk::{
    DeliverInput, DeliveryMode, DeliveryTarget, ErrorCode, FlushInput, MessageReceipt, delivered,
    failed,
};

use crate::sessions::{answering, ended};
use crate::support::{World, next};

#[tokio::test]
async fn a_stored_message_is_delivered_to_an_agent_and_to_a_session() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let carol = relay.register("carol").await.unwrap();
    let (session, mut told) = answering(&carol, |_, id| Ok(delivered(id)));
    let session = carol.attach(session).await.unwrap();
    bob.create_channel("#two", None).await.unwrap();
    alice.join("#two").await.unwrap();
    let targets = [
        DeliveryTarget::agent(&carol),
        DeliveryTarget::Session(session.session_id().unwrap()),
    ];
    for target in targets {
        let sent = alice.send_message("#two", "for others, too").await.unwrap();
        let input = DeliverInput {
            message: sent.message_id,
            target,
            context: DeliverContext::default(),
        };
        let receipt = relay.deliveries().deliver(input).await.unwrap();
        assert!(
            matches!(receipt, MessageReceipt::Delivered(_)),
            "{receipt:?}"
        );
        assert_eq!(next("the message", &mut told).await.0, "for others, too");
    }
}

#[tokio::test]
async fn a_failed_delivery_is_tried_again_under_its_id() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let attempts = Mutex::new(0);
    let (session, mut told) = answering(&bob, move |_, id| {
        let mut attempts = attempts.lock().unwrap();
        *attempts += 1;
        match *attempts {
            1 => Ok(failed("no")),
            _ => Ok(delivered(id)),
        }
    });
    let _session = bob.attach(session).await.unwrap();
    let sent = alice.send_message("@bob", "hello").await.unwrap();
    let id = sent.deliveries[0].delivery_id;
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Failed);
    let receipt = alice.deliveries().retry(id).await.unwrap();
    assert!(
        matches!(receipt, MessageReceipt::Delivered(_)),
        "{receipt:?}"
    );
    for _ in 0..2 {
        assert_eq!(next("an attempt", &mut told).await.1, id);
    }
    let refused = alice.deliveries().retry(id).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().status, 409);
}

#[tokio::test]
async fn what_waits_for_a_flush_is_flushed() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes.push(DeliveryMode::Manual);
    let _session = bob
        .attach(session.with_capabilities(capabilities))
        .await
        .unwrap();
    for text in ["one", "two"] {
        let send = alice.send_message("@bob", text).mode(DeliveryMode::Manual);
        send.await.unwrap();
    }
    let input = FlushInput::all("@bob").mode(DeliveryMode::Manual);
    let receipts = relay.deliveries().flush(input).await.unwrap();
    assert_eq!(receipts.len(), 2);
    assert!(
        receipts
            .iter()
            .all(|receipt| matches!(receipt, MessageReceipt::Delivered(_)))
    );
    for text in ["one", "two"] {
        assert_eq!(next("the message", &mut told).await.0, text);
    }
    let refused = relay.deliveries().flush(FlushInput::all("nobody")).await;
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::UnknownAgent));
}
