//! The workspace's policy, for deliveries and for what agents may do: data with defaults, checked before it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delivery::DeliveryMode;
use crate::limits::PENDING_DELIVERIES_PER_AGENT;
use crate::permission::Permissions;
use crate::wire::literals;

/// How a workspace delivers, and what its agents may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The boundaries at which a delivery without a mode may open, most wanted first.
    pub boundaries: Vec<DeliveryMode>,
    /// How failed attempts are repeated.
    pub retry: RetryPolicy,
    /// How long an offer over a live link may stay without a receipt.
    pub offer_timeout_ms: u64,
    /// How long an accepted delivery stays with a session whose link is gone.
    pub accepted_lease_ms: u64,
    /// How long a session without a link counts as connected.
    pub offline_grace_ms: u64,
    /// The deadline of a delivery that names none.
    pub default_deadline_ms: u64,
    /// Most deliveries that wait for one agent.
    pub queue_limit: u32,
    /// Most offers in flight to one session.
    pub window: u32,
    /// Most messages of a backlog that one turn gets.
    pub backlog_per_turn: u32,
    /// Most sends of one sender in a minute.
    pub sender_per_minute: u32,
    /// When two agents that answer each other are slowed down.
    pub runaway: RunawayPolicy,
    /// What happens to message text.
    pub messages: MessagePolicy,
    /// Rules about tool calls, for every agent; absent: none, so that every call is asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// One more for each change.
    pub version: u64,
}

/// How failed attempts are repeated: exponentially, with jitter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// Most attempts.
    pub attempts: u32,
    /// The first wait.
    pub min_ms: u64,
    /// The longest wait.
    pub max_ms: u64,
}

/// When two agents that answer each other are slowed down. People, one-way bursts and urgent messages never are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunawayPolicy {
    /// Most answers in a minute between two agents in one conversation.
    pub per_minute: u32,
    /// Most answers of agents to other agents in one chain of replies.
    pub depth: u32,
}

/// What happens to message text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessagePolicy {
    /// What is done about secrets in it.
    pub redact: RedactMessages,
}

literals! {
    /// What is done about secrets in message text.
    pub enum RedactMessages {
        /// Nothing: the text is the sender's.
        Off = "off",
        /// They are taken out before the message is stored.
        Mask = "mask",
        /// The send is refused.
        Refuse = "refuse",
    }
}

impl Default for Policy {
    fn default() -> Self {
        const MINUTE: u64 = 60 * 1000;
        Self {
            boundaries: vec![
                DeliveryMode::NextToolCall,
                DeliveryMode::NextMessage,
                DeliveryMode::OnIdle,
            ],
            retry: RetryPolicy {
                attempts: 8,
                min_ms: 1_000,
                max_ms: 5 * MINUTE,
            },
            offer_timeout_ms: MINUTE / 2,
            accepted_lease_ms: 10 * MINUTE,
            offline_grace_ms: 10_000,
            default_deadline_ms: 7 * 24 * 60 * MINUTE,
            queue_limit: PENDING_DELIVERIES_PER_AGENT,
            window: 32,
            backlog_per_turn: 20,
            sender_per_minute: 600,
            runaway: RunawayPolicy {
                per_minute: 240,
                depth: 100,
            },
            messages: MessagePolicy {
                redact: RedactMessages::Off,
            },
            permissions: None,
            version: 1,
        }
    }
}

/// A change to the policy: what is given replaces what was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct PolicyPatch {
    /// See [`Policy::boundaries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boundaries: Option<Vec<DeliveryMode>>,
    /// See [`Policy::retry`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// See [`Policy::offer_timeout_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_timeout_ms: Option<u64>,
    /// See [`Policy::accepted_lease_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_lease_ms: Option<u64>,
    /// See [`Policy::offline_grace_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offline_grace_ms: Option<u64>,
    /// See [`Policy::default_deadline_ms`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_deadline_ms: Option<u64>,
    /// See [`Policy::queue_limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_limit: Option<u32>,
    /// See [`Policy::window`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// See [`Policy::backlog_per_turn`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_per_turn: Option<u32>,
    /// See [`Policy::sender_per_minute`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_per_minute: Option<u32>,
    /// See [`Policy::runaway`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runaway: Option<RunawayPolicy>,
    /// See [`Policy::messages`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagePolicy>,
    /// See [`Policy::permissions`]; an empty object takes all rules away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Refuses the change when the policy has moved on from this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// A field of a policy that can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct PolicyError {
    /// The field, as a dotted path.
    pub path: &'static str,
    /// What it may be.
    pub expected: String,
    /// What it was.
    pub found: String,
}

