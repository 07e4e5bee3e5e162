//! The other side of a webhook: whether a call comes from Relay, and which event it brings.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use relay_protocol::event::LoggedEvent;
use relay_protocol::wire::{self, DecodeError};
use relay_signature::{InvalidSecret, Secret, TOLERANCE, VerifyError};

/// Believes calls that one of its secrets signed.
///
/// ```
/// # fn example(headers: &http::HeaderMap, body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// use relay_sdk::WebhookVerifier;
///
/// let verifier = WebhookVerifier::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// // In the receiver's handler, with the body as it came:
/// match verifier.verify(headers, body) {
///     Ok(event) => println!("{} {}", event.id, event.event_type),
///     Err(error) => println!("answer 401: {error}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// An event can come more than once, always with the same id: keep the ids that were dealt with. Answer with 2xx
/// within 15 s; whatever else is answered, the event is sent again.
#[derive(Clone, Debug)]
pub struct WebhookVerifier {
    secrets: Vec<Secret>,
    tolerance: Duration,
}

/// Why a call is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Somebody else sent it, it was changed, or it is too old. Answer it with 401.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// It is signed as it should be, but it brings no event. Answer it with 400.
    #[error("expected an event: {0}")]
    Unreadable(#[from] DecodeError),
}

impl WebhookVerifier {
    /// Believes what this secret signed.
    pub fn new(secret: &str) -> Result<Self, InvalidSecret> {
        let verifier = Self {
            secrets: Vec::new(),
            tolerance: TOLERANCE,
        };
        verifier.or(secret)
    }

    /// Believes what this secret signed, too: a webhook's next one, before it is replaced.
    pub fn or(mut self, secret: &str) -> Result<Self, InvalidSecret> {
        self.secrets.push(Secret::parse(secret)?);
        Ok(self)
    }

    /// How far the clocks may be apart, and how long somebody who overheard a call can repeat it. Default: 5 minutes.
    #[must_use]
    pub const fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Reads the event in a call: its headers, and its body as it came, byte for byte.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<LoggedEvent, WebhookError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.verify_at(now.unwrap_or_default().as_secs(), headers, body)
    }

    /// The same at another time, in seconds since 1970.
    pub fn verify_at(
        &self,
        now: u64,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<LoggedEvent, WebhookError> {
        let check = |secret: &Secret| secret.verify_within(self.tolerance, headers, body, now);
        let mut checks = self.secrets.iter().map(check);
        // All of them find the same wrong, but for the signature.
        let first = checks.next().unwrap_or(Err(VerifyError::Signature));
        checks.fold(first, Result::or)?;
        Ok(wire::decode_lenient(body)?)
    }
}
