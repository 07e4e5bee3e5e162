//! Workspaces and credentials.

use std::sync::Arc;

use relay_protocol::channel::Channel;
use relay_protocol::event::{ChannelEvent, RelayEvent, TokenEvent, TokenKind, WorkspaceUpdated};
use relay_protocol::ids::{TokenId, WorkspaceId};
use relay_protocol::policy::Policy;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::channels::{GENERAL, NewRoom};
use super::codes::Code;
use super::directory::{
    AGENT_COLUMNS, WORKSPACE_COLUMNS, from_json, read_agent, read_workspace, to_json, uuid_of,
};
use super::inbound;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::messages::SYSTEM_NAME;
use crate::store::chain::Hash;
use crate::store::news::News;
use crate::store::position::WORKSPACE_NO_MAX;
use crate::store::records::{AgentNo, Credential, RoomKind, WorkspaceRow};
use crate::store::requests::{NewToken, NewWorkspace, WorkspaceChange};

pub(super) fn create(tx: &mut Tx<'_>, new: &NewWorkspace) -> Result<Arc<WorkspaceRow>> {
    let at = new.key.at;
    let no = tx.insert(
        "INSERT INTO workspaces (id, name, policy, created_at) VALUES (?1, ?2, ?3, ?4)",
        params![
            new.id.uuid().as_bytes(),
            new.name,
            to_json(&Policy::default())?,
            at.as_millis()
        ],
    )?;
    let no = u32::try_from(no).unwrap_or(u32::MAX);
    if no > WORKSPACE_NO_MAX {
        let most = WORKSPACE_NO_MAX as usize;
        return Err(Error::LimitExceeded {
            what: "workspaces",
            most,
            found: no as usize,
        });
    }
    let workspace = tx.workspace(no)?;
    tx.create_room(
        no,
        at,
        &NewRoom {
            kind: RoomKind::Channel,
            id: new.general.uuid(),
            name: GENERAL,
            topic: None,
            members: &[],
        },
    )?;
    let channel = Channel {
        id: new.general,
        name: GENERAL.to_owned(),
        topic: None,
        created_at: at,
        archived_at: None,
        member_count: Some(0),
    };
    tx.log(
        &workspace,
        at,
        RelayEvent::ChannelCreated(ChannelEvent { channel, by: None }),
    )?;
    tx.add_token(&workspace, TokenKind::Workspace, None, new.key, SYSTEM_NAME)?;
    Ok(workspace)
}

pub(super) fn update(tx: &mut Tx<'_>, change: &WorkspaceChange) -> Result<Arc<WorkspaceRow>> {
    let old = tx.workspace(change.workspace_no)?;
    let policy = match &change.policy {
        Some(patch) => old
            .policy
            .patched(patch.clone())
            .map_err(Error::BadPolicy)?,
        None => old.policy.clone(),
    };
    let name = change.name.clone().unwrap_or_else(|| old.name.clone());
    tx.execute(
        "UPDATE workspaces SET name = ?2, policy = ?3 WHERE no = ?1",
        params![old.no, name, to_json(&policy)?],
    )?;
    tx.directory.forget_workspace(old.no);
    let event = WorkspaceUpdated {
        name,
        policy_version: policy.version,
    };
    tx.log(&old, change.at, RelayEvent::WorkspaceUpdated(event))?;
    let workspace = tx.workspace(old.no)?;
    tx.tell(News::Workspace(workspace.clone()));
    Ok(workspace)
}

pub(super) fn set_admin_key(tx: &mut Tx<'_>, token: NewToken) -> Result<()> {
    tx.delete_tokens("kind = ?1", [Code(TokenKind::Admin)])?;
    tx.insert_token(TokenKind::Admin, None, None, token)
}

/// Counts a new run of the runner.
pub(super) fn begin_run(tx: &mut Tx<'_>) -> Result<u64> {
    tx.execute(
        "INSERT INTO runs (one, number) VALUES (1, 1)
         ON CONFLICT (one) DO UPDATE SET number = number + 1",
        [],
    )?;
    let run = tx
        .query("SELECT number FROM runs")?
        .query_row([], |row| row.get(0))?;
    Ok(run)
}

