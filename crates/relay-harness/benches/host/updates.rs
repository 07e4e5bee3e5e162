//! A turn of many updates: how late each is read, and what reading it costs.

use std::time::{Duration, Instant};

use relay_harness::acp::event::Event;
use serde_json::json;

use super::agent::{age, session};
use super::figures::{Latencies, median, range, ratios};
use super::machine::{Others, this_process, threads_cpu};
use super::plain::Plain;
use super::{Effort, micros};

/// A model of a fast provider writes some hundred pieces a second; this is a hundred such turns at once.
const PER_SECOND: u64 = 10_000;

/// More than any pipe carries.
const UNPACED: u64 = 1_000_000_000;

struct Round {
    per_second: f64,
    p50: f64,
    p99: f64,
    cpu: f64,
}

pub(crate) async fn run(effort: Effort) {
    println!(
        "\n## Updates\n\n{} updates in a turn, {} rounds\n",
        effort.updates, effort.rounds
    );
    println!("| | updates/s | p50 us | p99 us | CPU us/update |\n|---|---|---|---|---|");
    for (name, rate) in [("at 10,000/s", PER_SECOND), ("as fast as it goes", UNPACED)] {
        let others = Others::watch(vec![this_process()]);
        let (mut plain, mut host) = (Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            plain.push(plain_round(effort.updates, rate).await);
            host.push(host_round(effort.updates, rate).await);
        }
        show(&format!("plain, {name}"), &plain);
        show(&format!("host, {name}"), &host);
        let cpu = |rounds: &[Round]| rounds.iter().map(|round| round.cpu).collect::<Vec<_>>();
        let ratio = ratios(&cpu(&host), &cpu(&plain));
        let (least, most) = range(&ratio);
        println!(
            "| host/plain, {name} | | | | {:.2} ({least:.2}-{most:.2}; others used {:.2} cores) |",
            median(&ratio),
            others.cores()
        );
    }
}

async fn plain_round(updates: u64, rate: u64) -> Round {
    let script = script(updates, rate);
    let mut agent = Plain::start(&script).await;
    let measuring = Measuring::begin();
    agent.prompt().await;
    let mut ages = Vec::new();
    while let Some(text) = agent.text().await {
        ages.extend(age(&text));
    }
    let round = measuring.end(ages);
    agent.stop().await;
    round
}

async fn host_round(updates: u64, rate: u64) -> Round {
    let session = session(&script(updates, rate)).await;
    let measuring = Measuring::begin();
    let mut turn = session.prompt(["go"]).await.unwrap();
    let mut ages = Vec::new();
    while let Some(event) = turn.next().await {
        if let Event::Text { text } = &event.event {
            ages.extend(age(text));
        }
    }
    let round = measuring.end(ages);
    session.host().stop().await;
    round
}

fn script(updates: u64, rate: u64) -> serde_json::Value {
    json!({"turns": [[{"stamps": [updates, rate]}, {"stop": "end_turn"}]]})
}

struct Measuring {
    begun: Instant,
    cpu: Duration,
}

impl Measuring {
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
            cpu: threads_cpu("self", |_| true),
        }
    }

    fn end(self, ages: Vec<Duration>) -> Round {
        let cpu = threads_cpu("self", |_| true).saturating_sub(self.cpu);
        let count = ages.len() as f64;
        let per_second = count / self.begun.elapsed().as_secs_f64();
        let ages = Latencies::new(ages);
        Round {
            per_second,
            p50: micros(ages.percentile(50.0)),
            p99: micros(ages.percentile(99.0)),
            cpu: micros(cpu) / count,
        }
    }
}

fn show(name: &str, rounds: &[Round]) {
    let of = |what: fn(&Round) -> f64| median(&rounds.iter().map(what).collect::<Vec<_>>());
    println!(
        "| {name} | {:.0} | {:.0} | {:.0} | {:.1} |",
        of(|round| round.per_second),
        of(|round| round.p50),
        of(|round| round.p99),
        of(|round| round.cpu)
    );
}
