//! How fast secrets are removed: `cargo bench -p relay-protocol --bench redact`.
//!
//! Prints MB/s over several rounds for ordinary terminal text and for harder cases. An argument
//! selects the cases whose names contain it.

mod terminal_text;

use std::{fmt::Write as _, hint::black_box, time::Instant};

use relay_protocol::redact::Redactor;
use terminal_text::{Random, ordinary_text};

const ROUNDS: usize = 7;
const SIZE: usize = 16 * 1024 * 1024;
const PIECE: usize = 4 * 1024;

/// Apart from what follows it, so that the source holds nothing that looks like a token.
const GITHUB: &str = "ghp_";

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|part| name.contains(part));
    let ordinary = ordinary_text(SIZE);
    let secrets = with_secrets(&ordinary);
    let plain = Redactor::new();
    let registered = Redactor::with_values((0..20).map(|n| (format!("V{n}"), registered_value(n))));
    let redact = |redactor: &Redactor, text: &str| redactor.redact(text).len();
    assert!(
        !plain.contains_secret(&ordinary),
        "ordinary text holds no secret"
    );

    println!(
        "{:<36} {:>9} {:>9} {:>9}   MB/s, {ROUNDS} rounds of {} MiB",
        "",
        "median",
        "min",
        "max",
        SIZE >> 20
    );
    let row = |name: &str, run: &dyn Fn() -> usize| {
        if wanted(name) {
            report(name, run);
        }
    };
    row("ordinary text", &|| redact(&plain, &ordinary));
    row("one secret per 4 KiB", &|| redact(&plain, &secrets));
    row("ordinary text, stream of 4 KiB", &|| {
        stream(&plain, &ordinary)
    });
    row("one secret per 4 KiB, stream", &|| stream(&plain, &secrets));
    row("ordinary text, 20 registered values", &|| {
        redact(&registered, &ordinary)
    });
    row("the same, stream of 4 KiB", &|| {
        stream(&registered, &ordinary)
    });
}

fn report(name: &str, run: &dyn Fn() -> usize) {
    black_box(run());
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            SIZE as f64 / 1e6 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:<36} {:>9.0} {:>9.0} {:>9.0}",
        rates[ROUNDS / 2],
        rates[0],
        rates[ROUNDS - 1]
    );
}

fn stream(redactor: &Redactor, text: &str) -> usize {
    let mut stream = redactor.stream();
    let mut rest = text;
    let mut written = 0;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        written += stream.push(piece).len();
        rest = after;
    }
    written + stream.finish().len()
}

fn with_secrets(ordinary: &str) -> String {
    let mut random = Random(7);
    let mut text = String::with_capacity(ordinary.len() + ordinary.len() / 16);
    let mut rest = ordinary;
    while !rest.is_empty() {
        let (block, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        text.push_str(block);
        let body = format!(
            "{:016x}{:016x}{:08x}",
            random.next(),
            random.next(),
            random.next() as u32
        );
        let _ = match random.below(4) {
            0 => write!(text, "\nremote: {GITHUB}{body} used\n"),
            1 => write!(text, "\nexport API_KEY={body}\n"),
            2 => write!(text, "\nAuthorization: Bearer {body}\n"),
            _ => write!(text, "\npostgres://app:{body}@db/app\n"),
        };
        rest = after;
    }
    text.truncate(text.floor_char_boundary(SIZE));
    text
}

fn registered_value(n: u64) -> String {
    let mut random = Random(1000 + n);
    format!("{:016x}{:016x}", random.next(), random.next())
}
