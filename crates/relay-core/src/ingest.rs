//! What sessions report: the one path by which anything a session observes gets in.
//!
//! A report is validated, its secrets are removed, and it is stored: nothing goes around that. Text that
//! comes in pieces (terminal, transcript, output of tools) goes through a stream per session and kind,
//! which holds the end of a piece back while it may be the beginning of a secret.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, FailedReceipt, MessageReceipt,
};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::limits::EVENTS_PER_BATCH;
use relay_protocol::redact::{Redactor, Stream};
use relay_protocol::session::{Acked, BoundaryKind, NumberedEvent, ReportEvents};
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::wire;

use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::{Error, Result, StorageError};
use crate::runner::Settling;
use crate::store::{NumberedReport, Report, ReportKind, SessionNo, SessionRow};

/// The streams of one session, by kind. Held while one report is stored, which keeps them in order.
type Streams = Arc<tokio::sync::Mutex<HashMap<String, Stream>>>;

/// The streams of all sessions that have reported text in pieces.
#[derive(Default)]
pub(crate) struct Ingest(Mutex<HashMap<SessionNo, Streams>>);

impl Ingest {
    fn streams(&self, session: SessionNo) -> Streams {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(session).or_default().clone()
    }

    /// Forgets a session that has ended.
    fn forget(&self, session: SessionNo) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&session);
    }
}

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
        let streams = self.ingest.streams(row.no);
        let mut streams = streams.lock_owned().await;
        let mut after = streams.clone();
        let boundary = opens_tool_boundary(&events);
        let mut settling = Vec::new();
        let mut reports = Vec::with_capacity(events.len());
        let acked = self
            .runner
            .session(session)
            .map_or(row.acked, |row| row.acked);
        for NumberedEvent { n, event } in events {
            let report = if n <= acked {
                // Stored before; its text must not enter the streams again.
                ReportKind::Observation(None)
            } else {
                self.classify(caller, &row, event.0, &mut after, &mut settling)?
            };
            reports.push(NumberedReport { n, report });
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        let runner = self.runner.clone();
        let session_no = row.no;
        let report = Report {
            session: row.no,
            at: self.now(),
            events: reports,
            jitter: self.bits() as u64,
        };
        self.store.report(report).then(move |result| {
            for settling in settling {
                settling.finish(result.is_ok());
            }
            if result.is_ok() {
                *streams = after;
                if boundary {
                    runner.open(session_no, BoundaryKind::NextToolCall);
                }
            }
            drop(streams);
            let _ = tell.send(result);
        });
        let reported = told.await.unwrap_or(Err(StorageError::Closed.into()))?;
        if self.runner.session(session).is_none() {
            self.ingest.forget(row.no);
        }
        Ok(Acked {
            acked: reported.acked,
        })
    }

    fn classify(
        &self,
        caller: &Caller,
        session: &SessionRow,
        event: AgentSessionEvent,
        streams: &mut HashMap<String, Stream>,
        settling: &mut Vec<Settling>,
    ) -> Result<ReportKind> {
        use AgentSessionEvent as E;
        match event {
            E::StatusChanged(change) => Ok(ReportKind::Status {
                status: change.status,
                reason: change
                    .reason
                    .map(|reason| self.redactor.redact(&reason).into_owned()),
            }),
            E::DeliveryAccepted(_)
            | E::DeliveryDelivered(_)
            | E::DeliveryDeferred(_)
            | E::DeliveryFailed(_) => {
                let Some((delivery, receipt)) = as_receipt(event) else {
                    return Ok(ReportKind::Observation(None));
                };
                let receipt = self.clean_receipt(delivery, receipt)?;
                let position = self.place(caller, delivery)?;
                let found =
                    self.runner
                        .settle(Some(session.agent), position, Some(session.no), None);
                let offer = found.as_ref().map(|settling| settling.found.offer.clone());
                settling.extend(found);
                Ok(ReportKind::Receipt {
                    delivery,
                    offer,
                    receipt,
                })
            }
            E::MessageReceived(_)
            | E::MessageSent(_)
            | E::ActionInvoked(_)
            | E::ActionCompleted(_)
            | E::ActionFailed(_)
            | E::ActionDenied(_)
            | E::SessionStarted(_)
            | E::SessionReleased(_)
            | E::SessionResumed(_)
            | E::SessionForked(_) => Ok(ReportKind::Known(Box::new(event))),
            event => Ok(ReportKind::Observation(
                self.clean_event(event, streams)?.map(Box::new),
            )),
        }
    }

    /// An observation without secrets; nothing when all of its text is held back.
    fn clean_event(
        &self,
        mut event: AgentSessionEvent,
        streams: &mut HashMap<String, Stream>,
    ) -> Result<Option<AgentSessionEvent>> {
        if let Some((kind, text)) = piece(&mut event) {
            let stream = streams
                .entry(kind)
                .or_insert_with(|| self.redactor.stream());
            let safe = stream.push(text);
            let is_empty = text.is_empty();
            *text = safe;
            if text.is_empty() && !is_empty {
                return Ok(None);
            }
        }
        redact_event(&self.redactor, event).map(Some)
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

/// The text of an event that comes in pieces, and the stream it belongs to.
fn piece(event: &mut AgentSessionEvent) -> Option<(String, &mut String)> {
    match event {
        AgentSessionEvent::TerminalOutput(output) => {
            let stream = output.stream.map_or("", |stream| stream.as_str());
            Some((format!("terminal {stream}"), &mut output.text))
        }
        AgentSessionEvent::TranscriptChunk(report) => {
            let role = report.chunk.role;
            Some((format!("transcript {role}"), &mut report.chunk.content))
        }
        AgentSessionEvent::ToolOutput(output) => {
            let run = output.run.as_deref().unwrap_or_default();
            let kind = format!("tool {} {run}", output.tool);
            Some((kind, &mut output.output))
        }
        _ => None,
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
