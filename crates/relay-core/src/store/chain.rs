//! The hash chain over a workspace's log. Pure: bytes in, hashes out.
//!
//! A row's hash covers its header, the hash of the row before it and a digest of its payload. The
//! digest is salted, so that erasing payload and salt leaves nothing to guess a short secret from,
//! while the chain still verifies. All fields are length-prefixed or of fixed length: no two different
//! rows feed the same bytes.

use sha2::{Digest as _, Sha256};

/// SHA-256.
pub type Hash = [u8; 32];

/// What every chain begins with.
pub const GENESIS: Hash = [0; 32];

/// Random bytes that make a payload's digest unguessable.
pub type Salt = [u8; 16];

/// The part of a row that outlives its payload.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The first sequence number of the row.
    pub seq: u64,
    /// How many events the row stands for.
    pub count: u64,
    /// The id of the first event.
    pub id: [u8; 16],
    /// The name of the first event.
    pub event_type: &'a str,
    /// Milliseconds since 1970.
    pub at: i64,
}

/// The hash of a row.
#[must_use]
pub fn link(previous: &Hash, header: Header<'_>, payload: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(b"relay.log.1");
    hasher.update(previous);
    hasher.update(header.seq.to_le_bytes());
    hasher.update(header.count.to_le_bytes());
    hasher.update(header.id);
    hasher.update(header.at.to_le_bytes());
    hasher.update((header.event_type.len() as u64).to_le_bytes());
    hasher.update(header.event_type);
    hasher.update(payload);
    hasher.finalize().into()
}

/// Collects the fields of a payload into its digest.
pub struct PayloadDigest(Sha256);

impl PayloadDigest {
    /// Begins a digest with the row's salt.
    #[must_use]
    pub fn new(salt: &Salt) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"relay.payload.1");
        hasher.update(salt);
        Self(hasher)
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds text, or that there is none.
    pub fn text(&mut self, text: Option<&str>) -> &mut Self {
        self.0.update([u8::from(text.is_some())]);
        self.bytes(text.unwrap_or_default().as_bytes())
    }

    /// Adds a number, or that there is none.
    pub fn number(&mut self, number: Option<i64>) -> &mut Self {
        self.0.update([u8::from(number.is_some())]);
        self.0.update(number.unwrap_or_default().to_le_bytes());
        self
    }

    /// The digest.
    #[must_use]
    pub fn finish(self) -> Hash {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(fields: &[Option<&str>]) -> Hash {
        let mut digest = PayloadDigest::new(&[7; 16]);
        for field in fields {
            digest.text(*field);
        }
        digest.finish()
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        assert_ne!(
            digest(&[Some("ab"), Some("c")]),
            digest(&[Some("a"), Some("bc")])
        );
        assert_ne!(digest(&[Some("")]), digest(&[None]));
    }

    #[test]
    fn every_part_of_the_header_counts() {
        let base = Header {
            seq: 1,
            count: 1,
            id: [1; 16],
            event_type: "log",
            at: 5,
        };
        let changed = [
            Header { seq: 2, ..base },
            Header { count: 2, ..base },
            Header {
                id: [2; 16],
                ..base
            },
            Header {
                event_type: "error",
                ..base
            },
            Header { at: 6, ..base },
        ];
        let hash = link(&GENESIS, base, &[9; 32]);
        for header in changed {
            assert_ne!(link(&GENESIS, header, &[9; 32]), hash);
        }
        assert_ne!(link(&[1; 32], base, &[9; 32]), hash);
        assert_ne!(link(&GENESIS, base, &[8; 32]), hash);
    }
}
