//! What is told about deliveries: facts become events of the log.

use std::sync::Arc;

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{MessageReceipt, Surfaced};
use relay_protocol::event::{
    DeliveryAccepted, DeliveryCancelled, DeliveryCreated, DeliveryDeferred, DeliveryDelivered,
    DeliveryFailed, DeliveryLateReceipt, RelayEvent,
};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::message::RelayMessage;
use relay_protocol::session_event::{
    AgentSessionEvent, DeliveryDeferredReport, DeliveryFailedReport, DeliveryReport,
};
use relay_protocol::time::Timestamp;

use super::delivery_rows::StoredDelivery;
use super::directory::{from_json, to_json};
use super::message_read::message_at;
use super::writer::Tx;
use crate::delivery::apply::{Fact, FactKind};
use crate::error::Result;
use crate::store::position::{Position, id_at};
use crate::store::records::{AgentRow, DeliveryRow, WorkspaceRow};

/// Whose delivery an event is about.
pub(super) struct About {
    pub(super) delivery_id: DeliveryId,
    pub(super) message_id: MessageId,
    pub(super) agent: Arc<AgentRow>,
    pub(super) session_id: Option<SessionId>,
}

impl About {
    /// The event that tells a fact. The message is read only where the event carries it.
    fn event(
        &self,
        what: FactKind,
        message: impl FnOnce() -> Result<Arc<RelayMessage>>,
    ) -> Result<RelayEvent> {
        Ok(match what {
            FactKind::Accepted { metadata } => self.accepted(metadata),
            FactKind::Delivered { metadata } => self.delivered(metadata),
            FactKind::Deferred {
                available_at,
                reason,
            } => self.deferred(available_at, reason),
            FactKind::AttemptFailed {
                reason,
                attempt,
                next_attempt_at,
            } => RelayEvent::DeliveryFailed(DeliveryFailed {
                attempt: Some(attempt),
                next_attempt_at: Some(next_attempt_at),
                ..self.failed(message()?, reason, true)
            }),
            FactKind::Failed {
                reason,
                attempt,
                surfaced,
                error,
            } => RelayEvent::DeliveryFailed(DeliveryFailed {
                attempt,
                surfaced: Some(surfaced),
                error,
                ..self.failed(message()?, reason, false)
            }),
            FactKind::Cancelled { reason, surfaced } => self.cancelled(reason, surfaced),
            FactKind::LateReceipt { receipt } => self.late_receipt(receipt),
        })
    }

    fn report(&self) -> DeliveryReport {
        DeliveryReport {
            delivery_id: self.delivery_id,
            message_id: self.message_id,
        }
    }

    fn accepted(&self, metadata: Option<Metadata>) -> RelayEvent {
        RelayEvent::DeliveryAccepted(DeliveryAccepted {
            delivery_id: self.delivery_id,
            message_id: Some(self.message_id),
            agent: self.agent.lasting_identity(),
            agent_id: Some(self.agent.id),
            session_id: self.session_id,
            event: self.form(|| AgentSessionEvent::DeliveryAccepted(self.report())),
            metadata,
        })
    }

    fn delivered(&self, metadata: Option<Metadata>) -> RelayEvent {
        RelayEvent::DeliveryDelivered(DeliveryDelivered {
            delivery_id: self.delivery_id,
            message_id: Some(self.message_id),
            agent: self.agent.lasting_identity(),
            agent_id: Some(self.agent.id),
            session_id: self.session_id,
            event: self.form(|| AgentSessionEvent::DeliveryDelivered(self.report())),
            terminal: Some(true),
            metadata,
        })
    }

    pub(super) fn deferred(&self, available_at: Timestamp, reason: Option<String>) -> RelayEvent {
        let form = || {
            AgentSessionEvent::DeliveryDeferred(DeliveryDeferredReport {
                delivery_id: self.delivery_id,
                message_id: self.message_id,
                available_at,
                reason: reason.clone(),
            })
        };
        RelayEvent::DeliveryDeferred(DeliveryDeferred {
            delivery_id: self.delivery_id,
            message_id: Some(self.message_id),
            agent: self.agent.lasting_identity(),
            agent_id: Some(self.agent.id),
            session_id: self.session_id,
            available_at,
            event: self.form(form),
            reason,
        })
    }

