//! Which deliveries wait: for each agent by the queue they are in, and all by the next time that
//! matters to them.
//!
//! An index by agent touches a page of its own for nearly every delivery, and most deliveries are
//! finished a moment after they were made. So new ones are only remembered by the writer; those that
//! still wait when enough have come are entered into the tables `waiting` and `wakes` together, in
//! order, and the workspace's mark moves up to them. What is older than the mark is kept in the tables,
//! what is newer in memory. The deliveries themselves are the truth: after a restart, the few that are
//! newer than the mark are read from there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::delivery_rows::{SELECT_DELIVERY, StoredDelivery, read_delivery};
use super::log::bounds;
use super::writer::Tx;
use crate::delivery::lane::Lane;
use crate::error::Result;
use crate::store::position::Position;
use crate::store::records::{AgentNo, DeliveryRow, RoomNo};

/// Deliveries that are remembered before they are entered.
const ENTERED_AT_ONCE: usize = 2_048;

/// How far the mark may stay behind: as many places are looked through after a restart.
const MARK_BEHIND: u64 = 65_536;

/// Where an unfinished delivery waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) position: Position,
    pub(super) agent: AgentNo,
    pub(super) lane: Lane,
    /// The next time that matters: its deadline, or until when it waits.
    pub(super) wake: Timestamp,
    /// Where its message is.
    pub(super) room: RoomNo,
    pub(super) message: Position,
}

impl Spot {
    /// Where a delivery waits, if it is not finished.
    pub(super) fn of(row: &DeliveryRow, room: RoomNo) -> Option<Self> {
        (!row.state.is_terminal()).then(|| Self {
            position: row.position,
            agent: row.agent,
            lane: Lane::of(row),
            wake: row
                .not_before
                .map_or(row.deadline, |until| until.min(row.deadline)),
            room,
            message: row.message,
        })
    }
}

/// What the writer remembers of the newest waiting deliveries.
#[derive(Default)]
pub(super) struct Fresh {
    workspaces: HashMap<u32, Newest>,
    pub(super) wakes: BTreeSet<(Timestamp, Position)>,
    /// Whether the newest of every workspace are there.
    pub(super) is_complete: bool,
}

/// One workspace's waiting deliveries that are newer than its mark.
pub(super) struct Newest {
    pub(super) mark: Position,
    pub(super) spots: BTreeMap<Position, Spot>,
    pub(super) lanes: BTreeSet<(AgentNo, Lane, Position)>,
}

impl Newest {
    /// The lane after this one in which something waits for an agent; with `None`, the first.
    pub(super) fn lane_after(&self, agent: AgentNo, last: Option<Lane>) -> Option<Lane> {
        let from = match last {
            Some(lane) => Bound::Excluded((agent, lane, Position::from_key(i64::MAX))),
            None => Bound::Included((agent, Lane::from_code(0), Position::from_key(i64::MIN))),
        };
        let next = self.lanes.range((from, Bound::Unbounded)).next();
        next.filter(|(of, _, _)| *of == agent)
            .map(|(_, lane, _)| *lane)
    }

    /// Those of one agent.
    pub(super) fn of_agent(&self, agent: AgentNo) -> impl Iterator<Item = &Spot> {
        let first = (agent, Lane::from_code(0), Position::from_key(i64::MIN));
        let last = (
            agent,
            Lane::from_code(u8::MAX),
            Position::from_key(i64::MAX),
        );
        let found = self.lanes.range(first..=last);
        found.filter_map(|(_, _, position)| self.spots.get(position))
    }
}

impl Fresh {
    pub(super) fn knows(&self, workspace_no: u32) -> bool {
        self.workspaces.contains_key(&workspace_no)
    }

    pub(super) fn newest(&self, workspace_no: u32) -> Option<&Newest> {
        self.workspaces.get(&workspace_no)
    }

    /// Takes in what was read of a workspace.
    fn learn(&mut self, workspace_no: u32, mark: Position, spots: Vec<Spot>) {
        let newest = Newest {
            mark,
            spots: BTreeMap::new(),
            lanes: BTreeSet::new(),
        };
        self.workspaces.insert(workspace_no, newest);
        for spot in spots {
            self.put(spot);
        }
    }

    /// Whether a delivery is one of those that are only remembered.
    fn holds(&self, position: Position) -> bool {
        self.newest(position.workspace_no())
            .is_some_and(|newest| position > newest.mark)
    }

    fn put(&mut self, spot: Spot) {
        if let Some(newest) = self.workspaces.get_mut(&spot.position.workspace_no()) {
            newest.spots.insert(spot.position, spot);
            newest.lanes.insert((spot.agent, spot.lane, spot.position));
            self.wakes.insert((spot.wake, spot.position));
        }
    }

    fn remove(&mut self, spot: &Spot) {
        if let Some(newest) = self.workspaces.get_mut(&spot.position.workspace_no()) {
            newest.spots.remove(&spot.position);
            newest.lanes.remove(&(spot.agent, spot.lane, spot.position));
            self.wakes.remove(&(spot.wake, spot.position));
        }
    }

    /// Whether it is time to enter a workspace's deliveries, the last of which is at this place.
    fn is_full(&self, last: Position) -> bool {
        self.newest(last.workspace_no()).is_some_and(|newest| {
            newest.spots.len() >= ENTERED_AT_ONCE
                || last.seq().saturating_sub(newest.mark.seq()) >= MARK_BEHIND
        })
    }

    /// Forgets a workspace's deliveries up to this place, which are entered; says which they are.
    fn hand_over(&mut self, last: Position) -> Vec<Spot> {
        let Some(newest) = self.workspaces.get_mut(&last.workspace_no()) else {
            return Vec::new();
        };
        newest.mark = last;
        newest.lanes.clear();
        let spots: Vec<Spot> = std::mem::take(&mut newest.spots).into_values().collect();
        for spot in &spots {
            self.wakes.remove(&(spot.wake, spot.position));
        }
        spots
    }
}

