//! The list of simple commands: operators, comments, redirections, reserved words.
//!
//! Where something is not understood the reader notes it and goes on as if it were a separator, so that a rule that
//! refuses still sees what comes after. It stops where going on makes no sense: a here-document, an open quote.

use std::ops::Range;

use relay_protocol::limits::{COMMAND_BYTES, COMMAND_DEPTH};

use super::{Operator, Reading, Redirection, Segment, Trouble};

/// Reads a command. Never fails: [`Reading::trouble`] says what was not understood.
#[must_use]
pub fn read(command: &str) -> Reading {
    read_nested(command, 0)
}

/// Reads a command that is inside so many others.
pub(crate) fn read_nested(command: &str, depth: usize) -> Reading {
    let mut reader = Reader {
        text: command,
        at: 0,
        depth,
        reading: Reading::default(),
    };
    if depth > COMMAND_DEPTH {
        reader.trouble(0, "commands that are nested too deep");
    } else if command.len() > COMMAND_BYTES {
        reader.trouble(0, "more text than is read");
    } else {
        if let Some(at) = command.find(is_odd) {
            reader.trouble(
                at,
                "a control character, an invisible or an unusual blank one",
            );
        }
        if let Some(at) = torn(command) {
            reader.trouble(at, "an operator over two lines");
        }
        let segments = reader.list(None);
        reader.reading.segments = segments;
    }
    reader.reading
}

/// Whether a character may look like nothing, or like a blank that is none to a shell.
fn is_odd(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{3164}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Where a continued line may tear something apart that a shell puts together again before it looks.
fn torn(command: &str) -> Option<usize> {
    let bytes = command.as_bytes();
    command.match_indices("\\\n").map(|(at, _)| at).find(|at| {
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        let after = bytes.get(at + 2).copied().unwrap_or(b' ');
        b"&|;<>$(){}[]!`".contains(&before) || (before != b' ' && b"<>&|;(=[".contains(&after))
    })
}

/// Words that begin something other than a simple command.
const RESERVED: &[&str] = &[
    "!", "{", "}", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "select", "then", "time", "until", "while",
];
/// Of those: the ones that are followed by a name.
const NAMING: &[&str] = &["case", "for", "function", "select"];

pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) reading: Reading,
}

