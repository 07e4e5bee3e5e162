//! What a send, an inbox and a search cost in a small and in a large database.
//!
//! Both databases have the same number of messages for each agent, and each agent has read all but the
//! last of them, as agents that have worked for a while have. Rounds of both sizes alternate.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use relay_core::{Caller, PageQuery};
use relay_protocol::api::messages::SearchQuery;
use tempfile::TempDir;

use crate::Effort;
use crate::measure::{cpu, median, watch_others};
use crate::sends::send_all;
use crate::world::{World, directory};

const SMALL: usize = 10_000;

const SENDERS: usize = 64;

/// Messages that each agent has got.
const PER_AGENT: usize = 1_000;

/// Messages of those that each agent has not read.
const UNREAD: usize = 100;

#[derive(Default)]
struct Costs {
    send_cpu: Vec<f64>,
    send_rate: Vec<f64>,
    inbox: Vec<f64>,
    rare: Vec<f64>,
    common: Vec<f64>,
}

struct Grown {
    _scratch: TempDir,
    world: Arc<World>,
    readers: Vec<Caller>,
    sent: usize,
}

/// Prints the table.
pub(crate) fn run(out: &mut impl Write, effort: Effort) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut worlds = [grow(SMALL).await, grow(effort.large).await];
        let mut costs = [Costs::default(), Costs::default()];
        let others = watch_others();
        for _ in 0..effort.rounds {
            for (grown, costs) in worlds.iter_mut().zip(&mut costs) {
                measure(grown, costs).await;
            }
        }
        print(out, effort, &costs, others.cores());
    });
}

async fn grow(messages: usize) -> Grown {
    let scratch = directory();
    let receivers = messages / PER_AGENT;
    let world = World::create(scratch.path(), SENDERS, receivers).await;
    let mut readers = Vec::new();
    for name in &world.receivers {
        let token = world
            .engine
            .rotate_token(&world.key, name)
            .await
            .unwrap()
            .token;
        readers.push(world.engine.authenticate(&token).await.unwrap());
    }
    let mut grown = Grown {
        _scratch: scratch,
        world: Arc::new(world),
        readers,
        sent: 0,
    };
    let early = messages - receivers * UNREAD;
    send(&mut grown, early).await;
    for reader in &grown.readers {
        while grown
            .world
            .engine
            .take_inbox(reader, whole_page())
            .await
            .unwrap()
            .unread
            > 0
        {}
    }
    send(&mut grown, receivers * UNREAD).await;
    // The index is caught up before anything is measured.
    grown
        .world
        .engine
        .search(&grown.world.key, words("nothing-like-it"))
        .await
        .unwrap();
    grown
}

async fn send(grown: &mut Grown, messages: usize) {
    let world = grown.world.clone();
    world.start_at(grown.sent);
    send_all(&world, SENDERS, messages).await;
    grown.sent += messages;
}

fn whole_page() -> PageQuery {
    PageQuery {
        cursor: None,
        limit: Some(200),
    }
}

fn words(q: &str) -> SearchQuery {
    SearchQuery {
        q: q.to_owned(),
        ..SearchQuery::default()
    }
}

async fn measure(grown: &mut Grown, costs: &mut Costs) {
    const SENDS: usize = 2_000;
    let (begun, before) = (Instant::now(), cpu());
    send(grown, SENDS).await;
    costs
        .send_rate
        .push(SENDS as f64 / begun.elapsed().as_secs_f64());
    costs
        .send_cpu
        .push((cpu() - before).as_secs_f64() * 1e6 / SENDS as f64);
    let engine = &grown.world.engine;
    let mut inboxes = Vec::new();
    for reader in grown.readers.iter().cycle().take(200) {
        let begun = Instant::now();
        let inbox = engine.inbox(reader, PageQuery::default()).await.unwrap();
        inboxes.push(begun.elapsed().as_secs_f64() * 1e6 / inbox.unread as f64);
    }
    costs.inbox.push(median(&inboxes));
    let newest = grown.sent - 1;
    // What was just sent is indexed first, so that the look-up alone is measured.
    engine
        .search(&grown.world.key, words("nothing-like-it"))
        .await
        .unwrap();
    let begun = Instant::now();
    let found = engine
        .search(&grown.world.key, words(&newest.to_string()))
        .await
        .unwrap();
    assert_eq!(found.items.len(), 1);
    costs.rare.push(begun.elapsed().as_secs_f64() * 1e6);
    let begun = Instant::now();
    engine
        .search(&grown.world.key, words("review deploy"))
        .await
        .unwrap();
    costs.common.push(begun.elapsed().as_secs_f64() * 1e6);
}

fn print(out: &mut impl Write, effort: Effort, costs: &[Costs; 2], others: f64) {
    writeln!(
        out,
        "\ngrowth, {} rounds, others used {others:.2} cores",
        effort.rounds
    )
    .unwrap();
    writeln!(
        out,
        "| what | {SMALL} messages | {} messages | ratio |",
        effort.large
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|").unwrap();
    type Pick = fn(&Costs) -> &Vec<f64>;
    let rows: [(&str, Pick); 5] = [
        ("send, CPU us", |costs| &costs.send_cpu),
        ("send, rate /s", |costs| &costs.send_rate),
        ("inbox, us a row", |costs| &costs.inbox),
        ("search, a rare word, us", |costs| &costs.rare),
        ("search, two common words, newest 50, us", |costs| {
            &costs.common
        }),
    ];
    for (name, pick) in rows {
        let (small, large) = (median(pick(&costs[0])), median(pick(&costs[1])));
        writeln!(
            out,
            "| {name} | {small:.1} | {large:.1} | {:.2} |",
            large / small
        )
        .unwrap();
    }
}
