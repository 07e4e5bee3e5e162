//! Kinds of sessions: what they can do, and how they are reached.

use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::message::AttachmentKind;
use relay_protocol::session::{Attach, AttachAttempt};
use relay_protocol::session_event::AgentSessionEventType;
use relay_protocol::status::AgentStatus;

/// A kind of session. Beside what is said it reports everything and can do nothing special.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) capabilities: AgentSessionCapabilities,
    pub(crate) safe_states: Option<Vec<AgentStatus>>,
    pub(crate) status: Option<AgentStatus>,
    pub(crate) resume: Option<String>,
    pub(crate) attempt: Option<AttachAttempt>,
    /// Whether it has a link; without one it comes by.
    pub(crate) reach: Reached,
}

/// How a session is reached.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reached {
    Linked,
    /// It comes by at its boundaries.
    Hooks,
    /// It asks.
    Poll,
}

/// The spec's minimum, as it stands.
pub(crate) fn minimum() -> Kind {
    Kind {
        capabilities: AgentSessionCapabilities::minimum(),
        safe_states: None,
        status: None,
        resume: None,
        attempt: None,
        reach: Reached::Linked,
    }
}

impl Kind {
    /// One that supports these modes.
    pub(crate) fn of(modes: &[DeliveryMode]) -> Self {
        let mut kind = minimum();
        kind.capabilities.delivery.modes = modes.to_vec();
        kind.capabilities.events.emits = AgentSessionEventType::ALL.to_vec();
        kind
    }

    /// One that supports every mode.
    pub(crate) fn able() -> Self {
        Self::of(DeliveryMode::ALL)
    }

    /// One that is given messages when it is at rest.
    pub(crate) fn polite() -> Self {
        Self::of(&[DeliveryMode::OnIdle])
    }

    /// One without a link, which comes by at its boundaries.
    pub(crate) fn hooks(modes: &[DeliveryMode]) -> Self {
        Self {
            reach: Reached::Hooks,
            ..Self::of(modes)
        }
    }

    /// It asks for what is due.
    pub(crate) fn polling(mut self) -> Self {
        self.reach = Reached::Poll;
        self
    }

    /// It queues for itself.
    pub(crate) fn queueing(mut self) -> Self {
        self.capabilities.delivery.queue = Some(true);
        self
    }

    /// It takes pictures, too.
    pub(crate) fn with_images(mut self) -> Self {
        let kinds = &mut self.capabilities.messaging.attachments;
        kinds.push(AttachmentKind::Image);
        self
    }

    /// It reports this and nothing else.
    pub(crate) fn emitting(mut self, emits: &[AgentSessionEventType]) -> Self {
        self.capabilities.events.emits = emits.to_vec();
        self
    }

    /// Everything can be done with it that can be done with a session.
    pub(crate) fn directed(mut self) -> Self {
        let lifecycle = &mut self.capabilities.lifecycle;
        lifecycle.pause = Some(true);
        lifecycle.resume = Some(true);
        lifecycle.fork = Some(true);
        lifecycle.snapshot = Some(true);
        self
    }

    /// What it is doing when it attaches.
    pub(crate) fn doing(mut self, status: AgentStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// It is at rest in these states only.
    pub(crate) fn safe_in(mut self, states: &[AgentStatus]) -> Self {
        self.safe_states = Some(states.to_vec());
        self
    }

    /// It goes on with the session of this token.
    pub(crate) fn resuming(mut self, token: &str) -> Self {
        self.resume = Some(token.to_owned());
        self
    }

    /// It is this attempt of this client.
    pub(crate) fn attempt(mut self, client: &str, number: u64) -> Self {
        let client = client.to_owned();
        self.attempt = Some(AttachAttempt { client, number });
        self
    }

    pub(super) fn body(&self, agent: &str) -> Attach {
        Attach {
            agent: agent.to_owned(),
            harness: "test".to_owned(),
            capabilities: self.capabilities.clone(),
            safe_states: self.safe_states.clone(),
            status: self.status,
            resume: self.resume.clone(),
            keeps_messages: None,
            attempt: self.attempt.clone(),
        }
    }
}
