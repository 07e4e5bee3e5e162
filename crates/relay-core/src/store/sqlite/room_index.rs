//! Which messages are in a room, in order.
//!
//! Messages of one commit go to many rooms, and in one large index each room has a page of its own: a
//! commit would write a whole page for nearly every message. So the index has three levels, each a
//! table, the newer the smaller. Messages enter the newest, which is a handful of pages; when it is full
//! it is added to the next in the order of rooms, many messages to a page. Every message is in one
//! level, and all that are in a newer level are newer, so that readers go through the levels in turn.

use rusqlite::{Connection, params};

use super::writer::Tx;
use crate::error::Result;
use crate::store::position::Position;
use crate::store::records::RoomNo;

/// The levels, newest first, and how many messages each holds before it is added to the next.
const LEVELS: [(&str, usize); 3] = [
    ("room_new", 1_024),
    ("room_recent", 16_384),
    ("room_messages", usize::MAX),
];

/// How full the levels are, as far as the writer knows.
#[derive(Default)]
pub(super) struct Fill([Option<usize>; LEVELS.len()]);

impl Tx<'_> {
    /// Enters a message.
    pub(super) fn index_message(&mut self, room: RoomNo, position: Position) -> Result<()> {
        self.execute(
            "INSERT INTO room_new (room, position) VALUES (?1, ?2)",
            [room.0, position.key()],
        )?;
        self.grow(0, 1)
    }

    /// Counts what came to a level; moves it on when it is full.
    fn grow(&mut self, level: usize, by: usize) -> Result<()> {
        let (table, most) = LEVELS[level];
        let filled = match self.directory.room_fill.0[level] {
            Some(known) => known + by,
            None => count(self.connection, table)?,
        };
        self.directory.room_fill.0[level] = Some(filled);
        if filled < most {
            return Ok(());
        }
        let (next, _) = LEVELS[level + 1];
        self.execute(
            &format!("INSERT INTO {next} SELECT room, position FROM {table}"),
            [],
        )?;
        self.execute(&format!("DELETE FROM {table}"), [])?;
        self.directory.room_fill.0[level] = Some(0);
        if level + 2 < LEVELS.len() {
            self.grow(level + 1, filled)
        } else {
            Ok(())
        }
    }
}

fn count(connection: &Connection, table: &str) -> Result<usize> {
    Ok(connection
        .prepare_cached(&format!("SELECT count(*) FROM {table}"))?
        .query_row([], |row| row.get(0))?)
}

/// The newest messages of a room before a place, newest first.
pub(super) fn newest(
    connection: &Connection,
    room: RoomNo,
    before: Position,
    most: usize,
) -> Result<Vec<Position>> {
    let mut found = Vec::new();
    for (table, _) in LEVELS {
        let sql = format!(
            "SELECT position FROM {table} WHERE room = ?1 AND position < ?2
             ORDER BY position DESC LIMIT ?3"
        );
        collect(connection, &sql, room, before, most, &mut found)?;
    }
    Ok(found)
}

/// The oldest messages of a room after a place, oldest first.
pub(super) fn oldest(
    connection: &Connection,
    room: RoomNo,
    after: Position,
    most: usize,
) -> Result<Vec<Position>> {
    let mut found = Vec::new();
    for (table, _) in LEVELS.iter().rev() {
        let sql = format!(
            "SELECT position FROM {table} WHERE room = ?1 AND position > ?2
             ORDER BY position LIMIT ?3"
        );
        collect(connection, &sql, room, after, most, &mut found)?;
    }
    Ok(found)
}

/// The last message of a room.
pub(super) fn last(connection: &Connection, room: RoomNo) -> Result<Option<Position>> {
    Ok(newest(connection, room, Position::from_key(i64::MAX), 1)?.pop())
}

fn collect(
    connection: &Connection,
    sql: &str,
    room: RoomNo,
    bound: Position,
    most: usize,
    found: &mut Vec<Position>,
) -> Result<()> {
    if found.len() == most {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![room.0, bound.key(), most - found.len()])?;
    while let Some(row) = rows.next()? {
        found.push(Position::from_key(row.get(0)?));
    }
    Ok(())
}
