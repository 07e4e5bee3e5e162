//! What is known of a delivery at the moment it is made: it may fail at once, or have to wait.

use std::sync::Arc;

use relay_protocol::agent::AgentType;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, Priority, Surfaced};
use relay_protocol::delivery_record::{DecisionOutcome, DeliveryDecision};
use relay_protocol::event::{DeliveryFailed, RelayEvent};
use relay_protocol::message::{Attachment, RelayMessage};
use relay_protocol::negotiation::{CapabilityMismatch, check_content, check_mode};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::time::Timestamp;

use super::delivery_events::About;
use super::messages::Speaker;
use super::targets::{Parent, Target};
use super::writer::Tx;
use crate::delivery::pace::{Brake, Stride};
use crate::error::Result;
use crate::store::position::id_at;
use crate::store::records::{AgentNo, SessionRow, WorkspaceRow};
use crate::store::sent::{Recipient, SendRecord};

/// What a message asks of the sessions that get it.
pub(super) struct Asked<'a> {
    pub(super) mode: Option<DeliveryMode>,
    pub(super) allow_downgrade: bool,
    pub(super) attachments: &'a [Attachment],
}

impl Asked<'_> {
    /// Whether a session can do what is asked; with `allow_downgrade` it always finds a way.
    fn check(&self, session: &SessionRow) -> Result<(), CapabilityMismatch> {
        if self.allow_downgrade {
            return Ok(());
        }
        if let Some(mode) = self.mode {
            check_mode(&session.capabilities, mode)?;
        }
        check_content(&session.capabilities, self.attachments)
    }
}

/// How many answers of agents to others, one upon the other, lead to a message. Who goes on answering
/// itself gets no further; a person's word begins anew.
pub(super) fn depth(author: &Speaker, target: &Target) -> u32 {
    match (author, &target.parent) {
        (Speaker::Agent(agent), Some(parent)) if agent.agent_type == AgentType::Agent => {
            let answers_another = parent.author != Some(agent.no);
            parent.depth.saturating_add(answers_another.into())
        }
        _ => 0,
    }
}

/// Whether a message may be part of a loop: an agent wrote it, no person, and it can wait.
pub(super) fn may_loop(author: &Speaker, priority: Priority) -> bool {
    let is_agent = match author {
        Speaker::Agent(agent) => agent.agent_type == AgentType::Agent,
        Speaker::System(_) => false,
    };
    is_agent && priority != Priority::Urgent
}

