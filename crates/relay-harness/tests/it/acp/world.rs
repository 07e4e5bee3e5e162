//! A relay on a free port, somebody who sends messages, and an agent on it whose script is the test's.

use std::sync::Arc;
use std::time::Duration;

use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine};
use relay_harness::acp::catalogue::{AgentDefinition, MidTurn};
use relay_harness::acp::host::{Host, HostOptions, OpenSession, Session};
use relay_harness::acp::session::{Broker, RelayOptions, RelaySession, attach};
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::{AgentClient, DeliveryMode, Relay};
use relay_server::{Config, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::support::{agent, environment, folder, received};

pub(crate) struct World {
    pub(crate) relay: Relay,
    pub(crate) alice: AgentClient,
    pub(crate) bob: AgentClient,
    events: mpsc::UnboundedReceiver<Value>,
    pub(crate) seen: Vec<Value>,
    directory: TempDir,
}

impl World {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let system = Environment::system();
        let mut options = SqliteOptions::new(directory.path().join("relay.db"));
        options.synchronous = Synchronous::Off;
        let store = SqliteStore::open(&options, system.random.clone()).unwrap();
        let engine = Arc::new(Engine::new(Arc::new(store), system));
        let owner = Caller::process_owner();
        let key = engine
            .create_workspace(&owner, "lab")
            .await
            .unwrap()
            .workspace_key;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = Config {
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        tokio::spawn(serve(listener, engine, config, std::future::pending()));
        let relay = Relay::open(&url, &key).await.unwrap();
        let alice = relay.register("alice").await.unwrap();
        let bob = relay.register("bob").await.unwrap();
        let (tell, events) = mpsc::unbounded_channel();
        let told = relay.add_listener("*", move |event| {
            let _ = tell.send(serde_json::to_value(&event).unwrap());
            async {}
        });
        told.await.unwrap();
        Self {
            relay,
            alice,
            bob,
            events,
            seen: Vec::new(),
            directory,
        }
    }

    /// Puts an agent that plays a script on the relay, as Bob.
    pub(crate) async fn bob_plays(&self, mut script: Value, mid_turn: MidTurn) -> RelaySession {
        script["log"] = json!(self.log());
        let mut agent = agent(&script);
        agent.mid_turn = mid_turn;
        let session = session_of(agent, HostOptions::default()).await;
        self.on_relay(session).await
    }

    /// The same, and the relay decides what it may do.
    pub(crate) async fn bob_asks(&self, script: &Value, broker: Broker) -> RelaySession {
        let mut script = script.clone();
        script["log"] = json!(self.log());
        let session = session_of(agent(&script), HostOptions::deciding(broker.clone())).await;
        let options = RelayOptions {
            broker: Some(broker),
            ..RelayOptions::default()
        };
        attach(&self.bob, self.bob.identity().clone(), session, options)
            .await
            .unwrap()
    }

    pub(crate) async fn on_relay(&self, session: Session) -> RelaySession {
        let options = RelayOptions {
            may_interrupt: true,
            ..RelayOptions::default()
        };
        attach(&self.bob, self.bob.identity().clone(), session, options)
            .await
            .unwrap()
    }

    pub(crate) fn log(&self) -> std::path::PathBuf {
        self.directory.path().join("log")
    }

    pub(crate) async fn send(&self, text: &str, mode: Option<DeliveryMode>) -> DeliveryId {
        let sending = self.alice.send_message("@bob", text);
        let sent = match mode {
            Some(mode) => sending.mode(mode).await,
            None => sending.await,
        };
        sent.unwrap().deliveries[0].delivery_id
    }

    /// Waits for an event.
    pub(crate) async fn event(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.seen.iter().position(&wanted) {
            return self.seen.remove(place);
        }
        loop {
            let event = tokio::time::timeout(super::support::LONG, self.events.recv()).await;
            let Ok(Some(event)) = event else {
                panic!("{what} did not come: {:#?}", self.seen);
            };
            if wanted(&event) {
                return event;
            }
            self.seen.push(event);
        }
    }

    /// Waits until a delivery was delivered, and gives the metadata of the receipt that said so.
    pub(crate) async fn delivered(&mut self, id: DeliveryId) -> Value {
        let is_end = |event: &Value| {
            event["type"] == "delivery.delivered" && event["deliveryId"] == id.to_string()
        };
        self.event("the delivery", is_end).await;
        let delivery = self.relay.delivery(id).await.unwrap();
        let receipts = serde_json::to_value(delivery.receipts).unwrap();
        let last = receipts.as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["receipt"]["status"], "delivered");
        last["receipt"]["metadata"].clone()
    }

    pub(crate) async fn status(&mut self, status: &str) {
        let wanted =
            |event: &Value| event["type"] == "agent.status.changed" && event["status"] == status;
        self.event(status, wanted).await;
    }

    /// The texts of all prompts that the agent got.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let received = received(&self.log());
        let prompts = received
            .iter()
            .filter(|message| message["method"] == "session/prompt");
        prompts
            .map(|message| message["params"]["prompt"].to_string())
            .collect()
    }
}

async fn session_of(agent: AgentDefinition, options: HostOptions) -> Session {
    let host = Host::start(agent, environment(), folder(), options).await;
    let open = OpenSession::new(folder());
    host.unwrap().new_session(open).await.unwrap()
}
