//! What is looked at when a database is opened, and how a new one begins.

use std::path::Path;

use relay_protocol::limits::CHAIN_CHECKED_AT_START;
use rusqlite::Connection;

use super::connection::OpenError;
use super::migration::{FIRST_FORMAT, STEPS};
use super::{FORMAT, audit, workspaces};
use crate::store::records::AuditReport;

/// Marks the file as a Relay database: "Rlay".
const APPLICATION_ID: i64 = 0x526c_6179;

/// What is in a file that can be used.
pub(super) enum Found {
    Nothing,
    Database,
    /// A database of this older format.
    Older(i64),
}

/// Finds out whose file it is and in which format, only by reading.
pub(super) fn examine(connection: &Connection, path: &Path) -> Result<Found, OpenError> {
    let sqlite = |error| OpenError::from_sqlite(path, error);
    let pragma = |name: &str| -> rusqlite::Result<i64> {
        connection.pragma_query_value(None, name, |row| row.get(0))
    };
    let found = pragma("user_version").map_err(sqlite)?;
    let application = pragma("application_id").map_err(sqlite)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sqlite)?;
    match (application, found, tables) {
        (0, 0, 0) => Ok(Found::Nothing),
        (APPLICATION_ID, FORMAT, _) => Ok(Found::Database),
        (APPLICATION_ID, found, _) if (FIRST_FORMAT..FORMAT).contains(&found) => {
            Ok(Found::Older(found))
        }
        (APPLICATION_ID, found, _) if found > FORMAT => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            supported: FORMAT,
        }),
        _ => Err(OpenError::Foreign {
            path: path.to_owned(),
            why: format!("application id {application:#x}, {tables} tables and indexes"),
        }),
    }
}

/// Lays the tables out in a new file: those of the first format, then each step since, as a migration does.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let first = include_str!("schema.sql");
    let rest = STEPS.concat();
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {first} {rest}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    ))
}

/// Says in the file which format it has.
pub(super) fn set_format(connection: &Connection, format: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", format)
}

/// Checks the newest links of every chain, sharing a fixed number of links among them.
pub(super) fn check_tail(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let corrupt = |why: String| OpenError::Corrupt {
        path: path.to_owned(),
        why,
    };
    let workspaces: Vec<u32> = connection
        .prepare("SELECT no FROM workspaces")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .map_err(|error| OpenError::from_sqlite(path, error))?;
    let links = (CHAIN_CHECKED_AT_START / workspaces.len().max(1) as u64).max(1);
    for no in workspaces {
        let report = workspaces::by_no(connection, no)
            .and_then(|workspace| audit::verify_tail(connection, &workspace, links))
            .map_err(|error| corrupt(error.to_string()))?;
        if !report.is_intact() {
            let AuditReport {
                changed, missing, ..
            } = report;
            return Err(corrupt(format!(
                "log of workspace {no}: changed {changed:?}, missing {missing:?}"
            )));
        }
    }
    Ok(())
}
