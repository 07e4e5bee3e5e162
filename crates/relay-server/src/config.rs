//! What can be set about a server, with defaults that suit one machine.

use std::time::Duration;

use relay_core::KeepFor;
use relay_outbound::Outbound;
use relay_protocol::limits::{HELLO_TIMEOUT_MS, SILENCE_MS};

use crate::chat::Chat;
use crate::mcp::Mcp;

/// How a server behaves. [`Config::default`] is what `relay serve` runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Names, beside the address it listens on, under which the server may be called (`Host`), without a
    /// port. Loopback names always work on a loopback address. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Pages, beside the server's own, that may call it (`Origin`), such as `https://example.org`.
    /// Default: none.
    pub allowed_origins: Vec<String>,
    /// Most connections at a time; further ones are answered 503. Default: 16,384.
    pub connections: usize,
    /// How long the head of a request may take, and how long a connection may rest between two of them.
    /// Default: 20 s.
    pub header_timeout: Duration,
    /// How long the body of a request may take. Default: 30 s.
    pub body_timeout: Duration,
    /// How often one token may ask. Default: 10,000 a second, 20,000 at once.
    pub per_token: Rate,
    /// How often one address may bring a token that is not valid. Default: 1 a second, 20 at once.
    pub failed_authentications: Rate,
    /// How long work that has begun may go on after the server was told to stop. Default: 10 s.
    pub drain_timeout: Duration,
    /// How often a stream of events without events gives a sign of life. Default: 15 s.
    pub heartbeat: Duration,
    /// How often a socket is asked for a sign of life. Default: 10 s.
    pub ping_every: Duration,
    /// How long a socket, or a session that asks, may be silent before it counts as dead. Default: 30 s.
    pub silence: Duration,
    /// How long a socket without a credential in its header may take to say `hello`. Default: 10 s.
    pub hello_timeout: Duration,
    /// How long after the start unused uploads, old idempotency keys and dead tokens are removed first. Default: 10 s.
    pub collect_garbage_after: Duration,
    /// How often that is done from then on. Default: 1 h.
    pub collect_garbage_every: Duration,
    /// How long logs are kept. Default: for ever.
    pub keep_events: KeepFor,
    /// How often what need not be kept longer is removed. Default: 1 h.
    pub apply_retention_every: Duration,
    /// How the server calls others, such as sessions with webhooks. Default: the internet alone.
    pub outbound: Outbound,
    /// Who serves `/mcp`. Default: nobody.
    pub mcp: Mcp,
    /// Who answers in chats. Default: nobody.
    pub chat: Chat,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            connections: 16_384,
            header_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(30),
            per_token: Rate {
                per_second: 10_000,
                at_once: 20_000,
            },
            failed_authentications: Rate {
                per_second: 1,
                at_once: 20,
            },
            drain_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            ping_every: Duration::from_secs(10),
            silence: Duration::from_millis(SILENCE_MS),
            hello_timeout: Duration::from_millis(HELLO_TIMEOUT_MS),
            collect_garbage_after: Duration::from_secs(10),
            collect_garbage_every: Duration::from_secs(3_600),
            keep_events: KeepFor::default(),
            apply_retention_every: Duration::from_secs(3_600),
            outbound: Outbound::default(),
            mcp: Mcp::default(),
            chat: Chat::default(),
        }
    }
}

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// On average.
    pub per_second: u32,
    /// After a rest.
    pub at_once: u32,
}
