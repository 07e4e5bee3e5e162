//! Keys that make a repeated send harmless: the first result is given again.

use std::sync::{Arc, OnceLock};

use relay_protocol::api::messages::{DeliverySummary, Notice};
use relay_protocol::limits::IDEMPOTENCY_KEPT_MS;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::directory::{from_json, to_json};
use super::message_read::{FullMessage, version_one};
use super::messages::Speaker;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::chain::Hash;
use crate::store::position::Position;
use crate::store::records::{Extra, SendRecord, Sender, WorkspaceRow};
use crate::store::requests::{Author, NewMessage};

/// The route under which a key is kept: a reply names no target of its own.
pub(super) const fn route(new: &NewMessage) -> &'static str {
    match new.to {
        Some(_) => "send",
        None => "reply",
    }
}

/// The part of a first answer that its message does not say.
#[derive(Serialize, Deserialize)]
struct FirstAnswer {
    deliveries: Vec<DeliverySummary>,
    notices: Vec<Notice>,
}

pub(super) fn remember_key(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    author: &Speaker,
    (route, key, request): (&str, &str, &Hash),
    record: &SendRecord,
) -> Result<()> {
    let answer = FirstAnswer {
        deliveries: record.deliveries(),
        notices: record.notices.clone(),
    };
    tx.execute(
        "INSERT OR REPLACE INTO idempotency
             (workspace, principal, route, key, request, at, message, answer)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            workspace.no,
            author.no().map_or(0, |no| no.0),
            route,
            key,
            request,
            record.at.as_millis(),
            record.position.key(),
            to_json(&answer)?
        ],
    )?;
    Ok(())
}

/// The first result of the same request, if the key was used.
pub(super) fn replay(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewMessage,
) -> Result<Option<Arc<SendRecord>>> {
    let Some((key, request)) = &new.idempotency else {
        return Ok(None);
    };
    let principal = match &new.author {
        Author::Agent(no) => no.0,
        Author::System(_) => 0,
    };
    let used = tx
        .query(
            "SELECT request, message, answer FROM idempotency
             WHERE workspace = ?1 AND principal = ?2 AND route = ?3 AND key = ?4 AND at > ?5",
        )?
        .query_map(
            params![
                workspace.no,
                principal,
                route(new),
                key,
                new.at.as_millis() - IDEMPOTENCY_KEPT_MS
            ],
            |row| {
                Ok((
                    row.get::<_, Vec<u8>>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, String>(2)?,
                ))
            },
        )?
        .next()
        .transpose()?;
    let Some((first_request, message, answer)) = used else {
        return Ok(None);
    };
    if first_request != request {
        return Err(Error::IdempotencyConflict { key: key.clone() });
    }
    let answer: FirstAnswer = from_json(&answer)?;
    first_result(
        tx.connection,
        workspace,
        Position::from_key(message),
        answer,
    )
    .map(Some)
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
        ..
    } = version_one(connection, workspace.id, position)?;
    let extra = Extra {
        attachments: message.attachments.clone(),
        mentions: message.mentions.clone(),
        metadata: message.metadata.clone(),
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
        recipients: Vec::new(),
        notices: answer.notices,
        message: OnceLock::from(Arc::new(message)),
        replayed: Some(answer.deliveries),
    }))
}
