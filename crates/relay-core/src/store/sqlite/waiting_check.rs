//! Whether the indexes of waiting deliveries say what the deliveries themselves say.

use std::collections::BTreeSet;
use std::fmt::Debug;

use relay_protocol::time::Timestamp;
use rusqlite::Connection;

use super::delivery_rows::{SELECT_DELIVERY, StoredDelivery, read_delivery};
use super::log::bounds;
use super::waiting::{Spot, read_mark, read_newer};
use super::writer::Tx;
use crate::error::Result;
use crate::store::position::Position;
use crate::store::records::AgentNo;

/// A row of `waiting`: agent, lane, position, room, message.
type Lane = (i64, u8, i64, i64, i64);

/// A row of `wakes`: time and position.
type Wake = (i64, i64);

/// Compares the tables with all deliveries; says what differs.
pub(super) fn check_tables(connection: &Connection) -> Result<Vec<String>> {
    let mut lanes: BTreeSet<Lane> = BTreeSet::new();
    let mut wakes: BTreeSet<Wake> = BTreeSet::new();
    for workspace_no in workspaces(connection)? {
        for spot in entered(connection, workspace_no)? {
            lanes.insert((
                spot.agent.0,
                spot.lane.code(),
                spot.position.key(),
                spot.room.0,
                spot.message.key(),
            ));
            wakes.insert((spot.wake.as_millis(), spot.position.key()));
        }
    }
    let found_lanes = connection
        .prepare("SELECT agent, lane, position, room, message FROM waiting")?
        .query_map([], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let found_wakes = connection
        .prepare("SELECT at, position FROM wakes")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut wrong = differences("waiting", &lanes, &found_lanes);
    wrong.extend(differences("wakes", &wakes, &found_wakes));
    Ok(wrong)
}

fn workspaces(connection: &Connection) -> Result<Vec<u32>> {
    Ok(connection
        .prepare("SELECT no FROM workspaces")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// The unfinished deliveries of a workspace that must be in the tables.
fn entered(connection: &Connection, workspace_no: u32) -> Result<Vec<Spot>> {
    let mark = read_mark(connection, workspace_no)?;
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_DELIVERY} WHERE d.position >= ?1 AND d.position <= ?2 AND d.state < 4"
    ))?;
    let found = statement.query_map([bounds(workspace_no).0, mark.key()], |row| {
        let StoredDelivery { row, room, .. } = read_delivery(row)?;
        Ok(Spot::of(&row, room))
    })?;
    Ok(found
        .filter_map(Result::transpose)
        .collect::<rusqlite::Result<_>>()?)
}

fn differences<T: Ord + Debug>(
    what: &str,
    expected: &BTreeSet<T>,
    found: &BTreeSet<T>,
) -> Vec<String> {
    let missing = expected.difference(found);
    let missing = missing.map(|entry| format!("{what}: {entry:?} is missing"));
    let surplus = found.difference(expected);
    let surplus = surplus.map(|entry| format!("{what}: {entry:?} does not wait there"));
    missing.chain(surplus).collect()
}

/// Compares the tables, and what the writer remembers, with all deliveries; says what differs.
pub(super) fn check_everything(tx: &mut Tx<'_>) -> Result<Vec<String>> {
    let mut wrong = check_tables(tx.connection)?;
    let mut wakes: BTreeSet<(Timestamp, Position)> = BTreeSet::new();
    for workspace_no in workspaces(tx.connection)? {
        let Some(newest) = tx.directory.fresh.newest(workspace_no) else {
            continue;
        };
        let mark = read_mark(tx.connection, workspace_no)?;
        let spots = read_newer(tx.connection, mark)?;
        if mark != newest.mark || !newest.spots.values().eq(spots.iter()) {
            wrong.push(format!(
                "workspace {workspace_no}: other deliveries remembered"
            ));
        }
        let lanes = spots
            .iter()
            .map(|spot| (spot.agent, spot.lane, spot.position));
        wrong.extend(differences("lanes", &lanes.collect(), &newest.lanes));
        wakes.extend(spots.iter().map(|spot| (spot.wake, spot.position)));
    }
    wrong.extend(differences("times", &wakes, &tx.directory.fresh.wakes));
    wrong.extend(check_counts(tx)?);
    Ok(wrong)
}

/// Compares the remembered numbers of waiting deliveries with all deliveries.
fn check_counts(tx: &Tx<'_>) -> Result<Vec<String>> {
    let counts: Vec<(AgentNo, u32)> = tx
        .query(
            "SELECT a.no, coalesce(w.count, 0) FROM agents a LEFT JOIN
                 (SELECT agent, count(*) AS count FROM deliveries WHERE state < 4 GROUP BY agent) w
                 ON w.agent = a.no",
        )?
        .query_map([], |row| Ok((AgentNo(row.get(0)?), row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let wrong = counts.into_iter().filter_map(|(agent, count)| {
        let known = tx.directory.known_waiting(agent)?;
        (known != count).then(|| format!("{known} instead of {count} wait for {agent:?}"))
    });
    Ok(wrong.collect())
}
