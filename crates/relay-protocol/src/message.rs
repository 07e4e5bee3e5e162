//! Messages: the durable record, where it goes, and the flat envelope that events carry beside it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentType, Metadata};
use crate::ids::{AgentId, AttachmentId, ChannelId, ConversationId, MessageId};
use crate::time::Timestamp;
use crate::wire::{literals, tagged_union};

/// One message, as every listener, session and page sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelayMessage {
    /// The record's id.
    pub id: MessageId,
    /// The public name of the same id.
    pub message_id: MessageId,
    /// The authenticated author.
    pub from: MessageAuthor,
    /// Where it was sent.
    pub to: RelayMessageTarget,
    /// The channel, for posts and threads in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<RelayMessageChannelRef>,
    /// The message this one answers, for thread replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    /// What was said.
    pub text: String,
    /// Content beside the text.
    pub attachments: Vec<Attachment>,
    /// Names that the text addresses, without `@`.
    pub mentions: Vec<String>,
    /// When it was sent.
    pub created_at: Timestamp,
    /// When it was last edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// 1 as sent, one more for each edit.
    pub version: u32,
    /// What the sender attached for programs to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Key of [`RelayMessage::metadata`]: the session through which its author sent it. A reply goes back to that session where it
/// is one conversation among several of its agent.
pub const SENT_IN_SESSION: &str = "sentInSession";

/// Who wrote a message. An author without a mailbox (the system, a webhook) has no id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageAuthor {
    /// The agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<AgentId>,
    /// The agent's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name with `@` in front.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What kind of participant it is.
    #[serde(rename = "type")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
}

/// The sender in an event's envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct RelayMessageSender {
    /// The agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<AgentId>,
    /// The agent's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The channel in an event's envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct RelayMessageChannelRef {
    /// The channel's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ChannelId>,
    /// The channel's name, without the leading `#`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

tagged_union! {
    /// Where a message goes.
    pub enum RelayMessageTarget by "kind" {
        /// One agent, by name.
        "agent" => Agent(AgentTarget),
        /// The members of a channel.
        "channel" => Channel(ChannelTarget),
        /// A conversation of two.
        "dm" => Dm(ConversationTarget),
        /// A conversation of more than two.
        "group_dm" => GroupDm(ConversationTarget),
    }
}

/// One agent as a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentTarget {
    /// The name, without `@`.
    pub agent_name: String,
    /// The id; when both are given they must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
}

/// A channel as a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelTarget {
    /// The name, without `#`.
    pub channel_name: String,
    /// The id; when both are given they must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<ChannelId>,
}

/// A conversation as a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationTarget {
    /// The conversation's id.
    pub conversation_id: ConversationId,
}

/// The flat form of a message's routing; every field is optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct RelayEventEnvelope {
    /// The sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<RelayMessageSender>,
    /// The routing target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<RelayMessageTarget>,
    /// Present for channel posts and threads in a channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<RelayMessageChannelRef>,
    /// The message this is a reply to, for thread replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
}

literals! {
    /// The kinds of content a message can carry beside its text.
    pub enum AttachmentKind {
        /// Text, such as a log or a source file.
        Text = "text",
        /// A picture.
        Image = "image",
    }
}

/// Content beside the text: by reference, or inline as base64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attachment {
    /// What kind of content it is.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// A file name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes of content.
    pub size: u64,
    /// Where the content is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment_id: Option<AttachmentId>,
    /// The content as base64, where it is carried inline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl Attachment {
    /// Carries its content inline.
    pub fn put_content(&mut self, content: &[u8]) {
        self.data = Some(encode_content(content));
    }
}

/// Content as it is carried inline.
#[must_use]
pub fn encode_content(content: &[u8]) -> String {
    BASE64_STANDARD.encode(content)
}

impl RelayMessage {
    /// The envelope that goes beside this message in events.
    #[must_use]
    pub fn envelope(&self) -> RelayEventEnvelope {
        RelayEventEnvelope {
            from: Some(RelayMessageSender {
                id: self.from.id,
                name: self.from.name.clone(),
            }),
            to: Some(self.to.clone()),
            channel: self.channel.clone(),
            parent: self.parent,
        }
    }
}
