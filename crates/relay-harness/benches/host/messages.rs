//! From sending a message to an idle agent until the agent's model is asked about it.
//!
//! Real agents that are installed, with a script as their model; and the agent that plays scripts, which says when it has read
//! the prompt. Beside it what sending alone takes, which is a synced write.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::host::{Host, HostOptions, OpenSession, Session};
use relay_harness::acp::session::{RelayOptions, attach};
use relay_harness::child::ChildEnvironment;
use relay_script::{Script, Server};
use relay_sdk::{AgentClient, Relay};
use relay_server::{Config, serve};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::agents::{Agent, Place, WORKING};
use super::figures::Latencies;
use super::machine::{DURABLE, synced_writes};
use super::{Effort, agent};

pub(crate) async fn run(effort: Effort) {
    println!("\n## A message to an idle agent\n");
    let mut office = Office::open().await;
    let writes = synced_writes(office.directory.path(), 100).unwrap();
    let write = Latencies::new(writes).percentile(50.0);
    let durable = match write < DURABLE {
        true => ": not durable here",
        false => "",
    };
    println!(
        "{} messages each; a synced write takes {:.2} ms{durable}\n",
        effort.messages,
        millis(write)
    );
    println!("| agent | until | p50 ms | p99 ms | of it the send, p50 ms |\n|---|---|---|---|---|");
    office.scripted(effort.messages).await;
    for agent in WORKING.iter().filter(|agent| agent.installed()) {
        office.real(agent, effort.messages).await;
    }
}

/// A relay, somebody who sends, and somebody who is an agent.
struct Office {
    alice: AgentClient,
    relay: Relay,
    directory: TempDir,
    /// Turns that are over.
    idle: mpsc::UnboundedReceiver<()>,
}

impl Office {
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let system = Environment::system();
        let options = SqliteOptions::new(directory.path().join("relay.db"));
        let store = SqliteStore::open(&options, system.random.clone()).unwrap();
        let engine = Arc::new(Engine::new(Arc::new(store), system));
        let owner = Caller::process_owner();
        let made = engine.create_workspace(&owner, "bench");
        let key = made.await.unwrap().workspace_key;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(
            listener,
            engine,
            Config::default(),
            std::future::pending(),
        ));
        let relay = Relay::open(&url, &key).await.unwrap();
        let alice = relay.register("alice").await.unwrap();
        let (tell, idle) = mpsc::unbounded_channel();
        let told = relay.add_listener("agent.status.idle", move |_| {
            let _ = tell.send(());
            async {}
        });
        told.await.unwrap();
        Self {
            alice,
            relay,
            directory,
            idle,
        }
    }

    /// Sends messages one by one, each to an idle agent; `seen` tells when the agent or its model has it.
    async fn measure(
        &mut self,
        name: &str,
        until: &str,
        count: usize,
        session: Session,
        seen: impl AsyncFn(usize, Duration) -> Duration,
    ) {
        let bob = self.relay.register(name).await.unwrap();
        let attached = attach(
            &bob,
            bob.identity().clone(),
            session,
            RelayOptions::default(),
        );
        let attached = attached.await.unwrap();
        self.idle.recv().await;
        let (mut whole, mut sends) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let (begun, clock) = (Instant::now(), UNIX_EPOCH.elapsed().unwrap());
            let text = format!("message {number} end");
            let sent = self.alice.send_message(&format!("@{name}"), &text);
            sent.await.unwrap();
            sends.push(begun.elapsed());
            whole.push(seen(number, clock).await);
            self.idle.recv().await;
        }
        let (whole, sends) = (Latencies::new(whole), Latencies::new(sends));
        println!(
            "| {name} | {until} | {:.2} | {:.2} | {:.2} |",
            millis(whole.percentile(50.0)),
            millis(whole.percentile(99.0)),
            millis(sends.percentile(50.0))
        );
        attached.session().host().stop().await;
    }

    async fn scripted(&mut self, count: usize) {
        let log = self.directory.path().join("stamps");
        let script = json!({"turns": [[{"stampTo": log}, {"text": "yes"}, {"stop": "end_turn"}]]});
        let session = agent::session(&script).await;
        let seen = async |number: usize, sent: Duration| loop {
            let stamps = std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(stamp) = stamps.lines().nth(number - 1) {
                return Duration::from_nanos(stamp.parse().unwrap()).saturating_sub(sent);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        self.measure("scripted", "it has read the prompt", count, session, seen)
            .await;
    }

    async fn real(&mut self, agent: &Agent, count: usize) {
        let model = Server::start(Script::saying("Fine.")).await.unwrap();
        let place = Place::new();
        let launch = agent.launch(&place, &model.url());
        let definition = AgentDefinition {
            command: launch.program.to_str().unwrap().to_owned(),
            ..Catalogue::built_in().get(agent.name).unwrap().clone()
        };
        let environment = ChildEnvironment::for_agent([("", ""); 0], &[""; 0], launch.environment);
        let options = HostOptions::default();
        let host = Host::start(definition, environment, place.work().to_owned(), options);
        let open = OpenSession::new(place.work());
        let session = host.await.unwrap().new_session(open).await.unwrap();
        let seen = async |number: usize, sent: Duration| {
            model.nth_saying(1, &format!("message {number} end")).await;
            UNIX_EPOCH.elapsed().unwrap().saturating_sub(sent)
        };
        self.measure(agent.name, "its model is asked", count, session, seen)
            .await;
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
