//! What sessions report: the one path by which anything a session observes gets in.
//!
//! A report is validated, its secrets are removed, and it is stored: nothing goes around that. Text that
//! comes in pieces (terminal, transcript, output of tools) goes through a stream per session and kind
//! (`streams`); an event whose end may begin a secret is held as a whole. `pending` keeps the order and answers
//! callers, `held` hands reports to the store. docs/storage.md says why.

mod held;
mod pending;
mod recall;
mod streams;

use std::collections::HashMap;
use std::time::Duration;

use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, FailedReceipt, MessageReceipt,
};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::limits::EVENTS_PER_BATCH;
use relay_protocol::negotiation::check_emits;
use relay_protocol::redact::Redactor;
use relay_protocol::session::{Acked, BoundaryKind, NumberedEvent, ReportEvents};
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::wire;
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::{Error, Result, StorageError};
use crate::runner::Settling;
use crate::store::{NumberedReport, ReportKind, SessionRow};

pub(crate) use self::held::{HeldReports, SharedReports};
use self::held::{OnStored, lock, observed};
use self::pending::PendingReports;
use self::streams::{StreamEnd, comes_in_pieces, piece};

/// A report as it was read.
enum Classified {
    /// Text that comes in pieces.
    Text(AgentSessionEvent),
    /// Anything else, and the streams that it ends.
    Other(ReportKind, StreamEnd),
}

impl Engine {
    /// Stores what a session reports, all of it or nothing, and answers when it is on disk. Repeats are dropped; a
    /// gap is refused. Text that may begin a secret is held for a moment, and so is its answer; the next report is
    /// taken in meanwhile.
    pub async fn report(
        &self,
        caller: &Caller,
        session: SessionId,
        body: ReportEvents,
    ) -> Result<Acked> {
        let row = self.session_of(caller, session).await?;
        let events = body.into_events();
        within("events", EVENTS_PER_BATCH, events.len())?;
        self.runner.heard_of(row.no);
        self.recall_text(&row, &events).await?;
        let answered = self.take_reports(caller, &row, events)?;
        answered.await.unwrap_or(Err(StorageError::Closed.into()))
    }

    /// Takes in reports and hands those to the store that need not wait.
    fn take_reports(
        &self,
        caller: &Caller,
        row: &SessionRow,
        mut events: Vec<NumberedEvent>,
    ) -> Result<oneshot::Receiver<Result<Acked>>> {
        let shared = self.runner.reports(row.no);
        let mut reports = lock(&shared);
        reports.is_stored(self.newest_acked(row));
        let accepted = reports.accepted();
        let new = events.split_off(reports.count_known(&events)?);
        // What was taken in before is acknowledged no earlier than what it repeats.
        let last_known = events.last().map_or(0, |event| event.n);
        let (Some(first), Some(last)) = (new.first(), new.last()) else {
            return Ok(reports.wait_for(last_known, last_known));
        };
        let (first, last) = (first.n, last.n);
        check_goes_on(row)?;
        let mut settling = Vec::new();
        let boundary = opens_tool_boundary(&new);
        let classified = new.into_iter().map(|NumberedEvent { n, event }| {
            let classified = self.classify(caller, row, event.0, &mut settling);
            Ok((n, classified?))
        });
        let classified: Vec<_> = classified.collect::<Result<_>>()?;
        for (n, event) in classified {
            self.take_in(&mut reports, n, event);
        }
        reports.accept(last);
        let answered = reports.wait_for(first, last);
        let (runner, session) = (self.runner.clone(), row.no);
        let on_stored: OnStored = Box::new(move |is_stored| {
            for settling in settling {
                settling.finish(is_stored);
            }
            if is_stored && boundary {
                runner.open(session, BoundaryKind::NextToolCall);
            }
        });
        let of = (row.no, row.agent);
        let held = &self.runner.held;
        held.submit(of, &shared, reports, accepted, Some(on_stored));
        // The one who drives the engine has to know when the hold is due.
        self.runner.ring();
        Ok(answered)
    }

