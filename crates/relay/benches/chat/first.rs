//! From asking to the first byte of the answer and to the first token, beside asking the provider itself. The connection to whoever is asked is
//! there already; that from Relay to the provider is Relay's concern.

use std::time::{Duration, Instant};

use serde_json::json;

use super::figures::{Latencies, median};
use super::machine::Others;
use super::reader::Reader;
use super::world::{Asking, Way};
use super::{Effort, millis, spread, synced_write};

pub(crate) async fn run(effort: Effort) {
    let asking = Asking::start(&json!({ "turns": [], "otherwise": [{ "clock": 1 }] })).await;
    let others = Others::watch(asking.processes().to_vec());
    let ways = [asking.direct(), asking.relayed()];
    let mut rounds = [Vec::new(), Vec::new()];
    for way in &ways {
        begin(way).await;
    }
    for _ in 0..effort.rounds {
        for (way, rounds) in ways.iter().zip(&mut rounds) {
            let mut round = Round::default();
            for _ in 0..effort.begun {
                let [byte, token, end] = begin(way).await;
                round.bytes.push(byte);
                round.tokens.push(token);
                round.ends.push(end);
            }
            rounds.push(round);
        }
    }
    println!(
        "\n## The first byte\n\n{} rounds of {} chats one after the other; others used {:.2} cores, {}\n",
        effort.rounds,
        effort.begun,
        others.cores(),
        synced_write(asking.world.directory.path())
    );
    println!(
        "| | first byte, p50 ms | p99 | first token, p50 ms | p99 | end, p50 ms |\n|---|---|---|---|---|---|"
    );
    for (way, rounds) in ways.iter().zip(&rounds) {
        let of = |times: fn(&Round) -> &Vec<Duration>, percent: f64| {
            let all = rounds.iter().map(|round| {
                let times = Latencies::new(times(round).clone());
                millis(times.percentile(percent))
            });
            all.collect::<Vec<_>>()
        };
        println!(
            "| {} | {} | {:.2} | {} | {:.2} | {} |",
            way.name,
            spread(&of(|round| &round.bytes, 50.0), 2),
            median(&of(|round| &round.bytes, 99.0)),
            spread(&of(|round| &round.tokens, 50.0), 2),
            median(&of(|round| &round.tokens, 99.0)),
            spread(&of(|round| &round.ends, 50.0), 2),
        );
    }
}

#[derive(Default)]
struct Round {
    bytes: Vec<Duration>,
    tokens: Vec<Duration>,
    ends: Vec<Duration>,
}

/// Until the first byte, until the first token, and until the end.
async fn begin(way: &Way<'_>) -> [Duration; 3] {
    let mut reader = Reader::connect(way.address).await;
    let body = way.body("first");
    let begun = Instant::now();
    reader.post(way.path, way.token, &body).await;
    assert!(reader.more().await);
    let byte = begun.elapsed();
    reader.age().await.unwrap();
    let token = begun.elapsed();
    reader.until_the_end().await;
    [byte, token, begun.elapsed()]
}
