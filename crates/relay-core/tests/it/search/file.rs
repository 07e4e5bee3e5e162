//! The index's file: deleted, damaged, out of date, or not there at all.

use std::path::Path;
use std::time::{Duration, Instant};

use relay_core::error::{Error, StorageError};
use relay_core::store::{Erasure, Store as _};
use rusqlite::Connection;

use super::world::{World, index_of, words};
use crate::vfs::FaultVfs;

#[test]
fn erased_texts_are_gone_from_the_index_and_its_file() {
    let mut world = World::new();
    let (ada, _bob) = (world.agent("ada"), world.agent("bob"));
    world.say(ada, "general", "this stays");
    let sent = world.say(ada, "general", "password goes");
    let edited = world.say(ada, "general", "secret goes");
    assert_eq!(world.texts("goes").len(), 2);
    world.edit(ada, &edited, "harmless");
    assert_eq!(world.texts("goes").len(), 1);
    world.closed(|path| {
        assert_eq!(blocks_with(path, "password"), 1);
        assert_eq!(blocks_with(path, "secret"), 1);
    });
    let erasure = Erasure {
        workspace_no: world.workspace_no(),
        // The first by the number of its delivery, the other by that of its first version.
        seqs: vec![sent.position.seq() + 1, edited.position.seq()],
        reason: "asked for".to_owned(),
        at: world.now(),
    };
    assert_eq!(world.store().erase(erasure).wait(), Ok(2));
    assert!(world.texts("goes").is_empty());
    assert!(world.texts("erased").is_empty());
    assert_eq!(world.texts("harmless"), ["harmless"]);
    world.closed(|path| {
        assert_eq!(blocks_with(path, "password"), 0);
        assert_eq!(blocks_with(path, "secret"), 0);
        assert_eq!(blocks_with(path, "stays"), 1);
    });
    world.without_index();
    assert!(world.texts("erased").is_empty());
    assert_eq!(world.texts("stays"), ["this stays"]);
}

/// How many blocks of the index's file hold these bytes.
fn blocks_with(database: &Path, bytes: &str) -> i64 {
    Connection::open(index_of(database))
        .unwrap()
        .query_row(
            "SELECT count(*) FROM words_data WHERE instr(block, CAST(?1 AS BLOB))",
            [bytes],
            |row| row.get(0),
        )
        .unwrap()
}

#[test]
fn a_deleted_index_is_made_anew() {
    let mut world = World::new();
    let ada = world.agent("ada");
    for n in 0..1_200 {
        world.say(ada, "general", &format!("note {n}"));
    }
    assert!(world.cut_log() > 1_200);
    assert_eq!(world.texts("note 1199"), ["note 1199"]);
    world.without_index();
    assert_eq!(world.texts("note 0"), ["note 0"]);
    assert_eq!(world.texts("note 1199"), ["note 1199"]);
    world.say(ada, "general", "note after");
    assert_eq!(world.texts("after"), ["note after"]);
}

#[test]
fn what_is_cut_off_the_log_before_it_was_indexed_is_found() {
    let world = World::new();
    let ada = world.agent("ada");
    world.say(ada, "general", "first");
    assert_eq!(world.texts("first"), ["first"]);
    world.say(ada, "general", "second");
    assert!(world.cut_log() > 0);
    assert_eq!(world.texts("second"), ["second"]);
    world.say(ada, "general", "third");
    assert_eq!(world.texts("third"), ["third"]);
    assert_eq!(world.texts("first"), ["first"]);
}

#[test]
fn an_older_copy_of_the_database_gets_a_new_index() {
    let mut world = World::new();
    let ada = world.agent("ada");
    world.say(ada, "general", "before the copy");
    let copy = world.path().with_extension("copy");
    world.store().backup(&copy).wait().unwrap();
    world.say(ada, "general", "lost word");
    assert_eq!(world.texts("word"), ["lost word"]);
    world.closed(|path| {
        for suffix in ["-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
        std::fs::copy(&copy, path).unwrap();
    });
    world.say(ada, "general", "other text");
    assert!(world.texts("word").is_empty());
    assert_eq!(world.texts("before"), ["before the copy"]);
    assert_eq!(world.texts("other"), ["other text"]);
}

#[test]
fn damage_is_repaired() {
    let mut world = World::new();
    let ada = world.agent("ada");
    world.say(ada, "general", "still here");
    assert_eq!(world.texts("here").len(), 1);
    world.closed(|path| std::fs::write(index_of(path), "no database").unwrap());
    assert_eq!(world.texts("here").len(), 1);
    world.closed(|path| {
        let index = Connection::open(index_of(path)).unwrap();
        index.pragma_update(None, "user_version", 99).unwrap();
    });
    assert_eq!(world.texts("here").len(), 1);
    world.closed(|path| {
        let index = Connection::open(index_of(path)).unwrap();
        let change = "UPDATE words_data SET block = x'ffffffffff' WHERE id > 1";
        assert!(index.execute(change, []).unwrap() > 0);
    });
    assert_eq!(world.texts("here").len(), 1);
}

#[test]
fn without_a_file_only_searching_fails() {
    let mut world = World::new();
    let ada = world.agent("ada");
    world.closed(|path| {
        let _ = std::fs::remove_file(index_of(path));
        std::fs::create_dir(index_of(path)).unwrap();
    });
    world.say(ada, "general", "said all the same");
    let failed = world.find(words("said")).unwrap_err();
    assert!(
        matches!(&failed, Error::Storage(StorageError::Unavailable(why)) if why.contains("search index")),
        "{failed}"
    );
    std::fs::remove_dir(index_of(world.path())).unwrap();
    assert_eq!(world.texts("said"), ["said all the same"]);
}

#[test]
fn the_thread_indexes_by_itself() {
    let world = World::new();
    let ada = world.agent("ada");
    world.say(ada, "general", "nobody looks for this");
    let head = world.store().head(world.workspace_no()).wait().unwrap().seq;
    let deadline = Instant::now() + Duration::from_secs(300);
    while world.indexed_to() != Some(head) {
        assert!(
            Instant::now() < deadline,
            "not indexed: {:?}",
            world.indexed_to()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_database_on_another_vfs_has_its_index_in_memory() {
    let vfs = FaultVfs::register();
    let mut world = World::on(Some(vfs.name().to_owned()));
    let ada = world.agent("ada");
    world.say(ada, "general", "kept in memory");
    assert_eq!(world.texts("memory"), ["kept in memory"]);
    world.closed(|path| assert!(!index_of(path).exists()));
    assert_eq!(world.texts("memory"), ["kept in memory"]);
}
