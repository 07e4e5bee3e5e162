//! What people and agents read about permissions, and the messages that carry it.

use relay_protocol::api::messages::SendTarget;
use relay_protocol::delivery::{DeliveryReason, Priority};
use relay_protocol::ids::GrantId;
use relay_protocol::permission::{
    DeciderKind, PermissionDecider, PermissionOutcome, PermissionRecord, PermissionState,
};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::time::Timestamp;
use relay_rules::{Source, Verdict};
use serde_json::{Value, json};

use super::machine::Obstacle;
use crate::error::Error;
use crate::messages::SYSTEM_NAME;
use crate::store::{Author, NewMessage, PermissionBody, PermissionRow};

/// Most characters of a parameter that a notice shows.
const SHOWN: usize = 1_000;

/// What those who may decide read.
pub(crate) fn notice_text(agent: &str, body: &PermissionBody) -> String {
    let what = match &body.title {
        Some(title) => format!("{title} ({})", body.tool),
        None => body.tool.clone(),
    };
    let mut text = format!("@{agent} asks for permission: {what}");
    for (name, value) in &body.params {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let shown: String = value.chars().take(SHOWN).collect();
        let more = if shown.len() < value.len() {
            " …"
        } else {
            ""
        };
        text.push_str(&format!("\n  {name}: {shown}{more}"));
    }
    text
}

/// The message that tells those who may decide.
pub(crate) fn notice_to(
    workspace_no: u32,
    names: Vec<String>,
    row: &PermissionRow,
    text: &str,
) -> NewMessage {
    let hint = format!(
        "{text}\nDecide: relay permission approve {id}, or relay permission deny {id}",
        id = row.id
    );
    let about = json!({ "permissionId": row.id, "argsHash": row.hash });
    NewMessage {
        to: Some(match <[String; 1]>::try_from(names) {
            Ok([name]) => SendTarget::Agent(name),
            Err(names) => SendTarget::Agents(names),
        }),
        metadata: about.as_object().cloned(),
        priority: Priority::Urgent,
        deadline: Some(row.expires_at),
        reason: Some(DeliveryReason::Notification),
        ..NewMessage::plain(
            workspace_no,
            Author::System(SYSTEM_NAME.into()),
            &hint,
            row.created_at,
        )
    }
}

/// The message that tells the agent what to do instead.
pub(crate) fn guidance_to(
    workspace_no: u32,
    author: Author,
    row: &PermissionRow,
    text: &str,
    at: Timestamp,
) -> NewMessage {
    let about = json!({ "permissionId": row.id });
    NewMessage {
        to: Some(SendTarget::Agent(row.agent_name.clone())),
        metadata: about.as_object().cloned(),
        ..NewMessage::plain(workspace_no, author, text, at)
    }
}

/// How a request ended about which rules or grants decided.
pub(crate) fn decided_by_rule(
    verdict: &Verdict,
    decision: PermissionState,
    grant: Option<GrantId>,
    at: Timestamp,
) -> PermissionOutcome {
    let by_grant = matches!(verdict.source, Source::Grant(_));
    PermissionOutcome {
        by: Some(PermissionDecider {
            kind: DeciderKind::Policy,
            name: None,
        }),
        via: Some(if by_grant { "grant" } else { "rule" }.to_owned()),
        reason: match decision {
            PermissionState::Denied => {
                let reason = verdict.deny_reason.as_ref().unwrap_or(&verdict.reason);
                Some(reason.clone())
            }
            _ => None,
        },
        grant_id: grant,
        rule: verdict.rule.clone(),
        ..PermissionOutcome::new(decision, at)
    }
}

/// The request without what it is called with.
pub(crate) fn trim(record: &mut PermissionRecord) {
    record.params.clear();
    record.title = None;
    record.cwd = None;
    record.suggestions.clear();
    if let Some(outcome) = &mut record.outcome {
        outcome.updated_params = None;
        outcome.rule = None;
    }
}

/// The answer to somebody who decides what is decided.
pub(crate) fn resolved_before(row: &PermissionRow) -> Error {
    let mut detail = format!("the request {} is {} already", row.id, row.state);
    if let Some(outcome) = &row.outcome {
        if let Some(by) = &outcome.by {
            let name = by.name.as_ref().map(|name| format!(" {name}"));
            detail.push_str(&format!(", by {}{}", by.kind, name.unwrap_or_default()));
        }
        if let Some(via) = &outcome.via {
            detail.push_str(&format!(" via {via}"));
        }
        detail.push_str(&format!(" at {}", outcome.at));
    }
    Error::Refused(Box::new(Problem {
        outcome: row.outcome.clone().map(Box::new),
        ..Problem::new(ErrorCode::PermissionResolved, detail)
    }))
}

/// Why a request can't do what is asked of it.
pub(crate) fn obstructed(row: &PermissionRow, obstacle: Obstacle) -> Error {
    let id = row.id;
    let execution = row.execution.as_ref();
    let execution = execution.map_or("not started".to_owned(), |it| it.state.to_string());
    let (code, detail) = match obstacle {
        Obstacle::Ended => return resolved_before(row),
        Obstacle::NotAllowed => (
            ErrorCode::PermissionNotGranted,
            format!(
                "the request {id} is {}; only what is approved can run",
                row.state
            ),
        ),
        Obstacle::OtherArguments => (
            ErrorCode::PermissionNotGranted,
            format!(
                "the request {id} allows a call with the hash {}, and this one has another; ask about it",
                row.running_hash()
            ),
        ),
        Obstacle::StartedBefore => (
            ErrorCode::AlreadyStarted,
            format!("the call of {id} is {execution}; it is not started again"),
        ),
        Obstacle::NotStarted => (
            ErrorCode::IllegalTransition,
            format!("the call of {id} was not started; start it first, or finish it as cancelled"),
        ),
        Obstacle::FinishedBefore | Obstacle::NoEnd => (
            ErrorCode::IllegalTransition,
            format!("the call of {id} is {execution} already"),
        ),
    };
    Error::Refused(Box::new(Problem {
        outcome: row.outcome.clone().map(Box::new),
        ..Problem::new(code, detail)
    }))
}
