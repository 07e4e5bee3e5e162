//! Credentials of those who only look.

use relay_protocol::api::Page;
use relay_protocol::api::workspace::ObserverToken;
use relay_protocol::event::{RelayEvent, TokenEvent, TokenKind};
use relay_protocol::ids::TokenId;
use relay_protocol::limits::OBSERVER_TOKENS;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, Row, params};

use super::channels::{begin_of, page_of};
use super::codes::Code;
use super::directory::{from_json, to_json, uuid_of};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::messages::SYSTEM_NAME;
use crate::store::requests::{NewObserver, PageRequest, Revocation};

pub(super) fn create(tx: &mut Tx<'_>, new: &NewObserver) -> Result<ObserverToken> {
    let workspace = tx.workspace(new.workspace_no)?;
    let known: usize = tx
        .query("SELECT count(*) FROM tokens WHERE workspace = ?1 AND scope IS NOT NULL")?
        .query_row([workspace.no], |row| row.get(0))?;
    if known >= OBSERVER_TOKENS {
        return Err(Error::LimitExceeded {
            what: "observer tokens",
            most: OBSERVER_TOKENS,
            found: known + 1,
        });
    }
    tx.execute(
        "INSERT INTO tokens (hash, id, kind, workspace, created_at, name, scope)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            new.token.hash,
            new.token.id.uuid().as_bytes(),
            Code(TokenKind::Observer),
            workspace.no,
            new.token.at.as_millis(),
            new.name,
            to_json(&new.scope)?
        ],
    )?;
    let event = token_event(new.token.id);
    tx.log(&workspace, new.token.at, RelayEvent::TokenCreated(event))?;
    Ok(ObserverToken {
        token_id: new.token.id,
        name: new.name.clone(),
        scope: new.scope.clone(),
        created_at: new.token.at,
    })
}

pub(super) fn revoke(tx: &mut Tx<'_>, revocation: &Revocation) -> Result<()> {
    let workspace = tx.workspace(revocation.workspace_no)?;
    let id = revocation.token;
    let deleted = tx.delete_tokens(
        "workspace = ?1 AND id = ?2 AND scope IS NOT NULL",
        params![workspace.no, id.uuid().as_bytes()],
    )?;
    if deleted.is_empty() {
        return Err(Error::UnknownToken(id));
    }
    let event = token_event(id);
    tx.log(&workspace, revocation.at, RelayEvent::TokenRevoked(event))?;
    Ok(())
}

fn token_event(token_id: TokenId) -> TokenEvent {
    TokenEvent {
        token_id,
        kind: TokenKind::Observer,
        agent_name: None,
        grace_until: None,
        by: Some(SYSTEM_NAME.to_owned()),
    }
}

/// All of a workspace's, the oldest first.
pub(super) fn list(
    connection: &Connection,
    workspace_no: u32,
    page: &PageRequest,
) -> Result<Page<ObserverToken>> {
    let after: Option<TokenId> = begin_of(page)?;
    let after = after.unwrap_or_else(|| TokenId::from_uuid(uuid_of([0; 16])));
    let tokens: Vec<ObserverToken> = connection
        .prepare_cached(
            "SELECT id, name, scope, created_at FROM tokens
             WHERE workspace = ?1 AND scope IS NOT NULL AND id > ?2 ORDER BY id LIMIT ?3",
        )?
        .query_map(
            params![workspace_no, after.uuid().as_bytes(), page.limit + 1],
            read,
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(tokens, page.limit, |token: &ObserverToken| {
        token.token_id.to_string()
    }))
}

fn read(row: &Row<'_>) -> rusqlite::Result<ObserverToken> {
    Ok(ObserverToken {
        token_id: TokenId::from_uuid(uuid_of(row.get(0)?)),
        name: row.get(1)?,
        scope: from_json(&row.get::<_, String>(2)?)?,
        created_at: Timestamp::from_millis(row.get(3)?),
    })
}
