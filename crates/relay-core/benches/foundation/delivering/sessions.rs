//! Sessions that the benchmark plays, in a world whose engine delivers.

use std::path::Path;
use std::sync::Arc;

use relay_core::link::SessionLink;
use relay_core::{Engine, Reach};
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{DeliveredReceipt, DeliveryMode, MessageContext, MessageReceipt};
use relay_protocol::ids::SessionId;
use relay_protocol::session::Attach;
use relay_protocol::socket::ReceiptFrame;
use relay_protocol::status::AgentStatus;

use crate::world::World;

/// A new workspace whose engine delivers as long as the runtime lives.
pub(super) async fn delivering_world(path: &Path, senders: usize, receivers: usize) -> Arc<World> {
    let world = Arc::new(World::create(path, senders, receivers).await);
    let engine = world.engine.clone();
    tokio::spawn(async move { engine.run(tokio::time::sleep).await });
    world
}

/// What a session can do and what it is doing.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Takes everything at once.
    Immediate,
    /// In the midst of a turn, takes things before its next tool call.
    Working,
}

/// Attaches a session over a link; without one it comes by at its boundaries.
pub(super) async fn attach(
    world: &World,
    agent: &str,
    kind: Kind,
    link: Option<Arc<dyn SessionLink>>,
) -> SessionId {
    let (mode, status) = match kind {
        Kind::Immediate => (DeliveryMode::Immediate, AgentStatus::Idle),
        Kind::Working => (DeliveryMode::NextToolCall, AgentStatus::Active),
    };
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = vec![mode];
    let body = Attach {
        agent: agent.to_owned(),
        harness: "bench".to_owned(),
        capabilities,
        safe_states: None,
        status: Some(status),
        resume: None,
        keeps_messages: None,
        attempt: None,
    };
    let reach = link.map_or_else(Reach::none, Reach::in_process);
    let attached = world.engine.attach(&world.key, body, reach).await;
    attached.unwrap().0.session_id
}

/// Answers an offer with `delivered`; returns once that is stored.
pub(super) async fn settle(world: &World, session: SessionId, offer: &MessageContext) {
    let frame = ReceiptFrame {
        delivery_id: offer.id,
        epoch: offer.epoch(),
        receipt: MessageReceipt::Delivered(DeliveredReceipt {
            delivery_id: offer.id,
            metadata: None,
        }),
    };
    let engine: &Engine = &world.engine;
    let stored = engine.receipt(&world.key, Some(session), frame).await;
    assert!(!stored.unwrap().late, "the receipt counts");
}
