//! The corpus: commands, and what four rule sets say about each of them.
//!
//! Without rules every command is asked about, and a rule that spells a command out allows it, whatever it is.

use relay_protocol::permission::RuleDecision::{self, Allow, Ask, Deny};
use relay_rules::Policy;
use relay_rules::shell::{marks, read};
use serde_json::json;

use crate::support::{on_bash, policy};

const FILES: &[(&str, &str)] = &[
    ("plain.txt", include_str!("../corpus/plain.txt")),
    ("close.txt", include_str!("../corpus/close.txt")),
    ("hostile.txt", include_str!("../corpus/hostile.txt")),
];

/// One line of the corpus.
pub(crate) struct Line {
    place: String,
    expected: Vec<RuleDecision>,
    pub(crate) command: String,
}

pub(crate) fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for (file, text) in FILES {
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with("# ") || line.starts_with("#  ") {
                continue;
            }
            let (letters, command) = line.split_once(' ').unwrap();
            let expected = letters.chars().map(|letter| match letter {
                'a' => Allow,
                '?' => Ask,
                'd' => Deny,
                other => panic!("{file}:{}: unknown letter {other}", index + 1),
            });
            lines.push(Line {
                place: format!("{file}:{}", index + 1),
                expected: expected.collect(),
                command: decoded(command),
            });
        }
    }
    lines
}

fn decoded(command: &str) -> String {
    let mut command = command.to_owned();
    for (shown, meant) in [
        ('⏎', "\n"),
        ('⇥', "\t"),
        ('␍', "\r"),
        ('␀', "\0"),
        ('␛', "\u{1b}"),
    ] {
        command = command.replace(shown, meant);
    }
    while let Some(start) = command.find("\\u{") {
        let end = start + command[start..].find('}').unwrap();
        let code = u32::from_str_radix(&command[start + 3..end], 16).unwrap();
        command.replace_range(start..=end, &char::from_u32(code).unwrap().to_string());
    }
    command
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('*', "\\*")
        .replace('?', "\\?")
}

#[test]
fn every_line_is_decided_as_it_says() {
    let sets = [
        policy(json!({ "allowlist": ["bash:git **"] })),
        policy(json!({ "allowlist": ["bash:ls *", "bash:cat *"] })),
        policy(json!({ "allowlist": ["bash:*"] })),
        policy(json!({ "allowlist": ["bash"], "deny": ["bash:rm **"] })),
    ];
    let mut wrong = Vec::new();
    let lines = lines();
    assert!(lines.len() >= 250, "only {} commands", lines.len());
    for line in &lines {
        let found: Vec<_> = sets.iter().map(|set| on_bash(set, &line.command)).collect();
        if found != line.expected {
            wrong.push(format!(
                "{} {:?}: expected {:?}, found {found:?}",
                line.place, line.command, line.expected
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        lines.len(),
        wrong.join("\n")
    );
}

#[test]
fn without_rules_every_command_is_asked_about() {
    for line in lines() {
        assert_eq!(
            on_bash(&Policy::asks_always(), &line.command),
            Ask,
            "{}",
            line.place
        );
    }
}

#[test]
fn a_command_that_is_spelled_out_is_allowed() {
    for line in lines() {
        let rules = json!({ "allowlist": [format!("bash:{}", escape(&line.command))] });
        assert_eq!(
            on_bash(&policy(rules), &line.command),
            Allow,
            "{}",
            line.place
        );
    }
}

#[test]
fn no_other_command_is_allowed_by_one_that_is_spelled_out() {
    // What is added to a comment is none of the command's business.
    let uncommented = |line: &Line| read(&line.command).comments.is_empty();
    for line in lines().into_iter().filter(uncommented) {
        let rules = policy(json!({ "allowlist": [format!("bash:{}", escape(&line.command))] }));
        for other in [
            format!("{} x", line.command),
            format!("{}; id", line.command),
            format!("id;{}", line.command),
        ] {
            assert_eq!(on_bash(&rules, &other), Ask, "{}: {other:?}", line.place);
        }
    }
}

#[test]
fn marks_are_in_order_and_inside_of_every_command() {
    for line in lines() {
        let mut last = 0;
        for (range, _) in marks(&line.command) {
            assert!(
                range.start >= last && range.start < range.end,
                "{}",
                line.place
            );
            assert!(line.command.get(range.clone()).is_some(), "{}", line.place);
            last = range.end;
        }
        assert!(read(&line.command).segments.len() < 20);
    }
}
