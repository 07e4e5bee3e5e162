//! How much room text takes on a terminal: colours take none, some characters none, some two columns.

use unicode_width::UnicodeWidthChar as _;

/// The columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    parts(text).map(|(_, columns)| columns).sum()
}

/// As much of a text as fits into so many columns. A colour that was cut off is ended.
pub(super) fn cut(text: &str, width: usize) -> String {
    let mut seen = 0;
    let mut kept = String::new();
    for (c, columns) in parts(text) {
        seen += columns;
        if seen > width {
            kept.push_str("\u{1b}[0m");
            break;
        }
        kept.push(c);
    }
    kept
}

/// The characters of a text, each with the columns that it takes.
fn parts(text: &str) -> impl Iterator<Item = (char, usize)> {
    let mut is_escape = false;
    text.chars().map(move |c| {
        let was_escape = is_escape;
        is_escape = match is_escape {
            true => c != 'm',
            false => c == '\u{1b}',
        };
        let columns = match was_escape || is_escape {
            true => 0,
            false => c.width().unwrap_or(0),
        };
        (c, columns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room_and_some_characters_twice_as_much() {
        assert_eq!(columns(""), 0);
        assert_eq!(columns("\u{1b}[32mada\u{1b}[0m"), 3);
        assert_eq!(columns("größer"), 6);
        assert_eq!(columns("船ok🚢"), 6);
        assert_eq!(columns("cafe\u{301}"), 4);
    }

    #[test]
    fn what_does_not_fit_is_cut_off() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc\u{1b}[0m");
        assert_eq!(cut("船船", 3), "船\u{1b}[0m");
        let green = "\u{1b}[32mab\u{1b}[0m";
        assert_eq!(cut(green, 2), green);
        assert_eq!(cut(green, 1), "\u{1b}[32ma\u{1b}[0m");
    }
}
