//! From a send to its stored receipt, beside sends of the same shape to agents without sessions.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use relay_core::link::{Deliver, MemoryLink, Parcel};
use relay_protocol::api::messages::SendTarget;
use relay_protocol::ids::SessionId;
use relay_protocol::policy::PolicyPatch;
use tokio::sync::Notify;

use super::runtime;
use super::sessions::{Kind, attach, delivering_world, settle};
use crate::Effort;
use crate::measure::{Round, Rounds, ratio, watch_others};
use crate::sends;
use crate::world::{PEERS, World, directory};

const SENDERS: usize = 64;

const SESSIONS: usize = 64;

/// Prints the table.
pub(super) fn run(out: &mut impl Write, effort: Effort) {
    let others = watch_others();
    let [mut bare, mut waits, mut goes_on] = [(); 3].map(|()| Rounds::default());
    let sends = effort.sends_per_round;
    let manned = |manner| settled_round(&[manner; SESSIONS], PolicyPatch::default(), sends);
    for _ in 0..effort.rounds {
        bare.push(&sends::round(SENDERS, SESSIONS, sends).0);
        waits.push(&manned(Manner::Awaited));
        goes_on.push(&manned(Manner::Answering));
    }
    writeln!(
        out,
        "\nsend to stored receipt, {SENDERS} senders, {SESSIONS} immediate sessions, {} rounds, \
         others used {:.2} cores",
        effort.rounds,
        others.cores()
    )
    .unwrap();
    writeln!(
        out,
        "| what | /s | min-max | p50 ms | p99 ms | CPU us each | of it the writer |"
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|---|---|---|").unwrap();
    bare.print(out, "sends to agents without sessions");
    waits.print(out, "settled, each sender waits for the receipt");
    goes_on.print(out, "settled, each sender goes on once sent");
    for (name, settled) in [("waiting", &waits), ("going on", &goes_on)] {
        writeln!(
            out,
            "cost against bare sends, {name}: time {}, CPU {}, writer {}",
            ratio(&bare.rate, &settled.rate),
            ratio(&settled.cpu, &bare.cpu),
            ratio(&settled.writer, &bare.writer)
        )
        .unwrap();
    }
}

/// How a session treats what it is offered.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Manner {
    /// Answers at once, and the sender waits for that.
    Awaited,
    /// Answers at once; the sender has gone on.
    Answering,
    /// Takes it and never answers; the sender has gone on.
    Silent,
}

/// Senders and sessions in one process.
struct Office {
    world: Arc<World>,
    manners: Vec<Manner>,
    /// Rings for each sender when its message is settled.
    settled: Vec<Notify>,
    /// Answers that are not stored yet, of those that nobody waits for.
    unsettled: AtomicUsize,
    all_settled: Notify,
}

/// Sends so many messages to immediate sessions with these manners, in a database of their own. The
/// latencies are those of the awaited ones, from the send to the stored receipt.
pub(super) fn settled_round(manners: &[Manner], patch: PolicyPatch, sends: usize) -> Round {
    let scratch = directory();
    let runtime = runtime();
    runtime.block_on(async {
        let office = open(scratch.path(), manners, patch).await;
        send_all(&office, SENDERS * PEERS).await;
        Round::of(sends, send_all(&office, sends)).await
    })
}

async fn open(path: &Path, manners: &[Manner], patch: PolicyPatch) -> Arc<Office> {
    let world = delivering_world(path, SENDERS, manners.len()).await;
    let policy = world.engine.update_policy(&world.key, patch);
    policy.await.unwrap();
    let office = Arc::new(Office {
        world: world.clone(),
        manners: manners.to_vec(),
        settled: (0..SENDERS).map(|_| Notify::new()).collect(),
        unsettled: AtomicUsize::new(0),
        all_settled: Notify::new(),
    });
    for (agent, manner) in world.receivers.iter().zip(manners) {
        let link = MemoryLink::new();
        let session = attach(&world, agent, Kind::Immediate, Some(link.clone())).await;
        tokio::spawn(play(office.clone(), session, link, *manner));
    }
    office
}

/// Plays a session: each offer is answered by itself, so that none waits for another's receipt.
async fn play(office: Arc<Office>, session: SessionId, link: Arc<MemoryLink>, manner: Manner) {
    while let Some(parcel) = link.take().await {
        if let Parcel::Deliver(offer) = parcel
            && manner != Manner::Silent
        {
            tokio::spawn(answer(office.clone(), session, offer, manner));
        }
    }
}

async fn answer(office: Arc<Office>, session: SessionId, offer: Box<Deliver>, manner: Manner) {
    settle(&office.world, session, &offer.context).await;
    if manner == Manner::Awaited {
        let sender = number(offer.message.from.name.as_deref().unwrap_or_default());
        office.settled[sender].notify_one();
    } else if office.unsettled.fetch_sub(1, Ordering::Relaxed) == 1 {
        office.all_settled.notify_one();
    }
}

/// Sends so many messages, each sender one at a time; returns once all that will be answered are.
async fn send_all(office: &Arc<Office>, sends: usize) -> Vec<Duration> {
    // One more, so that it is not all settled before the last one is sent.
    office.unsettled.store(1, Ordering::Relaxed);
    let tasks: Vec<_> = (0..SENDERS)
        .map(|sender| tokio::spawn(send_some(office.clone(), sender, sends)))
        .collect();
    let mut all = Vec::with_capacity(sends);
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    if office.unsettled.fetch_sub(1, Ordering::Relaxed) != 1 {
        office.all_settled.notified().await;
    }
    all
}

async fn send_some(office: Arc<Office>, sender: usize, sends: usize) -> Vec<Duration> {
    let world = &office.world;
    let mut latencies = Vec::with_capacity(sends / SENDERS + 1);
    for number in (sender..sends).step_by(SENDERS) {
        let body = world.message(number);
        let manner = office.manner(&body.to);
        if manner == Manner::Answering {
            office.unsettled.fetch_add(1, Ordering::Relaxed);
        }
        let begun = Instant::now();
        let sent = world.engine.send(&world.senders[sender], body).await;
        sent.unwrap();
        if manner == Manner::Awaited {
            office.settled[sender].notified().await;
            latencies.push(begun.elapsed());
        }
    }
    latencies
}

impl Office {
    fn manner(&self, to: &SendTarget) -> Manner {
        match to {
            SendTarget::Agent(name) => self.manners[number(name)],
            other => unreachable!("nothing is sent to {other:?}"),
        }
    }
}

/// The number at the end of a name.
fn number(name: &str) -> usize {
    let (_, number) = name.rsplit_once('-').unwrap();
    number.parse().unwrap()
}
