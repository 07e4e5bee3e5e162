//! One event to many subscribers: until the last one has it, beyond what the send itself takes, beside a
//! plain server that writes the same bytes to as many sockets.
//!
//! What the send takes is measured in a workspace of the same server to which nobody listens.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use super::crowd::{Arrivals, LastArrival, PlainCrowd, listen, open_all};
use super::latency::percentiles;
use super::send::HttpSender;
use crate::bench::Bench;
use crate::figures::median;
use crate::goals::Goal;
use crate::machine::threads_cpu;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::server::Server;
use crate::session;
use crate::world::World;

/// From one event to the next.
const PACE: Duration = Duration::from_millis(20);

const CPU: Column = Column::of("server CPU us for each subscriber", 2);

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = "an event to all subscribers, until the last one has it";
    let mut section = Section::new(Part::Fanout, title);
    let mut checks = Vec::new();
    for subscribers in &sizes.subscribers {
        let (name, ratios) = measure(bench, *subscribers, &mut section).await?;
        checks.push((name, ratios));
    }
    // Rounds of different crowds came one after the other; each check looks at its own.
    let others = section.others.clone();
    for (at, (name, ratios)) in checks.iter().enumerate() {
        section.others = others[at * sizes.rounds..][..sizes.rounds].to_vec();
        section.check(name, "x", ratios, Some(Goal::AtMost(1.3)));
    }
    section.others = others;
    Ok(section)
}

async fn measure(
    bench: &Bench<'_>,
    subscribers: usize,
    section: &mut Section,
) -> Result<(String, Vec<f64>)> {
    let sizes = &bench.options.sizes;
    let server = bench.server().await?;
    let mut quiet = sender(&World::beside(&server, 1, 1).await?).await?;
    let mut crowd = Crowd::open(&server, subscribers).await?;
    let mut plain = PlainCrowd::open(subscribers).await?;
    for _ in 0..3 {
        crowd.cast().await?;
        quiet.send().await?;
        plain.cast(crowd.arrivals.bytes()).await?;
    }
    let mut ratios = Vec::new();
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        let [mut sends, mut casts, mut plain_casts] = [(); 3].map(|()| Vec::new());
        let mut cpu = Duration::ZERO;
        for _ in 0..sizes.casts {
            tokio::time::sleep(PACE).await;
            let begun = quiet.send().await?;
            sends.push(begun.elapsed());
            tokio::time::sleep(PACE).await;
            let before = threads_cpu(&server.process, |_| true);
            casts.push(crowd.cast().await?);
            cpu += threads_cpu(&server.process, |_| true).saturating_sub(before);
            tokio::time::sleep(PACE).await;
            plain_casts.push(plain.cast(crowd.arrivals.bytes()).await?);
        }
        let middle = |times: &[Duration]| {
            let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
            median(&seconds)
        };
        let beyond = middle(&casts) - middle(&sends);
        ratios.push(beyond / middle(&plain_casts));
        let each = cpu.as_secs_f64() * 1e6 / (sizes.casts * subscribers) as f64;
        let name = |what: &str| format!("{subscribers} subscribers: {what}");
        section.add(&name("a send that nobody hears"), &percentiles(sends));
        let mut figures = percentiles(casts);
        figures.push((CPU, each));
        section.add(&name("a send to the last one's event"), &figures);
        section.add(&name("plain writes to as many"), &percentiles(plain_casts));
        section.others.push(others.cores());
    }
    let name = format!("{subscribers} subscribers, beyond the send, to plain writes");
    Ok((name, ratios))
}

async fn sender(world: &World) -> Result<HttpSender> {
    let sender = HttpSender::all(world).await?.pop();
    sender.context("a world without a sender")
}

/// Subscribers to everything that is sent in a workspace.
struct Crowd {
    sender: HttpSender,
    arrivals: Arrivals,
    last: LastArrival,
    _sockets: JoinSet<Result<()>>,
}

impl Crowd {
    async fn open(server: &Server, subscribers: usize) -> Result<Self> {
        let world = World::create(server, 1, 1).await?;
        let (address, key) = (world.address, world.key.clone());
        let sockets = open_all(subscribers, move |_| {
            let key = key.clone();
            async move {
                let mut socket = session::connect(address, &key).await?;
                let subscribe = r#"{"type":"subscribe","id":"all","pattern":"message.created"}"#;
                socket.say(subscribe).await?;
                socket.expect(r#"{"type":"ok""#).await?;
                Ok(socket)
            }
        });
        let (arrivals, last) = Arrivals::of(subscribers);
        let mut listening = JoinSet::new();
        for socket in sockets.await? {
            listening.spawn(listen(socket, br#"{"type":"event""#, arrivals.clone()));
        }
        Ok(Self {
            sender: sender(&world).await?,
            arrivals,
            last,
            _sockets: listening,
        })
    }

    /// Sends one message; how long until the last subscriber had the event.
    async fn cast(&mut self) -> Result<Duration> {
        let begun: Instant = self.sender.send().await?;
        Ok(self.last.wait().await? - begun)
    }
}
