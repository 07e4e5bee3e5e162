//! `agent`: another agent with a task of its own, under the same rules or narrower ones.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::{Permissions, ToolParams};
use serde::Deserialize;
use serde_json::json;

use super::{Sharing, Tool, ToolContext, ToolOutput, params};
use crate::llm::conversation::Message;
use crate::llm::ids::new_id;
use crate::llm::provider::ToolSpec;
use crate::llm::run::{Context, EndReason, RunOutcome, drive};

/// A nested run ends its own calls first, each with a moment of its own.
const GRACE: Duration = Duration::from_secs(30);

/// Starts nested runs.
#[derive(Clone, Copy, Debug)]
pub struct AgentTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    task: String,
    model: Option<String>,
    /// They narrow the rules that hold here, and never widen them.
    permissions: Option<Permissions>,
}

impl Tool for AgentTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "agent".to_owned(),
            description: "Has another agent do a task and gives its last words. It has the same tools \
                and knows nothing of this conversation: put all that it needs into the task. Several can work at once."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "task": { "type": "string", "description": "What to do, and what to report." },
                    "model": { "type": "string", "description": "Another model than this one." },
                    "permissions": { "type": "object", "description": "Rules that narrow what it may do." },
                },
                "required": ["task"],
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
        context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            let Params {
                task,
                model,
                permissions,
            } = params(&given)?;
            let above = &context.run;
            let limits = above.shared.limits;
            if above.depth >= limits.depth {
                let most = limits.depth;
                return Err(format!(
                    "agents can't be nested deeper than {most}: do it yourself"
                ));
            }
            let children = above.shared.children.clone();
            let Ok(_alive) = children.try_acquire_owned() else {
                let most = limits.children;
                return Err(format!(
                    "{most} agents are already at work: wait for one of them"
                ));
            };
            let model = match model {
                Some(name) => {
                    let found = above.shared.models.find(&name);
                    found.map_err(|error| error.to_string())?
                }
                None => above.model.clone(),
            };
            let permits = above.permits.nested(permissions).await;
            let permits = permits.map_err(|error| error.to_string())?;
            let below = Context {
                agent_id: new_id(),
                run_id: permits.run_id(),
                parent_id: Some(context.call_id.clone()),
                depth: above.depth + 1,
                model,
                permits,
                inbox: None,
                cancel: above.cancel.child_token(),
                shared: above.shared.clone(),
            };
            let mut messages = above.shared.system.clone();
            messages.push(Message::user(task));
            output(drive(Arc::new(below), messages).await)
        }
        .boxed()
    }

    fn grace(&self) -> Duration {
        GRACE
    }
}

fn output(outcome: RunOutcome) -> Result<ToolOutput, String> {
    let text = outcome.text;
    let result = json!({ "reason": outcome.reason, "text": text });
    let context = match outcome.reason {
        EndReason::Final => text,
        EndReason::Error => {
            let why = outcome.error.unwrap_or_default();
            return Err(format!("the agent failed: {why}"));
        }
        EndReason::Cancelled => return Err("the agent was cancelled".to_owned()),
        EndReason::Length | EndReason::Refusal | EndReason::MaxIterations | EndReason::Stopped => {
            let why = &result["reason"];
            format!("{text}\n\n[the agent did not finish: {why}]")
        }
    };
    Ok(ToolOutput { context, result })
}
