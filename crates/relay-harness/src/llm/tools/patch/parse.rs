//! The text of a patch, read strictly.

/// What is to be done with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FilePatch {
    Add {
        path: String,
        content: String,
    },
    Delete {
        path: String,
    },
    Update {
        path: String,
        /// Where it goes.
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// One change inside a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// A line somewhere above the change.
    pub(super) after: Option<String>,
    /// Lines that have to be there.
    pub(super) old: Vec<String>,
    /// Lines that take their place.
    pub(super) new: Vec<String>,
    /// Whether the change is at the end of the file.
    pub(super) at_end: bool,
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// Reads a patch; the error names the line.
pub(super) fn parse(patch: &str) -> Result<Vec<FilePatch>, String> {
    let lines = patch.trim().lines().enumerate().collect::<Vec<_>>();
    let (Some((_, BEGIN)), Some((last, END))) = (lines.first(), lines.last()) else {
        return Err(format!(
            "the patch has to begin with `{BEGIN}` and end with `{END}`"
        ));
    };
    let mut reader = Reader {
        lines: &lines[1..*last],
    };
    let mut files = Vec::new();
    while let Some((at, line)) = reader.next() {
        files.push(if let Some(path) = line.strip_prefix(ADD) {
            reader.add(path)?
        } else if let Some(path) = line.strip_prefix(DELETE) {
            FilePatch::Delete {
                path: named(path, at)?,
            }
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            reader.update(path, at)?
        } else {
            return Err(wrong(
                at,
                "expected `*** Add File: `, `*** Update File: ` or `*** Delete File: `",
            ));
        });
    }
    match files.is_empty() {
        true => Err("the patch changes nothing".to_owned()),
        false => Ok(files),
    }
}

struct Reader<'a> {
    lines: &'a [(usize, &'a str)],
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let (first, rest) = self.lines.split_first()?;
        self.lines = rest;
        Some(*first)
    }

    fn peek(&self) -> Option<(usize, &'a str)> {
        self.lines.first().copied()
    }

    /// The next line, if it belongs to this file.
    fn inside(&mut self) -> Option<(usize, &'a str)> {
        let belongs = |line: &str| !line.starts_with("*** ") || line == END_OF_FILE;
        self.peek().filter(|(_, line)| belongs(line))?;
        self.next()
    }

    fn add(&mut self, path: &str) -> Result<FilePatch, String> {
        let mut content = String::new();
        let mut at = 0;
        while let Some((place, line)) = self.inside() {
            at = place;
            let line = line.strip_prefix('+');
            content.push_str(line.ok_or_else(|| wrong(place, "expected a line with `+`"))?);
            content.push('\n');
        }
        let path = named(path, at)?;
        Ok(FilePatch::Add { path, content })
    }

    fn update(&mut self, path: &str, at: usize) -> Result<FilePatch, String> {
        let path = named(path, at)?;
        let mut to = None;
        if let Some((at, line)) = self.peek()
            && let Some(target) = line.strip_prefix(MOVE)
        {
            to = Some(named(target, at)?);
            self.next();
        }
        let mut hunks: Vec<Hunk> = Vec::new();
        while let Some((at, line)) = self.inside() {
            if let Some(header) = line.strip_prefix("@@") {
                // Some write the end of the mark, too.
                let header = header.strip_suffix("@@").unwrap_or(header);
                let header = header.strip_prefix(' ').unwrap_or(header);
                hunks.push(Hunk {
                    after: (!header.trim().is_empty()).then(|| header.to_owned()),
                    ..Hunk::default()
                });
                continue;
            }
            if hunks.is_empty() {
                hunks.push(Hunk::default());
            }
            if let Some(hunk) = hunks.last_mut() {
                hunk.line(line, at)?;
            }
        }
        if hunks.iter().any(Hunk::is_empty) {
            return Err(wrong(at, "a change without lines"));
        }
        match hunks.is_empty() && to.is_none() {
            true => Err(wrong(at, "a file without changes")),
            false => Ok(FilePatch::Update { path, to, hunks }),
        }
    }
}

impl Hunk {
    fn line(&mut self, line: &str, at: usize) -> Result<(), String> {
        if self.at_end {
            return Err(wrong(at, "lines after the end of the file"));
        }
        if line == END_OF_FILE {
            self.at_end = true;
            return Ok(());
        }
        let (mark, text) = match line.chars().next() {
            // Spaces at the end of a line get lost on the way.
            None => (' ', ""),
            Some(mark) => (mark, &line[mark.len_utf8()..]),
        };
        match mark {
            ' ' => {
                self.old.push(text.to_owned());
                self.new.push(text.to_owned());
            }
            '-' => self.old.push(text.to_owned()),
            '+' => self.new.push(text.to_owned()),
            _ => return Err(wrong(at, "expected a line with ` `, `-` or `+`")),
        }
        Ok(())
    }

    const fn is_empty(&self) -> bool {
        self.old.is_empty() && self.new.is_empty()
    }
}

fn named(path: &str, at: usize) -> Result<String, String> {
    match path.trim() {
        "" => Err(wrong(at, "expected a path")),
        path => Ok(path.to_owned()),
    }
}

fn wrong(at: usize, what: &str) -> String {
    format!("line {} of the patch: {what}", at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_read() {
        let patch = "*** Begin Patch\n*** Update File: a b\n@@ fn x() {\n keep\n-old\n+new\n\n@@\n+more\n*** End of File\n*** End Patch\n";
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let expected = FilePatch::Update {
            path: "a b".to_owned(),
            to: None,
            hunks: vec![
                Hunk {
                    after: Some("fn x() {".to_owned()),
                    old: texts(&["keep", "old", ""]),
                    new: texts(&["keep", "new", ""]),
                    at_end: false,
                },
                Hunk {
                    after: None,
                    old: texts(&[]),
                    new: texts(&["more"]),
                    at_end: true,
                },
            ],
        };
        assert_eq!(parse(patch).unwrap(), [expected]);
    }

    #[test]
    fn what_is_no_patch_is_said_by_line() {
        let table = [
            ("", "has to begin"),
            ("*** Begin Patch", "has to begin"),
            ("*** Begin Patch\n*** End Patch", "changes nothing"),
            ("--- a\n+++ b\n", "has to begin"),
            (
                "*** Begin Patch\nhello\n*** End Patch",
                "line 2 of the patch: expected `*** Add",
            ),
            (
                "*** Begin Patch\n*** Add File: \n+x\n*** End Patch",
                "expected a path",
            ),
            (
                "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
                "line 3 of the patch: expected a line with `+`",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n*** End Patch",
                "without changes",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch",
                "without lines",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n?x\n*** End Patch",
                "line 3 of the patch: expected a line with ` `",
            ),
            (
                "*** Begin Patch\n*** Update File: a\n-x\n*** End of File\n-y\n*** End Patch",
                "after the end",
            ),
        ];
        for (patch, says) in table {
            let error = parse(patch).unwrap_err();
            assert!(error.contains(says), "{patch:?}: {error}");
        }
    }
}
