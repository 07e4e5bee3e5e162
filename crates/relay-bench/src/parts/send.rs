//! Durable sends over HTTP, each client one at a time, beside Redis doing the same work.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::{Client, Load};
use crate::options::{Part, Sizes};
use crate::redis::{Instance, Multi, Xadd};
use crate::report::{Column, Section};
use crate::text::TEXT_BYTES;
use crate::wire::{Answer, Http};
use crate::world::World;

pub(super) const OURS: &str = "Relay, HTTP";
pub(super) const SAME_WORK: &str = "Redis, MULTI of the same work";
const XADD: &str = "Redis, plain XADD";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!(
        "durable sends over HTTP, {} clients, {TEXT_BYTES} B, one recipient",
        sizes.senders
    );
    let mut section = Section::new(Part::Send, title);
    let server = bench.server().await?;
    let world = World::create(&server, sizes.senders, sizes.receivers).await?;
    let mut ours = HttpSender::all(&world).await?;
    Load::of(&server.process, &mut ours, warm_up(sizes)).await?;
    let redis = bench.redis().await?;
    let mut theirs = match &redis {
        Some(redis) => Some(RedisClients::connect(redis, sizes.senders).await?),
        None => None,
    };
    for _ in 0..sizes.rounds {
        let redis_process = redis.as_ref().map(|redis| &redis.process);
        let others = bench
            .begin_round([&server.process].into_iter().chain(redis_process))
            .await;
        let load = Load::of(&server.process, &mut ours, sizes.turn).await?;
        section.add(OURS, &load.figures());
        if let (Some(theirs), Some(redis)) = (&mut theirs, &redis) {
            let multi = Load::of(&redis.process, &mut theirs.multi, sizes.turn).await?;
            section.add(SAME_WORK, &multi.figures());
            let xadd = Load::of(&redis.process, &mut theirs.xadd, sizes.turn).await?;
            section.add(XADD, &xadd.figures());
        }
        section.others.push(others.cores());
    }
    let goal = Some(Goal::AtLeast(0.6));
    section.compare(
        "Relay to Redis, same work",
        Column::RATE,
        (OURS, SAME_WORK),
        goal,
    );
    section.compare("Relay to plain XADD", Column::RATE, (OURS, XADD), None);
    let cpu = "server CPU, Relay to Redis, same work";
    section.compare(cpu, Column::SERVER_CPU, (OURS, SAME_WORK), None);
    Ok(section)
}

/// How long to send before anything counts: conversations begin, caches fill.
pub(super) fn warm_up(sizes: &Sizes) -> Duration {
    sizes.turn / 2
}

struct RedisClients {
    multi: Vec<Multi>,
    xadd: Vec<Xadd>,
}

impl RedisClients {
    async fn connect(redis: &Instance, clients: usize) -> Result<Self> {
        let (mut multi, mut xadd) = (Vec::new(), Vec::new());
        for client in 0..clients {
            multi.push(Multi::connect(redis.address, client).await?);
            xadd.push(Xadd::connect(redis.address, client).await?);
        }
        Ok(Self { multi, xadd })
    }
}

/// Sends one message after the other.
pub(super) struct HttpSender {
    http: Http,
    pub(super) world: World,
    pub(super) sender: usize,
    pub(super) number: usize,
}

impl HttpSender {
    /// One for each sender of a world.
    pub(super) async fn all(world: &World) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for (sender, agent) in world.senders.iter().enumerate() {
            all.push(Self {
                http: Http::connect(world.address, &agent.token).await?,
                world: world.clone(),
                sender,
                number: 0,
            });
        }
        Ok(all)
    }

    /// Sends the next message; returns when it was begun, once it is stored.
    pub(super) async fn send(&mut self) -> Result<Instant> {
        self.number += 1;
        let body = self.world.message(self.sender, self.number);
        let begun = Instant::now();
        let answer = self.http.ask("POST", "/v1/messages", &body).await?;
        check_sent(&answer)?;
        Ok(begun)
    }
}

/// What was sent has to be under way: neither refused nor held back.
fn check_sent(answer: &Answer<'_>) -> Result<()> {
    if answer.status == 201 && is_under_way(answer.body) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(answer.body);
    bail!("a send was answered {}: {said}", answer.status)
}

/// Whether an answer to a send says that a delivery is under way.
pub(super) fn is_under_way(answer: &[u8]) -> bool {
    memchr::memmem::find(answer, br#""state":"pending""#).is_some()
}

impl Client for HttpSender {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        let begun = self.send().await?;
        took.push(begun.elapsed());
        Ok(())
    }
}
