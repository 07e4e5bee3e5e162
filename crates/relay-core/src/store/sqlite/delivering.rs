//! Deliveries that somebody asks for: of a message that was sent before, or of all that waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use relay_protocol::delivery::{DeliveryMode, DeliveryState, Surfaced};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::AttachmentKind;
use relay_protocol::problem::Problem;

use super::delivery_events::About;
use super::delivery_read::delivery_to;
use super::delivery_rows::{StoredDelivery, load_delivery};
use super::fates::{Asked, failed_at_once, first_decision};
use super::history::given_context;
use super::idempotency::Key;
use super::message_read::{FullMessage, load};
use super::messages::deadline;
use super::steps::Taken;
use super::waiting::Spot;
use super::writer::Tx;
use crate::delivery::apply::Step;
use crate::delivery::history::{Entry, GivenContext};
use crate::delivery::lane::Lane;
use crate::error::{Error, Result};
use crate::recipients::{Audience, decide_reason};
use crate::store::delivery_requests::{DeliverTo, FlushRequest, NewDelivery};
use crate::store::news::{DeliveryMoved, News};
use crate::store::position::Position;
use crate::store::records::{
    AgentNo, AgentRow, DeliveryRow, RoomKind, SessionNo, SessionRow, WorkspaceRow,
};

/// Makes a delivery for a message that was sent before, unless one is on its way already.
pub(super) fn deliver(tx: &mut Tx<'_>, new: &NewDelivery) -> Result<DeliveryRow> {
    let workspace = tx.workspace(new.viewer.workspace_no)?;
    let key = key(new);
    if let Some(key) = &key
        && let Some((_, first)) = tx.used_key(key)?
    {
        let position = Position::from_key(first.parse().unwrap_or_default());
        return Ok(load_delivery(tx.connection, position)?.row);
    }
    let full = load(tx.connection, &workspace, new.viewer, new.message)?;
    let to = Addressee::find(tx, &workspace, new)?;
    to.check_sees(tx, new, &full)?;
    let row = match earlier(tx, &workspace, new, &full, &to)? {
        Some(row) => row,
        None => make(tx, &workspace, new, full, &to)?,
    };
    if let Some(key) = &key {
        tx.keep_key(key, row.message, &row.position.key().to_string())?;
    }
    Ok(row)
}

fn key(new: &NewDelivery) -> Option<Key<'_>> {
    let (key, request) = new.idempotency.as_ref()?;
    Some(Key {
        workspace_no: new.viewer.workspace_no,
        principal: new.viewer.agent,
        route: "deliver",
        key,
        request,
        at: new.at,
    })
}

/// For whom a delivery is.
struct Addressee {
    agent: Arc<AgentRow>,
    /// The agent's current session.
    current: Option<Arc<SessionRow>>,
    /// The only session that may get it.
    only: Option<Arc<SessionRow>>,
}

impl Addressee {
    fn find(tx: &mut Tx<'_>, workspace: &WorkspaceRow, new: &NewDelivery) -> Result<Self> {
        let (agent, only) = match &new.to {
            DeliverTo::Agent(name) => (tx.agent_called(workspace.no, name)?, None),
            DeliverTo::Session(id) => {
                let session = tx.find_session(workspace.no, *id)?;
                let session = session.ok_or(Error::UnknownSession(*id))?;
                if session.ended_at.is_some() {
                    return Err(Error::SessionEnded {
                        id: *id,
                        status: session.status,
                    });
                }
                (tx.live_agent(session.agent)?, Some(session))
            }
        };
        Ok(Self {
            current: tx.current_session(agent.no)?,
            agent,
            only,
        })
    }

    /// An agent can show a message only to those who are where it is; the workspace to everybody.
    fn check_sees(&self, tx: &mut Tx<'_>, new: &NewDelivery, full: &FullMessage) -> Result<()> {
        let members = tx.members_of(full.room.no)?;
        if new.viewer.agent.is_none() || members.binary_search(&self.agent.no).is_ok() {
            return Ok(());
        }
        Err(Error::NotAMember {
            agent: self.agent.name.clone(),
            place: full.room.label(),
        })
    }

    fn only(&self) -> Option<SessionNo> {
        self.only.as_ref().map(|session| session.no)
    }

