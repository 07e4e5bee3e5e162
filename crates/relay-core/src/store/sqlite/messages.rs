//! Sending: what is written when a message comes.

use std::sync::{Arc, OnceLock};

use relay_protocol::api::messages::{Notice, NoticeCode, SendTarget};
use relay_protocol::delivery::{DeliveryReason, DeliveryState, Surfaced};
use relay_protocol::event::{DeliveryFailed, RelayEvent};
use relay_protocol::message::RelayMessage;
use relay_protocol::names::RESERVED;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::time::Timestamp;
use rusqlite::params;

use super::attachments;
use super::codes::Code;
use super::directory::to_json;
use super::idempotency::{remember_key, replay, route};
use super::log::SentRows;
use super::targets::Target;
use super::writer::Tx;
use crate::error::Result;
use crate::recipients::{Audience, decide_recipients};
use crate::store::chain::PayloadDigest;
use crate::store::position::{Position, id_at};
use crate::store::records::{
    AgentNo, AgentRow, Extra, Recipient, RoomKind, SendRecord, Sender, WorkspaceRow,
    events_before_deliveries, system_author,
};
use crate::store::requests::{Author, NewMessage};

/// Feeds the content of one version of a message.
pub(super) fn message_digest(digest: &mut PayloadDigest, text: &str, extra: Option<&str>) {
    digest.text(Some(text)).text(extra);
}

/// Feeds one recipient of a send.
pub(super) fn delivery_digest(digest: &mut PayloadDigest, agent: AgentNo) {
    digest.number(Some(agent.0));
}

/// Stores a message with its deliveries and events.
pub(super) fn send(tx: &mut Tx<'_>, new: &NewMessage) -> Result<Arc<SendRecord>> {
    let workspace = tx.workspace(new.workspace_no)?;
    if let Some(first) = replay(tx, &workspace, new)? {
        return Ok(first);
    }
    if let Some(objection) = &new.objection {
        return Err(objection.clone());
    }
    let author = Speaker::find(tx, &new.author)?;
    let target = tx.resolve(&workspace, &author, new)?;
    let members = tx.members_of(target.room.no)?;
    let mut notices = Vec::new();
    let mentioned = mentioned(tx, &workspace, &members, new, &mut notices)?;
    let thread = target.parent.as_ref().map(|parent| parent.thread);
    let participants = thread
        .map(|root| tx.thread_participants(root))
        .transpose()?;
    let chosen = decide_recipients(Audience {
        author: author.no(),
        direct: target.room.kind != RoomKind::Channel,
        members: &members,
        thread: participants.as_ref().map(|all| all.as_slice()),
        mentioned: &mentioned.iter().map(|agent| agent.no).collect::<Vec<_>>(),
    });
    add_general_notices(new, &target, chosen.is_empty(), &mut notices);
    write(
        tx,
        &workspace,
        Draft {
            new,
            author,
            target,
            mentioned,
            chosen,
            notices,
        },
    )
}

/// The author of a send.
pub(super) enum Speaker {
    Agent(Arc<AgentRow>),
    System(Arc<str>),
}

impl Speaker {
    fn find(tx: &mut Tx<'_>, author: &Author) -> Result<Self> {
        match author {
            Author::Agent(no) => tx.live_agent(*no).map(Self::Agent),
            Author::System(name) => Ok(Self::System(name.clone())),
        }
    }

    pub(super) fn no(&self) -> Option<AgentNo> {
        match self {
            Self::Agent(agent) => Some(agent.no),
            Self::System(_) => None,
        }
    }

    fn stored_name(&self) -> Option<&str> {
        match self {
            Self::Agent(_) => None,
            Self::System(name) => Some(name),
        }
    }
}

