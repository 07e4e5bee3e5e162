//! What came of calls: as people see it, as the model reads it, as it is written down, and what it means for the run.

use serde_json::{Value, json};

use super::Context;
use super::event::EndReason;
use super::machine::Planned;
use crate::llm::conversation::{Content, ToolResult};
use crate::llm::permits::{Strength, ToolEnd, Verdict};
use crate::llm::tools::ToolOutput;

/// What came of a turn's calls.
pub(super) struct Turn {
    /// For each call, in order.
    pub(super) results: Vec<ToolResult>,
    /// What those who refused want to be said.
    pub(super) guidance: Vec<String>,
    /// Why the run ends here, if it does.
    pub(super) end: Option<EndReason>,
    /// Why nobody could be asked.
    pub(super) error: Option<String>,
}

/// What came of one call.
#[derive(Debug)]
pub(super) enum Came {
    Ran(ToolOutput),
    Failed(String),
    /// Whoever decided said so, or nobody did.
    NotAllowed(Verdict),
    /// Nobody could be asked.
    Unasked(String),
}

impl Came {
    /// As it is shown to people.
    pub(super) fn shown(&self) -> Value {
        match self {
            Self::Ran(output) => json!({ "context": output.context, "result": output.result }),
            Self::Failed(why) | Self::Unasked(why) => json!({ "error": why }),
            Self::NotAllowed(verdict) => status(verdict),
        }
    }

    /// As the model gets it.
    fn result(&self, call_id: &str) -> ToolResult {
        let text = match self {
            Self::Ran(output) => output.context.clone(),
            other => other.shown().to_string(),
        };
        ToolResult {
            call_id: call_id.to_owned(),
            content: vec![Content::Text(text)],
            is_error: !matches!(self, Self::Ran(_)),
        }
    }

    /// As it is written down.
    pub(super) fn end(&self) -> ToolEnd {
        match self {
            Self::Ran(_) => ToolEnd::Completed,
            Self::Failed(why) | Self::Unasked(why) => ToolEnd::Failed(why.clone()),
            Self::NotAllowed(_) => ToolEnd::Failed("it was cancelled".to_owned()),
        }
    }
}

fn status(verdict: &Verdict) -> Value {
    let (status, reason) = match verdict {
        Verdict::Allowed(_) => ("allowed", None),
        Verdict::Denied { reason, .. } => ("denied", reason.clone()),
        Verdict::Expired => ("expired", Some("nobody answered in time".to_owned())),
        Verdict::Cancelled { reason } => ("cancelled", reason.clone()),
    };
    match reason {
        Some(reason) => json!({ "status": status, "reason": reason }),
        None => json!({ "status": status }),
    }
}

pub(super) fn turn(context: &Context, calls: &[Planned], came: Vec<Came>) -> Turn {
    let mut turn = Turn {
        results: Vec::with_capacity(came.len()),
        guidance: Vec::new(),
        end: None,
        error: None,
    };
    for (planned, came) in calls.iter().zip(came) {
        turn.results.push(came.result(&planned.call.id));
        match came {
            Came::Unasked(why) => {
                turn.error.get_or_insert(why);
            }
            Came::NotAllowed(Verdict::Expired) => turn.end = Some(EndReason::Stopped),
            Came::NotAllowed(Verdict::Denied { strength, .. }) => match strength {
                Strength::Call => {}
                Strength::Turn => turn.end = Some(EndReason::Stopped),
                Strength::Guidance(text) => turn.guidance.push(text),
            },
            Came::Ran(_) | Came::Failed(_) | Came::NotAllowed(_) => {}
        }
    }
    if turn.error.is_some() {
        turn.end = Some(EndReason::Error);
    }
    if context.cancel.is_cancelled() {
        turn.end = Some(EndReason::Cancelled);
    }
    turn
}
