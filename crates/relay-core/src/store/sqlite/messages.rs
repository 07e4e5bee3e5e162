//! Sending: what is written when a message comes.

use std::sync::{Arc, OnceLock};

use relay_protocol::api::messages::{Notice, NoticeCode, SendTarget};
use relay_protocol::delivery::DeliveryReason;
use relay_protocol::names::RESERVED;
use relay_protocol::time::Timestamp;
use rusqlite::params;

use super::attachments;
use super::directory::to_json;
use super::fates::{Asked, depth, first_decision, may_loop};
use super::idempotency::{remember_key, replay};
use super::log::SentRows;
use super::targets::Target;
use super::waiting::Spot;
use super::writer::Tx;
use crate::delivery::history::Entry;
use crate::delivery::pace::Stride;
use crate::error::Result;
use crate::recipients::{Audience, decide_recipients};
use crate::store::chain::PayloadDigest;
use crate::store::news::News;
use crate::store::position::Position;
use crate::store::records::{AgentNo, AgentRow, RoomKind, WorkspaceRow};
use crate::store::requests::{Author, NewMessage};
use crate::store::sent::{Extra, SendRecord, Sender, system_author};

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
    let mut chosen = decide_recipients(Audience {
        author: author.no(),
        direct: target.room.kind != RoomKind::Channel,
        members: &members,
        thread: participants.as_ref().map(|all| all.as_slice()),
        mentioned: &mentioned.iter().map(|agent| agent.no).collect::<Vec<_>>(),
    });
    if let Some(reason) = new.reason {
        chosen.iter_mut().for_each(|(_, told)| *told = reason);
    }
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
            Author::System(name) | Author::Webhook(_, name) => Ok(Self::System(name.clone())),
        }
    }

    pub(super) fn no(&self) -> Option<AgentNo> {
        match self {
            Self::Agent(agent) => Some(agent.no),
            Self::System(_) => None,
        }
    }

    fn sender(&self) -> Sender {
        match self {
            Self::Agent(agent) => Sender::Agent(agent.clone()),
            Self::System(name) => Sender::Other(system_author(name)),
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
    let position = tx.next_position(workspace.no)?;
    let extra = Extra {
        attachments: attachments::attach(tx, &author, &target.room, position, &new.attachments)?,
        mentions: mentioned.iter().map(|agent| agent.name.clone()).collect(),
        metadata: new.metadata.clone(),
        idempotency_key: new.idempotency.as_ref().map(|(key, _)| key.clone()),
    };
    let depth = depth(&author, &target);
    let stride = Stride {
        room: target.room.no,
        author: author.no(),
        may_loop: may_loop(&author, new.priority),
        depth,
        now: new.at,
    };
    let asked = Asked {
        mode: new.mode,
        allow_downgrade: new.allow_downgrade,
        attachments: &extra.attachments,
    };
    let parent = target.parent.as_ref();
    let recipients = tx.decide_fates(workspace, stride, &asked, parent, &chosen)?;
    let record = Arc::new(SendRecord {
        workspace: workspace.id,
        position,
        at: new.at,
        author: author.sender(),
        parent: parent.map(|parent| (parent.position, parent.at)),
        room: target.room.clone(),
        text: new.text.clone(),
        extra,
        mode: new.mode,
        allow_downgrade: new.allow_downgrade,
        priority: new.priority,
        deadline: deadline(workspace, new.at, new.deadline),
        recipients,
        notices,
        message: OnceLock::new(),
        replayed: None,
    });
    let thread = parent.map(|parent| parent.thread);
    store(tx, workspace, &record, &author, thread, depth)?;
    remember_key(tx, workspace, new, &record)?;
    tx.tell(News::Sent(record.clone()));
    Ok(record)
}

/// When a delivery is of no use any more.
pub(super) fn deadline(
    workspace: &WorkspaceRow,
    at: Timestamp,
    wanted: Option<Timestamp>,
) -> Timestamp {
    let default = i64::try_from(workspace.policy.default_deadline_ms).unwrap_or(i64::MAX);
    wanted.unwrap_or_else(|| at.plus_millis(default))
}

/// Writes the rows of a send and logs it.
fn store(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    record: &Arc<SendRecord>,
    author: &Speaker,
    thread: Option<Position>,
    depth: u32,
) -> Result<()> {
    let stored_extra = (record.extra != Extra::default())
        .then(|| to_json(&record.extra))
        .transpose()?;
    let extra = stored_extra.as_deref();
    insert_message(tx, record, author, thread, depth, extra)?;
    insert_deliveries(tx, record)?;
    let recipients = record.recipients.iter();
    tx.log_send(
        workspace,
        record,
        &SentRows {
            text: &record.text,
            extra,
            room: record.room.no.0,
            author: author.no(),
            author_name: author.stored_name(),
            first_delivery: record.first_delivery(),
            recipients: &recipients.map(|to| to.agent.no).collect::<Vec<_>>(),
        },
    )?;
    tx.log_fates(workspace, record)
}

fn insert_message(
    tx: &mut Tx<'_>,
    record: &SendRecord,
    author: &Speaker,
    thread: Option<Position>,
    depth: u32,
    extra: Option<&str>,
) -> Result<()> {
    tx.execute(
        "INSERT INTO messages (position, at, room, author, author_name, parent, parent_at, thread,
                               depth, recipients, text, extra, version)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 1)",
        params![
            record.position.key(),
            record.at.as_millis(),
            record.room.no.0,
            author.no().map(|no| no.0),
            author.stored_name(),
            record.parent.map(|(parent, _)| parent.key()),
            record.parent.map(|(_, at)| at.as_millis()),
            thread.map(Position::key),
            depth,
            record.recipients.len(),
            record.text,
            extra
        ],
    )?;
    tx.index_message(record.room.no, record.position)?;
    if let (Some(thread), Some(author)) = (thread, author.no()) {
        tx.directory.joined_thread(thread, author);
    }
    Ok(())
}

fn insert_deliveries(tx: &mut Tx<'_>, record: &SendRecord) -> Result<()> {
    let first = record.first_delivery();
    let mut spots = Vec::with_capacity(record.recipients.len());
    let mut last = None;
    for (at, recipient) in (0..).zip(&record.recipients) {
        let row = record.row(first.plus(at), recipient);
        let problem = recipient.problem.as_deref();
        let decided = first_decision(record.at, problem, recipient.brake);
        let decided: Vec<Entry> = decided.map(Entry::Decision).into_iter().collect();
        let history = tx.add_history(row.position, 0, &decided, record.at)?;
        tx.insert_delivery(&row, None, history)?;
        spots.extend(Spot::of(&row, record.room.no));
        last = Some(row.position);
    }
    match last {
        Some(last) => tx.now_waiting(last, &spots),
        None => Ok(()),
    }
}

/// What a send's target may be, for errors.
pub(super) fn target_text(to: &SendTarget) -> String {
    serde_json::to_string(to).unwrap_or_default()
}