impl Tx<'_> {
    /// Keeps a credential and logs that it was made.
    pub(super) fn add_token(
        &mut self,
        workspace: &WorkspaceRow,
        kind: TokenKind,
        agent: Option<(AgentNo, &str)>,
        token: NewToken,
        by: &str,
    ) -> Result<()> {
        self.insert_token(kind, Some(workspace.no), agent.map(|(no, _)| no), token)?;
        let event = TokenEvent {
            token_id: token.id,
            kind,
            agent_name: agent.map(|(_, name)| name.to_owned()),
            grace_until: None,
            by: Some(by.to_owned()),
        };
        self.log(workspace, token.at, RelayEvent::TokenCreated(event))?;
        Ok(())
    }

    pub(super) fn insert_token(
        &mut self,
        kind: TokenKind,
        workspace_no: Option<u32>,
        agent: Option<AgentNo>,
        token: NewToken,
    ) -> Result<()> {
        self.execute(
            "INSERT INTO tokens (hash, id, kind, workspace, agent, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                token.hash,
                token.id.uuid().as_bytes(),
                Code(kind),
                workspace_no,
                agent.map(|no| no.0),
                token.at.as_millis()
            ],
        )?;
        Ok(())
    }
}

/// The numbers of all workspaces, oldest first.
pub(super) fn numbers(connection: &Connection) -> Result<Vec<u32>> {
    Ok(connection
        .prepare_cached("SELECT no FROM workspaces ORDER BY no")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?)
}

pub(super) fn find(connection: &Connection, id: WorkspaceId) -> Result<Option<Arc<WorkspaceRow>>> {
    let row = connection
        .prepare_cached(&format!(
            "SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE id = ?1"
        ))?
        .query_row([id.uuid().as_bytes()], read_workspace)
        .optional()?;
    Ok(row.map(Arc::new))
}

/// A workspace that must exist.
pub(super) fn by_no(connection: &Connection, no: u32) -> Result<WorkspaceRow> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE no = ?1"
        ))?
        .query_row([no], read_workspace)?)
}

/// The id of a workspace that must exist.
pub(super) fn id_of(connection: &Connection, no: u32) -> Result<WorkspaceId> {
    Ok(connection
        .prepare_cached("SELECT id FROM workspaces WHERE no = ?1")?
        .query_row([no], |row| row.get(0).map(uuid_of))
        .map(WorkspaceId::from_uuid)?)
}

pub(super) fn credential(connection: &Connection, hash: Hash) -> Result<Option<Credential>> {
    let found = connection
        .prepare_cached(
            "SELECT id, kind, workspace, agent, valid_until, scope FROM tokens WHERE hash = ?1",
        )?
        .query_row([hash], |row| {
            let id = TokenId::from_uuid(uuid_of(row.get(0)?));
            let kind: Code<TokenKind> = row.get(1)?;
            let workspace: Option<u32> = row.get(2)?;
            let agent: Option<i64> = row.get(3)?;
            let valid_until = row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis);
            let scope = row
                .get::<_, Option<String>>(5)?
                .map(|text| from_json(&text).map(Arc::new))
                .transpose()?;
            Ok((id, kind.0, workspace, agent, valid_until, scope))
        })
        .optional()?;
    let Some((id, kind, workspace, agent, valid_until, scope)) = found else {
        return Ok(None);
    };
    let workspace = workspace
        .map(|no| by_no(connection, no).map(Arc::new))
        .transpose()?;
    let agent = agent
        .map(|no| {
            connection
                .prepare_cached(&format!("SELECT {AGENT_COLUMNS} FROM agents WHERE no = ?1"))?
                .query_row([no], read_agent)
                .map(Arc::new)
        })
        .transpose()?;
    let inbound = match kind {
        TokenKind::Webhook => inbound::by_id(connection, id.uuid())?,
        _ => None,
    };
    Ok(Some(Credential {
        id,
        kind,
        inbound,
        workspace,
        agent,
        scope,
        valid_until,
    }))
}
