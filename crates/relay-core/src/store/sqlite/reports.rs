//! What sessions report: their numbers are checked, then each is logged, applied, or compared with what
//! is known. All of a call is stored or nothing.

use relay_protocol::action::InvocationState;
use relay_protocol::delivery::MessageReceipt;
use relay_protocol::event::{RelayEvent, SessionReport};
use relay_protocol::ids::{DeliveryId, InvocationId, MessageId, SessionId};
use relay_protocol::negotiation::check_emits;
use relay_protocol::session_event::{
    AgentSessionEvent, DeliveryDeferredReport, DeliveryFailedReport, DeliveryReport,
    MessageReceivedReport, SessionForked, StatusChanged,
};
use relay_protocol::status::{AgentStatus, StatusSource};
use relay_protocol::time::Timestamp;

use super::delivering::deliveries_to;
use super::message_read::load;
use super::permission_notices::WAITS;
use super::session_turns::{become_status, check_change};
use super::steps::Taken;
use super::writer::Tx;
use super::{invocations, sessions};
use crate::delivery::apply::Step;
use crate::delivery::history::Offer;
use crate::error::{Error, Result};
use crate::store::position::id_at;
use crate::store::records::{SessionRow, WorkspaceRow};
use crate::store::requests::Viewer;
use crate::store::session_requests::{NumberedReport, Report, ReportKind, Reported};

/// Stores reports of a session.
pub(super) fn report(tx: &mut Tx<'_>, report: &Report) -> Result<Reported> {
    let before = tx.session(report.session)?;
    let new = unknown_yet(&before, report)?;
    let mut duplicates = (report.events.len() - new.len()) as u64;
    let workspace = tx.workspace(before.workspace_no)?;
    let mut writing = Writing {
        workspace: &workspace,
        session: (*before).clone(),
        at: report.at,
        jitter: report.jitter,
        accepted: report.accepted,
    };
    let Some(last) = new.last() else {
        return Ok(Reported {
            acked: before.acked,
            duplicates,
        });
    };
    for numbered in new {
        writing.check(&numbered.report)?;
    }
    for numbered in new {
        let told = writing.write(tx, &numbered.report)?;
        duplicates += u64::from(told == Told::Known);
    }
    let row = SessionRow {
        acked: last.n,
        seen_at: report.at,
        ..writing.session
    };
    let row = tx.update_session(row)?;
    tx.settle_ended(&row, report.at, report.jitter)?;
    Ok(Reported {
        acked: row.acked,
        duplicates,
    })
}

/// The reports that come after the last one that is stored.
fn unknown_yet<'r>(row: &SessionRow, report: &'r Report) -> Result<&'r [NumberedReport]> {
    let events = &report.events;
    let known = events.iter().take_while(|event| event.n <= row.acked);
    let new = &events[known.count()..];
    if !new.is_empty() && !report.accepted {
        check_goes_on(row)?;
    }
    for (expected, event) in (row.acked + 1..).zip(new) {
        if event.n != expected {
            return Err(Error::EventGap {
                expected,
                found: event.n,
            });
        }
    }
    Ok(new)
}

fn check_goes_on(row: &SessionRow) -> Result<()> {
    match row.status.is_terminal() {
        false => Ok(()),
        true => Err(Error::SessionEnded {
            id: row.id,
            status: row.status,
        }),
    }
}

/// Whether a report told anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    News,
    Known,
}

/// Reports on their way into the store.
struct Writing<'w> {
    workspace: &'w WorkspaceRow,
    /// The session as the reports so far have made it.
    session: SessionRow,
    at: Timestamp,
    jitter: u64,
    /// Whether the session may have ended since.
    accepted: bool,
}

