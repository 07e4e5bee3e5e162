//! What sessions that never answer do to the others.

use std::io::Write;

use relay_protocol::policy::{PolicyPatch, RetryPolicy};

use super::settling::{Manner, settled_round};
use crate::Effort;
use crate::measure::{Rounds, median, ratio, watch_others};

const SESSIONS: usize = 100;

/// Sessions of those that never answer.
const SILENT: usize = 10;

/// Prints the table. Beside each round is one in which the same sessions answer like the others; in both
/// nobody waits for them.
pub(super) fn run(out: &mut impl Write, effort: Effort) {
    let policies = [
        ("default policy", PolicyPatch::default()),
        ("offers time out after 250 ms, 100 attempts", impatient()),
    ];
    let others = watch_others();
    let mut with: Vec<Rounds> = policies.iter().map(|_| Rounds::default()).collect();
    let mut without: Vec<Rounds> = policies.iter().map(|_| Rounds::default()).collect();
    for _ in 0..effort.rounds {
        for (at, (_, patch)) in policies.iter().enumerate() {
            let sends = effort.sends_per_round;
            let round = |manner| settled_round(&manners(manner), patch.clone(), sends);
            without[at].push(&round(Manner::Answering));
            with[at].push(&round(Manner::Silent));
        }
    }
    writeln!(
        out,
        "\n{SILENT} of {SESSIONS} sessions never answer, the others' send to stored receipt, \
         {} rounds, others used {:.2} cores",
        effort.rounds,
        others.cores()
    )
    .unwrap();
    writeln!(
        out,
        "| policy | p50 ms with / without | p99 ms with / without | p99 ratio |"
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|").unwrap();
    for (at, (name, _)) in policies.iter().enumerate() {
        let (with, without) = (&with[at], &without[at]);
        writeln!(
            out,
            "| {name} | {:.2} / {:.2} | {:.2} / {:.2} | {} |",
            median(&with.p50),
            median(&without.p50),
            median(&with.p99),
            median(&without.p99),
            ratio(&with.p99, &without.p99)
        )
        .unwrap();
    }
}

/// Time runs out, and offers are repeated, several times in each round.
fn impatient() -> PolicyPatch {
    PolicyPatch {
        offer_timeout_ms: Some(250),
        retry: Some(RetryPolicy {
            attempts: 100,
            min_ms: 100,
            max_ms: 100,
        }),
        ..PolicyPatch::default()
    }
}

fn manners(of_the_few: Manner) -> [Manner; SESSIONS] {
    std::array::from_fn(|at| match at {
        at if at < SILENT => of_the_few,
        _ => Manner::Awaited,
    })
}