    /// A failure about which no more is said than its reason.
    pub(super) fn failed(
        &self,
        message: Arc<RelayMessage>,
        reason: String,
        retryable: bool,
    ) -> DeliveryFailed {
        let form = || {
            AgentSessionEvent::DeliveryFailed(DeliveryFailedReport {
                delivery_id: self.delivery_id,
                message_id: self.message_id,
                reason: reason.clone(),
                retryable: Some(retryable),
            })
        };
        DeliveryFailed {
            delivery_id: self.delivery_id,
            message_id: Some(self.message_id),
            message,
            agent: self.agent.lasting_identity(),
            agent_id: Some(self.agent.id),
            session_id: self.session_id,
            event: self.form(form),
            reason,
            retryable: Some(retryable),
            attempt: None,
            next_attempt_at: None,
            terminal: (!retryable).then_some(true),
            surfaced: None,
            error: None,
        }
    }

    fn cancelled(&self, reason: Option<String>, surfaced: Surfaced) -> RelayEvent {
        RelayEvent::DeliveryCancelled(DeliveryCancelled {
            delivery_id: self.delivery_id,
            message_id: Some(self.message_id),
            agent: self.agent.lasting_identity(),
            agent_id: Some(self.agent.id),
            session_id: self.session_id,
            reason,
            terminal: Some(true),
            surfaced: Some(surfaced),
        })
    }

    fn late_receipt(&self, receipt: MessageReceipt) -> RelayEvent {
        RelayEvent::DeliveryLateReceipt(DeliveryLateReceipt {
            delivery_id: self.delivery_id,
            message_id: Some(self.message_id),
            agent: self.agent.lasting_identity(),
            agent_id: Some(self.agent.id),
            session_id: self.session_id,
            receipt,
        })
    }

    /// The session's form of the event, where a session is concerned.
    fn form(&self, form: impl FnOnce() -> AgentSessionEvent) -> Option<AgentSessionEvent> {
        self.session_id.map(|_| form())
    }
}

impl Tx<'_> {
    /// Logs what happened to a delivery.
    pub(super) fn log_fact(
        &mut self,
        workspace: &WorkspaceRow,
        stored: &StoredDelivery,
        fact: Fact,
        at: Timestamp,
    ) -> Result<()> {
        let about = About {
            delivery_id: stored.row.id(workspace.id),
            message_id: id_at(workspace.id, stored.row.message, stored.sent_at),
            agent: self.agent_by_no(stored.row.agent)?,
            session_id: fact.session,
        };
        let message = || message_at(self.connection, workspace.id, stored.row.message);
        match about.event(fact.what, message)? {
            RelayEvent::DeliveryFailed(failed) => {
                self.log_failed(workspace, at, stored.row.message, failed)
            }
            event => self.log(workspace, at, event).map(drop),
        }
    }

    /// Logs a delivery that was not made by the send of its message, to which the row refers.
    pub(super) fn log_created(
        &mut self,
        workspace: &WorkspaceRow,
        row: &DeliveryRow,
        agent: &AgentRow,
        message: Arc<RelayMessage>,
    ) -> Result<Position> {
        let event = RelayEvent::DeliveryCreated(DeliveryCreated {
            delivery_id: row.id(workspace.id),
            message_id: Some(message.id),
            message,
            agent: agent.lasting_identity(),
            agent_id: Some(agent.id),
            mode: row.mode,
        });
        let payload = without_message(&event)?;
        self.log_about(workspace, row.at, Some(row.message), &payload, event)
    }

    /// Logs a failed delivery. The row refers to the message; listeners get it whole.
    pub(super) fn log_failed(
        &mut self,
        workspace: &WorkspaceRow,
        at: Timestamp,
        position: Position,
        event: DeliveryFailed,
    ) -> Result<()> {
        let event = RelayEvent::DeliveryFailed(event);
        let payload = without_message(&event)?;
        self.log_about(workspace, at, Some(position), &payload, event)
            .map(drop)
    }
}

/// The JSON of an event that carries a message, without it.
fn without_message(event: &RelayEvent) -> Result<String> {
    let mut fields: serde_json::Map<String, serde_json::Value> = from_json(&to_json(event)?)?;
    fields.remove(MESSAGE);
    to_json(&fields)
}

/// Reads an event back from what [`without_message`] left of it.
pub(super) fn with_message(
    payload: &str,
    message: &RelayMessage,
) -> Result<RelayEvent, serde_json::Error> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(payload)?;
    fields.insert(MESSAGE.to_owned(), serde_json::to_value(message)?);
    serde_json::from_value(fields.into())
}

/// Where an event carries its message.
const MESSAGE: &str = "message";
