//! Everything that a command would run, as far as it can be told: for rules that refuse.
//!
//! Through substitutions, wrappers (`sudo`, `xargs`, `find -exec`) and shell text in arguments (`sh -c`). What may be
//! a command but need not is kept apart, and what can't be read at all is noted: both are doubt, and doubt asks.

use relay_protocol::limits::COMMAND_DEPTH;

use super::concern::{program_concern, subcommand_indexes};
use super::programs::{Nature, base_name, program, subcommand};
use super::reader::read_nested;
use super::{Reading, Segment, Word};

/// Words after which nothing more is looked for in the arguments of a wrapper.
const SUFFIXES: usize = 64;

/// Most programs that are looked at.
const MOST: usize = 4096;

/// What a command would run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) list: Vec<Run>,
    /// What keeps the list from being all, to follow "it has".
    pub(crate) doubt: Option<&'static str>,
}

/// One program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// `None` stands for words that only the shell knows: none, one or more.
    pub(crate) words: Vec<Option<String>>,
    /// Whether it is certainly run, and not perhaps an argument.
    pub(crate) certain: bool,
}

/// Collects everything that is run.
pub(crate) fn runs(reading: &Reading) -> Runs {
    let mut runs = Runs::default();
    runs.add_reading(reading, true, 0);
    runs
}

impl Runs {
    fn doubt(&mut self, why: &'static str) {
        self.doubt.get_or_insert(why);
    }

    fn add_reading(&mut self, reading: &Reading, certain: bool, depth: usize) {
        if let Some(trouble) = reading.trouble {
            self.doubt(trouble.why);
        }
        for segment in reading.segments.iter().chain(&reading.nested) {
            self.add_segment(segment, certain, depth);
        }
    }

    fn add_segment(&mut self, segment: &Segment, certain: bool, depth: usize) {
        let hides = |word: &Word| word.text.contains("$(") || word.text.contains('`');
        if segment.assignments.iter().any(hides) {
            // `PS4='$(…)'` and its like are run later.
            self.doubt("an assignment with a substitution in it");
        }
        let words = segment.words.iter();
        let words = words.map(|word| (!word.is_unknown()).then(|| word.text.clone()));
        self.add(words.collect(), certain, depth);
    }

    fn add_text(&mut self, text: &str, certain: bool, depth: usize) {
        let reading = read_nested(text, depth + 1);
        self.add_reading(&reading, certain, depth + 1);
    }

    fn add(&mut self, words: Vec<Option<String>>, certain: bool, depth: usize) {
        match words.first() {
            None => return,
            Some(None) => self.doubt("a program that only the shell knows"),
            Some(Some(name)) if !name.is_ascii() => {
                self.doubt("a program with letters that look like others");
            }
            Some(_) => {}
        }
        if depth > COMMAND_DEPTH || self.list.len() > MOST {
            return self.doubt("commands that are nested too deep");
        }
        self.look_inside(&words, certain, depth);
        self.list.push(Run { words, certain });
    }

    /// Adds what the arguments of a program run.
    fn look_inside(&mut self, words: &[Option<String>], certain: bool, depth: usize) {
        let known: Vec<&str> = words
            .iter()
            .map(|word| word.as_deref().unwrap_or("$"))
            .collect();
        let name = base_name(known[0]);
        if name == "command" && matches!(known.get(1), Some(&"-v" | &"-V")) {
            return;
        }
        if name == "find" {
            return self.add_found(words, certain, depth);
        }
        let nature = program(name).map(|row| row.nature);
        let subcommand = subcommand_indexes(name, &known)
            .into_iter()
            .find_map(|index| Some((index, subcommand(name, known[index])?.nature)));
        let (start, nature) = match (nature, subcommand) {
            (None | Some(Nature::Plain), Some((index, nature))) => (index + 1, Some(nature)),
            (nature, _) => (1, nature),
        };
        match nature {
            Some(Nature::Wrapper { values, operands }) => {
                let from = command_after(&known, start, values, operands);
                self.add_wrapped(words, start, from, certain, depth);
            }
            Some(Nature::ShellText { values, operands }) => {
                let from = command_after(&known, start, values, operands);
                let options = &known[..from.min(known.len())];
                if options
                    .iter()
                    .any(|word| word.to_ascii_lowercase().contains("command="))
                {
                    self.doubt("an option that runs something");
                }
                self.add_joined(&words[from.min(words.len())..], certain, depth);
                self.add_inline(words, certain, depth);
            }
            Some(Nature::Shell) => self.add_inline(words, certain, depth),
            _ => {}
        }
        let handled = matches!(
            nature,
            Some(Nature::Wrapper { .. } | Nature::ShellText { .. } | Nature::Shell)
        );
        if !handled && let Some((_, why)) = program_concern(&known) {
            self.doubt(why);
        }
    }