impl Writing<'_> {
    /// Refuses what the session did not declare, before anything is written.
    fn check(&self, report: &ReportKind) -> Result<()> {
        let emits = |event: &AgentSessionEvent| check_emits(&self.session.capabilities, event);
        match report {
            ReportKind::Observation(event) | ReportKind::Known(event) => emits(event)?,
            ReportKind::Status { status, reason } => {
                emits(&AgentSessionEvent::StatusChanged(StatusChanged {
                    status: *status,
                    previous_status: None,
                    reason: reason.clone(),
                }))?;
            }
            // A receipt is checked with the delivery it is about.
            ReportKind::Receipt { .. } => {}
        }
        Ok(())
    }

    fn write(&mut self, tx: &mut Tx<'_>, report: &ReportKind) -> Result<Told> {
        if !self.accepted {
            check_goes_on(&self.session)?;
        }
        match report {
            ReportKind::Observation(event) => self.observation(tx, event),
            ReportKind::Status { status, reason } => self.status(tx, *status, reason.as_ref()),
            ReportKind::Receipt {
                delivery,
                offer,
                receipt,
            } => self.receipt(tx, *delivery, offer.as_deref(), receipt),
            ReportKind::Known(event) => self.known(tx, event),
        }
    }

    fn observation(&self, tx: &mut Tx<'_>, event: &AgentSessionEvent) -> Result<Told> {
        let report = SessionReport {
            agent_id: tx.agent_by_no(self.session.agent)?.id,
            session_id: Some(self.session.id),
            event: event.clone(),
        };
        tx.log(self.workspace, self.at, observed(report)?)?;
        Ok(Told::News)
    }

    fn status(
        &mut self,
        tx: &mut Tx<'_>,
        status: AgentStatus,
        reason: Option<&String>,
    ) -> Result<Told> {
        let previous = self.session.status;
        let capabilities = &self.session.capabilities;
        check_change(previous, status, StatusSource::Session, capabilities)?;
        let (agent, session) = (self.session.agent, self.session.no);
        // A report and a question come over different ways: one that was on its way does not undo that the session waits.
        let waits = status == AgentStatus::Active && tx.has_open_question(agent, session)?;
        let (status, reason) = match (waits, previous) {
            (true, AgentStatus::Waiting | AgentStatus::Blocked) => return Ok(Told::Known),
            (true, _) => (AgentStatus::Waiting, Some(WAITS.to_owned())),
            (false, _) => (status, reason.cloned()),
        };
        if status == previous {
            return Ok(Told::Known);
        }
        become_status(&mut self.session, status, reason, self.at);
        tx.log_status(self.workspace, &self.session, Some(previous), self.at)?;
        Ok(Told::News)
    }

    fn receipt(
        &self,
        tx: &mut Tx<'_>,
        delivery: DeliveryId,
        offer: Option<&Offer>,
        receipt: &MessageReceipt,
    ) -> Result<Told> {
        let stored = tx.delivery_of(self.workspace, self.session.agent, delivery)?;
        let message_id = id_at(self.workspace.id, stored.row.message, stored.sent_at);
        let form = session_form(receipt, delivery, message_id);
        check_emits(&self.session.capabilities, &form)?;
        let step = Step::Receipt {
            session: Some(self.session.no),
            offer: offer.cloned().map(Box::new),
            epoch: None,
            receipt: receipt.clone(),
        };
        let taken = Taken {
            jitter: self.jitter,
            ..Taken::plain(&step, self.at)
        };
        let advanced = tx.step(stored, &taken)?;
        Ok(if advanced.moved {
            Told::News
        } else {
            Told::Known
        })
    }

    /// Compares what a session says of messages, calls and its own life with what Relay knows. What Relay has
    /// not told listeners by itself they hear now.
    fn known(&self, tx: &mut Tx<'_>, event: &AgentSessionEvent) -> Result<Told> {
        use InvocationState as S;
        match event {
            AgentSessionEvent::MessageReceived(report) => {
                self.check_received(tx, report)?;
                self.observation(tx, event)
            }
            AgentSessionEvent::MessageSent(report) => {
                self.check_sent(tx, report.message_id)?;
                self.observation(tx, event)
            }
            AgentSessionEvent::SessionStarted(report) => self.is_itself(report.session_id),
            AgentSessionEvent::SessionReleased(report) => self.is_released(report.session_id),
            AgentSessionEvent::SessionResumed(report) => self.is_itself(report.session_id),
            AgentSessionEvent::SessionForked(report) => self.knows_fork(tx, report),
            AgentSessionEvent::ActionInvoked(report) => {
                self.knows_call(tx, report.invocation_id, &report.action, None)
            }
            AgentSessionEvent::ActionCompleted(report) => {
                self.knows_call(tx, report.invocation_id, &report.action, Some(S::Completed))
            }
            AgentSessionEvent::ActionFailed(report) => {
                self.knows_call(tx, report.invocation_id, &report.action, Some(S::Failed))
            }
            AgentSessionEvent::ActionDenied(report) => {
                self.knows_call(tx, report.invocation_id, &report.action, Some(S::Denied))
            }
            other => Err(misplaced(other, "a fact that Relay logs by itself")),
        }
    }

    /// Refuses a message that the session's agent has not sent.
    fn check_sent(&self, tx: &Tx<'_>, id: MessageId) -> Result<()> {
        let full = load(tx.connection, self.workspace, self.viewer(), id)?;
        if full.author == Some(self.session.agent) {
            return Ok(());
        }
        let found = match &full.message.from.name {
            Some(author) => format!("a message that @{author} sent"),
            None => "a message that somebody else sent".to_owned(),
        };
        Err(Error::Invalid {
            path: "event.messageId",
            expected: "a message that the session's agent sent".to_owned(),
            found,
        })
    }

    /// Refuses a message that was never to be delivered to the session's agent.
    fn check_received(&self, tx: &Tx<'_>, report: &MessageReceivedReport) -> Result<()> {
        let agent = self.session.agent;
        if let Some(id) = report.delivery_id {
            let stored = tx.delivery_of(self.workspace, agent, id)?;
            let carried: MessageId = id_at(self.workspace.id, stored.row.message, stored.sent_at);
            return match carried == report.message_id {
                true => Ok(()),
                false => Err(Error::Invalid {
                    path: "event.messageId",
                    expected: format!("{carried}, which the delivery {id} carries"),
                    found: report.message_id.to_string(),
                }),
            };
        }
        let full = load(
            tx.connection,
            self.workspace,
            self.viewer(),
            report.message_id,
        )?;
        if deliveries_to(tx, &full, agent)?.is_empty() {
            return Err(Error::Invalid {
                path: "event.messageId",
                expected: "a message with a delivery to the session's agent".to_owned(),
                found: "a message without one".to_owned(),
            });
        }
        Ok(())
    }

    /// Refuses a call that the session's agent neither made nor handles, or that is not as it says. Listeners
    /// know of it already.
    fn knows_call(
        &self,
        tx: &Tx<'_>,
        id: InvocationId,
        action: &str,
        state: Option<InvocationState>,
    ) -> Result<Told> {
        let row = invocations::find(tx.connection, self.viewer(), id)?;
        if row.name != action {
            return Err(Error::Invalid {
                path: "event.action",
                expected: format!("{:?}, which the call {id} is of", row.name),
                found: format!("{action:?}"),
            });
        }
        match state {
            Some(state) if state != row.state => Err(Error::Invalid {
                path: "event.type",
                expected: format!("what has become of the call {id}: {}", row.state),
                found: format!("action.{state}"),
            }),
            _ => Ok(Told::Known),
        }
    }

    const fn viewer(&self) -> Viewer {
        Viewer {
            workspace_no: self.workspace.no,
            agent: Some(self.session.agent),
        }
    }

    /// Refuses the end of a session that nobody has asked to end.
    fn is_released(&self, id: SessionId) -> Result<Told> {
        match (self.is_itself(id)?, self.session.status) {
            (told, AgentStatus::Releasing) => Ok(told),
            (_, status) => Err(Error::Invalid {
                path: "event.type",
                expected: "`session.released` only once the release of the session has begun"
                    .to_owned(),
                found: format!("a session that is {status}"),
            }),
        }
    }

    /// Refuses a fork that there is not: one of the two is this session, and the other one is what is claimed.
    fn knows_fork(&self, tx: &Tx<'_>, report: &SessionForked) -> Result<Told> {
        let (id, parent) = (report.session_id, report.parent_session_id);
        let of_workspace = Viewer {
            agent: None,
            ..self.viewer()
        };
        let of = match id == self.session.id {
            true => self.session.parent,
            // Found only if it is this session's own fork, whatever agent it acts as.
            false if parent == self.session.id => {
                sessions::find(tx.connection, of_workspace, id)?.parent
            }
            false => None,
        };
        if of == Some(parent) {
            Ok(Told::Known)
        } else {
            Err(Error::UnknownSession(id))
        }
    }

    fn is_itself(&self, id: SessionId) -> Result<Told> {
        if id == self.session.id {
            Ok(Told::Known)
        } else {
            Err(Error::UnknownSession(id))
        }
    }
}

