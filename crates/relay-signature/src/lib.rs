//! Signatures of calls, as [Standard Webhooks](https://www.standardwebhooks.com) describes them.
//!
//! Three headers go with the body: `webhook-id`, `webhook-timestamp` (seconds since 1970) and
//! `webhook-signature`, a list with spaces between of `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.
//! Several signatures let a secret be replaced without a moment in which calls are refused.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// The header that names the call; the same for every attempt at it.
pub const HEADER_ID: HeaderName = HeaderName::from_static("webhook-id");
/// The header with the time of the attempt.
pub const HEADER_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// The header with the signatures.
pub const HEADER_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// What a secret begins with whose rest is base64.
const PREFIX: &str = "whsec_";
/// Fewest bytes of a secret.
const SECRET_BYTES_MIN: usize = 16;
/// How far the clocks of the two sides may be apart, unless somebody says otherwise.
pub const TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// What both sides know. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// Why a text is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    /// It begins with `whsec_`, but the rest is not base64.
    #[error("expected base64 after whsec_")]
    NotBase64,
    /// It could be guessed.
    #[error("expected a secret of at least {SECRET_BYTES_MIN} bytes, found {found}")]
    TooShort {
        /// How many it has.
        found: usize,
    },
}

/// Why a call is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It is not signed: a header is missing.
    #[error("expected the header {0}, found none")]
    Missing(HeaderName),
    /// A header is not of its form.
    #[error("the header {0} can't be read")]
    Malformed(HeaderName),
    /// It was signed too long ago, or in the future: it may be a repetition.
    #[error("expected a call that was signed at most {tolerance_s} s from now, found {apart_s} s")]
    Timestamp {
        /// How far from now it was signed.
        apart_s: u64,
        /// How far it may be.
        tolerance_s: u64,
    },
    /// Somebody else signed it, or it was changed.
    #[error("no signature is right")]
    Signature,
}

/// A signed call's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The value of `webhook-id`.
    pub id: String,
    /// The value of `webhook-timestamp`.
    pub timestamp: u64,
    /// The value of `webhook-signature`.
    pub signature: String,
}

