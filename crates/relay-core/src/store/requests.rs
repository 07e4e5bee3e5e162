//! What the engine asks of a store. Everything here was checked for form already.

use std::sync::Arc;

use relay_protocol::agent::{AgentType, Metadata};
use relay_protocol::api::messages::{ReadDoor, SendTarget};
use relay_protocol::api::workspace::ObserverScope;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, Priority};
use relay_protocol::delivery_record::{WaitCode, WaitReason};
use relay_protocol::event::ReactionChange;
use relay_protocol::ids::{
    AgentId, AttachmentId, ChannelId, ConversationId, MessageId, TokenId, WorkspaceId,
};
use relay_protocol::message::{Attachment, AttachmentKind};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::render::UnsurfacedAttachment;
use relay_protocol::time::Timestamp;

use super::chain::Hash;
use super::position::Position;
use super::records::{AgentNo, DeliveryRow, SessionRow, WorkspaceRow};
use crate::delivery::decide::SessionView;
use crate::delivery::history::Offer;
use crate::delivery::reading::hold_for_reader;
use crate::delivery::waiting::hold_code;
use crate::error::Error;

/// Who looks, which decides what is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// The workspace.
    pub workspace_no: u32,
    /// The agent whose eyes these are; `None` sees everything in the workspace.
    pub agent: Option<AgentNo>,
}

/// A channel or a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// By name.
    Channel(String),
    /// By id.
    Conversation(ConversationId),
}

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// Most items.
    pub limit: usize,
}

/// A credential that was just made.
#[derive(Clone, Copy, Debug)]
pub struct NewToken {
    /// How events name it.
    pub id: TokenId,
    /// The hash under which it is kept.
    pub hash: Hash,
    /// When it was made.
    pub at: Timestamp,
}

/// A credential for somebody who only looks.
pub struct NewObserver {
    /// The workspace.
    pub workspace_no: u32,
    /// The credential.
    pub token: NewToken,
    /// What people call it.
    pub name: Option<String>,
    /// What it may see.
    pub scope: ObserverScope,
}

/// A credential to take back.
#[derive(Clone, Copy, Debug)]
pub struct Revocation {
    /// The workspace.
    pub workspace_no: u32,
    /// The credential.
    pub token: TokenId,
    /// When.
    pub at: Timestamp,
}

/// A workspace to create.
pub struct NewWorkspace {
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: NewToken,
    /// The id of `#general`.
    pub general: ChannelId,
}

/// A change to a workspace.
pub struct WorkspaceChange {
    /// The workspace.
    pub workspace_no: u32,
    /// When.
    pub at: Timestamp,
    /// A new name.
    pub name: Option<String>,
    /// A change to its policy.
    pub policy: Option<PolicyPatch>,
}

/// An agent to register.
pub struct NewAgent {
    /// The workspace.
    pub workspace_no: u32,
    /// Its id, if it is new.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// What kind of participant it is.
    pub agent_type: AgentType,
    /// What others may know about it.
    pub metadata: Option<Metadata>,
    /// Takes over the agent that has the name.
    pub adopt: bool,
    /// Whether it joins `#general`; if not, one that is taken over leaves all channels.
    pub in_channels: bool,
    /// Its token; its time is the time of the registration.
    pub token: NewToken,
}

/// A change to an agent.
pub struct AgentChange {
    /// Who changes it: the agent itself, or the workspace.
    pub viewer: Viewer,
    /// The agent's name.
    pub name: String,
    /// What others may know about it from now on.
    pub metadata: Metadata,
}

/// A new token for an agent.
pub struct TokenRotation {
    /// Who asks for it: the agent itself, or the workspace.
    pub viewer: Viewer,
    /// The agent's name.
    pub name: String,
    /// The new token.
    pub token: NewToken,
    /// Until when the old ones work.
    pub grace_until: Timestamp,
}

/// The end of an agent.
pub struct Release {
    /// Who ends it: the agent itself, or the workspace.
    pub viewer: Viewer,
    /// The agent's name.
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// What sessions were offered and have not answered.
    pub offered: Vec<(Position, Offer)>,
}

/// A channel to create.
pub struct NewChannel {
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: ChannelId,
    /// Its name.
    pub name: String,
    /// What it is about.
    pub topic: Option<String>,
    /// Who creates it.
    pub by: Option<AgentNo>,
    /// When.
    pub at: Timestamp,
}

