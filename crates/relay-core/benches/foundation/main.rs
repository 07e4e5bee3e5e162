//! What durable messaging costs in process, beside the same rows written by hand in the same run.
//!
//! `cargo bench -p relay-core --bench foundation` runs all of it; names of parts as arguments
//! (`sends`, `deliveries`, `delivery`, `redaction`, `growth`, and those of `delivery`: `settling`, `silence`,
//! `boundaries`, `waiting`, `idle`) run those; `--quick` makes the rounds short. Figures: `docs/benchmarks.md`.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that can't go on has nothing to report"
)]

mod baseline;
mod deliveries;
mod delivering;
#[path = "../../../relay-bench/src/figures.rs"]
mod figures;
mod growth;
#[path = "../../../relay-bench/src/machine.rs"]
mod machine;
mod measure;
mod redaction;
#[path = "../../../relay-bench/src/rows.rs"]
mod rows;
mod sends;
#[path = "../../../relay-protocol/benches/redact/terminal_text.rs"]
mod terminal_text;
#[path = "../../../relay-bench/src/text.rs"]
mod text;
mod world;

use std::io::Write as _;

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) sends_per_round: usize,
    pub(crate) large: usize,
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [first, figure @ ..] = arguments.as_slice()
        && first == delivering::CHILD
    {
        return delivering::child(&mut std::io::stdout().lock(), figure);
    }
    let effort = if arguments.iter().any(|argument| argument == "--quick") {
        Effort {
            rounds: 2,
            sends_per_round: 5_000,
            large: 100_000,
        }
    } else {
        Effort {
            rounds: 5,
            sends_per_round: 20_000,
            large: 1_000_000,
        }
    };
    let parts: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|part| !part.starts_with('-'))
        .collect();
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    let out = &mut std::io::stdout().lock();
    measure::disk(out);
    if wanted("sends") {
        sends::run(out, effort);
    }
    if wanted("deliveries") {
        deliveries::run(out, effort);
    }
    delivering::run(out, effort, |part| wanted("delivery") || wanted(part));
    if wanted("redaction") {
        redaction::run(out, effort);
    }
    if wanted("growth") {
        growth::run(out, effort);
    }
    out.flush().unwrap();
}