impl Tx<'_> {
    /// Notes new deliveries that wait, the last of which, waiting or not, is at this place.
    pub(super) fn now_waiting(&mut self, last: Position, new: &[Spot]) -> Result<()> {
        self.know_fresh(last.workspace_no())?;
        for spot in new {
            self.directory.fresh.put(*spot);
            self.directory.more_waiting(spot.agent);
        }
        if self.directory.fresh.is_full(last) {
            self.enter(last)?;
        }
        Ok(())
    }

    /// Notes that a delivery waits elsewhere from now on, or no longer, or again.
    pub(super) fn moved(&mut self, from: Option<Spot>, to: Option<Spot>) -> Result<()> {
        let Some(spot) = from.or(to).filter(|_| from != to) else {
            return Ok(());
        };
        self.know_fresh(spot.position.workspace_no())?;
        if self.directory.fresh.holds(spot.position) {
            if let Some(from) = &from {
                self.directory.fresh.remove(from);
            }
            if let Some(to) = to {
                self.directory.fresh.put(to);
            }
        } else {
            self.move_entered(from, to)?;
        }
        match (from, to) {
            (Some(_), None) => self.directory.less_waiting(spot.agent),
            (None, Some(_)) => self.directory.more_waiting(spot.agent),
            _ => {}
        }
        Ok(())
    }

    /// Enters all that wait, up to this place.
    fn enter(&mut self, last: Position) -> Result<()> {
        let mut spots = self.directory.fresh.hand_over(last);
        spots.sort_unstable_by_key(|spot| (spot.agent, spot.lane, spot.position));
        for spot in &spots {
            self.enter_lane(spot)?;
        }
        spots.sort_unstable_by_key(|spot| (spot.wake, spot.position));
        for spot in &spots {
            self.enter_wake(spot)?;
        }
        self.execute(
            "INSERT OR REPLACE INTO waiting_marks (workspace, position) VALUES (?1, ?2)",
            params![last.workspace_no(), last.key()],
        )?;
        Ok(())
    }

    fn move_entered(&mut self, from: Option<Spot>, to: Option<Spot>) -> Result<()> {
        let lane = |spot: Option<Spot>| spot.map(|spot| spot.lane);
        let wake = |spot: Option<Spot>| spot.map(|spot| spot.wake);
        if lane(from) != lane(to) {
            if let Some(from) = &from {
                self.execute(
                    "DELETE FROM waiting WHERE agent = ?1 AND lane = ?2 AND position = ?3",
                    params![from.agent.0, from.lane.code(), from.position.key()],
                )?;
            }
            if let Some(to) = &to {
                self.enter_lane(to)?;
            }
        }
        if wake(from) != wake(to) {
            if let Some(from) = &from {
                self.execute(
                    "DELETE FROM wakes WHERE at = ?1 AND position = ?2",
                    [from.wake.as_millis(), from.position.key()],
                )?;
            }
            if let Some(to) = &to {
                self.enter_wake(to)?;
            }
        }
        Ok(())
    }

    fn enter_lane(&mut self, spot: &Spot) -> Result<()> {
        self.execute(
            "INSERT INTO waiting (agent, lane, position, room, message) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                spot.agent.0,
                spot.lane.code(),
                spot.position.key(),
                spot.room.0,
                spot.message.key()
            ],
        )?;
        Ok(())
    }

    fn enter_wake(&mut self, spot: &Spot) -> Result<()> {
        self.execute(
            "INSERT INTO wakes (at, position) VALUES (?1, ?2)",
            [spot.wake.as_millis(), spot.position.key()],
        )?;
        Ok(())
    }

    /// Reads the newest waiting deliveries of a workspace when they are not known.
    pub(super) fn know_fresh(&mut self, workspace_no: u32) -> Result<()> {
        if !self.directory.fresh.knows(workspace_no) {
            let mark = read_mark(self.connection, workspace_no)?;
            let spots = read_newer(self.connection, mark)?;
            self.directory.fresh.learn(workspace_no, mark, spots);
        }
        Ok(())
    }

    /// Reads the newest waiting deliveries of all workspaces.
    pub(super) fn know_all_fresh(&mut self) -> Result<()> {
        if self.directory.fresh.is_complete {
            return Ok(());
        }
        let workspaces: Vec<u32> = self
            .query("SELECT no FROM workspaces")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for workspace_no in workspaces {
            self.know_fresh(workspace_no)?;
        }
        self.directory.fresh.is_complete = true;
        Ok(())
    }
}

/// Up to where a workspace's waiting deliveries are entered.
pub(super) fn read_mark(connection: &Connection, workspace_no: u32) -> Result<Position> {
    let mark = connection
        .prepare_cached("SELECT position FROM waiting_marks WHERE workspace = ?1")?
        .query_row([workspace_no], |row| row.get(0).map(Position::from_key))
        .optional()?;
    Ok(mark.unwrap_or_else(|| Position::from_key(bounds(workspace_no).0)))
}

/// The unfinished deliveries of a workspace after a place.
pub(super) fn read_newer(connection: &Connection, after: Position) -> Result<Vec<Spot>> {
    let last = bounds(after.workspace_no()).1;
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_DELIVERY} WHERE d.position > ?1 AND d.position <= ?2 AND d.state < 4"
    ))?;
    let found = statement.query_map([after.key(), last], |row| {
        let StoredDelivery { row, room, .. } = read_delivery(row)?;
        Ok(Spot::of(&row, room))
    })?;
    Ok(found
        .filter_map(Result::transpose)
        .collect::<rusqlite::Result<_>>()?)
}
