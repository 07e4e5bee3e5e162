//! What a model can call.
//!
//! To add a tool: a file with a [`Tool`], and a line in [`Tools::standard`]. A tool checks its parameters before anybody is asked
//! about them, and again after whoever decided has changed them.

mod agent;
mod bash;
mod output;
mod patch;
mod read;
mod read_attachment;
mod send;
#[cfg(unix)]
mod workspace;
#[cfg(not(unix))]
mod workspace_elsewhere;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use relay_protocol::permission::ToolParams;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use agent::AgentTool;
pub use bash::{BashTool, Shell};
pub use patch::PatchTool;
pub use read::ReadTool;
pub use read_attachment::ReadAttachmentTool;
pub use send::SendTool;
pub use workspace::Workspace;
#[cfg(not(unix))]
use workspace_elsewhere as workspace;
pub use write::WriteTool;

use super::ids::new_id;
use super::provider::ToolSpec;
use super::run::{Context, Happening};

/// How long a tool may take to end when its run is cancelled.
const GRACE: Duration = Duration::from_secs(5);

/// Something that a model can call.
pub trait Tool: Send + Sync {
    /// How it is shown to models.
    fn spec(&self) -> ToolSpec;

    /// Whether it may run beside others of its turn.
    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    /// Whether somebody has to allow a call. Not where it only reads what the agent was sent.
    fn needs_permission(&self) -> bool {
        true
    }

    /// Whether it can be called like this; the error is for the model.
    fn check(&self, params: &ToolParams) -> Result<(), String>;

    /// Runs it. The error is for the model.
    fn run(
        &self,
        params: ToolParams,
        context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>>;

    /// How long it may take to end when its run is cancelled.
    fn grace(&self) -> Duration {
        GRACE
    }
}

/// Whether a call may run beside others of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It may change what others see: all before it have ended when it begins.
    Exclusive,
    /// It may run beside others that may.
    Shared,
}

/// What a tool gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model reads.
    pub context: String,
    /// The same for programs.
    pub result: Value,
}

/// Where a call is made.
pub struct ToolContext {
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) run: Arc<Context>,
}

impl ToolContext {
    /// The call, as events name it.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Shows something while the tool runs.
    pub async fn progress(&self, content: Value) {
        let what = Happening::Progress {
            id: new_id(),
            tool_call_id: self.call_id.clone(),
            name: self.tool.clone(),
            content,
        };
        self.run.tell(what).await;
    }

    /// Waits until the run is cancelled.
    pub async fn cancelled(&self) {
        self.run.cancel.cancelled().await;
    }
}

/// Tools by name.
#[derive(Clone, Default)]
pub struct Tools {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl Tools {
    /// All tools of Relay, in a working directory.
    #[must_use]
    pub fn standard(workspace: &Arc<Workspace>, shell: Shell) -> Self {
        Self::default()
            .with(BashTool::new(shell))
            .with(ReadTool::new(workspace.clone()))
            .with(WriteTool::new(workspace.clone()))
            .with(PatchTool::new(workspace.clone()))
            .with(AgentTool)
    }

    /// Adds a tool; one of the same name goes.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.insert(tool.spec().name, Arc::new(tool));
        self
    }

    /// Takes a tool away.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.tools.remove(name);
        self
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).cloned()
    }

    /// All of them as they are shown to models.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec()).collect()
    }
}

/// Parameters of a tool, read strictly: what a model misspells must not be ignored.
fn params<T: DeserializeOwned>(params: &ToolParams) -> Result<T, String> {
    let value = Value::Object(params.clone());
    serde_json::from_value(value).map_err(|error| format!("the arguments don't fit: {error}"))
}
