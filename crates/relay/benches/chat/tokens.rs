//! What Relay adds to each token of a model's stream: delay and processor time, beside reading the provider's own stream.
//!
//! Every token is the time at which the provider said it. One stream at a time; at a pace, where each token goes its way alone, and as fast as it
//! goes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::figures::{Latencies, median, ratios};
use super::machine::Others;
use super::reader::Reader;
use super::world::{Asking, Way};
use super::{Effort, micros, spread};

/// The time between two tokens of a stream with a pace.
const PACE_MS: u32 = 5;

/// Tokens of a stream without; fewer than a chat keeps, so that a slow reader misses none.
const FAST: u32 = 5_000;

pub(crate) async fn run(effort: Effort) {
    let asking = Asking::start(&script(effort)).await;
    let others = Others::watch(asking.processes().to_vec());
    let (direct, relayed) = (asking.direct(), asking.relayed());
    let mut cases = [
        Case::new(&direct, "paced", 1),
        Case::new(&relayed, "paced", 1),
        Case::new(&direct, "fast", effort.fast),
        Case::new(&relayed, "fast", effort.fast),
    ];
    // The first of all pays for what is set up once.
    for case in &cases {
        case.read(&asking).await;
    }
    for _ in 0..effort.rounds {
        for case in &mut cases {
            let round = case.read(&asking).await;
            case.rounds.push(round);
        }
    }
    println!(
        "\n## Tokens\n\n{} rounds of {} tokens, one every {PACE_MS} ms, and of {} as fast as they come; others used {:.2} cores\n",
        effort.rounds,
        effort.paced,
        FAST as usize * effort.fast,
        others.cores()
    );
    println!(
        "| | tokens/s | p50 us late | p99 us late | CPU us a token: provider | Relay | client | all |\n|---|---|---|---|---|---|---|---|"
    );
    for case in &cases {
        case.show();
    }
    println!();
    let [paced, relayed_paced, fast, relayed_fast] = &cases;
    compare(&format!("one every {PACE_MS} ms"), paced, relayed_paced);
    compare("as fast as they come", fast, relayed_fast);
}

fn script(effort: Effort) -> Value {
    json!({ "turns": [
        { "when": { "model": "paced" }, "reply": [{ "clock": effort.paced, "everyMs": PACE_MS }] },
        { "when": { "model": "fast" }, "reply": [{ "clock": FAST }] },
    ] })
}

/// One way of reading one model.
struct Case<'a> {
    way: &'a Way<'a>,
    model: &'static str,
    streams: usize,
    rounds: Vec<Round>,
}

/// What one round came to.
struct Round {
    per_second: f64,
    late: Latencies,
    /// Microseconds a token: provider, Relay, client.
    cpu: [f64; 3],
}

impl Round {
    fn all_cpu(&self) -> f64 {
        self.cpu.iter().sum()
    }

    fn late(&self, percent: f64) -> f64 {
        micros(self.late.percentile(percent))
    }
}

impl<'a> Case<'a> {
    const fn new(way: &'a Way<'a>, model: &'static str, streams: usize) -> Self {
        Self {
            way,
            model,
            streams,
            rounds: Vec::new(),
        }
    }

    async fn read(&self, asking: &Asking) -> Round {
        let before = asking.spent();
        let mut ages = Vec::new();
        let mut reading = Duration::ZERO;
        for _ in 0..self.streams {
            let mut reader = Reader::connect(self.way.address).await;
            let body = self.way.body(self.model);
            reader.post(self.way.path, self.way.token, &body).await;
            let first = reader.age().await.unwrap();
            // Since it was said: some of what follows may have come with it.
            reading += first;
            ages.push(first);
            let begun = Instant::now();
            while let Some(age) = reader.age().await {
                ages.push(age);
            }
            reading += begun.elapsed();
        }
        let tokens = ages.len() as f64;
        let after = asking.spent();
        Round {
            per_second: tokens / reading.as_secs_f64(),
            late: Latencies::new(ages),
            cpu: std::array::from_fn(|at| (after[at] - before[at]) / tokens),
        }
    }

    fn of(&self, figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    fn show(&self) {
        let middle = |figure: &dyn Fn(&Round) -> f64| median(&self.of(figure));
        println!(
            "| {}, {} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.1} | {:.1} |",
            self.way.name,
            self.model,
            middle(&|round| round.per_second),
            middle(&|round| round.late(50.0)),
            middle(&|round| round.late(99.0)),
            middle(&|round| round.cpu[0]),
            middle(&|round| round.cpu[1]),
            middle(&|round| round.cpu[2]),
            middle(&Round::all_cpu),
        );
    }
}

/// What Relay adds, by rounds.
fn compare(name: &str, direct: &Case<'_>, relayed: &Case<'_>) {
    let more = |figure: &dyn Fn(&Round) -> f64| {
        let pairs = relayed.of(figure).into_iter().zip(direct.of(figure));
        pairs
            .map(|(relayed, direct)| relayed - direct)
            .collect::<Vec<_>>()
    };
    let cpu = ratios(&relayed.of(Round::all_cpu), &direct.of(Round::all_cpu));
    let delay = ratios(
        &relayed.of(|round| round.late(50.0)),
        &direct.of(|round| round.late(50.0)),
    );
    println!(
        "{name}: Relay adds {} us of delay (p50; {} times), {} us (p99), {} us of CPU ({} times)",
        spread(&more(&|round| round.late(50.0)), 0),
        spread(&delay, 2),
        spread(&more(&|round| round.late(99.0)), 0),
        spread(&more(&Round::all_cpu), 1),
        spread(&cpu, 2),
    );
}
