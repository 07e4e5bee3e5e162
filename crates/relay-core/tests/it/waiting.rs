//! What waits, found through the indexes, is what a look at all deliveries finds: while they are made,
//! moved and finished at random, before and after they are entered, and after restarts.

use std::sync::Arc;

use relay_core::delivery::apply::Step;
use relay_core::delivery::decide::SessionView;
use relay_core::delivery::lane::{Lane, LaneSet};
use relay_core::delivery::reading::hold_for_reader;
use relay_core::delivery::shelf::Wanted;
use relay_core::store::{
    DeliveryFilter, DeliveryRow, FlushRequest, PageRequest, Position, SessionRow, SessionTurn,
    WaitingQuery,
};
use relay_core::{Caller, PageQuery};
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, Priority};
use relay_protocol::message::RelayMessage;
use relay_protocol::policy::{Policy, PolicyPatch};
use relay_protocol::session::SessionSummary;
use relay_protocol::time::Timestamp;
use rusqlite::Connection;

use crate::backstage::{Backstage, accepted, deferred, delivered, failed};
use crate::support::{START, SqliteWorld, target, together};
use crate::vfs::SplitMix64;

/// How many agents get a post.
const RECEIVERS: usize = 24;

/// Posts at the beginning: what waits then is entered into the tables.
const POSTS: usize = 100;

#[tokio::test]
async fn the_indexes_find_what_a_look_at_everything_finds() {
    let mut scene = Scene::new(11).await;
    scene.send(POSTS, &["#general"]).await;
    for round in 1..=12 {
        scene.send(10, &["#general", "@agent-3", "@agent-7"]).await;
        let rows = scene.everything().await;
        for _ in 0..80 {
            scene.something_happens(&rows).await;
        }
        scene.check().await;
        if round % 4 == 0 {
            scene = scene.restarted().await;
            scene.check().await;
        }
        scene.world.clock.advance(20_000);
    }
    let (entered, fresh) = scene.entered_and_newer().await;
    assert!(entered > 500 && fresh > 100, "{entered} and {fresh}");
}

/// A world in which much waits.
struct Scene {
    world: SqliteWorld,
    behind: Backstage,
    random: SplitMix64,
    sender: Caller,
    receivers: Vec<Caller>,
    sessions: Vec<Arc<SessionRow>>,
    attached: u8,
}

impl Scene {
    async fn new(seed: u64) -> Self {
        let world = unsynced().await;
        world.lift_pace().await;
        let sender = world.agent("sender").await;
        let mut receivers = Vec::new();
        for number in 0..RECEIVERS {
            receivers.push(world.agent(&format!("agent-{number}")).await);
        }
        let mut scene = Self {
            behind: world.behind(),
            world,
            random: SplitMix64::new(seed),
            sender,
            receivers,
            sessions: Vec::new(),
            attached: 0,
        };
        for number in 0..RECEIVERS {
            let session = scene.attach(number).await;
            scene.sessions.push(session);
        }
        scene
    }

    async fn attach(&mut self, number: usize) -> Arc<SessionRow> {
        self.attached += 1;
        let agent = format!("agent-{number}");
        self.behind.attach(&agent, self.attached).await
    }

    async fn restarted(self) -> Self {
        let Self {
            world,
            behind,
            random,
            sender,
            receivers,
            sessions,
            attached,
        } = self;
        drop(behind);
        let world = world.reopened(|_| ()).await;
        Self {
            behind: world.behind(),
            world,
            random,
            sender,
            receivers,
            sessions,
            attached,
        }
    }

