//! Actions with the SDK: the snippets of `spec/events.txt`, and handlers that outlive connections and servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_sdk::protocol::event::ActionEvent;
use relay_sdk::protocol::ids::InvocationId;
use relay_sdk::{
    Action, ActionCall, ActionError, AvailableTo, Client, ErrorCode, InvocationState, Relay, events,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::support::{Proxy, World, attentive, next};

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

fn named(name: &str) -> AvailableTo {
    AvailableTo {
        name: Some(name.to_owned()),
        ..AvailableTo::default()
    }
}

/// Hears how calls end.
async fn ends(relay: &Relay) -> mpsc::UnboundedReceiver<ActionEvent> {
    let (tell, told) = mpsc::unbounded_channel();
    for listened in [events::ACTION_COMPLETED, events::ACTION_FAILED] {
        let tell = tell.clone();
        relay
            .add_listener(listened, move |event| {
                let _ = tell.send((*event).clone());
                async {}
            })
            .await
            .unwrap();
    }
    told
}

// coordinator.registerAction({ name: 'classify', input: z.object({ text: z.string() }), availableTo: [{ name:
// 'codex-1' }], handler: async ({ agent, input }) => { … coordinator.sendMessage({ to: `@${agent.name}`, … });
// return { label }; } });   relay.addListener('action.completed', (event) => { … event.action, event.output });
#[tokio::test]
async fn an_action_is_registered_called_and_told() {
    let world = World::start().await;
    let relay = world.relay().await;
    let coordinator = relay.register("coordinator").await.unwrap();
    let codex = relay.register("codex-1").await.unwrap();
    let other = relay.register("codex-2").await.unwrap();
    let mut told = ends(&relay).await;
    let action = Action::new::<Text>("classify")
        .description("labels a text")
        .available_to([named("codex-1")]);
    let speaker = coordinator.clone();
    let _handling = coordinator
        .register_action(action, move |call: ActionCall| {
            let speaker = speaker.clone();
            async move {
                let Text { text } = call.input()?;
                let label = if text.contains("win") { "spam" } else { "ham" };
                let to = format!("@{}", call.agent.name);
                speaker
                    .send_message(to.as_str(), format!("Classified as {label}"))
                    .await?;
                Ok(json!({ "label": label }))
            }
        })
        .await
        .unwrap();

    let listed = codex.actions(None).await.unwrap().items;
    assert_eq!(listed[0].name, "classify");
    assert_eq!(listed[0].handlers, 1);
    let id = codex
        .invoke("classify", json!({ "text": "you win" }))
        .await
        .unwrap();
    let event = next("the end", &mut told).await;
    assert_eq!(event.invocation_id, Some(id));
    assert_eq!(event.action, "classify");
    assert_eq!(event.output, Some(json!({ "label": "spam" })));
    let inbox = codex.inbox().await.unwrap();
    assert_eq!(inbox.items[0].message.text, "Classified as spam");

    let denied = other.invoke("classify", json!({ "text": "x" })).await;
    assert_eq!(denied.unwrap_err().code(), Some(ErrorCode::Forbidden));
    let unfit = codex.invoke("classify", json!({})).await.unwrap_err();
    assert_eq!(unfit.code(), Some(ErrorCode::InvalidRequest));
    let event = next("the refusal", &mut told).await;
    assert!(event.error.unwrap().contains("text"));
}

// relay.addListener(relay.action('spawn-claude').calledBy(engineer), (event) => { /* … */ });
#[tokio::test]
async fn predicates_choose_calls() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let hears = |predicate: &str| {
        let (tell, what) = (tell.clone(), predicate.to_owned());
        move |event: relay_sdk::Event<ActionEvent>| {
            let _ = tell.send(format!("{what}: {}", event.event_type));
            async {}
        }
    };
    let action = || relay.action("spawn-claude");
    let listening = [
        ("called by", action().called_by(&alice)),
        ("completed", action().completed()),
        ("failed", action().failed()),
        ("denied", action().denied()),
    ];
    for (what, predicate) in listening {
        relay.add_listener(predicate, hears(what)).await.unwrap();
    }
    let spawn = Action::with_schema("spawn-claude", json!({ "required": ["task"] }))
        .available_to([named("alice")]);
    let _handling = bob
        .register_action(spawn, |_| async { Ok(json!(null)) })
        .await
        .unwrap();
    let task = json!({ "task": "tidy up" });
    bob.invoke("spawn-claude", task.clone()).await.unwrap_err();
    assert_eq!(next("a refusal", &mut told).await, "denied: action.denied");
    alice.invoke("spawn-claude", json!({})).await.unwrap_err();
    let mut heard = vec![next("one", &mut told).await, next("two", &mut told).await];
    heard.sort();
    assert_eq!(heard, ["called by: action.failed", "failed: action.failed"]);
    alice.invoke("spawn-claude", task).await.unwrap();
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(next("a call", &mut told).await);
    }
    heard.sort();
    let expected = [
        "called by: action.completed",
        "called by: action.invoked",
        "completed: action.completed",
    ];
    assert_eq!(heard, expected);
}

