//! Sending, reading and finding messages.

use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::agent::Metadata;
use crate::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority};
use crate::delivery_record::WaitReason;
use crate::ids::{AttachmentId, ConversationId, DeliveryId, MessageId};
use crate::message::{AttachmentKind, MessageAuthor, RelayMessage, RelayMessageTarget};
use crate::problem::Problem;
use crate::render::UnsurfacedAttachment;
use crate::time::Timestamp;
use crate::wire::{literals, variant};

/// The body of `POST /v1/messages`, and of the frame `send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendMessage {
    /// Where it goes.
    pub to: SendTarget,
    /// What is said.
    pub text: String,
    /// Content beside the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<NewAttachment>>,
    /// When it is to be surfaced; absent: at the first safe boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// Allows another boundary where a session can't do the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_downgrade: Option<bool>,
    /// What comes first among what is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// When it is of no use any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Makes a repeated send harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The message this one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageId>,
    /// For programs to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl SendMessage {
    /// A send of plain text with nothing else asked for.
    #[must_use]
    pub fn text(to: SendTarget, text: impl Into<String>) -> Self {
        Self {
            to,
            text: text.into(),
            attachments: None,
            mode: None,
            allow_downgrade: None,
            priority: None,
            deadline: None,
            idempotency_key: None,
            reply_to: None,
            metadata: None,
        }
    }
}

/// The body of `POST /v1/messages/{id}/replies`: a send that goes where the message is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplyMessage {
    /// What is said.
    pub text: String,
    /// Content beside the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<NewAttachment>>,
    /// When it is to be surfaced; absent: at the first safe boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// Allows another boundary where a session can't do the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_downgrade: Option<bool>,
    /// What comes first among what is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// When it is of no use any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Makes a repeated send harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// For programs to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl ReplyMessage {
    /// A reply of plain text with nothing else asked for.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            attachments: None,
            mode: None,
            allow_downgrade: None,
            priority: None,
            deadline: None,
            idempotency_key: None,
            metadata: None,
        }
    }
}

/// Where a send goes: `"#channel"`, `"@agent"`, `["@a", "@b"]`, or a target object.
#[derive(Clone, Debug, PartialEq)]
pub enum SendTarget {
    /// `"#channel"`; the name without `#`.
    Channel(String),
    /// `"@agent"`; the name without `@`.
    Agent(String),
    /// `["@a", "@b"]`; the names without `@`.
    Agents(Vec<String>),
    /// A target object of the spec.
    Target(RelayMessageTarget),
}

const TARGET_FORMS: &str = "\"#channel\", \"@agent\", [\"@a\", \"@b\"] or a target object";

impl std::str::FromStr for SendTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_at_checked(1) {
            Some(("#", name)) => Ok(Self::Channel(name.to_owned())),
            Some(("@", name)) => Ok(Self::Agent(name.to_owned())),
            _ => Err(format!("expected {TARGET_FORMS}, found {text:?}")),
        }
    }
}

impl Serialize for SendTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Channel(name) => serializer.collect_str(&format_args!("#{name}")),
            Self::Agent(name) => serializer.collect_str(&format_args!("@{name}")),
            Self::Agents(names) => {
                serializer.collect_seq(names.iter().map(|name| format!("@{name}")))
            }
            Self::Target(target) => target.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SendTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => text.parse().map_err(de::Error::custom),
            Value::Array(names) => names
                .into_iter()
                .map(agent_name)
                .collect::<Result<_, _>>()
                .map(Self::Agents),
            object @ Value::Object(_) => variant(object).map(Self::Target),
            other => Err(de::Error::custom(format_args!(
                "expected {TARGET_FORMS}, found {other}"
            ))),
        }
    }
}

fn agent_name<E: de::Error>(value: Value) -> Result<String, E> {
    match value.as_str().and_then(|text| text.strip_prefix('@')) {
        Some(name) => Ok(name.to_owned()),
        None => Err(E::custom(format_args!(
            "expected \"@agent\", found {value}"
        ))),
    }
}

impl JsonSchema for SendTarget {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SendTarget".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let target = generator.subschema_for::<RelayMessageTarget>();
        json_schema!({
            "anyOf": [
                { "type": "string", "pattern": "^[#@]" },
                { "type": "array", "items": { "type": "string", "pattern": "^@" }, "minItems": 1 },
                target,
            ]
        })
    }
}

/// Content of a send: uploaded before (`attachmentId`), or inline as base64 (`data`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewAttachment {
    /// An upload of before; nothing else is needed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment_id: Option<AttachmentId>,
    /// What kind of content it is.
    #[serde(rename = "type")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<AttachmentKind>,
    /// Its media type, such as `image/png`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// A file name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The content as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// The answer of `POST /v1/attachments`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachmentStored {
    /// How messages refer to it.
    pub attachment_id: AttachmentId,
    /// What kind of content it is.
    #[serde(rename = "type")]
    pub kind: AttachmentKind,
    /// Its media type.
    pub media_type: String,
    /// Bytes of content.
    pub size: u64,
}

