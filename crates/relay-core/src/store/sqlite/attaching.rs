//! Sessions that begin, go on, or are made from another one.

use std::sync::Arc;

use relay_protocol::ids::{AgentId, DeliveryId};
use relay_protocol::link::LinkKind;
use relay_protocol::names::fold;
use relay_protocol::status::{AgentStatus, StatusSource};

use super::agents::{Newcomer, enlist};
use super::session_turns::{become_status, check_change};
use super::sessions::Life;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::records::{AgentNo, AgentRow, SessionNo, SessionRow, WorkspaceRow};
use crate::store::session_requests::{AttachedSession, NewFork, NewSession};

/// Makes a session, or lets one go on.
pub(super) fn attach(tx: &mut Tx<'_>, new: &NewSession) -> Result<AttachedSession> {
    let workspace = tx.workspace(new.viewer.workspace_no)?;
    let session = if new.resume {
        resume(tx, &workspace, new)?
    } else {
        begin(tx, &workspace, new)?
    };
    Ok(AttachedSession {
        head: tx.last_position(workspace.no)?,
        session,
    })
}

/// What a session accepted and still answers for.
pub(super) fn held_by(tx: &mut Tx<'_>, session: SessionNo) -> Result<Vec<DeliveryId>> {
    let session = tx.session(session)?;
    let workspace = tx.workspace(session.workspace_no)?.id;
    let held = tx.held_by(&session)?;
    Ok(held.iter().map(|stored| stored.row.id(workspace)).collect())
}

fn begin(tx: &mut Tx<'_>, workspace: &WorkspaceRow, new: &NewSession) -> Result<Arc<SessionRow>> {
    let agent = own_or_named(tx, new)?;
    let status = new.status.unwrap_or(AgentStatus::Idle);
    check_change(
        AgentStatus::Starting,
        status,
        StatusSource::Session,
        &new.capabilities,
    )?;
    let row = SessionRow {
        // Its number is made when it is stored.
        no: SessionNo(0),
        workspace_no: workspace.no,
        id: new.id,
        agent: agent.no,
        harness: new.harness.clone(),
        link: new.link,
        webhook: new.webhook.clone(),
        capabilities: new.capabilities.clone(),
        safe_states: new.safe_states.clone(),
        status,
        status_before: None,
        reason: None,
        parent: None,
        addressed_only: false,
        keeps_messages: new.keeps_messages,
        acked: 0,
        created_at: new.at,
        seen_at: new.at,
        ended_at: status.is_terminal().then_some(new.at),
        status_at: new.at,
    };
    let row = tx.insert_session(row, &new.token)?;
    tx.log_life(workspace, &row, Life::Started, new.at)?;
    tx.log_status(workspace, &row, None, new.at)?;
    Ok(row)
}

/// The agent that attaches a session of its own, or any one by name for the workspace.
fn own_or_named(tx: &mut Tx<'_>, new: &NewSession) -> Result<Arc<AgentRow>> {
    let Some(own) = new.viewer.agent else {
        return tx.agent_called(new.viewer.workspace_no, &new.agent);
    };
    let agent = tx.live_agent(own)?;
    if fold(&agent.name) == fold(&new.agent) {
        Ok(agent)
    } else {
        Err(Error::Forbidden {
            needs: "the workspace key, or that agent's own token",
        })
    }
}

fn resume(tx: &mut Tx<'_>, workspace: &WorkspaceRow, new: &NewSession) -> Result<Arc<SessionRow>> {
    let known = tx.session_with_token(&new.token)?;
    let known = known.filter(|row| row.workspace_no == workspace.no && row.ended_at.is_none());
    let known = known.ok_or(Error::CannotResume)?;
    check_resumer(tx, &known, new)?;
    let previous = known.status;
    let mut row = SessionRow {
        harness: new.harness.clone(),
        link: new.link,
        webhook: new.webhook.clone(),
        capabilities: new.capabilities.clone(),
        safe_states: new.safe_states.clone(),
        seen_at: new.at,
        ..(*known).clone()
    };
    let status = match new.status {
        Some(status) => {
            check_change(previous, status, StatusSource::Session, &row.capabilities)?;
            status
        }
        None => status_again(&row),
    };
    become_status(&mut row, status, None, new.at);
    tx.update_declaration(&row)?;
    let row = tx.update_session(row)?;
    tx.log_life(workspace, &row, Life::Resumed, new.at)?;
    if row.status != previous {
        tx.log_status(workspace, &row, Some(previous), new.at)?;
    }
    Ok(row)
}

