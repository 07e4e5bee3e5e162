//! A message on its way into an agent: its content, and the receipts that tell of it.

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{
    AcceptedReceipt, DOOR, DeliveredReceipt, MessageContext, MessageReceipt,
};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use relay_protocol::render::UnsurfacedAttachment;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::watch::Seen;
use crate::acp::content::PromptContent;
use crate::surfacing::{SurfacedMessage, note_unsurfaced};

/// The door of what came as a prompt.
pub(super) const PROMPT_DOOR: &str = "acp.prompt";

/// The door of what was put into a running turn.
pub(super) const STEER_DOOR: &str = "acp.steer";

pub(super) type Reply = oneshot::Sender<MessageReceipt>;

/// A message on its way into the agent.
pub(super) struct Delivery {
    pub(super) id: DeliveryId,
    pub(super) content: Vec<PromptContent>,
    /// What of the message the agent is not shown, or not all of.
    pub(super) unsurfaced: Vec<UnsurfacedAttachment>,
    /// The message, without the content of its attachments, and how it came.
    pub(super) origin: Box<(RelayMessage, MessageContext)>,
    /// Whoever offered it; nothing once it was told that it is accepted.
    pub(super) reply: Option<Reply>,
}

impl Delivery {
    pub(super) fn new(
        message: &RelayMessage,
        context: &MessageContext,
        surfaced: SurfacedMessage,
        reply: Reply,
    ) -> Self {
        let mut origin = Box::new((message.clone(), context.clone()));
        for attachment in &mut origin.0.attachments {
            attachment.data = None;
        }
        Self {
            id: context.id,
            content: content(&surfaced),
            unsurfaced: surfaced.unsurfaced,
            origin,
            reply: Some(reply),
        }
    }

    /// Its message as those see it who look on.
    pub(super) fn entered(&self) -> Seen {
        let (message, context) = &*self.origin;
        Seen::Entered {
            message: Box::new(message.clone()),
            context: Box::new(context.clone()),
        }
    }

    /// Tells whoever offered it that it is taken over.
    pub(super) fn accept(&mut self) {
        if let Some(reply) = self.reply.take() {
            let receipt = MessageReceipt::Accepted(AcceptedReceipt {
                delivery_id: self.id,
                retryable: None,
                metadata: Some(metadata(PROMPT_DOOR, json!({"waitsFor": "turn"}))),
            });
            // Whoever offered it is gone: it is offered again.
            let _ = reply.send(receipt);
        }
    }
}

/// The receipt of what the agent has shown to have.
pub(super) fn delivered(
    id: DeliveryId,
    door: &str,
    evidence: Value,
    unsurfaced: &[UnsurfacedAttachment],
) -> MessageReceipt {
    let mut metadata = metadata(door, evidence);
    note_unsurfaced(&mut metadata, unsurfaced);
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: id,
        metadata: Some(metadata),
    })
}

fn metadata(door: &str, evidence: Value) -> Metadata {
    Metadata::from_iter([
        (DOOR.to_owned(), door.into()),
        ("evidence".to_owned(), evidence),
    ])
}

/// A receipt for this delivery.
pub(super) fn with_id(mut receipt: MessageReceipt, id: DeliveryId) -> MessageReceipt {
    match &mut receipt {
        MessageReceipt::Failed(receipt) => receipt.delivery_id = Some(id),
        MessageReceipt::Deferred(receipt) => receipt.delivery_id = Some(id),
        MessageReceipt::Accepted(receipt) => receipt.delivery_id = id,
        MessageReceipt::Delivered(receipt) => receipt.delivery_id = id,
    }
    receipt
}

/// A message as a prompt.
fn content(surfaced: &SurfacedMessage) -> Vec<PromptContent> {
    let images = surfaced.images.iter();
    let images = images.map(|(media_type, data)| PromptContent::Image {
        data: data.clone(),
        mime_type: media_type.clone(),
    });
    let text = PromptContent::Text(surfaced.text.clone());
    std::iter::once(text).chain(images).collect()
}
