//! Many chats at once, each with tokens at a pace, beside a plain server that writes the same bytes at the same pace. The model is a script in Relay's own
//! process, so that what is measured is Relay and not its provider.
//!
//! Streams are opened one after the other at even distances in both, are watched for a while once all have begun, and are left: the server is
//! a new one in each round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::figures::{Latencies, median, ratios};
use super::machine::{Others, resident, this_process, threads_cpu};
use super::reader::Reader;
use super::role::{PLAIN, Role};
use super::world::World;
use super::{Effort, millis, spread};

/// The time between two tokens of a stream.
pub(crate) const PACE: Duration = Duration::from_millis(50);

/// The time between the beginnings of two streams.
const APART: Duration = Duration::from_millis(5);

/// How long nothing is noted after all have begun.
const SETTLING: Duration = Duration::from_secs(1);

pub(crate) async fn run(effort: Effort) {
    let (mut plain, mut relay) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        plain.push(of_plain(effort).await);
        relay.push(of_relay(effort).await);
    }
    let others: Vec<f64> = plain
        .iter()
        .chain(&relay)
        .map(|round| round.others)
        .collect();
    println!(
        "\n## Streams\n\n{} rounds of {} streams, a token every {} ms in each, watched for {:.0} s; others used {:.2} cores\n",
        effort.rounds,
        effort.streams,
        PACE.as_millis(),
        effort.watched.as_secs_f64(),
        median(&others)
    );
    println!(
        "| | gap p50 ms | p99 | max | late p50 ms | p99 | cores, server | cores, clients | tokens/s | begun in s |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    show("plain", &plain);
    show("Relay", &relay);
    println!(
        "\n| | MiB in all, at the end | KiB a stream, all begun | tokens of each so far | KiB a stream, at the end | bytes a token more |\n|---|---|---|---|---|---|"
    );
    show_memory("plain", &plain);
    show_memory("Relay", &relay);
    let ratio = ratios(
        &of(&relay, |round| round.server_cores),
        &of(&plain, |round| round.server_cores),
    );
    println!(
        "\nCPU us a token: plain {}, Relay {}, {} times",
        spread(&of(&plain, Round::cpu_of_token), 1),
        spread(&of(&relay, Round::cpu_of_token), 1),
        spread(&ratio, 2)
    );
}

/// What one round came to.
struct Round {
    gaps: Latencies,
    late: Latencies,
    server_cores: f64,
    client_cores: f64,
    per_second: f64,
    begun_in: f64,
    others: f64,
    /// Bytes of the server that are resident, mapped files included.
    all_bytes: f64,
    /// How much its own memory has grown for each stream when all had begun, and tokens of each until then.
    grown_first: f64,
    tokens_first: f64,
    /// The same at the end.
    grown_last: f64,
    tokens_last: f64,
}

impl Round {
    fn cpu_of_token(&self) -> f64 {
        self.server_cores * 1e6 / self.per_second
    }

    fn bytes_of_token(&self) -> f64 {
        (self.grown_last - self.grown_first) / (self.tokens_last - self.tokens_first)
    }
}

async fn of_plain(effort: Effort) -> Round {
    let server = Role::start(&[PLAIN]).await;
    measure(effort, server.address, &server.process, "none", "{}").await
}

async fn of_relay(effort: Effort) -> Round {
    let script = tempfile::NamedTempFile::new().unwrap();
    let clock = json!({ "clock": 1_000_000, "everyMs": PACE.as_millis() as u64 });
    let turns = json!({ "turns": [], "otherwise": [clock] });
    std::fs::write(script.path(), turns.to_string()).unwrap();
    let settings = format!(
        "[providers.paced]\nkind = \"script\"\nscript = {:?}\n",
        script.path()
    );
    let world = World::start(&settings).await;
    let body =
        json!({ "model": "paced/script", "messages": [{ "role": "user", "content": "go" }] });
    let server = &world.server;
    measure(
        effort,
        server.address,
        &server.process,
        world.key(),
        &body.to_string(),
    )
    .await
}

/// What all readers share.
#[derive(Default)]
struct Watched {
    begun: AtomicUsize,
    tokens: AtomicU64,
    phase: AtomicU8,
}

/// Nothing is noted yet; what comes is noted; readers leave.
const OPENING: u8 = 0;
const NOTING: u8 = 1;
const LEAVING: u8 = 2;

