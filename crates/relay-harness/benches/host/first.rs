//! From a prompt to the first text of its turn.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent::session;
use super::figures::{Latencies, median};
use super::plain::Plain;
use super::{Effort, micros};

pub(crate) async fn run(effort: Effort) {
    println!(
        "\n## Time to the first text\n\n{} turns, {} rounds\n",
        effort.turns, effort.rounds
    );
    println!("| | p50 us | p99 us |\n|---|---|---|");
    let (mut plain, mut host) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        plain.push(Latencies::new(of_plain(effort.turns).await));
        host.push(Latencies::new(of_host(effort.turns).await));
    }
    show("plain", &plain);
    show("host", &host);
}

fn script() -> Value {
    json!({"turns": [[{"text": "first"}, {"stop": "end_turn"}]]})
}

async fn of_plain(turns: usize) -> Vec<Duration> {
    let mut agent = Plain::start(&script()).await;
    let mut all = Vec::new();
    for _ in 0..turns {
        let begun = Instant::now();
        agent.prompt().await;
        agent.text().await.unwrap();
        all.push(begun.elapsed());
        while agent.text().await.is_some() {}
    }
    agent.stop().await;
    all
}

async fn of_host(turns: usize) -> Vec<Duration> {
    let session = session(&script()).await;
    let mut all = Vec::new();
    for _ in 0..turns {
        let begun = Instant::now();
        let mut turn = session.prompt(["go"]).await.unwrap();
        turn.next().await.unwrap();
        all.push(begun.elapsed());
        turn.finish().await.unwrap();
    }
    session.host().stop().await;
    all
}

fn show(name: &str, rounds: &[Latencies]) {
    let of = |percent| {
        let rounds = rounds.iter().map(|round| micros(round.percentile(percent)));
        median(&rounds.collect::<Vec<_>>())
    };
    println!("| {name} | {:.0} | {:.0} |", of(50.0), of(99.0));
}
