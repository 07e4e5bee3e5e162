//! Erasing events: their payloads, and every other record that holds a copy of them.
//!
//! A copy is what Relay itself made of an event: the message and its versions, the call of an action and the message
//! that tells its caller, a permission request and its messages, what is kept of a delivery's way. Text that an agent
//! wrote once more is another event, with a sequence number of its own. What is in force (a channel's topic, a grant,
//! a webhook) is state and no copy. What the files keep of erased rows is removed by [`super::scrub`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use relay_protocol::event::{AuditErased, RelayEvent, SeqRange};
use relay_protocol::ids::{DeliveryId, GrantId, InvocationId, PermissionId, SessionId, WebhookId};
use relay_protocol::limits::ERASED_RANGES;
use relay_protocol::problem::Problem;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use super::audit::{ERASED, payload_digest};
use super::directory::{from_json, to_json, uuid_of};
use super::log::{Content, bounds};
use super::log_read::{LogRow, SELECT_LOG, read_row};
use super::writer::Tx;
use super::{invocations, permissions};
use crate::error::{Error, Result};
use crate::store::news::News;
use crate::store::position::{Position, place_of};
use crate::store::records::{SessionNo, WorkspaceRow};
use crate::store::requests::Erasure;
use crate::store::sent::Extra;

/// Which records hold a copy of an inline event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// None: the log alone has it, or what it tells of is in force.
    None,
    /// The call of an action, its other events, and the message to its caller.
    Call,
    /// A permission request, and the messages about it.
    Permission,
    /// The kept way of a delivery.
    Delivery,
    /// Why a session has its status.
    Session,
    /// The attempts of a webhook.
    Webhook,
    /// A grant, once it is no longer in force.
    Grant,
}

fn copies_of(event_type: &str) -> Copies {
    match event_type {
        "action.invoked" | "action.completed" | "action.failed" | "action.denied" => Copies::Call,
        "webhook.failed" | "webhook.disabled" => Copies::Webhook,
        "grant.created" | "grant.revoked" => Copies::Grant,
        _ if event_type.starts_with("permission.") => Copies::Permission,
        _ if event_type.starts_with("delivery.") => Copies::Delivery,
        _ if event_type.starts_with("agent.status.") || event_type.starts_with("session.") => {
            Copies::Session
        }
        _ => Copies::None,
    }
}

/// Removes payloads and salts, and all copies; logs that it was done.
pub(super) fn erase(tx: &mut Tx<'_>, erasure: &Erasure) -> Result<u64> {
    let workspace = tx.workspace(erasure.workspace_no)?;
    let rows = erasure
        .seqs
        .iter()
        .map(|seq| row_with(tx.connection, workspace.no, *seq))
        .collect::<Result<_>>()?;
    erase_rows(tx, &workspace, rows, &erasure.reason, erasure.at)
}

/// Erases these rows and their copies, and logs it; says how many rows were erased.
pub(super) fn erase_rows(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    rows: VecDeque<LogRow>,
    reason: &str,
    at: Timestamp,
) -> Result<u64> {
    let mut eraser = Eraser {
        tx,
        workspace,
        at,
        rows,
        seen: BTreeSet::new(),
        erased: BTreeMap::new(),
    };
    while let Some(row) = eraser.rows.pop_front() {
        eraser.erase(&row)?;
    }
    let erased = eraser.erased;
    for event in erased_events(&erased, reason) {
        tx.log(workspace, at, RelayEvent::AuditErased(event))?;
    }
    Ok(erased.len() as u64)
}

/// The row that an event is in.
fn row_with(connection: &Connection, workspace_no: u32, seq: u64) -> Result<LogRow> {
    let bad = || Error::BadCursor {
        expected: "the seq of a logged event".to_owned(),
        found: seq.to_string(),
    };
    let row = connection
        .prepare_cached(&format!(
            "{SELECT_LOG} WHERE position BETWEEN ?1 AND ?2 ORDER BY position DESC LIMIT 1"
        ))?
        .query_row(
            [
                bounds(workspace_no).0,
                Position::new(workspace_no, seq).key(),
            ],
            read_row,
        )
        .optional()?
        .ok_or_else(bad)?;
    if seq < row.position.seq() + row.count {
        Ok(row)
    } else {
        Err(bad())
    }
}