async fn measure(
    effort: Effort,
    address: SocketAddr,
    process: &str,
    token: &str,
    body: &str,
) -> Round {
    let streams = effort.streams as f64;
    let empty = resident(process, "RssAnon");
    let grown = || (resident(process, "RssAnon") - empty) / streams;
    let watched = Arc::new(Watched::default());
    let opening = Instant::now();
    let mut readers = open(effort.streams, address, token, body, &watched).await;
    let begun_in = opening.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLING).await;

    let tokens = || watched.tokens.load(Ordering::Relaxed) as f64;
    let cpu = |process: &str| threads_cpu(process, |_| true).as_secs_f64();
    let others = Others::watch(vec![process.to_owned(), this_process()]);
    let (grown_first, tokens_first) = (grown(), tokens());
    let (server_first, client_first) = (cpu(process), cpu(&this_process()));
    let begun = Instant::now();
    watched.phase.store(NOTING, Ordering::Relaxed);
    tokio::time::sleep(effort.watched).await;
    watched.phase.store(LEAVING, Ordering::Relaxed);
    let time = begun.elapsed().as_secs_f64();
    let (server_last, client_last) = (cpu(process), cpu(&this_process()));
    let (grown_last, tokens_last) = (grown(), tokens());
    let (others, all_bytes) = (others.cores(), resident(process, "VmRSS"));

    let (mut gaps, mut late) = (Vec::new(), Vec::new());
    while let Some(seen) = readers.join_next().await {
        let seen = seen.unwrap();
        gaps.extend(seen.gaps);
        late.extend(seen.late);
    }
    Round {
        gaps: Latencies::new(gaps),
        late: Latencies::new(late),
        server_cores: (server_last - server_first) / time,
        client_cores: (client_last - client_first) / time,
        per_second: (tokens_last - tokens_first) / time,
        begun_in,
        others,
        all_bytes,
        grown_first,
        tokens_first: tokens_first / streams,
        grown_last,
        tokens_last: tokens_last / streams,
    }
}

/// Opens all streams, and waits until each has brought something.
async fn open(
    streams: usize,
    address: SocketAddr,
    token: &str,
    body: &str,
    watched: &Arc<Watched>,
) -> JoinSet<Seen> {
    let mut readers = JoinSet::new();
    let mut next = tokio::time::interval(APART);
    for _ in 0..streams {
        next.tick().await;
        let (watched, token, body) = (watched.clone(), token.to_owned(), body.to_owned());
        readers.spawn(async move {
            let mut reader = Reader::connect(address).await;
            reader.post("/chat", &token, &body).await;
            watch(reader, &watched).await
        });
    }
    while watched.begun.load(Ordering::Relaxed) < streams {
        assert!(readers.try_join_next().is_none(), "a stream ended early");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    readers
}

/// What one reader saw.
#[derive(Default)]
struct Seen {
    gaps: Vec<Duration>,
    late: Vec<Duration>,
}

/// Reads a stream until it is left.
async fn watch(mut reader: Reader, watched: &Watched) -> Seen {
    let mut seen = Seen::default();
    let mut last = None;
    while let Some(age) = reader.age().await {
        let now = Instant::now();
        watched.tokens.fetch_add(1, Ordering::Relaxed);
        match (watched.phase.load(Ordering::Relaxed), last.replace(now)) {
            (OPENING, None) => {
                watched.begun.fetch_add(1, Ordering::Relaxed);
            }
            (NOTING, Some(before)) => {
                seen.gaps.push(now - before);
                seen.late.push(age);
            }
            (LEAVING, _) => return seen,
            _ => {}
        }
    }
    panic!("a stream ended");
}

fn of(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Vec<f64> {
    rounds.iter().map(figure).collect()
}

fn show(name: &str, rounds: &[Round]) {
    let gap = |percent| of(rounds, |round| millis(round.gaps.percentile(percent)));
    let late = |percent| of(rounds, |round| millis(round.late.percentile(percent)));
    println!(
        "| {name} | {:.1} | {} | {} | {:.2} | {} | {} | {:.2} | {:.0} | {:.1} |",
        median(&gap(50.0)),
        spread(&gap(99.0), 1),
        spread(&gap(100.0), 0),
        median(&late(50.0)),
        spread(&late(99.0), 1),
        spread(&of(rounds, |round| round.server_cores), 2),
        median(&of(rounds, |round| round.client_cores)),
        median(&of(rounds, |round| round.per_second)),
        median(&of(rounds, |round| round.begun_in)),
    );
}

fn show_memory(name: &str, rounds: &[Round]) {
    println!(
        "| {name} | {} | {} | {:.0} | {} | {} |",
        spread(&of(rounds, |round| round.all_bytes / 1024.0 / 1024.0), 1),
        spread(&of(rounds, |round| round.grown_first / 1024.0), 1),
        median(&of(rounds, |round| round.tokens_first)),
        spread(&of(rounds, |round| round.grown_last / 1024.0), 1),
        spread(&of(rounds, Round::bytes_of_token), 0),
    );
}
