//! A message on its way into an agent: its content, and the receipts that tell of it.

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{
    AcceptedReceipt, DOOR, DeliveredReceipt, MessageContext, MessageReceipt,
};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::{AttachmentKind, RelayMessage};
use relay_protocol::render::render;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::watch::Seen;
use crate::acp::content::PromptContent;

/// The door of what came as a prompt.
pub(super) const PROMPT_DOOR: &str = "acp.prompt";

/// The door of what was put into a running turn.
pub(super) const STEER_DOOR: &str = "acp.steer";

pub(super) type Reply = oneshot::Sender<MessageReceipt>;

/// A message on its way into the agent.
pub(super) struct Delivery {
    pub(super) id: DeliveryId,
    pub(super) content: Vec<PromptContent>,
    /// The message, without the content of its attachments, and how it came.
    pub(super) origin: Box<(RelayMessage, MessageContext)>,
    /// Whoever offered it; nothing once it was told that it is accepted.
    pub(super) reply: Option<Reply>,
}

impl Delivery {
    pub(super) fn new(
        message: &RelayMessage,
        context: &MessageContext,
        content: Vec<PromptContent>,
        reply: Reply,
    ) -> Self {
        let mut origin = Box::new((message.clone(), context.clone()));
        for attachment in &mut origin.0.attachments {
            attachment.data = None;
        }
        Self {
            id: context.id,
            content,
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
pub(super) fn delivered(id: DeliveryId, door: &str, evidence: Value) -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: id,
        metadata: Some(metadata(door, evidence)),
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

/// A message as a prompt: its text as everybody's, and its images, which are inline by now.
pub(super) fn content(
    message: &RelayMessage,
    context: &MessageContext,
) -> Result<Vec<PromptContent>, String> {
    let mut token = [0; 8];
    getrandom::fill(&mut token).map_err(|_| "there is no randomness for the fence".to_owned())?;
    let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut content = vec![PromptContent::Text(render(message, context, &token))];
    let images = message.attachments.iter();
    let images = images.filter(|attachment| attachment.kind == AttachmentKind::Image);
    content.extend(images.filter_map(|image| {
        Some(PromptContent::Image {
            data: image.data.clone()?,
            mime_type: image.media_type.clone(),
        })
    }));
    Ok(content)
}
