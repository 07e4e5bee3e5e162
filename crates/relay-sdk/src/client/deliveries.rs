//! Deliveries: following them, and the spec's `DeliveryRunner`.

use relay_protocol::api::Page;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{
    CancelDelivery, DeliverContext, DeliverMessage, Delivery, Flush, Flushed, RetryDelivery,
};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use serde::Serialize;

use super::{Client, bare, part};
use crate::error::Result;
use crate::http::{Call, with_query};
use crate::listening::AgentRef;

/// Which deliveries are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryQuery {
    /// Only those for this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Only those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// The `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

impl Client {
    /// The coordinator of deliveries.
    #[must_use]
    pub fn deliveries(&self) -> DeliveryRunner {
        DeliveryRunner {
            client: self.clone(),
        }
    }

    /// One delivery with every decision, attempt and receipt, and all of it in plain words.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Delivery> {
        let path = format!("/v1/deliveries/{id}");
        self.http().json(Call::get(path)).await
    }

    /// Deliveries, newest first.
    pub async fn list_deliveries(&self, query: &DeliveryQuery) -> Result<Page<Delivery>> {
        let path = with_query("/v1/deliveries", query);
        self.http().json(Call::get(path)).await
    }
}

/// Turns messages into attempts at sessions: the spec's coordinator, which runs in the server.
#[derive(Clone)]
pub struct DeliveryRunner {
    client: Client,
}

/// What to deliver, and to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliverInput {
    /// The stored message.
    pub message: MessageId,
    /// Whom it is delivered to.
    pub target: DeliveryTarget,
    /// How the session should treat it; the server fills in the rest.
    pub context: DeliverContext,
}

/// Whom a message is delivered to.
#[derive(Clone, Debug, PartialEq)]
pub enum DeliveryTarget {
    /// An agent: its current session.
    Agent(String),
    /// One session.
    Session(SessionId),
}

impl DeliveryTarget {
    /// An agent, by name, identity or client.
    pub fn agent(agent: impl AgentRef) -> Self {
        Self::Agent(agent.agent_ref().to_owned())
    }
}

/// What is to be let go.
#[derive(Clone, Debug, PartialEq)]
pub struct FlushInput {
    /// Whose deliveries.
    pub agent: String,
    /// Only those of this mode.
    pub mode: Option<DeliveryMode>,
    /// Only this one.
    pub delivery_id: Option<DeliveryId>,
}

impl FlushInput {
    /// Everything that waits for an agent.
    pub fn all(agent: impl AgentRef) -> Self {
        Self {
            agent: agent.agent_ref().to_owned(),
            mode: None,
            delivery_id: None,
        }
    }

    /// Only what waits in this mode.
    #[must_use]
    pub const fn mode(mut self, mode: DeliveryMode) -> Self {
        self.mode = Some(mode);
        self
    }
}

impl DeliveryRunner {
    /// Delivers a stored message. The answer is the session's receipt or, while Relay holds the message,
    /// `accepted` with `metadata.heldBy: "relay"`.
    pub async fn deliver(&self, input: DeliverInput) -> Result<MessageReceipt> {
        let (agent, session_id) = match input.target {
            DeliveryTarget::Agent(name) => (Some(bare(&name).to_owned()), None),
            DeliveryTarget::Session(id) => (None, Some(id)),
        };
        let body = DeliverMessage {
            message_id: input.message,
            agent,
            session_id,
            context: Some(input.context),
        };
        let call = Call::post("/v1/deliveries", &body);
        self.client.http().json(call).await
    }

    /// Reopens a failed delivery under the same id.
    pub async fn retry(&self, delivery_id: DeliveryId) -> Result<MessageReceipt> {
        let path = format!("/v1/deliveries/{delivery_id}/retry");
        let call = Call::post(path, &RetryDelivery {});
        self.client.http().json(call).await
    }

    /// Lets everything go that waits for an agent; one receipt each.
    pub async fn flush(&self, input: FlushInput) -> Result<Vec<MessageReceipt>> {
        let path = format!("/v1/agents/{}/flush", part(bare(&input.agent)));
        let body = Flush {
            mode: input.mode,
            delivery_id: input.delivery_id,
        };
        let flushed: Flushed = self.client.http().json(Call::post(path, &body)).await?;
        Ok(flushed.receipts)
    }

    /// Calls a delivery back; how it ended.
    pub async fn cancel(&self, delivery_id: DeliveryId, reason: Option<&str>) -> Result<Delivery> {
        let path = format!("/v1/deliveries/{delivery_id}/cancel");
        let body = CancelDelivery {
            reason: reason.map(str::to_owned),
        };
        self.client.http().json(Call::post(path, &body)).await
    }
}