/// A change to a channel.
pub struct ChannelChange {
    /// Who changes it.
    pub viewer: Viewer,
    /// The channel's name.
    pub channel: String,
    /// A new topic; empty removes it.
    pub topic: Option<String>,
    /// Whether it is archived from now on.
    pub archived: Option<bool>,
    /// When.
    pub at: Timestamp,
}

/// Agents that come to a channel or leave it.
pub struct Joining {
    /// Who does it.
    pub viewer: Viewer,
    /// The channel's name.
    pub channel: String,
    /// Whom it is about, by name.
    pub agents: Vec<String>,
    /// When.
    pub at: Timestamp,
}

/// Who speaks.
#[derive(Clone, Debug)]
pub enum Author {
    /// An agent.
    Agent(AgentNo),
    /// Somebody without a mailbox, by the name that is shown.
    System(Arc<str>),
    /// Whoever posts by the webhook with this number, by the name that is shown.
    Webhook(i64, Arc<str>),
}

/// A message to send.
pub struct NewMessage {
    /// The workspace.
    pub workspace_no: u32,
    /// When.
    pub at: Timestamp,
    /// The author.
    pub author: Author,
    /// Where it goes; a reply goes where the message is that it answers.
    pub to: Option<SendTarget>,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// What is said.
    pub text: String,
    /// Names that the text addresses, folded.
    pub mentions: Vec<String>,
    /// Content beside the text.
    pub attachments: Vec<NewContent>,
    /// For programs to read.
    pub metadata: Option<Metadata>,
    /// The mode that was asked for.
    pub mode: Option<DeliveryMode>,
    /// Whether another boundary will do.
    pub allow_downgrade: bool,
    /// What comes first.
    pub priority: Priority,
    /// When it is of no use any more; absent: the policy's default.
    pub deadline: Option<Timestamp>,
    /// The sender's key and the hash of the request.
    pub idempotency: Option<(String, Hash)>,
    /// True when secrets were taken out of the text.
    pub redacted: bool,
    /// Why it is refused, unless it repeats a send that was not.
    pub objection: Option<Error>,
    /// Why it reaches those it reaches; absent: what it is decides.
    pub reason: Option<DeliveryReason>,
}

impl NewMessage {
    /// Plain text, for nobody yet.
    #[must_use]
    pub fn plain(workspace_no: u32, author: Author, text: &str, at: Timestamp) -> Self {
        Self {
            workspace_no,
            at,
            author,
            to: None,
            reply_to: None,
            text: text.to_owned(),
            mentions: Vec::new(),
            attachments: Vec::new(),
            metadata: None,
            mode: None,
            allow_downgrade: false,
            priority: Priority::Normal,
            deadline: None,
            idempotency: None,
            redacted: false,
            objection: None,
            reason: None,
        }
    }
}

/// Content of a message to send.
pub enum NewContent {
    /// Uploaded before.
    Uploaded(AttachmentId),
    /// Checked content that is stored with the message.
    Inline(NewAttachmentRow),
}

/// Content to store.
pub struct NewAttachmentRow {
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: AttachmentId,
    /// Who brings it; `None` for the workspace.
    pub owner: Option<AgentNo>,
    /// What kind of content it is.
    pub kind: AttachmentKind,
    /// Its media type.
    pub media_type: String,
    /// A file name.
    pub name: Option<String>,
    /// The content.
    pub data: Vec<u8>,
    /// When.
    pub at: Timestamp,
    /// Whether it stays although no message uses it.
    pub keep: bool,
}

impl NewAttachmentRow {
    /// How a message refers to it.
    #[must_use]
    pub fn reference(&self) -> Attachment {
        Attachment {
            kind: self.kind,
            media_type: self.media_type.clone(),
            name: self.name.clone(),
            size: self.data.len() as u64,
            attachment_id: Some(self.id),
            data: None,
        }
    }
}

/// A message's new text.
pub struct MessageEdit {
    /// Who edits.
    pub viewer: Viewer,
    /// The message.
    pub message: MessageId,
    /// What it says from now on.
    pub text: String,
    /// Names that the text addresses, folded.
    pub mentions: Vec<String>,
    /// When.
    pub at: Timestamp,
}

