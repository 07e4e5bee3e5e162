//! How fast secrets are removed from ordinary terminal text. More cases: `cargo bench -p relay-protocol`.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use relay_protocol::redact::Redactor;

use crate::Effort;
use crate::measure::{median, range, watch_others};
use crate::terminal_text::ordinary_text;

const BYTES: usize = 16 * 1024 * 1024;

/// Prints the figure.
pub(crate) fn run(out: &mut impl Write, effort: Effort) {
    let text = ordinary_text(BYTES);
    let redactor = Redactor::new();
    let others = watch_others();
    let rates: Vec<f64> = (0..effort.rounds)
        .map(|_| {
            let begun = Instant::now();
            black_box(redactor.redact(&text));
            BYTES as f64 / 1e6 / begun.elapsed().as_secs_f64()
        })
        .collect();
    let (least, most) = range(&rates);
    writeln!(
        out,
        "\nredaction of ordinary terminal text: {:.0} MB/s ({least:.0}-{most:.0}), others used {:.2} cores",
        median(&rates),
        others.cores()
    )
    .unwrap();
}
