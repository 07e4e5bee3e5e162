//! Channels: making, joining, reading.

use relay_protocol::api::Page;
use relay_protocol::api::messages::MessageView;
use relay_protocol::api::workspace::{ChannelMember, CreateChannel, InviteAgents, UpdateChannel};
use relay_protocol::channel::Channel;
use relay_protocol::link::NoOptions;
use serde::Serialize;

use super::{Client, bare, page, part};
use crate::error::Result;
use crate::http::Call;

fn path(name: &str, rest: &str) -> String {
    format!("/v1/channels/{}{rest}", part(bare(name)))
}

impl Client {
    /// Makes a channel.
    pub async fn create_channel(&self, name: &str, topic: Option<&str>) -> Result<Channel> {
        let body = CreateChannel {
            name: bare(name).to_owned(),
            topic: topic.map(str::to_owned),
        };
        self.http().json(Call::post("/v1/channels", &body)).await
    }

    /// All channels, by name. `cursor` is the `nextCursor` of the page before.
    pub async fn channels(&self, cursor: Option<&str>) -> Result<Page<Channel>> {
        let path = page("/v1/channels", cursor);
        self.http().json(Call::get(path)).await
    }

    /// One channel.
    pub async fn channel(&self, name: &str) -> Result<Channel> {
        self.http().json(Call::get(path(name, ""))).await
    }

    /// Changes a channel's topic, or archives it.
    pub async fn update_channel(&self, name: &str, change: &UpdateChannel) -> Result<Channel> {
        let call = Call::patch(path(name, ""), change).repeatable();
        self.http().json(call).await
    }

    /// Joins a channel.
    pub async fn join(&self, name: &str) -> Result<Channel> {
        self.member(path(name, "/join"), &NoOptions {}).await
    }

    /// Leaves a channel.
    pub async fn leave(&self, name: &str) -> Result<Channel> {
        self.member(path(name, "/leave"), &NoOptions {}).await
    }

    /// Has agents join a channel.
    pub async fn invite(&self, name: &str, agents: &[&str]) -> Result<Channel> {
        let body = InviteAgents {
            agents: agents.iter().map(|agent| (*agent).to_owned()).collect(),
        };
        self.member(path(name, "/invite"), &body).await
    }

    /// Being a member twice is the same as once.
    async fn member(&self, path: String, body: &impl Serialize) -> Result<Channel> {
        self.http().json(Call::post(path, body).repeatable()).await
    }

    /// Who is in a channel. `cursor` is the `nextCursor` of the page before.
    pub async fn channel_members(
        &self,
        name: &str,
        cursor: Option<&str>,
    ) -> Result<Page<ChannelMember>> {
        let path = page(&path(name, "/members"), cursor);
        self.http().json(Call::get(path)).await
    }

    /// The posts of a channel, newest first. `cursor` is the `nextCursor` of the page before.
    pub async fn channel_messages(
        &self,
        name: &str,
        cursor: Option<&str>,
    ) -> Result<Page<MessageView>> {
        let path = page(&path(name, "/messages"), cursor);
        self.http().json(Call::get(path)).await
    }
}