/// What tells of an erasure: exactly the events that lost their payload, given the first and last number of each row.
fn erased_events(erased: &BTreeMap<u64, u64>, reason: &str) -> Vec<AuditErased> {
    let mut runs: Vec<(SeqRange, u64)> = Vec::new();
    for (&from_seq, &to_seq) in erased {
        match runs.last_mut() {
            Some((run, rows)) if run.to_seq + 1 == from_seq => {
                run.to_seq = to_seq;
                *rows += 1;
            }
            _ => runs.push((SeqRange { from_seq, to_seq }, 1)),
        }
    }
    let event = |runs: &[(SeqRange, u64)]| {
        let ranges: Vec<SeqRange> = runs.iter().map(|(run, _)| *run).collect();
        AuditErased {
            entries: runs.iter().map(|(_, rows)| rows).sum(),
            from_seq: ranges.first().map_or(0, |range| range.from_seq),
            to_seq: ranges.last().map_or(0, |range| range.to_seq),
            ranges: if ranges.len() > 1 { ranges } else { Vec::new() },
            reason: reason.to_owned(),
        }
    };
    runs.chunks(ERASED_RANGES).map(event).collect()
}

/// An erasure on its way: rows lead to further rows that hold copies.
struct Eraser<'t, 'w> {
    tx: &'t mut Tx<'w>,
    workspace: &'t WorkspaceRow,
    at: Timestamp,
    rows: VecDeque<LogRow>,
    seen: BTreeSet<i64>,
    /// The first and the last sequence number of each row that lost its payload.
    erased: BTreeMap<u64, u64>,
}

impl Eraser<'_, '_> {
    /// Erases one row. What was erased before loses the copies that can still be found.
    fn erase(&mut self, row: &LogRow) -> Result<()> {
        if !self.seen.insert(row.position.key()) {
            return Ok(());
        }
        if row.digest.is_none() {
            let digest = payload_digest(self.tx.connection, row)?;
            self.tx.execute(
                "UPDATE log SET payload = NULL, salt = NULL, digest = ?2 WHERE position = ?1",
                params![row.position.key(), digest],
            )?;
            let seq = row.position.seq();
            self.erased.insert(seq, (seq + row.count).saturating_sub(1));
        }
        if row.content != Content::Inline as i64 {
            return self.forget_version(row.message.unwrap_or(row.position), row.position);
        }
        let payload: Option<Value> = row.payload.as_deref().map(from_json).transpose()?;
        let payload = payload.unwrap_or_default();
        match copies_of(&row.event_type) {
            Copies::None => Ok(()),
            Copies::Call => self.forget_call(row, &payload),
            Copies::Permission => self.forget_permission(row, &payload),
            Copies::Delivery => match id_in::<DeliveryId>(&payload, "deliveryId") {
                Some(id) => match place_of(self.workspace.id, self.workspace.no, id) {
                    Some((delivery, _)) => self.forget_way(delivery),
                    None => Ok(()),
                },
                None => row
                    .message
                    .map_or(Ok(()), |message| self.forget_ways(message)),
            },
            Copies::Session => self.forget_status(&payload),
            Copies::Webhook => self.forget_attempts(&payload),
            Copies::Grant => self.forget_grant(&payload),
        }
    }

    /// Queues the row at a place, if one is there.
    fn also(&mut self, position: Position) -> Result<()> {
        let row = self
            .tx
            .query(&format!("{SELECT_LOG} WHERE position = ?1"))?
            .query_row([position.key()], read_row)
            .optional()?;
        self.rows.extend(row);
        Ok(())
    }

