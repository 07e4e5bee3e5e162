//! Content that messages refer to.

use relay_protocol::ids::AttachmentId;
use relay_protocol::limits::{IDEMPOTENCY_KEPT_MS, PERMISSIONS_KEPT_MS, UNUSED_ATTACHMENT_MS};
use relay_protocol::message::{Attachment, AttachmentKind};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::codes::Code;
use super::messages::Speaker;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::position::Position;
use crate::store::records::{AttachmentContent, RoomRow};
use crate::store::requests::{NewAttachmentRow, NewContent, Viewer};

pub(super) fn store(tx: &mut Tx<'_>, new: &NewAttachmentRow) -> Result<AttachmentId> {
    if let Some(owner) = new.owner {
        tx.live_agent(owner)?;
    }
    let no = insert(tx, new)?;
    if new.keep {
        // In use by no message and no room, which only keeps it from being collected.
        tx.execute(
            "INSERT INTO attachment_uses (attachment, message, room) VALUES (?1, 0, 0)",
            [no],
        )?;
    }
    Ok(new.id)
}

fn insert(tx: &mut Tx<'_>, new: &NewAttachmentRow) -> Result<i64> {
    tx.insert(
        "INSERT INTO attachments (id, workspace, owner, kind, media_type, name, created_at, data)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            new.id.uuid().as_bytes(),
            new.workspace_no,
            new.owner.map(|no| no.0),
            Code(new.kind),
            new.media_type,
            new.name,
            new.at.as_millis(),
            new.data
        ],
    )
}

/// Gives a message its content; says how the message refers to it.
pub(super) fn attach(
    tx: &mut Tx<'_>,
    author: &Speaker,
    room: &RoomRow,
    message: Position,
    contents: &[NewContent],
) -> Result<Vec<Attachment>> {
    let mut attached = Vec::with_capacity(contents.len());
    for content in contents {
        let (no, reference) = match content {
            NewContent::Inline(new) => (insert(tx, new)?, new.reference()),
            NewContent::Uploaded(id) => uploaded(tx, author, message, *id)?,
        };
        tx.execute(
            "INSERT OR IGNORE INTO attachment_uses (attachment, message, room) VALUES (?1, ?2, ?3)",
            params![no, message.key(), room.no.0],
        )?;
        attached.push(reference);
    }
    Ok(attached)
}

/// An upload that the author may use: an own one, or one seen in a room.
fn uploaded(
    tx: &mut Tx<'_>,
    author: &Speaker,
    message: Position,
    id: AttachmentId,
) -> Result<(i64, Attachment)> {
    let author = author.no().map(|no| no.0);
    tx.query(&format!(
        "SELECT no, kind, media_type, name, length(data) FROM attachments a
         WHERE a.id = ?1 AND a.workspace = ?2 AND {MAY_SEE}"
    ))?
    .query_row(
        params![id.uuid().as_bytes(), message.workspace_no(), author],
        |row| {
            let reference = Attachment {
                kind: row.get::<_, Code<AttachmentKind>>(1)?.0,
                media_type: row.get(2)?,
                name: row.get(3)?,
                size: row.get(4)?,
                attachment_id: Some(id),
                data: None,
            };
            Ok((row.get(0)?, reference))
        },
    )
    .optional()?
    .ok_or(Error::UnknownAttachment(id))
}

/// True for the workspace (no agent), for what an agent uploaded itself, and for what was sent to a
/// room that it is in.
const MAY_SEE: &str = "(?3 IS NULL OR a.owner = ?3 OR EXISTS
    (SELECT 1 FROM attachment_uses u JOIN members m ON m.room = u.room AND m.agent = ?3
     WHERE u.attachment = a.no))";

pub(super) fn read(
    connection: &Connection,
    viewer: Viewer,
    id: AttachmentId,
) -> Result<AttachmentContent> {
    connection
        .prepare_cached(&format!(
            "SELECT kind, media_type, name, data FROM attachments a
             WHERE a.id = ?1 AND a.workspace = ?2 AND {MAY_SEE}"
        ))?
        .query_row(
            params![
                id.uuid().as_bytes(),
                viewer.workspace_no,
                viewer.agent.map(|no| no.0)
            ],
            |row| {
                Ok(AttachmentContent {
                    kind: row.get::<_, Code<AttachmentKind>>(0)?.0,
                    media_type: row.get(1)?,
                    name: row.get(2)?,
                    data: row.get(3)?,
                })
            },
        )
        .optional()?
        .ok_or(Error::UnknownAttachment(id))
}

/// Removes what nobody can use any more.
pub(super) fn collect_garbage(tx: &mut Tx<'_>, now: i64) -> Result<u64> {
    let uploads = tx.execute(
        "DELETE FROM attachments WHERE created_at < ?1
             AND no NOT IN (SELECT attachment FROM attachment_uses)",
        [now - UNUSED_ATTACHMENT_MS],
    )?;
    let keys = tx.execute(
        "DELETE FROM idempotency WHERE at <= ?1",
        [now - IDEMPOTENCY_KEPT_MS],
    )?;
    let tokens = tx.execute("DELETE FROM tokens WHERE valid_until <= ?1", [now])?;
    let permissions = super::permissions::forget_old(tx, now - PERMISSIONS_KEPT_MS)?;
    Ok((uploads + keys + tokens) as u64 + permissions)
}
