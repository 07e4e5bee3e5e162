//! Editing: a message gets a new version, the old ones stay in the log.

use std::sync::Arc;

use relay_protocol::event::MessageEvent;
use relay_protocol::message::RelayMessage;
use rusqlite::params;

use super::directory::to_json;
use super::message_read::{FullMessage, load, message_at};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::news::News;
use crate::store::position::Position;
use crate::store::records::RoomRow;
use crate::store::requests::MessageEdit;
use crate::store::sent::Extra;

/// Replaces a message's text. What was said before stays, as the version it was.
pub(super) fn edit(tx: &mut Tx<'_>, edit: &MessageEdit) -> Result<Arc<RelayMessage>> {
    let workspace = tx.workspace(edit.viewer.workspace_no)?;
    let full = load(tx.connection, &workspace, edit.viewer, edit.message)?;
    check_author(edit, &full)?;
    check_open(&full.room)?;
    let members = tx.members_of(full.room.no)?;
    let mut mentions = Vec::new();
    for name in &edit.mentions {
        if let Some(agent) = tx.find_agent(workspace.no, name)?
            && members.binary_search(&agent.no).is_ok()
        {
            mentions.push(agent.name.clone());
        }
    }
    let extra = Extra {
        attachments: full.message.attachments.clone(),
        mentions,
        metadata: full.message.metadata.clone(),
        idempotency_key: full.idempotency_key.clone(),
    };
    let stored_extra = (extra != Extra::default())
        .then(|| to_json(&extra))
        .transpose()?;
    keep_version(tx, full.position)?;
    let position = tx.next_position(workspace.no)?;
    tx.execute(
        "UPDATE messages SET text = ?2, extra = ?3, version = version + 1, version_at = ?4,
                             version_position = ?5
         WHERE position = ?1",
        params![
            full.position.key(),
            edit.text,
            stored_extra,
            edit.at.as_millis(),
            position.key()
        ],
    )?;
    let message = message_at(tx.connection, workspace.id, full.position)?;
    let event = MessageEvent::of(message.clone());
    let stored = (edit.text.as_str(), stored_extra.as_deref());
    tx.log_version(&workspace, edit.at, full.position, &event, stored)?;
    tx.tell(News::Edited(full.position));
    Ok(message)
}

fn check_author(edit: &MessageEdit, full: &FullMessage) -> Result<()> {
    if edit.viewer.agent == full.author {
        Ok(())
    } else {
        Err(Error::Forbidden {
            needs: "the token of the message's author",
        })
    }
}

fn check_open(room: &RoomRow) -> Result<()> {
    match room.archived_at {
        None => Ok(()),
        Some(_) => Err(Error::ChannelArchived {
            name: room.name.clone(),
        }),
    }
}

fn keep_version(tx: &mut Tx<'_>, message: Position) -> Result<()> {
    tx.execute(
        "INSERT INTO message_versions (position, message, version, at, text, extra)
         SELECT coalesce(version_position, position), position, version,
                coalesce(version_at, at), text, extra
         FROM messages WHERE position = ?1",
        [message.key()],
    )?;
    Ok(())
}