/// The answer of a send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageSent {
    /// The message's id.
    pub message_id: MessageId,
    /// The message as it was stored.
    pub message: Arc<RelayMessage>,
    /// One for each recipient.
    pub deliveries: Vec<DeliverySummary>,
    /// What the sender should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notices: Option<Vec<Notice>>,
}

/// How one recipient's delivery stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliverySummary {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The recipient's name.
    pub agent: String,
    /// Where it stands.
    pub state: DeliveryState,
    /// The mode that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// What it waits for; present while it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitReason>,
    /// Why it failed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<Problem>>,
}

/// Something the sender should know although the send succeeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notice {
    /// A stable name for it.
    pub code: NoticeCode,
    /// The sentence.
    pub message: String,
    /// The name it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

literals! {
    /// What a notice is about.
    pub enum NoticeCode {
        /// The text names an agent that is not in the channel.
        MentionNotAMember = "mention_not_a_member",
        /// The text names nobody that exists.
        MentionUnknown = "mention_unknown",
        /// Nobody else is there.
        NoRecipients = "no_recipients",
        /// Secrets were taken out of the text.
        Redacted = "redacted",
    }
}

/// The body of `PATCH /v1/messages/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EditMessage {
    /// What it says from now on.
    pub text: String,
}

/// The body of `POST /v1/messages/{id}/reactions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddReaction {
    /// The reaction, such as `:rocket:`.
    pub emoji: String,
}

/// One reaction on a message and who gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reaction {
    /// The reaction.
    pub emoji: String,
    /// Names, in the order in which they reacted.
    pub agents: Vec<String>,
}

/// The body of `POST /v1/messages/{id}/read`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct MarkRead {
    /// Where it was read; absent: in the inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub door: Option<ReadDoor>,
    /// The attachments of this message that the reader was not shown, or not all of, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_surfaced: Option<Vec<UnsurfacedAttachment>>,
}

literals! {
    /// Where an agent has read a message that no session showed it.
    pub enum ReadDoor {
        /// In its inbox.
        Inbox = "inbox",
        /// In the answer of an MCP server.
        Mcp = "mcp",
    }
}

/// Who has read a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reader {
    /// The reader.
    pub agent_name: String,
    /// When, if this message was the last one read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
}

/// A message with what readers of a channel want beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageView {
    /// The message.
    pub message: RelayMessage,
    /// Reactions to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reactions: Option<Vec<Reaction>>,
    /// How many replies its thread has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replies: Option<u64>,
}

/// What waits for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inbox {
    /// Messages that the agent has not read, oldest first. Those that nobody has seen come before those that a session has surfaced,
    /// where there is not room for all.
    pub items: Vec<InboxItem>,
    /// Messages that wait for the moment that they were sent for. They can't be read before it, and don't count as unread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<InboxWaiting>,
    /// Channels with unread messages.
    pub channels: Vec<InboxChannel>,
    /// Conversations with unread messages.
    pub conversations: Vec<InboxConversation>,
    /// Unread messages that name the agent.
    pub mentions: u64,
    /// All unread messages: those that neither the agent has read here nor a session of it has surfaced.
    pub unread: u64,
    /// Messages that a session has surfaced and that were not read here.
    #[serde(default)]
    pub seen: u64,
    /// True when there are more unread messages than are counted or listed.
    pub more: bool,
}

/// One message of an inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxItem {
    /// The message.
    pub message: RelayMessage,
    /// Why it is here.
    pub reason: DeliveryReason,
    /// The delivery that carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
    /// Where that stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// Who has seen it although it was not read here; absent: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_by: Option<SeenBy>,
}

literals! {
    /// Who has seen a message that was not read in the inbox.
    pub enum SeenBy {
        /// A session, which has surfaced it.
        Session = "session",
    }
}

/// A message that can't be read yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxWaiting {
    /// The message.
    pub message_id: MessageId,
    /// The delivery that carries it; a flush of it makes it readable.
    pub delivery_id: DeliveryId,
    /// Who wrote it.
    pub from: MessageAuthor,
    /// Where it was said.
    pub to: RelayMessageTarget,
    /// Why it is for this agent.
    pub reason: DeliveryReason,
    /// What it waits for.
    pub waiting: WaitReason,
}

/// A channel with unread messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxChannel {
    /// The name, without `#`.
    pub channel: String,
    /// How many.
    pub unread: u64,
    /// How many of them name the agent.
    pub mentions: u64,
}

/// A conversation with unread messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboxConversation {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The others in it.
    pub with: Vec<String>,
    /// How many.
    pub unread: u64,
}

/// A direct conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Conversation {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// Everybody in it.
    pub participants: Vec<String>,
    /// When something was last said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<Timestamp>,
    /// How many messages the reader has not read.
    pub unread: u64,
}

/// What to look for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct SearchQuery {
    /// Words; all must occur. `"two words"` is a phrase, `wor*` a prefix.
    pub q: String,
    /// Only in this channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Only by this author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Only sent at or after this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// Only sent before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
    /// Where the page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One message that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchHit {
    /// The message.
    pub message: RelayMessage,
    /// The words around the match, matches between `[` and `]`.
    pub snippet: String,
}
