//! Damaged databases: found on opening or by the checks, never a panic, and nothing changed.

use std::path::Path;

use relay_core::error::{Error, StorageError};
use relay_core::store::sqlite::OpenError;
use relay_core::{Caller, Engine};
use relay_protocol::selector::Selector;
use rusqlite::Connection;

use crate::depth::{rounds, seed};
use crate::opening::{Files, block_on, change, copy_files, database, files, refused};
use crate::vfs::SplitMix64;
use crate::writers::{DATABASE, Keys, open_in, open_unsynced_in};

#[test]
fn a_changed_link_near_the_end_of_the_chain_is_found_on_opening() {
    let changes = [
        "UPDATE log SET hash = randomblob(32) WHERE position = ?1",
        "UPDATE log SET hash = x'00' WHERE position = ?1",
        "UPDATE log SET payload = replace(payload, 'message', 'massage') WHERE position = ?1",
        "UPDATE log SET salt = randomblob(16) WHERE position = ?1",
        "UPDATE log SET type = 'message.unread' WHERE position = ?1",
        "UPDATE log SET at = at + 1 WHERE position = ?1",
        "DELETE FROM log WHERE position = ?1",
    ];
    for change in changes {
        let (directory, _) = database(Files::Closed);
        let db = Connection::open(directory.path().join(DATABASE)).unwrap();
        let position: i64 = db
            .query_row(
                "SELECT position FROM log WHERE type = 'message.read' ORDER BY position DESC",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(db.execute(change, [position]).unwrap(), 1);
        drop(db);
        let error = refused(directory.path());
        assert!(
            matches!(error, OpenError::Corrupt { .. }),
            "{change}: {error:?}"
        );
    }
}

#[test]
fn a_change_far_from_the_end_of_the_chain_is_found_by_verification() {
    let (directory, keys) = database(Files::Closed);
    change(
        directory.path(),
        "UPDATE log SET hash = zeroblob(32) WHERE position = (SELECT min(position) FROM log)",
    );
    let engine = open_in(directory.path()).expect("only the newest 1,000 links are checked");
    let found = block_on(async {
        let owner = keys.owner(&engine).await?;
        engine.audit_verify(&owner).await
    });
    assert_eq!(found.unwrap().changed, [1, 2]);
}

#[test]
fn a_truncated_database_is_refused_and_not_touched() {
    for state in [Files::Closed, Files::InUse] {
        let (directory, _) = database(state);
        let path = directory.path().join(DATABASE);
        let whole = std::fs::read(&path).unwrap();
        for kept in [whole.len() / 2, whole.len() - 4_096, 4_096, 2_000] {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join(DATABASE), &whole[..kept]).unwrap();
            let error = refused(directory.path());
            assert!(
                matches!(error, OpenError::Corrupt { .. } | OpenError::Foreign { .. }),
                "{state:?}, {kept} bytes: {error:?}"
            );
        }
    }
}

#[test]
fn no_damaged_page_goes_unnoticed_or_makes_it_panic() {
    let mut random = SplitMix64::new(seed());
    let (directory, keys) = database(Files::Closed);
    let path = directory.path().join(DATABASE);
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() as u64 / 4_096;
    let uncovered = uncovered_pages(&path);
    let [mut refused_to_open, mut found_later] = [0; 2];
    for round in 0..rounds(60) {
        // The first pages hold the schema and the roots of the tables.
        let page = if round % 3 == 0 {
            random.below(30.min(pages))
        } else {
            random.below(pages)
        };
        let directory = tempfile::tempdir().unwrap();
        let damaged = damage(&whole, page as usize * 4_096, &mut random);
        std::fs::write(directory.path().join(DATABASE), damaged).unwrap();
        let before = files(directory.path());
        match open_unsynced_in(directory.path()) {
            Err(OpenError::Corrupt { .. } | OpenError::Foreign { .. }) => {
                assert_eq!(files(directory.path()), before, "page {page}");
                refused_to_open += 1;
            }
            Err(other) => panic!("page {page}: {other:?}"),
            Ok(engine) => {
                let found = block_on(look_around(&engine, &keys));
                let is_covered = !uncovered.contains(&(page + 1));
                assert!(
                    found.is_err() || !is_covered,
                    "page {page} is damaged, and all seems well"
                );
                found_later += u32::from(found.is_err());
            }
        }
    }
    println!("{refused_to_open} refused, {found_later} found later");
}

