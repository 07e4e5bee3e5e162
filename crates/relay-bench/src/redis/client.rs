//! One connection to Redis, and clients that do there what a send does.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::resp::{Reply, parse, put_command};
use crate::load::Client;
use crate::text::text;
use crate::wire::Incoming;
use crate::world::receiver_of;

/// One connection.
pub(crate) struct Redis {
    stream: TcpStream,
    incoming: Incoming,
    outgoing: Vec<u8>,
}

/// A command out of texts.
macro_rules! command {
    ($($argument:expr),+ $(,)?) => { &[$(AsRef::<[u8]>::as_ref(&$argument)),+] };
}
pub(crate) use command;

impl Redis {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            incoming: Incoming::default(),
            outgoing: Vec::new(),
        })
    }

    /// Puts a command to those that are written next.
    pub(crate) fn queue(&mut self, command: &[&[u8]]) {
        put_command(&mut self.outgoing, command);
    }

    /// Writes what is queued.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.outgoing).await?;
        self.outgoing.clear();
        Ok(())
    }

    /// The next reply, which may not be an error.
    pub(crate) async fn next(&mut self) -> Result<Reply> {
        loop {
            if let Some((reply, bytes)) = parse(self.incoming.waiting())? {
                self.incoming.take(bytes);
                match reply {
                    Reply::Error(error) => bail!("Redis: {error}"),
                    reply => return Ok(reply),
                }
            }
            self.incoming.read(&mut self.stream).await?;
        }
    }

    /// Whether the next reply, or its beginning, is there already.
    fn has_more(&self) -> bool {
        !self.incoming.waiting().is_empty()
    }

    pub(crate) async fn ask(&mut self, command: &[&[u8]]) -> Result<Reply> {
        self.queue(command);
        self.flush().await?;
        self.next().await
    }
}

/// Appends one entry after the other to a stream.
pub(crate) struct Xadd {
    redis: Redis,
    number: usize,
}

impl Xadd {
    pub(crate) async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        let redis = Redis::connect(address).await?;
        Ok(Self { redis, number })
    }
}

impl Client for Xadd {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        self.number += 1;
        let text = text(self.number);
        let begun = Instant::now();
        let command = command!["XADD", "plain", "*", "text", text];
        self.redis.ask(command).await?;
        took.push(begun.elapsed());
        Ok(())
    }
}

/// Agents that are sent to.
const RECEIVERS: usize = 100;

/// Replies to the commands of a transaction.
const MULTI_REPLIES: usize = 7;

/// Queues what a send does, in one transaction: the message, its delivery, its place among what waits for
/// the receiver, and the two events.
fn queue_multi(redis: &mut Redis, client: usize, number: usize) {
    let message = format!("m:{client}:{number}");
    let delivery = format!("d:{client}:{number}");
    let from = format!("sender-{client}");
    let receiver = format!("receiver-{}", receiver_of(client, number, RECEIVERS));
    let (number, text) = (number.to_string(), text(number));
    let pending = format!("pending:{receiver}");
    redis.queue(&[b"MULTI"]);
    redis.queue(command![
        "HSET", message, "from", from, "to", receiver, "at", number, "text", text
    ]);
    redis.queue(command![
        "HSET", delivery, "message", message, "agent", receiver, "state", "pending", "at", number
    ]);
    redis.queue(command!["ZADD", pending, number, delivery]);
    redis.queue(command![
        "XADD",
        "events",
        "*",
        "type",
        "message.created",
        "message",
        message
    ]);
    redis.queue(command![
        "XADD",
        "events",
        "*",
        "type",
        "delivery.created",
        "delivery",
        delivery
    ]);
    redis.queue(&[b"EXEC"]);
}

async fn multi_done(redis: &mut Redis) -> Result<()> {
    for _ in 1..MULTI_REPLIES {
        redis.next().await?;
    }
    match redis.next().await? {
        Reply::List(Some(done)) if done.len() == MULTI_REPLIES - 2 => Ok(()),
        other => bail!("a transaction of Redis was answered {other:?}"),
    }
}

/// Does what a send does, one after the other.
pub(crate) struct Multi {
    redis: Redis,
    client: usize,
    number: usize,
}

impl Multi {
    pub(crate) async fn connect(address: SocketAddr, client: usize) -> Result<Self> {
        Ok(Self {
            redis: Redis::connect(address).await?,
            client,
            number: 0,
        })
    }
}

impl Client for Multi {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        self.number += 1;
        let begun = Instant::now();
        queue_multi(&mut self.redis, self.client, self.number);
        self.redis.flush().await?;
        multi_done(&mut self.redis).await?;
        took.push(begun.elapsed());
        Ok(())
    }
}

/// The same with several under way.
pub(crate) struct PipelinedMulti {
    multi: Multi,
    window: usize,
    under_way: VecDeque<Instant>,
}

impl PipelinedMulti {
    pub(crate) async fn connect(address: SocketAddr, client: usize, window: usize) -> Result<Self> {
        Ok(Self {
            multi: Multi::connect(address, client).await?,
            window,
            under_way: VecDeque::new(),
        })
    }

    async fn one_done(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        multi_done(&mut self.multi.redis).await?;
        took.extend(self.under_way.pop_front().map(|begun| begun.elapsed()));
        Ok(())
    }
}

impl Client for PipelinedMulti {
    async fn turn(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        while self.under_way.len() < self.window {
            self.multi.number += 1;
            let Multi {
                redis,
                client,
                number,
            } = &mut self.multi;
            queue_multi(redis, *client, *number);
            self.under_way.push_back(Instant::now());
        }
        self.multi.redis.flush().await?;
        self.one_done(took).await?;
        while !self.under_way.is_empty() && self.multi.redis.has_more() {
            self.one_done(took).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, took: &mut Vec<Duration>) -> Result<()> {
        while !self.under_way.is_empty() {
            self.one_done(took).await?;
        }
        Ok(())
    }
}
