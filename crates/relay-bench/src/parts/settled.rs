//! From a send over HTTP to the stored receipt of its delivery over a socket, beside Redis: append to the
//! receiver's stream, read as its consumer, acknowledge.
//!
//! In both, each sender waits until its message is settled before it sends the next, and each receiver has a
//! connection of its own on which it waits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::send::{HttpSender, warm_up};
use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::{Client, Load};
use crate::options::Part;
use crate::redis::{Instance, Redis, Reply, command};
use crate::report::{Column, Section};
use crate::session::{self, Handler};
use crate::text::text;
use crate::world::{World, receiver_of};

const OURS: &str = "Relay: send, deliver, receipt";
const THEIRS: &str = "Redis: XADD, XREADGROUP, XACK";

/// How long one message may take before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bell for each sender, which rings when its message is settled.
type Bells = Arc<[Notify]>;

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!(
        "send to stored receipt, {} clients, {} sessions",
        sizes.senders, sizes.sessions
    );
    let mut section = Section::new(Part::Settled, title);
    let server = bench.server().await?;
    let world = World::create(&server, sizes.senders, sizes.sessions).await?;
    let office = Office::open(&world, |_| Manner::Awaited).await?;
    let mut ours = office.senders().await?;
    Load::of(&server.process, &mut ours, warm_up(sizes)).await?;
    let redis = bench.redis().await?;
    let mut theirs = match &redis {
        Some(redis) => Some(Streams::open(redis, sizes.senders, sizes.sessions).await?),
        None => None,
    };
    for _ in 0..sizes.rounds {
        let redis_process = redis.as_ref().map(|redis| &redis.process);
        let others = bench
            .begin_round([&server.process].into_iter().chain(redis_process))
            .await;
        let load = Load::of(&server.process, &mut ours, sizes.turn).await?;
        section.add(OURS, &load.figures());
        if let (Some(streams), Some(redis)) = (&mut theirs, &redis) {
            let load = Load::of(&redis.process, &mut streams.senders, sizes.turn).await?;
            section.add(THEIRS, &load.figures());
        }
        section.others.push(others.cores());
    }
    let goal = Some(Goal::AtLeast(0.6));
    section.compare("Relay to Redis", Column::RATE, (OURS, THEIRS), goal);
    let cpu = "server CPU, Relay to Redis";
    section.compare(cpu, Column::SERVER_CPU, (OURS, THEIRS), None);
    Ok(section)
}

fn bells(senders: usize) -> Bells {
    (0..senders).map(|_| Notify::new()).collect()
}

/// Waits until the message of a sender is settled.
async fn rung(bells: &Bells, sender: usize) -> Result<()> {
    let rung = tokio::time::timeout(PATIENCE, bells[sender].notified());
    rung.await.context("a message was never settled")
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

/// Sessions for all receivers of a world, until it is dropped.
pub(super) struct Office {
    world: World,
    bells: Bells,
    manners: Arc<[Manner]>,
    _sessions: JoinSet<Result<()>>,
}

impl Office {
    /// Attaches a session for each receiver, with the manner of its number.
    pub(super) async fn open(world: &World, manner: impl Fn(usize) -> Manner) -> Result<Self> {
        let bells = bells(world.senders.len());
        let manners: Arc<[Manner]> = (0..world.receivers.len()).map(manner).collect();
        let mut sessions = JoinSet::new();
        for (agent, manner) in world.receivers.iter().zip(manners.iter()) {
            let socket = session::attach(world.address, agent).await?;
            let handler = Clerk {
                bells: bells.clone(),
                manner: *manner,
            };
            sessions.spawn(session::serve(socket, handler));
        }
        Ok(Self {
            world: world.clone(),
            bells,
            manners,
            _sessions: sessions,
        })
    }

    /// Senders that wait until what they sent is settled, where that is awaited.
    pub(super) async fn senders(&self) -> Result<Vec<SettledSender>> {
        let senders = HttpSender::all(&self.world).await?.into_iter();
        let settled = senders.map(|http| SettledSender {
            http,
            bells: self.bells.clone(),
            manners: self.manners.clone(),
        });
        Ok(settled.collect())
    }
}

struct Clerk {
    bells: Bells,
    manner: Manner,
}

impl Handler for Clerk {
    fn delivered(&mut self, _: usize) -> bool {
        self.manner != Manner::Silent
    }

    fn settled(&mut self, sender: usize) {
        if self.manner == Manner::Awaited {
            self.bells[sender].notify_one();
        }
    }
}

/// Sends over HTTP and waits until that is settled.
pub(super) struct SettledSender {
    http: HttpSender,
    bells: Bells,
    manners: Arc<[Manner]>,
}

impl Client for SettledSender {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        let begun = self.http.send().await?;
        let sender = self.http.sender;
        let receiver = self.http.world.receiver(sender, self.http.number);
        if self.manners[receiver] == Manner::Awaited {
            rung(&self.bells, sender).await?;
            took.push(begun.elapsed());
        }
        Ok(())
    }
}

