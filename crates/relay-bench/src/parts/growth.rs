//! What a send, a row of an inbox and a boundary cost the server in a small and in a large database, in
//! processor time. Both have the same number of messages for each agent. Rounds of both alternate.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::grown::Grown;
use super::send::HttpSender;
use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::{Load, come_to_rest};
use crate::machine::threads_cpu;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::wire::Http;
use crate::world::word;

/// Agents that come to a boundary in a round.
const AT_BOUNDARY: usize = 10;

const RATE: Column = Column::ranged("sends /s", 0);
const SEND: Column = Column::ranged("send CPU us", 1);
const INBOX: Column = Column::ranged("inbox CPU us a row", 2);
const BOUNDARY: Column = Column::ranged("boundary CPU us", 0);

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let [small, large] = [sizes.stored_small, sizes.stored_large];
    let title = format!("CPU of the server with {small} and with {large} stored messages");
    let mut section = Section::new(Part::Growth, title);
    let names = [small, large].map(|messages| format!("{messages} messages"));
    let mut grown = Vec::new();
    for messages in [small, large] {
        grown.push(Subject::open(Grown::grow(bench, messages).await?).await?);
    }
    for _ in 0..sizes.rounds {
        let others = bench
            .begin_round(grown.iter().map(|it| &it.grown.server.process))
            .await;
        for (subject, name) in grown.iter_mut().zip(&names) {
            let (rate, send) = subject.send(sizes.turn / 2).await?;
            let inbox = subject.inboxes(sizes.single).await?;
            let boundary = subject.boundaries().await?;
            come_to_rest(&subject.grown.server.process).await;
            let figures = [
                (RATE, rate),
                (SEND, send),
                (INBOX, inbox),
                (BOUNDARY, boundary),
            ];
            section.add(name, &figures);
        }
        section.others.push(others.cores());
    }
    let pair = (names[1].as_str(), names[0].as_str());
    for (name, column, goal) in [
        ("send", SEND, 1.25),
        ("a row of an inbox", INBOX, 1.4),
        ("a boundary", BOUNDARY, 1.25),
    ] {
        section.compare(name, column, pair, Some(Goal::AtMost(goal)));
    }
    Ok(section)
}

/// One of the two.
struct Subject {
    grown: Grown,
    senders: Vec<HttpSender>,
    /// Sessions without a link, and who calls for them.
    sessions: Vec<(String, Http)>,
}

impl Subject {
    async fn open(grown: Grown) -> Result<Self> {
        let world = &grown.world;
        let mut sessions = Vec::new();
        for agent in world.receivers.iter().take(AT_BOUNDARY) {
            let mut http = Http::connect(world.address, &agent.token).await?;
            let body = json!({
                "agent": agent.name, "harness": "bench", "status": "active", "link": { "kind": "none" },
                "capabilities": {
                    "messaging": { "receive": true, "attachments": ["text"] },
                    "delivery": { "modes": ["next-tool-call"] },
                    "events": { "emits": ["status.changed"] },
                    "lifecycle": { "release": true },
                },
            });
            let attached = http.call("POST", "/v1/sessions", &body).await?;
            sessions.push((word(&attached, "sessionId")?, http));
        }
        Ok(Self {
            senders: HttpSender::all(world).await?,
            sessions,
            grown,
        })
    }

    fn cpu(&self) -> Duration {
        threads_cpu(&self.grown.server.process, |_| true)
    }

    /// Sends a second, and what one of them costs.
    async fn send(&mut self, length: Duration) -> Result<(f64, f64)> {
        let process = &self.grown.server.process;
        let load = Load::of(process, &mut self.senders, length).await?;
        let value = |wanted| {
            load.figures()
                .into_iter()
                .find(|(column, _)| *column == wanted)
        };
        let value = |wanted| value(wanted).map_or(f64::NAN, |(_, value)| value);
        Ok((value(Column::RATE), value(Column::SERVER_CPU)))
    }

    /// What a row costs when so many inboxes are read.
    async fn inboxes(&self, inboxes: usize) -> Result<f64> {
        let (mut rows, mut cpu) = (0, Duration::ZERO);
        // Those at boundaries settle what they have, so they are left out.
        let readers = self.grown.world.receivers.iter();
        let readers = readers.rev().cycle().take(inboxes);
        for agent in readers {
            let mut http = Http::connect(self.grown.world.address, &agent.token).await?;
            http.call("GET", "/v1/me", &Value::Null).await?;
            let before = self.cpu();
            let inbox = http.call("GET", "/v1/inbox", &Value::Null).await?;
            cpu += self.cpu().saturating_sub(before);
            let items = inbox.get("items").and_then(Value::as_array);
            rows += items.context("an inbox without items")?.len();
        }
        Ok(cpu.as_secs_f64() * 1e6 / rows as f64)
    }

    /// What a boundary costs at which several deliveries wait.
    async fn boundaries(&mut self) -> Result<f64> {
        let mut cpu = Duration::ZERO;
        let process = self.grown.server.process.clone();
        let used = || threads_cpu(&process, |_| true);
        for (session, http) in &mut self.sessions {
            let path = format!("/v1/sessions/{session}/boundary");
            let body = json!({ "kind": "next-tool-call" });
            let before = used();
            let answer = http.call("POST", &path, &body).await?;
            cpu += used().saturating_sub(before);
            settle(http, &answer).await?;
        }
        Ok(cpu.as_secs_f64() * 1e6 / self.sessions.len() as f64)
    }
}

/// Answers everything that a boundary gave.
async fn settle(http: &mut Http, answer: &Value) -> Result<()> {
    let deliveries = answer.get("deliveries").and_then(Value::as_array);
    for delivery in deliveries.context("a boundary without deliveries")? {
        let id = word(&delivery["context"], "id")?;
        let receipt = json!({
            "epoch": delivery["context"]["metadata"]["epoch"],
            "receipt": { "status": "delivered", "deliveryId": id },
        });
        let path = format!("/v1/deliveries/{id}/receipt");
        http.call("POST", &path, &receipt).await?;
    }
    Ok(())
}