    /// Whether another delivery of the message reaches the same session.
    fn is_reached_by(&self, row: &DeliveryRow) -> bool {
        let current = self.current.as_ref().map(|session| session.no);
        let is_current = self.only.is_none() || self.only() == current;
        row.only_session == self.only() || (row.only_session.is_none() && is_current)
    }
}

/// A delivery of the message that does what is asked for; it is an error if it has done so.
fn earlier(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewDelivery,
    full: &FullMessage,
    to: &Addressee,
) -> Result<Option<DeliveryRow>> {
    let mut rows = deliveries_to(tx, full, to.agent.no)?;
    rows.retain(|row| to.is_reached_by(row));
    let id_of = |row: &DeliveryRow| row.id(workspace.id);
    if let Some(id) = new.id {
        rows.retain(|row| id_of(row) == id);
        if rows.is_empty() {
            return Err(Error::Invalid {
                path: "context.id",
                expected: format!(
                    "the id of a delivery of this message to @{}, or none: Relay makes the ids",
                    to.agent.name
                ),
                found: id.to_string(),
            });
        }
    }
    if let Some(at) = rows.iter().position(|row| !row.state.is_terminal()) {
        let row = rows.swap_remove(at);
        check_metadata(tx, new, &row, id_of(&row))?;
        return Ok(Some(row));
    }
    let ended = |row: &&DeliveryRow| new.id.is_some() || row.state == DeliveryState::Delivered;
    match rows.iter().find(ended) {
        None => Ok(None),
        Some(row) => Err(Error::DeliveryEnded {
            id: id_of(row),
            agent: to.agent.name.clone(),
            state: row.state,
        }),
    }
}

/// What a session is told with a delivery is settled when the delivery is made.
fn check_metadata(tx: &Tx<'_>, new: &NewDelivery, row: &DeliveryRow, id: DeliveryId) -> Result<()> {
    let Some(metadata) = &new.metadata else {
        return Ok(());
    };
    let known = given_context(tx.connection, row.position)?.metadata;
    if known.as_ref() == Some(metadata) {
        return Ok(());
    }
    Err(Error::Invalid {
        path: "context.metadata",
        expected: format!(
            "none, because the delivery {id} of this message is under way already with its own"
        ),
        found: "metadata that differs".to_owned(),
    })
}

/// All deliveries of a message to an agent.
pub(super) fn deliveries_to(
    tx: &Tx<'_>,
    full: &FullMessage,
    agent: AgentNo,
) -> Result<Vec<DeliveryRow>> {
    let sent = delivery_to(tx.connection, full.first_delivery(), full.recipients, agent)?;
    let mut positions: Vec<Position> = sent.into_iter().map(|(position, _, _)| position).collect();
    let mut statement = tx.query(
        "SELECT e.position FROM extra_deliveries e JOIN deliveries d ON d.position = e.position
         WHERE e.message = ?1 AND d.agent = ?2",
    )?;
    let mut extra = statement.query([full.position.key(), agent.0])?;
    while let Some(row) = extra.next()? {
        positions.push(Position::from_key(row.get(0)?));
    }
    positions
        .into_iter()
        .map(|position| load_delivery(tx.connection, position).map(|stored| stored.row))
        .collect()
}

fn make(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewDelivery,
    full: FullMessage,
    to: &Addressee,
) -> Result<DeliveryRow> {
    let asked = Asked {
        mode: new.mode,
        allow_downgrade: new.allow_downgrade,
        attachments: &full.message.attachments,
    };
    let session = to.only.as_deref().or(to.current.as_deref());
    let problem = tx.obstacle(workspace, to.agent.no, session, &asked)?;
    let row = new_row(tx, workspace, new, &full, to, problem)?;
    let history = begin_history(tx, new, &row)?;
    tx.insert_delivery(&row, Some(row.at), history)?;
    tx.execute(
        "INSERT INTO extra_deliveries (message, position) VALUES (?1, ?2)",
        [row.message.key(), row.position.key()],
    )?;
    let message = Arc::new(full.message);
    tx.log_created(workspace, &row, &to.agent, message.clone())?;
    if let Some(problem) = &row.error {
        let about = About {
            delivery_id: row.id(workspace.id),
            message_id: message.id,
            agent: to.agent.clone(),
            session_id: None,
        };
        let event = failed_at_once(&about, message, problem);
        tx.log_failed(workspace, row.at, row.message, event)?;
    }
    let spots: Vec<Spot> = Spot::of(&row, full.room.no).into_iter().collect();
    tx.now_waiting(row.position, &spots)?;
    tx.tell(News::Moved(Box::new(DeliveryMoved {
        row: row.clone(),
        settles: None,
        receipt: None,
    })));
    Ok(row)
}

