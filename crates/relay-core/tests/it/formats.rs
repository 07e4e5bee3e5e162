//! Databases of every format there was, kept as files: they open, migrate, and have lost nothing.
//!
//! `tests/formats/N` holds a database of format N and what its writers were told. A new format comes with
//! the step in `migration.rs` and its own folder, which [`write_todays`] makes.

use std::path::{Path, PathBuf};

use relay_core::{Caller, Engine, Reach};
use relay_protocol::action::{InvokeAction, RegisterAction};
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::permission::{AskPermission, CreateRun, ResolvePermission};
use relay_protocol::session::Attach;
use relay_protocol::time::Timestamp;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::opening::block_on;
use crate::support::named;
use crate::survival::assert_sound_as_of;
use crate::writers::{Ack, DATABASE, Keys, Texts, fill, open_in, settle};

/// What is known of a kept database beside its content.
#[derive(Serialize, Deserialize)]
struct Kept {
    keys: Keys,
    acks: Vec<Ack>,
}

#[test]
fn every_format_migrates_with_a_backup_first_and_loses_nothing() {
    let (newest, todays_schema) = todays();
    for format in 1..=newest {
        let directory = tempfile::tempdir().unwrap();
        let kept = copy(format, directory.path());
        let was_new = last_entry(directory.path());
        let told = (&kept.keys, &*kept.acks);
        assert_sound_as_of(was_new, directory.path(), told, &format!("format {format}"));

        let database = Connection::open(directory.path().join(DATABASE)).unwrap();
        assert_eq!(format_of(&database), newest);
        assert_eq!(schema(&database), todays_schema, "format {format}");
        let backup = directory.path().join(format!("relay.db.format-{format}"));
        assert_eq!(backup.exists(), format < newest, "format {format}");
        if format < newest {
            let backup = Connection::open(backup).unwrap();
            assert_eq!(format_of(&backup), format);
        }
    }
}

/// `cargo test -p relay-core --test it formats::write_todays -- --ignored`, once for each new format.
#[test]
#[ignore = "makes the file for a new format"]
fn write_todays() {
    let folder = folder(todays().0);
    assert!(
        !folder.exists(),
        "a database that is kept is never written again"
    );
    std::fs::create_dir_all(&folder).unwrap();
    let made = tempfile::tempdir().unwrap();
    let engine = open_in(made.path()).unwrap();
    let kept = block_on(live(&engine));
    drop(engine);
    let database = Connection::open(made.path().join(DATABASE)).unwrap();
    let target = folder.join(DATABASE);
    database
        .execute("VACUUM INTO ?1", [target.to_str().unwrap()])
        .unwrap();
    // The copy is like the original, which has a write-ahead log.
    let copy = Connection::open(target).unwrap();
    copy.pragma_update(None, "journal_mode", "WAL").unwrap();
    let told = serde_json::to_string_pretty(&kept).unwrap();
    std::fs::write(folder.join("told.json"), told).unwrap();
}

/// Messages, edits, reactions, attachments, and deliveries that were read; a session; a call of an action;
/// permissions.
async fn live(engine: &Engine) -> Kept {
    let keys = settle(engine).await.unwrap();
    let acks = fill(engine, &keys, Texts::Short, 4).await.unwrap();
    let owner = keys.owner(engine).await.unwrap();
    attach(engine, &owner).await;
    call(engine, &owner, &keys).await;
    decide(engine, &owner).await;
    Kept { keys, acks }
}

/// A call of an action that nobody has answered.
async fn call(engine: &Engine, owner: &Caller, keys: &Keys) {
    let action = RegisterAction {
        name: "classify".to_owned(),
        description: None,
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        available_to: None,
        notify_caller: None,
        at_most_once: None,
        timeout_ms: None,
    };
    engine.register_action(owner, action).await.unwrap();
    let caller = keys.agent(engine, 2).await.unwrap();
    let input = InvokeAction::default();
    engine
        .invoke(&caller, "classify", input, None)
        .await
        .unwrap();
}

/// A run, a request that was allowed for good, and one that waits.
async fn decide(engine: &Engine, owner: &Caller) {
    let asks = engine.register_agent(owner, named("asks")).await.unwrap();
    let asks = engine.authenticate(&asks.token).await.unwrap();
    let run = engine.create_run(&asks, None, CreateRun::default()).await;
    for command in ["git status", "rm x"] {
        let params = json!({ "command": command });
        let ask = AskPermission {
            tool: "bash".to_owned(),
            params: params.as_object().unwrap().clone(),
            run_id: run.as_ref().ok().map(|run| run.run_id),
            ..AskPermission::default()
        };
        let asked = engine.ask_permission(&asks, None, ask).await.unwrap();
        if command == "git status" {
            let body = ResolvePermission::approve_always();
            let decided = engine.resolve_permission(owner, asked.permission_id, body);
            decided.await.unwrap();
        }
    }
}

async fn attach(engine: &Engine, owner: &Caller) {
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = vec![DeliveryMode::OnIdle];
    let body = Attach {
        agent: "agent-1".to_owned(),
        harness: "test".to_owned(),
        capabilities,
        safe_states: None,
        status: None,
        resume: None,
        keeps_messages: None,
        attempt: None,
    };
    engine.attach(owner, body, Reach::none()).await.unwrap();
}

/// When the last thing happened in a database.
fn last_entry(directory: &Path) -> Timestamp {
    let database = Connection::open(directory.join(DATABASE)).unwrap();
    let query = "SELECT max(at) FROM log";
    Timestamp::from_millis(database.query_row(query, [], |row| row.get(0)).unwrap())
}

fn folder(format: i64) -> PathBuf {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    formats.join(format.to_string())
}

fn copy(format: i64, to: &Path) -> Kept {
    let from = folder(format);
    std::fs::copy(from.join(DATABASE), to.join(DATABASE))
        .expect("a database of each format is kept: run formats::write_todays for a new one");
    let told = std::fs::read_to_string(from.join("told.json")).unwrap();
    serde_json::from_str(&told).unwrap()
}

/// Format and schema of a database that is made now.
fn todays() -> (i64, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    drop(open_in(directory.path()).unwrap());
    let database = Connection::open(directory.path().join(DATABASE)).unwrap();
    (format_of(&database), schema(&database))
}

fn format_of(database: &Connection) -> i64 {
    let found = database.pragma_query_value(None, "user_version", |row| row.get(0));
    found.unwrap()
}

/// Every table's columns and every index, without the accidents of how they were written down.
fn schema(database: &Connection) -> Vec<String> {
    let query = "SELECT s.type || ' ' || s.name || ' of ' || s.tbl_name || ': ' ||
            coalesce((SELECT group_concat(c.name || ' ' || c.type || ' ' || c.\"notnull\" || c.pk, ', ')
                      FROM pragma_table_xinfo(s.name) c), '') || ' ' ||
            coalesce((SELECT group_concat(coalesce(c.name, 'expression') || c.desc, ', ')
                      FROM pragma_index_xinfo(s.name) c), '')
         FROM sqlite_schema s WHERE s.type IN ('table', 'index') ORDER BY 1";
    let mut statement = database.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}
