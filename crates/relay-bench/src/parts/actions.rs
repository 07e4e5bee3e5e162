//! From the call of an action to its handler, and to the event that says how it ended, when nothing else happens; beside what
//! that can't do without: two synced commits, and two ways there and back over a socket.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::latency::{Commits, PACE, echoes, percentiles};
use crate::bench::Bench;
use crate::goals::Goal;
use crate::options::Part;
use crate::plain::PlainServer;
use crate::report::{Column, Section};
use crate::session;
use crate::wire::{Http, WebSocket};
use crate::world::{World, word};

const HANDLER: &str = "invoke to handler";
const ANSWERED: &str = "invoke to its answer";
const COMPLETED: &str = "invoke to action.completed";
const COMMIT: &str = "one idle synced commit";
const ECHO: &str = "one idle WebSocket echo";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!("invoke to completed, one every {} ms", PACE.as_millis());
    let mut section = Section::new(Part::Actions, title);
    let server = bench.server().await?;
    let world = World::create(&server, 1, 1).await?;
    let mut line = Line::open(&world).await?;
    let plain = PlainServer::start()?;
    let mut echo = WebSocket::connect(plain.address, "/", "").await?;
    let mut commits = Commits::open(bench)?;
    line.invoke(10).await?;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        let times = line.invoke(sizes.single).await?;
        section.add(ANSWERED, &percentiles(times.answer));
        section.add(HANDLER, &percentiles(times.handler));
        section.add(COMPLETED, &percentiles(times.completed));
        let times = commits.commit_many(sizes.single).await?;
        section.add(COMMIT, &percentiles(times));
        section.add(ECHO, &percentiles(echoes(&mut echo, sizes.single).await?));
        section.others.push(others.cores());
    }
    let series = |name| section.series(name, Column::FINE_P50).iter();
    let floor = series(COMMIT).zip(series(ECHO)).map(|(a, b)| 2.0 * (a + b));
    let ratios: Vec<f64> = series(COMPLETED)
        .zip(floor)
        .map(|(of, to)| of / to)
        .collect();
    let bare: Vec<f64> = series(COMPLETED)
        .zip(series(ECHO))
        .map(|(of, to)| of / to)
        .collect();
    let name = "p50 of invoke to completed, to two commits and two echoes";
    section.check(name, "x", &ratios, Some(Goal::AtMost(1.6)));
    section.check("the same, to one echo", "x", &bare, None);
    Ok(section)
}

/// A caller, a handler and a listener.
struct Line {
    caller: Http,
    handler: WebSocket,
    listener: WebSocket,
}

/// How long each call took.
#[derive(Default)]
struct Times {
    answer: Vec<Duration>,
    handler: Vec<Duration>,
    completed: Vec<Duration>,
}

impl Line {
    async fn open(world: &World) -> Result<Self> {
        let mut handler = session::connect(world.address, &world.receivers[0].token).await?;
        let action = json!({
            "type": "registerAction", "name": "classify", "description": "labels a text",
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] },
        });
        handler.say(&action.to_string()).await?;
        handler.expect(r#"{"type":"ok""#).await?;
        let mut listener = session::connect(world.address, &world.key).await?;
        listener
            .say(r#"{"type":"subscribe","id":"a","pattern":"action.completed"}"#)
            .await?;
        listener.expect(r#"{"type":"ok""#).await?;
        Ok(Self {
            caller: Http::connect(world.address, &world.senders[0].token).await?,
            handler,
            listener,
        })
    }

    async fn invoke(&mut self, calls: usize) -> Result<Times> {
        let mut times = Times::default();
        let path = "/v1/actions/classify/invoke";
        for _ in 0..calls {
            tokio::time::sleep(PACE).await;
            let Self {
                caller,
                handler,
                listener,
            } = self;
            let begun = Instant::now();
            let calling = async {
                let answer = caller.ask("POST", path, r#"{"input":{"text":"hello"}}"#);
                (answer.await?.status == 202)
                    .then_some(())
                    .context("a refusal")?;
                anyhow::Ok(begun.elapsed())
            };
            let handling = async {
                let offered = handler.expect(r#"{"type":"invoke""#).await?;
                let after = begun.elapsed();
                let offered: Value = serde_json::from_str(&offered)?;
                let id = word(&offered, "invocationId")?;
                let done = format!(
                    r#"{{"type":"invocationResult","invocationId":"{id}","output":{{"label":"ham"}}}}"#
                );
                handler.say(&done).await?;
                anyhow::Ok(after)
            };
            let listening = async {
                listener.expect(r#"{"type":"event""#).await?;
                anyhow::Ok(begun.elapsed())
            };
            let (answer, handler, completed) = tokio::try_join!(calling, handling, listening)?;
            times.answer.push(answer);
            times.handler.push(handler);
            times.completed.push(completed);
        }
        Ok(times)
    }
}
