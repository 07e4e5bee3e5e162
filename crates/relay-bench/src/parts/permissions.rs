//! How long a decision takes: from the event that somebody asks, as the one who decides sees it, to the moment at which
//! the one who waits is released; beside a commit and a way there and back over a socket. And what many requests cost
//! that nobody has decided about: memory, a page of their list, one decision among them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::latency::{Commits, PACE, echoes, percentiles};
use crate::bench::Bench;
use crate::goals::Goal;
use crate::machine::resident;
use crate::options::Part;
use crate::plain::PlainServer;
use crate::report::{Column, Section};
use crate::session;
use crate::wire::{Http, WebSocket};
use crate::world::{World, word};

const ASKED: &str = "ask to its event";
const RELEASED: &str = "event to the one who waits";
const BY_RULE: &str = "ask that a rule decides";
const COMMIT: &str = "one idle synced commit";
const ECHO: &str = "one idle WebSocket echo";
const LIST_FEW: &str = "a page of the list, few wait";
const LIST_MANY: &str = "a page of the list, many wait";
const RESOLVE_FEW: &str = "a decision, few wait";
const RESOLVE_MANY: &str = "a decision, many wait";

/// Requests that one agent may have waiting, with some room for those that are measured.
const EACH_AGENT: usize = 920;
/// Agents whose requests wait.
const ASKERS: usize = 12;
/// Requests that wait when few do: as many as a page shows.
const FEW: usize = 50;
/// Lists in a round.
const LISTS: usize = 20;
/// Decisions in a round, with few and with many waiting.
const DECISIONS: usize = 50;

const EACH: Column = Column::of("KiB for each that waits", 2);

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let many = sizes.waiting_permissions;
    let title = format!(
        "permissions, one every {} ms; up to {many} wait",
        PACE.as_millis()
    );
    let mut section = Section::new(Part::Permissions, title);
    let server = bench.server().await?;
    let world = World::create(&server, ASKERS, 1).await?;
    allow_listing(&world).await?;
    let mut line = Line::open(&world).await?;
    let plain = PlainServer::start()?;
    let mut echo = WebSocket::connect(plain.address, "/", "").await?;
    let mut commits = Commits::open(bench)?;
    fill(&world, FEW, &mut line).await?;
    line.decide(10).await?;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        let times = line.decide(sizes.single).await?;
        section.add(ASKED, &percentiles(times.asked));
        section.add(RELEASED, &percentiles(times.released));
        section.add(BY_RULE, &percentiles(line.by_rule(sizes.single).await?));
        let took = commits.commit_many(sizes.single).await?;
        section.add(COMMIT, &percentiles(took));
        section.add(ECHO, &percentiles(echoes(&mut echo, sizes.single).await?));
        section.add(LIST_FEW, &percentiles(line.list(LISTS).await?));
        section.add(RESOLVE_FEW, &percentiles(line.resolve(DECISIONS).await?));
        section.others.push(others.cores());
    }
    let memory = || resident(&server.process, "VmRSS") / 1024.0;
    let before = memory();
    fill(&world, many, &mut line).await?;
    let grown = (memory() - before) / many as f64;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        section.add(LIST_MANY, &percentiles(line.list(LISTS).await?));
        section.add(RESOLVE_MANY, &percentiles(line.resolve(DECISIONS).await?));
        section.others.push(others.cores());
    }
    section.add("many that wait", &[(EACH, grown)]);
    judge(&mut section, grown);
    Ok(section)
}

fn judge(section: &mut Section, grown: f64) {
    let p50 = Column::FINE_P50;
    let series = |name| section.series(name, p50).iter();
    let floor = series(COMMIT).zip(series(ECHO)).map(|(a, b)| a + b);
    let released = series(RELEASED).zip(floor);
    let to_floor: Vec<f64> = released.map(|(of, to)| of / to).collect();
    let name = "p50 of event to release, to one commit and one echo";
    section.check(name, "x", &to_floor, Some(Goal::AtMost(2.0)));
    section.compare("the same, to one echo", p50, (RELEASED, ECHO), None);
    let name = "p50 of a page of the list, many to few";
    section.compare(name, p50, (LIST_MANY, LIST_FEW), Some(Goal::AtMost(1.5)));
    let name = "p50 of a decision, many to few";
    section.compare(
        name,
        p50,
        (RESOLVE_MANY, RESOLVE_FEW),
        Some(Goal::AtMost(1.5)),
    );
    section.check_steady("memory for each that waits", "KiB", &[grown], None);
}

/// A rule that decides by itself.
async fn allow_listing(world: &World) -> Result<()> {
    let mut key = Http::connect(world.address, &world.key).await?;
    let body = json!({ "permissions": { "allowlist": ["bash:ls **"] } });
    key.call("PATCH", "/v1/workspace/policy", &body).await?;
    Ok(())
}

