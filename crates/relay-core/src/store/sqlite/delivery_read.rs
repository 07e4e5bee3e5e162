//! Reading deliveries: all of a message, one by its id, one by its recipient.

use relay_protocol::api::messages::DeliverySummary;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority};
use relay_protocol::ids::DeliveryId;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::codes::Code;
use super::directory::{AGENT_COLUMNS, from_json, read_agent};
use super::message_read::FullMessage;
use crate::error::{Error, Result};
use crate::store::position::{Position, id_at, place_of};
use crate::store::records::{AgentNo, DeliveryRow, WorkspaceRow};
use crate::store::requests::Viewer;

pub(super) fn deliveries(
    connection: &Connection,
    workspace: &WorkspaceRow,
    viewer: Viewer,
    full: &FullMessage,
) -> Result<Vec<DeliverySummary>> {
    let first = full.first_delivery();
    let is_author = viewer.agent.is_none() || viewer.agent == full.author;
    Ok(connection
        .prepare_cached(
            "SELECT d.position, a.name, d.state, d.mode, d.error
             FROM deliveries d JOIN agents a ON a.no = d.agent
             WHERE d.position >= ?1 AND d.position < ?2 AND (?3 OR d.agent = ?4)
             ORDER BY d.position",
        )?
        .query_map(
            params![
                first.key(),
                first.plus(full.recipients).key(),
                is_author,
                viewer.agent.map(|no| no.0)
            ],
            |row| {
                let position = Position::from_key(row.get(0)?);
                let error: Option<String> = row.get(4)?;
                Ok(DeliverySummary {
                    delivery_id: id_at(workspace.id, position, full.message.created_at),
                    agent: row.get(1)?,
                    state: row.get::<_, Code<DeliveryState>>(2)?.0,
                    mode: row
                        .get::<_, Option<Code<DeliveryMode>>>(3)?
                        .map(|code| code.0),
                    error: error.map(|text| from_json(&text)).transpose()?,
                })
            },
        )?
        .collect::<rusqlite::Result<_>>()?)
}

/// One recipient's delivery of a message, given the first and the number of them. A message's deliveries lie side by side in the order of their
/// agents, so that a channel of thousands costs a dozen steps.
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