/// The mentioned members; others become notices.
fn mentioned(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    members: &[AgentNo],
    new: &NewMessage,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Arc<AgentRow>>> {
    let mut found = Vec::new();
    for name in new
        .mentions
        .iter()
        .filter(|name| !RESERVED.contains(&name.as_str()))
    {
        match tx.find_agent(workspace.no, name)? {
            Some(agent) if members.binary_search(&agent.no).is_ok() => found.push(agent),
            Some(agent) => notices.push(Notice {
                code: NoticeCode::MentionNotAMember,
                message: format!("@{} is not here and does not get this message", agent.name),
                name: Some(agent.name.clone()),
            }),
            None => notices.push(Notice {
                code: NoticeCode::MentionUnknown,
                message: format!("no agent is called {name:?}"),
                name: Some(name.clone()),
            }),
        }
    }
    Ok(found)
}

fn add_general_notices(new: &NewMessage, target: &Target, nobody: bool, notices: &mut Vec<Notice>) {
    if new.redacted {
        notices.push(Notice {
            code: NoticeCode::Redacted,
            message: "secrets were taken out of the text".to_owned(),
            name: None,
        });
    }
    if nobody {
        notices.push(Notice {
            code: NoticeCode::NoRecipients,
            message: format!("nobody else gets this message in {}", target.room.label()),
            name: None,
        });
    }
}

/// A send about which everything is decided.
struct Draft<'a> {
    new: &'a NewMessage,
    author: Speaker,
    target: Target,
    mentioned: Vec<Arc<AgentRow>>,
    chosen: Vec<(AgentNo, DeliveryReason)>,
    notices: Vec<Notice>,
}

fn write(tx: &mut Tx<'_>, workspace: &WorkspaceRow, draft: Draft<'_>) -> Result<Arc<SendRecord>> {
    let Draft {
        new,
        author,
        target,
        mentioned,
        chosen,
        notices,
    } = draft;
    let route = route(new);
    let position = tx.next_position(workspace.no)?;
    let extra = Extra {
        attachments: attachments::attach(tx, &author, &target.room, position, &new.attachments)?,
        mentions: mentioned.iter().map(|agent| agent.name.clone()).collect(),
        metadata: new.metadata.clone(),
    };
    let stored_extra = (extra != Extra::default())
        .then(|| to_json(&extra))
        .transpose()?;
    let first_delivery = position.plus(events_before_deliveries(
        &target.room,
        target.parent.is_some(),
    ));
    insert_message(
        tx,
        new,
        &author,
        &target,
        position,
        chosen.len(),
        stored_extra.as_deref(),
    )?;
    let recipients = insert_deliveries(tx, workspace, new, position, first_delivery, &chosen)?;
    let numbers: Vec<AgentNo> = chosen.iter().map(|(agent, _)| *agent).collect();
    let room = target.room.clone();
    let record = Arc::new(SendRecord {
        workspace: workspace.id,
        position,
        at: new.at,
        author: match &author {
            Speaker::Agent(agent) => Sender::Agent(agent.clone()),
            Speaker::System(name) => Sender::Other(system_author(name)),
        },
        parent: target
            .parent
            .as_ref()
            .map(|parent| (parent.position, parent.at)),
        room: target.room,
        text: new.text.clone(),
        extra,
        mode: new.mode,
        recipients,
        notices,
        message: OnceLock::new(),
        replayed: None,
    });
    tx.log_send(
        workspace,
        &record,
        &SentRows {
            text: &record.text,
            extra: stored_extra.as_deref(),
            room: room.no.0,
            author: author.no(),
            author_name: author.stored_name(),
            first_delivery,
            recipients: &numbers,
        },
    )?;
    log_refused(tx, workspace, &record, first_delivery)?;
    if let Some((key, request)) = &new.idempotency {
        remember_key(tx, workspace, &author, (route, key, request), &record)?;
    }
    Ok(record)
}

fn insert_message(
    tx: &mut Tx<'_>,
    new: &NewMessage,
    author: &Speaker,
    target: &Target,
    position: Position,
    recipients: usize,
    extra: Option<&str>,
) -> Result<()> {
    let parent = target.parent.as_ref();
    tx.execute(
        "INSERT INTO messages (position, at, room, author, author_name, parent, parent_at, thread,
                               recipients, text, extra, version)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 1)",
        params![
            position.key(),
            new.at.as_millis(),
            target.room.no.0,
            author.no().map(|no| no.0),
            author.stored_name(),
            parent.map(|parent| parent.position.key()),
            parent.map(|parent| parent.at.as_millis()),
            parent.map(|parent| parent.thread.key()),
            recipients,
            new.text,
            extra
        ],
    )?;
    tx.index_message(target.room.no, position)?;
    if let (Some(parent), Some(author)) = (parent, author.no()) {
        tx.directory.joined_thread(parent.thread, author);
    }
    Ok(())
}

