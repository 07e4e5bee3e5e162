//! Webhooks: events that go out to a URL, and messages that come in from one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{EventId, WebhookId};
use crate::selector::{Filter, Selector, SelectorError};
use crate::time::Timestamp;
use crate::wire::literals;

/// The body of `POST /v1/webhooks`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWebhook {
    /// What is called for each event.
    pub url: String,
    /// Event names and patterns; at least one must match.
    pub events: Vec<String>,
    /// A filter that must hold as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// Headers that are sent along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Signs the calls; absent: one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The answer of `POST /v1/webhooks`. The secret is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookCreated {
    /// The webhook.
    pub id: WebhookId,
    /// What is called.
    pub url: String,
    /// Event names and patterns.
    pub events: Vec<String>,
    /// What signs the calls.
    pub secret: String,
}

/// The body of `PATCH /v1/webhooks/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateWebhook {
    /// Whether it is called from now on. Switched on again it goes on where it was.
    pub state: WebhookState,
}

/// The body of `POST /v1/webhooks/{id}/secret`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct RotateWebhookSecret {
    /// Signs the calls from now on; absent: one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// The answer of `POST /v1/webhooks/{id}/secret`. The secret is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookSecret {
    /// What signs the calls.
    pub secret: String,
    /// Until then calls are signed with the old one, too.
    pub old_valid_until: Timestamp,
}

literals! {
    /// Whether a webhook is called.
    pub enum WebhookState {
        /// It is.
        Active = "active",
        /// Not any more, after too many failures.
        Disabled = "disabled",
    }
}

/// An outbound webhook, without its secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookInfo {
    /// The webhook.
    pub id: WebhookId,
    /// What is called.
    pub url: String,
    /// Event names and patterns.
    pub events: Vec<String>,
    /// The filter that must hold as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// The names of the headers that are sent along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<Vec<String>>,
    /// Whether it is called.
    pub state: WebhookState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a call last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Timestamp>,
    /// Why the last call failed, when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// How many events wait to be sent.
    pub waiting: u64,
}

/// One call of a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookAttempt {
    /// The event that it carried.
    pub event_id: EventId,
    /// The place of that event in the log.
    pub seq: u64,
    /// The event's name.
    pub event_type: String,
    /// Which attempt it was, counted from 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// The HTTP status that came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// When the next one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
}

/// The body of `POST /v1/webhooks/{id}/replay`: by id, or by a range of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct ReplayWebhook {
    /// These events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<EventId>>,
    /// From this place in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// To this place, which is included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
}

/// The answer of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookReplayed {
    /// How many events will be sent again.
    pub queued: u64,
}

/// The body of `POST /v1/webhooks/inbound`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateInboundWebhook {
    /// The channel that its messages go to.
    pub channel: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The answer of `POST /v1/webhooks/inbound`. The token is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboundWebhookCreated {
    /// The webhook.
    pub id: WebhookId,
    /// Where messages are posted.
    pub url: String,
    /// The credential for posting them.
    pub token: String,
}

/// A way for messages to come in, without its credential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboundWebhookInfo {
    /// The webhook.
    pub id: WebhookId,
    /// The channel that its messages go to.
    pub channel: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The body of `POST /hooks/{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InboundMessage {
    /// What is said.
    pub message: String,
    /// Who says it; shown as "name (via webhook)".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

impl CreateWebhook {
    /// The selectors of its events and its filter; an event must match one of the first and the last.
    pub fn selectors(&self) -> Result<(Vec<Selector>, Option<Selector>), SelectorError> {
        let events = self.events.iter().map(|event| Selector::parse(event));
        let filter = self.filter.clone().map(Selector::from_filter);
        Ok((events.collect::<Result<_, _>>()?, filter.transpose()?))
    }
}
