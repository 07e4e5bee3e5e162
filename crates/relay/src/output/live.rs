//! Lines on a terminal that change in place.

/// More lines than this would scroll away, and what scrolled away can't be changed.
const MOST_LINES: usize = 20;

/// As many lines as were asked for, written again whenever one of them changes.
pub(crate) struct LiveLines {
    lines: Vec<String>,
    width: usize,
    is_shown: bool,
}

impl LiveLines {
    /// None if there are too many of them.
    pub(crate) fn new(count: usize, width: usize) -> Option<Self> {
        (1..=MOST_LINES).contains(&count).then(|| Self {
            lines: vec![String::new(); count],
            width,
            is_shown: false,
        })
    }

    /// Changes a line; what has to be written so that it is seen.
    pub(crate) fn set(&mut self, index: usize, text: &str) -> String {
        if let Some(line) = self.lines.get_mut(index) {
            *line = cut(text, self.width);
        }
        let up = match std::mem::replace(&mut self.is_shown, true) {
            true => format!("\u{1b}[{}A", self.lines.len()),
            false => String::new(),
        };
        let lines: String = self
            .lines
            .iter()
            .map(|line| format!("\r{line}\u{1b}[K\n"))
            .collect();
        format!("{up}{lines}")
    }
}

/// A line that went on in the next one would move everything by a line. Colours take no room; one that was cut
/// off is ended.
fn cut(text: &str, width: usize) -> String {
    let mut seen = 0;
    let mut is_escape = false;
    let mut kept = String::new();
    for c in text.chars() {
        if c == '\u{1b}' {
            is_escape = true;
        } else if is_escape {
            is_escape = c != 'm';
        } else {
            seen += 1;
            if seen >= width {
                kept.push_str("\u{1b}[0m");
                break;
            }
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_over_themselves() {
        let mut live = LiveLines::new(2, 80).unwrap();
        assert_eq!(live.set(0, "one"), "\rone\u{1b}[K\n\r\u{1b}[K\n");
        assert_eq!(
            live.set(1, "two"),
            "\u{1b}[2A\rone\u{1b}[K\n\rtwo\u{1b}[K\n"
        );
        assert!(LiveLines::new(0, 80).is_none() && LiveLines::new(21, 80).is_none());
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        assert_eq!(cut("abcdef", 4), "abc\u{1b}[0m");
        assert_eq!(cut("\u{1b}[32mab\u{1b}[0m", 4), "\u{1b}[32mab\u{1b}[0m");
    }
}
