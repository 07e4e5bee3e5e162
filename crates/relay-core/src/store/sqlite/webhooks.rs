//! Webhooks: what is called, from where in the log on, and how that went. See docs/webhooks.md.

use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::event::{RelayEvent, WebhookEvent};
use relay_protocol::ids::{EventId, WebhookId};
use relay_protocol::limits::{WEBHOOK_ATTEMPTS_KEPT, WEBHOOKS};
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::{WebhookAttempt, WebhookState};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::channels::{page_of, row_of};
use super::codes::Code;
use super::directory::{from_json, to_json, uuid_of};
use super::writer::Tx;
use super::{log_read, workspaces};
use crate::error::{Error, Result};
use crate::store::position::{Position, id_at};
use crate::store::records::WorkspaceRow;
use crate::store::requests::PageRequest;
use crate::store::webhook_requests::{
    CallMade, CallNext, NewWebhook, WebhookChange, WebhookNo, WebhookProgress, WebhookReplay,
    WebhookRetries, WebhookRetry, WebhookRow,
};

const COLUMNS: &str = "no, workspace, id, body, secret, old_secret, old_until, state, cursor,
    created_at, last_success_at, last_error";

fn read(row: &Row<'_>) -> rusqlite::Result<WebhookRow> {
    let old: Option<String> = row.get(5)?;
    let until = time(row, 6)?;
    Ok(WebhookRow {
        no: WebhookNo(row.get(0)?),
        workspace_no: row.get(1)?,
        id: WebhookId::from_uuid(uuid_of(row.get(2)?)),
        body: from_json(&row.get::<_, String>(3)?)?,
        secret: row.get(4)?,
        old_secret: old.zip(until),
        state: row.get::<_, Code<_>>(7)?.0,
        cursor: Position::from_key(row.get(8)?).seq(),
        created_at: Timestamp::from_millis(row.get(9)?),
        last_success_at: time(row, 10)?,
        last_error: row.get(11)?,
    })
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    let millis: Option<i64> = row.get(column)?;
    Ok(millis.map(Timestamp::from_millis))
}

/// One webhook of a workspace.
pub(super) fn find(
    connection: &Connection,
    workspace_no: u32,
    id: WebhookId,
) -> Result<WebhookRow> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE id = ?1 AND workspace = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row(params![id.uuid().as_bytes(), workspace_no], read);
    found.optional()?.ok_or(Error::UnknownWebhook(id))
}

/// All of a workspace's, the oldest first.
pub(super) fn list(
    connection: &Connection,
    workspace_no: u32,
    page: &PageRequest,
) -> Result<Page<WebhookRow>> {
    let after = row_of(page)?.unwrap_or(0);
    let sql = format!(
        "SELECT {COLUMNS} FROM webhooks WHERE workspace = ?1 AND no > ?2 ORDER BY no LIMIT ?3"
    );
    let found = connection
        .prepare_cached(&sql)?
        .query_map(params![workspace_no, after, page.limit + 1], read)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(found, page.limit, |row: &WebhookRow| {
        row.no.0.to_string()
    }))
}

/// Those of all workspaces that are called.
pub(super) fn active(connection: &Connection) -> Result<Vec<Arc<WebhookRow>>> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE state = ?1 ORDER BY no");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([Code(WebhookState::Active)], |row| read(row).map(Arc::new))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// How many events wait to be sent again.
pub(super) fn waiting(connection: &Connection, webhook: WebhookNo) -> Result<usize> {
    let sql = "SELECT count(*) FROM webhook_retries WHERE webhook = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([webhook.0], |row| row.get(0))?)
}

/// What is due to be sent again, the longest due first.
pub(super) fn retries(
    connection: &Connection,
    row: &WebhookRow,
    now: Timestamp,
    limit: usize,
) -> Result<WebhookRetries> {
    let sql = "SELECT position, attempts, since, next_at FROM webhook_retries
               WHERE webhook = ?1 ORDER BY next_at, position LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![row.no.0, limit + 1])?;
    let workspace = workspaces::by_no(connection, row.workspace_no)?;
    let mut found = WebhookRetries {
        waiting: waiting(connection, row.no)?,
        ..WebhookRetries::default()
    };
    while let Some(next) = rows.next()? {
        let next_at = Timestamp::from_millis(next.get(3)?);
        if next_at > now || found.due.len() == limit {
            found.next_at = Some(next_at);
            break;
        }
        let seq = Position::from_key(next.get(0)?).seq();
        let events = log_read::events(connection, &workspace, seq - 1, 1)?;
        found.due.push(WebhookRetry {
            event: events.into_iter().find(|event| event.event.seq == seq),
            seq,
            attempts: next.get(1)?,
            since: Timestamp::from_millis(next.get(2)?),
        });
    }
    Ok(found)
}