#[test]
fn no_stored_value_makes_it_panic() {
    let (small, keys) = database(Files::Small);
    for (table, column, kind) in columns(small.path()) {
        for value in extremes(&kind) {
            survives(small.path(), &keys, &table, &column, value, "DESC");
        }
    }
}

#[test]
fn no_value_in_the_old_part_of_the_log_makes_it_panic() {
    // What is older than the newest 1,000 links is read without having been checked.
    let (large, keys) = database(Files::Closed);
    let columns = columns(large.path()).into_iter();
    for (table, column, kind) in columns.filter(|(table, ..)| table == "log") {
        for value in extremes(&kind) {
            survives(large.path(), &keys, &table, &column, value, "ASC");
        }
    }
}

/// Table, name and type of every column.
fn columns(directory: &Path) -> Vec<(String, String, String)> {
    let db = Connection::open(directory.join(DATABASE)).expect("it opens");
    db.prepare(
        "SELECT t.name, c.name, c.type FROM pragma_table_list t, pragma_table_info(t.name) c
         WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite_%'",
    )
    .and_then(|mut query| {
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    })
    .expect("SQLite knows its columns")
}

/// Values that nobody writes.
fn extremes(kind: &str) -> &'static [&'static str] {
    match kind {
        "INTEGER" => &["0", "-1", "9223372036854775807", "-9223372036854775807 - 1"],
        "TEXT" => &["''", "'{}'", "'\u{1f980}'"],
        _ => &["x''", "zeroblob(32)", "zeroblob(7)"],
    }
}

/// Puts a value into one row of a copy and looks at all of it.
fn survives(from: &Path, keys: &Keys, table: &str, column: &str, value: &str, order: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    copy_files(from, directory.path());
    let db = Connection::open(directory.path().join(DATABASE)).expect("it opens");
    // What the schema itself refuses need not be tried.
    let _ = db.execute(
        &format!(
            "UPDATE {table} SET {column} = {value} WHERE {column} =
                 (SELECT {column} FROM {table} WHERE {column} IS NOT NULL
                  ORDER BY {column} {order} LIMIT 1)"
        ),
        [],
    );
    drop(db);
    println!("{table}.{column} = {value}");
    // Whether it is found depends on the column; that it is survived does not.
    if let Ok(engine) = open_unsynced_in(directory.path()) {
        let _ = block_on(look_around(&engine, keys));
    }
}

/// Reads everything, and says whether anything is wrong.
async fn look_around(engine: &Engine, keys: &Keys) -> Result<(), Error> {
    let wrong = |what: String| Error::Storage(StorageError::Corrupt(what));
    let damage = engine.check_integrity(&Caller::process_owner()).await;
    let owner = keys.owner(engine).await?;
    let report = engine.audit_verify(&owner).await;
    let mut after = 0;
    loop {
        let page = engine
            .events(&owner, &Selector::all(), after, Some(200))
            .await?;
        if page.events.is_empty() {
            break;
        }
        after = page.after;
    }
    for no in [0, 7] {
        let agent = keys.agent(engine, no).await?;
        engine.inbox(&agent, Default::default()).await?;
        engine.conversations(&agent, Default::default()).await?;
        let team = format!("team-{}", no / 4);
        engine
            .channel_messages(&agent, &team, Default::default())
            .await?;
    }
    match (damage?, report?) {
        (damage, _) if !damage.is_empty() => Err(wrong(format!("{damage:?}"))),
        (_, report) if !report.is_intact() => Err(wrong(format!("{report:?}"))),
        _ => Ok(()),
    }
}

/// Pages with nothing on them but a part of a long value that the chain does not cover: SQLite's own
/// check looks at how pages hang together, not at values.
fn uncovered_pages(path: &Path) -> Vec<u64> {
    let db = Connection::open(path).expect("it opens");
    db.prepare("SELECT pageno FROM dbstat WHERE pagetype = 'overflow' AND name = 'idempotency'")
        .and_then(|mut query| query.query_map([], |row| row.get(0))?.collect())
        .expect("SQLite knows its pages")
}

/// Overwrites a page, or a part of one.
fn damage(whole: &[u8], at: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut content = whole.to_vec();
    let page = &mut content[at..at + 4_096];
    match random.below(3) {
        0 => page.fill(0),
        1 => page.fill_with(|| random.next() as u8),
        // The beginning says what kind of page it is and where its rows are.
        _ => page[..100].fill_with(|| random.next() as u8),
    }
    content
}
