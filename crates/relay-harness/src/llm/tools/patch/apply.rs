//! Where the changes of a patch fit, and what comes of them: exactly, in one place, one after the other.

use super::parse::Hunk;

/// The text after all changes.
pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<String, String> {
    // Patches come without them; a file that has them everywhere keeps them.
    let has_returns = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    let plain = match has_returns {
        true => text.replace("\r\n", "\n"),
        false => text.to_owned(),
    };
    let ends_with_line = plain.is_empty() || plain.ends_with('\n');
    let lines: Vec<&str> = plain.lines().collect();
    let mut out: Vec<&str> = Vec::with_capacity(lines.len());
    let mut from = 0;
    for hunk in hunks {
        let at = find(&lines, from, hunk)?;
        out.extend(&lines[from..at]);
        out.extend(hunk.new.iter().map(String::as_str));
        from = at + hunk.old.len();
    }
    out.extend(&lines[from..]);
    let mut after = out.join("\n");
    if ends_with_line && !out.is_empty() {
        after.push('\n');
    }
    Ok(match has_returns {
        true => after.replace('\n', "\r\n"),
        false => after,
    })
}

/// The line at which a change begins.
fn find(lines: &[&str], from: usize, hunk: &Hunk) -> Result<usize, String> {
    let start = match &hunk.after {
        None => from,
        Some(header) => {
            let found = lines[from..]
                .iter()
                .position(|line| line.trim() == header.trim());
            from + 1
                + found.ok_or_else(|| {
                    format!("the line {header:?} is not in the file, or above the change before")
                })?
        }
    };
    let fits = |at: usize| {
        let there = &lines[at..(at + hunk.old.len()).min(lines.len())];
        there.iter().eq(hunk
            .old
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .iter())
    };
    if hunk.at_end {
        let at = lines
            .len()
            .checked_sub(hunk.old.len())
            .filter(|at| *at >= start && fits(*at));
        return at.ok_or_else(|| missing(hunk));
    }
    if hunk.old.is_empty() {
        // Lines that only come have no place of their own.
        return match hunk.after.is_some() || lines.is_empty() {
            true => Ok(start),
            false => Err(
                "lines are added nowhere: give a line that stays, or a line above after `@@`"
                    .to_owned(),
            ),
        };
    }
    let mut places = (start..lines.len()).filter(|at| fits(*at));
    let first = places.next().ok_or_else(|| missing(hunk))?;
    match places.next() {
        Some(second) if hunk.after.is_none() => Err(format!(
            "a change fits at line {} and at line {}: give more lines, or a line above after `@@`",
            first + 1,
            second + 1
        )),
        _ => Ok(first),
    }
}

fn missing(hunk: &Hunk) -> String {
    let lines = hunk.old.iter().take(5).map(|line| format!("\n  {line}"));
    let lines: String = lines.collect();
    format!("these lines are not in the file, or above the change before:{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk(after: Option<&str>, old: &[&str], new: &[&str], at_end: bool) -> Hunk {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Hunk {
            after: after.map(str::to_owned),
            old: texts(old),
            new: texts(new),
            at_end,
        }
    }

    #[test]
    fn changes_fit_exactly_and_in_one_place() {
        let file = "a\nb\nc\nb\nd\n";
        let table: Vec<(&str, Vec<Hunk>, Result<&str, &str>)> = vec![
            (
                file,
                vec![hunk(None, &["a"], &["A"], false)],
                Ok("A\nb\nc\nb\nd\n"),
            ),
            (
                file,
                vec![hunk(None, &["c", "b"], &["c"], false)],
                Ok("a\nb\nc\nd\n"),
            ),
            (
                file,
                vec![hunk(None, &["b"], &["B"], false)],
                Err("fits at line 2 and at line 4"),
            ),
            (
                file,
                vec![hunk(Some("c"), &["b"], &["B"], false)],
                Ok("a\nb\nc\nB\nd\n"),
            ),
            (
                file,
                vec![hunk(Some("  c "), &["b"], &["B"], false)],
                Ok("a\nb\nc\nB\nd\n"),
            ),
            (
                file,
                vec![hunk(Some("x"), &["b"], &["B"], false)],
                Err("is not in the file"),
            ),
            (
                file,
                vec![hunk(None, &["a "], &["A"], false)],
                Err("not in the file"),
            ),
            (
                file,
                vec![hunk(None, &["d"], &["D"], true)],
                Ok("a\nb\nc\nb\nD\n"),
            ),
            (
                file,
                vec![hunk(None, &["b"], &["B"], true)],
                Err("not in the file"),
            ),
            (
                file,
                vec![hunk(None, &[], &["e"], true)],
                Ok("a\nb\nc\nb\nd\ne\n"),
            ),
            (
                file,
                vec![hunk(None, &[], &["e"], false)],
                Err("added nowhere"),
            ),
            (
                file,
                vec![hunk(Some("c"), &[], &["e"], false)],
                Ok("a\nb\nc\ne\nb\nd\n"),
            ),
            // In order, and not over each other.
            (
                file,
                vec![
                    hunk(None, &["a"], &["A"], false),
                    hunk(None, &["d"], &[], false),
                ],
                Ok("A\nb\nc\nb\n"),
            ),
            (
                file,
                vec![
                    hunk(None, &["d"], &[], false),
                    hunk(None, &["a"], &["A"], false),
                ],
                Err("above the change before"),
            ),
            (
                file,
                vec![hunk(None, &["a", "b", "c", "b", "d"], &[], false)],
                Ok(""),
            ),
            ("", vec![hunk(None, &[], &["x"], false)], Ok("x\n")),
            // Ends of lines stay as they are.
            ("a\nb", vec![hunk(None, &["b"], &["B"], false)], Ok("a\nB")),
            (
                "a\r\nb\r\n",
                vec![hunk(None, &["b"], &["B", "C"], false)],
                Ok("a\r\nB\r\nC\r\n"),
            ),
        ];
        for (text, hunks, expected) in table {
            match (apply(text, &hunks), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{hunks:?}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{hunks:?}: expected {expected:?}, found {found:?}"),
            }
        }
    }
}
