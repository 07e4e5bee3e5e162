//! Changes made past the engine: the chain says which events are not what was written.
//!
//! The store is open meanwhile, as for anybody who can write to its file. What the chain alone can't
//! show, a head that was kept elsewhere does.

use relay_core::error::{Error, StorageError};
use relay_core::store::{AuditReport, ChainHead};
use relay_core::{Caller, Engine};
use relay_protocol::selector::Selector;
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::survival::settled;
use crate::writers::{DATABASE, Keys, Texts, fill, open_unsynced_in};

/// Picks the position of a log row in the midst of the log.
const A_SEND: &str = "SELECT l.position FROM log l JOIN messages m ON m.position = l.position
     WHERE m.version = 1 AND m.recipients > 1 LIMIT 1 OFFSET 5";
const AN_EDITED_SEND: &str =
    "SELECT l.position FROM log l JOIN messages m ON m.position = l.position
     WHERE m.version > 1 LIMIT 1";
const AN_EDIT: &str = "SELECT position FROM log WHERE content = 2 LIMIT 1";
const AN_OLD_EDIT: &str =
    "SELECT l.position FROM log l JOIN message_versions v ON v.position = l.position
     WHERE l.content = 2 LIMIT 1";
const AN_EVENT: &str = "SELECT position FROM log WHERE type = 'message.reacted' LIMIT 1 OFFSET 1";

