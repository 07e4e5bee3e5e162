//! What holds for any text, however it is cut.

use proptest::prelude::*;
use relay_protocol::redact::Redactor;

use crate::corpus;

const REGISTERED: &[(&str, &str)] = &[
    ("A", "blue-horse-77"),
    ("B", "correct horse battery"),
    ("C", "p\"a/ss\\wörd"),
    ("D", "abababab"),
];

/// Scraps that make up text in which rules begin, end and overlap.
const SCRAPS: &[&str] = &[
    " ",
    "\n",
    "\t",
    "=",
    ":",
    "\"",
    "'",
    "\\",
    "\\n",
    "@",
    "/",
    "://",
    ".",
    ",",
    "-",
    "_",
    "--",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    "é",
    "→",
    "%20",
    "\x1b[31m",
    "\x1b[0m",
    "\x1b",
    "\x1b[",
    "password",
    "PASSWORD",
    "token",
    "API_KEY",
    "api key",
    "secret",
    "auth",
    "Authorization",
    "Bearer",
    "Basic",
    "curl",
    "-u",
    "user",
    "--token",
    "value",
    "name",
    "key",
    "access",
    "hunter2",
    "s3cr3t!word",
    "a1b2c3d4e5f6g7h8i9",
    "dXNlcjpwYXNz",
    "550e8400",
    "word",
    "x",
    "ghp_",
    "sk-",
    "sk-ant-",
    "eyJhbGciOiJI",
    ".eyJzdWIiOiIx",
    concat!("AKIA", "Q3EGRZ7XVKJWB5TN"),
    concat!("wJalrXUtnFEMIK7MDENG", "bPxRfiCYzzEXAMPLEKEY"),
    "123456789:AA",
    "at_",
    "xoxb-",
    "MTIzNDU2Nzg5",
    "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "0123456789abcdef0123456789abcdef",
    concat!("-----BEGIN ", "PRIVATE KEY-----"),
    "-----BEGIN ",
    "-----END PRIVATE KEY-----",
    "-----END ",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "Proc-Type: 4",
    "[redacted:token]",
    "[redacted:",
    "blue-horse-77",
    "blue-",
    "horse-77",
    "correct horse",
    " battery",
    "correct ",
    "p\"a/ss\\wörd",
    "abab",
    "ababab",
    "Ymx1ZS1ob3JzZS03Nw",
    "blue%2Dhorse%2D77",
    "p\\\"a/ss\\\\wörd",
];

fn text() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        8 => proptest::sample::select(SCRAPS).prop_map(str::to_owned),
        1 => "[ -~]{1,6}",
        1 => "\\PC{1,3}",
    ];
    proptest::collection::vec(scrap, 0..24).prop_map(|scraps| scraps.concat())
}

fn corpus_mix() -> impl Strategy<Value = String> {
    let inputs: Vec<String> = corpus::secrets()
        .into_iter()
        .map(|entry| entry.input)
        .collect();
    let lines: Vec<String> = corpus::ordinary().lines().map(str::to_owned).collect();
    let part = prop_oneof![
        proptest::sample::select(inputs),
        proptest::sample::select(lines),
        proptest::sample::select(SCRAPS).prop_map(str::to_owned),
    ];
    let joint = proptest::sample::select(&["\n", " ", "", "\n\n", "\""][..]);
    proptest::collection::vec((part, joint), 1..8).prop_map(|parts| {
        parts
            .into_iter()
            .map(|(part, joint)| part + joint)
            .collect()
    })
}

fn streamed(redactor: &Redactor, text: &str, cuts: &[usize]) -> String {
    let mut stream = redactor.stream();
    let mut out = String::new();
    let mut rest = text;
    let mut sizes = cuts.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(1, |&size| size.clamp(1, rest.len()));
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(size));
        out.push_str(&stream.push(piece));
        rest = after;
    }
    out + &stream.finish()
}

fn redactors() -> [Redactor; 2] {
    [
        Redactor::new(),
        Redactor::with_values(REGISTERED.iter().copied()),
    ]
}

fn check(redactors: &[Redactor], text: &str, cuts: &[usize]) -> Result<(), TestCaseError> {
    for redactor in redactors {
        let once = redactor.redact(text);
        prop_assert_eq!(redactor.redact(&once), once.as_ref(), "redacted again");
        prop_assert_eq!(streamed(redactor, text, cuts), once.as_ref(), "as a stream");
    }
    let clean = redactors[1].redact(text);
    for (_, value) in REGISTERED {
        prop_assert!(!clean.contains(value), "{value} in {clean}");
    }
    Ok(())
}

#[test]
fn any_text_in_any_pieces() {
    let redactors = redactors();
    let cuts = proptest::collection::vec(1_usize..40, 1..6);
    let config = ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(text in text(), cuts in cuts)| {
        check(&redactors, &text, &cuts)?;
    });
}

#[test]
fn the_corpus_mixed_up() {
    let redactors = redactors();
    let cuts = proptest::collection::vec(1_usize..200, 1..6);
    let config = ProptestConfig {
        cases: cases() / 4,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(text in corpus_mix(), cuts in cuts)| {
        check(&redactors, &text, &cuts)?;
    });
}

#[test]
fn a_registered_value_never_gets_through_flushes() {
    let redactor = Redactor::with_values(REGISTERED.iter().copied());
    let config = ProptestConfig {
        cases: cases() / 4,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let pieces = proptest::collection::vec((text(), any::<bool>()), 0..6);
    proptest!(config, |(pieces in pieces)| {
        let mut stream = redactor.stream();
        for (piece, flush) in &pieces {
            // Whatever was flushed, a value that arrives in one piece is removed.
            let mut out = stream.push(piece);
            if *flush {
                out.push_str(&stream.flush());
            }
            for (_, value) in REGISTERED {
                prop_assert!(!out.contains(value), "{value} in {out}");
            }
        }
    });
}

/// How many texts are tried; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(2_000)
}
