//! What the ACP host costs: beside a plain program that drives the same agent over the same pipes, in one run.
//!
//! `cargo bench -p relay-harness --bench host` runs all of it; names of parts as arguments (`updates`, `first`, `idle`, `messages`) run
//! those; `--quick` makes the rounds short. Figures: `docs/benchmarks.md`.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that can't go on has nothing to report"
)]

mod agent;
#[path = "../../../relay-script/tests/it/support/agents.rs"]
#[allow(dead_code, reason = "the tests of agents need more of it")]
mod agents;
#[path = "../../../relay-bench/src/figures.rs"]
mod figures;
mod first;
mod idle;
#[path = "../../../relay-bench/src/machine.rs"]
mod machine;
mod messages;
mod plain;
mod updates;

use std::time::Duration;

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// Updates of a turn.
    pub(crate) updates: u64,
    /// Turns of a round.
    pub(crate) turns: usize,
    /// Sessions that do nothing.
    pub(crate) idle: usize,
    /// Messages to each agent.
    pub(crate) messages: usize,
}

const STANDARD: Effort = Effort {
    rounds: 5,
    updates: 30_000,
    turns: 500,
    idle: 1_000,
    messages: 100,
};

const QUICK: Effort = Effort {
    rounds: 2,
    updates: 5_000,
    turns: 50,
    idle: 100,
    messages: 10,
};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let effort = match arguments.iter().any(|argument| argument == "--quick") {
        true => QUICK,
        false => STANDARD,
    };
    let parts: Vec<&String> = arguments
        .iter()
        .filter(|part| !part.starts_with('-'))
        .collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| *wanted == part);
    if wanted("updates") {
        updates::run(effort).await;
    }
    if wanted("first") {
        first::run(effort).await;
    }
    if wanted("idle") {
        idle::run(effort).await;
    }
    if wanted("messages") {
        messages::run(effort).await;
    }
}

/// Microseconds, for tables.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
