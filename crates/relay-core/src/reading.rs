//! Reading: messages, threads, inbox, conversations, search.

use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    Conversation, DeliverySummary, Inbox, MessageView, ReadDoor, Reader, SearchHit, SearchQuery,
};
use relay_protocol::ids::{ConversationId, MessageId};
use relay_protocol::limits::{ATTACHMENTS_PER_MESSAGE, PAGE_ITEMS, QUERY_BYTES};
use relay_protocol::message::RelayMessageTarget;

use crate::agents::bare;
use crate::caller::Caller;
use crate::channels::without_hash;
use crate::delivery::reading::lanes_beside_the_mark;
use crate::delivery::shelf::Wanted;
use crate::delivery::story::brief;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result, StorageError};
use crate::store::{
    AgentNo, InboxQuery, Place, ReadMark, ReaderGate, Reading, Search, WaitingQuery,
};

impl Engine {
    /// One message with its reactions.
    pub async fn message(&self, caller: &Caller, id: MessageId) -> Result<MessageView> {
        let view = self.store.message(caller.eyes()?, id).await?;
        caller.check_sees(&view.message)?;
        Ok(view)
    }

    /// The posts of a channel, newest first. Replies are in their threads.
    pub async fn channel_messages(
        &self,
        caller: &Caller,
        channel: &str,
        page: PageQuery,
    ) -> Result<Page<MessageView>> {
        let place = Place::Channel(without_hash(channel).to_owned());
        self.store
            .messages(caller.reader_in(channel)?, place, page.request()?)
            .await
    }

    /// The messages of a conversation, newest first.
    pub async fn conversation_messages(
        &self,
        caller: &Caller,
        conversation: ConversationId,
        page: PageQuery,
    ) -> Result<Page<MessageView>> {
        let place = Place::Conversation(conversation);
        self.store
            .messages(caller.reader()?, place, page.request()?)
            .await
    }

    /// A thread: its root, then the replies, oldest first.
    pub async fn thread(
        &self,
        caller: &Caller,
        root: MessageId,
        page: PageQuery,
    ) -> Result<Page<MessageView>> {
        self.require_seen(caller, root).await?;
        self.store
            .thread(caller.eyes()?, root, page.request()?)
            .await
    }

    /// How a message's deliveries stand: all of them for its author, the own one for a recipient.
    pub async fn deliveries(&self, caller: &Caller, id: MessageId) -> Result<Vec<DeliverySummary>> {
        self.require_seen(caller, id).await?;
        let stories = self.store.deliveries(caller.eyes()?, id).await?;
        let standings = self.runner.standings(&stories);
        let all = stories.iter().zip(standings);
        Ok(all
            .map(|(story, (out, waiting))| brief(story, out.as_ref(), waiting))
            .collect())
    }

    /// Refuses a message that an observer may not see. For others the store itself decides.
    async fn require_seen(&self, caller: &Caller, id: MessageId) -> Result<()> {
        if caller.scope().is_some() {
            self.message(caller, id).await?;
        }
        Ok(())
    }

    /// Marks a message, and all before it in the same place, as read by the calling agent.
    pub async fn mark_read(&self, caller: &Caller, message: MessageId) -> Result<()> {
        self.mark_read_at(caller, message, ReadDoor::Inbox.into())
            .await
    }

    /// The same, and says where it was read.
    pub async fn mark_read_at(
        &self,
        caller: &Caller,
        message: MessageId,
        reading: Reading,
    ) -> Result<()> {
        let found = reading.unsurfaced.len();
        within("notSurfaced", ATTACHMENTS_PER_MESSAGE, found)?;
        self.mark(caller, vec![message], reading).await
    }

    /// Who has read a message.
    pub async fn readers(&self, caller: &Caller, message: MessageId) -> Result<Vec<Reader>> {
        self.require_seen(caller, message).await?;
        self.store.readers(caller.eyes()?, message).await
    }

