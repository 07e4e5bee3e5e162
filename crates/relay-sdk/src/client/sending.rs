//! A message on its way: what is said about it beside its text.

use std::future::IntoFuture;
use std::pin::Pin;

use relay_protocol::agent::Metadata;
use relay_protocol::api::messages::{
    MessageSent, NewAttachment, ReplyMessage, SendMessage, SendTarget,
};
use relay_protocol::delivery::{DeliveryMode, Priority};
use relay_protocol::ids::{AttachmentId, MessageId};
use relay_protocol::time::Timestamp;

use super::Client;
use crate::error::{Error, Result};
use crate::http::Call;
use crate::key::new_key;

/// A message that is about to be sent: awaited, it is.
///
/// It carries a key of its own, so that it is stored once however often it has to be sent.
#[must_use = "a message is sent when this is awaited"]
pub struct Sending {
    client: Client,
    to: To,
    body: ReplyMessage,
}

enum To {
    Target(Result<SendTarget>),
    Message(MessageId),
}

impl Sending {
    pub(super) fn to(client: Client, to: &str, text: String) -> Self {
        let target = to.parse().map_err(Error::InvalidTarget);
        Self::new(client, To::Target(target), text)
    }

    pub(super) fn to_target(client: Client, to: SendTarget, text: String) -> Self {
        Self::new(client, To::Target(Ok(to)), text)
    }

    pub(super) fn reply_to(client: Client, message: MessageId, text: String) -> Self {
        Self::new(client, To::Message(message), text)
    }

    fn new(client: Client, to: To, text: String) -> Self {
        let body = ReplyMessage::text(text);
        Self { client, to, body }
    }

    /// Says when it is to be surfaced. Default: at the first safe boundary.
    pub const fn mode(mut self, mode: DeliveryMode) -> Self {
        self.body.mode = Some(mode);
        self
    }

    /// Allows another boundary where a session can't do the mode, and a line of text for an image.
    pub const fn allow_downgrade(mut self) -> Self {
        self.body.allow_downgrade = Some(true);
        self
    }

    /// Says that it comes before others that are due.
    pub const fn urgent(mut self) -> Self {
        self.body.priority = Some(Priority::Urgent);
        self
    }

    /// Says when it is of no use any more.
    pub const fn deadline(mut self, deadline: Timestamp) -> Self {
        self.body.deadline = Some(deadline);
        self
    }

    /// Makes a repeated send harmless, also one by another process: the same key gets the first answer.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.body.idempotency_key = Some(key.into());
        self
    }

    /// Adds content that was uploaded before.
    pub fn attachment(self, attachment_id: AttachmentId) -> Self {
        self.attach(NewAttachment {
            attachment_id: Some(attachment_id),
            kind: None,
            media_type: None,
            name: None,
            data: None,
        })
    }

    /// Adds content, inline or by reference.
    pub fn attach(mut self, attachment: NewAttachment) -> Self {
        let attachments = self.body.attachments.get_or_insert_default();
        attachments.push(attachment);
        self
    }

    /// Adds something for programs to read.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.body.metadata = Some(metadata);
        self
    }

    async fn send(mut self) -> Result<MessageSent> {
        if self.body.idempotency_key.is_none() {
            self.body.idempotency_key = new_key();
        }
        let may_be_repeated = self.body.idempotency_key.is_some();
        let call = match self.to {
            To::Message(id) => Call::post(format!("/v1/messages/{id}/replies"), &self.body),
            To::Target(target) => Call::post("/v1/messages", &to_send(target?, self.body)),
        };
        let call = call.repeatable_if(may_be_repeated);
        self.client.http().json(call).await
    }
}

fn to_send(to: SendTarget, body: ReplyMessage) -> SendMessage {
    SendMessage {
        to,
        text: body.text,
        attachments: body.attachments,
        mode: body.mode,
        allow_downgrade: body.allow_downgrade,
        priority: body.priority,
        deadline: body.deadline,
        idempotency_key: body.idempotency_key,
        reply_to: None,
        metadata: body.metadata,
    }
}

impl IntoFuture for Sending {
    type Output = Result<MessageSent>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
