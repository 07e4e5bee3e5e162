//! What is asked of sessions: done, or answered as not supported.

use std::sync::Mutex;

use relay_sdk::protocol::capability::AgentSessionCapabilities;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::{
    AgentClient, AgentDeliveryAdapter, AgentIdentity, AgentSession, AgentStatus, ControlError,
    ErrorCode, FlushInput, Fork, MessageContext, MessageReceipt, RelayMessage, SessionError,
    accepted, delivered,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::sessions::{answering, ended};
use crate::support::{World, next, soon};

/// A session that can do everything, and tells what it was asked for.
struct Able {
    identity: AgentIdentity,
    held: Mutex<Vec<DeliveryId>>,
    tell: mpsc::UnboundedSender<String>,
}

impl Able {
    fn new(client: &AgentClient) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (tell, told) = mpsc::unbounded_channel();
        let able = Self {
            identity: client.identity().clone(),
            held: Mutex::default(),
            tell,
        };
        (able, told)
    }

    fn say(&self, what: &str) {
        let _ = self.tell.send(what.to_owned());
    }
}

impl AgentDeliveryAdapter for Able {
    async fn receive_message(
        &self,
        message: RelayMessage,
        ctx: MessageContext,
    ) -> Result<MessageReceipt, SessionError> {
        self.held.lock().unwrap().push(ctx.id);
        self.say(&format!("hold {}", message.text));
        Ok(accepted(ctx.id))
    }

    async fn flush(&self, id: Option<DeliveryId>) -> Result<Vec<MessageReceipt>, ControlError> {
        self.say("flush");
        let mut held = self.held.lock().unwrap();
        let wanted = |held: &DeliveryId| id.is_none_or(|id| id == *held);
        let (now, later) = held.drain(..).partition(wanted);
        *held = later;
        let now: Vec<DeliveryId> = now;
        Ok(now.into_iter().map(delivered).collect())
    }

    async fn cancel(&self, id: DeliveryId, reason: Option<String>) -> Result<(), ControlError> {
        self.say(&format!("cancel {}", reason.unwrap_or_default()));
        let mut held = self.held.lock().unwrap();
        match held.iter().position(|held| *held == id) {
            Some(at) => {
                held.remove(at);
                Ok(())
            }
            None => Err(ControlError::Failed("it is not here".to_owned())),
        }
    }
}

impl AgentSession for Able {
    fn identity(&self) -> AgentIdentity {
        self.identity.clone()
    }

    fn capabilities(&self) -> AgentSessionCapabilities {
        let mut capabilities = AgentSessionCapabilities::minimum();
        capabilities.delivery.queue = Some(true);
        let lifecycle = &mut capabilities.lifecycle;
        lifecycle.pause = Some(true);
        lifecycle.resume = Some(true);
        lifecycle.fork = Some(true);
        lifecycle.snapshot = Some(true);
        capabilities
    }

    async fn release(&self, reason: Option<String>) {
        self.say(&format!("release {}", reason.unwrap_or_default()));
    }

    async fn pause(&self, _: Option<String>) -> Result<(), ControlError> {
        self.say("pause");
        Ok(())
    }

    async fn resume(&self, _: Option<String>) -> Result<(), ControlError> {
        self.say("resume");
        Ok(())
    }

    async fn fork(&self, fork: Fork) -> Result<(), ControlError> {
        self.say(&format!("fork {}", fork.session_id));
        Ok(())
    }

    async fn snapshot(&self) -> Result<Value, ControlError> {
        self.say("snapshot");
        Ok(json!({ "memory": "all of it" }))
    }
}

#[tokio::test]
async fn an_able_session_does_what_it_is_asked() {
    let world = World::start().await;
    let (relay, _, bob) = world.pair().await;
    let (able, mut told) = Able::new(&bob);
    let session = bob.attach(able).await.unwrap();
    let id = session.session_id().unwrap();
    assert_eq!(
        relay.pause_session(id, None).await.unwrap().status,
        AgentStatus::Paused
    );
    assert_eq!(next("it", &mut told).await, "pause");
    let resumed = relay.resume_session(id, None).await.unwrap();
    assert_eq!(
        (next("it", &mut told).await.as_str(), resumed.status),
        ("resume", AgentStatus::Idle)
    );
    let forked = relay.fork_session(id, None).await.unwrap();
    assert_eq!(
        next("it", &mut told).await,
        format!("fork {}", forked.session_id)
    );
    let snapshot = relay.snapshot_session(id).await.unwrap().snapshot_id;
    assert_eq!(next("it", &mut told).await, "snapshot");
    let stored = relay.attachment(snapshot.parse().unwrap()).await.unwrap();
    assert_eq!(stored.data, r#"{"memory":"all of it"}"#);
    let released = relay.release_session(id, Some("done")).await.unwrap();
    assert_eq!(
        (next("it", &mut told).await.as_str(), released.status),
        ("release done", AgentStatus::Released)
    );
    soon("the end", session.ended()).await.unwrap();
    assert!(session.session_id().is_err());
}

#[tokio::test]
async fn what_is_held_is_flushed_or_given_back() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    let (able, mut told) = Able::new(&bob);
    let _session = bob.attach(able).await.unwrap();
    let sent = alice.send_message("@bob", "one").await.unwrap();
    let one = sent.deliveries[0].delivery_id;
    assert_eq!(next("it", &mut told).await, "hold one");
    let receipts = relay
        .deliveries()
        .flush(FlushInput::all(&bob))
        .await
        .unwrap();
    assert_eq!(next("it", &mut told).await, "flush");
    assert!(
        matches!(receipts[..], [MessageReceipt::Delivered(_)]),
        "{receipts:?}"
    );
    assert_eq!(ended(&alice, one).await.0, DeliveryState::Delivered);

    let sent = alice.send_message("@bob", "two").await.unwrap();
    let two = sent.deliveries[0].delivery_id;
    assert_eq!(next("it", &mut told).await, "hold two");
    soon("accepted", async {
        while alice.delivery(two).await.unwrap().state != DeliveryState::Accepted {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let cancelled = alice
        .deliveries()
        .cancel(two, Some("never mind"))
        .await
        .unwrap();
    assert_eq!(next("it", &mut told).await, "cancel never mind");
    assert_eq!(cancelled.state, DeliveryState::Cancelled);
}

#[tokio::test]
async fn what_a_session_can_not_do_is_answered_as_such() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    // It declares more than it can do.
    let (session, mut told) = answering(&bob, |_, id| Ok(accepted(id)));
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.queue = Some(true);
    capabilities.lifecycle.pause = Some(true);
    capabilities.lifecycle.snapshot = Some(true);
    let session = bob
        .attach(session.with_capabilities(capabilities))
        .await
        .unwrap();
    let id = session.session_id().unwrap();
    let refused = relay.pause_session(id, None).await.unwrap_err();
    assert_eq!(
        refused.code(),
        Some(ErrorCode::UnsupportedOperation),
        "{refused}"
    );
    let refused = relay.snapshot_session(id).await.unwrap_err();
    let problem = refused.problem().unwrap();
    assert_eq!(
        problem.operation.as_deref(),
        Some("snapshot"),
        "{problem:?}"
    );
    // What it did not even declare is not asked of it.
    let refused = relay.fork_session(id, None).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapabilityNotSupported));
    alice.send_message("@bob", "hello").await.unwrap();
    let (_, delivery) = next("the message", &mut told).await;
    soon("accepted", async {
        while alice.delivery(delivery).await.unwrap().state != DeliveryState::Accepted {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let refused = alice.deliveries().cancel(delivery, None).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::UnsupportedOperation));
}
