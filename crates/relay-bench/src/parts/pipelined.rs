//! Durable sends over sockets, several under way on each, beside Redis doing the same work.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::send::{SAME_WORK, is_under_way, warm_up};
use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::{Client, Load};
use crate::options::Part;
use crate::redis::{Multi, PipelinedMulti};
use crate::report::{Column, Section};
use crate::session;
use crate::text::TEXT_BYTES;
use crate::wire::WebSocket;
use crate::world::World;

/// Sends under way on each of many sockets.
const WINDOW: usize = 8;

/// Sends under way on a single socket.
const SINGLE_WINDOW: usize = 64;

const MANY: &str = "Relay, all sockets, 8 under way on each";
const SINGLE: &str = "Relay, one socket, 64 under way";
const PIPELINED: &str = "Redis, the same with 8 under way on each";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!(
        "durable sends over {} sockets, pipelined, {TEXT_BYTES} B, one recipient",
        sizes.senders
    );
    let mut section = Section::new(Part::Pipelined, title);
    let server = bench.server().await?;
    let world = World::create(&server, sizes.senders, sizes.receivers).await?;
    let mut many = SocketSender::all(&world).await?;
    Load::of(&server.process, &mut many, warm_up(sizes)).await?;
    // Alone it would fill the queues of the few receivers that a sender usually talks to.
    let widely = World {
        peers: sizes.receivers,
        ..world.clone()
    };
    let redis = bench.redis().await?;
    let (mut multi, mut pipelined) = (Vec::new(), Vec::new());
    if let Some(redis) = &redis {
        for client in 0..sizes.senders {
            multi.push(Multi::connect(redis.address, client).await?);
            let client = client + sizes.senders;
            pipelined.push(PipelinedMulti::connect(redis.address, client, WINDOW).await?);
        }
    }
    for _ in 0..sizes.rounds {
        let redis_process = redis.as_ref().map(|redis| &redis.process);
        let others = bench
            .begin_round([&server.process].into_iter().chain(redis_process))
            .await;
        // New sockets, because those of the last round answer no pings while nobody reads from them.
        let mut many = SocketSender::all(&world).await?;
        let mut single = vec![SocketSender::connect(&widely, 0, SINGLE_WINDOW).await?];
        let load = Load::of(&server.process, &mut many, sizes.turn).await?;
        section.add(MANY, &load.figures());
        let load = Load::of(&server.process, &mut single, sizes.turn).await?;
        section.add(SINGLE, &load.figures());
        if let Some(redis) = &redis {
            let load = Load::of(&redis.process, &mut multi, sizes.turn).await?;
            section.add(SAME_WORK, &load.figures());
            let load = Load::of(&redis.process, &mut pipelined, sizes.turn).await?;
            section.add(PIPELINED, &load.figures());
        }
        section.others.push(others.cores());
    }
    let goal = Some(Goal::AtLeast(1.0));
    let column = Column::RATE;
    section.compare("Relay to Redis, same work", column, (MANY, SAME_WORK), goal);
    section.compare(
        "one socket to Redis, same work",
        column,
        (SINGLE, SAME_WORK),
        None,
    );
    section.compare(
        "Relay to Redis, pipelined as well",
        column,
        (MANY, PIPELINED),
        None,
    );
    Ok(section)
}

/// Sends with several messages under way.
pub(super) struct SocketSender {
    socket: WebSocket,
    world: World,
    sender: usize,
    number: usize,
    window: usize,
    under_way: VecDeque<Instant>,
}

impl SocketSender {
    /// One for each sender of a world.
    async fn all(world: &World) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for sender in 0..world.senders.len() {
            all.push(Self::connect(world, sender, WINDOW).await?);
        }
        Ok(all)
    }

    pub(super) async fn connect(world: &World, sender: usize, window: usize) -> Result<Self> {
        let token = &world.senders[sender].token;
        Ok(Self {
            socket: session::connect(world.address, token).await?,
            world: world.clone(),
            sender,
            number: 0,
            window,
            under_way: VecDeque::new(),
        })
    }

    /// Begins so many sends.
    async fn begin(&mut self, sends: usize) -> Result<()> {
        for _ in 0..sends {
            self.number += 1;
            let body = self.world.message(self.sender, self.number);
            let frame = format!(r#"{{"type":"send",{}"#, &body[1..]);
            self.socket.queue(&frame);
            self.under_way.push_back(Instant::now());
        }
        self.socket.flush().await
    }

    /// Waits for the answer to the oldest.
    async fn one_sent(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        let answer = self.socket.next().await?;
        if !answer.starts_with(br#"{"type":"sent""#) || !is_under_way(answer) {
            bail!("a send was answered {}", String::from_utf8_lossy(answer));
        }
        took.extend(self.under_way.pop_front().map(|begun| begun.elapsed()));
        Ok(())
    }

    /// Sends so many messages, the window's size under way.
    pub(super) async fn send(&mut self, messages: usize) -> Result<()> {
        let mut took = Vec::new();
        let mut begun = 0;
        while took.len() < messages {
            let more = (self.window - self.under_way.len()).min(messages - begun);
            self.begin(more).await?;
            begun += more;
            self.one_sent(&mut took).await?;
            while self.socket.has_more() {
                self.one_sent(&mut took).await?;
            }
        }
        Ok(())
    }
}

impl Client for SocketSender {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        self.begin(self.window - self.under_way.len()).await?;
        self.one_sent(took).await?;
        while !self.under_way.is_empty() && self.socket.has_more() {
            self.one_sent(took).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        while !self.under_way.is_empty() {
            self.one_sent(took).await?;
        }
        Ok(())
    }
}
