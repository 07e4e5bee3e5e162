//! Reading shell commands, as far as that is safe.
//!
//! The reader understands lists of simple commands exactly as bash does and says of everything else that it does
//! not ([`Reading::trouble`]); what it saw of it is still told, for rules that refuse. It is written by hand:
//! docs/permissions-rules.md says what the parsers at hand cost and got wrong. Nothing here panics or runs anything.
//!
//! To teach it a program that runs other programs, add a row to `programs/table.rs`.

pub(crate) mod concern;
mod dollar;
mod marks;
pub(crate) mod programs;
mod reader;
pub(crate) mod runs;
mod scripts;
mod word;

use std::ops::Range;

pub use marks::{Mark, marks};
pub use reader::read;

/// What was read of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The simple commands of the command itself, in order.
    pub segments: Vec<Segment>,
    /// The simple commands inside substitutions, in no promised order.
    pub nested: Vec<Segment>,
    /// The operators between segments.
    pub operators: Vec<Range<usize>>,
    /// The comments.
    pub comments: Vec<Range<usize>>,
    /// The first thing that was not understood. The segments are a guess then.
    pub trouble: Option<Trouble>,
}

impl Reading {
    /// Whether the segments are what a shell would run, all of it and nothing else.
    #[must_use]
    pub fn understood(&self) -> bool {
        self.trouble.is_none()
    }
}

/// Something that was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Where, in bytes.
    pub at: usize,
    /// What, to follow "it has".
    pub why: &'static str,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Where it is. Inside backquotes: where they are.
    pub range: Range<usize>,
    /// What joins it to the one before it.
    pub operator: Option<Operator>,
    /// Assignments before the program.
    pub assignments: Vec<Word>,
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Where it reads from and writes to.
    pub redirections: Vec<Redirection>,
}

impl Segment {
    /// Whether it has nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.assignments.is_empty() && self.redirections.is_empty()
    }

    /// Whether it reads what the one before it writes.
    #[must_use]
    pub fn is_piped_into(&self) -> bool {
        matches!(self.operator, Some(Operator::Pipe | Operator::PipeAll))
    }
}

/// What stands between two segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `;`
    Semicolon,
    /// The end of a line.
    Newline,
    /// `&`
    Background,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `|&`
    PipeAll,
}

/// One word, without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Where it is.
    pub range: Range<usize>,
    /// Its text. What would be expanded stands as it was written.
    pub text: String,
    /// Whether any of it was quoted.
    pub quoted: bool,
    /// What the shell would make of it.
    pub expansions: Expansions,
}

impl Word {
    /// Whether the program gets exactly this text.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.expansions == Expansions::default()
    }

    /// Whether nobody can tell which words become of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let expansions = self.expansions;
        expansions.substitution || expansions.parameter || expansions.glob || expansions.brace
    }
}

/// What a shell would replace in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expansions {
    /// `$( )`, backquotes, `<( )`, `$(( ))`.
    pub substitution: bool,
    /// `$NAME`, `${ }`.
    pub parameter: bool,
    /// `*`, `?`, `[`.
    pub glob: bool,
    /// `{a,b}`, `{1..9}`.
    pub brace: bool,
    /// `~`.
    pub tilde: bool,
    /// `$' '` and `$" "`, which some shells read otherwise.
    pub dollar_quote: bool,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// Where it is, its target included.
    pub range: Range<usize>,
    /// The file descriptor before the operator, as it was written.
    pub descriptor: String,
    /// The operator, such as `>>`.
    pub operator: &'static str,
    /// The file, the descriptor, or the text of a here-string.
    pub target: Word,
}

impl Redirection {
    /// Whether it only joins the two outputs or throws something away.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        let target = self.target.text.as_str();
        let literal = self.target.is_literal();
        literal
            && match self.operator {
                ">" | ">>" | "&>" | "&>>" | "<" => target == "/dev/null",
                ">&" => matches!(target, "1" | "2") && matches!(&*self.descriptor, "" | "1" | "2"),
                _ => false,
            }
    }
}