impl Policy {
    /// This policy with a change applied, its version one higher.
    pub fn patched(&self, patch: PolicyPatch) -> Result<Self, PolicyError> {
        if let Some(version) = patch.version.filter(|version| *version != self.version) {
            return Err(refuse("version", self.version, version));
        }
        let next = Self {
            boundaries: patch.boundaries.unwrap_or_else(|| self.boundaries.clone()),
            retry: patch.retry.unwrap_or_else(|| self.retry.clone()),
            offer_timeout_ms: patch.offer_timeout_ms.unwrap_or(self.offer_timeout_ms),
            accepted_lease_ms: patch.accepted_lease_ms.unwrap_or(self.accepted_lease_ms),
            offline_grace_ms: patch.offline_grace_ms.unwrap_or(self.offline_grace_ms),
            default_deadline_ms: patch
                .default_deadline_ms
                .unwrap_or(self.default_deadline_ms),
            queue_limit: patch.queue_limit.unwrap_or(self.queue_limit),
            window: patch.window.unwrap_or(self.window),
            backlog_per_turn: patch.backlog_per_turn.unwrap_or(self.backlog_per_turn),
            sender_per_minute: patch.sender_per_minute.unwrap_or(self.sender_per_minute),
            runaway: patch.runaway.unwrap_or_else(|| self.runaway.clone()),
            messages: patch.messages.unwrap_or_else(|| self.messages.clone()),
            permissions: match patch.permissions {
                Some(none) if none == Permissions::default() => None,
                Some(rules) => Some(rules),
                None => self.permissions.clone(),
            },
            version: self.version + 1,
        };
        next.check()?;
        Ok(next)
    }

    /// Checks that every field can be applied.
    pub fn check(&self) -> Result<(), PolicyError> {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        if let Some(mode) = repeated(&self.boundaries) {
            return Err(refuse("boundaries", "each mode once", mode));
        }
        if self.boundaries.contains(&DeliveryMode::Manual) {
            return Err(refuse(
                "boundaries",
                "boundaries that open by themselves",
                "manual",
            ));
        }
        within("retry.attempts", self.retry.attempts.into(), 1, 100)?;
        within("retry.minMs", self.retry.min_ms, 10, DAY)?;
        within("retry.maxMs", self.retry.max_ms, self.retry.min_ms, DAY)?;
        within("offerTimeoutMs", self.offer_timeout_ms, 100, DAY)?;
        within("acceptedLeaseMs", self.accepted_lease_ms, 1_000, 30 * DAY)?;
        within("offlineGraceMs", self.offline_grace_ms, 0, DAY)?;
        within(
            "defaultDeadlineMs",
            self.default_deadline_ms,
            1_000,
            366 * DAY,
        )?;
        within(
            "queueLimit",
            self.queue_limit.into(),
            1,
            PENDING_DELIVERIES_PER_AGENT.into(),
        )?;
        within("window", self.window.into(), 1, 1_024)?;
        within("backlogPerTurn", self.backlog_per_turn.into(), 1, 200)?;
        within(
            "senderPerMinute",
            self.sender_per_minute.into(),
            1,
            1_000_000,
        )?;
        within(
            "runaway.perMinute",
            self.runaway.per_minute.into(),
            1,
            100_000,
        )?;
        within("runaway.depth", self.runaway.depth.into(), 1, 10_000)
    }
}

fn repeated(modes: &[DeliveryMode]) -> Option<DeliveryMode> {
    modes
        .iter()
        .enumerate()
        .find(|(at, mode)| modes[..*at].contains(mode))
        .map(|(_, mode)| *mode)
}

fn within(path: &'static str, found: u64, least: u64, most: u64) -> Result<(), PolicyError> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(refuse(path, format_args!("{least} to {most}"), found))
    }
}

fn refuse(
    path: &'static str,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> PolicyError {
    PolicyError {
        path,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn patches_raise_the_version_and_name_what_is_wrong() {
        let policy = Policy::default();
        let next = policy
            .patched(PolicyPatch {
                window: Some(5),
                ..PolicyPatch::default()
            })
            .unwrap();
        assert_eq!((next.window, next.version), (5, 2));
        let cases = [
            (
                PolicyPatch {
                    window: Some(0),
                    ..PolicyPatch::default()
                },
                "window",
            ),
            (
                PolicyPatch {
                    queue_limit: Some(10_001),
                    ..PolicyPatch::default()
                },
                "queueLimit",
            ),
            (
                PolicyPatch {
                    version: Some(7),
                    ..PolicyPatch::default()
                },
                "version",
            ),
            (
                PolicyPatch {
                    retry: Some(RetryPolicy {
                        attempts: 1,
                        min_ms: 100,
                        max_ms: 50,
                    }),
                    ..PolicyPatch::default()
                },
                "retry.maxMs",
            ),
            (
                PolicyPatch {
                    boundaries: Some(vec![DeliveryMode::OnIdle, DeliveryMode::OnIdle]),
                    ..PolicyPatch::default()
                },
                "boundaries",
            ),
        ];
        for (patch, path) in cases {
            assert_eq!(policy.patched(patch).unwrap_err().path, path);
        }
    }
}