/// What a session does again that does not say it: what it did before, if that is still possible.
fn status_again(row: &SessionRow) -> AgentStatus {
    let before = match row.status {
        AgentStatus::Offline => row.status_before.unwrap_or(AgentStatus::Idle),
        // What has attached has begun.
        AgentStatus::Starting => AgentStatus::Idle,
        status => status,
    };
    match check_change(row.status, before, StatusSource::Server, &row.capabilities) {
        Ok(()) => before,
        Err(_) => AgentStatus::Idle,
    }
}

/// The token says which session it is; it must be of the agent that is named, and brought by that
/// agent, by the one whose session it was forked from, or by the workspace.
fn check_resumer(tx: &mut Tx<'_>, row: &SessionRow, new: &NewSession) -> Result<()> {
    let agent = tx.live_agent(row.agent)?;
    if fold(&agent.name) != fold(&new.agent) {
        return Err(Error::CannotResume);
    }
    let Some(viewer) = new.viewer.agent.filter(|viewer| *viewer != row.agent) else {
        return Ok(());
    };
    if parents_agent(tx, row)? == Some(viewer) {
        Ok(())
    } else {
        Err(Error::CannotResume)
    }
}

fn parents_agent(tx: &mut Tx<'_>, row: &SessionRow) -> Result<Option<AgentNo>> {
    let Some(parent) = row.parent else {
        return Ok(None);
    };
    let parent = tx.find_session(row.workspace_no, parent)?;
    Ok(parent.map(|parent| parent.agent))
}

/// Makes a session from another one.
pub(super) fn fork(tx: &mut Tx<'_>, new: &NewFork) -> Result<Arc<SessionRow>> {
    let parent = tx.session(new.parent)?;
    if parent.ended_at.is_some() {
        return Err(Error::SessionEnded {
            id: parent.id,
            status: parent.status,
        });
    }
    let workspace = tx.workspace(parent.workspace_no)?;
    let agent = match &new.as_agent {
        Some(name) => forks_agent(tx, &workspace, &parent, name, new)?.no,
        None => parent.agent,
    };
    let row = SessionRow {
        id: new.id,
        agent,
        // It says for itself how it is reached when it attaches.
        link: LinkKind::None,
        webhook: None,
        status: AgentStatus::Starting,
        status_before: None,
        reason: None,
        parent: Some(parent.id),
        addressed_only: new.as_agent.is_none(),
        acked: 0,
        created_at: new.at,
        seen_at: new.at,
        ended_at: None,
        status_at: new.at,
        ..(*parent).clone()
    };
    let row = tx.insert_session(row, &new.token)?;
    tx.log_life(&workspace, &row, Life::Forked, new.at)?;
    tx.log_status(&workspace, &row, None, new.at)?;
    Ok(row)
}

/// The agent that a fork acts as, made if there is none of that name.
fn forks_agent(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    parent: &SessionRow,
    name: &str,
    new: &NewFork,
) -> Result<Arc<AgentRow>> {
    if let Some(agent) = tx.find_agent(workspace.no, name)? {
        return Ok(agent);
    }
    let by = tx.agent_by_no(parent.agent)?;
    let newcomer = Newcomer {
        id: AgentId::new(new.at, tx.random.bits()),
        name,
        agent_type: by.agent_type,
        metadata: None,
        token: None,
        in_channels: true,
        by: &by.name,
        at: new.at,
    };
    enlist(tx, workspace, &newcomer)
}
