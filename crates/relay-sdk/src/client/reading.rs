//! What waits for an agent, its conversations, and finding messages.

use relay_protocol::api::Page;
use relay_protocol::api::messages::{Conversation, Inbox, MessageView, SearchHit, SearchQuery};
use relay_protocol::ids::ConversationId;

use super::{Client, page};
use crate::error::Result;
use crate::http::{Call, with_query};

impl Client {
    /// What the agent has not read, oldest first. Nothing changes by looking.
    pub async fn inbox(&self) -> Result<Inbox> {
        self.http().json(Call::get("/v1/inbox")).await
    }

    /// What the agent has not read; it counts as read, and as delivered, from now on.
    ///
    /// Never repeated by itself: an answer that got lost would be read by nobody.
    pub async fn take_inbox(&self) -> Result<Inbox> {
        let call = Call::get("/v1/inbox?ack=true").once();
        self.http().json(call).await
    }

    /// The agent's conversations, the most recent first. `cursor` is the `nextCursor` of the page before.
    pub async fn conversations(&self, cursor: Option<&str>) -> Result<Page<Conversation>> {
        let path = page("/v1/conversations", cursor);
        self.http().json(Call::get(path)).await
    }

    /// The messages of a conversation, newest first. `cursor` is the `nextCursor` of the page before.
    pub async fn conversation_messages(
        &self,
        conversation_id: ConversationId,
        cursor: Option<&str>,
    ) -> Result<Page<MessageView>> {
        let path = format!("/v1/conversations/{conversation_id}/messages");
        self.http().json(Call::get(page(&path, cursor))).await
    }

    /// Messages that hold all of the words, newest first.
    pub async fn search(&self, query: &SearchQuery) -> Result<Page<SearchHit>> {
        let path = with_query("/v1/search", query);
        self.http().json(Call::get(path)).await
    }
}
