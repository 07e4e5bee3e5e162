//! What the observer of commits learns: everything that was committed, once, in order, before anybody
//! else; and nothing that was not.

use std::sync::{Arc, Mutex};

use relay_core::Caller;
use relay_core::delivery::apply::{Recall, Step};
use relay_core::store::sqlite::{SqliteStore, Synchronous};
use relay_core::store::{News, Observer, ReportKind, SessionTurn, Store as _};
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::DeliveryState;
use relay_protocol::status::AgentStatus;

use crate::backstage::{accepted, delivered, status};
use crate::support::{SqliteWorld, target};

/// Writes down in short what it learns.
struct Notebook {
    lines: Mutex<Vec<String>>,
    /// The last announced sequence number, looked at while learning.
    announced: tokio::sync::watch::Receiver<u64>,
    announced_then: Mutex<Vec<u64>>,
}

impl Notebook {
    fn open(store: &SqliteStore, workspace_no: u32) -> Arc<Self> {
        let notebook = Arc::new(Self {
            lines: Mutex::default(),
            announced: store.live().topic(workspace_no).watch(),
            announced_then: Mutex::default(),
        });
        store.live().observe(notebook.clone());
        notebook
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

impl Observer for Notebook {
    fn learn(&self, news: Vec<News>) {
        let announced = *self.announced.borrow();
        self.announced_then.lock().unwrap().push(announced);
        let mut lines = self.lines.lock().unwrap();
        lines.extend(news.iter().map(line));
    }
}

fn line(news: &News) -> String {
    match news {
        News::Sent(record) => {
            let rows: Vec<_> = record.rows().map(|row| row.state.as_str()).collect();
            format!("sent {:?}: {}", record.text, rows.join(" "))
        }
        News::Moved(moved) => {
            let settles = moved
                .settles
                .map_or(String::new(), |no| format!(", settles {no}"));
            format!("moved to {}{settles}", moved.row.state)
        }
        News::Session(row) => format!("session {}, acked {}", row.status, row.acked),
        News::Edited(_) => "edited".to_owned(),
        News::Workspace(row) => format!("workspace {:?}", row.name),
        News::AgentReleased(_) => "agent released".to_owned(),
        News::Credential(end) => match end.valid_until {
            Some(_) => "credential ends later".to_owned(),
            None => "credential ended".to_owned(),
        },
        News::Action(row) => format!("action {}", row.body.name),
        News::ActionRemoved(_) => "action removed".to_owned(),
        News::Invoked(row) => format!("{} invoked", row.name),
        News::InvocationEnded(_) => "invocation ended".to_owned(),
        News::PermissionAsked(..) => "permission asked".to_owned(),
        News::PermissionEnded(_) => "permission ended".to_owned(),
        News::NoticesOver(rows) => format!("{} notices over", rows.len()),
    }
}

async fn scene() -> (SqliteWorld, [Caller; 2], Arc<Notebook>) {
    let world = SqliteWorld::with(|options| options.synchronous = Synchronous::Off).await;
    let agents = world.agents(["alice", "bob"]).await;
    let notebook = Notebook::open(&world.sqlite, world.behind().workspace_no);
    (world, agents, notebook)
}

#[tokio::test]
async fn every_change_is_told_in_order() {
    let (world, [alice, bob], notebook) = scene().await;
    let behind = world.behind();
    let session = behind.attach("bob", 1).await;
    let sent = world.send(&alice, "@bob", "one").await;
    let id = sent.deliveries[0].delivery_id;
    behind.answer(&session, id, 7, accepted(id)).await.unwrap();
    let reports = vec![status(AgentStatus::Active)];
    behind.report(&session, 1, reports).await.unwrap();
    behind.turn(&session, SessionTurn::Failed).await.unwrap();
    let edit = world
        .engine
        .edit_message(&alice, sent.message_id, "two".to_owned());
    edit.await.unwrap();
    world.engine.mark_read(&bob, sent.message_id).await.unwrap();
    let rename = world.engine.rename_workspace(&world.key, "other");
    rename.await.unwrap();
    let release = world.engine.release_agent(&world.key, "bob", None);
    release.await.unwrap();
    let expected = [
        "session idle, acked 0",
        "sent \"one\": pending",
        "moved to accepted, settles 7",
        "session active, acked 1",
        "session failed, acked 1",
        "moved to pending",
        "edited",
        "moved to delivered",
        "workspace \"other\"",
        "credential ended",
        "agent released",
    ];
    assert_eq!(notebook.lines(), expected);
}

#[tokio::test]
async fn what_is_refused_half_way_is_not_told_and_the_rest_once() {
    let (world, [alice, _], notebook) = scene().await;
    let behind = world.behind();
    let session = behind.attach("bob", 1).await;
    let sent = world.send(&alice, "@bob", "one").await;
    let id = sent.deliveries[0].delivery_id;
    let row = behind.row(id).await;
    notebook.lines();
    for number in 0..20 {
        let receipt = ReportKind::Receipt {
            delivery: id,
            offer: Some(behind.offer(&session, &row, 1)),
            receipt: delivered(id),
        };
        // The receipt is applied before the status turns out to be illegal.
        let reports = vec![receipt, status(AgentStatus::Starting)];
        let body = |text: String| SendMessage::text(target("@bob"), text);
        // All three are asked for before any of them is waited for.
        let (left, bad, right) = tokio::join!(
            world.engine.send(&alice, body(format!("left {number}"))),
            behind.report(&session, 1, reports),
            world.engine.send(&alice, body(format!("right {number}"))),
        );
        left.unwrap();
        bad.unwrap_err();
        right.unwrap();
        let lines = notebook.lines();
        let about = |side: &str| format!("sent \"{side} {number}\": ");
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, side) in lines.iter().zip(["left", "right"]) {
            assert!(line.starts_with(&about(side)), "{lines:?}");
        }
    }
    assert_eq!(behind.row(id).await.state, DeliveryState::Pending);
    assert_eq!(world.sqlite.check_indexes().await, Ok(Vec::new()));
}

#[tokio::test]
async fn the_observer_learns_before_anybody_else() {
    let (world, [alice, _], notebook) = scene().await;
    let behind = world.behind();
    let sent = world.send(&alice, "@bob", "one").await;
    let position = behind.row(sent.deliveries[0].delivery_id).await.position;
    let head = world.head().await.seq;
    let seen = notebook.announced_then.lock().unwrap().last().copied();
    assert!(seen < Some(head), "{seen:?}");
    assert_eq!(*notebook.announced.borrow(), head);

    let (told, hears) = std::sync::mpsc::channel();
    let at_reply = notebook.clone();
    notebook.lines();
    let advance = behind.advance(
        position,
        Step::AgentReleased {
            recall: Recall::NotNeeded,
        },
    );
    behind.store.advance(advance).then(move |result| {
        told.send((result.is_ok(), at_reply.lines())).unwrap();
    });
    assert_eq!(
        hears.recv().unwrap(),
        (true, vec!["moved to failed".to_owned()])
    );
}
