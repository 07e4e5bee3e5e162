//! Calls that are made through a session, which its client says in a header: they have to be ones that the session
//! can make.

use axum::http::HeaderMap;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::ids::SessionId;
use relay_protocol::negotiation::CapabilityMismatch;
use relay_protocol::problem::Problem;
use relay_protocol::session::SessionSummary;

use crate::access::{Access, Participant};
use crate::refusal::Refusal;

/// Names the session that a call is made through.
const RELAY_SESSION: &str = "relay-session";

/// Whether a session can do something.
type Check = fn(&AgentSessionCapabilities) -> Result<(), CapabilityMismatch>;

/// Refuses what the session that the call is made through can't do.
pub(super) async fn check_through(
    by: &Access<Participant>,
    headers: &HeaderMap,
    check: Check,
) -> Result<(), Refusal> {
    let Some(session) = through(by, headers).await? else {
        return Ok(());
    };
    check(&session.capabilities).map_err(|mismatch| Problem::from(mismatch).into())
}

/// The session that a call is made through, if it is made through one.
pub(crate) async fn through<K>(
    by: &Access<K>,
    headers: &HeaderMap,
) -> Result<Option<SessionSummary>, Refusal> {
    let Some(session) = headers.get(RELAY_SESSION) else {
        return Ok(None);
    };
    let text = session.to_str().unwrap_or_default();
    let id: SessionId = text
        .parse()
        .map_err(|_| Refusal::invalid("Relay-Session", "a UUID", text))?;
    Ok(Some(by.engine().session(by.caller(), id).await?))
}
