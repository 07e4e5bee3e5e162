//! A tool call, and what was read of it: every command once, however many rules look at it.

use std::cell::OnceCell;
use std::path::Path;

use relay_protocol::permission::ToolParams;
use serde_json::Value;

use crate::files::Files;
use crate::kinds::{Kind, kind_of, known_main};
use crate::patch::touched;
use crate::shell::concern::{Concern, concern};
use crate::shell::runs::{Runs, runs};
use crate::shell::{Reading, read};

/// A tool call that somebody wants to make.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// What it would be called with.
    pub params: &'a ToolParams,
    /// The provider's id of the call.
    pub tool_call_id: Option<&'a str>,
    /// Where relative paths begin.
    pub cwd: Option<&'a Path>,
}

/// A call and what was read of it.
pub(crate) struct View<'a> {
    pub(crate) call: &'a Call<'a>,
    pub(crate) files: &'a dyn Files,
    commands: Vec<(&'a str, CommandText)>,
    /// The files that a patch touches, where the call has one; `None` inside: it can't be read.
    patch: Option<(&'a str, Option<Vec<String>>)>,
}

/// What of a call has to be covered by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it at once.
    Whole,
    /// A segment of its first command.
    Segment(usize),
    /// A file that its patch touches.
    File(usize),
}

/// A command, read.
pub(crate) struct CommandText {
    pub(crate) text: String,
    pub(crate) reading: Reading,
    /// For every segment: why a wildcard doesn't cover it.
    pub(crate) concerns: Vec<Option<Concern>>,
    runs: OnceCell<Runs>,
}

impl CommandText {
    fn new(text: String) -> Self {
        let reading = read(&text);
        Self {
            concerns: reading.segments.iter().map(concern).collect(),
            text,
            reading,
            runs: OnceCell::new(),
        }
    }

    /// Everything that it would run.
    pub(crate) fn runs(&self) -> &Runs {
        self.runs.get_or_init(|| runs(&self.reading))
    }
}

impl<'a> View<'a> {
    pub(crate) fn new(call: &'a Call<'a>, files: &'a dyn Files) -> Self {
        let mut view = Self {
            call,
            files,
            commands: Vec::new(),
            patch: None,
        };
        // The parameter that rules are found by comes first.
        let main = known_main(call.tool).map(|(name, _)| name);
        let (mains, others): (Vec<_>, Vec<_>) =
            call.params.iter().partition(|(name, _)| main == Some(name));
        for (name, value) in mains.into_iter().chain(others) {
            match kind_of(call.tool, name) {
                Kind::Command => {
                    if let Some(text) = command_text(value) {
                        view.commands.push((name, CommandText::new(text)));
                    }
                }
                Kind::Patch if view.patch.is_none() => {
                    view.patch = Some((name, value.as_str().and_then(touched)));
                }
                _ => {}
            }
        }
        view
    }

    /// What was read of a parameter, where that is a command.
    pub(crate) fn command(&self, parameter: &str) -> Option<&CommandText> {
        let found = self.commands.iter().find(|(name, _)| *name == parameter);
        found.map(|(_, command)| command)
    }

    /// The command that rules are found by, which is that of a known tool's main parameter.
    pub(crate) fn indexed_command(&self) -> Option<&CommandText> {
        self.command(known_main(self.call.tool)?.0)
    }

    /// The first command.
    pub(crate) fn main_command(&self) -> Option<&CommandText> {
        self.commands.first().map(|(_, command)| command)
    }

    /// Whether segments of this parameter are covered one by one.
    pub(crate) fn is_split(&self, parameter: &str) -> bool {
        self.commands
            .first()
            .is_some_and(|(name, _)| *name == parameter)
    }

    /// The files that a patch in this parameter touches.
    pub(crate) fn touched(&self, parameter: &str) -> Option<&[String]> {
        let (name, files) = self.patch.as_ref()?;
        files.as_deref().filter(|_| *name == parameter)
    }

    /// Everything that has to be covered, at least one part.
    pub(crate) fn parts(&self) -> Vec<Part> {
        if let Some(command) = self.main_command() {
            if command.reading.understood() && !command.reading.segments.is_empty() {
                return (0..command.reading.segments.len())
                    .map(Part::Segment)
                    .collect();
            }
        } else if let Some((_, Some(files))) = &self.patch {
            return (0..files.len()).map(Part::File).collect();
        }
        vec![Part::Whole]
    }
}

/// The command in a value: text, or an array of arguments.
fn command_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words = words.iter().map(|word| word.as_str().map(quoted));
            words
                .collect::<Option<Vec<_>>>()
                .map(|words| words.join(" "))
        }
        _ => None,
    }
}

/// Writes an argument as shell text.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
