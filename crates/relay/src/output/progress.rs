//! How far something long has come: one line on standard error that changes in place, or, where that is no
//! terminal, a line for each step.

use std::io::Write as _;

use super::{LiveLines, can_change_lines};
use crate::platform;

/// How many characters the bar has.
const BAR: usize = 20;

/// The line.
pub(crate) struct ProgressLine {
    in_place: Option<LiveLines>,
    last: Option<String>,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        let size = platform::error_terminal().filter(|_| can_change_lines());
        Self {
            in_place: size.and_then(|size| LiveLines::new(1, size)),
            last: None,
        }
    }

    /// So many steps of so many are done, and this one is under way; `detail` changes meanwhile.
    pub(crate) fn show(&mut self, done: usize, of: usize, step: &str, detail: &str) {
        let text = match &mut self.in_place {
            Some(live) => {
                live.fit(platform::error_terminal());
                live.set(0, &format!("{} {step}{detail}", bar(done, of)))
            }
            None if self.last.as_deref() == Some(step) => return,
            None => format!("{step} ({} of {of})\n", done + 1),
        };
        self.last = Some(step.to_owned());
        write(&text);
    }

    /// Takes the line away, before something else is written.
    pub(crate) fn clear(&mut self) {
        if let Some(live) = &mut self.in_place {
            live.fit(platform::error_terminal());
            write(&live.erase());
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
