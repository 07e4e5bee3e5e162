//! Standing decisions: made with an answer, looked at with every call, and taken back.

use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::event::{GrantEvent, RelayEvent};
use relay_protocol::ids::{AgentId, GrantId, PermissionId, SessionId};
use relay_protocol::limits::GRANTS;
use relay_protocol::permission::PermissionDecider;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, Row, params};

use super::agents;
use super::channels::page_of;
use super::codes::Code;
use super::directory::{from_json, to_json, uuid_of};
use super::message_read::cursor;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::permission_requests::{GrantList, GrantNo, GrantRow, Whose};
use crate::store::records::{AgentNo, SessionNo};
use crate::store::requests::Viewer;

const COLUMNS: &str = "g.no, g.workspace, g.id, g.rule, g.effect, g.scope, g.agent, a.id, a.name, g.session, s.id, g.turn,
    g.permission, g.decider, g.created_at, g.expires_at, g.last_used_at, g.revoked_at, g.revoked_by";

const TABLES: &str =
    "grants g JOIN agents a ON a.no = g.agent LEFT JOIN sessions s ON s.no = g.session";

fn read(row: &Row<'_>) -> rusqlite::Result<GrantRow> {
    let uuid = |column| row.get::<_, [u8; 16]>(column).map(uuid_of);
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row
            .get::<_, Option<i64>>(column)?
            .map(Timestamp::from_millis))
    };
    let session: Option<i64> = row.get(9)?;
    let revoked_by: Option<String> = row.get(18)?;
    let revoked_by = revoked_by.map(|text| from_json(&text)).transpose()?;
    Ok(GrantRow {
        no: GrantNo(row.get(0)?),
        workspace_no: row.get(1)?,
        id: GrantId::from_uuid(uuid(2)?),
        rule: row.get(3)?,
        effect: row.get::<_, Code<_>>(4)?.0,
        scope: row.get::<_, Code<_>>(5)?.0,
        agent: AgentNo(row.get(6)?),
        agent_id: AgentId::from_uuid(uuid(7)?),
        agent_name: row.get(8)?,
        session: session
            .map(|no| Ok::<_, rusqlite::Error>((SessionNo(no), SessionId::from_uuid(uuid(10)?))))
            .transpose()?,
        turn_id: row.get(11)?,
        permission: PermissionId::from_uuid(uuid(12)?),
        by: from_json(&row.get::<_, String>(13)?)?,
        created_at: Timestamp::from_millis(row.get(14)?),
        expires_at: time(15)?,
        last_used_at: time(16)?,
        revoked: time(17)?.map(|at| (at, revoked_by)),
    })
}

fn rows(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<Arc<GrantRow>>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(values, |row| read(row).map(Arc::new))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The grants that reach a call, oldest first. The codes are those of the scopes: turn, session, agent, workspace.
pub(super) fn reaching(connection: &Connection, whose: &Whose) -> Result<Vec<Arc<GrantRow>>> {
    rows(
        connection,
        "g.no IN (
             SELECT no FROM grants WHERE workspace = ?1 AND scope = 3 AND revoked_at IS NULL
             UNION ALL SELECT no FROM grants
                 WHERE workspace = ?1 AND scope = 2 AND agent = ?2 AND revoked_at IS NULL
             UNION ALL SELECT no FROM grants
                 WHERE workspace = ?1 AND scope = 1 AND agent = ?2 AND revoked_at IS NULL AND session = ?3
             UNION ALL SELECT no FROM grants
                 WHERE workspace = ?1 AND scope = 0 AND agent = ?2 AND revoked_at IS NULL AND session IS ?3
                     AND turn = ?4)
         AND (g.expires_at IS NULL OR g.expires_at > ?5)
         ORDER BY g.no",
        params![
            whose.workspace_no,
            whose.agent.map(|no| no.0),
            whose.session.map(|no| no.0),
            whose.turn,
            whose.at.as_millis()
        ],
    )
}

/// Grants, newest first: all of them, or those that reach the agent that looks.
pub(super) fn list(connection: &Connection, list: &GrantList) -> Result<Page<Arc<GrantRow>>> {
    let workspace_no = list.viewer.workspace_no;
    let named = list.query.agent.as_deref();
    let named = named.map(|name| agents::find(connection, workspace_no, name));
    let named = named.transpose()?.map(|agent| agent.no.0);
    let own = list.viewer.agent.filter(|_| !list.sees_all).map(|no| no.0);
    let before = cursor(&list.page)?.unwrap_or(i64::MAX as u64);
    let found = rows(
        connection,
        "g.workspace = ?1 AND g.no < ?2 AND (?3 IS NULL OR g.agent = ?3 OR g.scope = 3)
         AND (?4 IS NULL OR g.agent = ?4)
         AND (?5 OR g.revoked_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > ?6))
         ORDER BY g.no DESC LIMIT ?7",
        params![
            workspace_no,
            before,
            own,
            named,
            list.query.ended,
            list.now.as_millis(),
            list.page.limit + 1
        ],
    )?;
    Ok(page_of(found, list.page.limit, |row| row.no.0.to_string()))
}