#[test]
fn changed_content_is_reported_at_its_event() {
    let changes = [
        (
            A_SEND,
            "UPDATE messages SET text = text || '!' WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET extra = '{}' WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET author = author % 16 + 1 WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET author_name = 'relay' WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET room = room % 4 + 1 WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET parent = coalesce(parent, 0) + 1 WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET recipients = recipients - 1 WHERE position = ?1",
        ),
        (
            A_SEND,
            "UPDATE messages SET at = at + 1 WHERE position = ?1",
        ),
        (A_SEND, "DELETE FROM messages WHERE position = ?1"),
        (
            A_SEND,
            "UPDATE deliveries SET agent = agent % 16 + 1 WHERE message = ?1",
        ),
        (
            A_SEND,
            "UPDATE deliveries SET message = message + 1 WHERE message = ?1",
        ),
        (
            A_SEND,
            "UPDATE deliveries SET position = -position WHERE message = ?1",
        ),
        (A_SEND, "DELETE FROM deliveries WHERE message = ?1"),
        (
            AN_EDITED_SEND,
            "UPDATE message_versions SET text = '' WHERE position = ?1",
        ),
        (
            AN_EDITED_SEND,
            "DELETE FROM message_versions WHERE position = ?1",
        ),
        (
            AN_EDIT,
            "UPDATE log SET message = message + 1 WHERE position = ?1",
        ),
        (
            AN_OLD_EDIT,
            "UPDATE message_versions SET text = '' WHERE position = ?1",
        ),
        (
            AN_EVENT,
            "UPDATE log SET payload = replace(payload, 'agent-', 'agent_') WHERE position = ?1",
        ),
        (
            AN_EVENT,
            "UPDATE log SET payload = NULL WHERE position = ?1",
        ),
        (AN_EVENT, "UPDATE log SET salt = NULL WHERE position = ?1"),
        (AN_EVENT, "UPDATE log SET message = 1 WHERE position = ?1"),
        (AN_EVENT, "UPDATE log SET content = 7 WHERE position = ?1"),
        (
            AN_EVENT,
            "UPDATE log SET digest = zeroblob(32) WHERE position = ?1",
        ),
        (
            AN_EVENT,
            "UPDATE log SET type = 'message.read' WHERE position = ?1",
        ),
        (AN_EVENT, "UPDATE log SET at = at - 1 WHERE position = ?1"),
    ];
    let mut wrong = Vec::new();
    for (pick, change) in changes {
        let town = Town::new();
        let position = town.position(pick);
        assert!(town.change(change, position) > 0, "{change}");
        let AuditReport {
            changed, missing, ..
        } = town.verify();
        if changed != [seq(position)] || !missing.is_empty() {
            wrong.push((change, seq(position), changed, missing));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_edited_message_that_is_gone_is_reported_with_all_its_versions() {
    let town = Town::new();
    let position = town.position(AN_EDITED_SEND);
    let mut expected: Vec<u64> = town.seqs(
        "SELECT position FROM log WHERE position = ?1 OR (content = 2 AND message = ?1)",
        position,
    );
    let old = town.seqs(
        "SELECT position FROM message_versions WHERE message = ?1",
        position,
    );
    assert_eq!(
        town.change("DELETE FROM messages WHERE position = ?1", position),
        1
    );
    // The texts of older edits are still there.
    expected.retain(|seq| *seq == self::seq(position) || !old.contains(seq));
    assert_eq!(town.verify().changed, expected);
}

#[test]
fn a_changed_hash_breaks_the_links_on_both_sides() {
    let town = Town::new();
    let position = town.position(AN_EVENT);
    town.change(
        "UPDATE log SET hash = zeroblob(32) WHERE position = ?1",
        position,
    );
    let (first, next) = (seq(position), seq(position) + 1);
    assert_eq!(town.verify().changed, [first, next]);
}

#[test]
fn a_value_of_the_wrong_form_is_damage_and_not_a_reason_to_try_again() {
    for change in [
        "UPDATE log SET hash = x'00' WHERE position = ?1",
        "UPDATE log SET count = -1 WHERE position = ?1",
        "UPDATE log SET payload = CAST(x'ff' AS TEXT) WHERE position = ?1",
    ] {
        let town = Town::new();
        town.change(change, town.position(AN_EVENT));
        let verdict = town.block_on(town.engine.audit_verify(&town.owner()));
        let is_damage = matches!(&verdict, Err(Error::Storage(StorageError::Corrupt(_))));
        assert!(is_damage, "{change}: {verdict:?}");
    }
}

#[test]
fn a_missing_row_is_reported_with_all_its_events() {
    let town = Town::new();
    let position = town.position(A_SEND);
    let count = town.count(position);
    town.change("DELETE FROM log WHERE position = ?1", position);
    let report = town.verify();
    let first = seq(position);
    assert_eq!(report.missing, [(first, first + count - 1)]);
    assert!(report.changed.is_empty(), "{report:?}");
}

#[test]
fn a_missing_beginning_is_reported() {
    let town = Town::new();
    let position = town.position("SELECT position FROM log LIMIT 1 OFFSET 3");
    town.change("DELETE FROM log WHERE position < ?1", position);
    let report = town.verify();
    assert_eq!(report.missing, [(1, seq(position) - 1)]);
    assert!(report.changed.is_empty(), "{report:?}");
}

#[test]
fn a_missing_end_is_shown_by_a_head_that_was_kept_elsewhere() {
    let town = Town::new();
    let anchor = town.head();
    let position = town.position("SELECT max(position) FROM log");
    town.change("DELETE FROM log WHERE position = ?1", position);
    assert!(town.verify().is_intact(), "nothing points to the end");
    let head = town.head();
    assert!(head.seq < anchor.seq && head.hash != anchor.hash);
}

#[test]
fn rows_in_another_order_are_reported() {
    let town = Town::new();
    let first = town.position(
        "SELECT l.position FROM log l JOIN log n ON n.position = l.position + 1
                               WHERE l.count = 1 AND n.count = 1 LIMIT 1",
    );
    for change in [
        "UPDATE log SET position = -1 WHERE position = ?1",
        "UPDATE log SET position = ?1 WHERE position = ?1 + 1",
        "UPDATE log SET position = ?1 + 1 WHERE position = -1",
    ] {
        assert_eq!(town.change(change, first), 1);
    }
    let first = seq(first);
    assert_eq!(town.verify().changed, [first, first + 1, first + 2]);
}

#[test]
fn what_was_erased_is_counted_and_the_rest_still_verifies() {
    let town = Town::new();
    let rows = [A_SEND, AN_EDITED_SEND, AN_EDIT, AN_EVENT].map(|pick| town.position(pick));
    let seqs = rows.map(seq).to_vec();
    let owner = town.owner();
    let erased = town.block_on(town.engine.audit_erase(&owner, seqs.clone(), "a secret"));
    assert_eq!(erased.unwrap(), 4);
    let again = town.block_on(town.engine.audit_erase(&owner, seqs.clone(), "again"));
    assert_eq!(again.unwrap(), 0);
    let report = town.verify();
    assert!(report.is_intact() && report.erased == 4, "{report:?}");
    for seq in seqs {
        let all = Selector::all();
        let page = town.block_on(town.engine.events(&owner, &all, seq - 1, Some(1)));
        assert_eq!(page.unwrap().events[0].event.event, None);
    }
    let [event, ..] = rows;
    town.change(
        "UPDATE log SET digest = zeroblob(32) WHERE position = ?1",
        event,
    );
    assert_eq!(town.verify().changed, [seq(event)]);
}

/// An open store, and a second way into its file.
struct Town {
    engine: Engine,
    keys: Keys,
    past: Connection,
    runtime: tokio::runtime::Runtime,
    _directory: TempDir,
}

impl Town {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = settled(directory.path());
        let engine = open_unsynced_in(directory.path()).expect("it opens");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let filled = runtime.block_on(fill(&engine, &keys, Texts::Short, 12));
        filled.expect("nothing fails");
        let past = Connection::open(directory.path().join(DATABASE)).expect("it opens");
        let town = Self {
            engine,
            keys,
            past,
            runtime,
            _directory: directory,
        };
        assert!(town.verify().is_intact());
        town
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn owner(&self) -> Caller {
        let owner = self.block_on(self.keys.owner(&self.engine));
        owner.expect("the workspace is there")
    }

    fn verify(&self) -> AuditReport {
        let report = self.block_on(self.engine.audit_verify(&self.owner()));
        report.expect("a report, whatever was changed")
    }

    fn head(&self) -> ChainHead {
        let head = self.block_on(self.engine.audit_head(&self.owner()));
        head.expect("a head")
    }

    fn position(&self, pick: &str) -> i64 {
        let found = self.past.query_row(pick, [], |row| row.get(0));
        found.unwrap_or_else(|error| panic!("{pick}: {error}"))
    }

    fn seqs(&self, pick: &str, position: i64) -> Vec<u64> {
        self.past
            .prepare(pick)
            .and_then(|mut query| query.query_map([position], |row| row.get(0))?.collect())
            .map(|found: Vec<i64>| found.into_iter().map(seq).collect())
            .expect("a query")
    }

    fn count(&self, position: i64) -> u64 {
        let query = "SELECT count FROM log WHERE position = ?1";
        let found = self.past.query_row(query, [position], |row| row.get(0));
        found.expect("a row")
    }

    fn change(&self, sql: &str, position: i64) -> usize {
        let changed = self.past.execute(sql, params![position]);
        changed.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }
}

/// The sequence number in a position.
fn seq(position: i64) -> u64 {
    relay_core::store::position::Position::from_key(position).seq()
}
