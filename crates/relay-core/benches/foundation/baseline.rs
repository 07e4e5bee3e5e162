//! The same rows, written by a plain loop with prepared statements and nothing else: no checks, no
//! hashes, no answers. One transaction each is what a simple program does; one big transaction is the
//! ceiling that no durable program reaches.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::world::text;

/// The part of the store's schema that a send touches.
const SCHEMA: &str = include_str!("../../src/store/sqlite/schema.sql");

/// Writes so many sends; says how long it took.
pub(crate) fn write(
    directory: &Path,
    sends: usize,
    per_transaction: usize,
    receivers: usize,
) -> Duration {
    let path = directory.join("baseline.db");
    let _ = std::fs::remove_file(&path);
    let connection = Connection::open(&path).unwrap();
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .unwrap();
    connection
        .pragma_update(None, "synchronous", "FULL")
        .unwrap();
    connection
        .pragma_update(None, "cache_size", -(64 * 1024))
        .unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    let begun = Instant::now();
    for first in (0..sends).step_by(per_transaction) {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for number in first..sends.min(first + per_transaction) {
            insert(&connection, number as i64, receivers as i64);
        }
        connection.execute_batch("COMMIT").unwrap();
    }
    begun.elapsed()
}

fn insert(connection: &Connection, number: i64, receivers: i64) {
    let position = (1 << 40) + number * 3 + 1;
    let at = 1_763_244_860_123 + number;
    let room = number % (receivers * 64);
    connection
        .prepare_cached(
            "INSERT INTO messages (position, at, room, author, author_name, parent, parent_at, thread,
                                   depth, recipients, text, extra, version)
             VALUES (?1, ?2, ?3, ?4, NULL, NULL, NULL, NULL, 0, 1, ?5, NULL, 1)",
        )
        .unwrap()
        .execute(params![position, at, room, number % 64, text(number as usize)])
        .unwrap();
    connection
        .prepare_cached("INSERT INTO room_messages (room, position) VALUES (?1, ?2)")
        .unwrap()
        .execute([room, position])
        .unwrap();
    connection
        .prepare_cached(
            "INSERT INTO deliveries (position, message, agent, state, flags, priority, reason,
                                     deadline, generation, attempts, history)
             VALUES (?1, ?2, ?3, 0, 0, 0, 2, ?4, 1, 0, 0)",
        )
        .unwrap()
        .execute(params![
            position + 2,
            position,
            number % receivers,
            at + 604_800_000
        ])
        .unwrap();
    connection
        .prepare_cached(
            "INSERT INTO waiting (agent, lane, position, room, message) VALUES (?1, 1, ?2, ?3, ?4)",
        )
        .unwrap()
        .execute([number % receivers, position + 2, room, position])
        .unwrap();
    connection
        .prepare_cached(
            "INSERT INTO log (position, count, type, at, content, message, payload, salt, hash)
             VALUES (?1, 3, 'message.created', ?2, 1, NULL, NULL, ?3, ?4)",
        )
        .unwrap()
        .execute(params![position, at, [7u8; 16], [9u8; 32]])
        .unwrap();
}
