//! `secrets.txt` says what becomes of each secret; `ordinary.txt` must come through unchanged.
//!
//! In both files `{{}}` stands for nothing, so that no scanner takes an invented secret for a real
//! one, `{{esc}}` for the escape character and `{{tab}}` for a tab.

use relay_protocol::redact::Redactor;

pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) expected: String,
}

/// The entries of `secrets.txt`: `=== name`, the input, `>>>`, the expected output.
pub(crate) fn secrets() -> Vec<Entry> {
    let text = include_str!("secrets.txt");
    text.split("\n=== ")
        .skip(1)
        .map(|entry| {
            let (name, rest) = entry.split_once('\n').expect("a name");
            let (input, expected) = rest.split_once("\n>>>\n").expect("an expected output");
            Entry {
                name: name.to_owned(),
                input: unmask(input),
                expected: unmask(expected.trim_end_matches('\n')),
            }
        })
        .collect()
}

/// The text of `ordinary.txt`.
pub(crate) fn ordinary() -> String {
    unmask(include_str!("ordinary.txt"))
}

fn unmask(text: &str) -> String {
    text.replace("{{}}", "")
        .replace("{{esc}}", "\x1b")
        .replace("{{tab}}", "\t")
}

#[test]
fn secrets_are_removed_and_nothing_else() {
    let redactor = Redactor::new();
    let mut failures = Vec::new();
    for Entry {
        name,
        input,
        expected,
    } in secrets()
    {
        let output = redactor.redact(&input);
        if output != expected {
            failures.push(format!(
                "{name}\n  input    {input:?}\n  expected {expected:?}\n  output   {output:?}"
            ));
        }
        assert_eq!(redactor.redact(&output), output, "again: {name}");
        assert_eq!(redactor.contains_secret(&input), input != output, "{name}");
    }
    assert!(
        failures.is_empty(),
        "{} wrong:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn ordinary_text_is_unchanged() {
    let redactor = Redactor::new();
    let text = ordinary();
    let changed: Vec<String> = text
        .lines()
        .filter(|line| redactor.contains_secret(line))
        .map(|line| format!("{line}\n  {}", redactor.redact(line)))
        .collect();
    assert!(
        changed.is_empty(),
        "{} lines changed:\n{}",
        changed.len(),
        changed.join("\n")
    );
    assert!(matches!(
        redactor.redact(&text),
        std::borrow::Cow::Borrowed(_)
    ));
}

#[test]
fn the_corpus_is_large_enough() {
    assert!(secrets().len() >= 120, "{}", secrets().len());
    assert!(
        ordinary().lines().count() >= 250,
        "{}",
        ordinary().lines().count()
    );
}
