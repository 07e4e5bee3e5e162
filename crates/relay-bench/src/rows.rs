//! The same rows, written by hand with prepared statements and nothing else: no checks, no hashes, no
//! answers. The foundation benchmark of `relay-core` includes this file.

use std::path::Path;

use rusqlite::{Connection, Result, params};

use crate::text::text;

/// The store's schema, of which a send touches a part.
const SCHEMA: &str = include_str!("../../relay-core/src/store/sqlite/schema.sql");

/// A database with the store's tables, its settings, and nothing in it.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -(64 * 1024))?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Writes what a message has, but for its deliveries. A message takes as many places of the log as it has
/// events, so `position` has to leave room for them.
pub(crate) fn insert_message(
    connection: &Connection,
    number: i64,
    position: i64,
    room: i64,
) -> Result<()> {
    let at = 1_763_244_860_123 + number;
    connection
        .prepare_cached(
            "INSERT INTO messages (position, at, room, author, author_name, parent, parent_at, thread,
                                   depth, recipients, text, extra, version)
             VALUES (?1, ?2, ?3, ?4, NULL, NULL, NULL, NULL, 0, 1, ?5, NULL, 1)",
        )?
        .execute(params![position, at, room, number % 64, text(number as usize)])?;
    connection
        .prepare_cached("INSERT INTO room_messages (room, position) VALUES (?1, ?2)")?
        .execute([room, position])?;
    connection
        .prepare_cached(
            "INSERT INTO log (position, count, type, at, content, message, payload, salt, hash)
             VALUES (?1, 3, 'message.created', ?2, 1, NULL, NULL, ?3, ?4)",
        )?
        .execute(params![position, at, [7u8; 16], [9u8; 32]])?;
    Ok(())
}

/// Writes what one delivery of a message has.
pub(crate) fn insert_delivery(
    connection: &Connection,
    message: i64,
    position: i64,
    room: i64,
    agent: i64,
) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO deliveries (position, message, agent, state, flags, priority, reason,
                                     deadline, generation, attempts, history)
             VALUES (?1, ?2, ?3, 0, 0, 0, 2, ?4, 1, 0, 0)",
        )?
        .execute(params![position, message, agent, 1_763_849_660_123_i64])?;
    connection
        .prepare_cached(
            "INSERT INTO waiting (agent, lane, position, room, message) VALUES (?1, 1, ?2, ?3, ?4)",
        )?
        .execute([agent, position, room, message])?;
    Ok(())
}
