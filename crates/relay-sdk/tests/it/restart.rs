//! A server that dies and comes back over the same data, while clients send, listen and serve.

use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{delivered, events};
use tokio::sync::mpsc;

use crate::sessions::{answering, ended};
use crate::support::{World, next};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_recover_by_themselves() {
    const ROUNDS: usize = 3;
    const MESSAGES: usize = 40;
    let mut world = World::start().await;
    world.unhurried().await;
    let (relay, alice, bob) = world.pair().await;
    let (tell, mut created) = mpsc::unbounded_channel();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let _ = tell.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    let (session, mut surfaced) = answering(&bob, |_, id| Ok(delivered(id)));
    let session = bob
        .attach(session)
        .memory(world.file("seen"))
        .await
        .unwrap();
    let session_id = session.session_id().unwrap();

    let (report, mut half_way) = mpsc::unbounded_channel();
    let sender = alice.clone();
    let sending = tokio::spawn(async move {
        let mut deliveries = Vec::new();
        for number in 0..ROUNDS * MESSAGES {
            if number % MESSAGES == MESSAGES / 2 {
                report.send(()).unwrap();
            }
            let sent = sender
                .send_message("@bob", number.to_string())
                .await
                .unwrap();
            deliveries.push(sent.deliveries[0].delivery_id);
        }
        deliveries
    });
    for _ in 0..ROUNDS {
        next("the middle of a round", &mut half_way).await;
        world.kill().await;
        world.revive().await;
    }
    let deliveries = crate::support::soon("the last send", sending)
        .await
        .unwrap();
    for id in deliveries {
        assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
    }
    for number in 0..ROUNDS * MESSAGES {
        assert_eq!(next("a message", &mut created).await, number.to_string());
        next("a delivery", &mut surfaced).await;
    }
    assert!(created.try_recv().is_err(), "a repeated event");
    assert!(surfaced.try_recv().is_err(), "surfaced twice");
    assert_eq!(session.session_id().unwrap(), session_id);
}
