//! Writing the log: one row per entry, each linked to the one before.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::event::{MessageEvent, RelayEvent};
use relay_protocol::ids::{EventId, WorkspaceId};
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::directory::to_json;
use super::messages::{delivery_digest, message_digest};
use super::writer::Tx;
use crate::environment::Random;
use crate::error::{Result, StorageError};
use crate::store::chain::{GENESIS, Hash, Header, PayloadDigest, Salt, link};
use crate::store::live::{Entry, heap_bytes, message_bytes};
use crate::store::position::{Position, SEQ_MAX, id_at};
use crate::store::records::{AgentNo, WorkspaceRow};
use crate::store::sent::SendRecord;

/// Where a row's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// In the row.
    Inline = 0,
    /// In the message and its deliveries.
    Send = 1,
    /// In one version of a message.
    Version = 2,
}

impl Content {
    pub(super) fn from_code(code: i64) -> Result<Self> {
        match code {
            0 => Ok(Self::Inline),
            1 => Ok(Self::Send),
            2 => Ok(Self::Version),
            _ => Err(StorageError::Corrupt(format!("log content {code}")).into()),
        }
    }
}

/// The end of one workspace's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

/// The ends of all chains, in memory, with what is needed to take back one change.
#[derive(Default)]
pub(super) struct Heads {
    known: HashMap<u32, Head>,
    before: Vec<(u32, Head)>,
    salts: Salts,
}

/// Salts, made many at a time: asking the system for each costs as much as hashing with it.
#[derive(Default)]
struct Salts(Vec<Salt>);

impl Salts {
    fn next(&mut self, random: &dyn Random) -> Salt {
        if let Some(salt) = self.0.pop() {
            return salt;
        }
        let mut bytes = [[0; 16]; 64];
        random.fill(bytes.as_flattened_mut());
        self.0.extend(bytes);
        self.0.pop().unwrap_or_default()
    }
}

impl Heads {
    pub(super) fn begin_change(&mut self) {
        self.before.clear();
    }

    pub(super) fn undo_change(&mut self) {
        while let Some((workspace_no, head)) = self.before.pop() {
            self.known.insert(workspace_no, head);
        }
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.before.clear();
    }

    fn get(&mut self, connection: &Connection, workspace_no: u32) -> Result<Head> {
        if let Some(head) = self.known.get(&workspace_no) {
            return Ok(*head);
        }
        let head = read_head(connection, workspace_no)?;
        self.known.insert(workspace_no, head);
        Ok(head)
    }

    fn advance(&mut self, workspace_no: u32, to: Head) {
        if let Some(before) = self.known.insert(workspace_no, to) {
            self.before.push((workspace_no, before));
        }
    }
}

/// Reads the end of a workspace's chain.
pub(super) fn read_head(connection: &Connection, workspace_no: u32) -> Result<Head> {
    let last = connection
        .prepare_cached(
            "SELECT position, count, hash FROM log WHERE position BETWEEN ?1 AND ?2
             ORDER BY position DESC LIMIT 1",
        )?
        .query_row(bounds(workspace_no), read_end)
        .optional()?;
    match last {
        Some(head) => Ok(head),
        None => read_cut(connection, workspace_no),
    }
}

/// Reads position, count and hash of a row as the end of the chain up to there.
pub(super) fn read_end(row: &Row<'_>) -> rusqlite::Result<Head> {
    let position = Position::from_key(row.get(0)?);
    Ok(Head {
        seq: (position.seq() + read_count(row, 1)?).saturating_sub(1),
        hash: row.get(2)?,
    })
}

/// Reads how many events a row stands for. More than a log can hold comes from damage, which the hash
/// shows; it must not overflow a sum before.
pub(super) fn read_count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, u64>(column)?.min(SEQ_MAX))
}

/// Reads where a workspace's log begins: the end of what was cut off.
pub(super) fn read_cut(connection: &Connection, workspace_no: u32) -> Result<Head> {
    let cut = connection
        .prepare_cached("SELECT position, hash FROM log_cuts WHERE workspace = ?1")?
        .query_row([workspace_no], |row| {
            Ok(Head {
                seq: Position::from_key(row.get(0)?).seq(),
                hash: row.get(1)?,
            })
        })
        .optional()?;
    Ok(cut.unwrap_or(Head {
        seq: 0,
        hash: GENESIS,
    }))
}

/// The first and the last key that rows of a workspace can have.
pub(super) fn bounds(workspace_no: u32) -> (i64, i64) {
    (
        Position::new(workspace_no, 0).key(),
        Position::new(workspace_no, SEQ_MAX).key(),
    )
}

/// What a new row says beside its payload.
struct NewRow<'a> {
    count: u64,
    event_type: &'a str,
    at: Timestamp,
    content: Content,
    message: Option<Position>,
    payload: Option<&'a str>,
    salt: Salt,
    digest: Hash,
}