    fn below(&mut self, most: usize) -> usize {
        self.random.next() as usize % most
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    async fn send(&mut self, count: usize, to: &[&str]) {
        let mut sends = Vec::new();
        for _ in 0..count {
            let mut modes = vec![None];
            modes.extend(DeliveryMode::ALL.iter().copied().map(Some));
            let to = self.pick(to);
            let deadline = START.plus_millis(60_000 + self.below(1_000_000) as i64);
            sends.push(SendMessage {
                mode: self.pick(&modes),
                allow_downgrade: self.pick(&[None, Some(true)]),
                priority: self.pick(&[None, Some(Priority::Urgent)]),
                deadline: Some(deadline.max(self.behind.now().plus_millis(1))),
                ..SendMessage::text(target(to), "hello")
            });
        }
        let sends = sends
            .into_iter()
            .map(|body| self.world.engine.send(&self.sender, body));
        together(sends.collect()).await;
    }

    /// One of these deliveries takes a step, or many of an agent do.
    async fn something_happens(&mut self, rows: &[DeliveryRow]) {
        let agent = self.below(RECEIVERS);
        match self.below(80) {
            0 | 1 => self.flush(agent).await,
            2 => self.read_something(agent).await,
            3 | 4 => self.session_ends(agent).await,
            _ => {
                let row = self.pick(rows);
                self.takes_a_step(&row).await;
            }
        }
    }

    async fn takes_a_step(&mut self, row: &DeliveryRow) {
        let id = row.id(self.world.workspace_id);
        let at = self.receivers.iter().position(|caller| {
            let agent = caller.agent().unwrap();
            agent.no == row.agent
        });
        let session = self.sessions[at.unwrap()].clone();
        let later = self.behind.now().plus_millis(self.below(50_000) as i64);
        let receipts = [
            accepted(id),
            delivered(id),
            deferred(id, later),
            failed(id, true),
            failed(id, false),
        ];
        let receipt = self.pick(&receipts);
        let epoch = self.random.next() >> 2;
        // Whether it is legal is for others to test.
        let _ = match self.below(6) {
            0 => self.behind.cancel(id).await,
            1 => self.behind.take(id, Step::Woken).await,
            2 => self.behind.take(id, Step::Retried).await,
            3 => self.behind.say(&session, id, receipt).await,
            _ => self.behind.answer(&session, id, epoch, receipt).await,
        };
    }

    async fn flush(&mut self, agent: usize) {
        let modes = [None, Some(DeliveryMode::Manual), Some(DeliveryMode::OnIdle)];
        let request = FlushRequest {
            mode: self.pick(&modes),
            limit: self.below(20),
            ..self.behind.flushing(&self.receivers[agent])
        };
        let (mode, limit) = (request.mode, request.limit);
        let expected: Vec<Position> = self
            .unfinished(agent)
            .await
            .into_iter()
            .filter(|row| mode.is_none() || row.mode == mode)
            .map(|row| row.position)
            .take(limit)
            .collect();
        let flushed = self.behind.store.flush(request).await.unwrap();
        let found: Vec<_> = flushed.iter().map(|row| row.position).collect();
        assert_eq!(found, expected);
        for row in flushed {
            let waits = row.state == DeliveryState::Pending && row.not_before.is_none();
            assert!(row.flushed && waits || row.state == DeliveryState::Accepted);
        }
    }

    /// Reading settles what waits in that place up to there, and nothing else.
    async fn read_something(&mut self, agent: usize) {
        let before = self.unfinished(agent).await;
        if before.is_empty() {
            return;
        }
        let picked = self.pick(&before);
        let mark = picked.message;
        let message = self.message_of(&picked).await;
        let current = self.current_session(agent).await;
        let mut expected = Vec::new();
        for row in before {
            let other = self.message_of(&row).await;
            let session = current.as_ref().filter(|_| row.only_session.is_none());
            let view = session.map(|session| SessionView {
                capabilities: &session.capabilities,
                safe_states: &session.safe_states,
                status: session.status,
                linked: true,
            });
            let waits = hold_for_reader(row.ask(), view.as_ref(), &Policy::default()).is_some();
            let is_settled = !waits
                && row.state != DeliveryState::Accepted
                && row.message <= mark
                && other.to == message.to;
            if !is_settled {
                expected.push(row);
            }
        }
        let reader = &self.receivers[agent];
        self.world
            .engine
            .mark_read(reader, message.id)
            .await
            .unwrap();
        assert_eq!(self.unfinished(agent).await, expected);
    }

    async fn message_of(&self, row: &DeliveryRow) -> Arc<RelayMessage> {
        let store = &self.behind.store;
        let content = store.delivery_content(row.message, row.position).await;
        content.unwrap().message
    }

    /// The session that the engine takes for the agent's current one.
    async fn current_session(&self, agent: usize) -> Option<SessionSummary> {
        let (engine, caller) = (&self.world.engine, &self.receivers[agent]);
        let sessions = engine.sessions(caller, None, PageQuery::default());
        let sessions = sessions.await.unwrap().items;
        sessions.into_iter().find(|session| session.current)
    }

    async fn session_ends(&mut self, agent: usize) {
        if self.attached == u8::MAX {
            return;
        }
        let session = self.sessions[agent].clone();
        self.behind
            .turn(&session, SessionTurn::Failed)
            .await
            .unwrap();
        let rows = self.unfinished(agent).await;
        assert!(rows.iter().all(|row| row.holder.is_none()));
        self.sessions[agent] = self.attach(agent).await;
    }

    /// All deliveries, oldest first.
    async fn everything(&self) -> Vec<DeliveryRow> {
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let page = PageRequest {
                cursor,
                limit: 100_000,
            };
            let filter = DeliveryFilter::default();
            let page = self
                .behind
                .store
                .delivery_list(self.behind.viewer(), filter, page);
            let page = page.await.unwrap();
            found.extend(page.items.into_iter().map(|story| story.row));
            cursor = page.next_cursor;
            if cursor.is_none() {
                found.reverse();
                return found;
            }
        }
    }

    async fn unfinished(&self, agent: usize) -> Vec<DeliveryRow> {
        let agent = self.receivers[agent].agent().unwrap().no;
        let mut rows = self.everything().await;
        rows.retain(|row| row.agent == agent && !row.state.is_terminal());
        rows
    }

