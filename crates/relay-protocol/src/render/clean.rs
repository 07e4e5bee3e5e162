//! Removes what a reader cannot see: control characters, and the invisible ones that hide or reorder
//! text.

/// Text without control characters (but newline and tab) and without invisible ones.
///
/// Every kind of line end becomes a newline. Joiners and variation selectors stay where scripts and
/// emoji need them: one at a time, between or after characters that are not ASCII.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut last = '\n';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let kept = match c {
            '\r' if rest.peek() == Some(&'\n') => continue,
            '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' => '\n',
            '\u{200c}' | '\u{200d}' => {
                let next = rest.peek().copied().unwrap_or('\n');
                if !(joins(last) && joins(next)) {
                    continue;
                }
                c
            }
            '\u{fe0e}' | '\u{fe0f}' if joins(last) || matches!(last, '0'..='9' | '#' | '*') => c,
            c if is_hidden(c) => continue,
            c => c,
        };
        cleaned.push(kept);
        last = kept;
    }
    cleaned
}

/// Whether a joiner beside this character means something.
fn joins(c: char) -> bool {
    !c.is_ascii() && !matches!(c, '\u{200c}' | '\u{200d}') && !is_hidden_always(c)
}

fn is_hidden(c: char) -> bool {
    is_hidden_always(c) || matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

fn is_hidden_always(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Soft hyphen, joiners of other kinds, fillers.
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{ffa0}'
        // Zero width, direction marks and overrides, invisible operators.
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        // Variation selectors but the two of emoji, and the tags.
        | '\u{fe00}'..='\u{fe0d}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_can_be_seen() {
        for text in [
            "plain text\n\twith tab",
            "Grüße, 日本語, עברית, العربية",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn removes_what_hides() {
        let cases = [
            ("a\u{0}b\u{1b}[31mc\u{7f}", "ab[31mc"),
            (
                "one\r\ntwo\rthree\u{2028}four\u{85}five",
                "one\ntwo\nthree\nfour\nfive",
            ),
            ("a\u{202e}b\u{2066}c\u{200b}d\u{feff}e", "abcde"),
            ("re\u{200d}lay\u{200c}", "relay"),
            ("é\u{200d}\u{200d}é", "é\u{200d}é"),
            ("\u{e0041}\u{e0042}x\u{fe00}", "x"),
            ("x\u{fe0f}y\u{ad}z", "xyz"),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), expected);
        }
    }
}
