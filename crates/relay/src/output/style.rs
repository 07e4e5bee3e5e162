//! Colour, where it is wanted.

use anstyle::{AnsiColor, Effects, Style as Ansi};

/// How text looks; without colour, as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colored: bool,
}

impl Style {
    pub(crate) const fn new(colored: bool) -> Self {
        Self { colored }
    }

    /// A name, a title.
    pub(crate) fn strong(&self, text: &str) -> String {
        self.paint(Ansi::new().effects(Effects::BOLD), text)
    }

    /// What matters less.
    pub(crate) fn faint(&self, text: &str) -> String {
        self.paint(Ansi::new().effects(Effects::DIMMED), text)
    }

    /// What went well.
    pub(crate) fn good(&self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// What is not decided yet.
    pub(crate) fn open(&self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// What went wrong.
    pub(crate) fn bad(&self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }

    /// What joins parts of a command.
    pub(crate) fn joint(&self, text: &str) -> String {
        self.paint(AnsiColor::Cyan.on_default(), text)
    }

    /// What somebody has to look at twice.
    pub(crate) fn danger(&self, text: &str) -> String {
        let style = AnsiColor::Red.on_default().effects(Effects::BOLD);
        self.paint(style, text)
    }

    fn paint(&self, style: Ansi, text: &str) -> String {
        match self.colored {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}
