//! How far something long has come: one line on standard error that changes in place, or, where that is no
//! terminal, a line for each step.

use std::io::{IsTerminal as _, Write as _};

/// How many characters the bar has.
const BAR: usize = 20;

/// The line.
pub(crate) struct ProgressLine {
    in_place: bool,
    last: Option<String>,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self {
            in_place: std::io::stderr().is_terminal(),
            last: None,
        }
    }

    /// So many steps of so many are done, and this one is under way; `detail` changes meanwhile.
    pub(crate) fn show(&mut self, done: usize, of: usize, step: &str, detail: &str) {
        let text = match self.in_place {
            true => format!("\r{} {step}{detail}\u{1b}[K", bar(done, of)),
            false if self.last.as_deref() == Some(step) => return,
            false => format!("{step} ({} of {of})\n", done + 1),
        };
        self.last = Some(step.to_owned());
        write(&text);
    }

    /// Takes the line away, before something else is written.
    pub(crate) fn clear(&self) {
        if self.in_place && self.last.is_some() {
            write("\r\u{1b}[K");
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Where nobody looks, nobody misses it.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

fn bar(done: usize, of: usize) -> String {
    let full = BAR * done.min(of) / of.max(1);
    format!(
        "[{}{}] {done}/{of}",
        "#".repeat(full),
        "-".repeat(BAR - full)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_how_far_it_is() {
        assert_eq!(bar(0, 4), "[--------------------] 0/4");
        assert_eq!(bar(3, 4), "[###############-----] 3/4");
        assert_eq!(bar(0, 0), "[--------------------] 0/0");
    }
}
