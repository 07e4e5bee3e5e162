//! From what a send names to the room it goes to, created if it is a new conversation.

use std::sync::Arc;

use relay_protocol::api::messages::SendTarget;
use relay_protocol::ids::{ConversationId, MessageId, SessionId};
use relay_protocol::message::{
    AgentTarget, ChannelTarget, ConversationTarget, RelayMessageTarget, SENT_IN_SESSION,
};
use relay_protocol::time::Timestamp;
use rusqlite::{OptionalExtension as _, params};
use uuid::Uuid;

use super::channels::NewRoom;
use super::messages::{Speaker, target_text};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::position::{Position, place_of};
use crate::store::records::{AgentNo, AgentRow, RoomKind, RoomNo, RoomRow, WorkspaceRow};
use crate::store::requests::NewMessage;
use crate::store::sent::Extra;

/// Where a message goes.
pub(super) struct Target {
    pub(super) room: Arc<RoomRow>,
    pub(super) parent: Option<Parent>,
}

/// The message that a reply answers.
pub(super) struct Parent {
    pub(super) position: Position,
    pub(super) at: Timestamp,
    /// The first message of the thread.
    pub(super) thread: Position,
    /// How many answers of agents to others, one upon the other, lead to it.
    pub(super) depth: u32,
    /// Who wrote it, if it was an agent.
    pub(super) author: Option<AgentNo>,
    room: RoomNo,
    extra: Option<String>,
}

impl Parent {
    /// The session that sent it, where its author is this agent and says so. Nobody but the author can: it is the author's own metadata.
    pub(super) fn sent_in_session(&self, agent: AgentNo) -> Option<SessionId> {
        let extra = self
            .extra
            .as_deref()
            .filter(|_| self.author == Some(agent))?;
        let extra: Extra = serde_json::from_str(extra).ok()?;
        extra.metadata?.get(SENT_IN_SESSION)?.as_str()?.parse().ok()
    }
}