impl Secret {
    /// Reads a secret: base64 after `whsec_`, otherwise the text's own bytes.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let bytes = match text.strip_prefix(PREFIX) {
            Some(rest) => STANDARD
                .decode(rest)
                .map_err(|_| InvalidSecret::NotBase64)?,
            None => text.as_bytes().to_vec(),
        };
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(InvalidSecret::TooShort { found: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// A secret of these bytes, as text that [`Secret::parse`] reads.
    #[must_use]
    pub fn text(bytes: &[u8]) -> String {
        format!("{PREFIX}{}", STANDARD.encode(bytes))
    }

    /// Signs a call. `now` is in seconds since 1970.
    #[must_use]
    pub fn sign(&self, id: &str, now: u64, body: &[u8]) -> Signed {
        Signed {
            id: id.to_owned(),
            timestamp: now,
            signature: format!("v1,{}", STANDARD.encode(self.mac(id, now, body))),
        }
    }

    /// Believes a call or not: its headers, its body as it came, and the time in seconds since 1970.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), VerifyError> {
        self.verify_within(TOLERANCE, headers, body, now)
    }

    /// The same for clocks that may be so far apart.
    pub fn verify_within(
        &self,
        tolerance: Duration,
        headers: &HeaderMap,
        body: &[u8],
        now: u64,
    ) -> Result<(), VerifyError> {
        let (id, signatures) = (text(headers, HEADER_ID)?, text(headers, HEADER_SIGNATURE)?);
        let timestamp = text(headers, HEADER_TIMESTAMP)?.parse::<u64>();
        let timestamp = timestamp.map_err(|_| VerifyError::Malformed(HEADER_TIMESTAMP))?;
        let (apart_s, tolerance_s) = (timestamp.abs_diff(now), tolerance.as_secs());
        if apart_s > tolerance_s {
            return Err(VerifyError::Timestamp {
                apart_s,
                tolerance_s,
            });
        }
        let expected = self.mac(id, timestamp, body);
        let is_right = |signature: &str| {
            let signature = signature.strip_prefix("v1,");
            let found = signature.and_then(|signature| STANDARD.decode(signature).ok());
            found.is_some_and(|found| bool::from(found.ct_eq(&expected)))
        };
        if signatures.split(' ').any(is_right) {
            Ok(())
        } else {
            Err(VerifyError::Signature)
        }
    }

    fn mac(&self, id: &str, timestamp: u64, body: &[u8]) -> Vec<u8> {
        #[expect(clippy::unwrap_used, reason = "a key of any length will do")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        mac.finalize().into_bytes().to_vec()
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Result<&str, VerifyError> {
    match headers.get(&name).map(HeaderValue::to_str) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(VerifyError::Malformed(name)),
        None => Err(VerifyError::Missing(name)),
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Signed {
    /// Adds the three headers to a call.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        let values = [
            (HEADER_ID, HeaderValue::from_str(&self.id)),
            (HEADER_TIMESTAMP, Ok(HeaderValue::from(self.timestamp))),
            (HEADER_SIGNATURE, HeaderValue::from_str(&self.signature)),
        ];
        for (name, value) in values {
            // An id with other characters than headers can have makes an unsigned call, which is refused.
            if let Ok(value) = value {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of the public libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIMESTAMP: u64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn headers(id: &str, timestamp: &str, signature: &str) -> HeaderMap {
        let values = [
            (HEADER_ID, id),
            (HEADER_TIMESTAMP, timestamp),
            (HEADER_SIGNATURE, signature),
        ];
        let given = values.into_iter().filter(|(_, value)| !value.is_empty());
        given
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_public_example() {
        let secret = Secret::parse(SECRET).unwrap();
        let signed = secret.sign(ID, TIMESTAMP, BODY);
        assert_eq!(signed.signature, SIGNATURE);
        let mut headers = HeaderMap::new();
        signed.add_to(&mut headers);
        assert_eq!(secret.verify(&headers, BODY, TIMESTAMP + 300), Ok(()));
    }

    #[test]
    fn what_is_not_believed() {
        let secret = Secret::parse(SECRET).unwrap();
        let other = Secret::parse("another secret, long enough").unwrap();
        let time = TIMESTAMP.to_string();
        let two = format!("v1,AAAA v1a,xyz {SIGNATURE}");
        let missing = |name| Err(VerifyError::Missing(name));
        let forged = || Err(VerifyError::Signature);
        let late = Err(VerifyError::Timestamp {
            apart_s: 301,
            tolerance_s: 300,
        });
        let unreadable = Err(VerifyError::Malformed(HEADER_TIMESTAMP));
        let now = TIMESTAMP;
        let cases = [
            (ID, time.as_str(), SIGNATURE, BODY, now, Ok(())),
            (ID, &time, &two, BODY, now, Ok(())),
            ("", &time, SIGNATURE, BODY, now, missing(HEADER_ID)),
            (ID, "", SIGNATURE, BODY, now, missing(HEADER_TIMESTAMP)),
            (ID, &time, "", BODY, now, missing(HEADER_SIGNATURE)),
            (ID, "soon", SIGNATURE, BODY, now, unreadable),
            (ID, &time, SIGNATURE, BODY, now + 301, late.clone()),
            (ID, &time, SIGNATURE, BODY, now - 301, late),
            ("msg_x", &time, SIGNATURE, BODY, now, forged()),
            (ID, &time, SIGNATURE, b"{}", now, forged()),
            (ID, &time, "v1,AAAA", BODY, now, forged()),
            (ID, &time, &SIGNATURE[3..], BODY, now, forged()),
            (ID, "1614265331", SIGNATURE, BODY, now, forged()),
        ];
        for (id, timestamp, signature, body, now, expected) in cases {
            let headers = headers(id, timestamp, signature);
            assert_eq!(secret.verify(&headers, body, now), expected, "{headers:?}");
            assert!(other.verify(&headers, body, now).is_err());
        }
    }

    #[test]
    fn clocks_may_be_further_apart_for_whoever_says_so() {
        let secret = Secret::parse(SECRET).unwrap();
        let headers = headers(ID, &TIMESTAMP.to_string(), SIGNATURE);
        let within = |tolerance, now| {
            secret.verify_within(Duration::from_secs(tolerance), &headers, BODY, now)
        };
        assert_eq!(within(3_600, TIMESTAMP + 3_600), Ok(()));
        assert!(within(3_600, TIMESTAMP + 3_601).is_err());
        assert!(within(0, TIMESTAMP + 1).is_err());
    }

    #[test]
    fn secrets() {
        let plain = Secret::parse("0123456789abcdef").unwrap();
        let encoded = Secret::parse(&Secret::text(b"0123456789abcdef")).unwrap();
        assert_eq!(plain, encoded);
        assert_eq!(Secret::parse("whsec_***"), Err(InvalidSecret::NotBase64));
        let short = Secret::parse("0123456789abcde");
        assert_eq!(short, Err(InvalidSecret::TooShort { found: 15 }));
        assert!(!format!("{plain:?}").contains("0123"));
    }
}