    /// What the calling agent has not read. Looking changes nothing.
    pub async fn inbox(&self, caller: &Caller, page: PageQuery) -> Result<Inbox> {
        let agent = caller.agent()?;
        let page = page.request()?;
        if let Some(found) = page.cursor {
            let expected = "none: reading is what moves an inbox on".to_owned();
            return Err(Error::BadCursor { expected, found });
        }
        let beside = WaitingQuery {
            workspace_no: agent.workspace_no,
            agent: agent.no,
            wanted: Wanted {
                lanes: lanes_beside_the_mark(),
                after: None,
            },
            limit: PAGE_ITEMS,
        };
        let beside = self.store.waiting(beside).await?;
        let query = InboxQuery {
            workspace_no: agent.workspace_no,
            agent: agent.no,
            limit: page.limit,
            gate: self.reader_gate(caller, agent.no)?,
            beside: beside.rows,
        };
        let mut inbox = self.store.inbox(query).await?;
        inbox.more |= !beside.complete;
        Ok(inbox)
    }

    /// What somebody who reads an agent's inbox has to wait for as things are now.
    fn reader_gate(&self, caller: &Caller, agent: AgentNo) -> Result<ReaderGate> {
        Ok(ReaderGate {
            session: self.runner.current(agent),
            workspace: self.current(caller)?,
        })
    }

    /// What the calling agent has not read, and from now on has.
    pub async fn take_inbox(&self, caller: &Caller, page: PageQuery) -> Result<Inbox> {
        let inbox = self.inbox(caller, page).await?;
        let mut last: Vec<(&RelayMessageTarget, MessageId)> = Vec::new();
        for item in &inbox.items {
            last.retain(|(place, _)| **place != item.message.to);
            last.push((&item.message.to, item.message.id));
        }
        let messages: Vec<_> = last.into_iter().map(|(_, id)| id).collect();
        if !messages.is_empty() {
            self.mark(caller, messages, ReadDoor::Inbox.into()).await?;
        }
        Ok(inbox)
    }

    async fn mark(
        &self,
        caller: &Caller,
        messages: Vec<MessageId>,
        reading: Reading,
    ) -> Result<()> {
        let agent = caller.agent()?;
        let (workspace_no, reader) = (agent.workspace_no, agent.no);
        // What is read here is settled; nothing of it may be offered meanwhile.
        let (hold, offered) = self.runner.hold(reader);
        let mark = ReadMark {
            workspace_no,
            reader,
            messages,
            reading,
            offered: offered.into_iter().map(|(position, _)| position).collect(),
            gate: self.reader_gate(caller, reader)?,
            at: self.now(),
        };
        let (tell, told) = tokio::sync::oneshot::channel();
        self.store.mark_read(mark).then(move |result| {
            drop(hold);
            let _ = tell.send(result);
        });
        told.await.unwrap_or(Err(StorageError::Closed.into()))
    }

    /// The calling agent's conversations, the most recent first.
    pub async fn conversations(
        &self,
        caller: &Caller,
        page: PageQuery,
    ) -> Result<Page<Conversation>> {
        let agent = caller.agent()?;
        self.store
            .conversations(agent.workspace_no, agent.no, page.request()?)
            .await
    }

    /// Messages that hold all of the words, newest first, among those that the caller can see.
    pub async fn search(&self, caller: &Caller, query: SearchQuery) -> Result<Page<SearchHit>> {
        within("q", QUERY_BYTES, query.q.len())?;
        let page = PageQuery {
            cursor: query.cursor,
            limit: query.limit,
        }
        .request()?;
        let viewer = match &query.channel {
            Some(channel) => caller.reader_in(channel)?,
            None => caller.reader()?,
        };
        let search = Search {
            words: query.q,
            channel: query.channel.map(|name| without_hash(&name).to_owned()),
            from: query.from.map(|name| bare(&name).to_owned()),
            after: query.after,
            before: query.before,
            page,
        };
        self.store.search(viewer, search).await
    }
}
