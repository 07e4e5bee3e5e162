//! The sizes and times redaction works within.

/// How long a stream may sit on an undecided tail before its owner calls [`flush`](super::Stream::flush).
pub const HOLD_MS: u64 = 200;

/// The most text a [`Stream`](super::Stream) keeps back while it cannot tell whether it is a secret.
pub const MAX_HELD: usize = 64 * 1024;

/// Registered values shorter than this are ignored: they would match ordinary words.
pub const MIN_REGISTERED_LEN: usize = 8;

/// How long secrets that overlap one another are kept back to be replaced by a single marker.
pub(super) const MAX_JOINED: usize = 4 * 1024;

/// The longest token that is followed to its end.
pub(super) const MAX_SECRET: usize = 32 * 1024;

/// The longest value of an assignment such as `API_KEY=...`.
pub(super) const MAX_ASSIGNED: usize = 2 * 1024;

/// How far a command line is read for `-u user:password`.
pub(super) const MAX_COMMAND: usize = 2 * 1024;

/// What may stand between the `BEGIN` line of a private key and its first line of key material.
pub(super) const MAX_KEY_PREAMBLE: usize = 4 * 1024;

/// How far back from a literal any rule looks. A stream keeps this much emitted text as context.
pub(super) const REACH: usize = 128;

/// How much of an assigned name before its keyword matters.
pub(super) const MAX_NAME: usize = 64;

/// The longest terminal colour sequence; anything longer is treated as text.
pub(super) const MAX_ESCAPE: usize = 64;

// Every rule stops within its own limit, so the sum of what can be undecided stays below what a
// stream may hold.
const _: () = assert!(
    MAX_SECRET + MAX_ASSIGNED + MAX_COMMAND + MAX_JOINED + MAX_KEY_PREAMBLE + REACH < MAX_HELD
);
