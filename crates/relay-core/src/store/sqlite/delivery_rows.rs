//! Deliveries as they are stored: the one place that knows their columns.

use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority, Surfaced};
use relay_protocol::ids::DeliveryId;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::codes::Code;
use super::directory::{from_json, to_json};
use super::writer::Tx;
use crate::error::{Error, Result, StorageError};
use crate::store::position::{Position, place_of};
use crate::store::records::{AgentNo, DeliveryRow, Holder, RoomNo, SessionNo, WorkspaceRow};

/// What the bits of the column `flags` mean.
mod flag {
    pub(super) const ALLOW_DOWNGRADE: u32 = 1;
    pub(super) const IMAGE: u32 = 1 << 1;
    pub(super) const FLUSHED: u32 = 1 << 2;
    pub(super) const REDELIVERED: u32 = 1 << 3;
    pub(super) const AFTER_ACCEPT: u32 = 1 << 4;
    pub(super) const RETRYABLE: u32 = 1 << 5;
}

/// A delivery with what only the store needs to know of it.
#[derive(Clone, Debug)]
pub(super) struct StoredDelivery {
    pub(super) row: DeliveryRow,
    /// When its message was sent, which the message's id says, too.
    pub(super) sent_at: Timestamp,
    /// Where its message is.
    pub(super) room: RoomNo,
    /// Who wrote its message, if it was an agent.
    pub(super) author: Option<AgentNo>,
    /// How many entries its history ever had.
    pub(super) history: u64,
}

/// Reads deliveries as [`read_delivery`] expects them; a condition follows.
pub(super) const SELECT_DELIVERY: &str = "SELECT d.position, d.message, d.agent, d.state, d.mode,
        d.used_mode, d.flags, d.priority, d.reason, d.deadline, d.generation, d.attempts, d.history,
        d.not_before, d.only_session, d.holder, d.epoch, d.surfaced, d.at, d.error, m.at, m.room,
        m.author
     FROM deliveries d CROSS JOIN messages m ON m.position = d.message";

/// Reads a row of [`SELECT_DELIVERY`].
pub(super) fn read_delivery(row: &Row<'_>) -> rusqlite::Result<StoredDelivery> {
    let mode = |column| -> rusqlite::Result<Option<DeliveryMode>> {
        Ok(row
            .get::<_, Option<Code<_>>>(column)?
            .map(|Code(mode)| mode))
    };
    let number = |column| row.get::<_, Option<i64>>(column);
    let flags: u32 = row.get(6)?;
    let has = |flag| flags & flag != 0;
    let holder = match (number(15)?, row.get::<_, Option<u64>>(16)?) {
        (Some(session), Some(epoch)) => Some(Holder {
            session: SessionNo(session),
            epoch,
            retryable: has(flag::RETRYABLE),
        }),
        _ => None,
    };
    let sent_at = Timestamp::from_millis(row.get(20)?);
    let error: Option<String> = row.get(19)?;
    let delivery = DeliveryRow {
        position: Position::from_key(row.get(0)?),
        at: number(18)?.map_or(sent_at, Timestamp::from_millis),
        message: Position::from_key(row.get(1)?),
        agent: AgentNo(row.get(2)?),
        state: row.get::<_, Code<DeliveryState>>(3)?.0,
        mode: mode(4)?,
        used_mode: mode(5)?,
        allow_downgrade: has(flag::ALLOW_DOWNGRADE),
        image: has(flag::IMAGE),
        flushed: has(flag::FLUSHED),
        redelivered: has(flag::REDELIVERED),
        after_accept: has(flag::AFTER_ACCEPT),
        priority: row.get::<_, Code<Priority>>(7)?.0,
        reason: row.get::<_, Code<DeliveryReason>>(8)?.0,
        deadline: Timestamp::from_millis(row.get(9)?),
        generation: row.get(10)?,
        attempts: row.get(11)?,
        not_before: number(13)?.map(Timestamp::from_millis),
        only_session: number(14)?.map(SessionNo),
        holder,
        surfaced: row
            .get::<_, Option<Code<Surfaced>>>(17)?
            .map(|Code(surfaced)| surfaced),
        error: error.map(|text| from_json(&text)).transpose()?,
    };
    Ok(StoredDelivery {
        row: delivery,
        sent_at,
        room: RoomNo(row.get(21)?),
        author: number(22)?.map(AgentNo),
        history: row.get(12)?,
    })
}