impl Tx<'_> {
    /// Decides for each recipient of a message whether its delivery fails at once, or has to wait.
    pub(super) fn decide_fates(
        &mut self,
        workspace: &WorkspaceRow,
        stride: Stride,
        asked: &Asked<'_>,
        parent: Option<&Parent>,
        chosen: &[(AgentNo, DeliveryReason)],
    ) -> Result<Vec<Recipient>> {
        let mut recipients = Vec::with_capacity(chosen.len());
        for (agent, reason) in chosen {
            let only = self.addressed_session(workspace, *agent, parent)?;
            let session = match &only {
                Some(only) => Some(only.clone()),
                None => self.current_session(*agent)?,
            };
            let problem = match only.as_deref().and_then(ended_problem) {
                Some(problem) => Some(problem),
                None => self.obstacle(workspace, *agent, session.as_deref(), asked)?,
            };
            recipients.push(Recipient {
                agent: self.agent_by_no(*agent)?,
                reason: *reason,
                only: only.map(|session| session.no),
                problem,
                brake: None,
            });
        }
        // Nothing can be refused from here on: what is counted is sent.
        self.brake(workspace, stride, &mut recipients);
        Ok(recipients)
    }

    /// The only session of an agent that may get a message: the one that it answers, or else the newest that keeps its messages. Nothing for
    /// agents whose messages go to whichever session is the current one.
    fn addressed_session(
        &mut self,
        workspace: &WorkspaceRow,
        agent: AgentNo,
        parent: Option<&Parent>,
    ) -> Result<Option<Arc<SessionRow>>> {
        if let Some(id) = parent.and_then(|parent| parent.sent_in_session(agent))
            && let Some(answered) = self.find_session(workspace.no, id)?
            && answered.agent == agent
            && answered.keeps_messages
        {
            return Ok(Some(answered));
        }
        self.newest_addressed_session(agent)
    }

    /// Holds those back for whom the author goes too fast.
    fn brake(&mut self, workspace: &WorkspaceRow, stride: Stride, recipients: &mut [Recipient]) {
        let policy = &workspace.policy;
        let of_author = self.pace.send(stride, policy);
        for recipient in recipients {
            if recipient.problem.is_some() || recipient.reason == DeliveryReason::Notification {
                continue;
            }
            let of_both = match recipient.agent.agent_type {
                AgentType::Agent => self.pace.deliver(stride, recipient.agent.no, policy),
                AgentType::Human | AgentType::System => None,
            };
            recipient.brake = of_author
                .into_iter()
                .chain(of_both)
                .max_by_key(|brake| brake.until);
        }
    }

    /// Why a delivery to an agent, whose session this is, can't be made.
    pub(super) fn obstacle(
        &mut self,
        workspace: &WorkspaceRow,
        agent: AgentNo,
        session: Option<&SessionRow>,
        asked: &Asked<'_>,
    ) -> Result<Option<Box<Problem>>> {
        if let Some(problem) = self.queue_problem(workspace, agent)? {
            return Ok(Some(problem));
        }
        let mismatch = session.and_then(|session| asked.check(session).err());
        Ok(mismatch.map(|mismatch| Box::new(mismatch.into())))
    }

    /// The problem of a recipient for whom too much waits already.
    fn queue_problem(
        &mut self,
        workspace: &WorkspaceRow,
        agent: AgentNo,
    ) -> Result<Option<Box<Problem>>> {
        let limit = workspace.policy.queue_limit;
        let waiting = self.waiting_for(workspace.no, agent)?;
        if waiting < limit {
            return Ok(None);
        }
        let name = &self.agent_by_no(agent)?.name;
        let detail =
            format!("{waiting} deliveries wait for @{name}, the limit is {limit}; try again later");
        let mut problem = Problem::new(ErrorCode::QueueFull, detail);
        problem.expected = Some(format!("fewer than {limit} waiting deliveries"));
        problem.found = Some(waiting.to_string());
        Ok(Some(Box::new(problem)))
    }

    /// Logs the deliveries of a send that failed at once or have to wait.
    pub(super) fn log_fates(
        &mut self,
        workspace: &WorkspaceRow,
        record: &Arc<SendRecord>,
    ) -> Result<()> {
        let first = record.first_delivery();
        for (at, recipient) in (0..).zip(&record.recipients) {
            let about = || About {
                delivery_id: id_at(workspace.id, first.plus(at), record.at),
                message_id: record.message().id,
                agent: recipient.agent.clone(),
                session_id: None,
            };
            if let Some(problem) = &recipient.problem {
                let event = failed_at_once(&about(), record.message().clone(), problem);
                self.log_failed(workspace, record.at, record.position, event)?;
            } else if let Some(brake) = recipient.brake {
                let reason = Some(brake.reason.to_owned());
                let event: RelayEvent = about().deferred(brake.until, reason);
                self.log(workspace, record.at, event)?;
            }
        }
        Ok(())
    }
}

/// What was decided about a delivery when it was made, if anything was.
pub(super) fn first_decision(
    at: Timestamp,
    problem: Option<&Problem>,
    brake: Option<Brake>,
) -> Option<DeliveryDecision> {
    let (outcome, reason, until) = match (problem, brake) {
        (Some(problem), _) => (DecisionOutcome::Fail, problem.detail.clone(), None),
        (None, Some(brake)) => {
            let reason = brake.reason.to_owned();
            (DecisionOutcome::Defer, reason, Some(brake.until))
        }
        (None, None) => return None,
    };
    Some(DeliveryDecision {
        at,
        outcome,
        reason,
        session_id: None,
        mode: None,
        waits_for: None,
        until,
    })
}

/// Why what only this session may get fails at once: the session has ended.
fn ended_problem(session: &SessionRow) -> Option<Box<Problem>> {
    session.ended_at?;
    let detail = format!("the session {} is {}", session.id, session.status);
    Some(Box::new(Problem::new(ErrorCode::UnknownSession, detail)))
}

/// The event of a delivery that failed when it was made.
pub(super) fn failed_at_once(
    about: &About,
    message: Arc<RelayMessage>,
    problem: &Problem,
) -> DeliveryFailed {
    DeliveryFailed {
        surfaced: Some(Surfaced::No),
        error: Some(Box::new(problem.clone())),
        ..about.failed(message, problem.code.to_string(), false)
    }
}
