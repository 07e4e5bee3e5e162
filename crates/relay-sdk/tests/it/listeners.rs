//! Every listener form of `spec/events.txt` and the listener of `spec/delivery.txt`, as they are in Rust.

use relay_sdk::{AgentStatus, CallbackSession, Filter, after, delivered, events, failed};
use tokio::sync::mpsc;

use crate::support::{World, next};

// relay.addListener('message.created', (event) => { console.log(event.type, event.message.messageId); });
#[tokio::test]
async fn an_exact_name_narrows_the_event() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let tell = tell.clone();
            async move {
                let _ = tell.send((event.event_type.clone(), event.message.message_id));
            }
        })
        .await
        .unwrap();
    let sent = alice
        .send_message("#general", "Shipping now")
        .await
        .unwrap();
    let expected = ("message.created".to_owned(), sent.message_id);
    assert_eq!(next("the event", &mut told).await, expected);
}

// relay.addListener('message.created', ({ message, envelope }) => { const { from, channel } = envelope; … });
#[tokio::test]
async fn a_channel_message_is_read_off_its_envelope() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let tell = tell.clone();
            async move {
                let (message, envelope) = (&event.message, &event.envelope);
                let channel = envelope
                    .channel
                    .as_ref()
                    .and_then(|channel| channel.name.clone());
                if channel.as_deref() == Some("general") {
                    let from = envelope.from.as_ref().and_then(|from| from.name.clone());
                    let _ = tell.send(format!("{} in #general: {}", from.unwrap(), message.text));
                }
            }
        })
        .await
        .unwrap();
    alice.send_message("@bob", "not this one").await.unwrap();
    alice.send_message("#general", "hello").await.unwrap();
    assert_eq!(
        next("the event", &mut told).await,
        "alice in #general: hello"
    );
}

// relay.addListener('action.*', …); relay.addListener('*', (event) => console.log(event));
#[tokio::test]
async fn patterns_give_the_whole_union() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let (tell_all, mut told_all) = mpsc::unbounded_channel();
    relay
        .add_listener("message.*", move |event| {
            let _ = tell.send(event.event_type);
            async {}
        })
        .await
        .unwrap();
    relay
        .add_listener("*", move |event| {
            let _ = tell_all.send(event.event_type);
            async {}
        })
        .await
        .unwrap();
    relay.add_listener("action.*", |_| async {}).await.unwrap();
    let sent = alice.send_message("@bob", "hello").await.unwrap();
    alice.react(sent.message_id, ":wave:").await.unwrap();
    for expected in ["message.created", "message.reacted"] {
        assert_eq!(next("the event", &mut told).await, expected);
    }
    for expected in [
        "message.created",
        "dm.received",
        "delivery.created",
        "message.reacted",
    ] {
        assert_eq!(next("the event", &mut told_all).await, expected);
    }
    let unknown = relay
        .add_listener("mesage.*", |_| async {})
        .await
        .unwrap_err();
    assert!(unknown.to_string().contains("message.*"), "{unknown}");
}

// relay.addListener(engineer.status.becomes('idle'), (event) => { /* ... */ });
#[tokio::test]
async fn a_predicate_on_status() {
    let world = World::start().await;
    let (relay, alice, engineer) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(engineer.status().becomes(AgentStatus::Idle), move |event| {
            let _ = tell.send((event.agent_name.clone(), event.status));
            async {}
        })
        .await
        .unwrap();
    for client in [&alice, &engineer] {
        let session = CallbackSession::new(client.identity().clone(), |_, ctx| async move {
            Ok(delivered(ctx.id))
        });
        let attached = client
            .attach(session)
            .status(AgentStatus::Active)
            .await
            .unwrap();
        for status in [AgentStatus::Idle, AgentStatus::Active] {
            attached
                .emit_session_event(crate::sessions::status(status))
                .await
                .unwrap();
        }
    }
    let expected = (Some("bob".to_owned()), Some(AgentStatus::Idle));
    assert_eq!(next("the event", &mut told).await, expected);
}

// relay.addListener(relay.action('spawn-claude').calledBy(engineer), (event) => { /* ... */ });
#[tokio::test]
async fn a_predicate_on_actions() {
    let world = World::start().await;
    let (relay, _, engineer) = world.pair().await;
    // The server has no actions yet; that the predicate is taken shows that it is understood.
    let calls = relay.action("spawn-claude").called_by(&engineer);
    relay
        .add_listener(calls.clone(), |event| async move {
            println!("{} {:?}", event.action, event.output);
        })
        .await
        .unwrap();
    relay
        .add_listener(calls.completed(), |_| async {})
        .await
        .unwrap();
}