    /// Adds the command of a wrapper, and as a guess whatever else may be it.
    fn add_wrapped(
        &mut self,
        words: &[Option<String>],
        start: usize,
        from: usize,
        certain: bool,
        depth: usize,
    ) {
        if words.len() > start + SUFFIXES {
            self.doubt("too many words for a program that runs others");
        }
        if words[..from.min(words.len())].contains(&None) {
            self.doubt("a variable before what is run");
        }
        if words
            .iter()
            .flatten()
            .any(|word| word.starts_with("-S") || word.contains("split-string"))
        {
            self.doubt("an option that splits text into words");
        }
        for index in start..words.len().min(start + SUFFIXES) {
            let is_option = words[index]
                .as_deref()
                .is_some_and(|word| word.starts_with('-'));
            if index == from {
                self.add(words[index..].to_vec(), certain, depth + 1);
            } else if !is_option && words[index].is_some() {
                let words: Vec<_> = words[index..].iter().take(SUFFIXES).cloned().collect();
                // Looked into only where it is certain, or all of this would grow with the square.
                let row = words[0].as_deref().and_then(program);
                if row.is_some_and(|row| row.nature != Nature::Plain) {
                    self.doubt("a program that runs others inside of another");
                }
                self.list.push(Run {
                    words,
                    certain: false,
                });
            }
        }
    }

    /// Adds words that are joined and read as shell text.
    fn add_joined(&mut self, words: &[Option<String>], certain: bool, depth: usize) {
        match words.iter().cloned().collect::<Option<Vec<String>>>() {
            Some(words) => self.add_text(&words.join(" "), certain, depth),
            None => self.doubt("a variable in text that is run"),
        }
    }

    /// Adds the text after `-c`.
    fn add_inline(&mut self, words: &[Option<String>], certain: bool, depth: usize) {
        let flag = words.iter().skip(1).position(|word| {
            word.as_deref().is_some_and(|word| {
                word == "--command"
                    || (word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
            })
        });
        let Some(flag) = flag else {
            if words[1..]
                .iter()
                .flatten()
                .all(|word| word.starts_with('-'))
            {
                self.doubt("a shell that reads commands from its input");
            }
            if words
                .iter()
                .flatten()
                .any(|word| word.starts_with("--command="))
            {
                self.doubt("an option that runs something");
            }
            return;
        };
        let code = words[flag + 2..].iter().find(|word| {
            word.as_deref()
                .is_none_or(|word| !word.starts_with(['-', '+']))
        });
        match code {
            Some(Some(code)) => self.add_text(code, certain, depth),
            Some(None) => self.doubt("a variable in text that is run"),
            None => {}
        }
    }

    /// Adds what `find` runs.
    fn add_found(&mut self, words: &[Option<String>], certain: bool, depth: usize) {
        if words[1..].contains(&None) {
            self.doubt("a variable among the arguments of find");
        }
        let mut index = 1;
        while let Some(word) = words.get(index) {
            index += 1;
            if matches!(
                word.as_deref(),
                Some("-exec" | "-execdir" | "-ok" | "-okdir")
            ) {
                let end = |word: &Option<String>| matches!(word.as_deref(), Some(";" | "+"));
                let rest = &words[index..];
                let length = rest.iter().position(end).unwrap_or(rest.len());
                self.add(rest[..length].to_vec(), certain, depth + 1);
                index += length;
            }
        }
    }
}

/// Where the command of a wrapper begins.
pub(super) fn command_after(words: &[&str], start: usize, values: &str, operands: usize) -> usize {
    let mut index = start;
    let mut operands = operands;
    while let Some(word) = words.get(index) {
        let is_assignment = word.contains('=') && !word.starts_with('-');
        if *word == "--" {
            return index + 1 + operands;
        } else if word.starts_with('-') {
            let takes_next = !word.starts_with("--")
                && word
                    .chars()
                    .last()
                    .is_some_and(|letter| values.contains(letter));
            index += usize::from(takes_next);
        } else if !is_assignment {
            if operands == 0 {
                return index;
            }
            operands -= 1;
        }
        index += 1;
    }
    words.len()
}
