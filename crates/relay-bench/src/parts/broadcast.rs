//! One message to many recipients, each with a session: until the last handler has it, beside what that can't
//! do without: one commit of the same rows, and plain writes of the same bytes to as many sockets.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use tokio::task::JoinSet;

use super::crowd::{Arrivals, LastArrival, PlainCrowd, open_all};
use super::latency::percentiles;
use crate::bench::Bench;
use crate::goals::Goal;
use crate::machine::threads_cpu;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::rows;
use crate::server::Server;
use crate::session::{self, Handler};
use crate::text::text;
use crate::wire::Http;
use crate::world::World;

/// From one message to the next.
const PACE: Duration = Duration::from_millis(20);

const LAST: &str = "send to the last handler";
const SETTLED: &str = "send to the last stored receipt";
const COMMIT: &str = "one commit of those rows";
const WRITES: &str = "plain writes to as many";

const CPU: Column = Column::of("server CPU us for each recipient", 1);

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!("a message to a channel of {} sessions", sizes.recipients);
    let mut section = Section::new(Part::Broadcast, title);
    let server = bench.server().await?;
    let mut channel = Channel::open(&server, sizes.recipients).await?;
    let mut plain = PlainCrowd::open(sizes.recipients).await?;
    let scratch = tempfile::tempdir_in(bench.directory())?;
    let mut commits = Commits {
        database: rows::open(&scratch.path().join("plain.db"))?,
        recipients: i64::try_from(sizes.recipients)?,
        number: 0,
    };
    for _ in 0..2 {
        channel.cast().await?;
        commits.commit()?;
        plain.cast(channel.arrivals.bytes()).await?;
    }
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        let [mut last, mut settled, mut committed, mut written] = [(); 4].map(|()| Vec::new());
        let mut cpu = Duration::ZERO;
        for _ in 0..sizes.casts {
            tokio::time::sleep(PACE).await;
            let before = threads_cpu(&server.process, |_| true);
            let cast = channel.cast().await?;
            cpu += threads_cpu(&server.process, |_| true).saturating_sub(before);
            last.push(cast.0);
            settled.push(cast.1);
            tokio::time::sleep(PACE).await;
            committed.push(tokio::task::block_in_place(|| commits.commit())?);
            tokio::time::sleep(PACE).await;
            written.push(plain.cast(channel.arrivals.bytes()).await?);
        }
        let each = cpu.as_secs_f64() * 1e6 / (sizes.casts * sizes.recipients) as f64;
        section.add(LAST, &percentiles(last));
        let mut figures = percentiles(settled);
        figures.push((CPU, each));
        section.add(SETTLED, &figures);
        section.add(COMMIT, &percentiles(committed));
        section.add(WRITES, &percentiles(written));
        section.others.push(others.cores());
    }
    judge(&mut section);
    Ok(section)
}

fn judge(section: &mut Section) {
    let series = |name| section.series(name, Column::FINE_P50).iter();
    let floor = series(COMMIT).zip(series(WRITES)).map(|(a, b)| a + b);
    let ratios: Vec<f64> = series(LAST).zip(floor).map(|(of, to)| of / to).collect();
    let name = "send to the last handler, to commit + plain writes";
    section.check(name, "x", &ratios, Some(Goal::AtMost(3.0)));
}

/// A channel in which everybody has a session.
struct Channel {
    sender: Http,
    number: usize,
    arrivals: Arrivals,
    last: LastArrival,
    settled: LastArrival,
    _sessions: JoinSet<Result<()>>,
}

impl Channel {
    async fn open(server: &Server, recipients: usize) -> Result<Self> {
        let world = World::create(server, 1, recipients).await?;
        let (address, agents) = (world.address, world.receivers.clone());
        let sockets = open_all(recipients, move |number| {
            let agent = agents[number].clone();
            async move { session::attach(address, &agent).await }
        });
        let (arrivals, last) = Arrivals::of(recipients);
        let (receipts, settled) = Arrivals::of(recipients);
        let mut sessions = JoinSet::new();
        for socket in sockets.await? {
            let member = Member {
                arrivals: arrivals.clone(),
                receipts: receipts.clone(),
            };
            sessions.spawn(session::serve(socket, member));
        }
        Ok(Self {
            sender: Http::connect(address, &world.senders[0].token).await?,
            number: 0,
            arrivals,
            last,
            settled,
            _sessions: sessions,
        })
    }

    /// Sends one message; how long until the last session had it, and until the last receipt was stored.
    async fn cast(&mut self) -> Result<(Duration, Duration)> {
        self.number += 1;
        // Whoever registers is in this channel.
        let body = json!({ "to": "#general", "text": text(self.number) });
        let begun = Instant::now();
        let body = body.to_string();
        let answer = self.sender.ask("POST", "/v1/messages", &body).await?;
        if answer.status != 201 {
            bail!(
                "a send was answered {}",
                String::from_utf8_lossy(answer.body)
            );
        }
        let last = self.last.wait().await? - begun;
        Ok((last, self.settled.wait().await? - begun))
    }
}

struct Member {
    arrivals: Arrivals,
    receipts: Arrivals,
}

impl Handler for Member {
    fn delivered(&mut self, bytes: usize) -> bool {
        self.arrivals.arrived(bytes);
        true
    }

    fn settled(&mut self, _: usize) {
        self.receipts.arrived(0);
    }
}

/// Commits by hand.
struct Commits {
    database: rusqlite::Connection,
    recipients: i64,
    number: i64,
}

impl Commits {
    fn commit(&mut self) -> Result<Duration> {
        self.number += 1;
        let begun = Instant::now();
        let transaction = self.database.transaction()?;
        let position = (1 << 40) + self.number * (self.recipients + 2);
        rows::insert_message(&transaction, self.number, position, 1)?;
        for agent in 1..=self.recipients {
            rows::insert_delivery(&transaction, position, position + agent, 1, agent)?;
        }
        transaction.commit()?;
        Ok(begun.elapsed())
    }
}
