//! Lines on a terminal that change in place.

use super::width::{columns, cut};
use crate::platform::TerminalSize;

/// More lines than this are more than somebody watches.
const MOST_LINES: usize = 20;

/// As many lines as were asked for, written again whenever one of them changes.
pub(crate) struct LiveLines {
    lines: Vec<String>,
    width: usize,
    /// The columns that each line took when they were last written.
    shown: Vec<usize>,
}

impl LiveLines {
    /// None if there are too many of them: what has scrolled away can't be changed.
    pub(crate) fn new(count: usize, size: TerminalSize) -> Option<Self> {
        let most = MOST_LINES.min(size.rows.saturating_sub(1));
        (1..=most).contains(&count).then(|| Self {
            lines: vec![String::new(); count],
            width: size.columns,
            shown: Vec::new(),
        })
    }

    /// The terminal may have another size by now.
    pub(super) const fn fit(&mut self, size: Option<TerminalSize>) {
        if let Some(size) = size {
            self.width = size.columns;
        }
    }

    /// Changes a line; what has to be written so that it is seen.
    pub(super) fn set(&mut self, index: usize, text: &str) -> String {
        if let Some(line) = self.lines.get_mut(index) {
            text.clone_into(line);
        }
        // One column stays free: a line that fills its row may take the next one, too.
        let width = self.width.saturating_sub(1);
        self.draw(|line| cut(line, width))
    }

    /// What has to be written so that they stay: whole, also those that are wider than the terminal.
    pub(super) fn settle(&mut self) -> String {
        self.draw(str::to_owned)
    }

    /// Puts other lines in their place, as many as they like, each whole.
    pub(super) fn replace(&mut self, lines: Vec<String>) -> String {
        let erased = self.erase();
        self.lines = lines;
        erased + &self.settle()
    }

    /// How many rows lines take that are shown whole.
    pub(super) fn rows(&self, lines: &[String]) -> usize {
        let rows = |line: &String| columns(line).div_ceil(self.width.max(1)).max(1);
        lines.iter().map(rows).sum()
    }

    /// What has to be written so that nothing is left of them.
    pub(super) fn erase(&mut self) -> String {
        let shown = std::mem::take(&mut self.shown);
        if shown.is_empty() {
            return String::new();
        }
        // A terminal that became narrow has broken the lines that no longer fit.
        let rows = |columns: usize| columns.div_ceil(self.width.max(1)).max(1);
        let up: usize = shown.into_iter().map(rows).sum();
        format!("\u{1b}[{up}A\r\u{1b}[J")
    }

    fn draw(&mut self, fitted: impl Fn(&str) -> String) -> String {
        let mut drawn = self.erase();
        for line in &self.lines {
            let line = fitted(line);
            self.shown.push(columns(&line));
            drawn.push_str(&line);
            drawn.push('\n');
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(columns: usize, rows: usize) -> TerminalSize {
        TerminalSize { columns, rows }
    }

    #[test]
    fn lines_are_written_over_themselves() {
        let mut live = LiveLines::new(2, size(80, 24)).unwrap();
        assert_eq!(live.set(0, "one"), "one\n\n");
        assert_eq!(live.set(1, "two"), "\u{1b}[2A\r\u{1b}[Jone\ntwo\n");
        assert_eq!(live.erase(), "\u{1b}[2A\r\u{1b}[J");
        assert_eq!(live.erase(), "");
    }

    #[test]
    fn lines_that_would_scroll_away_do_not_change_in_place() {
        let can = |count, rows| LiveLines::new(count, size(80, rows)).is_some();
        assert!(can(1, 24) && can(20, 24) && can(9, 10));
        assert!(!can(0, 24) && !can(21, 24) && !can(10, 10) && !can(1, 0));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_until_it_stays() {
        let mut live = LiveLines::new(1, size(4, 24)).unwrap();
        assert_eq!(live.set(0, "abcdef"), "abc\u{1b}[0m\n");
        assert_eq!(live.settle(), "\u{1b}[1A\r\u{1b}[Jabcdef\n");
    }

    #[test]
    fn lines_that_a_narrow_terminal_has_broken_are_found_again() {
        let mut live = LiveLines::new(2, size(80, 24)).unwrap();
        live.set(0, "twelve chars");
        live.fit(Some(size(5, 24)));
        assert_eq!(live.erase(), "\u{1b}[4A\r\u{1b}[J");
    }
}
