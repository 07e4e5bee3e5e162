//! A network that drops, delays and cuts: nobody notices.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{Options, Relay, delivered, events};
use tokio::sync::mpsc;

use crate::sessions::{answering, ended, log};
use crate::support::{Proxy, Weather, World, attentive, next, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_or_repeated_and_every_send_ends() {
    const MESSAGES: usize = 200;
    let world = World::start().await;
    world.unhurried().await;
    let proxy = Proxy::to(world.address).await;
    let (_, alice, bob) = world.pair().await;
    let far = Relay::with_options(&proxy.url(), &world.key, attentive()).unwrap();
    let far_alice = far.reconnect(alice.token()).await.unwrap();
    let far_bob = far.reconnect(bob.token()).await.unwrap();

    let (tell, mut created) = mpsc::unbounded_channel();
    far.add_listener(events::MESSAGE_CREATED, move |event| {
        let _ = tell.send((event.seq, event.message.text.clone()));
        async {}
    })
    .await
    .unwrap();
    let (tell, mut all) = mpsc::unbounded_channel();
    far.add_listener("*", move |event| {
        let _ = tell.send(event.seq);
        async {}
    })
    .await
    .unwrap();
    let (session, mut surfaced) = answering(&bob, |_, id| Ok(delivered(id)));
    let session = far_bob.attach(session).await.unwrap();
    let served = tokio::spawn(async move { session.ended().await });

    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let storm = async {
        let weathers = [
            Weather::Fine,
            Weather::Slow(Duration::from_millis(20)),
            Weather::Down,
            Weather::Fine,
            Weather::Silent,
        ];
        for weather in weathers.iter().cycle() {
            if over.load(Ordering::SeqCst) {
                break;
            }
            proxy.set(*weather);
            proxy.cut();
            // The storm has a pace of its own; nothing waits for it.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        proxy.set(Weather::Fine);
    };
    let sending = async {
        let mut deliveries = Vec::new();
        for number in 0..MESSAGES {
            let sent = far_alice
                .send_message("@bob", number.to_string())
                .await
                .unwrap();
            deliveries.push(sent.deliveries[0].delivery_id);
        }
        is_over.store(true, Ordering::SeqCst);
        deliveries
    };
    let (deliveries, ()) = tokio::join!(sending, storm);

    // Sends were acknowledged one after the other, each stored once.
    for number in 0..MESSAGES {
        let (_, text) = next("a message", &mut created).await;
        assert_eq!(text, number.to_string());
    }
    for id in &deliveries {
        assert!(!served.is_finished(), "the session ended");
        assert_eq!(ended(&alice, *id).await.0, DeliveryState::Delivered);
    }
    assert!(created.try_recv().is_err(), "a repeated event");
    // Each was surfaced once: the process did not die, so it knows.
    let mut seen = BTreeSet::new();
    for _ in 0..MESSAGES {
        assert!(
            seen.insert(next("a delivery", &mut surfaced).await.1),
            "surfaced twice"
        );
    }
    assert!(surfaced.try_recv().is_err());
    // All events of the log, without a gap.
    let sent = alice.send_message("@bob", "last").await.unwrap();
    ended(&alice, sent.deliveries[0].delivery_id).await;
    let mut last = next("an event", &mut all).await;
    let (end, _) = soon("the last message", async {
        loop {
            let event = created.recv().await.unwrap();
            if event.1 == "last" {
                break event;
            }
        }
    })
    .await;
    while last < end {
        let seq = next("an event", &mut all).await;
        assert_eq!(seq, last + 1);
        last = seq;
    }
}

#[tokio::test]
async fn reports_are_stored_once_and_in_order() {
    const REPORTS: usize = 300;
    let world = World::start().await;
    let proxy = Proxy::to(world.address).await;
    let (relay, _, bob) = world.pair().await;
    let far = Relay::with_options(&proxy.url(), &world.key, attentive()).unwrap();
    let far_bob = far.reconnect(bob.token()).await.unwrap();
    let (session, _told) = answering(&bob, |_, id| Ok(delivered(id)));
    let mut capabilities = relay_sdk::AgentSessionCapabilities::minimum();
    capabilities.events.emits.push("log".parse().unwrap());
    let session = far_bob
        .attach(session.with_capabilities(capabilities))
        .await
        .unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(events::LOG, move |event| {
            let _ = tell.send(event.payload.event);
            async {}
        })
        .await
        .unwrap();
    let handler = session.events();
    for number in 0..REPORTS {
        handler.emit(log(&number.to_string())).unwrap();
        if number % 50 == 0 {
            proxy.cut();
            tokio::task::yield_now().await;
        }
    }
    for number in 0..REPORTS {
        assert_eq!(next("a report", &mut told).await, log(&number.to_string()));
    }
}

#[tokio::test]
async fn a_connection_that_is_silent_is_noticed() {
    let world = World::start().await;
    let proxy = Proxy::to(world.address).await;
    let (_, alice, _) = world.pair().await;
    let options = Options {
        silence: Duration::from_millis(300),
        ..Options::default()
    };
    let far = Relay::with_options(&proxy.url(), &world.key, options).unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    far.add_listener(events::MESSAGE_CREATED, move |event| {
        let _ = tell.send(event.message.text.clone());
        async {}
    })
    .await
    .unwrap();
    let connections = proxy.connections();
    proxy.set(Weather::Silent);
    alice.send_message("#general", "unheard").await.unwrap();
    soon("a new connection", async {
        while proxy.connections() == connections {
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.set(Weather::Fine);
    assert_eq!(next("the message", &mut told).await, "unheard");
}

#[tokio::test]
async fn server_and_client_meet_over_any_stream() {
    let world = World::start().await;
    let address = world.address;
    // A pipe in this process, whose other end is carried to the server.
    let dial = move || async move {
        let (near, mut far) = tokio::io::duplex(16 * 1024);
        let mut server = tokio::net::TcpStream::connect(address).await?;
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut far, &mut server).await });
        std::io::Result::Ok(near)
    };
    let relay = Relay::over(dial, &world.key, Options::default());
    let alice = relay.register("alice").await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener("message.*", move |event| {
            let _ = tell.send(event.event_type);
            async {}
        })
        .await
        .unwrap();
    alice.send_message("#general", "hello").await.unwrap();
    assert_eq!(next("the event", &mut told).await, "message.created");
}