/// A stream for each receiver with a consumer that waits on it, and senders that append.
struct Streams {
    senders: Vec<StreamSender>,
    _consumers: JoinSet<Result<()>>,
}

impl Streams {
    async fn open(redis: &Instance, senders: usize, receivers: usize) -> Result<Self> {
        let bells = bells(senders);
        let mut consumers = JoinSet::new();
        for receiver in 0..receivers {
            let mut redis = Redis::connect(redis.address).await?;
            let stream = format!("stream-{receiver}");
            let create = command!["XGROUP", "CREATE", stream, "group", "$", "MKSTREAM"];
            redis.ask(create).await?;
            consumers.spawn(consume(redis, stream, bells.clone()));
        }
        let mut all = Vec::new();
        for sender in 0..senders {
            all.push(StreamSender {
                redis: Redis::connect(redis.address).await?,
                bells: bells.clone(),
                sender,
                receivers,
                number: 0,
            });
        }
        Ok(Self {
            senders: all,
            _consumers: consumers,
        })
    }
}

/// Entries that a consumer takes at a time, as many as a session has in flight.
const WINDOW: &str = "32";

/// Reads, acknowledges, and rings once that is stored; the next reading goes out with the acknowledgement.
async fn consume(mut redis: Redis, stream: String, bells: Bells) -> Result<()> {
    let read = command![
        "XREADGROUP",
        "GROUP",
        "group",
        "consumer",
        "COUNT",
        WINDOW,
        "BLOCK",
        "0",
        "STREAMS",
        stream,
        ">"
    ];
    redis.queue(read);
    redis.flush().await?;
    loop {
        let entries = entries(redis.next().await?);
        let ids = entries.iter().map(|(id, _)| id.as_slice());
        let acknowledge: Vec<&[u8]> = [b"XACK".as_slice(), stream.as_bytes(), b"group"]
            .into_iter()
            .chain(ids)
            .collect();
        redis.queue(&acknowledge);
        redis.queue(read);
        redis.flush().await?;
        redis.next().await?;
        for (_, sender) in entries {
            bells[sender].notify_one();
        }
    }
}

/// The id and the sender of each entry that was read.
fn entries(reply: Reply) -> Vec<(Vec<u8>, usize)> {
    // [[stream, [[id, [field, value, ...]], ...]]]
    let stream = list(reply).pop().map(list);
    let entries = stream.and_then(|mut stream| stream.pop()).map(list);
    let entry = |entry| {
        let mut parts = list(entry).into_iter();
        let (id, fields) = (parts.next()?, parts.next()?);
        let (Reply::Bulk(Some(id)), Some(Reply::Bulk(Some(sender)))) =
            (id, list(fields).into_iter().nth(1))
        else {
            return None;
        };
        let sender = String::from_utf8(sender).ok()?.parse().ok()?;
        Some((id, sender))
    };
    entries
        .unwrap_or_default()
        .into_iter()
        .filter_map(entry)
        .collect()
}

fn list(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::List(Some(items)) => items,
        _ => Vec::new(),
    }
}

struct StreamSender {
    redis: Redis,
    bells: Bells,
    sender: usize,
    receivers: usize,
    number: usize,
}

impl Client for StreamSender {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        self.number += 1;
        let receiver = receiver_of(self.sender, self.number, self.receivers);
        let (stream, sender) = (format!("stream-{receiver}"), self.sender.to_string());
        let text = text(self.number);
        let begun = Instant::now();
        let append = command!["XADD", stream, "*", "sender", sender, "text", text];
        self.redis.ask(append).await?;
        rung(&self.bells, self.sender).await?;
        took.push(begun.elapsed());
        Ok(())
    }
}
