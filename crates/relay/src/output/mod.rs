//! What commands print: words for people, or JSON for programs; colour and moving lines on terminals only.

mod flow;
mod live;
mod panel;
mod progress;
mod style;
mod table;
mod width;

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use clap::ValueEnum;
use relay_protocol::render::clean;
use serde::Serialize;

use crate::failure::{Exit, Failure, Outcome};
use crate::platform;
pub(crate) use flow::Flow;
pub(crate) use live::LiveLines;
pub(crate) use panel::Panel;
pub(crate) use progress::ProgressLine;
pub(crate) use style::Style;
pub(crate) use table::{Table, fields};

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    // No comments for users here: with them clap would show the long form of every help.
    Auto,
    Always,
    Never,
}

/// Where a command's results go, and in which form.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    json: bool,
    style: Style,
    error_style: Style,
    is_terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let style = |is_terminal| {
            Style::new(match color {
                ColorChoice::Auto => is_terminal && wanted,
                ColorChoice::Always => true,
                ColorChoice::Never => false,
            })
        };
        Self {
            json,
            style: style(is_terminal),
            error_style: style(std::io::stderr().is_terminal()),
            is_terminal,
        }
    }

    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// How text for people looks.
    pub(crate) const fn style(&self) -> &Style {
        &self.style
    }

    /// The same on standard error.
    pub(crate) const fn error_style(&self) -> &Style {
        &self.error_style
    }

    /// A result: an object for programs, or words for people.
    pub(crate) fn show(
        &self,
        value: &impl Serialize,
        words: impl FnOnce(&Style) -> String,
    ) -> Outcome {
        match self.json {
            true => self.json_line(value),
            false => self.line(&words(&self.style)),
        }
    }

    /// One line of JSON.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Outcome {
        let line = serde_json::to_string(value)
            .map_err(|error| Failure::new(Exit::Failed, "failed", error.to_string()))?;
        self.line(&line)
    }

    /// One line, or several that belong together.
    pub(crate) fn line(&self, text: &str) -> Outcome {
        self.write(&format!("{}\n", text.trim_end_matches('\n')))
    }

    /// Text as it is, at once.
    pub(crate) fn write(&self, text: &str) -> Outcome {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes());
        written
            .and_then(|()| stdout.flush())
            .map_err(|error| match error.kind() {
                ErrorKind::BrokenPipe => Failure::nobody_reads(),
                _ => Failure::new(
                    Exit::Failed,
                    "failed",
                    format!("standard output can't be written: {error}"),
                ),
            })
    }

    /// Something beside the result that people should know; programs find it in the result.
    pub(crate) fn note(&self, text: &str) {
        if !self.json {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// Something that only somebody who watches wants to know.
    pub(crate) fn hint(&self, text: &str) {
        if self.is_terminal {
            self.note(&self.error_style.faint(text));
        }
    }

    /// Lines that change in place, where that is possible: on a terminal, if they fit.
    pub(crate) fn live_lines(&self, count: usize) -> Option<LiveLines> {
        if self.json || !self.is_terminal || !can_change_lines() {
            return None;
        }
        LiveLines::new(count, platform::terminal()?)
    }

    /// A place at the end of the terminal whose lines change, where that is possible.
    pub(crate) fn panel(&self) -> Option<Panel> {
        if self.json || !self.is_terminal || !can_change_lines() {
            return None;
        }
        Panel::new(platform::terminal()?)
    }

    /// Changes one of them.
    pub(crate) fn change(&self, live: &mut LiveLines, index: usize, text: &str) -> Outcome {
        live.fit(platform::terminal());
        self.write(&live.set(index, text))
    }

    /// Leaves them as they are, but whole.
    pub(crate) fn settle(&self, live: &mut LiveLines) -> Outcome {
        live.fit(platform::terminal());
        self.write(&live.settle())
    }
}

/// Whether a terminal can go back to a line that it has shown.
fn can_change_lines() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Text of others as a terminal may show it: nothing in it can move the cursor, hide or recolour.
pub(crate) fn safe(text: &str) -> String {
    clean(text)
}

/// The same on one line.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<String> = clean(text).split_whitespace().map(str::to_owned).collect();
    words.join(" ")
}
