//! Calls of actions: written once when they come, and once when they end.

use std::sync::Arc;

use relay_protocol::action::InvocationState;
use relay_protocol::api::messages::SendTarget;
use relay_protocol::delivery::DeliveryReason;
use relay_protocol::event::{ActionEvent, RelayEvent};
use relay_protocol::ids::{InvocationId, WorkspaceId};
use relay_protocol::limits::{ACTION_CALLS_OPEN, ACTION_TIMEOUT_MS};
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Value, json};

use super::codes::Code;
use super::directory::{from_json, to_json};
use super::idempotency::Key;
use super::writer::Tx;
use super::{actions, messages, workspaces};
use crate::error::{Error, Result, StorageError};
use crate::messages::SYSTEM_NAME;
use crate::store::action_requests::{
    ActionNo, InvocationEnd, InvocationOutcome, InvocationRow, Invoked, NewInvocation,
};
use crate::store::news::News;
use crate::store::position::{Position, place_of};
use crate::store::records::{AgentNo, WorkspaceRow};
use crate::store::requests::{Author, NewMessage, Viewer};

const AT_MOST_ONCE: u8 = 1;
const NOTIFY_CALLER: u8 = 2;

const COLUMNS: &str = "position, at, action, name, owner, caller_no, caller, state, flags, offers,
    deadline, ended_at, input, output, error, retryable";

fn read(workspace: WorkspaceId, row: &Row<'_>) -> rusqlite::Result<InvocationRow> {
    let flags: u8 = row.get(8)?;
    let value = |column| -> rusqlite::Result<Option<Value>> {
        let text: Option<String> = row.get(column)?;
        text.map(|text| from_json(&text)).transpose()
    };
    Ok(InvocationRow {
        position: Position::from_key(row.get(0)?),
        workspace,
        at: Timestamp::from_millis(row.get(1)?),
        action: ActionNo(row.get(2)?),
        name: row.get(3)?,
        owner: row.get::<_, Option<i64>>(4)?.map(AgentNo),
        caller_no: row.get::<_, Option<i64>>(5)?.map(AgentNo),
        caller: from_json(&row.get::<_, String>(6)?)?,
        state: row.get::<_, Code<_>>(7)?.0,
        at_most_once: flags & AT_MOST_ONCE != 0,
        notify_caller: flags & NOTIFY_CALLER != 0,
        offers: row.get(9)?,
        deadline: Timestamp::from_millis(row.get(10)?),
        ended_at: row.get::<_, Option<i64>>(11)?.map(Timestamp::from_millis),
        input: value(12)?,
        output: value(13)?,
        error: row.get(14)?,
        retryable: row.get(15)?,
    })
}

/// The call at a place, if one is there.
fn at(
    connection: &Connection,
    workspace: WorkspaceId,
    position: Position,
) -> Result<Option<InvocationRow>> {
    let sql = format!("SELECT {COLUMNS} FROM invocations WHERE position = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row([position.key()], |row| read(workspace, row));
    Ok(found.optional()?)
}

/// A call, for its caller, whoever may answer it, and the workspace.
pub(super) fn find(
    connection: &Connection,
    viewer: Viewer,
    id: InvocationId,
) -> Result<InvocationRow> {
    let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
    let place = place_of(workspace.id, workspace.no, id);
    let found = match place {
        Some((position, at_time)) => at(connection, workspace.id, position)?
            .filter(|row| row.at == at_time && is_visible(row, viewer)),
        None => None,
    };
    found.ok_or(Error::UnknownInvocation(id))
}

fn is_visible(row: &InvocationRow, viewer: Viewer) -> bool {
    viewer.agent.is_none() || viewer.agent == row.caller_no || may_answer(row, viewer)
}

fn may_answer(row: &InvocationRow, viewer: Viewer) -> bool {
    viewer.agent.is_none() || viewer.agent == row.owner
}

/// Open calls of all workspaces, in the order of their places.
pub(super) fn open(
    connection: &Connection,
    after: Position,
    limit: usize,
) -> Result<Vec<Arc<InvocationRow>>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM invocations WHERE state = 0 AND position > ?1
         ORDER BY position LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![after.key(), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let position = Position::from_key(row.get(0)?);
        let workspace = workspaces::by_no(connection, position.workspace_no())?;
        found.push(Arc::new(read(workspace.id, row)?));
    }
    Ok(found)
}

/// The idempotency key of a call, if it came with one.
fn key_of(new: &NewInvocation) -> Option<Key<'_>> {
    let (key, request) = new.idempotency.as_ref()?;
    Some(Key {
        workspace_no: new.viewer.workspace_no,
        principal: new.viewer.agent,
        route: "invoke",
        key,
        request,
        at: new.at,
    })
}

