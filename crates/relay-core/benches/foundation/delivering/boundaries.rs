//! From a boundary to what waited for it: handed over the session's link, or returned by the call.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use relay_core::link::{Deliver, LinkClosed, Parcel, SessionLink};
use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::SessionId;
use relay_protocol::session::{AtBoundary, BoundaryKind};
use tempfile::TempDir;

use super::runtime;
use super::sessions::{Kind, attach, delivering_world, settle};
use crate::Effort;
use crate::measure::{Latencies, median, range, watch_others};
use crate::sends::send_all;
use crate::world::{World, directory};

const SENDERS: usize = 64;

/// Sessions that come to their boundaries one after the other.
const SESSIONS: usize = 64;

/// Boundaries of each session in a round.
const TURNS: usize = 8;

/// What is measured.
struct Case {
    name: &'static str,
    door: Door,
    /// Deliveries for each session that come before each boundary, and go at it.
    new: usize,
    /// Deliveries for each session that wait beside these.
    waiting: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Door {
    /// It says where it stands, and what is due comes over its link.
    Signal,
    /// It has no link, and takes along what is due.
    Claim,
}

const CASES: [Case; 6] = [
    case("signal, 1 waits", Door::Signal, 1, 0),
    case("signal, 32 wait", Door::Signal, 32, 0),
    case("signal, 32 of 1,000 go", Door::Signal, 32, 968),
    case("claim, 1 waits", Door::Claim, 1, 0),
    case("claim, 20 wait", Door::Claim, 20, 0),
    case("claim, 20 of 1,000 go", Door::Claim, 20, 980),
];

const fn case(name: &'static str, door: Door, new: usize, waiting: usize) -> Case {
    Case {
        name,
        door,
        new,
        waiting,
    }
}

/// Latencies of one round.
#[derive(Default)]
struct Times {
    /// Until the first delivery was there.
    first: Vec<Duration>,
    /// Until the last was, and the call has returned.
    all: Vec<Duration>,
}

/// Percentiles of all rounds, in microseconds.
#[derive(Default)]
struct Figures {
    first: [Vec<f64>; 2],
    all: [Vec<f64>; 2],
}

impl Figures {
    fn push(&mut self, times: Times) {
        for (figures, times) in [(&mut self.first, times.first), (&mut self.all, times.all)] {
            let latencies = Latencies::new(times);
            for (figures, percent) in figures.iter_mut().zip([50.0, 99.0]) {
                figures.push(latencies.percentile(percent).as_secs_f64() * 1e6);
            }
        }
    }
}

/// Prints the table.
pub(super) fn run(out: &mut impl Write, effort: Effort) {
    runtime().block_on(async {
        let mut scenes = Vec::new();
        for case in &CASES {
            scenes.push(Scene::open(case).await);
        }
        let mut figures = CASES.map(|_| Figures::default());
        let others = watch_others();
        for _ in 0..effort.rounds {
            for (scene, figures) in scenes.iter().zip(&mut figures) {
                figures.push(scene.round().await);
            }
        }
        print(out, effort, &figures, others.cores());
    });
}

fn print(out: &mut impl Write, effort: Effort, figures: &[Figures], others: f64) {
    writeln!(
        out,
        "\nboundaries of {SESSIONS} sessions, {} rounds, us, others used {others:.2} cores",
        effort.rounds
    )
    .unwrap();
    writeln!(
        out,
        "| boundary | first p50 | first p99 | all p50 | min-max | all p99 | min-max |"
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|---|---|---|").unwrap();
    for (case, figures) in CASES.iter().zip(figures) {
        let [first_p50, first_p99, p50, p99] = [
            &figures.first[0],
            &figures.first[1],
            &figures.all[0],
            &figures.all[1],
        ];
        let ((p50_least, p50_most), (p99_least, p99_most)) = (range(p50), range(p99));
        writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.0} | {p50_least:.0}-{p50_most:.0} | {:.0} | {p99_least:.0}-{p99_most:.0} |",
            case.name,
            median(first_p50),
            median(first_p99),
            median(p50),
            median(p99)
        )
        .unwrap();
    }
}

struct Scene {
    case: &'static Case,
    world: Arc<World>,
    sessions: Vec<(SessionId, Arc<Stamping>)>,
    _scratch: TempDir,
}

impl Scene {
    async fn open(case: &'static Case) -> Self {
        let scratch = directory();
        let (world, sessions) = working_sessions(scratch.path(), case.door).await;
        send_all(&world, SENDERS, SESSIONS * case.waiting).await;
        Self {
            case,
            world,
            sessions,
            _scratch: scratch,
        }
    }

    async fn round(&self) -> Times {
        let mut times = Times::default();
        for _ in 0..TURNS {
            send_all(&self.world, SENDERS, SESSIONS * self.case.new).await;
            // The runner has learned of all, and everybody sleeps.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let mut offers = Vec::new();
            for (session, link) in &self.sessions {
                let taken = self.at_boundary(*session, link, &mut times).await;
                assert_eq!(taken.len(), self.case.new);
                offers.extend(taken.into_iter().map(|offer| (*session, offer)));
            }
            self.settle_all(offers).await;
        }
        times
    }

    async fn at_boundary(
        &self,
        session: SessionId,
        link: &Stamping,
        times: &mut Times,
    ) -> Vec<MessageContext> {
        let (engine, key) = (&self.world.engine, &self.world.key);
        let kind = BoundaryKind::NextToolCall;
        let begun = Instant::now();
        if self.case.door == Door::Signal {
            engine.at_boundary(key, session, kind).await.unwrap();
            times.all.push(begun.elapsed());
            let carried = link.take();
            times.first.push(carried[0].0 - begun);
            return carried
                .into_iter()
                .map(|(_, offer)| offer.context)
                .collect();
        }
        let body = AtBoundary {
            kind,
            limit: None,
            max_bytes: None,
        };
        let due = engine.boundary(key, session, body).await.unwrap();
        // They come together.
        times.all.push(begun.elapsed());
        times.first.push(begun.elapsed());
        due.deliveries.into_iter().map(|due| due.context).collect()
    }

    async fn settle_all(&self, offers: Vec<(SessionId, MessageContext)>) {
        let answer = |(session, offer)| {
            let world = self.world.clone();
            tokio::spawn(async move { settle(&world, session, &offer).await })
        };
        let answers: Vec<_> = offers.into_iter().map(answer).collect();
        for answer in answers {
            answer.await.unwrap();
        }
    }
}

async fn working_sessions(
    path: &Path,
    door: Door,
) -> (Arc<World>, Vec<(SessionId, Arc<Stamping>)>) {
    let world = delivering_world(path, SENDERS, SESSIONS).await;
    let mut sessions = Vec::new();
    for agent in &world.receivers {
        let link = Arc::new(Stamping::default());
        let over: Option<Arc<dyn SessionLink>> = match door {
            Door::Signal => Some(link.clone()),
            Door::Claim => None,
        };
        let session = attach(&world, agent, Kind::Working, over).await;
        sessions.push((session, link));
    }
    (world, sessions)
}

/// A link that notes when it was given what.
#[derive(Default)]
struct Stamping(Mutex<Vec<(Instant, Box<Deliver>)>>);

impl Stamping {
    fn take(&self) -> Vec<(Instant, Box<Deliver>)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SessionLink for Stamping {
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        if let Parcel::Deliver(offer) = parcel {
            let mut carried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            carried.push((Instant::now(), offer));
        }
        Ok(())
    }
}
