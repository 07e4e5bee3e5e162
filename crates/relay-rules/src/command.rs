//! Patterns of shell commands, matched word by word against each segment of a command.
//!
//! Without a wildcard a pattern is exactly one command text. With one it is words: `*` at the end is one argument or
//! more, `**` at the end any number, a glob inside a word stays in that word. Quotes keep words together.

use crate::call::{CommandText, Part};
use crate::fault::Unreadable;
use crate::glob::{Glob, Token};
use crate::pattern::Hit;
use crate::shell::concern::{concern, subcommand_indexes};
use crate::shell::programs::base_name;
use crate::shell::runs::Run;
use crate::shell::{Segment, Word, read};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct CommandPattern {
    form: Form,
    /// The pattern as a glob over text, for rules that refuse.
    whole: Glob,
}

#[derive(Clone, Debug)]
enum Form {
    /// No wildcard.
    Exact {
        text: String,
        /// The words, where it is one segment without anything special.
        plain: Option<Vec<String>>,
        /// The words that rules which refuse look for.
        wide: Option<Vec<Glob>>,
    },
    /// Words, and what may follow them.
    Words { words: Vec<Glob>, tail: Tail },
    /// `*`
    Anything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    Nothing,
    Some,
    Any,
}

impl CommandPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        if text.trim().is_empty() {
            return Err(Unreadable::new("a command", text));
        }
        let whole = Glob::parse(text)?;
        let form = match whole.literal() {
            Some(literal) => exact(literal.to_owned()),
            None => words(text)?,
        };
        Ok(Self { form, whole })
    }

    /// The program that it is about, where that is one; rules are found by it.
    pub(crate) fn program(&self) -> Option<String> {
        match &self.form {
            Form::Exact { plain, .. } => plain.as_ref().map(|words| words[0].clone()),
            Form::Words { words, .. } => words[0].literal().map(str::to_owned),
            Form::Anything => None,
        }
    }

    /// The program that it is about when it refuses, in small letters and without its folder.
    pub(crate) fn wide_program(&self) -> Option<String> {
        let word = match &self.form {
            Form::Exact { wide, .. } => wide.as_ref()?.first()?,
            Form::Words { words, .. } => words.first()?,
            Form::Anything => return None,
        };
        let name = word.literal()?;
        Some(base_name(name).to_ascii_lowercase())
    }

    /// The one command text that it allows, where there is no wildcard.
    pub(crate) fn exact(&self) -> Option<&str> {
        match &self.form {
            Form::Exact { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether it certainly covers a part of a command.
    pub(crate) fn covers(&self, command: &CommandText, part: Part) -> bool {
        if self.exact() == Some(&*command.text) {
            return true;
        }
        match part {
            Part::Segment(index) => self.covers_segment(command, index),
            _ if command.reading.understood() => {
                let count = command.reading.segments.len();
                count > 0 && (0..count).all(|index| self.covers_segment(command, index))
            }
            _ => false,
        }
    }

    fn covers_segment(&self, command: &CommandText, index: usize) -> bool {
        let segment = &command.reading.segments[index];
        let is_plain = command.concerns[index].is_none();
        match &self.form {
            Form::Exact { text, plain, .. } => {
                let same = command.text.get(segment.range.clone()) == Some(&**text);
                // What comes through a pipe may be code to what is allowed by itself.
                (same && (is_plain || !segment.is_piped_into()))
                    || (is_plain && plain.as_ref().is_some_and(|words| is_same(words, segment)))
            }
            Form::Words { words, tail } => is_plain && covers_words(words, *tail, &segment.words),
            Form::Anything => is_plain,
        }
    }

    /// Whether it meets a command, in any reading of it.
    pub(crate) fn meets(&self, command: &CommandText) -> Hit {
        if matches!(self.form, Form::Anything) || self.whole.matches_widely(&command.text) {
            return Hit::Yes;
        }
        let segments = command
            .reading
            .segments
            .iter()
            .chain(&command.reading.nested);
        let mut texts = segments.filter_map(|segment| command.text.get(segment.range.clone()));
        if self.wide_program().is_none() && texts.any(|text| self.whole.matches_widely(text)) {
            return Hit::Yes;
        }
        let words = match &self.form {
            Form::Exact {
                wide: Some(words), ..
            }
            | Form::Words { words, .. } => words,
            Form::Exact { text, .. } if command.text.contains(&**text) => return Hit::Yes,
            _ => return Hit::No,
        };
        let runs = command.runs();
        let hits = runs.list.iter().map(|run| meets_run(words, run));
        hits.max().unwrap_or(Hit::No)
    }
}

fn exact(text: String) -> Form {
    let reading = read(&text);
    let one = match &reading.segments[..] {
        [segment] if reading.understood() => Some(segment),
        _ => None,
    };
    let is_plain = |segment: &&Segment| {
        concern(segment).is_none() && segment.words.iter().all(Word::is_literal)
    };
    let plain = one
        .filter(is_plain)
        .map(|segment| segment.words.iter().map(|word| word.text.clone()).collect());
    let wide = one
        .filter(|segment| !segment.words.is_empty())
        .map(|segment| {
            let literal =
                |word: &Word| Glob::from_tokens(word.text.chars().map(Token::Character).collect());
            segment.words.iter().map(literal).collect()
        });
    Form::Exact { text, plain, wide }
}

/// Splits a pattern into words.
fn words(text: &str) -> Result<Form, Unreadable> {
    let mut words: Vec<Vec<Token>> = Vec::new();
    let mut word: Option<Vec<Token>> = None;
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let current = match c {
            ' ' | '\t' | '\n' if quote.is_none() => {
                words.extend(word.take());
                continue;
            }
            _ => word.get_or_insert_default(),
        };
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            '\\' => match characters.next_if(|next| "*?\\'\" ".contains(*next)) {
                Some(escaped) => current.push(Token::Character(escaped)),
                None => current.push(Token::Character('\\')),
            },
            '*' if characters.next_if_eq(&'*').is_some() => current.push(Token::Deep),
            '*' => current.push(Token::Some),
            '?' => current.push(Token::One),
            c => current.push(Token::Character(c)),
        }
    }
    if quote.is_some() {
        return Err(Unreadable::new("quotes that are closed", text));
    }
    words.extend(word);
    let tail = match words.last().map(Vec::as_slice) {
        Some([Token::Some]) => Tail::Some,
        Some([Token::Deep]) => Tail::Any,
        _ => Tail::Nothing,
    };
    if tail != Tail::Nothing {
        words.pop();
    }
    if words.iter().any(|word| word[..] == [Token::Deep]) {
        return Err(Unreadable::new("`**` only as the last word", text));
    }
    if words.is_empty() {
        return Ok(Form::Anything);
    }
    let words = words.into_iter().map(Glob::from_tokens).collect();
    Ok(Form::Words { words, tail })
}

