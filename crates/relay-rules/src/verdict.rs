//! What the rules say about a call.

use relay_protocol::permission::RuleDecision;

/// A decision and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the call may run.
    pub decision: RuleDecision,
    /// What kind of rule said so.
    pub source: Source,
    /// That rule. Where several were needed: the first.
    pub rule: Option<String>,
    /// Why, in one sentence for people.
    pub reason: String,
    /// What the author of a deny rule wants the agent to read.
    pub deny_reason: Option<String>,
    /// The rules for one call that this decision uses up, each for its layer.
    pub used: Vec<Used>,
    /// The grants that this decision needed, as places in the list that was given.
    pub grants: Vec<usize>,
}

/// What kind of rule decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A deny rule.
    Deny,
    /// An ask rule.
    Ask,
    /// A deny or an ask rule of which nobody can tell whether it is meant.
    Doubt,
    /// A grant, by its place in the list that was given.
    Grant(usize),
    /// The allowlist.
    Allow,
    /// A rule for one call, by its place in its list.
    AllowOnce(usize),
    /// Nothing matched.
    Default,
}

/// A rule for one call that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The place of its policy among the layers.
    pub layer: usize,
    /// Its place in that policy's `allowOnce`.
    pub index: usize,
}
