//! "Did you mean": the nearest existing names to one that does not exist.

/// How much of a name is looked at; longer ones are cut, so that a hostile name costs nothing.
const LOOKED_AT: usize = 96;

/// The candidates nearest to a name, best first, ties in alphabetical order.
///
/// Near means few typing errors, or that one of the two begins or ends with the other. Case does not
/// matter, and every candidate is given at most once.
#[must_use]
pub fn nearest<I>(name: &str, candidates: I, at_most: usize) -> Vec<String>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let wanted = letters(name);
    let mut found: Vec<(usize, String)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let candidate = candidate.as_ref();
            Some((
                distance(&wanted, &letters(candidate))?,
                candidate.to_owned(),
            ))
        })
        .collect();
    found.sort();
    found.dedup();
    found.truncate(at_most);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

fn letters(name: &str) -> Vec<char> {
    name.chars()
        .take(LOOKED_AT)
        .flat_map(char::to_lowercase)
        .collect()
}

/// How far apart two names are; nothing when they are not alike.
fn distance(wanted: &[char], candidate: &[char]) -> Option<usize> {
    if wanted.is_empty() || candidate.is_empty() {
        return None;
    }
    let errors = typing_errors(wanted, candidate);
    let tolerated = (wanted.len().max(candidate.len()) / 3).max(1);
    if errors <= tolerated {
        return Some(errors);
    }
    let (short, long) = if wanted.len() < candidate.len() {
        (wanted, candidate)
    } else {
        (candidate, wanted)
    };
    let contained = short.len() >= 3 && (long.starts_with(short) || long.ends_with(short));
    // After everything that was merely mistyped.
    contained.then_some(LOOKED_AT + long.len() - short.len())
}

/// Letters to insert, delete, replace, or swap with their neighbour.
fn typing_errors(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let names = ["reviewer", "Engineer", "engineer-2", "ops", "al", "bo"];
        let cases: [(&str, &[&str]); 9] = [
            ("enginer", &["Engineer", "engineer-2"]),
            ("ENGINEER", &["Engineer", "engineer-2"]),
            ("engineer", &["Engineer", "engineer-2"]),
            ("reveiwer", &["reviewer"]),
            ("review", &["reviewer"]),
            ("osp", &["ops"]),
            ("ax", &["al"]),
            ("zzzzzz", &[]),
            ("", &[]),
        ];
        for (name, expected) in cases {
            assert_eq!(nearest(name, names, 3), expected, "{name}");
        }
    }

    #[test]
    fn gives_at_most_so_many_and_each_once() {
        assert_eq!(nearest("a1", ["a2", "a3", "a2", "a4"], 2), ["a2", "a3"]);
    }

    #[test]
    fn a_very_long_name_is_cut() {
        let long = "x".repeat(1_000_000);
        assert!(nearest(&long, ["xx"], 3).is_empty());
    }
}
