//! Why a wildcard does not cover a segment.

use std::ops::Range;

use super::programs::{Nature, Program, base_name, program, subcommand};
use super::runs::command_after;
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
    concerns(segment).into_iter().next()
}

/// Every concern about a segment: what a wildcard stops at comes first.
pub(crate) fn concerns(segment: &Segment) -> Vec<Concern> {
    let at = |range: &Range<usize>, why| Concern {
        range: range.clone(),
        why,
    };
    let mut found = Vec::new();
    for assignment in &segment.assignments {
        found.push(at(&assignment.range, "an assignment before the program"));
    }
    for redirection in segment.redirections.iter().filter(|one| !one.is_harmless()) {
        found.push(at(&redirection.range, "a redirection"));
    }
    let Some(program) = segment.words.first() else {
        found.push(at(&segment.range, "no program"));
        return found;
    };
    let is_known = program.is_literal() && !program.text.is_empty();
    if !is_known {
        found.push(at(&program.range, "a program that only the shell knows"));
    } else if !program.text.is_ascii() {
        let why = "a program with letters that look like others";
        found.push(at(&program.range, why));
    }
    for word in &segment.words {
        if let Some(why) = expansion_concern(word) {
            found.push(at(&word.range, why));
        }
    }
    if is_known {
        let words: Vec<&str> = segment.words.iter().map(|word| &*word.text).collect();
        let about = program_concerns(&words).into_iter();
        found.extend(about.map(|(index, why)| at(&segment.words[index].range, why)));
    }
    found
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
    program_concerns(words).into_iter().next()
}

/// How many programs that run one another are looked at.
const WRAPPED: usize = 8;

/// Every concern about a program and its arguments, and at which of the words; also about what it runs.
fn program_concerns(words: &[&str]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut from = 0;
    for _ in 0..WRAPPED {
        let words = &words[from..];
        let own = own_concerns(words).into_iter();
        found.extend(own.map(|(index, why)| (from + index, why)));
        let row = words.first().and_then(|word| program(word));
        let Some(Nature::Wrapper { values, operands }) = row.map(|row| row.nature) else {
            break;
        };
        from += command_after(words, 1, values, operands).min(words.len());
    }
    found
}

/// Every concern about a program and its arguments, whatever it runs.
fn own_concerns(words: &[&str]) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let Some(name) = words.first().map(|word| base_name(word)) else {
        return found;
    };
    match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "sed" | "gsed" if !is_harmless_sed(&words[1..]) => found.push((0, "a script of sed")),
        "awk" | "gawk" | "mawk" | "nawk" if !is_harmless_awk(&words[1..]) => {
            found.push((0, "a script of awk"));
        }
        _ => {}
    }
    let Some(row) = program(name) else {
        return found;
    };
    if name == "command" && matches!(words.get(1), Some(&"-v" | &"-V")) {
        return found;
    }
    let subcommands = subcommand_indexes(name, words);
    let first = subcommands.first().copied().unwrap_or(words.len());
    found.extend(row_concerns(row, words, 1, first.max(1)));
    if name == "git" {
        // Its one-letter options mean something else after the subcommand.
        let long = |word: &str| !word.starts_with('-') || word.starts_with("--");
        let minds = |(_, word): &(usize, &&str)| long(word) && row.minds(word);
        let options = words.iter().enumerate().skip(first).filter(minds);
        found.extend(options.map(|(index, _)| (index, OPTION)));
    } else {
        found.extend(row_concerns(row, words, first, words.len()));
    }
    for index in subcommands {
        if let Some(row) = subcommand(name, words[index]) {
            found.extend(row_concerns(row, words, index + 1, words.len()));
        }
    }
    found
}

const OPTION: &str = "an option that runs, loads or writes something";

/// The concerns of a row about the words in a range.
fn row_concerns(
    row: &Program,
    words: &[&str],
    from: usize,
    to: usize,
) -> Vec<(usize, &'static str)> {
    match row.nature {
        Nature::Wrapper { .. } | Nature::ShellText { .. } => {
            return vec![(0, "a program that runs others")];
        }
        Nature::Opaque => return vec![(0, "a program that runs what can't be seen here")],
        Nature::Shell | Nature::Interpreter if reads_its_input(words) => {
            return vec![(0, "an interpreter that reads code from its input")];
        }
        Nature::Shell | Nature::Interpreter | Nature::Plain => {}
    }
    let why = match row.nature {
        Nature::Shell | Nature::Interpreter => "an interpreter with code in its arguments",
        _ => OPTION,
    };
    let words = words.get(..to).unwrap_or(words);
    let minded = words
        .iter()
        .enumerate()
        .skip(from)
        .filter(|(index, word)| row.minds(word) || is_old_style(words[0], *index, word, row));
    minded.map(|(index, _)| (index, why)).collect()
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