fn insert_deliveries(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewMessage,
    message: Position,
    first: Position,
    chosen: &[(AgentNo, DeliveryReason)],
) -> Result<Vec<Recipient>> {
    let default_deadline = i64::try_from(workspace.policy.default_deadline_ms).unwrap_or(i64::MAX);
    let deadline = new
        .deadline
        .unwrap_or_else(|| new.at.plus_millis(default_deadline));
    let mut recipients = Vec::with_capacity(chosen.len());
    let mut waiting = Vec::with_capacity(chosen.len());
    for (at, (agent, reason)) in (0..).zip(chosen) {
        let problem = queue_problem(tx, workspace, *agent)?;
        let state = if problem.is_some() {
            DeliveryState::Failed
        } else {
            DeliveryState::Pending
        };
        tx.execute(
            "INSERT INTO deliveries (position, message, agent, state, mode, allow_downgrade,
                                     priority, reason, deadline, generation, error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10)",
            params![
                first.plus(at).key(),
                message.key(),
                agent.0,
                Code(state),
                new.mode.map(Code),
                new.allow_downgrade,
                Code(new.priority),
                Code(*reason),
                deadline.as_millis(),
                problem.as_ref().map(to_json).transpose()?
            ],
        )?;
        if problem.is_none() {
            tx.directory.more_waiting(*agent);
            waiting.push((*agent, first.plus(at)));
        }
        recipients.push((tx.agent_by_no(*agent)?, problem));
    }
    tx.now_waiting(workspace.no, &waiting)?;
    Ok(recipients)
}

/// The problem of a recipient for whom too much waits already.
fn queue_problem(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    agent: AgentNo,
) -> Result<Option<Box<Problem>>> {
    let limit = workspace.policy.queue_limit;
    let waiting = tx.waiting_for(workspace.no, agent)?;
    if waiting < limit {
        return Ok(None);
    }
    let name = &tx.agent_by_no(agent)?.name;
    let detail =
        format!("{waiting} deliveries wait for @{name}, the limit is {limit}; try again later");
    let mut problem = Problem::new(ErrorCode::QueueFull, detail);
    problem.expected = Some(format!("fewer than {limit} waiting deliveries"));
    problem.found = Some(waiting.to_string());
    Ok(Some(Box::new(problem)))
}

/// Logs the deliveries that failed at once.
fn log_refused(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    record: &Arc<SendRecord>,
    first: Position,
) -> Result<()> {
    for (at, (agent, problem)) in (0..).zip(&record.recipients) {
        let Some(problem) = problem else { continue };
        let event = DeliveryFailed {
            delivery_id: id_at(workspace.id, first.plus(at), record.at),
            message_id: Some(record.message().id),
            message: None,
            agent: agent.lasting_identity(),
            agent_id: Some(agent.id),
            session_id: None,
            reason: problem.code.to_string(),
            retryable: Some(false),
            attempt: None,
            next_attempt_at: None,
            terminal: Some(true),
            surfaced: Some(Surfaced::No),
            error: Some(problem.clone()),
            event: None,
        };
        tx.log_failed(
            workspace,
            record.at,
            record.position,
            event,
            record.message().clone(),
        )?;
    }
    Ok(())
}

impl Tx<'_> {
    /// Logs a failed delivery. The row refers to the message; listeners get it whole.
    pub(super) fn log_failed(
        &mut self,
        workspace: &WorkspaceRow,
        at: Timestamp,
        position: Position,
        event: DeliveryFailed,
        message: Arc<RelayMessage>,
    ) -> Result<()> {
        let live = DeliveryFailed {
            message: Some(message),
            ..event.clone()
        };
        self.log_about(
            workspace,
            at,
            Some(position),
            &to_json(&RelayEvent::DeliveryFailed(event))?,
            RelayEvent::DeliveryFailed(live),
        )?;
        Ok(())
    }
}

/// What a send's target may be, for errors.
pub(super) fn target_text(to: &SendTarget) -> String {
    serde_json::to_string(to).unwrap_or_default()
}
