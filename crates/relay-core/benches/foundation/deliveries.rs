//! What the store's part of delivering costs: settling by a receipt, finding what waits, reading an inbox.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use relay_core::Engine;
use relay_core::delivery::apply::Step;
use relay_core::delivery::history::Offer;
use relay_core::delivery::lane::{Ask, Lane, LaneSet};
use relay_core::delivery::shelf::Wanted;
use relay_core::environment::Environment;
use relay_core::store::sqlite::SqliteStore;
use relay_core::store::{
    Advance, AgentNo, DeliveryRow, NewSession, Position, SessionRow, Store as _, Viewer,
    WaitingQuery,
};
use relay_protocol::api::messages::{SendMessage, SendTarget};
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{DeliveredReceipt, DeliveryMode, MessageReceipt, Priority};
use relay_protocol::ids::SessionId;
use relay_protocol::limits::PENDING_DELIVERIES_PER_AGENT;
use relay_protocol::link::LinkKind;
use relay_protocol::status::DEFAULT_SAFE_STATES;

use crate::Effort;
use crate::measure::{median, range, watch_others, writer_cpu};
use crate::sends::send_all;
use crate::world::{World, directory, open_store};

/// Senders, and receipts on their way at a time.
const AT_ONCE: usize = 64;

/// Prints all figures.
pub(crate) fn run(out: &mut impl Write, effort: Effort) {
    let others = watch_others();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut rates, mut writer) = (vec![], vec![]);
    for _ in 0..effort.rounds {
        let (rate, cpu) = runtime.block_on(settle(effort.sends_per_round));
        rates.push(rate);
        writer.push(cpu);
    }
    let (least, most) = range(&rates);
    writeln!(
        out,
        "\nreceipts, {AT_ONCE} at a time: {:.0}/s ({least:.0}-{most:.0}), writer {:.1} us each; \
         others used {:.2} cores",
        median(&rates),
        median(&writer),
        others.cores()
    )
    .unwrap();
    for waiting in [0, PENDING_DELIVERIES_PER_AGENT as usize - 100] {
        let (find, read) = runtime.block_on(beside(waiting));
        writeln!(
            out,
            "with {waiting} waiting elsewhere: what waits {find:.1} us, reading one message {read:.0} us"
        )
        .unwrap();
    }
}

struct Scene {
    store: Arc<SqliteStore>,
    world: Arc<World>,
    workspace_no: u32,
    _scratch: tempfile::TempDir,
}

async fn scene(senders: usize, receivers: usize) -> Scene {
    let scratch = directory();
    let store = open_store(scratch.path());
    let engine = Arc::new(Engine::new(store.clone(), Environment::system()));
    let world = Arc::new(World::over(engine, senders, receivers).await);
    Scene {
        workspace_no: world.key.workspace().unwrap().no,
        store,
        world,
        _scratch: scratch,
    }
}

impl Scene {
    async fn agent(&self, name: &str) -> AgentNo {
        let agent = self.store.agent(self.workspace_no, name).await;
        agent.unwrap().no
    }

    async fn attach(&self, name: &str, number: u128) -> Arc<SessionRow> {
        let at = relay_protocol::time::Timestamp::from_millis(1_763_244_860_123);
        let id = SessionId::new(at, number);
        let mut token = [0; 32];
        token[..16].copy_from_slice(&number.to_le_bytes());
        let new = NewSession {
            viewer: Viewer {
                workspace_no: self.workspace_no,
                agent: None,
            },
            agent: name.to_owned(),
            at,
            id,
            token,
            resume: false,
            harness: "bench".to_owned(),
            link: LinkKind::InProcess,
            webhook: None,
            capabilities: AgentSessionCapabilities::minimum(),
            safe_states: DEFAULT_SAFE_STATES.to_vec(),
            status: None,
            keeps_messages: false,
        };
        self.store.attach_session(new).await.unwrap().session
    }

    async fn waiting(&self, agent: AgentNo, lanes: LaneSet, limit: usize) -> Vec<DeliveryRow> {
        let query = WaitingQuery {
            workspace_no: self.workspace_no,
            agent,
            wanted: Wanted { lanes, after: None },
            limit,
        };
        self.store.waiting(query).await.unwrap().rows
    }
}

