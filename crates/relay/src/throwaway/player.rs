//! An agent that is played: a real session whose answers are set beforehand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use relay_protocol::delivery::{DeliveryMode, MessageReceipt};
use relay_protocol::ids::DeliveryId;
use relay_protocol::session_event::{AgentSessionEventType, StatusChanged, ToolCompleted};
use relay_sdk::{
    AgentClient, AgentSessionCapabilities, AgentSessionEvent, AgentStatus, AttachedSession,
    BoundaryKind, CallbackSession, Error, accepted, deferred, delivered, failed_for_now,
};
use tokio::sync::mpsc;

use crate::failure::Outcome;
use crate::moment;

/// What a session can do, and does at first.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) harness: &'static str,
    pub(crate) modes: &'static [DeliveryMode],
    /// Whether it takes everything at once and surfaces it by itself.
    pub(crate) queues: bool,
    pub(crate) status: AgentStatus,
}

impl Part {
    fn capabilities(&self) -> AgentSessionCapabilities {
        let mut capabilities = AgentSessionCapabilities::minimum();
        capabilities.delivery.modes = self.modes.to_vec();
        capabilities.delivery.queue = self.queues.then_some(true);
        capabilities.events.emits = vec![
            AgentSessionEventType::StatusChanged,
            AgentSessionEventType::ToolCompleted,
        ];
        capabilities
    }
}

/// What a session says about a message.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Accept,
    PutOff { for_ms: i64, reason: &'static str },
    FailForNow { reason: &'static str },
}

impl Answer {
    fn receipt(self, id: DeliveryId) -> MessageReceipt {
        match self {
            Self::Accept => accepted(id),
            Self::PutOff { for_ms, reason } => deferred(moment::now().plus_millis(for_ms), reason),
            Self::FailForNow { reason } => failed_for_now(reason),
        }
    }
}

/// A message that reached a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surfaced {
    pub(crate) delivery: DeliveryId,
    pub(crate) at: Instant,
}

/// What it answers to the next messages; once that is used up, "delivered".
type Script = Arc<Mutex<VecDeque<Answer>>>;

/// An agent with a session.
pub(crate) struct Player {
    pub(crate) client: AgentClient,
    presence: Presence,
    part: Part,
    script: Script,
    tell: mpsc::UnboundedSender<Surfaced>,
    surfaced: mpsc::UnboundedReceiver<Surfaced>,
}

/// Whether its session has a link.
enum Presence {
    Here(AttachedSession),
    Away { resume_token: Option<String> },
}

impl Player {
    /// Attaches a session of an agent.
    pub(crate) async fn attach(client: AgentClient, part: Part) -> Outcome<Self> {
        let (tell, surfaced) = mpsc::unbounded_channel();
        let mut player = Self {
            client,
            presence: Presence::Away { resume_token: None },
            part,
            script: Script::default(),
            tell,
            surfaced,
        };
        player.come_back().await?;
        Ok(player)
    }

    /// Goes on with the session that it left; at first, with a new one.
    pub(crate) async fn come_back(&mut self) -> Outcome {
        let Presence::Away { resume_token } = &self.presence else {
            return Ok(());
        };
        let session = callback(&self.client, self.script.clone(), self.tell.clone());
        let session = session.with_capabilities(self.part.capabilities());
        let mut attaching = self.client.attach(session);
        attaching = attaching
            .harness(self.part.harness)
            .status(self.part.status);
        if let Some(token) = resume_token {
            attaching = attaching.resume(token);
        }
        self.presence = Presence::Here(attaching.await?);
        Ok(())
    }

    /// Closes the link, as a program that is killed does.
    pub(crate) async fn leave(&mut self) -> Outcome {
        let resume_token = Some(self.session()?.resume_token()?);
        let left = std::mem::replace(&mut self.presence, Presence::Away { resume_token });
        if let Presence::Here(session) = left {
            session.detach().await;
        }
        Ok(())
    }

    fn session(&self) -> Outcome<&AttachedSession> {
        match &self.presence {
            Presence::Here(session) => Ok(session),
            Presence::Away { .. } => Err(Error::Ended.into()),
        }
    }

    pub(crate) fn handle(&self) -> &str {
        &self.client.identity().handle
    }

    /// Sets what it answers to the next message that has no answer yet.
    pub(crate) fn will_answer(&self, answer: Answer) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.push_back(answer);
    }

    /// Waits for a message to reach the session; none once the session has ended.
    pub(crate) async fn next(&mut self) -> Option<Surfaced> {
        self.surfaced.recv().await
    }

    /// Says what it is doing.
    pub(crate) async fn become_status(&self, status: AgentStatus) -> Outcome {
        let changed = AgentSessionEvent::StatusChanged(StatusChanged {
            status,
            previous_status: None,
            reason: None,
        });
        Ok(self.session()?.emit_session_event(changed).await?)
    }

    /// Says that a tool has ended.
    pub(crate) async fn finish_tool(&self, tool: &str) -> Outcome {
        let completed = AgentSessionEvent::ToolCompleted(ToolCompleted {
            run: None,
            tool: tool.to_owned(),
            output: None,
            duration_ms: None,
        });
        Ok(self.session()?.emit_session_event(completed).await?)
    }

    /// Says that it stands at a boundary.
    pub(crate) async fn stand_at(&self, boundary: BoundaryKind) -> Outcome {
        Ok(self.session()?.boundary(boundary).await?)
    }

    /// Surfaces what it had accepted.
    pub(crate) async fn surface(&self, delivery: DeliveryId) -> Outcome {
        Ok(self.session()?.receipt(delivered(delivery)).await?)
    }
}

fn callback(
    client: &AgentClient,
    script: Script,
    tell: mpsc::UnboundedSender<Surfaced>,
) -> CallbackSession {
    CallbackSession::new(client.identity().clone(), move |_, context| {
        let next = script
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let _ = tell.send(Surfaced {
            delivery: context.id,
            at: Instant::now(),
        });
        async move {
            Ok(match next {
                Some(answer) => answer.receipt(context.id),
                None => delivered(context.id),
            })
        }
    })
}