impl Tx<'_> {
    /// Finds the room of a send and checks that its author may speak there.
    pub(super) fn resolve(
        &mut self,
        workspace: &WorkspaceRow,
        author: &Speaker,
        new: &NewMessage,
    ) -> Result<Target> {
        let parent = new
            .reply_to
            .map(|id| self.parent(workspace, id))
            .transpose()?;
        let named = match &new.to {
            Some(to) => Some(self.named_room(workspace, author, to, new)?),
            None => None,
        };
        let room = match (named, &parent) {
            (Some(room), Some(parent)) if room.no != parent.room => {
                let elsewhere = self.room(parent.room)?;
                self.check_speaker(author, &elsewhere, new.reply_to)?;
                return Err(Error::Invalid {
                    path: "replyTo",
                    expected: format!("a message of {}", room.label()),
                    found: "a message of another place".to_owned(),
                });
            }
            (Some(room), _) => room,
            (None, Some(parent)) => self.room(parent.room)?,
            (None, None) => {
                return Err(Error::Invalid {
                    path: "to",
                    expected: "a target, or a message to reply to".to_owned(),
                    found: "neither".to_owned(),
                });
            }
        };
        self.check_speaker(author, &room, new.reply_to)?;
        Ok(Target { room, parent })
    }

    fn named_room(
        &mut self,
        workspace: &WorkspaceRow,
        author: &Speaker,
        to: &SendTarget,
        new: &NewMessage,
    ) -> Result<Arc<RoomRow>> {
        match to {
            SendTarget::Channel(name) => self.channel_called(workspace.no, name),
            SendTarget::Agent(name) => {
                let agent = self.agent_called(workspace.no, name)?;
                self.conversation(workspace, author, to, &[agent], new)
            }
            SendTarget::Agents(names) => {
                let agents: Vec<_> = names
                    .iter()
                    .map(|name| self.agent_called(workspace.no, name))
                    .collect::<Result<_>>()?;
                self.conversation(workspace, author, to, &agents, new)
            }
            SendTarget::Target(target) => self.target_room(workspace, author, to, target, new),
        }
    }

    fn target_room(
        &mut self,
        workspace: &WorkspaceRow,
        author: &Speaker,
        to: &SendTarget,
        target: &RelayMessageTarget,
        new: &NewMessage,
    ) -> Result<Arc<RoomRow>> {
        match target {
            RelayMessageTarget::Agent(AgentTarget {
                agent_name,
                agent_id,
            }) => {
                let agent = self.agent_called(workspace.no, agent_name)?;
                agrees("to.agentId", agent_id.map(|id| id.uuid()), agent.id.uuid())?;
                self.conversation(workspace, author, to, &[agent], new)
            }
            RelayMessageTarget::Channel(ChannelTarget {
                channel_name,
                channel_id,
            }) => {
                let room = self.channel_called(workspace.no, channel_name)?;
                agrees("to.channelId", channel_id.map(|id| id.uuid()), room.id)?;
                Ok(room)
            }
            RelayMessageTarget::Dm(ConversationTarget { conversation_id })
            | RelayMessageTarget::GroupDm(ConversationTarget { conversation_id }) => {
                self.conversation_with_id(workspace, *conversation_id)
            }
        }
    }

    fn conversation_with_id(
        &mut self,
        workspace: &WorkspaceRow,
        id: ConversationId,
    ) -> Result<Arc<RoomRow>> {
        let no = self
            .query("SELECT no FROM rooms WHERE id = ?1 AND workspace = ?2 AND kind IN (1, 2)")?
            .query_row(params![id.uuid().as_bytes(), workspace.no], |row| {
                row.get(0).map(RoomNo)
            })
            .optional()?;
        self.room(no.ok_or(Error::UnknownConversation(id))?)
    }

    /// The conversation of the author with these agents.
    fn conversation(
        &mut self,
        workspace: &WorkspaceRow,
        author: &Speaker,
        to: &SendTarget,
        others: &[Arc<AgentRow>],
        new: &NewMessage,
    ) -> Result<Arc<RoomRow>> {
        let mut members: Vec<AgentNo> = others
            .iter()
            .map(|agent| agent.no)
            .filter(|no| Some(*no) != author.no())
            .collect();
        if members.is_empty() {
            return Err(Error::Invalid {
                path: "to",
                expected: "at least one other agent".to_owned(),
                found: target_text(to),
            });
        }
        members.extend(author.no());
        members.sort_unstable();
        members.dedup();
        let kind = match (author, members.len()) {
            (Speaker::System(_), 1) => RoomKind::Notice,
            (Speaker::Agent(_), 2) => RoomKind::Dm,
            _ => RoomKind::Group,
        };
        let key = (kind as u8, members);
        if let Some(room) = self.find_conversation(workspace.no, &key)? {
            return Ok(room);
        }
        let (id, name) = match kind {
            // A notice's room is known by its agent.
            RoomKind::Notice => (others[0].id.uuid(), others[0].name.as_str()),
            _ => (ConversationId::new(new.at, self.random.bits()).uuid(), ""),
        };
        let room = NewRoom {
            kind,
            id,
            name,
            topic: None,
            members: &key.1,
        };
        let no = self.create_room(workspace.no, new.at, &room)?;
        self.room(no)
    }

    fn parent(&mut self, workspace: &WorkspaceRow, id: MessageId) -> Result<Parent> {
        let unknown = || Error::UnknownMessage(id);
        let (position, at) = place_of(workspace.id, workspace.no, id).ok_or_else(unknown)?;
        self.query(
            "SELECT room, thread, depth, author, extra FROM messages
             WHERE position = ?1 AND at = ?2",
        )?
        .query_row([position.key(), at.as_millis()], |row| {
            let thread = row
                .get::<_, Option<i64>>(1)?
                .map_or(position, Position::from_key);
            Ok(Parent {
                position,
                at,
                thread,
                depth: row.get(2)?,
                room: RoomNo(row.get(0)?),
                author: row.get::<_, Option<i64>>(3)?.map(AgentNo),
                extra: row.get(4)?,
            })
        })
        .optional()?
        .ok_or_else(unknown)
    }

    /// Channels take messages of members, conversations of those who are in them.
    fn check_speaker(
        &mut self,
        author: &Speaker,
        room: &RoomRow,
        reply_to: Option<MessageId>,
    ) -> Result<()> {
        if room.archived_at.is_some() {
            return Err(Error::ChannelArchived {
                name: room.name.clone(),
            });
        }
        let Speaker::Agent(agent) = author else {
            return Ok(());
        };
        if self.members_of(room.no)?.binary_search(&agent.no).is_ok() {
            return Ok(());
        }
        // Of a conversation that is not one's own nothing is told, not even that it exists.
        Err(match (room.kind, reply_to) {
            (RoomKind::Channel, _) => Error::NotAMember {
                agent: agent.name.clone(),
                place: room.label(),
            },
            (_, Some(id)) => Error::UnknownMessage(id),
            _ => Error::UnknownConversation(ConversationId::from_uuid(room.id)),
        })
    }
}

/// Checks an id that was given beside a name.
fn agrees(path: &'static str, given: Option<Uuid>, found: Uuid) -> Result<()> {
    match given {
        Some(given) if given != found => Err(Error::Invalid {
            path,
            expected: format!("{found}, which has that name"),
            found: given.to_string(),
        }),
        _ => Ok(()),
    }
}
