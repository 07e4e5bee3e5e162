//! Permissions in words: how a request stands, who decided, what a grant covers.

use relay_protocol::permission::{
    DeciderKind, ExecutionState, Grant, GrantScope, PermissionDecider, PermissionExecution,
    PermissionOutcome, PermissionState, RuleSuggestion,
};
use relay_sdk::Timestamp;

use crate::moment::{clock, now, span};
use crate::output::{Style, one_line};

/// Who decided.
pub(crate) fn decider(by: Option<&PermissionDecider>) -> String {
    let Some(by) = by else {
        return "nobody".to_owned();
    };
    match (by.kind, &by.name) {
        (DeciderKind::Human | DeciderKind::Agent, Some(name)) => format!("@{}", one_line(name)),
        (DeciderKind::Policy, Some(name)) => format!("the policy {}", one_line(name)),
        (DeciderKind::Policy, None) => "the rules".to_owned(),
        (DeciderKind::Workspace, _) => "the workspace".to_owned(),
        (DeciderKind::Chat, _) => "the chat".to_owned(),
        (kind, None) => kind.to_string(),
    }
}

/// Who decided, and through which door; a rule or a grant is both.
pub(crate) fn decided_by(outcome: &PermissionOutcome) -> String {
    let by = outcome.by.as_ref();
    let via = outcome.via.as_deref().map(one_line).unwrap_or_default();
    let is_rule = by.is_some_and(|by| by.kind == DeciderKind::Policy && by.name.is_none());
    match via.as_str() {
        "grant" | "rule" if is_rule => format!("a {via}"),
        "" => decider(by),
        via => format!("{} via {via}", decider(by)),
    }
}

/// How a request ended, by whom and when: "approved by @ann via cli at 12:41:15: why".
pub(crate) fn ended(style: &Style, outcome: &PermissionOutcome) -> String {
    let mut text = colored_state(style, outcome.decision);
    if outcome.by.is_some() {
        text.push_str(&format!(" by {}", decided_by(outcome)));
    }
    text.push_str(&format!(" at {}", clock(outcome.at)));
    if outcome.updated_params.is_some() {
        text.push_str(", with other parameters");
    }
    if outcome.stop == Some(true) {
        text.push_str(", and the turn ends");
    }
    if let Some(reason) = &outcome.reason {
        text.push_str(&format!(": {}", one_line(reason)));
    }
    text
}

/// A state as it should look.
pub(crate) fn colored_state(style: &Style, state: PermissionState) -> String {
    let word = state.to_string();
    match state {
        PermissionState::Pending => style.open(&word),
        PermissionState::Approved => style.good(&word),
        PermissionState::Denied => style.bad(&word),
        PermissionState::Expired | PermissionState::Cancelled => style.faint(&word),
    }
}

/// What became of a call that was allowed.
pub(crate) fn executed(execution: &PermissionExecution) -> String {
    let words = match execution.state {
        ExecutionState::Started => "started",
        ExecutionState::Completed => "completed",
        ExecutionState::Failed => "failed",
        ExecutionState::Unknown => "started, and nobody can say how it ended",
        ExecutionState::Cancelled => "never started, and won't be",
    };
    let took = match (execution.started_at, execution.ended_at) {
        (Some(from), Some(to)) => format!(" after {}", span(to.as_millis() - from.as_millis())),
        (Some(from), None) => format!(" at {}", clock(from)),
        _ => String::new(),
    };
    let error = execution
        .error
        .as_deref()
        .map(|error| format!(": {}", one_line(error)));
    format!("{words}{took}{}", error.unwrap_or_default())
}

/// How long is left: `9:41`, or in coarser words.
pub(crate) fn countdown(until: Timestamp) -> String {
    let left = (until.as_millis() - now().as_millis()).max(0);
    match left / 1_000 {
        seconds @ 0..3_600 => format!("{}:{:02} left", seconds / 60, seconds % 60),
        _ => format!("{} left", span(left)),
    }
}

/// What `always` would cover: the rule, for whom, and what that means.
pub(crate) fn offer(style: &Style, agent: &str, offer: &RuleSuggestion) -> String {
    let scope = scope(offer.scope, Some(agent));
    format!(
        "{}  {scope}: {}",
        style.strong(&one_line(&offer.rule)),
        one_line(&offer.covers)
    )
}

/// For whom a grant holds.
pub(crate) fn reach(grant: &Grant) -> String {
    scope(grant.scope, grant.agent_name.as_deref())
}

fn scope(scope: GrantScope, agent: Option<&str>) -> String {
    let agent = agent.map_or("an agent".to_owned(), |name| format!("@{}", one_line(name)));
    match scope {
        GrantScope::Turn => format!("this turn of {agent}"),
        GrantScope::Session => format!("this session of {agent}"),
        GrantScope::Agent => agent,
        GrantScope::Workspace => "everybody".to_owned(),
    }
}