/// A reaction to add or remove.
pub struct ReactionRequest {
    /// The workspace.
    pub workspace_no: u32,
    /// Who reacts.
    pub agent: AgentNo,
    /// To which message.
    pub message: MessageId,
    /// With what.
    pub emoji: String,
    /// Adding or removing.
    pub change: ReactionChange,
    /// When.
    pub at: Timestamp,
}

/// Decides which of the deliveries that wait for an agent its inbox shows.
#[derive(Clone)]
pub struct ReaderGate {
    /// The session that the agent has.
    pub session: Option<Arc<SessionRow>>,
    /// The workspace, whose policy counts.
    pub workspace: Arc<WorkspaceRow>,
}

impl ReaderGate {
    /// Why a reader has to wait for a delivery, where it does.
    #[must_use]
    pub fn wait_reason(&self, row: &DeliveryRow) -> Option<WaitReason> {
        if row.state.is_with_session() || row.state.is_terminal() {
            return None;
        }
        // What is for one session only does not depend on what another one does.
        let session = self.session.as_ref().filter(|_| row.only_session.is_none());
        let view = session.map(|session| SessionView {
            capabilities: &session.capabilities,
            safe_states: &session.safe_states,
            status: session.status,
            linked: true,
        });
        let hold = hold_for_reader(row.ask(), view.as_ref(), &self.workspace.policy)?;
        Some(WaitReason {
            code: match (hold.waits_for, view) {
                (Some(DeliveryMode::Manual), _) | (_, None) => WaitCode::Manual,
                (_, Some(view)) => hold_code(&view, row, &hold, true),
            },
            why: hold.why.into_owned(),
            waits_for: hold.waits_for,
            since: row.at,
            until: hold.until,
        })
    }
}

/// What is looked for in an agent's inbox.
pub struct InboxQuery {
    /// The workspace.
    pub workspace_no: u32,
    /// The agent.
    pub agent: AgentNo,
    /// Most messages.
    pub limit: usize,
    /// What has to wait.
    pub gate: ReaderGate,
    /// Deliveries that stay when those around them are read ([`lanes_beside_the_mark`](crate::delivery::reading::lanes_beside_the_mark)).
    pub beside: Vec<DeliveryRow>,
}

/// How a message was read that no session showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Where.
    pub door: ReadDoor,
    /// The attachments that the reader was not shown, or not all of.
    pub unsurfaced: Vec<UnsurfacedAttachment>,
}

impl From<ReadDoor> for Reading {
    fn from(door: ReadDoor) -> Self {
        Self {
            door,
            unsurfaced: Vec::new(),
        }
    }
}

/// Messages that an agent has read.
pub struct ReadMark {
    /// The workspace.
    pub workspace_no: u32,
    /// Who has read.
    pub reader: AgentNo,
    /// The last ones, one for each place.
    pub messages: Vec<MessageId>,
    /// Where, and what of the message was not shown there. With several messages nothing is said of their attachments.
    pub reading: Reading,
    /// Deliveries that a session is about to answer for itself.
    pub offered: Vec<Position>,
    /// What is not settled by reading, because it has to wait.
    pub gate: ReaderGate,
    /// When.
    pub at: Timestamp,
}

/// What to look for.
pub struct Search {
    /// The words.
    pub words: String,
    /// Only in this channel.
    pub channel: Option<String>,
    /// Only by this author.
    pub from: Option<String>,
    /// Only sent at or after this time.
    pub after: Option<Timestamp>,
    /// Only sent before this time.
    pub before: Option<Timestamp>,
    /// Which part of the hits.
    pub page: PageRequest,
}

/// Payloads to remove from the log.
pub struct Erasure {
    /// The workspace.
    pub workspace_no: u32,
    /// The entries, by the sequence number of any of their events.
    pub seqs: Vec<u64>,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// What the log need not keep any longer.
pub struct Retention {
    /// The workspace.
    pub workspace_no: u32,
    /// Payloads of bulky kinds from before this time go.
    pub bulky_before: Option<Timestamp>,
    /// Whole entries from before this time go, as far as they are the oldest.
    pub all_before: Option<Timestamp>,
    /// When.
    pub at: Timestamp,
}