// relay.on(relay.events.delivery.failed().forAgent(engineer), async (event) => {
//   await relay.messages.send({ to: '#ops', text: `${engineer.identity.handle} could not receive … });
// });
#[tokio::test]
async fn the_listener_of_the_delivery_document() {
    let world = World::start().await;
    let (relay, alice, engineer) = world.pair().await;
    alice.create_channel("#ops", None).await.unwrap();
    let (ops, handle) = (alice.clone(), engineer.identity().handle.clone());
    relay
        .add_listener(
            relay.events().delivery().failed().for_agent(&engineer),
            move |event| {
                let (ops, handle) = (ops.clone(), handle.clone());
                async move {
                    let message = event.message.id;
                    let text = format!("{handle} could not receive {message}: {}", event.reason);
                    ops.send_message("#ops", text).await.unwrap();
                }
            },
        )
        .await
        .unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let in_ops = relay.events().message().in_channel("#ops").from(&alice);
    relay
        .add_listener(in_ops, move |event| {
            let _ = tell.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    let refusing = CallbackSession::new(engineer.identity().clone(), |_, _| async {
        Ok(failed("not now"))
    });
    let _session = engineer.attach(refusing).await.unwrap();
    let sent = alice.send_message("@bob", "hello").await.unwrap();
    let expected = format!("@bob could not receive {}: not now", sent.message_id);
    assert_eq!(next("the report", &mut told).await, expected);
}

#[tokio::test]
async fn filters_combine_and_the_past_is_read_first() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    for text in ["one", "two"] {
        alice.send_message("#general", text).await.unwrap();
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let from_alice = relay.events().message().from(&alice).filter();
    let wanted = from_alice.or(Filter::event("message.reacted"));
    relay
        .add_listener(after(0, wanted), move |event| {
            let _ = tell.send((event.seq, event.event_type));
            async {}
        })
        .await
        .unwrap();
    bob.send_message("#general", "not this").await.unwrap();
    let three = alice.send_message("#general", "three").await.unwrap();
    bob.react(three.message_id, ":+1:").await.unwrap();
    let mut last = 0;
    for expected in [
        "message.created",
        "message.created",
        "message.created",
        "message.reacted",
    ] {
        let (seq, name) = next("the event", &mut told).await;
        assert!(seq > last);
        last = seq;
        assert_eq!(name, expected);
    }
}

#[tokio::test]
async fn a_listener_that_was_ended_hears_nothing() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let (tell_other, mut told_other) = mpsc::unbounded_channel();
    let unsubscribe = relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let _ = tell.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let _ = tell_other.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    alice.send_message("#general", "one").await.unwrap();
    assert_eq!(next("the event", &mut told).await, "one");
    unsubscribe.unsubscribe();
    // Its handler is gone, and with it what it would tell by.
    assert_eq!(crate::support::soon("the end", told.recv()).await, None);
    alice.send_message("#general", "two").await.unwrap();
    for expected in ["one", "two"] {
        assert_eq!(next("the event", &mut told_other).await, expected);
    }
}

#[tokio::test]
async fn listeners_that_come_and_go_disturb_no_other() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let _ = tell.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    let sending = async {
        for number in 0..100 {
            alice
                .send_message("#general", number.to_string())
                .await
                .unwrap();
        }
    };
    let coming_and_going = async {
        for number in 0..20 {
            let (tell, mut told) = mpsc::unbounded_channel();
            let from = if number % 2 == 0 { 0 } else { number };
            let unsubscribe = relay
                .add_listener(after(from, "*"), move |event| {
                    let _ = tell.send(event.seq);
                    async {}
                })
                .await
                .unwrap();
            assert_eq!(next("the first event", &mut told).await, from + 1);
            unsubscribe.unsubscribe();
        }
    };
    tokio::join!(sending, coming_and_going);
    for number in 0..100 {
        assert_eq!(next("the event", &mut told).await, number.to_string());
    }
    assert!(told.try_recv().is_err());
}

#[tokio::test]
async fn a_slow_or_panicking_handler_misses_nothing_and_holds_up_nobody() {
    const MESSAGES: usize = 1_500;
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let (tell_slow, mut told_slow) = mpsc::unbounded_channel();
    let (tell_fast, mut told_fast) = mpsc::unbounded_channel();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let (tell, mut gate) = (tell_slow.clone(), gate.clone());
            async move {
                gate.wait_for(|open| *open).await.unwrap();
                let _ = tell.send(event.message.text.clone());
                assert!(!event.message.text.ends_with("99"), "a handler that fails");
            }
        })
        .await
        .unwrap();
    relay
        .add_listener(events::MESSAGE_CREATED, move |event| {
            let _ = tell_fast.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    for number in 0..MESSAGES {
        alice
            .send_message("#general", number.to_string())
            .await
            .unwrap();
    }
    for number in 0..MESSAGES {
        assert_eq!(next("the event", &mut told_fast).await, number.to_string());
    }
    open.send(true).unwrap();
    for number in 0..MESSAGES {
        assert_eq!(next("the event", &mut told_slow).await, number.to_string());
    }
}
