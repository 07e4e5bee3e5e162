//! Reading deliveries: all of a message, one with its story, a list, one by its recipient.

use std::sync::Arc;

use relay_protocol::agent::AgentIdentity;
use relay_protocol::api::Page;
use relay_protocol::delivery::{DeliveryReason, DeliveryState};
use relay_protocol::ids::{DeliveryId, SessionId, WorkspaceId};
use rusqlite::{Connection, params};

use super::agents;
use super::codes::Code;
use super::delivery_rows::{SELECT_DELIVERY, StoredDelivery, find_by_id, read_delivery};
use super::directory::{AGENT_COLUMNS, read_agent, uuid_of};
use super::history::{given_context, history, last_change};
use super::log::bounds;
use super::message_read::{FullMessage, cursor, full_at};
use crate::delivery::history::GivenContext;
use crate::delivery::waiting::LastChange;
use crate::error::{Error, Result};
use crate::store::delivery_requests::{DeliveryFilter, DeliveryStory};
use crate::store::position::{Position, id_at};
use crate::store::records::{AgentNo, SessionNo, WorkspaceRow};
use crate::store::requests::{PageRequest, Viewer};
use crate::store::sent::DeliveryContent;

/// Most deliveries that are looked at for one page of a list.
const LOOKED_AT: usize = 10_000;

/// A message's deliveries, those last that were not made by its send.
pub(super) fn deliveries(
    connection: &Connection,
    workspace: &WorkspaceRow,
    viewer: Viewer,
    full: &FullMessage,
) -> Result<Vec<DeliveryStory>> {
    let first = full.first_delivery();
    let is_author = viewer.agent.is_none() || viewer.agent == full.author;
    let agent = viewer.agent.map(|no| no.0);
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_DELIVERY} WHERE d.position >= ?1 AND d.position < ?2 AND (?3 OR d.agent = ?4)
         ORDER BY d.position"
    ))?;
    let last = first.plus(full.recipients);
    let sent = statement.query_map(
        params![first.key(), last.key(), is_author, agent],
        read_delivery,
    )?;
    let mut found = sent.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_DELIVERY}
         WHERE d.position IN (SELECT position FROM extra_deliveries WHERE message = ?1)
           AND (?2 OR d.agent = ?3)
         ORDER BY d.position"
    ))?;
    let extra = statement.query_map(
        params![full.position.key(), is_author, agent],
        read_delivery,
    )?;
    for stored in extra {
        found.push(stored?);
    }
    found
        .into_iter()
        .map(|stored| story(connection, workspace, stored))
        .collect()
}

/// One delivery with all that happened to it, for its recipient, the author, or the workspace.
pub(super) fn delivery(
    connection: &Connection,
    workspace: &WorkspaceRow,
    viewer: Viewer,
    id: DeliveryId,
) -> Result<DeliveryStory> {
    let stored = find_by_id(connection, workspace, id)?
        .filter(|stored| sees(viewer, stored.row.agent, stored.author))
        .ok_or(Error::UnknownDelivery(id))?;
    let history = history(connection, stored.row.position)?;
    let story = story(connection, workspace, stored)?;
    Ok(DeliveryStory { history, ..story })
}

/// Whether a delivery is for the viewer, or of a message that it wrote.
fn sees(viewer: Viewer, recipient: AgentNo, author: Option<AgentNo>) -> bool {
    match viewer.agent {
        None => true,
        Some(agent) => agent == recipient || Some(agent) == author,
    }
}

fn story(
    connection: &Connection,
    workspace: &WorkspaceRow,
    stored: StoredDelivery,
) -> Result<DeliveryStory> {
    let StoredDelivery {
        row,
        sent_at,
        history,
        ..
    } = stored;
    let holder = row.holder.map(|holder| holder.session);
    let changed = match history > 0 && !row.state.is_terminal() {
        true => last_change(connection, row.position)?,
        false => None,
    };
    Ok(DeliveryStory {
        id: row.id(workspace.id),
        message_id: id_at(workspace.id, row.message, sent_at),
        agent: identity(connection, row.agent)?,
        holder: holder
            .map(|session| session_id(connection, session))
            .transpose()?,
        change: changed.unwrap_or(LastChange::made(row.at)),
        history: Vec::new(),
        row,
    })
}

