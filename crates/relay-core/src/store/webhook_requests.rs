//! What the engine asks of a store about webhooks, and the rows that come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use relay_protocol::ids::WebhookId;
use relay_protocol::selector::Filter;
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::WebhookState;
use serde::{Deserialize, Serialize};

use super::live::StoredEvent;
use super::requests::NewToken;

/// The row of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WebhookNo(pub i64);

/// What is called for what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookBody {
    /// What is called.
    pub url: String,
    /// Event names and patterns; one must match.
    pub events: Vec<String>,
    /// A filter that must hold as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// Headers that are sent along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// A webhook that events go out to.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRow {
    /// Its row.
    pub no: WebhookNo,
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: WebhookId,
    /// What is called for what.
    pub body: WebhookBody,
    /// What signs the calls.
    pub secret: String,
    /// What signs them as well, until then.
    pub old_secret: Option<(String, Timestamp)>,
    /// Whether it is called.
    pub state: WebhookState,
    /// The sequence number of the last event that is dealt with, with all before.
    pub cursor: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a call last succeeded.
    pub last_success_at: Option<Timestamp>,
    /// Why the last call failed, when it did.
    pub last_error: Option<String>,
}

/// A webhook to make. It begins with the next event.
pub struct NewWebhook {
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: WebhookId,
    /// What is called for what.
    pub body: WebhookBody,
    /// What signs the calls.
    pub secret: String,
    /// When.
    pub at: Timestamp,
}

/// A change of a webhook.
pub struct WebhookChange {
    /// The workspace.
    pub workspace_no: u32,
    /// Which.
    pub id: WebhookId,
    /// A new secret, and until when the old one signs, too.
    pub secret: Option<(String, Timestamp)>,
    /// Whether it is called from now on.
    pub state: Option<WebhookState>,
    /// When.
    pub at: Timestamp,
}

/// How a call of a webhook went.
#[derive(Clone, Debug, PartialEq)]
pub struct CallMade {
    /// The event's sequence number.
    pub seq: u64,
    /// Its time.
    pub event_at: Timestamp,
    /// Its name.
    pub event_type: String,
    /// Which attempt it was, counted from 1.
    pub attempt: u32,
    /// When the first one was.
    pub since: Timestamp,
    /// When this one was.
    pub at: Timestamp,
    /// The HTTP status that came back.
    pub status: Option<u16>,
    /// What went wrong; none: it arrived.
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// What follows from it.
    pub next: CallNext,
}

/// What follows from a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallNext {
    /// Nothing: it arrived.
    Arrived,
    /// Another attempt at this time.
    Again(Timestamp),
    /// No more attempts for this event.
    GivenUp,
    /// No more calls at all.
    NotWanted,
}

/// What a webhook's calls came to.
pub struct WebhookProgress {
    /// The webhook.
    pub webhook: WebhookNo,
    /// Everything up to this sequence number is dealt with.
    pub cursor: u64,
    /// How calls went.
    pub made: Vec<CallMade>,
    /// Events that were to be sent again and are not in the log any more.
    pub gone: Vec<u64>,
    /// When.
    pub at: Timestamp,
}

/// An event that is to be sent again.
#[derive(Clone)]
pub struct WebhookRetry {
    /// The event; none: it is not in the log any more, or not readable.
    pub event: Option<Arc<StoredEvent>>,
    /// Its sequence number.
    pub seq: u64,
    /// How many attempts there were.
    pub attempts: u32,
    /// When the first one was.
    pub since: Timestamp,
}

/// What is to be sent again.
#[derive(Clone, Default)]
pub struct WebhookRetries {
    /// What is due.
    pub due: Vec<WebhookRetry>,
    /// When more is.
    pub next_at: Option<Timestamp>,
    /// How many there are, due or not.
    pub waiting: usize,
}

/// A way for messages to come in.
#[derive(Clone, Debug, PartialEq)]
pub struct InboundRow {
    /// Its row.
    pub no: i64,
    /// Its id, which is its credential's, too.
    pub id: WebhookId,
    /// The channel that its messages go to.
    pub channel: String,
    /// What people call it.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A way for messages to come in that is to be made.
pub struct NewInbound {
    /// The workspace.
    pub workspace_no: u32,
    /// The credential; its id is the webhook's.
    pub token: NewToken,
    /// The channel.
    pub channel: String,
    /// What people call it.
    pub name: Option<String>,
}

/// Events to send once more.
pub struct WebhookReplay {
    /// The workspace.
    pub workspace_no: u32,
    /// The webhook.
    pub id: WebhookId,
    /// Their sequence numbers.
    pub seqs: Vec<u64>,
    /// When.
    pub at: Timestamp,
}
