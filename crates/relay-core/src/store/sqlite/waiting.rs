//! Which deliveries wait for an agent.
//!
//! An index by agent touches a page of its own for nearly every delivery, and most deliveries are
//! finished a moment after they were made. So new ones are only remembered by the writer; those that
//! still wait when enough have come are entered into the table `waiting` together, in order. The
//! deliveries themselves are the truth: after a restart, the few that are newer than the workspace's
//! mark are read from there.

use std::collections::{BTreeSet, HashMap};

use rusqlite::params;

use super::log::bounds;
use super::writer::Tx;
use crate::error::Result;
use crate::store::position::Position;
use crate::store::records::AgentNo;

/// Deliveries that are remembered before they are entered.
const ENTERED_AT_ONCE: usize = 2_048;

/// What the writer remembers of each workspace's newest waiting deliveries.
#[derive(Default)]
pub(super) struct Fresh(HashMap<u32, BTreeSet<(AgentNo, Position)>>);

impl Tx<'_> {
    /// Notes new deliveries that wait.
    pub(super) fn now_waiting(
        &mut self,
        workspace_no: u32,
        new: &[(AgentNo, Position)],
    ) -> Result<()> {
        let fresh = self.fresh(workspace_no)?;
        fresh.extend(new);
        if fresh.len() < ENTERED_AT_ONCE {
            return Ok(());
        }
        let entered = std::mem::take(fresh);
        let mut last = Position::new(workspace_no, 0);
        for (agent, position) in entered {
            self.execute(
                "INSERT INTO waiting (agent, position) VALUES (?1, ?2)",
                [agent.0, position.key()],
            )?;
            last = last.max(position);
        }
        self.execute(
            "INSERT OR REPLACE INTO waiting_marks (workspace, position) VALUES (?1, ?2)",
            params![workspace_no, last.key()],
        )?;
        Ok(())
    }

    /// Notes that a delivery waits no longer.
    pub(super) fn no_longer_waiting(&mut self, agent: AgentNo, position: Position) -> Result<()> {
        if !self
            .fresh(position.workspace_no())?
            .remove(&(agent, position))
        {
            self.execute(
                "DELETE FROM waiting WHERE agent = ?1 AND position = ?2",
                [agent.0, position.key()],
            )?;
        }
        Ok(())
    }

    /// The deliveries that wait for an agent, oldest first.
    pub(super) fn waiting_deliveries(
        &mut self,
        workspace_no: u32,
        agent: AgentNo,
    ) -> Result<Vec<Position>> {
        let mut found: Vec<Position> = self
            .query("SELECT position FROM waiting WHERE agent = ?1 ORDER BY position")?
            .query_map([agent.0], |row| row.get(0).map(Position::from_key))?
            .collect::<rusqlite::Result<_>>()?;
        let (first, last) = bounds(workspace_no);
        let range = (agent, Position::from_key(first))..=(agent, Position::from_key(last));
        found.extend(
            self.fresh(workspace_no)?
                .range(range)
                .map(|(_, position)| *position),
        );
        Ok(found)
    }

    /// The newest waiting deliveries of a workspace, read from the database when they are not known.
    fn fresh(&mut self, workspace_no: u32) -> Result<&mut BTreeSet<(AgentNo, Position)>> {
        if !self.directory.fresh.0.contains_key(&workspace_no) {
            let found = self.read_fresh(workspace_no)?;
            self.directory.fresh.0.insert(workspace_no, found);
        }
        Ok(self.directory.fresh.0.entry(workspace_no).or_default())
    }

    fn read_fresh(&self, workspace_no: u32) -> Result<BTreeSet<(AgentNo, Position)>> {
        let (first, last) = bounds(workspace_no);
        Ok(self
            .query(
                "SELECT agent, position FROM deliveries
                 WHERE position > coalesce(
                         (SELECT position FROM waiting_marks WHERE workspace = ?1), ?2)
                   AND position <= ?3 AND state < 4",
            )?
            .query_map(params![workspace_no, first, last], |row| {
                Ok((AgentNo(row.get(0)?), Position::from_key(row.get(1)?)))
            })?
            .collect::<rusqlite::Result<_>>()?)
    }
}
