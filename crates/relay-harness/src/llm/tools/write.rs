//! `write`: a whole file in the working directory, new or instead of the one that was there.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::ToolParams;
use serde::Deserialize;
use serde_json::json;

use super::workspace::{Change, Workspace, blocking};
use super::{Tool, ToolContext, ToolOutput, params};
use crate::llm::provider::ToolSpec;

/// Writes files.
#[derive(Clone, Debug)]
pub struct WriteTool {
    workspace: Arc<Workspace>,
}

impl WriteTool {
    /// Writes files of this directory.
    #[must_use]
    pub const fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    path: String,
    content: String,
}

impl Tool for WriteTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write".to_owned(),
            description:
                "Writes a whole file in the working directory, with the directories that it needs. \
                For changes to a file that is there use patch."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string" },
                    "content": { "type": "string" },
                },
                "required": ["path", "content"],
                "additionalProperties": false,
            }),
        }
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
            let Params { path, content } = params(&given)?;
            let workspace = self.workspace.clone();
            blocking(move || {
                let before = workspace.look(&path)?;
                let (done, bytes) = (before.is_some(), content.len());
                let change = Change {
                    path: path.clone(),
                    before,
                    after: Some(content.into_bytes()),
                };
                workspace.apply(&[change])?;
                let done = if done { "replaced" } else { "created" };
                Ok(ToolOutput {
                    context: format!("{done} {path}, {bytes} bytes"),
                    result: json!({ "path": path, "done": done, "bytes": bytes }),
                })
            })
            .await
        }
        .boxed()
    }
}
