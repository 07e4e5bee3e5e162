//! `read`: lines of a text file in the working directory.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::ToolParams;
use serde::Deserialize;
use serde_json::json;

use super::workspace::{Workspace, blocking};
use super::{Sharing, Tool, ToolContext, ToolOutput, params};
use crate::llm::provider::ToolSpec;

/// Lines that are given when the model does not say how many.
const LINES: usize = 2000;

/// Most bytes of a line that are given.
const LINE_BYTES: usize = 2000;

/// Most bytes that are given.
const TEXT_BYTES: usize = 128 * 1024;

/// Reads files.
#[derive(Clone, Debug)]
pub struct ReadTool {
    workspace: Arc<Workspace>,
}

impl ReadTool {
    /// Reads files of this directory.
    #[must_use]
    pub const fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl Tool for ReadTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read".to_owned(),
            description: "Gives the text of a file in the working directory, or some lines of it."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string" },
                    "offset": { "type": "integer", "minimum": 1, "description": "The first line, counted from 1." },
                    "limit": { "type": "integer", "minimum": 1, "description": "Default: 2000 lines." },
                },
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn check(&self, given: &ToolParams) -> Result<(), String> {
        params::<Params>(given).map(drop)
    }

    fn run(
        &self,
        given: ToolParams,
        _context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            let Params {
                path,
                offset,
                limit,
            } = params(&given)?;
            let workspace = self.workspace.clone();
            let text = blocking(move || workspace.read_text(&path)).await?;
            let part = lines(&text, offset.unwrap_or(1).max(1), limit.unwrap_or(LINES));
            let result = json!({
                "lines": part.count, "total": part.total, "truncated": part.is_cut,
            });
            Ok(ToolOutput {
                context: part.text,
                result,
            })
        }
        .boxed()
    }
}

struct Lines {
    text: String,
    count: usize,
    total: usize,
    is_cut: bool,
}

/// The lines from `first`, at most `limit` of them, with a note where something is missing.
fn lines(text: &str, first: usize, limit: usize) -> Lines {
    let total = text.lines().count();
    let (mut out, mut count, mut is_cut) = (String::new(), 0, false);
    for line in text.split_inclusive('\n').skip(first - 1).take(limit) {
        if out.len() + line.len().min(LINE_BYTES) > TEXT_BYTES {
            break;
        }
        count += 1;
        if line.len() > LINE_BYTES + 1 {
            out.push_str(&line[..line.floor_char_boundary(LINE_BYTES)]);
            out.push_str("[… line cut]\n");
            is_cut = true;
        } else {
            out.push_str(line);
        }
    }
    let left = total.saturating_sub(first - 1 + count);
    if left > 0 {
        is_cut = true;
        let next = first + count;
        out.push_str(&format!("[… {left} more lines, from {next}]\n"));
    }
    Lines {
        text: out,
        count,
        total,
        is_cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_file() {
        let text = "a\nb\nc\n";
        let table = [
            (1, 10, "a\nb\nc\n", false),
            (2, 1, "b\n[… 1 more lines, from 3]\n", true),
            (3, 5, "c\n", false),
            (9, 5, "", false),
        ];
        for (first, limit, expected, is_cut) in table {
            let found = lines(text, first, limit);
            assert_eq!(
                (found.text.as_str(), found.is_cut),
                (expected, is_cut),
                "{first} {limit}"
            );
        }
        let long = lines(&format!("{}é\nend", "x".repeat(LINE_BYTES)), 1, 9);
        assert!(long.is_cut && long.text.ends_with("x[… line cut]\nend"));
        let many = lines(&"0123456789\n".repeat(20_000), 1, usize::MAX);
        assert!(many.text.len() < TEXT_BYTES + 100 && many.is_cut);
        assert!(
            many.text.ends_with("more lines, from 11916]\n"),
            "{}",
            &many.text[many.text.len() - 60..]
        );
    }
}
