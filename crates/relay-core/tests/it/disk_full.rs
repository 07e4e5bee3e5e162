//! A disk that is full, or fails, for a while: senders are told, readers go on, nothing acknowledged
//! is lost, and the same store works again once the disk does.

use std::ops::ControlFlow;
use std::sync::Arc;

use relay_core::Engine;
use relay_core::error::{Error, StorageError};
use relay_core::store::sqlite::SqliteOptions;
use relay_protocol::api::messages::{SendMessage, SendTarget};
use relay_protocol::selector::Selector;

use crate::depth::{rounds, seed};
use crate::survival::{assert_sound, settled};
use crate::vfs::{Failure, FaultVfs, SplitMix64, Survivors};
use crate::writers::{Ack, DATABASE, Keys, Texts, Told, open, write};

/// The most acknowledgements before the disk fails.
const LATEST_FAILURE: u64 = 150;

#[test]
fn a_full_disk_is_survived_without_opening_again() {
    survive(Failure::DiskFull, |error| {
        matches!(error, StorageError::Full | StorageError::Unavailable(_))
    });
}

#[test]
fn a_failing_disk_is_survived_without_opening_again() {
    survive(Failure::Io, |error| {
        matches!(error, StorageError::Unavailable(_))
    });
}

fn survive(failure: Failure, is_expected: fn(&StorageError) -> bool) {
    let mut random = SplitMix64::new(seed());
    let directory = tempfile::tempdir().expect("a directory");
    let keys = settled(directory.path());
    let vfs = Arc::new(FaultVfs::register());
    let engine = open(&SqliteOptions {
        vfs: Some(vfs.name().to_owned()),
        ..SqliteOptions::new(directory.path().join(DATABASE))
    });
    let engine = Arc::new(engine.expect("it opens"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut acks = Vec::new();
    for round in 0..rounds(6) {
        let told = Told::default();
        let failures = runtime.block_on(write(
            engine.clone(),
            &keys,
            Texts::Long,
            random.next(),
            fail_after(random.below(LATEST_FAILURE), &told, &vfs, failure),
        ));
        acks.extend(told.all());
        assert!(!failures.is_empty(), "round {round}: nobody was told");
        failures.iter().for_each(|error| check(error, is_expected));
        runtime.block_on(check_reads_go_on(&engine, &keys, &acks));
        runtime.block_on(check_sends_fail(&engine, &keys, is_expected));
        vfs.heal();
    }
    runtime.block_on(check_sends_work(&engine, &keys));
    drop(engine);
    assert_sound(directory.path(), &keys, &acks, "the files");
    let synced = tempfile::tempdir().expect("a directory");
    vfs.write_survivors(synced.path(), Survivors::SyncedOnly)
        .expect("survivors are written");
    assert_sound(synced.path(), &keys, &acks, "what was synced");
}

/// Keeps acknowledgements, and lets the disk fail after some.
fn fail_after(
    acks: u64,
    told: &Told,
    vfs: &Arc<FaultVfs>,
    failure: Failure,
) -> impl Fn(Ack) -> ControlFlow<()> + Clone + Send + 'static {
    let (told, vfs) = (told.clone(), vfs.clone());
    move |ack| {
        if told.push(ack) as u64 > acks {
            vfs.fail_from_now_on(failure);
        }
        ControlFlow::Continue(())
    }
}

fn check(error: &Error, is_expected: fn(&StorageError) -> bool) {
    let Error::Storage(storage) = error else {
        panic!("a failing disk is the store's matter, but: {error:?}");
    };
    assert!(is_expected(storage), "{error:?}");
    assert!(error.problem().retryable, "{error:?}");
}

async fn check_reads_go_on(engine: &Engine, keys: &Keys, acks: &[Ack]) {
    let owner = keys.owner(engine).await.expect("reads go on");
    for ack in acks {
        let (Ack::Sent { id, .. }
        | Ack::Edited { id, .. }
        | Ack::Reacted { id, .. }
        | Ack::Read { id, .. }) = ack;
        engine.message(&owner, *id).await.expect("reads go on");
    }
    let head = engine.audit_head(&owner).await.expect("reads go on").seq;
    let everything = Selector::all();
    let events = engine.events(&owner, &everything, head - 1, None);
    assert_eq!(events.await.expect("reads go on").events.len(), 1);
    let report = engine.audit_verify(&owner).await.expect("reads go on");
    assert!(report.is_intact(), "{report:?}");
}

async fn check_sends_fail(engine: &Engine, keys: &Keys, is_expected: fn(&StorageError) -> bool) {
    let caller = keys.agent(engine, 1).await.expect("reads go on");
    for _ in 0..3 {
        let sent = engine.send(&caller, hello()).await;
        check(&sent.expect_err("the disk fails"), is_expected);
    }
}

async fn check_sends_work(engine: &Engine, keys: &Keys) {
    let caller = keys.agent(engine, 1).await.expect("a caller");
    let sent = engine.send(&caller, hello()).await.expect("there is room");
    let found = engine.message(&caller, sent.message_id).await;
    assert_eq!(found.expect("it is stored").message, *sent.message);
}

fn hello() -> SendMessage {
    SendMessage::text(SendTarget::Agent("agent-2".to_owned()), "hello")
}