    /// Removes the text of a message that was written at a place, and what only goes with it.
    fn forget_version(&mut self, message: Position, written: Position) -> Result<()> {
        self.tx.execute(
            "UPDATE messages SET text = ?3, extra = NULL
             WHERE position = ?2 AND coalesce(version_position, position) = ?1",
            params![written.key(), message.key(), ERASED],
        )?;
        self.tx.execute(
            "UPDATE message_versions SET text = ?2, extra = NULL WHERE position = ?1",
            params![written.key(), ERASED],
        )?;
        self.forget_attachments(message)?;
        // A key stays, so that the same request does not bring the text back: it is a conflict from now on.
        self.tx.execute(
            "UPDATE idempotency SET request = x'', answer = '' WHERE workspace = ?1 AND message = ?2",
            params![self.workspace.no, message.key()],
        )?;
        self.forget_ways(message)?;
        self.tx.tell(News::Edited(message));
        Ok(())
    }

    /// Removes the attachments that no version of a message refers to any more and no other message uses.
    fn forget_attachments(&mut self, message: Position) -> Result<()> {
        let extras: Vec<String> = self
            .tx
            .query(
                "SELECT extra FROM messages WHERE position = ?1 AND extra IS NOT NULL
                 UNION ALL
                 SELECT extra FROM message_versions WHERE message = ?1 AND extra IS NOT NULL",
            )?
            .query_map([message.key()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut kept = BTreeSet::new();
        for extra in extras {
            let extra: Extra = from_json(&extra)?;
            let ids = extra.attachments.into_iter();
            kept.extend(ids.filter_map(|attachment| attachment.attachment_id?.uuid().into()));
        }
        let uses: Vec<(i64, uuid::Uuid)> = self
            .tx
            .query(
                "SELECT a.no, a.id FROM attachment_uses u JOIN attachments a ON a.no = u.attachment
                 WHERE u.message = ?1",
            )?
            .query_map([message.key()], |row| {
                Ok((row.get(0)?, uuid_of(row.get(1)?)))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (no, _) in uses.into_iter().filter(|(_, id)| !kept.contains(id)) {
            self.tx.execute(
                "DELETE FROM attachment_uses WHERE attachment = ?1 AND message = ?2",
                [no, message.key()],
            )?;
            self.tx.execute(
                "DELETE FROM attachments WHERE no = ?1
                 AND NOT EXISTS (SELECT 1 FROM attachment_uses WHERE attachment = ?1)",
                [no],
            )?;
        }
        Ok(())
    }

    /// Removes what is kept of the ways of a message's deliveries.
    fn forget_ways(&mut self, message: Position) -> Result<()> {
        // Those of the send follow the message, after at most three events that tell of it.
        let deliveries: Vec<i64> = self
            .tx
            .query(
                "SELECT d.position FROM deliveries d JOIN messages m ON m.position = d.message
                 WHERE d.position > ?1 AND d.position <= ?1 + m.recipients + 3 AND d.message = ?1
                 UNION
                 SELECT position FROM extra_deliveries WHERE message = ?1",
            )?
            .query_map([message.key()], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for delivery in deliveries {
            self.forget_way(Position::from_key(delivery))?;
        }
        Ok(())
    }

    /// Removes what receipts said of a delivery.
    fn forget_way(&mut self, delivery: Position) -> Result<()> {
        self.tx.erase_history(delivery, self.at)?;
        let error: Option<String> = self
            .tx
            .query("SELECT error FROM deliveries WHERE position = ?1 AND error IS NOT NULL")?
            .query_row([delivery.key()], |row| row.get(0))
            .optional()?;
        let Some(error) = error else {
            return Ok(());
        };
        let known: Problem = from_json(&error)?;
        let left = Problem {
            retryable: known.retryable,
            ..Problem::new(known.code, ERASED)
        };
        self.tx.execute(
            "UPDATE deliveries SET error = ?2 WHERE position = ?1",
            params![delivery.key(), to_json(&left)?],
        )?;
        Ok(())
    }

    /// Removes what an action was called with and how that ended, from all events of the call.
    fn forget_call(&mut self, row: &LogRow, payload: &Value) -> Result<()> {
        let id = id_in::<InvocationId>(payload, "invocationId");
        let place = id.and_then(|id| place_of(self.workspace.id, self.workspace.no, id));
        let call = match place {
            Some((call, _)) => call,
            // Erased before: the first event of a call has the call's own place.
            None => row.position,
        };
        self.tx.execute(
            "UPDATE invocations SET input = NULL, output = NULL, error = NULL WHERE position = ?1",
            [call.key()],
        )?;
        let Some(id) = id else {
            return Ok(());
        };
        invocations::end_erased(self.tx, call, self.at)?;
        let others: Vec<LogRow> = self
            .tx
            .query(&format!(
                "{SELECT_LOG} WHERE position BETWEEN ?1 AND ?2 AND content = 0 AND digest IS NULL
                 AND type IN ('action.invoked', 'action.completed', 'action.failed', 'action.denied')
                 AND payload ->> 'invocationId' = ?3"
            ))?
            .query_map(
                params![call.key(), bounds(self.workspace.no).1, id.to_string()],
                read_row,
            )?
            .collect::<rusqlite::Result<_>>()?;
        // The caller is told by a message that comes right after the end.
        for end in std::iter::once(row).chain(&others) {
            let next = end.position.plus(1);
            if self.tells_of_call(next, id)? {
                self.also(next)?;
            }
        }
        self.rows.extend(others);
        Ok(())
    }

    /// Whether the message at a place is Relay's own about this call.
    fn tells_of_call(&self, position: Position, id: InvocationId) -> Result<bool> {
        let extra: Option<String> = self
            .tx
            .query("SELECT extra FROM messages WHERE position = ?1 AND author IS NULL AND extra IS NOT NULL")?
            .query_row([position.key()], |row| row.get(0))
            .optional()?;
        let Some(extra) = extra else {
            return Ok(false);
        };
        let metadata = from_json::<Extra>(&extra)?.metadata;
        let about = metadata
            .as_ref()
            .and_then(|about| about.get("invocationId"));
        Ok(about.and_then(Value::as_str) == Some(&id.to_string()))
    }

    /// Removes what a permission request is about, and the messages that tell of it or of the decision.
    fn forget_permission(&mut self, row: &LogRow, payload: &Value) -> Result<()> {
        let record = payload.get("permission").unwrap_or(payload);
        let Some(id) = id_in::<PermissionId>(record, "permissionId") else {
            return Ok(());
        };
        let Some((notice, guidance)) = permissions::forget_call(self.tx, id)? else {
            return Ok(());
        };
        let guidance = guidance.and_then(|id| place_of(self.workspace.id, self.workspace.no, id));
        match (&*row.event_type, notice, guidance) {
            ("permission.requested", Some(notice), _) => self.also(notice),
            ("permission.resolved", _, Some((guidance, _))) => self.also(guidance),
            _ => Ok(()),
        }
    }

    /// Removes the reason of a session's status, if it is still the one that the event told.
    fn forget_status(&mut self, payload: &Value) -> Result<()> {
        let (Some(id), Some(reason)) = (
            id_in::<SessionId>(payload, "sessionId"),
            payload.get("reason").and_then(Value::as_str),
        ) else {
            return Ok(());
        };
        let no: Option<i64> = self
            .tx
            .query("SELECT no FROM sessions WHERE id = ?1 AND reason = ?2")?
            .query_row(params![id.uuid().as_bytes(), reason], |row| row.get(0))
            .optional()?;
        let Some(no) = no else {
            return Ok(());
        };
        let mut row = (*self.tx.session(SessionNo(no))?).clone();
        row.reason = None;
        self.tx.update_session(row).map(drop)
    }

    /// Removes why calls of a webhook failed.
    fn forget_attempts(&mut self, payload: &Value) -> Result<()> {
        let (Some(id), Some(reason)) = (
            id_in::<WebhookId>(payload, "webhookId"),
            payload.get("reason").and_then(Value::as_str),
        ) else {
            return Ok(());
        };
        self.tx.execute(
            "UPDATE webhook_attempts SET error = ?3
             WHERE webhook = (SELECT no FROM webhooks WHERE id = ?1) AND error = ?2",
            params![id.uuid().as_bytes(), reason, ERASED],
        )?;
        self.tx.execute(
            "UPDATE webhooks SET last_error = ?3 WHERE id = ?1 AND last_error = ?2",
            params![id.uuid().as_bytes(), reason, ERASED],
        )?;
        Ok(())
    }

    /// Removes a grant that is no longer in force.
    fn forget_grant(&mut self, payload: &Value) -> Result<()> {
        let grant = payload.get("grant").unwrap_or(payload);
        if let Some(id) = id_in::<GrantId>(grant, "grantId") {
            self.tx.execute(
                "DELETE FROM grants WHERE id = ?1 AND (revoked_at IS NOT NULL OR expires_at < ?2)",
                params![id.uuid().as_bytes(), self.at.as_millis()],
            )?;
        }
        Ok(())
    }
}

fn id_in<T: std::str::FromStr>(payload: &Value, name: &str) -> Option<T> {
    payload.get(name)?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spans = &'static [(u64, u64)];

    #[test]
    fn an_erasure_names_exactly_what_it_took() {
        let cases: [(Spans, Spans, u64); 5] = [
            (&[], &[], 0),
            (&[(4, 4)], &[(4, 4)], 1),
            (&[(4, 6), (7, 7)], &[(4, 7)], 2),
            (
                &[(1, 1), (3, 5), (6, 9), (100, 100)],
                &[(1, 1), (3, 9), (100, 100)],
                4,
            ),
            (&[(2, 2), (4, 4)], &[(2, 2), (4, 4)], 2),
        ];
        for (rows, expected, entries) in cases {
            let events = erased_events(&rows.iter().copied().collect(), "why");
            let ranges: Vec<(u64, u64)> = events
                .iter()
                .flat_map(|event| match event.ranges.is_empty() {
                    true => vec![(event.from_seq, event.to_seq)],
                    false => event
                        .ranges
                        .iter()
                        .map(|range| (range.from_seq, range.to_seq))
                        .collect(),
                })
                .collect();
            assert_eq!(ranges, expected, "{rows:?}");
            let counted: u64 = events.iter().map(|event| event.entries).sum();
            assert_eq!(counted, entries, "{rows:?}");
        }
    }

    #[test]
    fn one_event_of_an_erasure_has_no_more_ranges_than_the_limit() {
        let rows = (0..=ERASED_RANGES as u64).map(|n| (2 * n + 1, 2 * n + 1));
        let events = erased_events(&rows.collect(), "why");
        let counts: Vec<usize> = events.iter().map(|event| event.ranges.len()).collect();
        // The last has one range alone, which is its first and last number.
        assert_eq!(counts, [ERASED_RANGES, 0]);
        assert_eq!(
            (events[1].entries, events[1].from_seq),
            (1, events[1].to_seq)
        );
    }

    /// A new event has to be decided about here: does another record keep what it says?
    #[test]
    fn events_without_copies_are_these_alone() {
        let without = RelayEvent::TAGS
            .iter()
            .filter(|tag| copies_of(tag) == Copies::None)
            .copied()
            .collect::<Vec<_>>();
        let messages = [
            "message.created",
            "message.updated",
            "thread.reply",
            "dm.received",
            "group_dm.received",
        ];
        let says_little = ["message.read", "message.reacted"];
        let in_force = [
            "action.registered",
            "action.removed",
            "channel.created",
            "channel.updated",
            "channel.member_joined",
            "channel.member_left",
            "agent.registered",
            "agent.released",
            "token.created",
            "token.rotated",
            "token.revoked",
            "workspace.updated",
            "audit.erased",
        ];
        let log_alone = [
            "message.received",
            "message.sent",
            "tool.called",
            "tool.completed",
            "tool.failed",
            "tool.output",
            "transcript.chunk",
            "file.changed",
            "command.started",
            "command.completed",
            "command.failed",
            "terminal.output",
            "terminal.screen",
            "usage.updated",
            "log",
            "error",
        ];
        let expected = [&messages[..], &says_little, &in_force, &log_alone].concat();
        assert_eq!(without, expected);
    }
}
