//! Events that go out to webhooks, until the last one was received: to one, to many, and to many while one more never answers;
//! beside plain requests over as many connections to the same receiver.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::future::try_join_all;
use serde_json::json;

use crate::bench::Bench;
use crate::goals::Goal;
use crate::machine::threads_cpu;
use crate::options::Part;
use crate::report::{Column, Measured, Section};
use crate::server::Server;
use crate::session;
use crate::sink::{HANGS, Sink};
use crate::text::text;
use crate::wire::{Http, WebSocket};
use crate::world::World;

/// Connections of one webhook, at most, which plain requests are given as well.
const CONNECTIONS: usize = 16;

/// Sends under way on the socket.
const UNDER_WAY: usize = 64;

const ONE: &str = "1 webhook";
const PLAIN: &str = "plain requests over 16 connections";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let (calls, many) = (sizes.calls, sizes.webhooks);
    let mut section = Section::new(
        Part::Webhooks,
        format!("{calls} signed webhook calls, until the last one was received"),
    );
    let all = format!("{many} webhooks");
    let beside = format!("{many} webhooks beside one that hangs");
    let settings = "[outbound]\nallow = [\"127.0.0.1\"]\n";
    let mut one = Hooked::open(bench.server_with(settings).await?, 1, false).await?;
    let mut plenty = Hooked::open(bench.server_with(settings).await?, many, false).await?;
    let mut hanging = Hooked::open(bench.server_with(settings).await?, many, true).await?;
    let mut plain = Plain::open().await?;
    for _ in 0..sizes.rounds {
        let processes = [&one, &plenty, &hanging].map(|hooked| &hooked.server.process);
        let others = bench.begin_round(processes).await;
        section.add(ONE, &one.call(calls).await?);
        section.add(&all, &plenty.call(calls / many).await?);
        section.add(&beside, &hanging.call(calls / many).await?);
        section.add(PLAIN, &[(Column::RATE, plain.call(calls).await?)]);
        section.others.push(others.cores());
    }
    let goal = Some(Goal::AtLeast(0.9));
    let name = "the others beside one that hangs, to without it";
    section.compare(name, Column::RATE, (&beside, &all), goal);
    section.compare(
        "1 webhook to plain requests",
        Column::RATE,
        (ONE, PLAIN),
        None,
    );
    Ok(section)
}

/// A server whose events go to webhooks.
struct Hooked {
    server: Server,
    sink: Sink,
    sender: WebSocket,
    webhooks: usize,
}

impl Hooked {
    async fn open(server: Server, webhooks: usize, one_hangs: bool) -> Result<Self> {
        let world = World::create(&server, 1, 1).await?;
        let sink = Sink::start()?;
        let mut http = Http::connect(world.address, &world.key).await?;
        let paths = (0..webhooks).map(|number| format!("/hook/{number}"));
        for path in paths.chain(one_hangs.then(|| HANGS.to_owned())) {
            let url = format!("http://{}{path}", sink.address);
            let body = json!({ "url": url, "events": ["message.created"] });
            http.call("POST", "/v1/webhooks", &body).await?;
        }
        let sender = session::connect(world.address, &world.senders[0].token).await?;
        let mut hooked = Self {
            server,
            sink,
            sender,
            webhooks,
        };
        // Connections are made.
        hooked.call(2 * CONNECTIONS).await?;
        Ok(hooked)
    }

    /// Has so many events happen; what that came to.
    async fn call(&mut self, events: usize) -> Result<Vec<Measured>> {
        let calls = events * self.webhooks;
        let before = threads_cpu(&self.server.process, |_| true);
        self.sink.expect(calls);
        let begun = Instant::now();
        self.send(events).await?;
        let took = self.sink.last().await? - begun;
        let cpu = threads_cpu(&self.server.process, |_| true).saturating_sub(before);
        Ok(vec![
            (Column::RATE, per_second(calls, took)),
            (Column::SERVER_CPU, cpu.as_secs_f64() * 1e6 / calls as f64),
        ])
    }

    async fn send(&mut self, events: usize) -> Result<()> {
        let (mut sent, mut answered) = (0, 0);
        while answered < events {
            while sent < events && sent - answered < UNDER_WAY {
                let frame = format!(
                    r##"{{"type":"send","ref":{sent},"to":"#general","text":"{}"}}"##,
                    text(sent)
                );
                self.sender.queue(&frame);
                sent += 1;
            }
            self.sender.flush().await?;
            let frame = self.sender.next().await?;
            if memchr::memmem::find(frame, br#""type":"sent""#).is_none() {
                bail!("a send was answered {}", String::from_utf8_lossy(frame));
            }
            answered += 1;
        }
        Ok(())
    }
}

/// Requests of the same size that nobody signs, stores or repeats.
struct Plain {
    sink: Sink,
    connections: Vec<Http>,
    body: String,
}

impl Plain {
    async fn open() -> Result<Self> {
        let sink = Sink::start()?;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Http::connect(sink.address, "").await?);
        }
        Ok(Self {
            sink,
            connections,
            body: "x".repeat(900),
        })
    }

    async fn call(&mut self, calls: usize) -> Result<f64> {
        let each = calls.div_ceil(CONNECTIONS);
        self.sink.expect(each * CONNECTIONS);
        let begun = Instant::now();
        let body = &self.body;
        let calling = self.connections.iter_mut().map(|http| async move {
            for _ in 0..each {
                let answer = http.ask("POST", "/plain", body).await?;
                (answer.status == 204).then_some(()).context("a refusal")?;
            }
            anyhow::Ok(())
        });
        try_join_all(calling).await?;
        let took = self.sink.last().await? - begun;
        Ok(per_second(each * CONNECTIONS, took))
    }
}

fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