fn identity(connection: &Connection, agent: AgentNo) -> Result<AgentIdentity> {
    let agent = connection
        .prepare_cached(&format!("SELECT {AGENT_COLUMNS} FROM agents WHERE no = ?1"))?
        .query_row([agent.0], read_agent)?;
    Ok(agent.lasting_identity())
}

fn session_id(connection: &Connection, session: SessionNo) -> Result<SessionId> {
    Ok(connection
        .prepare_cached("SELECT id FROM sessions WHERE no = ?1")?
        .query_row([session.0], |row| {
            Ok(SessionId::from_uuid(uuid_of(row.get(0)?)))
        })?)
}

/// What a session is given of a delivery.
pub(super) fn content(
    connection: &Connection,
    workspace: WorkspaceId,
    message: Position,
    delivery: Position,
) -> Result<DeliveryContent> {
    let full = full_at(connection, workspace, message)?;
    let first = full.first_delivery();
    let is_of_send = first <= delivery && delivery < first.plus(full.recipients);
    let given = match is_of_send {
        true => GivenContext::default(),
        false => given_context(connection, delivery)?,
    };
    Ok(DeliveryContent {
        idempotency_key: given.idempotency_key.or(full.idempotency_key),
        metadata: given.metadata,
        message: Arc::new(full.message),
    })
}

/// Deliveries, newest first. A page that would have to look at too many ends early, with a cursor.
pub(super) fn list(
    connection: &Connection,
    workspace: &WorkspaceRow,
    viewer: Viewer,
    filter: &DeliveryFilter,
    page: &PageRequest,
) -> Result<Page<DeliveryStory>> {
    let agent = filter
        .agent
        .as_ref()
        .map(|name| agents::find(connection, workspace.no, name))
        .transpose()?
        .map(|agent| agent.no);
    let (first, last) = bounds(workspace.no);
    let before = cursor(page)?.map_or(last, |seq| Position::new(workspace.no, seq).key());
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_DELIVERY} WHERE d.position > ?1 AND d.position < ?2 ORDER BY d.position DESC"
    ))?;
    let mut rows = statement.query([first, before])?;
    let (mut items, mut looked_at, mut seq) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        if items.len() == page.limit || looked_at == LOOKED_AT {
            let next_cursor = Some(seq.to_string());
            return Ok(Page { items, next_cursor });
        }
        let stored = read_delivery(row)?;
        seq = stored.row.position.seq();
        looked_at += 1;
        let is_wanted = agent.is_none_or(|agent| agent == stored.row.agent)
            && filter.state.is_none_or(|state| state == stored.row.state)
            && sees(viewer, stored.row.agent, stored.author);
        if is_wanted {
            items.push(story(connection, workspace, stored)?);
        }
    }
    Ok(Page {
        items,
        next_cursor: None,
    })
}

/// One recipient's delivery of a message, given the first and the number of them. A message's deliveries
/// lie side by side in the order of their agents, so that a channel of thousands costs a dozen steps.
pub(super) fn delivery_to(
    connection: &Connection,
    first: Position,
    recipients: u64,
    agent: AgentNo,
) -> Result<Option<(Position, DeliveryState, DeliveryReason)>> {
    let mut statement = connection
        .prepare_cached("SELECT agent, state, reason FROM deliveries WHERE position = ?1")?;
    let (mut low, mut high) = (0, recipients);
    while low < high {
        let middle = u64::midpoint(low, high);
        let position = first.plus(middle);
        let (found, state, reason) = statement.query_row([position.key()], |row| {
            Ok((
                AgentNo(row.get(0)?),
                row.get::<_, Code<DeliveryState>>(1)?.0,
                row.get::<_, Code<DeliveryReason>>(2)?.0,
            ))
        })?;
        match found.cmp(&agent) {
            std::cmp::Ordering::Equal => return Ok(Some((position, state, reason))),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Ok(None)
}
