//! The piece of a message that shows why it was found.
//!
//! The index holds no text, so matches are found again here, with an approximation of how SQLite folds
//! words: lower case, without combining marks, and for the Latin letters of European languages without
//! diacritics. Where the two differ, the snippet has no mark at that place, or is the text's beginning.

use std::ops::Range;

use super::query::Term;

/// Characters of text in a snippet.
const LENGTH: usize = 160;

/// Characters of it that come before the first match.
const LEAD: usize = 40;

/// Up to [`LENGTH`] characters around the first match, on one line, matches between `[` and `]`.
pub(super) fn snippet(text: &str, terms: &[Term]) -> String {
    let matches = matches(text, terms);
    let window = window(text, matches.first().map_or(0, |first| first.start));
    let mut shown = String::with_capacity(window.len() + 16);
    if window.start > 0 {
        shown.push('…');
    }
    let mut at = window.start;
    for found in matches {
        let found = found.start.max(at)..found.end.min(window.end);
        if found.is_empty() {
            continue;
        }
        push_line(&mut shown, &text[at..found.start]);
        shown.push('[');
        push_line(&mut shown, &text[found.clone()]);
        shown.push(']');
        at = found.end;
    }
    push_line(&mut shown, &text[at..window.end]);
    if window.end < text.len() {
        shown.push('…');
    }
    shown
}

fn push_line(shown: &mut String, text: &str) {
    let blank = |c: char| c.is_whitespace() || c.is_control();
    shown.extend(text.chars().map(|c| if blank(c) { ' ' } else { c }));
}

/// What is shown: from a little before the match, but as much as fits.
fn window(text: &str, first_match: usize) -> Range<usize> {
    let start = back(text, first_match, LEAD);
    let end = forward(text, start, LENGTH);
    start.min(back(text, end, LENGTH))..end
}

/// The place that many characters before.
fn back(text: &str, from: usize, chars: usize) -> usize {
    let before = text[..from].char_indices().rev();
    before.take(chars).last().map_or(from, |(at, _)| at)
}

/// The place that many characters after.
fn forward(text: &str, from: usize, chars: usize) -> usize {
    let after = text[from..].char_indices();
    after
        .skip(chars)
        .map(|(at, _)| from + at)
        .next()
        .unwrap_or(text.len())
}

/// Where the terms occur, in order; a later match may begin inside an earlier one.
fn matches(text: &str, terms: &[Term]) -> Vec<Range<usize>> {
    let words: Vec<_> = words_of(text).collect();
    (0..words.len())
        .flat_map(|at| terms.iter().map(move |term| (at, term)))
        .filter_map(|(at, term)| {
            let found = words.get(at..at + term.words.len())?;
            let is_match =
                term.words
                    .iter()
                    .zip(found)
                    .enumerate()
                    .all(|(place, (wanted, (_, word)))| {
                        let may_go_on = term.is_prefix && place + 1 == term.words.len();
                        word == wanted || (may_go_on && word.starts_with(wanted))
                    });
            is_match.then(|| found[0].0.start..found[found.len() - 1].0.end)
        })
        .collect()
}

/// The words of a text, folded, and where they are.
pub(super) fn words_of(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.find(|(_, c)| c.is_alphanumeric())?;
        let mut folded = String::new();
        let mut end = start + first.len_utf8();
        fold_into(first, &mut folded);
        while let Some((at, c)) = chars.next_if(|(_, c)| c.is_alphanumeric() || is_mark(*c)) {
            fold_into(c, &mut folded);
            end = at + c.len_utf8();
        }
        Some((start..end, folded))
    })
}

fn fold_into(c: char, folded: &mut String) {
    let lower = c.to_lowercase().filter(|c| !is_mark(*c));
    folded.extend(lower.map(without_diacritic));
}

/// Combining diacritical marks.
const fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// The letter below a diacritic, for the letters that SQLite knows to have one.
const fn without_diacritic(c: char) -> char {
    match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'ĉ' | 'ċ' | 'č' => 'c',
        'ď' => 'd',
        'è'..='ë' | 'ē' | 'ĕ' | 'ė' | 'ę' | 'ě' => 'e',
        'ĝ' | 'ğ' | 'ġ' | 'ģ' => 'g',
        'ĥ' => 'h',
        'ì'..='ï' | 'ĩ' | 'ī' | 'ĭ' | 'į' => 'i',
        'ĵ' => 'j',
        'ķ' => 'k',
        'ĺ' | 'ļ' | 'ľ' => 'l',
        'ñ' | 'ń' | 'ņ' | 'ň' => 'n',
        'ò'..='ö' | 'ō' | 'ŏ' | 'ő' => 'o',
        'ŕ' | 'ŗ' | 'ř' => 'r',
        'ś' | 'ŝ' | 'ş' | 'š' => 's',
        'ţ' | 'ť' => 't',
        'ù'..='ü' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ų' => 'u',
        'ŵ' => 'w',
        'ý' | 'ÿ' | 'ŷ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::super::query::Query;
    use super::*;

    fn check(query: &str, text: &str, expected: &str) {
        let terms = Query::parse(query).unwrap().terms;
        assert_eq!(snippet(text, &terms), expected, "{query:?} in {text:?}");
    }

    #[test]
    fn matches_are_marked() {
        let cases = [
            ("deploy", "please Deploy it", "please [Deploy] it"),
            ("deploy", "redeploy, deploys", "redeploy, deploys"),
            ("dep*", "deploy the depot", "[deploy] the [depot]"),
            ("b a", "a b c a", "[a] [b] c [a]"),
            ("\"a b\"", "b a, b a\nb", "b [a, b] [a b]"),
            ("\"a b\" b", "a b b", "[a b] [b]"),
            ("foo_bar", "call foo_bar()", "call [foo_bar]()"),
            ("\"two wor\"*", "two words, two", "[two words], two"),
            ("ubersee", "nach Übersee", "nach [Übersee]"),
            ("Übersee", "nach u\u{308}bersee!", "nach [u\u{308}bersee]!"),
            ("x", "line\r\nx\tend", "line  [x] end"),
            ("x", "", ""),
        ];
        for (query, text, expected) in cases {
            check(query, text, expected);
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "é".repeat(300);
        check("x", &long, &format!("{}…", "é".repeat(160)));
        check(
            "x",
            &format!("{long} x {long}"),
            &format!("…{} [x] {}…", "é".repeat(39), "é".repeat(118)),
        );
        check(
            "x",
            &format!("{long} x"),
            &format!("…{} [x]", "é".repeat(158)),
        );
        check(
            "x",
            &format!("x {long}"),
            &format!("[x] {}…", "é".repeat(158)),
        );
        check("é*", &long, &format!("[{}]…", "é".repeat(160)));
    }
}