fn misplaced(event: &AgentSessionEvent, expected: &str) -> Error {
    Error::Invalid {
        path: "event.type",
        expected: expected.to_owned(),
        found: event.tag().to_owned(),
    }
}

/// A receipt as the event by which a session reports it.
fn session_form(
    receipt: &MessageReceipt,
    delivery_id: DeliveryId,
    message_id: MessageId,
) -> AgentSessionEvent {
    let report = DeliveryReport {
        delivery_id,
        message_id,
    };
    match receipt {
        MessageReceipt::Accepted(_) => AgentSessionEvent::DeliveryAccepted(report),
        MessageReceipt::Delivered(_) => AgentSessionEvent::DeliveryDelivered(report),
        MessageReceipt::Deferred(deferred) => {
            AgentSessionEvent::DeliveryDeferred(DeliveryDeferredReport {
                delivery_id,
                message_id,
                available_at: deferred.available_at,
                reason: deferred.reason.clone(),
            })
        }
        MessageReceipt::Failed(failed) => AgentSessionEvent::DeliveryFailed(DeliveryFailedReport {
            delivery_id,
            message_id,
            reason: failed.reason.clone(),
            retryable: failed.retryable,
        }),
    }
}

/// An observation as listeners get it.
fn observed(report: SessionReport) -> Result<RelayEvent> {
    use AgentSessionEvent as E;
    let wrap = match &report.event {
        E::MessageReceived(_) => RelayEvent::MessageReceived,
        E::MessageSent(_) => RelayEvent::MessageSent,
        E::ToolCalled(_) => RelayEvent::ToolCalled,
        E::ToolCompleted(_) => RelayEvent::ToolCompleted,
        E::ToolFailed(_) => RelayEvent::ToolFailed,
        E::ToolOutput(_) => RelayEvent::ToolOutput,
        E::TranscriptChunk(_) => RelayEvent::TranscriptChunk,
        E::FileChanged(_) => RelayEvent::FileChanged,
        E::CommandStarted(_) => RelayEvent::CommandStarted,
        E::CommandCompleted(_) => RelayEvent::CommandCompleted,
        E::CommandFailed(_) => RelayEvent::CommandFailed,
        E::TerminalOutput(_) => RelayEvent::TerminalOutput,
        E::TerminalScreen(_) => RelayEvent::TerminalScreen,
        E::UsageUpdated(_) => RelayEvent::UsageUpdated,
        E::Log(_) => RelayEvent::Log,
        E::Error(_) => RelayEvent::Error,
        other => return Err(misplaced(other, "something that a session observes")),
    };
    Ok(wrap(report))
}