/// Takes a grant back. One that was taken back stays so.
pub(super) fn revoke(
    tx: &mut Tx<'_>,
    viewer: Viewer,
    id: GrantId,
    at: Timestamp,
) -> Result<Arc<GrantRow>> {
    let by = tx.decider(viewer)?;
    let found = rows(
        tx.connection,
        "g.id = ?1 AND g.workspace = ?2",
        params![id.uuid().as_bytes(), viewer.workspace_no],
    )?;
    let row = found.into_iter().next().ok_or(Error::UnknownGrant(id))?;
    let Some(by) = by else {
        // To those who may not decide, what is not theirs does not exist.
        return match viewer.agent == Some(row.agent) {
            true => Err(Error::Forbidden {
                needs: "the workspace key or the token of a person",
            }),
            false => Err(Error::UnknownGrant(id)),
        };
    };
    if row.revoked.is_some() {
        return Ok(row);
    }
    let mut row = (*row).clone();
    row.revoked = Some((at, Some(by)));
    tx.end_grant(&row, at)?;
    Ok(Arc::new(row))
}

impl Tx<'_> {
    /// Writes a grant down; its number is made here.
    pub(super) fn insert_grant(&mut self, row: GrantRow) -> Result<GrantRow> {
        let known: usize = self
            .query("SELECT count(*) FROM grants WHERE workspace = ?1 AND revoked_at IS NULL")?
            .query_row([row.workspace_no], |row| row.get(0))?;
        if known >= GRANTS {
            return Err(Error::LimitExceeded {
                what: "grants",
                most: GRANTS,
                found: known + 1,
            });
        }
        let no = self.insert(
            "INSERT INTO grants (workspace, id, rule, effect, scope, agent, session, turn, permission, decider,
                                 created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                row.workspace_no,
                row.id.uuid().as_bytes(),
                row.rule,
                Code(row.effect),
                Code(row.scope),
                row.agent.0,
                row.session.map(|(no, _)| no.0),
                row.turn_id,
                row.permission.uuid().as_bytes(),
                to_json(&row.by)?,
                row.created_at.as_millis(),
                row.expires_at.map(Timestamp::as_millis)
            ],
        )?;
        let row = GrantRow {
            no: GrantNo(no),
            ..row
        };
        let at = row.created_at;
        self.log_grant(&row, at, RelayEvent::GrantCreated)?;
        Ok(row)
    }

    fn end_grant(&mut self, row: &GrantRow, at: Timestamp) -> Result<()> {
        let by = row.revoked.as_ref().and_then(|(_, by)| by.as_ref());
        self.execute(
            "UPDATE grants SET revoked_at = ?2, revoked_by = ?3 WHERE no = ?1",
            params![row.no.0, at.as_millis(), by.map(to_json).transpose()?],
        )?;
        self.log_grant(row, at, RelayEvent::GrantRevoked)
    }

    fn log_grant(
        &mut self,
        row: &GrantRow,
        at: Timestamp,
        event: fn(GrantEvent) -> RelayEvent,
    ) -> Result<()> {
        let workspace = self.workspace(row.workspace_no)?;
        let told = GrantEvent {
            grant: Box::new(row.to_grant()),
            agent_id: Some(row.agent_id),
        };
        self.log(&workspace, at, event(told))?;
        Ok(())
    }

    /// Takes back what was granted for a session that has ended.
    pub(super) fn end_grants_of(&mut self, session: SessionNo, at: Timestamp) -> Result<()> {
        let found = rows(
            self.connection,
            "g.session = ?1 AND g.revoked_at IS NULL AND g.scope < 2 ORDER BY g.no",
            [session.0],
        )?;
        for row in found {
            let mut row = (*row).clone();
            row.revoked = Some((at, None));
            self.end_grant(&row, at)?;
        }
        Ok(())
    }

    /// How the record names somebody who may decide; none: they may not.
    pub(super) fn decider(&mut self, viewer: Viewer) -> Result<Option<PermissionDecider>> {
        use relay_protocol::permission::DeciderKind;
        let Some(no) = viewer.agent else {
            return Ok(Some(PermissionDecider {
                kind: DeciderKind::Workspace,
                name: None,
            }));
        };
        let agent = self.live_agent(no)?;
        Ok(agent.is_human().then(|| PermissionDecider {
            kind: DeciderKind::Human,
            name: Some(agent.name.clone()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use relay_protocol::permission::GrantScope;

    /// The queries above name the scopes by their codes.
    #[test]
    fn the_codes_of_scopes_are_what_the_queries_say() {
        use GrantScope::{Agent, Session, Turn, Workspace};
        let codes = [Turn, Session, Agent, Workspace].map(|scope| scope as i64);
        assert_eq!(codes, [0, 1, 2, 3]);
    }
}