impl Reader<'_> {
    pub(super) fn trouble(&mut self, at: usize, why: &'static str) {
        self.reading.trouble.get_or_insert(Trouble { at, why });
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, offset: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + offset).copied()
    }

    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.text.as_bytes()[self.at..].starts_with(prefix.as_bytes())
    }

    /// Takes the character here, which must be there.
    pub(super) fn take(&mut self) -> char {
        let taken = self.text[self.at..].chars().next().unwrap_or('\0');
        self.at += taken.len_utf8();
        taken
    }

    pub(super) fn stop(&mut self) {
        self.at = self.text.len();
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.at += 2,
                _ => return,
            }
        }
    }

    /// Reads segments to the end, or to the `)` of a substitution, which is left.
    pub(super) fn list(&mut self, until: Option<u8>) -> Vec<Segment> {
        let mut list = List::default();
        loop {
            self.skip_blanks();
            let start = self.at;
            let Some(byte) = self.peek() else { break };
            match byte {
                b')' if until == Some(b')') => break,
                b'#' => self.comment(),
                b'(' | b')' => {
                    self.at += 1;
                    self.trouble(start, "a subshell, a function or an array");
                    list.finish(Operator::Semicolon);
                }
                b'\n' | b';' | b'&' | b'|' if !self.starts_with("&>") => {
                    self.operator(&mut list);
                }
                b'<' | b'>' | b'&' if self.peek_at(1) != Some(b'(') || byte == b'&' => {
                    self.redirection(&mut list, String::new(), start);
                }
                _ => self.word_of(&mut list),
            }
        }
        if list.is_open() {
            self.trouble(self.at, "an operator with nothing after it");
        }
        list.finish(Operator::Semicolon);
        list.segments
    }

    fn comment(&mut self) {
        let start = self.at;
        let rest = &self.text[start..];
        self.at += rest.find('\n').unwrap_or(rest.len());
        self.reading.comments.push(start..self.at);
    }

    fn operator(&mut self, list: &mut List) {
        const OPERATORS: &[(&str, Operator)] = &[
            ("&&", Operator::And),
            ("||", Operator::Or),
            ("|&", Operator::PipeAll),
            ("|", Operator::Pipe),
            ("&", Operator::Background),
            (";", Operator::Semicolon),
            ("\n", Operator::Newline),
        ];
        let start = self.at;
        if self.starts_with(";;") || self.starts_with(";&") {
            self.trouble(start, "a part of `case`");
        }
        let found = OPERATORS.iter().find(|(text, _)| self.starts_with(text));
        let (text, operator) = *found.unwrap_or(&(";", Operator::Semicolon));
        self.at += text.len();
        if operator == Operator::Newline {
            // A line may end after an operator, and lines may be empty.
            if !list.current.is_empty() {
                list.finish(operator);
            }
            return;
        }
        self.reading.operators.push(start..self.at);
        if list.current.is_empty() {
            self.trouble(start, "an operator with nothing before it");
        }
        list.finish(operator);
    }

    fn redirection(&mut self, list: &mut List, descriptor: String, start: usize) {
        const OPERATORS: &[&str] = &[
            "&>>", "&>", "<<<", "<<", "<>", "<&", "<", ">>", ">|", ">&", ">",
        ];
        let found = OPERATORS.iter().find(|text| self.starts_with(text));
        let operator = *found.unwrap_or(&">");
        self.at += operator.len();
        if operator == "<<" {
            // Its text begins on another line; nothing after it is where it seems to be.
            self.trouble(start, "a here-document");
            self.stop();
        }
        self.skip_blanks();
        let target = match self.peek() {
            None | Some(b'\n' | b';' | b'&' | b'|' | b'(' | b')') => None,
            Some(b'<' | b'>') if self.peek_at(1) != Some(b'(') => None,
            Some(b'#') => None,
            _ => Some(self.word()),
        };
        let raw = target
            .as_ref()
            .map(|target| &self.text[target.range.clone()]);
        if target.is_none()
            || (raw.is_some_and(is_number) && matches!(self.peek(), Some(b'<' | b'>')))
        {
            self.trouble(start, "a redirection to nothing");
        }
        list.current.redirections.push(Redirection {
            range: start..self.at,
            descriptor,
            operator,
            target: target.unwrap_or_default(),
        });
        list.extend(start..self.at);
    }

    fn word_of(&mut self, list: &mut List) {
        let word = self.word();
        let raw = &self.text[word.range.clone()];
        if matches!(self.peek(), Some(b'<' | b'>')) && self.peek_at(1) != Some(b'(') {
            if is_number(raw) {
                if raw.contains('\\') {
                    self.trouble(word.range.start, "a number over two lines");
                }
                return self.redirection(list, word.text, word.range.start);
            }
            if raw.starts_with('{') {
                self.trouble(word.range.start, "a redirection that names a variable");
            }
        }
        if self.peek() == Some(b'(') {
            self.trouble(self.at, "a function, an array or an extended glob");
        }
        if raw.contains('[') && begins_subscript(raw) && list.takes_assignments() {
            self.trouble(word.range.start, "a subscript");
        }
        if list.current.words.is_empty() {
            if raw.contains("\\\n") {
                self.trouble(word.range.start, "a program or a keyword over two lines");
            }
            if RESERVED.contains(&raw) {
                let named = NAMING.contains(&raw);
                self.trouble(word.range.start, "more than simple commands");
                self.after_reserved(named);
                return;
            }
            if is_assignment(raw) {
                list.extend(word.range.clone());
                list.current.assignments.push(word);
                return;
            }
        }
        list.extend(word.range.clone());
        list.current.words.push(word);
    }

    /// Goes to where the command after a reserved word probably begins.
    fn after_reserved(&mut self, named: bool) {
        self.skip_blanks();
        if named || self.peek() == Some(b'-') {
            let next = self.peek();
            if next.is_some_and(|byte| !b"\n;&|()<>".contains(&byte)) {
                self.word();
            }
        }
    }
}

/// Whether a word is digits, which mean a descriptor when a redirection follows.
fn is_number(raw: &str) -> bool {
    let digits = raw.replace("\\\n", "");
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word may be an assignment to a part of an array, which is read by rules of its own.
fn begins_subscript(raw: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let rest = raw.trim_start_matches(name);
    rest.len() < raw.len() && rest.starts_with('[')
}

/// Whether a word before the program is an assignment, judged by how it is written.
fn is_assignment(raw: &str) -> bool {
    let name = raw
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    let rest = &raw[name..];
    let named = name > 0 && !raw.as_bytes()[0].is_ascii_digit();
    named
        && (rest.starts_with('=')
            || rest.starts_with("+=")
            || (rest.starts_with('[') && (rest.contains("]=") || rest.contains("]+="))))
}

/// The segments so far, and the one that is being read.
#[derive(Default)]
struct List {
    segments: Vec<Segment>,
    current: Segment,
    last: Option<Operator>,
}

impl List {
    fn extend(&mut self, range: Range<usize>) {
        let segment = &mut self.current;
        if segment.range.is_empty() {
            segment.range = range;
        } else {
            segment.range.end = range.end;
        }
    }

    fn finish(&mut self, next: Operator) {
        if !self.current.is_empty() {
            self.current.operator = self.last.filter(|_| !self.segments.is_empty());
            self.segments.push(std::mem::take(&mut self.current));
        }
        self.last = Some(next);
    }

    /// Whether the next word may be an assignment.
    fn takes_assignments(&self) -> bool {
        const BUILTINS: &[&str] = &[
            "declare", "typeset", "local", "export", "readonly", "alias", "eval", "let", "builtin",
            "command",
        ];
        let program = self.current.words.first();
        program.is_none_or(|word| BUILTINS.contains(&&*word.text))
    }

    /// Whether a command has to follow.
    fn is_open(&self) -> bool {
        self.current.is_empty()
            && matches!(
                self.last,
                Some(Operator::And | Operator::Or | Operator::Pipe | Operator::PipeAll)
            )
    }
}
