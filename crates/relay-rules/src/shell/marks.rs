//! What to show how, when a command is shown to somebody who decides about it.

use std::ops::Range;

use super::concern::concerns;
use super::{Reading, Segment, read};

/// What a part of a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// The program of a segment.
    Program,
    /// An argument or an assignment.
    Argument,
    /// What joins two segments.
    Operator,
    /// A redirection and its target.
    Redirection,
    /// What deserves a second look: substitutions, programs that run others, code in arguments, what was not understood.
    Danger,
    /// A comment.
    Comment,
}

/// The parts of a command in order. They don't overlap; what is between them is blank.
#[must_use]
pub fn marks(command: &str) -> Vec<(Range<usize>, Mark)> {
    let reading = read(command);
    let mut marks = Vec::new();
    for segment in &reading.segments {
        mark_segment(segment, &mut marks);
    }
    let plain = |ranges: &[Range<usize>], mark| -> Vec<_> {
        ranges.iter().cloned().map(|range| (range, mark)).collect()
    };
    marks.extend(plain(&reading.operators, Mark::Operator));
    marks.extend(plain(&reading.comments, Mark::Comment));
    marks.sort_by_key(|(range, mark)| (range.start, range.end, *mark == Mark::Danger));
    in_order(marks, &reading, command)
}

fn mark_segment(segment: &Segment, marks: &mut Vec<(Range<usize>, Mark)>) {
    let concerns = concerns(segment);
    let mark = |range: &Range<usize>, is_unknown: bool, mark| {
        let danger = is_unknown || concerns.iter().any(|concern| concern.range == *range);
        (range.clone(), if danger { Mark::Danger } else { mark })
    };
    for word in &segment.assignments {
        marks.push(mark(&word.range, word.is_unknown(), Mark::Argument));
    }
    for (index, word) in segment.words.iter().enumerate() {
        let kind = if index == 0 {
            Mark::Program
        } else {
            Mark::Argument
        };
        let unknown = word.expansions.substitution || word.expansions.parameter;
        marks.push(mark(&word.range, unknown, kind));
    }
    for redirection in &segment.redirections {
        let unknown = redirection.target.is_unknown();
        // A redirection is its own warning, so only what hides in its target is a danger.
        let kind = if unknown {
            Mark::Danger
        } else {
            Mark::Redirection
        };
        marks.push((redirection.range.clone(), kind));
    }
}

/// Leaves out what overlaps, and marks the rest of a command from where it was not understood.
fn in_order(
    marks: Vec<(Range<usize>, Mark)>,
    reading: &Reading,
    command: &str,
) -> Vec<(Range<usize>, Mark)> {
    let end = reading.trouble.map_or(command.len(), |trouble| trouble.at);
    let mut kept: Vec<(Range<usize>, Mark)> = Vec::new();
    for (range, mark) in marks {
        let after = kept.last().map_or(0, |(last, _)| last.end);
        if range.start >= after && !range.is_empty() && range.end <= end {
            kept.push((range, mark));
        }
    }
    if reading.trouble.is_some() {
        let from = kept.last().map_or(0, |(last, _)| last.end);
        let rest = &command[from..];
        let from = from + (rest.len() - rest.trim_start().len());
        let to = command.trim_end().len();
        if from < to {
            kept.push((from..to, Mark::Danger));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dangers(command: &str) -> Vec<&str> {
        let marks = marks(command).into_iter();
        marks
            .filter(|(_, mark)| *mark == Mark::Danger)
            .filter_map(|(range, _)| command.get(range))
            .collect()
    }

    /// The first one alone was marked, and drew the eye away from the others.
    #[test]
    fn every_concern_of_a_command_is_marked() {
        let cases: &[(&str, &[&str])] = &[
            ("ls -l", &[]),
            ("git status && cargo test", &[]),
            ("A=1 B=2 ls", &["A=1", "B=2"]),
            (
                "git -c core.pager=evil --exec-path=/tmp log",
                &["-c", "--exec-path=/tmp"],
            ),
            (
                "find . -exec rm {} + -fprintf out %p -delete",
                &["-exec", "-fprintf", "-delete"],
            ),
            ("A=1 sudo rm $X $(y)", &["A=1", "sudo", "$X", "$(y)"]),
            ("timeout 5 git -c core.pager=evil log", &["timeout", "-c"]),
            ("python3 -c 'x' > out", &["-c"]),
            (
                "sudo find . -delete; tar --checkpoint-action=x -I y",
                &["sudo", "-delete", "--checkpoint-action=x", "-I"],
            ),
        ];
        for (command, expected) in cases {
            assert_eq!(dangers(command), *expected, "{command}");
        }
    }
}