/// Writes a call down: it is refused, or it waits for a handler.
pub(super) fn invoke(tx: &mut Tx<'_>, new: &NewInvocation) -> Result<Invoked> {
    let workspace = tx.workspace(new.viewer.workspace_no)?;
    let key = key_of(new);
    if let Some(key) = &key
        && let Some((_, answer)) = tx.used_key(key)?
    {
        return Ok(Invoked::Repeated(from_json(&answer)?));
    }
    let action = actions::find(tx.connection, workspace.no, &new.action.body.name)?;
    if (action.no, action.version) != (new.action.no, new.action.version) {
        return Ok(Invoked::Changed);
    }
    let caller = tx.action_caller(new.viewer)?;
    let (state, error) = if !tx.is_available(&action, new.viewer, &caller)? {
        let reason = format!("{} is not available to {}", action.body.name, caller.name);
        (InvocationState::Denied, Some(reason))
    } else if let Some(fault) = &new.fault {
        (InvocationState::Failed, Some(fault.clone()))
    } else {
        tx.check_room_for_calls(action.no)?;
        (InvocationState::Invoked, None)
    };
    let has_ended = state != InvocationState::Invoked;
    let timeout = action.body.timeout_ms.unwrap_or(ACTION_TIMEOUT_MS);
    let row = InvocationRow {
        position: tx.next_position(workspace.no)?,
        workspace: workspace.id,
        at: new.at,
        action: action.no,
        name: action.body.name,
        owner: action.owner.map(|owner| owner.no),
        caller_no: new.viewer.agent,
        caller,
        state,
        input: new.input.clone(),
        output: None,
        error,
        retryable: has_ended.then_some(false),
        offers: u32::from(new.offered && !has_ended),
        at_most_once: action.body.at_most_once.unwrap_or(false),
        notify_caller: action.body.notify_caller.unwrap_or(false),
        deadline: new
            .at
            .plus_millis(i64::try_from(timeout).unwrap_or(i64::MAX)),
        ended_at: has_ended.then_some(new.at),
    };
    tx.insert_invocation(&row)?;
    tx.log(&workspace, new.at, event(&row, new.at))?;
    let row = Arc::new(row);
    if !has_ended {
        // A refused call is not kept under its key.
        if let Some(key) = &key {
            tx.keep_key(key, row.position, &to_json(&row.id())?)?;
        }
        tx.tell(News::Invoked(row.clone()));
    }
    Ok(Invoked::Stored(row))
}

/// Notes that a call goes to a handler; says what it is called with.
pub(super) fn offer(tx: &mut Tx<'_>, call: Position, offers: u32) -> Result<Arc<InvocationRow>> {
    let workspace = tx.workspace(call.workspace_no())?;
    tx.execute(
        "UPDATE invocations SET offers = ?2 WHERE position = ?1 AND state = 0",
        params![call.key(), offers],
    )?;
    existing(tx, &workspace, call).map(Arc::new)
}

/// The call at a place where one must be.
fn existing(tx: &Tx<'_>, workspace: &WorkspaceRow, call: Position) -> Result<InvocationRow> {
    let found = at(tx.connection, workspace.id, call)?;
    found.ok_or_else(|| StorageError::Corrupt(format!("no invocation at {}", call.seq())).into())
}

/// Ends a call that is open, because what it is to be called with was erased.
pub(super) fn end_erased(tx: &mut Tx<'_>, call: Position, at: Timestamp) -> Result<()> {
    let workspace = tx.workspace(call.workspace_no())?;
    let row = super::invocations::at(tx.connection, workspace.id, call)?;
    let Some(row) = row.filter(|row| row.state == InvocationState::Invoked) else {
        return Ok(());
    };
    let error = "what it was called with was erased".to_owned();
    let end = InvocationEnd {
        viewer: None,
        call,
        told: Some(format!("The action you called failed: {error}.")),
        outcome: InvocationOutcome::Failed {
            error,
            retryable: Some(false),
        },
        at,
    };
    tx.end_call(&workspace, row, &end).map(drop)
}

/// Ends a call. The first answer counts; the same one again changes nothing.
pub(super) fn end(tx: &mut Tx<'_>, end: &InvocationEnd) -> Result<Arc<InvocationRow>> {
    let workspace = tx.workspace(end.call.workspace_no())?;
    let row = existing(tx, &workspace, end.call)?;
    if end.viewer.is_some_and(|viewer| !may_answer(&row, viewer)) {
        return Err(Error::Forbidden {
            needs: "the token of the agent that registered the action, or the workspace key",
        });
    }
    if row.state == InvocationState::Invoked {
        return tx.end_call(&workspace, row, end);
    }
    match is_same_end(&row, &end.outcome) {
        true => Ok(Arc::new(row)),
        false => Err(Error::InvocationEnded {
            id: row.id(),
            state: row.state,
        }),
    }
}

fn is_same_end(row: &InvocationRow, outcome: &InvocationOutcome) -> bool {
    match outcome {
        InvocationOutcome::Completed { output } => {
            row.state == InvocationState::Completed && row.output == *output
        }
        InvocationOutcome::Failed { error, retryable } => {
            row.state == InvocationState::Failed
                && row.error.as_ref() == Some(error)
                && row.retryable == *retryable
        }
    }
}

