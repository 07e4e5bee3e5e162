//! One call of a webhook, and what it came to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use relay_core::Engine;
use relay_core::store::live::StoredEvent;
use relay_core::store::{CallMade, CallNext, WebhookRow};
use relay_outbound::{Line, Outbound, Request};
use relay_protocol::limits::{REASON_BYTES, WEBHOOK_TIMEOUT_MS};
use relay_protocol::time::Timestamp;
use relay_signature::{
    HEADER_ID, HEADER_SIGNATURE, HEADER_TIMESTAMP, InvalidSecret, Secret, Signed,
};

use crate::webhook::Calls;

/// What every call says by itself.
const SIGNING: [HeaderName; 3] = [HEADER_ID, HEADER_TIMESTAMP, HEADER_SIGNATURE];

/// What is to be sent.
pub(super) struct ToSend {
    pub(super) event: Arc<StoredEvent>,
    /// How many attempts there were.
    pub(super) attempts: u32,
    /// When the first one was; none: this is it.
    pub(super) since: Option<Timestamp>,
}

/// Makes a call.
pub(super) async fn call(
    engine: Arc<Engine>,
    calls: Arc<Calls>,
    line: Arc<Line>,
    row: Arc<WebhookRow>,
    to_send: ToSend,
) -> CallMade {
    let now = || calls.environment.clock.now();
    let (at, begun) = (now(), Instant::now());
    let answered = match request(&row, &to_send.event, at) {
        Ok(request) => {
            let timeout = Duration::from_millis(WEBHOOK_TIMEOUT_MS);
            match tokio::time::timeout(timeout, line.call(request)).await {
                Ok(Ok(answer)) => Ok(answer.status.as_u16()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no answer within {} s", timeout.as_secs())),
            }
        }
        Err(error) => Err(error),
    };
    let (status, error) = match answered {
        Ok(status @ 200..300) => (Some(status), None),
        Ok(status) => (
            Some(status),
            Some(format!("the answer's status is {status}")),
        ),
        Err(error) => (None, Some(shortened(error))),
    };
    let attempt = to_send.attempts + 1;
    let next = match (&error, status) {
        (None, _) => CallNext::Arrived,
        (_, Some(410)) => CallNext::NotWanted,
        _ => engine.after_failed_call(attempt, now()),
    };
    let event = &to_send.event.event;
    CallMade {
        seq: event.seq,
        event_at: event.at,
        event_type: event.event_type.clone(),
        attempt,
        since: to_send.since.unwrap_or(at),
        at,
        status,
        error,
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        next,
    }
}

/// The signed call: the event as listeners get it.
fn request(row: &WebhookRow, event: &StoredEvent, at: Timestamp) -> Result<Request, String> {
    let body = event.json().into_bytes();
    let id = event.event.id.to_string();
    let seconds = at.as_millis().unsigned_abs() / 1_000;
    let signed = signed(row, &id, seconds, &body, at);
    let signed = signed.map_err(|error| format!("the stored secret: {error}"))?;
    let mut request = Request::post_json(&row.body.url, body);
    request.headers.extend(extra_headers(&row.body.headers)?);
    signed.add_to(&mut request.headers);
    Ok(request)
}

/// The headers that a webhook sends along, or why they can't be sent.
pub(crate) fn extra_headers(given: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let header = HeaderName::try_from(name).ok();
        let header = header.filter(|header| !SIGNING.contains(header));
        let (Some(header), Ok(value)) = (header, HeaderValue::try_from(value)) else {
            return Err(format!("the header {name:?} can't be sent"));
        };
        headers.insert(header, value);
    }
    Outbound::check_headers(&headers).map_err(|error| error.to_string())?;
    Ok(headers)
}

/// Signed with the secret, and with the one before it while that is good.
fn signed(
    row: &WebhookRow,
    id: &str,
    seconds: u64,
    body: &[u8],
    at: Timestamp,
) -> Result<Signed, InvalidSecret> {
    let mut signed = Secret::parse(&row.secret)?.sign(id, seconds, body);
    if let Some((old, until)) = &row.old_secret
        && at < *until
    {
        let old = Secret::parse(old)?.sign(id, seconds, body);
        signed.signature = format!("{} {}", signed.signature, old.signature);
    }
    Ok(signed)
}

fn shortened(text: String) -> String {
    let most = REASON_BYTES.min(text.len());
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}
