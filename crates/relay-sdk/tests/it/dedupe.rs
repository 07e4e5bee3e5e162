//! What a session remembers, across losses and restarts of its process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use relay_sdk::protocol::capability::AgentSessionCapabilities;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{CallbackSession, Error, MessageReceipt, Relay, accepted, delivered};
use tokio::sync::{mpsc, oneshot};

use crate::sessions::{answering, ended};
use crate::support::{Proxy, Weather, World, attentive, next, soon};

#[tokio::test]
async fn what_was_surfaced_is_not_surfaced_again_by_the_next_process() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).await;
    let (_, alice, bob) = world.pair().await;
    let file = world.file("seen");
    // Bob's process surfaces a message, and the receipt never arrives.
    let far = Relay::with_options(&proxy.url(), &world.key, attentive()).unwrap();
    let far_bob = far.reconnect(bob.token()).await.unwrap();
    let (surfaced, is_surfaced) = oneshot::channel();
    let (go, may_go) = oneshot::channel();
    let once = Mutex::new(Some((surfaced, may_go)));
    let session = CallbackSession::new(bob.identity().clone(), move |_, ctx| {
        let (surfaced, may_go) = once.lock().unwrap().take().unwrap();
        async move {
            let _ = surfaced.send(ctx.id);
            let _: Result<(), _> = may_go.await;
            Ok(delivered(ctx.id))
        }
    });
    let session = far_bob.attach(session).memory(&file).await.unwrap();
    alice.send_message("@bob", "once").await.unwrap();
    let id = soon("the message", is_surfaced).await.unwrap();
    proxy.set(Weather::Down);
    go.send(()).unwrap();
    session.detach().await;
    drop((far_bob, far));

    // The next process has the same file, and the server offers the same delivery.
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let _session = bob.attach(session).memory(&file).await.unwrap();
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
    let receipts = alice.delivery(id).await.unwrap().receipts.unwrap();
    let MessageReceipt::Delivered(receipt) = &receipts.last().unwrap().receipt else {
        panic!("{receipts:?}");
    };
    assert_eq!(receipt.metadata.as_ref().unwrap()["duplicate"], true);
    alice.send_message("@bob", "new").await.unwrap();
    assert_eq!(next("the message", &mut told).await.0, "new");
}

#[tokio::test]
async fn one_that_died_over_a_message_is_told_that_it_comes_again() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let file = world.file("seen");
    // The delivery stays without an answer, as if the process had died over it.
    let sent = alice.send_message("@bob", "hello").await.unwrap();
    let id = sent.deliveries[0].delivery_id;
    std::fs::write(&file, format!("begun {id}\n")).unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let session = CallbackSession::new(bob.identity().clone(), move |_, ctx| {
        let _ = tell.send((ctx.id, ctx.is_redelivered()));
        async move { Ok(delivered(ctx.id)) }
    });
    let _session = bob.attach(session).memory(&file).await.unwrap();
    assert_eq!(next("the message", &mut told).await, (id, true));
    let sent = alice.send_message("@bob", "another").await.unwrap();
    let another = sent.deliveries[0].delivery_id;
    assert_eq!(next("the message", &mut told).await, (another, false));
}

#[tokio::test]
async fn a_session_goes_on_in_another_process_and_explains_what_it_lost() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.queue = Some(true);
    let (session, mut told) = answering(&bob, |_, id| Ok(accepted(id)));
    let session = bob
        .attach(session.with_capabilities(capabilities.clone()))
        .await
        .unwrap();
    alice.send_message("@bob", "held").await.unwrap();
    let (_, id) = next("the message", &mut told).await;
    soon("accepted", async {
        while alice.delivery(id).await.unwrap().state != DeliveryState::Accepted {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (token, session_id) = (
        session.resume_token().unwrap(),
        session.session_id().unwrap(),
    );
    session.detach().await;

    // The process is new and holds nothing, so what it is told to keep has to come again.
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let session = session.with_capabilities(capabilities);
    let session = bob.attach(session).resume(token).await.unwrap();
    assert_eq!(session.session_id().unwrap(), session_id);
    assert_eq!(next("the message", &mut told).await.1, id);
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
}

#[tokio::test]
async fn a_second_link_supersedes_the_first() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let (session, _told) = answering(&bob, |_, id| Ok(delivered(id)));
    let first = bob.attach(session).await.unwrap();
    let other = relay.reconnect(bob.token()).await.unwrap();
    let (session, mut told) = answering(&bob, |_, id| Ok(delivered(id)));
    let second = other.attach(session).resume(first.resume_token().unwrap());
    let second = second.await.unwrap();
    let ended = soon("the end of the first", first.ended()).await;
    assert!(matches!(ended, Err(Error::Superseded)), "{ended:?}");
    alice.send_message("@bob", "hello").await.unwrap();
    assert_eq!(next("the message", &mut told).await.0, "hello");
    drop(second);
}

#[tokio::test]
async fn a_file_is_for_one_session() {
    let world = World::start().await;
    let (_, _, bob) = world.pair().await;
    let file = world.file("seen");
    let session = || answering(&bob, |_, id| Ok(delivered(id))).0;
    let first = bob.attach(session()).memory(&file).await.unwrap();
    let refused = bob.attach(session()).memory(&file).await.err().unwrap();
    assert!(matches!(refused, Error::Memory { .. }), "{refused}");
    first.detach().await;
    bob.attach(session()).memory(&file).await.unwrap();
}

#[tokio::test]
async fn a_message_that_comes_again_while_it_is_handled_is_handled_once() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).await;
    let (_, alice, bob) = world.pair().await;
    let far = Relay::with_options(&proxy.url(), &world.key, attentive()).unwrap();
    let far_bob = far.reconnect(bob.token()).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let (go, may_go) = tokio::sync::watch::channel(false);
    let (tell, mut told) = mpsc::unbounded_channel();
    let count = calls.clone();
    let session = CallbackSession::new(bob.identity().clone(), move |_, ctx| {
        count.fetch_add(1, Ordering::SeqCst);
        let (tell, mut may_go) = (tell.clone(), may_go.clone());
        async move {
            let _ = tell.send(ctx.id);
            may_go.wait_for(|go| *go).await.unwrap();
            Ok(delivered(ctx.id))
        }
    });
    let session = far_bob.attach(session).await.unwrap();
    let before = session.session_id().unwrap();
    alice.send_message("@bob", "hello").await.unwrap();
    let id = next("the message", &mut told).await;
    let connections = proxy.connections();
    proxy.cut();
    soon("the next connection", async {
        while proxy.connections() == connections {
            tokio::task::yield_now().await;
        }
    })
    .await;
    go.send(true).unwrap();
    assert_eq!(ended(&alice, id).await.0, DeliveryState::Delivered);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(session.session_id().unwrap(), before);
}