impl Tx<'_> {
    fn check_room_for_calls(&self, action: ActionNo) -> Result<()> {
        let open: usize = self
            .query("SELECT count(*) FROM invocations WHERE state = 0 AND action = ?1")?
            .query_row([action.0], |row| row.get(0))?;
        if open < ACTION_CALLS_OPEN {
            return Ok(());
        }
        Err(Error::LimitExceeded {
            what: "open calls of the action",
            most: ACTION_CALLS_OPEN,
            found: open + 1,
        })
    }

    fn insert_invocation(&mut self, row: &InvocationRow) -> Result<()> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(row.at_most_once, AT_MOST_ONCE) | flag(row.notify_caller, NOTIFY_CALLER);
        self.execute(
            &format!(
                "INSERT INTO invocations ({COLUMNS})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, NULL, ?14, ?15)"
            ),
            params![
                row.position.key(),
                row.at.as_millis(),
                row.action.0,
                row.name,
                row.owner.map(|no| no.0),
                row.caller_no.map(|no| no.0),
                to_json(&row.caller)?,
                Code(row.state),
                flags,
                row.offers,
                row.deadline.as_millis(),
                row.ended_at.map(Timestamp::as_millis),
                row.input.as_ref().map(to_json).transpose()?,
                row.error,
                row.retryable
            ],
        )?;
        Ok(())
    }

    fn end_call(
        &mut self,
        workspace: &WorkspaceRow,
        mut row: InvocationRow,
        end: &InvocationEnd,
    ) -> Result<Arc<InvocationRow>> {
        match &end.outcome {
            InvocationOutcome::Completed { output } => {
                row.state = InvocationState::Completed;
                row.output.clone_from(output);
            }
            InvocationOutcome::Failed { error, retryable } => {
                row.state = InvocationState::Failed;
                row.error = Some(error.clone());
                row.retryable = *retryable;
            }
        }
        row.ended_at = Some(end.at);
        self.execute(
            "UPDATE invocations SET state = ?2, ended_at = ?3, output = ?4, error = ?5, retryable = ?6
             WHERE position = ?1",
            params![
                row.position.key(),
                Code(row.state),
                end.at.as_millis(),
                row.output.as_ref().map(to_json).transpose()?,
                row.error,
                row.retryable
            ],
        )?;
        self.log(workspace, end.at, event(&row, end.at))?;
        if let Some(told) = end.told.as_ref().filter(|_| row.notify_caller) {
            self.tell_caller(workspace, &row, told, end.at)?;
        }
        self.tell(News::InvocationEnded(row.position));
        Ok(Arc::new(row))
    }

    /// Writes to the caller how its call ended, if it is an agent that is still there.
    fn tell_caller(
        &mut self,
        workspace: &WorkspaceRow,
        row: &InvocationRow,
        text: &str,
        at: Timestamp,
    ) -> Result<()> {
        let Some(no) = row.caller_no else {
            return Ok(());
        };
        let agent = self.agent_by_no(no)?;
        if agent.released_at.is_some() {
            return Ok(());
        }
        let about = json!({ "invocationId": row.id(), "action": row.name, "state": row.state });
        let author = Author::System(SYSTEM_NAME.into());
        let message = NewMessage {
            to: Some(SendTarget::Agent(agent.name.clone())),
            metadata: about.as_object().cloned(),
            reason: Some(DeliveryReason::ActionResult),
            ..NewMessage::plain(workspace.no, author, text, at)
        };
        messages::send(self, &message).map(drop)
    }

    /// Ends the open calls of an action that is no more.
    pub(super) fn fail_calls_of(&mut self, action: ActionNo, at: Timestamp) -> Result<()> {
        let calls: Vec<i64> = self
            .query("SELECT position FROM invocations WHERE state = 0 AND action = ?1")?
            .query_map([action.0], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for call in calls {
            let error = "the action was taken back".to_owned();
            let told = Some(format!("The action you called failed: {error}."));
            end(
                self,
                &InvocationEnd {
                    viewer: None,
                    call: Position::from_key(call),
                    outcome: InvocationOutcome::Failed {
                        error,
                        retryable: Some(false),
                    },
                    told,
                    at,
                },
            )?;
        }
        Ok(())
    }
}

/// What is told of a call in the state in which it is.
fn event(row: &InvocationRow, at: Timestamp) -> RelayEvent {
    let is_denied = row.state == InvocationState::Denied;
    let event = ActionEvent {
        action: row.name.clone(),
        invocation_id: Some(row.id()),
        agent: row.caller.clone(),
        input: row.input.clone(),
        output: row.output.clone(),
        error: row.error.clone().filter(|_| !is_denied),
        reason: row.error.clone().filter(|_| is_denied),
        retryable: row.retryable.filter(|_| !is_denied),
        duration_ms: row.duration_ms().filter(|_| !is_denied),
        at,
    };
    match row.state {
        InvocationState::Invoked => RelayEvent::ActionInvoked(event),
        InvocationState::Completed => RelayEvent::ActionCompleted(event),
        InvocationState::Failed => RelayEvent::ActionFailed(event),
        InvocationState::Denied => RelayEvent::ActionDenied(event),
    }
}
