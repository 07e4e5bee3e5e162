//! What a session can do, as its harness declares it: the spec's shape, closed.
//!
//! What Relay makes of a declaration is in [`crate::negotiation`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delivery::DeliveryMode;
use crate::link::LinkKind;
use crate::message::AttachmentKind;
use crate::problem::{ErrorCode, Problem};
use crate::session_event::AgentSessionEventType;
use crate::status::AgentStatus;
use crate::wire::True;

/// Everything that a session declares about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSessionCapabilities {
    /// What it can receive and send.
    pub messaging: MessagingCapabilities,
    /// When it can be given a message.
    pub delivery: DeliveryCapabilities,
    /// What it reports.
    pub events: EventCapabilities,
    /// What it can do with actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actions: Option<ActionCapabilities>,
    /// How its life can be directed.
    pub lifecycle: LifecycleCapabilities,
}

/// What a session can receive and send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessagingCapabilities {
    /// Every session receives.
    pub receive: True,
    /// Whether it sends messages through Relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<bool>,
    /// The content it can consume; text is always part of it.
    pub attachments: Vec<AttachmentKind>,
}

/// When a session can be given a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryCapabilities {
    /// The boundaries it supports.
    pub modes: Vec<DeliveryMode>,
    /// Whether it takes work now and surfaces it later by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<bool>,
}

/// What a session reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventCapabilities {
    /// The events it emits; `status.idle` and its kin stand for that status only.
    pub emits: Vec<AgentSessionEventType>,
}

/// What a session can do with actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct ActionCapabilities {
    /// Whether it can call actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invoke: Option<bool>,
    /// Whether it can register actions for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expose: Option<bool>,
}

/// How a session's life can be directed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct LifecycleCapabilities {
    /// Every session can be released.
    pub release: True,
    /// Whether it can be paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<bool>,
    /// Whether it goes on after a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
    /// Whether it can be forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<bool>,
    /// Whether it can be written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<bool>,
}

/// A declaration that no session can keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct InvalidCapabilities {
    /// Where, as a dotted path.
    pub path: &'static str,
    /// What a declaration must have there.
    pub expected: &'static str,
    /// What this one has.
    pub found: String,
}

impl From<InvalidCapabilities> for Problem {
    fn from(error: InvalidCapabilities) -> Self {
        Self {
            path: Some(error.path.to_owned()),
            expected: Some(error.expected.to_owned()),
            found: Some(error.found.clone()),
            ..Self::new(ErrorCode::InvalidRequest, error.to_string())
        }
    }
}

impl AgentSessionCapabilities {
    /// The least that a session can declare.
    #[must_use]
    pub fn minimum() -> Self {
        Self {
            messaging: MessagingCapabilities {
                receive: True,
                send: None,
                attachments: vec![AttachmentKind::Text],
            },
            delivery: DeliveryCapabilities {
                modes: vec![DeliveryMode::Immediate],
                queue: None,
            },
            events: EventCapabilities {
                emits: vec![AgentSessionEventType::StatusChanged],
            },
            actions: None,
            lifecycle: LifecycleCapabilities::default(),
        }
    }

    /// Refuses what the types cannot: a declaration that contradicts itself or its link.
    pub fn validate(
        &self,
        link: LinkKind,
        safe_states: &[AgentStatus],
    ) -> Result<(), InvalidCapabilities> {
        self.validate_content()?;
        self.validate_modes(link)?;
        self.validate_emits()?;
        validate_safe_states(safe_states)
    }

    /// Whether it queues for itself.
    #[must_use]
    pub fn queues(&self) -> bool {
        self.delivery.queue == Some(true)
    }

    fn validate_content(&self) -> Result<(), InvalidCapabilities> {
        let kinds = &self.messaging.attachments;
        let well = kinds.contains(&AttachmentKind::Text) && all_different(kinds);
        expect(
            well,
            "messaging.attachments",
            "text among them, each once",
            || list(kinds),
        )
    }

    fn validate_modes(&self, link: LinkKind) -> Result<(), InvalidCapabilities> {
        let modes = &self.delivery.modes;
        let well = !modes.is_empty() && all_different(modes);
        expect(
            well,
            "delivery.modes",
            "at least one mode, each once",
            || list(modes),
        )?;
        let reachable = link != LinkKind::None || !modes.contains(&DeliveryMode::Immediate);
        expect(
            reachable,
            "delivery.modes",
            "no `immediate` for a session without a link",
            || list(modes),
        )
    }

    fn validate_emits(&self) -> Result<(), InvalidCapabilities> {
        let emits = &self.events.emits;
        let waits_for_status =
            !self.queues() && self.delivery.modes.contains(&DeliveryMode::OnIdle);
        let tells_status = emits
            .iter()
            .any(|event| event.as_str().starts_with("status."));
        expect(
            !waits_for_status || tells_status,
            "events.emits",
            "a status, because `on-idle` without `queue` waits for one",
            || list(emits),
        )
    }
}

fn validate_safe_states(states: &[AgentStatus]) -> Result<(), InvalidCapabilities> {
    let well = !states.is_empty()
        && all_different(states)
        && !states.iter().any(|status| status.is_terminal());
    expect(
        well,
        "safeStates",
        "some of starting, active, idle, waiting, blocked, paused, releasing, offline, each once",
        || list(states),
    )
}

fn expect(
    well: bool,
    path: &'static str,
    expected: &'static str,
    found: impl FnOnce() -> String,
) -> Result<(), InvalidCapabilities> {
    if well {
        return Ok(());
    }
    Err(InvalidCapabilities {
        path,
        expected,
        found: found(),
    })
}

fn all_different<T: PartialEq>(items: &[T]) -> bool {
    items
        .iter()
        .enumerate()
        .all(|(index, item)| !items[..index].contains(item))
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests;