impl Tx<'_> {
    /// The place that the next entry of a workspace will have.
    pub(super) fn next_position(&mut self, workspace_no: u32) -> Result<Position> {
        let head = self.heads.get(self.connection, workspace_no)?;
        Ok(Position::new(workspace_no, head.seq + 1))
    }

    /// The place of a workspace's last event.
    pub(super) fn last_position(&mut self, workspace_no: u32) -> Result<Position> {
        let head = self.heads.get(self.connection, workspace_no)?;
        Ok(Position::new(workspace_no, head.seq))
    }

    /// Logs an event whose payload the row holds.
    pub(super) fn log(
        &mut self,
        workspace: &WorkspaceRow,
        at: Timestamp,
        event: RelayEvent,
    ) -> Result<Position> {
        let payload = to_json(&event)?;
        self.log_about(workspace, at, None, &payload, event)
    }

    /// Logs an event that also refers to a message. The payload is the event without the message,
    /// which readers put in.
    pub(super) fn log_about(
        &mut self,
        workspace: &WorkspaceRow,
        at: Timestamp,
        message: Option<Position>,
        payload: &str,
        event: RelayEvent,
    ) -> Result<Position> {
        let salt = self.salt();
        let mut digest = PayloadDigest::new(&salt);
        digest
            .text(Some(payload))
            .number(message.map(Position::key));
        let position = self.append(
            workspace,
            NewRow {
                count: 1,
                event_type: event.tag(),
                at,
                content: Content::Inline,
                message,
                payload: Some(payload),
                salt,
                digest: digest.finish(),
            },
        )?;
        let text = message_bytes(&event);
        let sizes = (payload.len() + text, heap_bytes(payload) + text);
        self.announce(Entry::one(workspace.id, position, at, event, sizes));
        Ok(position)
    }

    /// Logs a send. Its rows are written already, at the places that follow.
    pub(super) fn log_send(
        &mut self,
        workspace: &WorkspaceRow,
        record: &Arc<SendRecord>,
        sent: &SentRows<'_>,
    ) -> Result<()> {
        let salt = self.salt();
        let mut digest = PayloadDigest::new(&salt);
        message_digest(&mut digest, sent.text, sent.extra);
        digest
            .number(Some(sent.room))
            .number(sent.author.map(|no| no.0))
            .text(sent.author_name);
        digest.number(record.parent.map(|(position, _)| position.key()));
        for agent in sent.recipients {
            delivery_digest(&mut digest, *agent);
        }
        let count = sent.first_delivery.key() - record.position.key();
        let count = count as u64 + sent.recipients.len() as u64;
        self.append(
            workspace,
            NewRow {
                count,
                event_type: "message.created",
                at: record.at,
                content: Content::Send,
                message: None,
                payload: None,
                salt,
                digest: digest.finish(),
            },
        )?;
        self.announce(Entry::send(record, count));
        Ok(())
    }

    /// Logs a new version of a message. The version itself is written already.
    pub(super) fn log_version(
        &mut self,
        workspace: &WorkspaceRow,
        at: Timestamp,
        message: Position,
        version: &MessageEvent,
        stored: (&str, Option<&str>),
    ) -> Result<()> {
        let salt = self.salt();
        let mut digest = PayloadDigest::new(&salt);
        message_digest(&mut digest, stored.0, stored.1);
        digest.number(Some(message.key()));
        let position = self.append(
            workspace,
            NewRow {
                count: 1,
                event_type: "message.updated",
                at,
                content: Content::Version,
                message: Some(message),
                payload: None,
                salt,
                digest: digest.finish(),
            },
        )?;
        let (text, extra) = (stored.0.len(), stored.1.unwrap_or_default());
        let sizes = (text + extra.len(), text + heap_bytes(extra));
        let event = RelayEvent::MessageUpdated(version.clone());
        self.announce(Entry::one(workspace.id, position, at, event, sizes));
        Ok(())
    }

    fn salt(&mut self) -> Salt {
        self.heads.salts.next(self.random)
    }

    fn append(&mut self, workspace: &WorkspaceRow, row: NewRow<'_>) -> Result<Position> {
        let head = self.heads.get(self.connection, workspace.no)?;
        let position = Position::new(workspace.no, head.seq + 1);
        let header = header(workspace.id, position, row.count, row.event_type, row.at);
        let hash = link(&head.hash, header, &row.digest);
        self.execute(
            "INSERT INTO log (position, count, type, at, content, message, payload, salt, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                position.key(),
                row.count,
                row.event_type,
                row.at.as_millis(),
                row.content as i64,
                row.message.map(Position::key),
                row.payload,
                row.salt,
                hash
            ],
        )?;
        self.heads.advance(
            workspace.no,
            Head {
                seq: head.seq + row.count,
                hash,
            },
        );
        Ok(position)
    }
}

/// The stored form of a send, over which its digest goes.
pub(super) struct SentRows<'a> {
    pub(super) text: &'a str,
    pub(super) extra: Option<&'a str>,
    pub(super) room: i64,
    pub(super) author: Option<AgentNo>,
    pub(super) author_name: Option<&'a str>,
    pub(super) first_delivery: Position,
    pub(super) recipients: &'a [AgentNo],
}

/// The header of the row at a place.
pub(super) fn header(
    workspace: WorkspaceId,
    position: Position,
    count: u64,
    event_type: &str,
    at: Timestamp,
) -> Header<'_> {
    let id: EventId = id_at(workspace, position, at);
    Header {
        seq: position.seq(),
        count,
        id: id.uuid().into_bytes(),
        event_type,
        at: at.as_millis(),
    }
}
