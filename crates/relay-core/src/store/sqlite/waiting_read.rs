//! What waits, for whoever delivers it. Asked on the writer, which alone knows the newest.

use relay_protocol::delivery::Priority;
use relay_protocol::time::Timestamp;
use rusqlite::params;

use super::delivery_rows::load_delivery;
use super::writer::Tx;
use crate::delivery::lane::Lane;
use crate::error::Result;
use crate::store::delivery_requests::{DueNow, WaitingPage, WaitingQuery};
use crate::store::position::Position;
use crate::store::records::{AgentNo, DeliveryRow, RoomNo, SessionNo};

/// A part of what waits for an agent. It costs a look at the heads of the lanes that are asked for,
/// however much waits in others.
pub(super) fn waiting(tx: &mut Tx<'_>, query: &WaitingQuery) -> Result<WaitingPage> {
    let WaitingQuery {
        workspace_no,
        agent,
        wanted,
        limit,
    } = *query;
    let mut found = Vec::new();
    for lane in tx.lanes(workspace_no, agent)? {
        if wanted.lanes.contains(lane) {
            let after = wanted.after_in(lane);
            let after = after.unwrap_or(Position::from_key(i64::MIN));
            let is_normal = lane.priority() == Priority::Normal;
            let positions = tx.in_lane((workspace_no, agent), lane, after, limit + 1)?;
            found.extend(positions.into_iter().map(|position| (is_normal, position)));
        }
    }
    found.sort_unstable();
    let complete = found.len() <= limit;
    found.truncate(limit);
    Ok(WaitingPage {
        rows: tx.rows_at(found.into_iter().map(|(_, position)| position))?,
        complete,
        total: tx.waiting_for(workspace_no, agent)?,
    })
}

/// What waits for one session only, oldest first.
pub(super) fn addressed_to(tx: &mut Tx<'_>, session: SessionNo) -> Result<Vec<DeliveryRow>> {
    let row = tx.session(session)?;
    let mut rows = tx.rows_in_lane((row.workspace_no, row.agent), Lane::ADDRESSED)?;
    rows.retain(|row| row.only_session == Some(session));
    Ok(rows)
}

/// Unfinished deliveries whose time has come, the earliest first.
pub(super) fn due(tx: &mut Tx<'_>, now: Timestamp, limit: usize) -> Result<DueNow> {
    tx.know_all_fresh()?;
    let mut wakes: Vec<(Timestamp, Position)> = tx
        .query("SELECT at, position FROM wakes ORDER BY at, position LIMIT ?1")?
        .query_map([limit + 1], |row| {
            let at = Timestamp::from_millis(row.get(0)?);
            Ok((at, Position::from_key(row.get(1)?)))
        })?
        .collect::<rusqlite::Result<_>>()?;
    wakes.extend(tx.directory.fresh.wakes.iter().take(limit + 1));
    wakes.sort_unstable();
    let come = wakes.iter().take(limit).take_while(|(at, _)| *at <= now);
    let come = come.count();
    Ok(DueNow {
        next: wakes.get(come).map(|(at, _)| *at),
        rows: tx.rows_at(wakes[..come].iter().map(|(_, position)| *position))?,
    })
}

