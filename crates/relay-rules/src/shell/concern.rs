//! Why a wildcard does not cover a segment.

use std::ops::Range;

use super::programs::{Nature, Program, base_name, program, subcommand};
use super::scripts::{is_harmless_awk, is_harmless_sed};
use super::{Segment, Word};

/// What keeps a wildcard from covering a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Concern {
    /// Where it is.
    pub(crate) range: Range<usize>,
    /// What it is, to follow "it has".
    pub(crate) why: &'static str,
}

/// The first concern about a segment.
pub(crate) fn concern(segment: &Segment) -> Option<Concern> {
    let at = |word: &Word, why| {
        Some(Concern {
            range: word.range.clone(),
            why,
        })
    };
    if let Some(assignment) = segment.assignments.first() {
        return at(assignment, "an assignment before the program");
    }
    if let Some(redirection) = segment.redirections.iter().find(|one| !one.is_harmless()) {
        return Some(Concern {
            range: redirection.range.clone(),
            why: "a redirection",
        });
    }
    let Some(program) = segment.words.first() else {
        return Some(Concern {
            range: segment.range.clone(),
            why: "no program",
        });
    };
    if !program.is_literal() || program.text.is_empty() {
        return at(program, "a program that only the shell knows");
    }
    if !program.text.is_ascii() {
        return at(program, "a program with letters that look like others");
    }
    for word in &segment.words {
        if let Some(why) = expansion_concern(word) {
            return at(word, why);
        }
    }
    let arguments: Vec<&str> = segment.words.iter().map(|word| &*word.text).collect();
    let (index, why) = program_concern(&arguments)?;
    at(&segment.words[index], why)
}

fn expansion_concern(word: &Word) -> Option<&'static str> {
    let expansions = word.expansions;
    if expansions.substitution {
        Some("a substitution")
    } else if expansions.parameter {
        Some("a variable")
    } else if expansions.brace {
        Some("a brace expansion")
    } else if expansions.dollar_quote {
        Some("a quote with a dollar")
    } else if expansions.glob && word.text.starts_with(['*', '?', '[', '-']) {
        Some("a glob that may become an option")
    } else {
        None
    }
}

/// The first concern about a program and its arguments, and at which of the words.
pub(crate) fn program_concern(words: &[&str]) -> Option<(usize, &'static str)> {
    let name = base_name(words.first()?);
    match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "sed" | "gsed" if !is_harmless_sed(&words[1..]) => return Some((0, "a script of sed")),
        "awk" | "gawk" | "mawk" | "nawk" if !is_harmless_awk(&words[1..]) => {
            return Some((0, "a script of awk"));
        }
        _ => {}
    }
    let row = program(name)?;
    if name == "command" && matches!(words.get(1), Some(&"-v" | &"-V")) {
        return None;
    }
    let subcommands = subcommand_indexes(name, words);
    let first = subcommands.first().copied().unwrap_or(words.len());
    if let Some(found) = row_concern(row, words, 1, first.max(1)) {
        return Some(found);
    }
    if name == "git" {
        // Its one-letter options mean something else after the subcommand.
        let long = |word: &str| !word.starts_with('-') || word.starts_with("--");
        let minds = |(_, word): &(usize, &&str)| long(word) && row.minds(word);
        if let Some((index, _)) = words.iter().enumerate().skip(first).find(minds) {
            return Some((index, OPTION));
        }
    } else if let Some(found) = row_concern(row, words, first, words.len()) {
        return Some(found);
    }
    subcommands.into_iter().find_map(|index| {
        let row = subcommand(name, words[index])?;
        row_concern(row, words, index + 1, words.len())
    })
}

const OPTION: &str = "an option that runs, loads or writes something";

/// The first concern of a row about the words in a range.
fn row_concern(
    row: &Program,
    words: &[&str],
    from: usize,
    to: usize,
) -> Option<(usize, &'static str)> {
    match row.nature {
        Nature::Wrapper { .. } | Nature::ShellText { .. } => {
            return Some((0, "a program that runs others"));
        }
        Nature::Opaque => return Some((0, "a program that runs what can't be seen here")),
        Nature::Shell | Nature::Interpreter if reads_its_input(words) => {
            return Some((0, "an interpreter that reads code from its input"));
        }
        Nature::Shell | Nature::Interpreter | Nature::Plain => {}
    }
    let words = words.get(..to).unwrap_or(words);
    let found = words
        .iter()
        .enumerate()
        .skip(from)
        .find(|(index, word)| row.minds(word) || is_old_style(words[0], *index, word, row));
    found.map(|(index, _)| match row.nature {
        Nature::Shell | Nature::Interpreter => (index, "an interpreter with code in its arguments"),
        _ => (index, OPTION),
    })
}

/// Whether an interpreter has no file to run.
fn reads_its_input(words: &[&str]) -> bool {
    if matches!(words[1..], ["--version" | "--help"]) {
        return false;
    }
    let operand = words[1..].iter().find(|word| !word.starts_with('-'));
    operand.is_none_or(|operand| operand.starts_with("/dev/") || operand.starts_with("/proc/"))
        || words[1..].contains(&"-")
}

/// Whether letters without a dash are options, as the first argument of tar.
fn is_old_style(program: &str, index: usize, word: &str, row: &Program) -> bool {
    index == 1
        && base_name(program).ends_with("tar")
        && word.chars().any(|letter| row.short.contains(letter))
}

/// Where a program's subcommand may be: one place, or all when its options are not known.
pub(crate) fn subcommand_indexes(name: &str, words: &[&str]) -> Vec<usize> {
    let values: &[&str] = match name {
        "git" => &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--attr-source",
            "--super-prefix",
            "--config-env",
        ],
        "docker" | "podman" => &["-H", "--host", "--context", "-c", "-l", "--log-level"],
        "kubectl" | "oc" => &[
            "-n",
            "--namespace",
            "--context",
            "--cluster",
            "-s",
            "--server",
        ],
        "npm" | "pnpm" | "yarn" => &["-C", "-w", "--workspace", "--filter", "-F", "--cwd"],
        _ => &[],
    };
    let mut index = 1;
    while let Some(word) = words.get(index) {
        if values.contains(word) {
            index += 1;
        } else if word.starts_with('-') {
            if !word.contains('=') && !values.is_empty() && word.starts_with("--no-") {
                index += 1;
                continue;
            }
            let known = word.contains('=') || matches!(*word, "--version" | "--help" | "-v" | "-q");
            if !known {
                return (index..words.len())
                    .filter(|index| !words[*index].starts_with('-'))
                    .collect();
            }
        } else if !(word.starts_with('+') && name == "cargo") {
            return vec![index];
        }
        index += 1;
    }
    Vec::new()
}
