//! What the relay's client serves of a conversation: its mailbox, and its end.

use std::sync::{Arc, OnceLock};

use relay_protocol::agent::AgentIdentity;
use relay_protocol::capability::{
    AgentSessionCapabilities, DeliveryCapabilities, EventCapabilities, LifecycleCapabilities,
    MessagingCapabilities,
};
use relay_protocol::delivery::{DeliveryMode, MessageContext, MessageReceipt};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::{AttachmentKind, RelayMessage};
use relay_protocol::render::AttachmentAccess;
use relay_protocol::wire::True;
use relay_sdk::{
    AgentClient, AgentDeliveryAdapter, AgentSession, ControlError, EventHandler, SessionError,
    accepted, failed, failed_for_now,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bag::{Bag, Delivery, said};
use super::report::EMITS;
use crate::guidance::is_guidance;
use crate::surfacing::{fetch, surface};

/// The content that models take.
const ATTACHMENTS: &[AttachmentKind] = &[AttachmentKind::Text, AttachmentKind::Image];

/// Who reads what is sent to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mail {
    /// This session.
    Read,
    /// This session or another one of the same agent. What people who refuse a call want to be done instead is said with the refusal.
    Shared,
}

/// What the relay's client serves.
pub(super) struct Served {
    pub(super) agent: AgentClient,
    pub(super) bag: Arc<Bag>,
    pub(super) events: Arc<OnceLock<EventHandler>>,
    pub(super) release: CancellationToken,
    pub(super) is_over: watch::Receiver<bool>,
    pub(super) mail: Mail,
}

impl AgentDeliveryAdapter for Served {
    async fn receive_message(
        &self,
        mut message: RelayMessage,
        ctx: MessageContext,
    ) -> Result<MessageReceipt, SessionError> {
        if self.mail == Mail::Shared && is_guidance(&message) {
            return Ok(MessageReceipt::Delivered(said(ctx.id, &[])));
        }
        if let Some(receipt) = fetch(&self.agent, &mut message, ATTACHMENTS).await {
            return Ok(receipt);
        }
        let delivery = match surface(&message, &ctx, AttachmentAccess::Tool) {
            Ok(surfaced) => Delivery::new(&message, &ctx, surfaced),
            Err(why) => return Ok(failed(why)),
        };
        // What was held back by hand is let go by hand: now.
        let disturbs = matches!(
            ctx.mode,
            DeliveryMode::Immediate | DeliveryMode::NextToolCall | DeliveryMode::Manual
        );
        match self.bag.put(delivery, disturbs) {
            true => Ok(accepted(ctx.id)),
            false => Ok(failed_for_now("too many messages wait for the model")),
        }
    }

    async fn cancel(&self, id: DeliveryId, _: Option<String>) -> Result<(), ControlError> {
        match self.bag.take_out(id) {
            true => Ok(()),
            false => Err(ControlError::Failed(
                "the model has the message already".to_owned(),
            )),
        }
    }
}

impl AgentSession for Served {
    fn identity(&self) -> AgentIdentity {
        self.agent.identity().clone()
    }

    fn capabilities(&self) -> AgentSessionCapabilities {
        AgentSessionCapabilities {
            messaging: MessagingCapabilities {
                receive: True,
                send: Some(true),
                attachments: ATTACHMENTS.to_vec(),
            },
            delivery: DeliveryCapabilities {
                modes: vec![
                    DeliveryMode::Immediate,
                    DeliveryMode::NextMessage,
                    DeliveryMode::NextToolCall,
                    DeliveryMode::OnIdle,
                    DeliveryMode::Manual,
                ],
                queue: None,
            },
            events: EventCapabilities {
                emits: EMITS.to_vec(),
            },
            actions: None,
            lifecycle: LifecycleCapabilities::default(),
        }
    }

    fn on_event(&self, handler: EventHandler) {
        // Called once.
        let _ = self.events.set(handler);
    }

    async fn release(&self, _: Option<String>) {
        self.release.cancel();
        let mut is_over = self.is_over.clone();
        // The task is gone when nobody can say that it is over.
        let _ = is_over.wait_for(|over| *over).await;
    }
}
