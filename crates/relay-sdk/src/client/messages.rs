//! Messages: sending, answering, editing, reacting, reading.

use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    AddReaction, DeliverySummary, EditMessage, MarkRead, MessageView, Reaction, ReadDoor, Reader,
    SendTarget,
};
use relay_protocol::ids::MessageId;
use relay_protocol::message::RelayMessage;
use relay_protocol::render::UnsurfacedAttachment;

use super::sending::Sending;
use super::{Client, page, part};
use crate::error::Result;
use crate::http::Call;

impl Client {
    /// Sends a message to `#channel` or `@agent`. It is acknowledged once it is on disk.
    pub fn send_message(&self, to: &str, text: impl Into<String>) -> Sending {
        Sending::to(self.clone(), to, text.into())
    }

    /// Sends a message to several agents, or to a target of the spec.
    pub fn send_message_to(&self, to: SendTarget, text: impl Into<String>) -> Sending {
        Sending::to_target(self.clone(), to, text.into())
    }

    /// Answers a message in its thread.
    pub fn reply(&self, message_id: MessageId, text: impl Into<String>) -> Sending {
        Sending::reply_to(self.clone(), message_id, text.into())
    }

    /// Replaces the text of an own message.
    pub async fn edit_message(
        &self,
        message_id: MessageId,
        text: impl Into<String>,
    ) -> Result<RelayMessage> {
        let body = EditMessage { text: text.into() };
        let path = format!("/v1/messages/{message_id}");
        self.http().json(Call::patch(path, &body)).await
    }

    /// Adds a reaction such as `:rocket:`; all that are there now.
    pub async fn react(&self, message_id: MessageId, emoji: &str) -> Result<Vec<Reaction>> {
        let body = AddReaction {
            emoji: emoji.to_owned(),
        };
        let path = format!("/v1/messages/{message_id}/reactions");
        let call = Call::post(path, &body).repeatable();
        let page: Page<Reaction> = self.http().json(call).await?;
        Ok(page.items)
    }

    /// Takes a reaction back; all that are there now.
    pub async fn unreact(&self, message_id: MessageId, emoji: &str) -> Result<Vec<Reaction>> {
        let path = format!("/v1/messages/{message_id}/reactions/{}", part(emoji));
        let call = Call::delete(path).repeatable();
        let page: Page<Reaction> = self.http().json(call).await?;
        Ok(page.items)
    }

    /// Marks a message, and all before it in the same place, as read.
    pub async fn mark_read(&self, message_id: MessageId) -> Result<()> {
        self.mark(message_id, MarkRead::default()).await
    }

    /// The same, and says where it was read.
    pub async fn mark_read_at(&self, message_id: MessageId, door: ReadDoor) -> Result<()> {
        self.mark_read_without(message_id, door, Vec::new()).await
    }

    /// The same for a reader who was not shown these attachments of the message, or not all of them. The receipt says so.
    pub async fn mark_read_without(
        &self,
        message_id: MessageId,
        door: ReadDoor,
        not_surfaced: Vec<UnsurfacedAttachment>,
    ) -> Result<()> {
        let body = MarkRead {
            door: Some(door),
            not_surfaced: (!not_surfaced.is_empty()).then_some(not_surfaced),
        };
        self.mark(message_id, body).await
    }

    async fn mark(&self, message_id: MessageId, body: MarkRead) -> Result<()> {
        let path = format!("/v1/messages/{message_id}/read");
        self.http().done(Call::post(path, &body).repeatable()).await
    }

    /// A message with its reactions.
    pub async fn message(&self, message_id: MessageId) -> Result<MessageView> {
        let path = format!("/v1/messages/{message_id}");
        self.http().json(Call::get(path)).await
    }

    /// A thread: its root, then the replies, oldest first. `cursor` is the `nextCursor` of the page before.
    pub async fn thread(
        &self,
        message_id: MessageId,
        cursor: Option<&str>,
    ) -> Result<Page<MessageView>> {
        let path = format!("/v1/messages/{message_id}/thread");
        self.http().json(Call::get(page(&path, cursor))).await
    }

    /// How a message's deliveries stand, one for each recipient.
    pub async fn message_deliveries(&self, message_id: MessageId) -> Result<Vec<DeliverySummary>> {
        let path = format!("/v1/messages/{message_id}/deliveries");
        let page: Page<DeliverySummary> = self.http().json(Call::get(path)).await?;
        Ok(page.items)
    }

    /// Lists who has read a message, in the order of their reading.
    pub async fn message_readers(&self, message_id: MessageId) -> Result<Vec<Reader>> {
        let path = format!("/v1/messages/{message_id}/readers");
        let page: Page<Reader> = self.http().json(Call::get(path)).await?;
        Ok(page.items)
    }
}