    /// Asks for parts of what waits and compares them with all deliveries.
    async fn check(&mut self) {
        let wrong = self.world.sqlite.check_indexes().await.unwrap();
        assert_eq!(wrong, Vec::<String>::new());
        let rows = self.everything().await;
        for _ in 0..10 {
            self.check_waiting(&rows).await;
            self.check_due(&rows).await;
        }
    }

    async fn check_waiting(&mut self, rows: &[DeliveryRow]) {
        let agent = self.below(RECEIVERS);
        let agent = self.receivers[agent].agent().unwrap().no;
        let mut lanes = LaneSet::default();
        for lane in LaneSet::ALL.iter() {
            if self.below(3) > 0 {
                lanes.insert(lane);
            }
        }
        let positions: Vec<_> = rows.iter().map(|row| Some(row.position)).collect();
        let after = [None, None, self.pick(&positions)];
        let wanted = Wanted {
            lanes,
            after: self.pick(&after),
        };
        let limit = self.pick(&[0, 1, 5, 20, 10_000]);
        let unfinished: Vec<_> = rows
            .iter()
            .filter(|row| row.agent == agent && !row.state.is_terminal())
            .collect();
        let mut expected: Vec<_> = unfinished
            .iter()
            .filter(|row| lanes.contains(Lane::of(row)))
            .filter(|row| row.flushed || wanted.after.is_none_or(|after| row.position > after))
            .map(|row| (*row).clone())
            .collect();
        expected.sort_by_key(|row| (row.priority == Priority::Normal, row.position));
        let complete = expected.len() <= limit;
        expected.truncate(limit);
        let query = WaitingQuery {
            workspace_no: self.behind.workspace_no,
            agent,
            wanted,
            limit,
        };
        let page = self.behind.store.waiting(query).await.unwrap();
        assert_eq!(page.rows, expected);
        assert_eq!(
            (page.complete, page.total),
            (complete, unfinished.len() as u32)
        );
    }

    async fn check_due(&mut self, rows: &[DeliveryRow]) {
        let wake = |row: &DeliveryRow| row.not_before.unwrap_or(row.deadline).min(row.deadline);
        let mut wakes: Vec<(Timestamp, &DeliveryRow)> = rows
            .iter()
            .filter(|row| !row.state.is_terminal())
            .map(|row| (wake(row), row))
            .collect();
        wakes.sort_by_key(|(at, row)| (*at, row.position));
        let now = START.plus_millis(self.below(1_200_000) as i64);
        let limit = self.pick(&[1, 10, 100_000]);
        let come = wakes.iter().take(limit).filter(|(at, _)| *at <= now);
        let come: Vec<_> = come.map(|(_, row)| (*row).clone()).collect();
        let due = self.behind.store.due(now, limit).await.unwrap();
        assert_eq!(due.next, wakes.get(come.len()).map(|(at, _)| *at));
        assert_eq!(due.rows, come);
    }

    /// How many unfinished deliveries are up to the mark, and how many after it.
    async fn entered_and_newer(&self) -> (usize, usize) {
        let mark = mark(&self.world);
        let rows = self.everything().await;
        let (entered, newer): (Vec<_>, Vec<_>) = rows
            .iter()
            .filter(|row| !row.state.is_terminal())
            .partition(|row| Some(row.position.key()) <= mark);
        (entered.len(), newer.len())
    }
}

async fn unsynced() -> SqliteWorld {
    use relay_core::store::sqlite::Synchronous;
    SqliteWorld::with(|options| options.synchronous = Synchronous::Off).await
}

/// Up to where deliveries are entered.
fn mark(world: &SqliteWorld) -> Option<i64> {
    let db = Connection::open(world.path()).unwrap();
    db.query_row("SELECT max(position) FROM waiting_marks", [], |row| {
        row.get(0)
    })
    .unwrap()
}

/// Of many that finish at once the mark knows, too: a restart need not look through them.
#[tokio::test]
async fn the_mark_follows_what_does_not_wait() {
    const FURTHEST: u64 = 65_536;
    let world = unsynced().await;
    world.lift_pace().await;
    let sender = world.agent("sender").await;
    for number in 0..120 {
        world.agent(&format!("agent-{number}")).await;
    }
    let full = PolicyPatch {
        queue_limit: Some(1),
        ..PolicyPatch::default()
    };
    world.engine.update_policy(&world.key, full).await.unwrap();
    let sends = |count| {
        let body = || SendMessage::text(target("#general"), "hello");
        let sends = (0..count).map(|_| world.engine.send(&sender, body()));
        together(sends.collect::<Vec<_>>())
    };
    sends(1).await;
    assert_eq!(mark(&world), None);
    let mut sent = 0;
    while world.head().await.seq < 2 * FURTHEST {
        sends(20).await;
        sent += 20;
    }
    let behind = mark(&world).map(|mark| Position::from_key(mark).seq());
    assert!(
        behind > Some(world.head().await.seq - FURTHEST - 10_000),
        "{sent}"
    );
    assert_eq!(world.sqlite.check_indexes().await, Ok(Vec::new()));
    let world = world.reopened(|_| ()).await;
    assert_eq!(world.sqlite.check_indexes().await, Ok(Vec::new()));
}
