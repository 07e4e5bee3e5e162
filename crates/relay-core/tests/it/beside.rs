//! Reading a database beside the one who writes it: the same truth, and not a byte changed.

use std::path::Path;

use relay_core::KeepSince;
use relay_core::environment::Clock as _;
use relay_core::error::Error;
use relay_core::store::sqlite::{Beside, OpenError};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::time::Timestamp;
use rusqlite::Connection;

use crate::support::SqliteWorld;

#[tokio::test]
async fn it_sees_what_was_committed_while_the_writer_goes_on() {
    let world = SqliteWorld::new().await;
    let [alice, _] = world.agents(["alice", "bob"]).await;
    let beside = Beside::open(&world.path()).unwrap();
    let before = world.head().await;
    assert_eq!(beside.head(world.workspace_id).unwrap(), before);
    world.send(&alice, "@bob", "one").await;
    let after = world.head().await;
    assert_eq!(beside.head(world.workspace_id).unwrap(), after);
    let report = world.engine.audit_verify(&world.key).await.unwrap();
    assert_eq!(beside.verify(world.workspace_id).unwrap(), report);
    // An end of before is known; the midst of a change is none.
    let at = |seq| beside.head_at(world.workspace_id, seq).unwrap();
    assert_eq!(at(before.seq), Some(before.clone()));
    assert_eq!(at(before.seq + 1), None);
    assert_eq!(at(after.seq + 1), None);
    let nobody = WorkspaceId::new(Timestamp::from_millis(0), 7);
    let unknown = beside.verify(nobody).unwrap_err();
    assert!(matches!(unknown, Error::UnknownWorkspace(_)), "{unknown:?}");
}

#[tokio::test]
async fn a_copy_is_a_database_of_its_own() {
    let world = SqliteWorld::new().await;
    let [alice, _] = world.agents(["alice", "bob"]).await;
    world.send(&alice, "@bob", "one").await;
    let head = world.head().await;
    let to = world.directory().join("copy.db");
    let beside = Beside::open(&world.path()).unwrap();
    beside.backup(&to).unwrap();
    world.send(&alice, "@bob", "two").await;
    let copy = Beside::open(&to).unwrap();
    assert_eq!(copy.head(world.workspace_id).unwrap(), head);
    assert!(copy.verify(world.workspace_id).unwrap().is_intact());
    beside.backup(&to).unwrap_err();
}

#[tokio::test]
async fn what_was_cut_off_is_known_by_its_last_end_only() {
    let world = SqliteWorld::new().await;
    let [alice, _] = world.agents(["alice", "bob"]).await;
    let first = world.head().await;
    world.send(&alice, "@bob", "one").await;
    let cut = world.head().await;
    world.clock.advance(1_000);
    let since = world.clock.now();
    world.send(&alice, "@bob", "two").await;
    let keep = KeepSince {
        bulky: None,
        all: Some(since),
    };
    world.engine.retain(&world.key, keep).await.unwrap();
    let beside = Beside::open(&world.path()).unwrap();
    assert_eq!(
        beside.head_at(world.workspace_id, cut.seq).unwrap(),
        Some(cut)
    );
    assert_eq!(beside.head_at(world.workspace_id, first.seq).unwrap(), None);
    assert!(beside.verify(world.workspace_id).unwrap().is_intact());
}

#[tokio::test]
async fn looking_changes_nothing() {
    let world = SqliteWorld::new().await;
    world.agents(["alice"]).await;
    let workspace = world.workspace_id;
    world
        .reopened(|path| {
            let before = std::fs::read(path).unwrap();
            let beside = Beside::open(path).unwrap();
            assert!(beside.verify(workspace).unwrap().is_intact());
            drop(beside);
            assert_eq!(std::fs::read(path).unwrap(), before);
        })
        .await;
}

#[test]
fn what_is_no_database_of_ours_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let opened = |path: &Path| Beside::open(path).map(drop).unwrap_err();
    let missing = directory.path().join("missing.db");
    opened(&missing);
    assert!(!missing.exists());
    let empty = directory.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    assert!(matches!(opened(&empty), OpenError::Foreign { .. }));
    let foreign = directory.path().join("foreign.db");
    let connection = Connection::open(&foreign).unwrap();
    connection.execute_batch("CREATE TABLE mine (id)").unwrap();
    drop(connection);
    assert!(matches!(opened(&foreign), OpenError::Foreign { .. }));
}