/// The delivery at a place, if there is one.
pub(super) fn find_delivery(
    connection: &Connection,
    position: Position,
) -> Result<Option<StoredDelivery>> {
    Ok(connection
        .prepare_cached(&format!("{SELECT_DELIVERY} WHERE d.position = ?1"))?
        .query_row([position.key()], read_delivery)
        .optional()?)
}

/// The delivery with this id, if there is one.
pub(super) fn find_by_id(
    connection: &Connection,
    workspace: &WorkspaceRow,
    id: DeliveryId,
) -> Result<Option<StoredDelivery>> {
    let Some((position, at)) = place_of(workspace.id, workspace.no, id) else {
        return Ok(None);
    };
    let found = find_delivery(connection, position)?;
    Ok(found.filter(|found| found.row.at == at))
}

/// The delivery at a place where one must be.
pub(super) fn load_delivery(connection: &Connection, position: Position) -> Result<StoredDelivery> {
    find_delivery(connection, position)?.ok_or_else(|| {
        let why = format!("no delivery at {}", position.seq());
        Error::Storage(StorageError::Corrupt(why))
    })
}

fn flags(row: &DeliveryRow) -> u32 {
    let bits = [
        (row.allow_downgrade, flag::ALLOW_DOWNGRADE),
        (row.image, flag::IMAGE),
        (row.flushed, flag::FLUSHED),
        (row.redelivered, flag::REDELIVERED),
        (row.after_accept, flag::AFTER_ACCEPT),
        (
            row.holder.is_some_and(|holder| holder.retryable),
            flag::RETRYABLE,
        ),
    ];
    bits.into_iter()
        .filter(|(is_set, _)| *is_set)
        .fold(0, |flags, (_, bit)| flags | bit)
}

impl Tx<'_> {
    /// The delivery with this id, which must be for this agent.
    pub(super) fn delivery_of(
        &self,
        workspace: &WorkspaceRow,
        agent: AgentNo,
        id: DeliveryId,
    ) -> Result<StoredDelivery> {
        find_by_id(self.connection, workspace, id)?
            .filter(|found| found.row.agent == agent)
            .ok_or(Error::UnknownDelivery(id))
    }

    /// Stores a new delivery. Those that were not made by a send say their own time.
    pub(super) fn insert_delivery(
        &mut self,
        row: &DeliveryRow,
        own_time: Option<Timestamp>,
        history: u64,
    ) -> Result<()> {
        self.execute(
            "INSERT INTO deliveries (position, message, agent, state, mode, flags, priority, reason,
                                     deadline, generation, attempts, history, not_before,
                                     only_session, surfaced, at, error)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            params![
                row.position.key(),
                row.message.key(),
                row.agent.0,
                Code(row.state),
                row.mode.map(Code),
                flags(row),
                Code(row.priority),
                Code(row.reason),
                row.deadline.as_millis(),
                row.generation,
                row.attempts,
                history,
                row.not_before.map(Timestamp::as_millis),
                row.only_session.map(|session| session.0),
                row.surfaced.map(Code),
                own_time.map(Timestamp::as_millis),
                row.error.as_ref().map(to_json).transpose()?
            ],
        )?;
        Ok(())
    }

    /// Stores everything about a delivery that can change.
    pub(super) fn update_delivery(&mut self, row: &DeliveryRow, history: u64) -> Result<()> {
        self.execute(
            "UPDATE deliveries SET state = ?2, used_mode = ?3, flags = ?4, deadline = ?5,
                    generation = ?6, attempts = ?7, history = ?8, not_before = ?9, holder = ?10,
                    epoch = ?11, surfaced = ?12, error = ?13
             WHERE position = ?1",
            params![
                row.position.key(),
                Code(row.state),
                row.used_mode.map(Code),
                flags(row),
                row.deadline.as_millis(),
                row.generation,
                row.attempts,
                history,
                row.not_before.map(Timestamp::as_millis),
                row.holder.map(|holder| holder.session.0),
                row.holder.map(|holder| holder.epoch),
                row.surfaced.map(Code),
                row.error.as_ref().map(to_json).transpose()?
            ],
        )?;
        Ok(())
    }
}
