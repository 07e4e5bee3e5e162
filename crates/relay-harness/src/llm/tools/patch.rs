//! `patch`: changes to files of the working directory, strict and all at once.
//!
//! `parse.rs` reads the patch, `apply.rs` finds where it fits; both are pure. Whatever does not fit exactly, in exactly one place, changes
//! nothing.

mod apply;
mod parse;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::ToolParams;
use serde::Deserialize;
use serde_json::json;

use super::workspace::{Change, Workspace, blocking};
use super::{Tool, ToolContext, ToolOutput, params};
use crate::llm::provider::ToolSpec;
use parse::{FilePatch, parse};

/// Patches files.
#[derive(Clone, Debug)]
pub struct PatchTool {
    workspace: Arc<Workspace>,
}

impl PatchTool {
    /// Patches files of this directory.
    #[must_use]
    pub const fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    patch: String,
}

const DESCRIPTION: &str = "Changes files in the working directory, all at once or not at all. The patch is\n\
*** Begin Patch\n\
*** Update File: path\n\
@@ a line above the change, where the change alone would fit in several places\n \
 a line that stays\n\
-a line that goes\n\
+a line that comes\n\
*** Add File: path\n\
+its lines\n\
*** Delete File: path\n\
*** End Patch\n\
Lines that stay and go have to be exactly as they are in the file. After `Update File` there may be `*** Move to: path`.";

impl Tool for PatchTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "patch".to_owned(),
            description: DESCRIPTION.to_owned(),
            schema: json!({
                "type": "object",
                "properties": { "patch": { "type": "string" } },
                "required": ["patch"],
                "additionalProperties": false,
            }),
        }
    }

    fn check(&self, given: &ToolParams) -> Result<(), String> {
        let Params { patch } = params(given)?;
        parse(&patch).map(drop)
    }

    fn run(
        &self,
        given: ToolParams,
        _context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            let Params { patch } = params(&given)?;
            let workspace = self.workspace.clone();
            blocking(move || {
                let files = parse(&patch)?;
                let (changes, told) = plan(&workspace, &files)?;
                workspace.apply(&changes)?;
                Ok(ToolOutput {
                    context: told.join("\n"),
                    result: json!({ "changes": told }),
                })
            })
            .await
        }
        .boxed()
    }
}

/// What a patch comes to, and how it is told.
fn plan(workspace: &Workspace, files: &[FilePatch]) -> Result<(Vec<Change>, Vec<String>), String> {
    let (mut changes, mut told) = (Vec::new(), Vec::new());
    for file in files {
        match file {
            FilePatch::Add { path, content } => {
                if workspace.look(path)?.is_some() {
                    return Err(format!("{path}: it is there already"));
                }
                changes.push(change(path, None, Some(content.clone().into_bytes())));
                told.push(format!("A {path}"));
            }
            FilePatch::Delete { path } => {
                changes.push(change(path, Some(there(workspace, path)?), None));
                told.push(format!("D {path}"));
            }
            FilePatch::Update { path, to, hunks } => {
                let before = there(workspace, path)?;
                let text = std::str::from_utf8(&before);
                let text = text.map_err(|_| format!("{path}: it is no text"))?;
                let after = apply::apply(text, hunks).map_err(|why| format!("{path}: {why}"))?;
                let after = Some(after.into_bytes());
                match to {
                    None => {
                        changes.push(change(path, Some(before), after));
                        told.push(format!("M {path}"));
                    }
                    Some(to) => {
                        if workspace.look(to)?.is_some() {
                            return Err(format!("{to}: it is there already"));
                        }
                        changes.push(change(to, None, after));
                        changes.push(change(path, Some(before), None));
                        told.push(format!("R {path} {to}"));
                    }
                }
            }
        }
    }
    let mut paths = BTreeSet::new();
    match changes
        .iter()
        .find(|change| !paths.insert(change.path.as_str()))
    {
        Some(twice) => Err(format!("{}: it is in the patch twice", twice.path)),
        None => Ok((changes, told)),
    }
}

fn there(workspace: &Workspace, path: &str) -> Result<Vec<u8>, String> {
    workspace
        .look(path)?
        .ok_or_else(|| format!("{path}: not found"))
}

fn change(path: &str, before: Option<Vec<u8>>, after: Option<Vec<u8>>) -> Change {
    Change {
        path: path.to_owned(),
        before,
        after,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// What was told, and all files that are there afterwards.
    type Patched = (Result<Vec<String>, String>, Vec<(String, String)>);

    fn patched(files: &[(&str, &str)], patch: &str) -> Patched {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let workspace = Workspace::open(directory.path(), Vec::new()).unwrap();
        let planned = parse(patch).and_then(|files| plan(&workspace, &files));
        let done = planned.and_then(|(changes, told)| workspace.apply(&changes).map(|()| told));
        let mut left: Vec<(String, String)> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        left.sort();
        (done, left)
    }

    #[test]
    fn files_are_added_changed_moved_and_removed_at_once() {
        let patch = "*** Begin Patch\n*** Update File: a\n one\n-two\n+2\n*** Add File: new\n+x\n+y\n\
            *** Update File: b\n*** Move to: c\n-old\n+moved\n*** Delete File: gone\n*** End Patch";
        let files = [("a", "one\ntwo\n"), ("b", "old\n"), ("gone", "x")];
        let (done, left) = patched(&files, patch);
        assert_eq!(done.unwrap(), ["M a", "A new", "R b c", "D gone"]);
        let expected = [("a", "one\n2\n"), ("c", "moved\n"), ("new", "x\ny\n")];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(left, expected);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let good = "*** Update File: a\n-one\n+1\n";
        let table = [
            ("*** Update File: missing\n-x\n+y\n", "not found"),
            ("*** Delete File: missing\n", "not found"),
            ("*** Add File: b\n+x\n", "there already"),
            (
                "*** Update File: b\n*** Move to: a\n-old\n+new\n",
                "there already",
            ),
            ("*** Update File: b\n-other\n+x\n", "not in the file"),
            ("*** Delete File: a\n", "twice"),
            ("*** Update File: ../x\n-a\n+b\n", "outside"),
        ];
        for (bad, says) in table {
            let files = [("a", "one\n"), ("b", "old\n")];
            let (done, left) = patched(
                &files,
                &format!("*** Begin Patch\n{good}{bad}*** End Patch\n"),
            );
            let error = done.unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
            assert_eq!(
                left,
                files.map(|(name, text)| (name.to_owned(), text.to_owned())),
                "{bad}"
            );
        }
    }
}