fn is_same(words: &[String], segment: &Segment) -> bool {
    words.len() == segment.words.len()
        && segment.redirections.is_empty()
        && words
            .iter()
            .zip(&segment.words)
            .all(|(text, word)| word.is_literal() && *text == word.text)
}

fn covers_words(words: &[Glob], tail: Tail, found: &[Word]) -> bool {
    let enough = match tail {
        Tail::Nothing => found.len() == words.len(),
        Tail::Some => found.len() > words.len(),
        Tail::Any => found.len() >= words.len(),
    };
    enough
        && words
            .iter()
            .zip(found)
            .enumerate()
            .all(|(index, (glob, word))| covers_word(glob, word, index == 0))
}

/// Whether a word of a pattern covers one of a command.
fn covers_word(glob: &Glob, word: &Word, is_program: bool) -> bool {
    if let Some(literal) = glob.literal() {
        // An unquoted glob is whatever the shell makes of it.
        return literal == word.text && !word.expansions.glob;
    }
    let has = |c| glob.tokens().contains(&Token::Character(c));
    let begins_open = !matches!(glob.tokens().first(), Some(Token::Character(_)));
    let climbs = word.text.split('/').any(|part| part == "..") && !glob_has_climb(glob);
    let is_option = begins_open && word.text.starts_with('-');
    let is_path = is_program && word.text.contains('/') && !has('/');
    !climbs && !is_option && !is_path && glob.matches(&word.text)
}

fn glob_has_climb(glob: &Glob) -> bool {
    let dot = Token::Character('.');
    glob.tokens().windows(2).any(|pair| pair == [dot, dot])
}

/// Whether words of a rule that refuses meet something that is run.
fn meets_run(words: &[Glob], run: &Run) -> Hit {
    let (Some(program), Some(pattern)) = (run.words.first(), words.first()) else {
        return Hit::No;
    };
    let Some(program) = program else {
        return Hit::Maybe;
    };
    if !meets_program(pattern, program) {
        return Hit::No;
    }
    let known: Vec<&str> = run
        .words
        .iter()
        .map(|word| word.as_deref().unwrap_or("-"))
        .collect();
    let mut found = meets_arguments(&words[1..], &run.words[1..]);
    if let [subcommand] = subcommand_indexes(base_name(program), &known)[..] {
        found = found.max(meets_arguments(&words[1..], &run.words[subcommand..]));
    }
    if run.certain {
        found
    } else {
        found.min(Hit::Maybe)
    }
}

fn meets_program(pattern: &Glob, program: &str) -> bool {
    let name = base_name(program).to_ascii_lowercase();
    match pattern.literal() {
        Some(literal) => base_name(literal).to_ascii_lowercase() == name,
        None => pattern.matches_widely(program) || pattern.matches_widely(&name),
    }
}

/// Whether the arguments begin with those of the rule; with others in between it is a guess.
fn meets_arguments(words: &[Glob], found: &[Option<String>]) -> Hit {
    let mut at = 0;
    let mut hit = Hit::Yes;
    for word in words {
        if let Some(letters) = word.literal().and_then(short_options) {
            // The order and the grouping of one-letter options don't matter.
            let given: Vec<&str> = found
                .iter()
                .flatten()
                .filter_map(|word| short_options(word))
                .collect();
            if letters
                .chars()
                .all(|letter| given.iter().any(|word| word.contains(letter)))
            {
                continue;
            }
        }
        let place = found[at..].iter().position(|text| match text {
            None => true,
            Some(text) => word.matches_widely(text),
        });
        match place {
            None => return Hit::No,
            Some(skipped) => {
                let is_known = found[at + skipped].is_some();
                let only_options = found[at..at + skipped]
                    .iter()
                    .all(|word| word.as_deref().is_some_and(|word| word.starts_with('-')));
                if !is_known {
                    return Hit::Maybe;
                }
                if !only_options {
                    hit = Hit::Maybe;
                }
                at += skipped + 1;
            }
        }
    }
    hit
}

/// The letters of one-letter options.
fn short_options(word: &str) -> Option<&str> {
    let letters = word.strip_prefix('-')?;
    let plain = !letters.is_empty() && letters.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then_some(letters)
}