/// Settles so many deliveries that were just made; says how many in a second, and the writer's time.
async fn settle(count: usize) -> (f64, f64) {
    const RECEIVERS: usize = 100;
    let scene = scene(AT_ONCE, RECEIVERS).await;
    send_all(&scene.world, AT_ONCE, count).await;
    let workspace = scene.world.key.workspace().unwrap().id;
    let mut steps = VecDeque::new();
    for number in 0..RECEIVERS {
        let name = format!("receiver-{number}");
        let session = scene.attach(&name, number as u128 + 1).await;
        let agent = scene.agent(&name).await;
        for row in scene.waiting(agent, LaneSet::ALL, 10_000).await {
            let id = row.id(workspace);
            steps.push_back((row.position, receipt(&session, &row, id)));
        }
    }
    let (total, begun, before) = (steps.len(), Instant::now(), writer_cpu());
    let mut on_their_way = VecDeque::new();
    while !(steps.is_empty() && on_their_way.is_empty()) {
        while on_their_way.len() < AT_ONCE
            && let Some((position, step)) = steps.pop_front()
        {
            on_their_way.push_back(scene.store.advance(advance(position, step)));
        }
        if let Some(reply) = on_their_way.pop_front() {
            assert!(reply.await.unwrap().moved);
        }
    }
    let rate = total as f64 / begun.elapsed().as_secs_f64();
    let cpu = (writer_cpu() - before).as_secs_f64() * 1e6 / total as f64;
    (rate, cpu)
}

fn receipt(
    session: &SessionRow,
    row: &DeliveryRow,
    delivery_id: relay_protocol::ids::DeliveryId,
) -> Step {
    let metadata = serde_json::json!({"door": "acp.prompt", "stopReason": "end_turn"});
    Step::Receipt {
        session: Some(session.no),
        offer: Some(Box::new(Offer {
            epoch: row.position.seq(),
            generation: row.generation,
            session: session.no,
            session_id: session.id,
            mode: DeliveryMode::OnIdle,
            why: Cow::Borrowed("the session is idle"),
            offered_at: row.at,
            live: true,
        })),
        epoch: Some(row.position.seq()),
        receipt: MessageReceipt::Delivered(DeliveredReceipt {
            delivery_id,
            metadata: metadata.as_object().cloned(),
        }),
    }
}

fn advance(position: Position, step: Step) -> Advance {
    Advance {
        position,
        at: relay_protocol::time::Timestamp::from_millis(1_763_244_860_123),
        step,
        decisions: Vec::new(),
        jitter: 0,
    }
}

/// With so many deliveries of one agent waiting for a flush: how long it takes to find the twenty that do
/// not, and to read one message in another place.
async fn beside(waiting: usize) -> (f64, f64) {
    const ROUNDS: u32 = 200;
    let scene = scene(2, 1).await;
    let manual = |number| SendMessage {
        mode: Some(DeliveryMode::Manual),
        ..scene.world.message(number)
    };
    let [writer, other] = [0, 1].map(|at| scene.world.senders[at].clone());
    let engine = &scene.world.engine;
    for number in 0..waiting {
        engine.send(&writer, manual(number * 2)).await.unwrap();
    }
    let to = || SendTarget::Agent("receiver-0".to_owned());
    for _ in 0..20 {
        let body = SendMessage::text(to(), "at the next boundary");
        engine.send(&other, body).await.unwrap();
    }
    let agent = scene.agent("receiver-0").await;
    let mut lanes = LaneSet::default();
    let ask = Ask {
        mode: None,
        allow_downgrade: false,
        image: false,
        flushed: false,
    };
    lanes.insert(Lane::for_ask(ask, Priority::Normal));
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        assert_eq!(scene.waiting(agent, lanes, 20).await.len(), 20);
    }
    let find = begun.elapsed() / ROUNDS;
    let reader = scene
        .store
        .agent(scene.workspace_no, "receiver-0")
        .await
        .unwrap();
    let workspace = scene.store.workspace_by_no(scene.workspace_no).await;
    let gate = relay_core::store::ReaderGate {
        session: None,
        workspace: workspace.unwrap(),
    };
    let begun = Instant::now();
    for number in 0..ROUNDS {
        let body = SendMessage::text(to(), format!("read me {number}"));
        let sent = engine.send(&other, body).await.unwrap();
        let mark = relay_core::store::ReadMark {
            workspace_no: scene.workspace_no,
            reader: reader.no,
            messages: vec![sent.message_id],
            reading: relay_protocol::api::messages::ReadDoor::Inbox.into(),
            offered: Vec::new(),
            gate: gate.clone(),
            at: sent.message.created_at,
        };
        scene.store.mark_read(mark).await.unwrap();
    }
    let read = begun.elapsed() / ROUNDS;
    (find.as_secs_f64() * 1e6, read.as_secs_f64() * 1e6)
}