/// A handler that waits to be let go, and counts how often it is run.
struct Slow {
    runs: Arc<AtomicUsize>,
    begun: mpsc::UnboundedReceiver<InvocationId>,
    go: Arc<Notify>,
    _handling: relay_sdk::Handling,
}

async fn slow(client: &Client) -> Slow {
    let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (tell, begun) = mpsc::unbounded_channel();
    let (counted, gate) = (runs.clone(), go.clone());
    let handler = move |call: ActionCall| {
        counted.fetch_add(1, Ordering::SeqCst);
        let _ = tell.send(call.invocation_id);
        let gate = gate.clone();
        async move {
            gate.notified().await;
            Ok(json!("done"))
        }
    };
    let action = Action::with_schema("slow", json!(true));
    let handling = client.register_action(action, handler).await.unwrap();
    Slow {
        runs,
        begun,
        go,
        _handling: handling,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_run_once_although_the_connection_is_lost() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let mut told = ends(&relay).await;
    let proxy = Proxy::to(world.address).await;
    let far = Relay::with_options(&proxy.url(), &world.key, attentive()).unwrap();
    let far = far.reconnect(bob.token()).await.unwrap();
    let mut slow = slow(&far).await;
    let id = alice.invoke("slow", Value::Null).await.unwrap();
    assert_eq!(next("the call", &mut slow.begun).await, id);
    let before = proxy.connections();
    proxy.cut();
    // It is offered again over the new connection, and is under way.
    while proxy.connections() == before || alice.invocation(id).await.unwrap().offers < 2 {
        tokio::task::yield_now().await;
    }
    slow.go.notify_one();
    let end = next("the end", &mut told).await;
    assert_eq!(
        (end.invocation_id, end.output),
        (Some(id), Some(json!("done")))
    );
    assert_eq!(slow.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_once_although_the_server_dies() {
    let mut world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let mut told = ends(&relay).await;
    let mut slow = slow(&bob).await;
    let id = alice.invoke("slow", Value::Null).await.unwrap();
    assert_eq!(next("the call", &mut slow.begun).await, id);
    world.kill().await;
    // It answers while there is nobody to tell.
    slow.go.notify_one();
    world.revive().await;
    let end = next("the end", &mut told).await;
    assert_eq!(
        (end.invocation_id, end.output),
        (Some(id), Some(json!("done")))
    );
    let state = alice.invocation(id).await.unwrap().state;
    assert_eq!(state, InvocationState::Completed);
    assert_eq!(slow.runs.load(Ordering::SeqCst), 1);
    assert!(told.try_recv().is_err(), "told twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_has_failed_and_one_that_ends_handles_no_more() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let mut told = ends(&relay).await;
    let action = || Action::with_schema("odd", json!(true)).notify_caller();
    let handling = bob
        .register_action(action(), |call: ActionCall| async move {
            match call.input.as_str() {
                Some("panic") => panic!("as it was told to"),
                Some("refuse") => Err(ActionError::new("no")),
                _ => Ok(json!(1)),
            }
        })
        .await
        .unwrap();
    for (input, error) in [
        ("panic", "the handler ended without an answer"),
        ("refuse", "no"),
    ] {
        alice.invoke("odd", json!(input)).await.unwrap();
        let end = next("the end", &mut told).await;
        assert_eq!(end.error.as_deref(), Some(error));
    }
    let taken = alice.register_action(action(), |_| async { Ok(json!(2)) });
    assert_eq!(
        taken.await.err().unwrap().code(),
        Some(ErrorCode::NameTaken)
    );
    drop(handling);
    while bob.actions(None).await.unwrap().items[0].handlers > 0 {
        tokio::task::yield_now().await;
    }
    let id = alice.invoke("odd", json!("x")).await.unwrap();
    bob.complete_invocation(id, Some(json!(3))).await.unwrap();
    assert_eq!(next("the end", &mut told).await.output, Some(json!(3)));
    bob.unregister_action("odd").await.unwrap();
    let gone = alice.invoke("odd", json!("x")).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::UnknownAction));
}
