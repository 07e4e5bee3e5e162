//! Ways for messages to come in from outside, each into one channel.

use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::event::{RelayEvent, TokenEvent, TokenKind};
use relay_protocol::ids::{TokenId, WebhookId};
use relay_protocol::limits::INBOUND_WEBHOOKS;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::channels::{page_of, row_of};
use super::directory::uuid_of;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::messages::SYSTEM_NAME;
use crate::store::requests::PageRequest;
use crate::store::webhook_requests::{InboundRow, NewInbound};

const SELECT: &str = "SELECT w.no, w.id, r.name, w.name, w.created_at
    FROM inbound_webhooks w JOIN rooms r ON r.no = w.room";

fn read(row: &Row<'_>) -> rusqlite::Result<InboundRow> {
    Ok(InboundRow {
        no: row.get(0)?,
        id: WebhookId::from_uuid(uuid_of(row.get(1)?)),
        channel: row.get(2)?,
        name: row.get(3)?,
        created_at: Timestamp::from_millis(row.get(4)?),
    })
}

/// The one whose credential has this id.
pub(super) fn by_id(connection: &Connection, id: Uuid) -> Result<Option<Arc<InboundRow>>> {
    let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE w.id = ?1"))?;
    let found = statement.query_row([id.as_bytes()], read).optional()?;
    Ok(found.map(Arc::new))
}

/// All of a workspace's, the oldest first.
pub(super) fn list(
    connection: &Connection,
    workspace_no: u32,
    page: &PageRequest,
) -> Result<Page<InboundRow>> {
    let after = row_of(page)?.unwrap_or(0);
    let sql = format!("{SELECT} WHERE w.workspace = ?1 AND w.no > ?2 ORDER BY w.no LIMIT ?3");
    let found = connection
        .prepare_cached(&sql)?
        .query_map(params![workspace_no, after, page.limit + 1], read)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(found, page.limit, |row: &InboundRow| {
        row.no.to_string()
    }))
}

pub(super) fn create(tx: &mut Tx<'_>, new: &NewInbound) -> Result<InboundRow> {
    let workspace = tx.workspace(new.workspace_no)?;
    let room = tx.channel_called(workspace.no, &new.channel)?;
    let known: usize = tx
        .query("SELECT count(*) FROM inbound_webhooks WHERE workspace = ?1")?
        .query_row([workspace.no], |row| row.get(0))?;
    if known >= INBOUND_WEBHOOKS {
        return Err(Error::LimitExceeded {
            what: "inbound webhooks",
            most: INBOUND_WEBHOOKS,
            found: known + 1,
        });
    }
    let (id, at) = (new.token.id, new.token.at);
    let no = tx.insert(
        "INSERT INTO inbound_webhooks (workspace, id, room, name, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![
            workspace.no,
            id.uuid().as_bytes(),
            room.no.0,
            new.name,
            at.as_millis()
        ],
    )?;
    tx.insert_token(TokenKind::Webhook, Some(workspace.no), None, new.token)?;
    tx.log(&workspace, at, RelayEvent::TokenCreated(token_event(id)))?;
    Ok(InboundRow {
        no,
        id: WebhookId::from_uuid(id.uuid()),
        channel: room.name.clone(),
        name: new.name.clone(),
        created_at: at,
    })
}

pub(super) fn delete(
    tx: &mut Tx<'_>,
    workspace_no: u32,
    id: WebhookId,
    at: Timestamp,
) -> Result<()> {
    let workspace = tx.workspace(workspace_no)?;
    let deleted = tx.execute(
        "DELETE FROM inbound_webhooks WHERE workspace = ?1 AND id = ?2",
        params![workspace.no, id.uuid().as_bytes()],
    )?;
    if deleted == 0 {
        return Err(Error::UnknownWebhook(id));
    }
    tx.delete_tokens(
        "workspace = ?1 AND id = ?2",
        params![workspace.no, id.uuid().as_bytes()],
    )?;
    let token = TokenId::from_uuid(id.uuid());
    tx.log(&workspace, at, RelayEvent::TokenRevoked(token_event(token)))?;
    Ok(())
}

fn token_event(token_id: TokenId) -> TokenEvent {
    TokenEvent {
        token_id,
        kind: TokenKind::Webhook,
        agent_name: None,
        grace_until: None,
        by: Some(SYSTEM_NAME.to_owned()),
    }
}
