//! Keys that make a repeated request harmless: the first result is given again.

use std::sync::{Arc, OnceLock};

use relay_protocol::api::messages::{DeliverySummary, Notice};
use relay_protocol::delivery::Priority;
use relay_protocol::limits::IDEMPOTENCY_KEPT_MS;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};

use super::directory::{from_json, to_json};
use super::message_read::{FullMessage, version_one};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::chain::Hash;
use crate::store::position::Position;
use crate::store::records::{AgentNo, WorkspaceRow};
use crate::store::requests::{Author, NewMessage};
use crate::store::sent::{Extra, SendRecord, Sender};

/// The part of a first answer that its message does not say.
#[derive(Serialize, Deserialize)]
struct FirstAnswer {
    deliveries: Vec<DeliverySummary>,
    notices: Vec<Notice>,
}

/// A key that comes with a request.
pub(super) struct Key<'a> {
    pub(super) workspace_no: u32,
    /// Who asks; nobody when it is the workspace.
    pub(super) principal: Option<AgentNo>,
    pub(super) route: &'static str,
    pub(super) key: &'a str,
    /// The hash of the request.
    pub(super) request: &'a Hash,
    pub(super) at: Timestamp,
}

impl Tx<'_> {
    /// Keeps a key with the place of the message or call that its request made, and with its answer.
    pub(super) fn keep_key(&mut self, key: &Key<'_>, made: Position, answer: &str) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO idempotency
                 (workspace, principal, route, key, request, at, message, answer)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                key.workspace_no,
                key.principal.map_or(0, |no| no.0),
                key.route,
                key.key,
                key.request,
                key.at.as_millis(),
                made.key(),
                answer
            ],
        )?;
        Ok(())
    }

    /// What the first request with this key made, and its answer, if the key was used.
    pub(super) fn used_key(&self, key: &Key<'_>) -> Result<Option<(Position, String)>> {
        let used = self
            .query(
                "SELECT request, message, answer FROM idempotency
                 WHERE workspace = ?1 AND principal = ?2 AND route = ?3 AND key = ?4 AND at > ?5",
            )?
            .query_row(
                params![
                    key.workspace_no,
                    key.principal.map_or(0, |no| no.0),
                    key.route,
                    key.key,
                    key.at.as_millis() - IDEMPOTENCY_KEPT_MS
                ],
                |row| {
                    let message = Position::from_key(row.get(1)?);
                    Ok((row.get::<_, Vec<u8>>(0)?, (message, row.get(2)?)))
                },
            )
            .optional()?;
        match used {
            Some((first, _)) if first != key.request => Err(Error::IdempotencyConflict {
                key: key.key.to_owned(),
            }),
            used => Ok(used.map(|(_, answer)| answer)),
        }
    }
}

fn send_key<'a>(
    workspace: &WorkspaceRow,
    new: &'a NewMessage,
    (key, request): &'a (String, Hash),
) -> Key<'a> {
    Key {
        workspace_no: workspace.no,
        principal: match new.author {
            Author::Agent(no) => Some(no),
            Author::System(_) => None,
            // Numbers of agents are positive.
            Author::Webhook(no, _) => Some(AgentNo(-no)),
        },
        // A reply names no target of its own.
        route: match new.to {
            Some(_) => "send",
            None => "reply",
        },
        key,
        request,
        at: new.at,
    }
}

/// Keeps the answer of a send, if it came with a key.
pub(super) fn remember_key(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewMessage,
    record: &SendRecord,
) -> Result<()> {
    let Some(idempotency) = &new.idempotency else {
        return Ok(());
    };
    let answer = FirstAnswer {
        deliveries: record.deliveries(),
        notices: record.notices.clone(),
    };
    let key = send_key(workspace, new, idempotency);
    tx.keep_key(&key, record.position, &to_json(&answer)?)
}

/// The first result of the same send, if the key was used.
pub(super) fn replay(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewMessage,
) -> Result<Option<Arc<SendRecord>>> {
    let Some(idempotency) = &new.idempotency else {
        return Ok(None);
    };
    let Some((message, answer)) = tx.used_key(&send_key(workspace, new, idempotency))? else {
        return Ok(None);
    };
    let answer: FirstAnswer = from_json(&answer)?;
    first_result(tx.connection, workspace, message, answer).map(Some)
}

fn first_result(
    connection: &Connection,
    workspace: &WorkspaceRow,
    position: Position,
    answer: FirstAnswer,
) -> Result<Arc<SendRecord>> {
    let FullMessage {
        message,
        room,
        parent,
        idempotency_key,
        ..
    } = version_one(connection, workspace.id, position)?;
    let extra = Extra {
        attachments: message.attachments.clone(),
        mentions: message.mentions.clone(),
        metadata: message.metadata.clone(),
        idempotency_key,
    };
    Ok(Arc::new(SendRecord {
        workspace: workspace.id,
        position,
        at: message.created_at,
        author: Sender::Other(message.from.clone()),
        room: Arc::new(room),
        parent,
        text: message.text.clone(),
        extra,
        mode: None,
        allow_downgrade: false,
        priority: Priority::Normal,
        deadline: message.created_at,
        recipients: Vec::new(),
        notices: answer.notices,
        message: OnceLock::from(Arc::new(message)),
        replayed: Some(answer.deliveries),
    }))
}
