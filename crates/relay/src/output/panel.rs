//! A place at the end of a terminal: some lines that change, above which others stay.

use super::Output;
use super::live::LiveLines;
use crate::failure::Outcome;
use crate::platform::{self, TerminalSize};

/// The place.
pub(crate) struct Panel {
    live: LiveLines,
    rows: usize,
}

impl Panel {
    pub(super) fn new(size: TerminalSize) -> Option<Self> {
        Some(Self {
            live: LiveLines::new(1, size)?,
            rows: size.rows,
        })
    }

    /// Shows these lines in place of those before.
    pub(crate) fn draw(&mut self, output: &Output, lines: Vec<String>) -> Outcome {
        self.fit();
        let drawn = self.live.replace(lines);
        output.write(&drawn)
    }

    /// Writes something that stays, in place of what was shown.
    pub(crate) fn leave(&mut self, output: &Output, text: &str) -> Outcome {
        self.fit();
        let erased = self.live.erase();
        output.write(&format!("{erased}{text}\n"))
    }

    /// Takes away what is shown.
    pub(crate) fn clear(&mut self, output: &Output) -> Outcome {
        self.fit();
        let erased = self.live.erase();
        output.write(&erased)
    }

    /// Whether lines can be changed later: what has scrolled away can't.
    pub(crate) fn has_room(&mut self, lines: &[String]) -> bool {
        self.fit();
        self.live.rows(lines) < self.rows
    }

    fn fit(&mut self) {
        let size = platform::terminal();
        self.live.fit(size);
        self.rows = size.map_or(self.rows, |size| size.rows);
    }
}
