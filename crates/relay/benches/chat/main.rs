//! What the chat gateway costs: a real server as a process of its own, over real sockets, beside what does the same without Relay, in one
//! run.
//!
//! `cargo bench -p relay --bench chat` runs all of it; names of parts as arguments (`tokens`, `first`, `streams`, `approve`) run those;
//! `--quick` makes the rounds short. What Relay is compared with runs as a process, too: this program in another role (`role.rs`).
//! Figures: `docs/benchmarks.md`.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that can't go on has nothing to report"
)]

mod approve;
#[path = "../../../relay-bench/src/figures.rs"]
mod figures;
mod first;
#[path = "../../../relay-bench/src/machine.rs"]
mod machine;
mod plain;
#[path = "../../../relay-bench/src/platform.rs"]
#[allow(dead_code, unused_imports, reason = "`relay bench` needs more of it")]
mod platform;
mod reader;
mod role;
#[path = "../../../relay-bench/src/server.rs"]
#[allow(dead_code, unreachable_pub, reason = "`relay bench` needs more of it")]
mod server;
mod streams;
mod tokens;
#[path = "../../../relay-bench/src/wire/mod.rs"]
#[allow(dead_code, unused_imports, reason = "`relay bench` needs more of it")]
mod wire;
mod world;

use std::path::Path;
use std::time::Duration;

use figures::Latencies;
use machine::{DURABLE, synced_writes};

/// The allocator of the server under test, so that what it is compared with has it as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Tokens of a stream that is read at a pace.
    pub(crate) paced: u32,
    /// Streams that are read as fast as they come, one after the other.
    pub(crate) fast: usize,
    /// Chats that are only begun.
    pub(crate) begun: usize,
    /// Streams at once.
    pub(crate) streams: usize,
    /// How long these are watched.
    pub(crate) watched: Duration,
    /// Calls that are approved.
    pub(crate) calls: usize,
}

const STANDARD: Effort = Effort {
    rounds: 5,
    paced: 600,
    fast: 4,
    begun: 200,
    streams: 1_000,
    watched: Duration::from_secs(10),
    calls: 200,
};

const QUICK: Effort = Effort {
    rounds: 2,
    paced: 200,
    fast: 1,
    begun: 30,
    streams: 1_000,
    watched: Duration::from_secs(3),
    calls: 30,
};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if role::play(&arguments).await {
        return;
    }
    platform::allow_many_files();
    let effort = match arguments.iter().any(|argument| argument == "--quick") {
        true => QUICK,
        false => STANDARD,
    };
    let parts: Vec<&String> = arguments
        .iter()
        .filter(|part| !part.starts_with('-'))
        .collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| *wanted == part);
    if wanted("tokens") {
        tokens::run(effort).await;
    }
    if wanted("first") {
        first::run(effort).await;
    }
    if wanted("streams") {
        streams::run(effort).await;
    }
    if wanted("approve") {
        approve::run(effort).await;
    }
}

/// Microseconds, for tables.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Milliseconds, for tables.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What a synced write takes, in words.
pub(crate) fn synced_write(directory: &Path) -> String {
    let writes = synced_writes(directory, 100).unwrap();
    let write = Latencies::new(writes).percentile(50.0);
    let durable = match write < DURABLE {
        true => ": not durable here",
        false => "",
    };
    format!("a synced write takes {:.2} ms{durable}", millis(write))
}

/// The median of rounds, with the least and the greatest.
pub(crate) fn spread(rounds: &[f64], digits: usize) -> String {
    let (least, most) = figures::range(rounds);
    let middle = figures::median(rounds);
    format!("{middle:.digits$} ({least:.digits$}-{most:.digits$})")
}