    /// Lets the text streams of a session go on where a former process has left them.
    async fn recall_text(&self, row: &SessionRow, events: &[NumberedEvent]) -> Result<()> {
        let shared = self.runner.reports(row.no);
        if row.acked == 0 {
            // No process had any of its reports.
            lock(&shared).recall(&self.redactor, HashMap::new());
            return Ok(());
        }
        let is_text = |event: &NumberedEvent| comes_in_pieces(&event.event.0);
        let is_needed = lock(&shared).needs_recall() && events.iter().any(is_text);
        if is_needed && !row.status.is_terminal() {
            let ends = recall::stored_ends(&self.store, row).await?;
            lock(&shared).recall(&self.redactor, ends);
        }
        Ok(())
    }

    fn newest_acked(&self, row: &SessionRow) -> u64 {
        let newest = self.runner.session(row.id);
        newest.map_or(row.acked, |newest| newest.acked)
    }

    fn take_in(&self, reports: &mut PendingReports, n: u64, event: Classified) {
        let redactor = &self.redactor;
        let mut released = Vec::new();
        match event {
            Classified::Text(event) => {
                let now = self.runner.mono();
                reports.text.push(redactor, (n, event), now, &mut released);
                reports.ready.extend(released.into_iter().map(observed));
            }
            Classified::Other(report, ends) => {
                reports.text.end_by(redactor, n, &ends, &mut released);
                reports.ready.extend(released.into_iter().map(observed));
                reports.ready.push(NumberedReport::new(n, report));
            }
        }
    }

    /// Stores the text that has been held for long enough; says when the next is due.
    pub(crate) fn store_due_text(&self) -> Option<Duration> {
        let now = self.runner.mono();
        let next = self.runner.held.end_due(now);
        next.map(|at| Duration::from_millis(at.saturating_sub(now)))
    }

    /// Stores the text that the sessions of a caller hold, because the caller does something that comes after it.
    pub(crate) fn store_text_of(&self, caller: &Caller) {
        if let Ok(agent) = caller.agent() {
            self.runner.held.end_agent(agent.no);
        }
    }

    /// Stores the text that a session holds, because something of it follows that is no continuation.
    pub fn store_text(&self, session: SessionId) {
        if let Some(row) = self.runner.session(session) {
            self.runner.held.end_session(row.no);
        }
    }

    /// Stores all text that is held and holds none from now on: for a process that is about to stop.
    pub fn stop_holding_text(&self) {
        self.runner.held.stop();
    }

    /// Checks a report and removes its secrets, except for those in text that comes in pieces.
    fn classify(
        &self,
        caller: &Caller,
        session: &SessionRow,
        mut event: AgentSessionEvent,
        settling: &mut Vec<Settling>,
    ) -> Result<Classified> {
        use AgentSessionEvent as E;
        let ends = StreamEnd::of(&event);
        let report = match event {
            E::StatusChanged(change) => ReportKind::Status {
                status: change.status,
                reason: change
                    .reason
                    .map(|reason| self.redactor.redact(&reason).into_owned()),
            },
            E::DeliveryAccepted(_)
            | E::DeliveryDelivered(_)
            | E::DeliveryDeferred(_)
            | E::DeliveryFailed(_) => self.reported_receipt(caller, session, event, settling)?,
            E::MessageReceived(_)
            | E::MessageSent(_)
            | E::ActionInvoked(_)
            | E::ActionCompleted(_)
            | E::ActionFailed(_)
            | E::ActionDenied(_)
            | E::SessionStarted(_)
            | E::SessionReleased(_)
            | E::SessionResumed(_)
            | E::SessionForked(_) => ReportKind::Known(Box::new(event)),
            _ => {
                check_emits(&session.capabilities, &event)?;
                let Some((_, text)) = piece(&mut event) else {
                    let clean = redact_event(&self.redactor, event)?;
                    let report = ReportKind::Observation(Box::new(clean));
                    return Ok(Classified::Other(report, ends));
                };
                let text = std::mem::take(text);
                let mut clean = redact_event(&self.redactor, event)?;
                if let Some((_, empty)) = piece(&mut clean) {
                    *empty = text;
                }
                return Ok(Classified::Text(clean));
            }
        };
        Ok(Classified::Other(report, ends))
    }