/// Asks so often that so many wait.
async fn fill(world: &World, many: usize, line: &mut Line) -> Result<()> {
    ensure!(
        many <= EACH_AGENT * (ASKERS - 1),
        "more than agents may ask"
    );
    for (at, asker) in world.senders.iter().skip(1).enumerate() {
        let mut http = Http::connect(world.address, &asker.token).await?;
        let left = many.saturating_sub(at * EACH_AGENT).min(EACH_AGENT);
        for number in 0..left {
            http.call("POST", "/v1/permissions", &question(number))
                .await?;
        }
        line.expect_events(left).await?;
    }
    Ok(())
}

fn question(number: usize) -> Value {
    json!({ "tool": "bash", "params": { "command": format!("rm -rf ./build/{number}") } })
}

/// Somebody who asks and waits, and somebody who decides.
struct Line {
    asker: Http,
    waiter: Http,
    decider: Http,
    listener: WebSocket,
}

#[derive(Default)]
struct Times {
    asked: Vec<Duration>,
    released: Vec<Duration>,
}

impl Line {
    async fn open(world: &World) -> Result<Self> {
        let mut listener = session::connect(world.address, &world.key).await?;
        listener
            .say(r#"{"type":"subscribe","id":"p","pattern":"permission.requested"}"#)
            .await?;
        listener.expect(r#"{"type":"ok""#).await?;
        let token = &world.senders[0].token;
        Ok(Self {
            asker: Http::connect(world.address, token).await?,
            waiter: Http::connect(world.address, token).await?,
            decider: Http::connect(world.address, &world.key).await?,
            listener,
        })
    }

    /// Asks, sees the event, decides, and hears of it.
    async fn decide(&mut self, count: usize) -> Result<Times> {
        let mut times = Times::default();
        for number in 0..count {
            tokio::time::sleep(PACE).await;
            let begun = Instant::now();
            let body = question(number);
            let asking = self.asker.call("POST", "/v1/permissions", &body);
            let seeing = async {
                let event = self.listener.expect(r#"{"type":"event""#).await?;
                anyhow::Ok((begun.elapsed(), event))
            };
            let (asked, (after, _)) = tokio::try_join!(asking, seeing)?;
            let id = word(&asked, "permissionId")?;
            let (decider, waiter) = (&mut self.decider, &mut self.waiter);
            let waiting = async {
                let path = format!("/v1/permissions/{id}?wait=30");
                let answer = waiter.ask("GET", &path, "").await?;
                ensure!(answer.status == 200, "a refusal");
                anyhow::Ok(Instant::now())
            };
            let deciding = async {
                // The one who waits is there before the one who decides.
                tokio::time::sleep(PACE).await;
                let begun = Instant::now();
                resolve(decider, &id).await?;
                anyhow::Ok(begun)
            };
            let (released, decided) = tokio::try_join!(waiting, deciding)?;
            times.asked.push(after);
            times.released.push(released.duration_since(decided));
        }
        Ok(times)
    }

    /// Takes the events of requests that were asked elsewhere.
    async fn expect_events(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            self.listener.expect(r#"{"type":"event""#).await?;
        }
        Ok(())
    }

    async fn by_rule(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        let body = r#"{"tool":"bash","params":{"command":"ls -la"}}"#;
        for _ in 0..count {
            tokio::time::sleep(PACE).await;
            let begun = Instant::now();
            let answer = self.asker.ask("POST", "/v1/permissions", body).await?;
            ensure!(answer.status == 201, "a refusal");
            took.push(begun.elapsed());
            self.listener.expect(r#"{"type":"event""#).await?;
        }
        Ok(took)
    }

    async fn list(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            let path = "/v1/permissions?state=pending&limit=50";
            let answer = self.decider.ask("GET", path, "").await?;
            ensure!(answer.status == 200, "a refusal");
            took.push(begun.elapsed());
        }
        Ok(took)
    }

    async fn resolve(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut ids = Vec::new();
        for number in 0..count {
            let body = question(number);
            let asked = self.asker.call("POST", "/v1/permissions", &body);
            ids.push(word(&asked.await?, "permissionId")?);
            self.listener.expect(r#"{"type":"event""#).await?;
        }
        let mut took = Vec::new();
        for id in ids {
            let begun = Instant::now();
            resolve(&mut self.decider, &id).await?;
            took.push(begun.elapsed());
        }
        Ok(took)
    }
}

async fn resolve(decider: &mut Http, id: &str) -> Result<()> {
    let path = format!("/v1/permissions/{id}/resolve");
    let answer = decider.ask("POST", &path, r#"{"approved":true}"#).await?;
    (answer.status == 200).then_some(()).context("a refusal")
}
