//! What to measure, how long, and with what.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::server::ServerCommand;

/// What a run is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The parts to run, in this order.
    pub parts: Vec<Part>,
    /// How much of each.
    pub sizes: Sizes,
    /// The server under test.
    pub server: ServerCommand,
    /// An MCP server over standard input and output, which finds its server in `RELAY_URL` and `RELAY_TOKEN`.
    pub mcp: ServerCommand,
    /// Redis; looked for on the search path when it is a bare name. Without it ratios are left out.
    pub redis: PathBuf,
    /// Where to keep data meanwhile. It should be on the disk that counts, not in memory.
    pub directory: PathBuf,
    /// How long to wait, before each round, for others to leave the machine alone.
    pub wait_for_quiet: Duration,
}

/// How much, how often, how long.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Rounds, in which everything that is compared takes its turn.
    pub rounds: usize,
    /// How long one turn of load takes.
    pub turn: Duration,
    /// Clients that send.
    pub senders: usize,
    /// Agents that are sent to.
    pub receivers: usize,
    /// Sessions that take deliveries.
    pub sessions: usize,
    /// Messages that are sent one by one, with pauses, in a round.
    pub single: usize,
    /// Numbers of subscribers to one event.
    pub subscribers: Vec<usize>,
    /// Recipients of one message.
    pub recipients: usize,
    /// Events and messages that go to many, in a round.
    pub casts: usize,
    /// Sessions that do nothing.
    pub idle_sessions: usize,
    /// How long they are watched doing nothing.
    pub idle: Duration,
    /// Actions that there are when tools are listed.
    pub actions: usize,
    /// Webhooks that get each event.
    pub webhooks: usize,
    /// Calls of webhooks in a round.
    pub calls: usize,
    /// Permission requests that wait.
    pub waiting_permissions: usize,
    /// Messages in a small database.
    pub stored_small: usize,
    /// Messages in a large one.
    pub stored_large: usize,
    /// Messages that each agent has got in either.
    pub stored_per_agent: usize,
}

impl Sizes {
    /// What goals are judged by.
    #[must_use]
    pub fn full() -> Self {
        Self {
            rounds: 5,
            turn: Duration::from_secs(1),
            senders: 64,
            receivers: 100,
            sessions: 100,
            single: 200,
            subscribers: vec![1_000, 5_000],
            recipients: 1_000,
            casts: 20,
            idle_sessions: 10_000,
            idle: Duration::from_secs(3),
            actions: 1_000,
            webhooks: 100,
            calls: 10_000,
            waiting_permissions: 10_000,
            stored_small: 10_000,
            stored_large: 1_000_000,
            stored_per_agent: 1_000,
        }
    }

    /// A first impression.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            rounds: 3,
            turn: Duration::from_millis(400),
            single: 60,
            subscribers: vec![1_000],
            casts: 8,
            idle_sessions: 2_000,
            idle: Duration::from_secs(1),
            calls: 3_000,
            waiting_permissions: 2_000,
            stored_large: 100_000,
            ..Self::full()
        }
    }
}

macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident = $name:literal;)+) => {
        /// Something that can be measured by itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Part {
            $($(#[$doc])* $part,)+
        }

        impl Part {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$part),+];

            /// What users call it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$part => $name,)+
                }
            }
        }
    };
}

parts! {
    /// Durable sends over HTTP.
    Send = "send";
    /// The same, with and without words being indexed for searches.
    Search = "search";
    /// The same, several under way on a socket.
    Pipelined = "pipelined";
    /// From a send to its stored receipt.
    Settled = "settled";
    /// Sessions that never answer, and the others.
    Silent = "silent";
    /// From a send to the session's handler, when nothing else happens.
    Latency = "latency";
    /// One event to many subscribers.
    Fanout = "fanout";
    /// One message to many recipients.
    Broadcast = "broadcast";
    /// Memory of sessions that do nothing.
    Idle = "idle";
    /// From the call of an action to its end.
    Actions = "actions";
    /// Events that go out to webhooks.
    Webhooks = "webhooks";
    /// From a request for permission to its decision, and many that wait.
    Permissions = "permissions";
    /// A start after a crash.
    Recovery = "recovery";
    /// Tool calls and lists over MCP.
    Mcp = "mcp";
    /// A small and a large database.
    Growth = "growth";
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no part has.
#[derive(Debug)]
pub struct UnknownPart(String);

impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
        let Self(found) = self;
        write!(
            f,
            "nothing is measured by {found:?}; there are {}",
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownPart {}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(text: &str) -> Result<Self, UnknownPart> {
        let found = Self::ALL.iter().find(|part| part.name() == text);
        found.copied().ok_or_else(|| UnknownPart(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_name_of_its_own() {
        for part in Part::ALL {
            assert_eq!(part.name().parse::<Part>().unwrap(), *part);
            let json = serde_json::to_string(part).unwrap();
            assert_eq!(json, format!("{:?}", part.name()));
        }
        let error = "sends".parse::<Part>().unwrap_err().to_string();
        assert!(
            error.contains("\"sends\"; there are send, search, pipelined"),
            "{error}"
        );
    }
}