    fn reported_receipt(
        &self,
        caller: &Caller,
        session: &SessionRow,
        event: AgentSessionEvent,
        settling: &mut Vec<Settling>,
    ) -> Result<ReportKind> {
        let (delivery, receipt) = match as_receipt(event) {
            Ok(receipt) => receipt,
            Err(event) => return Ok(ReportKind::Known(event)),
        };
        let receipt = self.clean_receipt(delivery, receipt)?;
        let position = self.place(caller, delivery)?;
        let found = self
            .runner
            .settle(Some(session.agent), position, Some(session.no), None);
        let offer = found.as_ref().map(|settling| settling.found.offer.clone());
        settling.extend(found);
        Ok(ReportKind::Receipt {
            delivery,
            offer,
            receipt,
        })
    }
}

/// Removes secrets from every string of an event.
fn redact_event(redactor: &Redactor, event: AgentSessionEvent) -> Result<AgentSessionEvent> {
    let mut value = serde_json::to_value(&event).map_err(unreadable)?;
    if !redactor.redact_json(&mut value) {
        return Ok(event);
    }
    wire::decode_value(value).map_err(unreadable)
}

/// An event that can't be read any more once its secrets are out.
fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::Invalid {
        path: "event",
        expected: "an event without secrets in its names and literals".to_owned(),
        found: error.to_string(),
    }
}

/// Refuses reports of a session that has ended.
fn check_goes_on(row: &SessionRow) -> Result<()> {
    if row.status.is_terminal() {
        return Err(Error::SessionEnded {
            id: row.id,
            status: row.status,
        });
    }
    Ok(())
}

/// A tool that has ended stands before the next one.
fn opens_tool_boundary(events: &[NumberedEvent]) -> bool {
    events.iter().any(|numbered| {
        matches!(
            numbered.event.0,
            AgentSessionEvent::ToolCompleted(_) | AgentSessionEvent::ToolFailed(_)
        )
    })
}

/// A report about a delivery as the receipt that it is.
fn as_receipt(
    event: AgentSessionEvent,
) -> std::result::Result<(DeliveryId, MessageReceipt), Box<AgentSessionEvent>> {
    use AgentSessionEvent as E;
    let metadata = None;
    Ok(match event {
        E::DeliveryAccepted(report) => {
            let delivery_id = report.delivery_id;
            let receipt = AcceptedReceipt {
                delivery_id,
                retryable: None,
                metadata,
            };
            (delivery_id, MessageReceipt::Accepted(receipt))
        }
        E::DeliveryDelivered(report) => {
            let delivery_id = report.delivery_id;
            let receipt = DeliveredReceipt {
                delivery_id,
                metadata,
            };
            (delivery_id, MessageReceipt::Delivered(receipt))
        }
        E::DeliveryDeferred(report) => {
            let receipt = DeferredReceipt {
                delivery_id: Some(report.delivery_id),
                available_at: report.available_at,
                reason: report.reason,
                metadata,
            };
            (report.delivery_id, MessageReceipt::Deferred(receipt))
        }
        E::DeliveryFailed(report) => {
            let receipt = FailedReceipt {
                delivery_id: Some(report.delivery_id),
                reason: report.reason,
                retryable: report.retryable,
                metadata,
            };
            (report.delivery_id, MessageReceipt::Failed(receipt))
        }
        other => return Err(Box::new(other)),
    })
}
