//! Channels: named places that agents join and leave.

use relay_protocol::api::Page;
use relay_protocol::api::workspace::{ChannelMember, CreateChannel, UpdateChannel};
use relay_protocol::channel::Channel;
use relay_protocol::ids::ChannelId;
use relay_protocol::limits::{RECIPIENTS_PER_SEND, TOPIC_BYTES};
use relay_protocol::names;

use crate::agents::bare;
use crate::caller::Caller;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Noun, Result};
use crate::observers::sees_channel;
use crate::store::{ChannelChange, Joining, NewChannel};

impl Engine {
    /// Creates a channel. An agent that creates one is in it.
    pub async fn create_channel(&self, caller: &Caller, body: CreateChannel) -> Result<Channel> {
        let viewer = caller.viewer()?;
        let name = without_hash(&body.name).to_owned();
        names::check(&name).map_err(|error| Error::Name {
            what: Noun::Channel,
            error,
        })?;
        check_topic(body.topic.as_deref())?;
        let at = self.now();
        self.store
            .create_channel(NewChannel {
                workspace_no: viewer.workspace_no,
                id: ChannelId::new(at, self.bits()),
                name,
                topic: body.topic.filter(|topic| !topic.is_empty()),
                by: viewer.agent,
                at,
            })
            .await
    }

    /// Changes a channel's topic, archives it or opens it again.
    pub async fn update_channel(
        &self,
        caller: &Caller,
        channel: &str,
        body: UpdateChannel,
    ) -> Result<Channel> {
        check_topic(body.topic.as_deref())?;
        self.store
            .update_channel(ChannelChange {
                viewer: caller.viewer()?,
                channel: without_hash(channel).to_owned(),
                topic: body.topic,
                archived: body.archived,
                at: self.now(),
            })
            .await
    }

    /// The calling agent joins a channel. Being in it already is fine.
    pub async fn join_channel(&self, caller: &Caller, channel: &str) -> Result<Channel> {
        let agent = caller.agent()?.name.clone();
        self.store
            .join_channel(self.joining(caller, channel, vec![agent])?)
            .await
    }

    /// The calling agent leaves a channel. Not being in it is fine.
    pub async fn leave_channel(&self, caller: &Caller, channel: &str) -> Result<Channel> {
        let agent = caller.agent()?.name.clone();
        self.store
            .leave_channel(self.joining(caller, channel, vec![agent])?)
            .await
    }

    /// Brings others into a channel, all or none. Agents invite only where they are members.
    pub async fn invite(
        &self,
        caller: &Caller,
        channel: &str,
        agents: &[String],
    ) -> Result<Channel> {
        within("agents", RECIPIENTS_PER_SEND, agents.len())?;
        let agents = agents.iter().map(|name| bare(name).to_owned()).collect();
        self.store
            .join_channel(self.joining(caller, channel, agents)?)
            .await
    }

    fn joining(&self, caller: &Caller, channel: &str, agents: Vec<String>) -> Result<Joining> {
        let channel = without_hash(channel).to_owned();
        Ok(Joining {
            viewer: caller.viewer()?,
            channel,
            agents,
            at: self.now(),
        })
    }

    /// One channel, by name.
    pub async fn channel(&self, caller: &Caller, channel: &str) -> Result<Channel> {
        self.store
            .channel(
                caller.reader_in(channel)?.workspace_no,
                without_hash(channel),
            )
            .await
    }

    /// All channels, by name.
    pub async fn channels(&self, caller: &Caller, page: PageQuery) -> Result<Page<Channel>> {
        let mut page = self
            .store
            .channels(caller.home()?.no, page.request()?)
            .await?;
        if let Some(scope) = caller.scope() {
            page.items
                .retain(|channel| sees_channel(scope, &channel.name));
        }
        Ok(page)
    }

    /// Who is in a channel, by name.
    pub async fn channel_members(
        &self,
        caller: &Caller,
        channel: &str,
        page: PageQuery,
    ) -> Result<Page<ChannelMember>> {
        let page = page.request()?;
        self.store
            .members(
                caller.reader_in(channel)?.workspace_no,
                without_hash(channel),
                page,
            )
            .await
    }
}

/// A name without the `#` that people write in front of it.
pub(crate) fn without_hash(channel: &str) -> &str {
    channel.strip_prefix('#').unwrap_or(channel)
}

fn check_topic(topic: Option<&str>) -> Result<()> {
    within("topic", TOPIC_BYTES, topic.map_or(0, str::len))
}
