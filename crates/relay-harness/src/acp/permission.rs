//! Who decides when an agent asks for permission, and how a decision becomes one of the agent's options.
//!
//! An option is chosen by its id or by what it does, never by its place in the list. There is no time limit: a question is
//! open until somebody answers, the turn is cancelled, or the agent is gone.

use std::path::PathBuf;
use std::pin::Pin;

use relay_protocol::permission::PermissionOptionKind;
use serde_json::Value;

use super::event::ToolCall;

/// A decision that is being made.
pub type Deciding<'a> = Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>>;

/// Decides what an agent may do. A decision that is no longer needed is dropped.
pub trait Decides: Send + Sync + 'static {
    /// Decides one question. It may take as long as a person takes.
    fn decide(&self, question: PermissionQuestion) -> Deciding<'_>;
}

/// What an agent asks.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionQuestion {
    /// The agent, as the catalogue calls it.
    pub agent: String,
    /// The session, as the agent calls it.
    pub session_id: String,
    /// The turn in which it asks, counted from 1; nothing when it asks between turns.
    pub turn: Option<u64>,
    /// Where the session works.
    pub cwd: PathBuf,
    /// What it wants to do: all that the agent has said about the call so far.
    pub tool_call: ToolCall,
    /// The answers that it takes.
    pub options: Vec<AgentOption>,
}

/// An answer that an agent takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOption {
    /// How the answer names it.
    pub option_id: String,
    /// A line for people.
    pub name: String,
    /// What it does; nothing when that is not known here. Such an option is chosen by its id only.
    pub kind: Option<PermissionOptionKind>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// This option.
    Option(String),
    /// This call may run.
    AllowOnce,
    /// This call and others like it may run.
    AllowAlways,
    /// This call may not run.
    Reject,
    /// Nobody decides any more.
    Cancelled,
}

/// Rejects everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct RejectAll;

impl Decides for RejectAll {
    fn decide(&self, _: PermissionQuestion) -> Deciding<'_> {
        Box::pin(async { PermissionAnswer::Reject })
    }
}

/// Allows everything, each time for one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowEach;

impl Decides for AllowEach {
    fn decide(&self, _: PermissionQuestion) -> Deciding<'_> {
        Box::pin(async { PermissionAnswer::AllowOnce })
    }
}

impl AgentOption {
    pub(crate) fn read_all(options: &Value) -> Vec<Self> {
        let options = options.as_array().into_iter().flatten();
        options.filter_map(Self::read).collect()
    }

    fn read(option: &Value) -> Option<Self> {
        let option_id = option["optionId"].as_str()?.to_owned();
        let kind = option["kind"].as_str();
        Some(Self {
            name: option["name"].as_str().unwrap_or(&option_id).to_owned(),
            kind: kind.and_then(|kind| kind.parse().ok()),
            option_id,
        })
    }
}

/// The option that a decision stands for; nothing: the question is answered with `cancelled`.
#[must_use]
pub fn choose(answer: &PermissionAnswer, options: &[AgentOption]) -> Option<String> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let kinds: &[PermissionOptionKind] = match answer {
        PermissionAnswer::Option(id) => {
            let known = options.iter().any(|option| option.option_id == *id);
            return known.then(|| id.clone());
        }
        // What was allowed once is not allowed for ever because the agent has no other option.
        PermissionAnswer::AllowOnce => &[AllowOnce],
        PermissionAnswer::AllowAlways => &[AllowAlways, AllowOnce],
        PermissionAnswer::Reject => &[RejectOnce, RejectAlways],
        PermissionAnswer::Cancelled => &[],
    };
    kinds.iter().find_map(|kind| {
        let mut options = options.iter();
        let found = options.find(|option| option.kind == Some(*kind))?;
        Some(found.option_id.clone())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(kinds: &[&str]) -> Vec<AgentOption> {
        let options = kinds.iter().enumerate();
        let options: Vec<Value> = options
            .map(|(at, kind)| json!({"optionId": format!("{kind}{at}"), "kind": kind, "name": "x"}))
            .collect();
        AgentOption::read_all(&options.into())
    }

    #[test]
    fn decisions_and_options() {
        use PermissionAnswer::{AllowAlways, AllowOnce, Cancelled, Reject};
        let full = &["allow_always", "allow_once", "reject_always", "reject_once"][..];
        let only_allow = &["allow_once", "allow_always"][..];
        let only_reject = &["reject_always"][..];
        let odd = &["yes", "allow_forever", "ALLOW_ONCE"][..];
        let two = &["allow_always", "allow_always", "allow_once"][..];
        let by_id = |id: &str| PermissionAnswer::Option(id.to_owned());
        let table = [
            (AllowOnce, full, Some("allow_once1")),
            (AllowAlways, full, Some("allow_always0")),
            (Reject, full, Some("reject_once3")),
            (Cancelled, full, None),
            (Reject, only_allow, None),
            (Reject, only_reject, Some("reject_always0")),
            (Reject, odd, None),
            (Reject, &[], None),
            (AllowOnce, only_reject, None),
            (AllowOnce, &["allow_always"], None),
            (AllowAlways, &["allow_once"], Some("allow_once0")),
            (AllowOnce, odd, None),
            (AllowAlways, two, Some("allow_always0")),
            (by_id("allow_always1"), two, Some("allow_always1")),
            (by_id("yes0"), odd, Some("yes0")),
            (by_id("no"), full, None),
        ];
        for (answer, kinds, expected) in table {
            let chosen = choose(&answer, &options(kinds));
            assert_eq!(chosen.as_deref(), expected, "{answer:?} {kinds:?}");
        }
    }

    #[test]
    fn a_rejection_never_allows() {
        let kinds = [
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
            "odd",
        ];
        for set in 0..1_usize << kinds.len() {
            let offered: Vec<&str> = kinds
                .iter()
                .enumerate()
                .filter(|(at, _)| set >> at & 1 == 1)
                .map(|(_, kind)| *kind)
                .collect();
            let chosen = choose(&PermissionAnswer::Reject, &options(&offered));
            assert!(
                chosen.is_none_or(|chosen| chosen.starts_with("reject")),
                "{offered:?}"
            );
        }
    }
}
