//! From one send to the session's handler when nothing else happens, beside what that can't do without: a
//! synced commit of the same rows, and one way there and back over a socket.
//!
//! All three are done at the same pace, so that the cores sleep in between.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::send::HttpSender;
use crate::bench::Bench;
use crate::figures::Latencies;
use crate::goals::Goal;
use crate::options::Part;
use crate::plain::PlainServer;
use crate::report::{Column, Measured, Section};
use crate::rows;
use crate::session::{self, Handler};
use crate::wire::WebSocket;
use crate::world::World;

/// From one message to the next.
pub(super) const PACE: Duration = Duration::from_millis(10);

const HANDLER: &str = "send to handler";
const ANSWERED: &str = "send to its answer";
const SETTLED: &str = "handler to stored receipt";
const COMMIT: &str = "one idle synced commit of the same rows";
const ECHO: &str = "one idle WebSocket echo";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!("send to handler, one every {} ms", PACE.as_millis());
    let mut section = Section::new(Part::Latency, title);
    let server = bench.server().await?;
    let world = World::create(&server, 1, 1).await?;
    let mut line = Line::open(&world).await?;
    let plain = PlainServer::start()?;
    let mut echo = WebSocket::connect(plain.address, "/", "").await?;
    let mut commits = Commits::open(bench)?;
    line.send(10).await?;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        let times = line.send(sizes.single).await?;
        section.add(HANDLER, &percentiles(times.handler));
        section.add(ANSWERED, &percentiles(times.answer));
        section.add(SETTLED, &percentiles(times.settled));
        let times = commits.commit_many(sizes.single).await?;
        section.add(COMMIT, &percentiles(times));
        section.add(ECHO, &percentiles(echoes(&mut echo, sizes.single).await?));
        section.others.push(others.cores());
    }
    judge(&mut section);
    Ok(section)
}

fn judge(section: &mut Section) {
    let series = |name| section.series(name, Column::FINE_P50).iter();
    let floor = series(COMMIT).zip(series(ECHO)).map(|(a, b)| a + b);
    let ratios: Vec<f64> = series(HANDLER).zip(floor).map(|(of, to)| of / to).collect();
    let tails = section.series(HANDLER, Column::FINE_P99).iter();
    let tails: Vec<f64> = tails.zip(series(HANDLER)).map(|(a, b)| a / b).collect();
    let name = "p50 of send to handler, to commit + echo";
    section.check(name, "x", &ratios, Some(Goal::AtMost(1.6)));
    section.check("its p99 to its p50", "x", &tails, Some(Goal::AtMost(10.0)));
}

pub(super) fn percentiles(times: Vec<Duration>) -> Vec<Measured> {
    let times = Latencies::new(times);
    let millis = |percent| times.percentile(percent).as_secs_f64() * 1e3;
    vec![
        (Column::FINE_P50, millis(50.0)),
        (Column::FINE_P99, millis(99.0)),
    ]
}

/// One sender and one session.
struct Line {
    sender: HttpSender,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    _session: tokio::task::JoinHandle<Result<()>>,
}

enum Arrival {
    Delivered(Instant),
    Settled(Instant),
}

/// How long each message took on its way.
#[derive(Default)]
struct Times {
    handler: Vec<Duration>,
    answer: Vec<Duration>,
    settled: Vec<Duration>,
}

impl Line {
    async fn open(world: &World) -> Result<Self> {
        let (told, arrivals) = mpsc::unbounded_channel();
        let socket = session::attach(world.address, &world.receivers[0]).await?;
        let serving = tokio::spawn(session::serve(socket, Telling(told)));
        let mut senders = HttpSender::all(world).await?;
        Ok(Self {
            sender: senders.pop().context("a world without a sender")?,
            arrivals,
            _session: serving,
        })
    }

    async fn send(&mut self, messages: usize) -> Result<Times> {
        let mut times = Times::default();
        for _ in 0..messages {
            tokio::time::sleep(PACE).await;
            let begun = self.sender.send().await?;
            times.answer.push(begun.elapsed());
            let mut delivered = None;
            loop {
                match self.arrivals.recv().await.context("the session ended")? {
                    Arrival::Delivered(at) => {
                        times.handler.push(at - begun);
                        delivered = Some(at);
                    }
                    Arrival::Settled(at) => {
                        times.settled.extend(delivered.map(|since| at - since));
                        break;
                    }
                }
            }
        }
        Ok(times)
    }
}

struct Telling(mpsc::UnboundedSender<Arrival>);

impl Handler for Telling {
    fn delivered(&mut self, _: usize) -> bool {
        let _ = self.0.send(Arrival::Delivered(Instant::now()));
        true
    }

    fn settled(&mut self, _: usize) {
        let _ = self.0.send(Arrival::Settled(Instant::now()));
    }
}

/// Commits by hand.
pub(super) struct Commits {
    /// Not here while it is at work elsewhere.
    hand: Option<Hand>,
    _scratch: TempDir,
}

impl Commits {
    pub(super) fn open(bench: &Bench<'_>) -> Result<Self> {
        let scratch = tempfile::tempdir_in(bench.directory())?;
        let database = scratch.path().join("plain.db");
        Ok(Self {
            hand: Some(Hand {
                database: rows::open(&database)?,
                number: 0,
            }),
            _scratch: scratch,
        })
    }

    /// How long each of so many commits takes.
    pub(super) async fn commit_many(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut hand = self.hand.take().context("the commits are elsewhere")?;
        let committed = tokio::task::spawn_blocking(move || {
            let times = hand.commit(count);
            (hand, times)
        });
        let (hand, times) = committed.await?;
        self.hand = Some(hand);
        times
    }
}

struct Hand {
    database: rusqlite::Connection,
    number: i64,
}

impl Hand {
    fn commit(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for _ in 0..count {
            std::thread::sleep(PACE);
            self.number += 1;
            let begun = Instant::now();
            let transaction = self.database.transaction()?;
            let position = (1 << 40) + self.number * 3;
            rows::insert_message(&transaction, self.number, position, 1)?;
            rows::insert_delivery(&transaction, position, position + 2, 1, 1)?;
            transaction.commit()?;
            times.push(begun.elapsed());
        }
        Ok(times)
    }
}

pub(super) async fn echoes(socket: &mut WebSocket, count: usize) -> Result<Vec<Duration>> {
    let text = "x".repeat(300);
    let mut times = Vec::new();
    for _ in 0..count {
        tokio::time::sleep(PACE).await;
        let begun = Instant::now();
        socket.say(&text).await?;
        socket.next().await?;
        times.push(begun.elapsed());
    }
    Ok(times)
}