/// The newest calls, newest first.
pub(super) fn attempts(
    connection: &Connection,
    workspace: &WorkspaceRow,
    webhook: WebhookNo,
    page: &PageRequest,
) -> Result<Page<WebhookAttempt>> {
    let before = row_of(page)?.unwrap_or(i64::MAX);
    let sql = "SELECT n, position, event_at, event_type, attempt, at, status, error, duration_ms,
                   next_at
               FROM webhook_attempts WHERE webhook = ?1 AND n < ?2 ORDER BY n DESC LIMIT ?3";
    let found: Vec<(i64, WebhookAttempt)> = connection
        .prepare_cached(sql)?
        .query_map(params![webhook.0, before, page.limit + 1], |row| {
            let position = Position::from_key(row.get(1)?);
            let event_at = Timestamp::from_millis(row.get(2)?);
            let attempt = WebhookAttempt {
                event_id: id_at(workspace.id, position, event_at),
                seq: position.seq(),
                event_type: row.get(3)?,
                attempt: row.get(4)?,
                at: Timestamp::from_millis(row.get(5)?),
                status: row.get(6)?,
                error: row.get(7)?,
                duration_ms: row.get(8)?,
                next_attempt_at: time(row, 9)?,
            };
            Ok((row.get(0)?, attempt))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let page = page_of(found, page.limit, |(n, _): &(i64, WebhookAttempt)| {
        n.to_string()
    });
    Ok(Page {
        items: page.items.into_iter().map(|(_, attempt)| attempt).collect(),
        next_cursor: page.next_cursor,
    })
}

pub(super) fn create(tx: &mut Tx<'_>, new: &NewWebhook) -> Result<WebhookRow> {
    let known: usize = tx
        .query("SELECT count(*) FROM webhooks WHERE workspace = ?1")?
        .query_row([new.workspace_no], |row| row.get(0))?;
    if known >= WEBHOOKS {
        return Err(Error::LimitExceeded {
            what: "webhooks",
            most: WEBHOOKS,
            found: known + 1,
        });
    }
    let head = tx.last_position(new.workspace_no)?;
    tx.execute(
        "INSERT INTO webhooks (workspace, id, body, secret, state, cursor, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            new.workspace_no,
            new.id.uuid().as_bytes(),
            to_json(&new.body)?,
            new.secret,
            Code(WebhookState::Active),
            head.key(),
            new.at.as_millis()
        ],
    )?;
    find(tx.connection, new.workspace_no, new.id)
}

pub(super) fn change(tx: &mut Tx<'_>, change: &WebhookChange) -> Result<WebhookRow> {
    let row = find(tx.connection, change.workspace_no, change.id)?;
    if let Some((secret, until)) = &change.secret {
        tx.execute(
            "UPDATE webhooks SET old_secret = secret, old_until = ?2, secret = ?3 WHERE no = ?1",
            params![row.no.0, until.as_millis(), secret],
        )?;
    }
    if let Some(state) = change.state {
        tx.execute(
            "UPDATE webhooks SET state = ?2 WHERE no = ?1",
            params![row.no.0, Code(state)],
        )?;
    }
    if row.state == WebhookState::Disabled && change.state == Some(WebhookState::Active) {
        // Whoever switched it on has done something about it: all that was not sent gets its three days again.
        tx.execute(
            "UPDATE webhook_retries SET attempts = 0, since = ?2, next_at = ?2 WHERE webhook = ?1",
            params![row.no.0, change.at.as_millis()],
        )?;
    }
    find(tx.connection, change.workspace_no, change.id)
}

pub(super) fn delete(tx: &mut Tx<'_>, workspace_no: u32, id: WebhookId) -> Result<()> {
    let row = find(tx.connection, workspace_no, id)?;
    for sql in [
        "DELETE FROM webhook_retries WHERE webhook = ?1",
        "DELETE FROM webhook_attempts WHERE webhook = ?1",
        "DELETE FROM webhooks WHERE no = ?1",
    ] {
        tx.execute(sql, [row.no.0])?;
    }
    Ok(())
}

/// Lists events to be sent once more; says how many.
pub(super) fn replay(tx: &mut Tx<'_>, replay: &WebhookReplay) -> Result<u64> {
    let row = find(tx.connection, replay.workspace_no, replay.id)?;
    for seq in &replay.seqs {
        let position = Position::new(replay.workspace_no, *seq);
        tx.execute(
            "INSERT INTO webhook_retries (webhook, position, attempts, since, next_at)
             VALUES (?1, ?2, 0, ?3, ?3)
             ON CONFLICT (webhook, position) DO UPDATE SET next_at = excluded.next_at",
            params![row.no.0, position.key(), replay.at.as_millis()],
        )?;
    }
    Ok(replay.seqs.len() as u64)
}

/// Writes down what calls came to. A webhook that is gone meanwhile needs nothing.
pub(super) fn progress(
    tx: &mut Tx<'_>,
    progress: &WebhookProgress,
) -> Result<Option<Arc<WebhookRow>>> {
    let sql = format!("SELECT {COLUMNS} FROM webhooks WHERE no = ?1");
    let found = tx.query(&sql)?.query_row([progress.webhook.0], read);
    let Some(mut row) = found.optional()? else {
        return Ok(None);
    };
    let workspace = tx.workspace(row.workspace_no)?;
    let was_failing = row.last_error.is_some();
    let mut next_n = tx.next_attempt_number(row.no)?;
    for made in &progress.made {
        tx.note_call(&workspace, &mut row, made, next_n)?;
        next_n += 1;
    }
    row.cursor = row.cursor.max(progress.cursor);
    tx.execute(
        "UPDATE webhooks SET cursor = ?2, state = ?3, last_success_at = ?4, last_error = ?5
         WHERE no = ?1",
        params![
            row.no.0,
            Position::new(row.workspace_no, row.cursor).key(),
            Code(row.state),
            row.last_success_at.map(Timestamp::as_millis),
            row.last_error
        ],
    )?;
    if was_failing && row.last_error.is_none() {
        // Somebody is there again: the others need not wait any longer.
        tx.execute(
            "UPDATE webhook_retries SET next_at = ?2 WHERE webhook = ?1 AND next_at > ?2",
            params![row.no.0, progress.at.as_millis()],
        )?;
    }
    for seq in &progress.gone {
        let position = Position::new(row.workspace_no, *seq);
        tx.execute(
            "DELETE FROM webhook_retries WHERE webhook = ?1 AND position = ?2",
            params![row.no.0, position.key()],
        )?;
    }
    let oldest = next_n.saturating_sub(WEBHOOK_ATTEMPTS_KEPT as i64);
    tx.execute(
        "DELETE FROM webhook_attempts WHERE webhook = ?1 AND n < ?2",
        [row.no.0, oldest],
    )?;
    Ok(Some(Arc::new(row)))
}

impl Tx<'_> {
    fn next_attempt_number(&self, webhook: WebhookNo) -> Result<i64> {
        let newest: Option<i64> = self
            .query("SELECT max(n) FROM webhook_attempts WHERE webhook = ?1")?
            .query_row([webhook.0], |row| row.get(0))?;
        Ok(newest.unwrap_or(0) + 1)
    }

    fn note_call(
        &mut self,
        workspace: &WorkspaceRow,
        row: &mut WebhookRow,
        made: &CallMade,
        n: i64,
    ) -> Result<()> {
        let position = Position::new(row.workspace_no, made.seq);
        let again = match made.next {
            CallNext::Again(at) => Some(at),
            _ => None,
        };
        self.execute(
            "INSERT INTO webhook_attempts (webhook, n, position, event_at, event_type, attempt, at,
                                           status, error, duration_ms, next_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                row.no.0,
                n,
                position.key(),
                made.event_at.as_millis(),
                made.event_type,
                made.attempt,
                made.at.as_millis(),
                made.status,
                made.error,
                made.duration_ms,
                again.map(Timestamp::as_millis)
            ],
        )?;
        let arrived_since = row.last_success_at.is_some_and(|at| at >= made.since);
        let is_over = match made.next {
            CallNext::NotWanted => true,
            CallNext::GivenUp => !arrived_since,
            CallNext::Arrived | CallNext::Again(_) => false,
        };
        // What the webhook was switched off for is kept until it is switched on again.
        match again.or_else(|| is_over.then_some(made.at)) {
            Some(at) => self.execute(
                "INSERT INTO webhook_retries (webhook, position, attempts, since, next_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (webhook, position) DO UPDATE
                     SET attempts = max(attempts, excluded.attempts), next_at = excluded.next_at",
                params![
                    row.no.0,
                    position.key(),
                    made.attempt,
                    made.since.as_millis(),
                    at.as_millis()
                ],
            )?,
            // Most were never on the list; those cost a look at an empty table.
            None => self.execute(
                "DELETE FROM webhook_retries WHERE webhook = ?1 AND position = ?2",
                params![row.no.0, position.key()],
            )?,
        };
        match &made.error {
            None => {
                row.last_success_at = Some(made.at);
                row.last_error = None;
            }
            Some(error) => {
                row.last_error = Some(error.clone());
                let event_id: EventId = id_at(workspace.id, position, made.event_at);
                let event = webhook_event(row, error, Some(event_id), made);
                self.log(workspace, made.at, RelayEvent::WebhookFailed(event))?;
            }
        }
        if is_over && row.state == WebhookState::Active {
            row.state = WebhookState::Disabled;
            let reason = made.error.as_deref().unwrap_or("nobody wants it");
            let event = webhook_event(row, reason, None, made);
            self.log(workspace, made.at, RelayEvent::WebhookDisabled(event))?;
        }
        Ok(())
    }
}

fn webhook_event(
    row: &WebhookRow,
    reason: &str,
    event_id: Option<EventId>,
    made: &CallMade,
) -> WebhookEvent {
    WebhookEvent {
        webhook_id: row.id,
        attempt: event_id.map(|_| made.attempt),
        event_id,
        reason: reason.to_owned(),
        next_attempt_at: match made.next {
            CallNext::Again(at) => Some(at),
            _ => None,
        },
    }
}