/// Notes what was given for the session, and that the delivery has failed already if it has.
fn begin_history(tx: &mut Tx<'_>, new: &NewDelivery, row: &DeliveryRow) -> Result<u64> {
    let given = given(new);
    let mut entries = Vec::new();
    if given != GivenContext::default() {
        entries.push(Entry::Context(given));
    }
    let failed = first_decision(row.at, row.error.as_deref(), None);
    entries.extend(failed.map(Entry::Decision));
    tx.add_history(row.position, 0, &entries, row.at)
}

fn given(new: &NewDelivery) -> GivenContext {
    GivenContext {
        idempotency_key: new.idempotency.as_ref().map(|(key, _)| key.clone()),
        metadata: new.metadata.clone(),
    }
}

fn new_row(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &NewDelivery,
    full: &FullMessage,
    to: &Addressee,
    problem: Option<Box<Problem>>,
) -> Result<DeliveryRow> {
    let message = &full.message;
    let is_mentioned = message.mentions.contains(&to.agent.name);
    let audience = Audience {
        author: full.author,
        direct: full.room.kind != RoomKind::Channel,
        members: &[],
        thread: full.parent.map(|_| [].as_slice()),
        mentioned: if is_mentioned { &[to.agent.no] } else { &[] },
    };
    let mut kinds = message.attachments.iter().map(|content| content.kind);
    Ok(DeliveryRow {
        position: tx.next_position(workspace.no)?,
        at: new.at,
        message: full.position,
        agent: to.agent.no,
        state: match problem {
            Some(_) => DeliveryState::Failed,
            None => DeliveryState::Pending,
        },
        mode: new.mode,
        used_mode: None,
        allow_downgrade: new.allow_downgrade,
        image: kinds.any(|kind| kind == AttachmentKind::Image),
        flushed: false,
        redelivered: false,
        after_accept: false,
        priority: new.priority,
        reason: new
            .reason
            .unwrap_or_else(|| decide_reason(audience, to.agent.no)),
        deadline: deadline(workspace, new.at, new.deadline),
        generation: 1,
        attempts: 0,
        not_before: None,
        only_session: to.only(),
        holder: None,
        surfaced: problem.as_ref().map(|_| Surfaced::No),
        error: problem,
    })
}

/// Lets waiting deliveries go at any moment, oldest first. What a session holds is left to it.
pub(super) fn flush(tx: &mut Tx<'_>, request: &FlushRequest) -> Result<Vec<DeliveryRow>> {
    if let Some(id) = request.delivery {
        let workspace = tx.workspace(request.workspace_no)?;
        let stored = tx.delivery_of(&workspace, request.agent, id)?;
        return Ok(vec![flush_one(tx, stored, request)?]);
    }
    let mut rows = Vec::new();
    for position in candidates(tx, request)? {
        if rows.len() >= request.limit {
            break;
        }
        let stored = load_delivery(tx.connection, position)?;
        if request.mode.is_none() || stored.row.mode == request.mode {
            rows.push(flush_one(tx, stored, request)?);
        }
    }
    Ok(rows)
}

fn flush_one(
    tx: &mut Tx<'_>,
    stored: StoredDelivery,
    request: &FlushRequest,
) -> Result<DeliveryRow> {
    let taken = Taken::plain(&Step::Flushed, request.at);
    Ok(tx.step(stored, &taken)?.row)
}

/// What waits for the agent in lanes that may have what is asked for, oldest first.
fn candidates(tx: &mut Tx<'_>, request: &FlushRequest) -> Result<BTreeSet<Position>> {
    let FlushRequest {
        workspace_no,
        agent,
        ..
    } = *request;
    let mut found = BTreeSet::new();
    for lane in tx.lanes(workspace_no, agent)? {
        if may_hold(lane, request.mode) {
            found.extend(tx.all_in_lane((workspace_no, agent), lane)?);
        }
    }
    Ok(found)
}

/// Whether a lane may hold deliveries for which this mode was asked.
fn may_hold(lane: Lane, mode: Option<DeliveryMode>) -> bool {
    match lane.ask() {
        Some(ask) => mode.is_none() || ask.flushed || ask.mode == mode,
        None => true,
    }
}
