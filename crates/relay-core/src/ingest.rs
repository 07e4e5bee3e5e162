//! What sessions report: the one path by which anything a session observes gets in.
//!
//! A report is validated, its secrets are removed, and it is stored: nothing goes around that. Text that
//! comes in pieces (terminal, transcript, output of tools) goes through a stream per session and kind,
//! which holds the end of a piece back while it may be the beginning of a secret.

mod streams;

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

use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::{Error, Result, StorageError};
use crate::runner::Settling;
use crate::store::{NumberedReport, Report, ReportKind, SessionNo, SessionRow};

pub(crate) use self::streams::{SharedStreams, Streams, Waiting};

/// How long it is until the ends of texts are stored that could not be.
const AGAIN_AFTER_MS: u64 = 1_000;

impl Engine {
    /// Stores what a session reports, all of it or nothing. Repeats are dropped; a gap is refused.
    pub async fn report(
        &self,
        caller: &Caller,
        session: SessionId,
        body: ReportEvents,
    ) -> Result<Acked> {
        let row = self.own_session(caller, session).await?;
        let events = body.into_events();
        within("events", EVENTS_PER_BATCH, events.len())?;
        self.runner.heard_of(row.no);
        let streams = self.runner.streams(row.no);
        let mut held = streams.clone().lock_owned().await;
        let mut after = held.clone();
        let boundary = opens_tool_boundary(&events);
        let mut settling = Vec::new();
        let mut reports = Vec::with_capacity(events.len());
        let acked = self
            .runner
            .session(session)
            .map_or(row.acked, |row| row.acked);
        for NumberedEvent { n, event } in events {
            // What was stored before must not enter the streams again.
            let report = match n <= acked {
                true => NumberedReport::repeat(n),
                false => self.classify(caller, &row, (n, event.0), &mut after, &mut settling)?,
            };
            reports.push(report);
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        let runner = self.runner.clone();
        let waiting = self.waiting_text.clone();
        let session_no = row.no;
        let report = Report {
            session: row.no,
            at: self.now(),
            tails: Vec::new(),
            events: reports,
            jitter: self.bits() as u64,
        };
        self.store.report(report).then(move |result| {
            for settling in settling {
                settling.finish(result.is_ok());
            }
            if result.is_ok() {
                *held = after;
                if let Some(at) = held.next_due().filter(|_| !held.queued) {
                    held.queued = true;
                    waiting.put(at, session_no, streams);
                    runner.ring();
                }
                if boundary {
                    runner.open(session_no, BoundaryKind::NextToolCall);
                }
            }
            drop(held);
            let _ = tell.send(result);
        });
        let reported = told.await.unwrap_or(Err(StorageError::Closed.into()))?;
        Ok(Acked {
            acked: reported.acked,
        })
    }

    /// Stores what streams have held back for long enough; says how long nothing will have been.
    pub(crate) fn store_waited(&self) -> Option<Duration> {
        let now = self.runner.mono();
        while let Some((session, streams)) = self.waiting_text.take(now) {
            self.store_tails(session, streams, now);
        }
        let next = self.waiting_text.next_due();
        next.map(|at| Duration::from_millis(at.saturating_sub(now)))
    }

    fn store_tails(&self, session: SessionNo, streams: SharedStreams, now: u64) {
        let waiting = self.waiting_text.clone();
        // While a report is on its way to the store, its end is not known.
        let Ok(mut held) = streams.clone().try_lock_owned() else {
            return waiting.put(now + relay_protocol::redact::HOLD_MS, session, streams);
        };
        let mut after = held.clone();
        let tails = after.waited(now).into_iter();
        let tails = tails.filter_map(|event| redact_event(&self.redactor, event).ok());
        let tails: Vec<AgentSessionEvent> = tails.collect();
        if let Some(later) = after.next_due().filter(|_| tails.is_empty()) {
            // More text has come since, and its end waits anew.
            return waiting.put(later, session, streams);
        }
        let report = Report {
            session,
            at: self.now(),
            tails,
            events: Vec::new(),
            jitter: 0,
        };
        let runner = self.runner.clone();
        self.store.report(report).then(move |result| {
            let next = match result {
                Err(Error::Storage(_)) => Some(now + AGAIN_AFTER_MS),
                _ => {
                    *held = after;
                    held.next_due()
                }
            };
            held.queued = next.is_some();
            if let Some(at) = next {
                waiting.put(at, session, streams);
                runner.ring();
            }
        });
    }

    fn classify(
        &self,
        caller: &Caller,
        session: &SessionRow,
        (n, event): (u64, AgentSessionEvent),
        streams: &mut Streams,
        settling: &mut Vec<Settling>,
    ) -> Result<NumberedReport> {
        use AgentSessionEvent as E;
        let clean = |event| redact_event(&self.redactor, event);
        let ended = streams.ended_by(&event).into_iter();
        let mut tails = ended.map(clean).collect::<Result<Vec<_>>>()?;
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
            event => {
                // Also of an event whose whole text waits.
                check_emits(&session.capabilities, &event)?;
                let now = self.runner.mono();
                let (ended, said) = streams.push(&self.redactor, event, now);
                tails.extend(ended.map(clean).transpose()?);
                ReportKind::Observation(said.map(clean).transpose()?.map(Box::new))
            }
        };
        Ok(NumberedReport { n, tails, report })
    }

    fn reported_receipt(
        &self,
        caller: &Caller,
        session: &SessionRow,
        event: AgentSessionEvent,
        settling: &mut Vec<Settling>,
    ) -> Result<ReportKind> {
        let Some((delivery, receipt)) = as_receipt(event) else {
            return Ok(ReportKind::Observation(None));
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
fn as_receipt(event: AgentSessionEvent) -> Option<(DeliveryId, MessageReceipt)> {
    use AgentSessionEvent as E;
    let metadata = None;
    Some(match event {
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
        _ => return None,
    })
}
