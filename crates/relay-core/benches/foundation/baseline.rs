//! The same rows, written by a plain loop with prepared statements and nothing else: no checks, no
//! hashes, no answers. One transaction each is what a simple program does; one big transaction is the
//! ceiling that no durable program reaches.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::rows;

/// Writes so many sends; says how long it took.
pub(crate) fn write(
    directory: &Path,
    sends: usize,
    per_transaction: usize,
    receivers: usize,
) -> Duration {
    let path = directory.join("baseline.db");
    let _ = std::fs::remove_file(&path);
    let connection = rows::open(&path).unwrap();
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
    let room = number % (receivers * 64);
    rows::insert_message(connection, number, position, room).unwrap();
    let agent = number % receivers;
    rows::insert_delivery(connection, position, position + 2, room, agent).unwrap();
}