impl Tx<'_> {
    /// The lanes in which something waits for an agent.
    pub(super) fn lanes(&mut self, workspace_no: u32, agent: AgentNo) -> Result<Vec<Lane>> {
        self.know_fresh(workspace_no)?;
        let mut found = Vec::new();
        let mut statement =
            self.query("SELECT min(lane) FROM waiting WHERE agent = ?1 AND lane > ?2")?;
        let mut last = -1;
        while let Some(code) =
            statement.query_row(params![agent.0, last], |row| row.get::<_, Option<u8>>(0))?
        {
            found.push(Lane::from_code(code));
            last = i64::from(code);
        }
        if let Some(newest) = self.directory.fresh.newest(workspace_no) {
            let first = newest.lane_after(agent, None);
            let next = |lane: &Lane| newest.lane_after(agent, Some(*lane));
            found.extend(std::iter::successors(first, next));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// What waits for an agent in one lane after a place, oldest first.
    fn in_lane(
        &mut self,
        (workspace_no, agent): (u32, AgentNo),
        lane: Lane,
        after: Position,
        most: usize,
    ) -> Result<Vec<Position>> {
        self.know_fresh(workspace_no)?;
        let mut found: Vec<Position> = self
            .query(
                "SELECT position FROM waiting WHERE agent = ?1 AND lane = ?2 AND position > ?3
                 ORDER BY position LIMIT ?4",
            )?
            .query_map(params![agent.0, lane.code(), after.key(), most], |row| {
                row.get(0).map(Position::from_key)
            })?
            .collect::<rusqlite::Result<_>>()?;
        let room = most - found.len();
        if let Some(newest) = self.directory.fresh.newest(workspace_no) {
            // What is only remembered is newer than all that is entered.
            let from = (
                agent,
                lane,
                Position::from_key(after.key().saturating_add(1)),
            );
            let to = (agent, lane, Position::from_key(i64::MAX));
            let fresh = newest.lanes.range(from..=to).take(room);
            found.extend(fresh.map(|(_, _, position)| *position));
        }
        Ok(found)
    }

    /// Everything in one lane of an agent, oldest first.
    pub(super) fn all_in_lane(
        &mut self,
        agent: (u32, AgentNo),
        lane: Lane,
    ) -> Result<Vec<Position>> {
        let first = Position::from_key(i64::MIN);
        self.in_lane(agent, lane, first, i32::MAX as usize)
    }

    /// Everything in one lane of an agent, oldest first, as it stands.
    pub(super) fn rows_in_lane(
        &mut self,
        agent: (u32, AgentNo),
        lane: Lane,
    ) -> Result<Vec<DeliveryRow>> {
        let positions = self.all_in_lane(agent, lane)?;
        self.rows_at(positions)
    }

    /// All unfinished deliveries of an agent, oldest first.
    pub(super) fn unfinished(
        &mut self,
        workspace_no: u32,
        agent: AgentNo,
    ) -> Result<Vec<Position>> {
        let mut found = Vec::new();
        for lane in self.lanes(workspace_no, agent)? {
            found.extend(self.all_in_lane((workspace_no, agent), lane)?);
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The unfinished deliveries of an agent for messages of a room up to a place, oldest first.
    pub(super) fn unfinished_in_room(
        &mut self,
        agent: AgentNo,
        room: RoomNo,
        up_to: Position,
    ) -> Result<Vec<Position>> {
        let workspace_no = up_to.workspace_no();
        self.know_fresh(workspace_no)?;
        let mut found: Vec<Position> = self
            .query("SELECT position FROM waiting WHERE agent = ?1 AND room = ?2 AND message <= ?3")?
            .query_map([agent.0, room.0, up_to.key()], |row| {
                row.get(0).map(Position::from_key)
            })?
            .collect::<rusqlite::Result<_>>()?;
        if let Some(newest) = self.directory.fresh.newest(workspace_no) {
            let fresh = newest.of_agent(agent);
            let fresh = fresh.filter(|spot| spot.room == room && spot.message <= up_to);
            found.extend(fresh.map(|spot| spot.position));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// How many unfinished deliveries an agent has.
    pub(super) fn waiting_for(&mut self, workspace_no: u32, agent: AgentNo) -> Result<u32> {
        if let Some(known) = self.directory.known_waiting(agent) {
            return Ok(known);
        }
        self.know_fresh(workspace_no)?;
        let entered: u32 = self
            .query("SELECT count(*) FROM waiting WHERE agent = ?1")?
            .query_row([agent.0], |row| row.get(0))?;
        let newest = self.directory.fresh.newest(workspace_no);
        let fresh = newest.map_or(0, |newest| newest.of_agent(agent).count());
        let count = entered.saturating_add(u32::try_from(fresh).unwrap_or(u32::MAX));
        self.directory.count_waiting(agent, count);
        Ok(count)
    }

    /// The deliveries at these places.
    fn rows_at(&self, positions: impl IntoIterator<Item = Position>) -> Result<Vec<DeliveryRow>> {
        positions
            .into_iter()
            .map(|position| load_delivery(self.connection, position).map(|found| found.row))
            .collect()
    }
}
