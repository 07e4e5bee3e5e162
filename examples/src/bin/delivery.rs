//! A conversation with three sessions: quinn's queues for itself, paul's does not and is busy, gina's goes
//! away and comes back. At the end each delivery's way is told.
//!
//! Run it with `cargo run -p relay-examples --bin delivery`.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use relay_core::environment::Environment;
use relay_core::link::{Deliver, LinkId, MemoryLink, Parcel};
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine, Reach};
use relay_protocol::api::messages::{DeliverySummary, SendMessage};
use relay_protocol::api::workspace::RegisterAgent;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{AcceptedReceipt, DeliveredReceipt, DeliveryMode, MessageReceipt};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::session::{Attach, NumberedEvent, ReportEvents};
use relay_protocol::session_event::{
    AgentSessionEvent, AgentSessionEventType, StatusChanged, ToolCompleted,
};
use relay_protocol::session_input::SessionEventInput;
use relay_protocol::socket::ReceiptFrame;
use relay_protocol::status::AgentStatus;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let environment = Environment::system();
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = SqliteStore::open(&options, environment.random.clone())?;
    let engine = Engine::new(Arc::new(store), environment);
    tokio::select! {
        ended = engine.run(tokio::time::sleep) => ended.context("the runner ended"),
        told = tell(&engine) => told,
    }
}

async fn tell(engine: &Engine) -> Result<()> {
    let created = engine
        .create_workspace(&Caller::process_owner(), "Lighthouse")
        .await?;
    let key = engine.authenticate(&created.workspace_key).await?;
    let ada = register(engine, &key, "ada").await?;
    let mut quinn = Session::attach(engine, &key, "quinn", queues()).await?;
    let mut paul = Session::attach(engine, &key, "paul", waits()).await?;
    let mut gina = Session::attach(engine, &key, "gina", waits()).await?;

    paul.status(engine, AgentStatus::Active).await?;
    gina.hang_up(engine);
    println!("quinn queues for itself, paul is busy, gina is away\n");

    let mut all = Vec::new();
    let body = SendMessage::text(
        "#general".parse().map_err(anyhow::Error::msg)?,
        "Ship at noon?",
    );
    let sent = engine.send(&ada, body).await?;
    show("ada asks everybody", &sent.deliveries);
    all.extend(sent.deliveries);

    let offer = quinn.next().await?;
    quinn.accept(engine, &offer).await?;
    println!("quinn     has queued it");
    paul.tool_ended(engine).await?;
    let offer = paul.next().await?;
    paul.deliver(engine, &offer).await?;
    println!("paul      sees it before its next tool call");
    gina.come_back(engine).await?;
    let offer = gina.next().await?;
    gina.deliver(engine, &offer).await?;
    println!("gina      is back and sees it");
    quinn.surface(engine).await?;
    println!("quinn     shows it to its agent\n");

    let mut body = SendMessage::text("@quinn".parse().map_err(anyhow::Error::msg)?, "Stop!");
    body.mode = Some(DeliveryMode::Immediate);
    let sent = engine.send(&ada, body).await?;
    show("ada interrupts quinn", &sent.deliveries);
    all.extend(sent.deliveries);

    println!("\nWhat happened to each:");
    for summary in all {
        let delivery = engine.delivery(&ada, summary.delivery_id).await?;
        println!("\n{}", delivery.story.unwrap_or_default());
    }
    Ok(())
}

fn show(what: &str, deliveries: &[DeliverySummary]) {
    println!("{what}:");
    for delivery in deliveries {
        let problem = delivery.error.as_ref();
        let why = problem.map_or(String::new(), |problem| format!(": {}", problem.detail));
        println!("          @{} {}{why}", delivery.agent, delivery.state);
    }
}

async fn register(engine: &Engine, key: &Caller, name: &str) -> Result<Caller> {
    let body = RegisterAgent {
        name: name.to_owned(),
        agent_type: None,
        metadata: None,
        adopt: None,
    };
    let registered = engine.register_agent(key, body).await?;
    Ok(engine.authenticate(&registered.token).await?)
}

/// What a session can do that takes work at once and surfaces it later by itself.
fn queues() -> AgentSessionCapabilities {
    let mut capabilities = waits();
    capabilities.delivery.queue = Some(true);
    capabilities
}

/// What a session can do for which Relay waits.
fn waits() -> AgentSessionCapabilities {
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = vec![DeliveryMode::NextToolCall, DeliveryMode::OnIdle];
    capabilities.events.emits = vec![
        AgentSessionEventType::StatusChanged,
        AgentSessionEventType::ToolCompleted,
    ];
    capabilities
}

/// One end of a link in this process.
struct Session {
    name: String,
    caller: Caller,
    capabilities: AgentSessionCapabilities,
    id: SessionId,
    token: String,
    link: Arc<MemoryLink>,
    link_id: Option<LinkId>,
    reports: u64,
    held: Vec<DeliveryId>,
}

impl Session {
    async fn attach(
        engine: &Engine,
        key: &Caller,
        name: &str,
        capabilities: AgentSessionCapabilities,
    ) -> Result<Self> {
        let caller = register(engine, key, name).await?;
        let link = MemoryLink::new();
        let body = attach(name, &capabilities, None);
        let reach = Reach::in_process(link.clone());
        let (attached, link_id) = engine.attach(&caller, body, reach).await?;
        Ok(Self {
            name: name.to_owned(),
            caller,
            capabilities,
            id: attached.session_id,
            token: attached.resume_token,
            link,
            link_id,
            reports: 0,
            held: Vec::new(),
        })
    }

    /// The link breaks.
    fn hang_up(&mut self, engine: &Engine) {
        self.link.close();
        if let Some(link) = self.link_id.take() {
            engine.link_lost(self.id, link);
        }
    }

    /// Goes on over a new link.
    async fn come_back(&mut self, engine: &Engine) -> Result<()> {
        self.link = MemoryLink::new();
        let body = attach(&self.name, &self.capabilities, Some(self.token.clone()));
        let reach = Reach::in_process(self.link.clone());
        let (_, link_id) = engine.attach(&self.caller, body, reach).await?;
        self.link_id = link_id;
        Ok(())
    }

    async fn next(&self) -> Result<Deliver> {
        match self.link.take().await {
            Some(Parcel::Deliver(deliver)) => Ok(*deliver),
            other => bail!("expected a delivery for {}, found {other:?}", self.name),
        }
    }

    async fn accept(&mut self, engine: &Engine, offer: &Deliver) -> Result<()> {
        let delivery_id = offer.context.id;
        self.held.push(delivery_id);
        let accepted = AcceptedReceipt {
            delivery_id,
            retryable: None,
            metadata: None,
        };
        self.say(engine, delivery_id, MessageReceipt::Accepted(accepted))
            .await
    }

    async fn deliver(&self, engine: &Engine, offer: &Deliver) -> Result<()> {
        self.delivered(engine, offer.context.id).await
    }

    /// Shows what it holds.
    async fn surface(&mut self, engine: &Engine) -> Result<()> {
        for id in std::mem::take(&mut self.held) {
            self.delivered(engine, id).await?;
        }
        Ok(())
    }

    async fn delivered(&self, engine: &Engine, delivery_id: DeliveryId) -> Result<()> {
        let delivered = DeliveredReceipt {
            delivery_id,
            metadata: None,
        };
        self.say(engine, delivery_id, MessageReceipt::Delivered(delivered))
            .await
    }

    async fn say(&self, engine: &Engine, id: DeliveryId, receipt: MessageReceipt) -> Result<()> {
        let frame = ReceiptFrame {
            delivery_id: id,
            epoch: None,
            receipt,
        };
        engine.receipt(&self.caller, Some(self.id), frame).await?;
        Ok(())
    }

    async fn status(&mut self, engine: &Engine, status: AgentStatus) -> Result<()> {
        let changed = StatusChanged {
            status,
            previous_status: None,
            reason: None,
        };
        self.report(engine, AgentSessionEvent::StatusChanged(changed))
            .await
    }

    async fn tool_ended(&mut self, engine: &Engine) -> Result<()> {
        let completed = ToolCompleted {
            run: None,
            tool: "cargo test".to_owned(),
            output: None,
            duration_ms: None,
        };
        self.report(engine, AgentSessionEvent::ToolCompleted(completed))
            .await
    }

    async fn report(&mut self, engine: &Engine, event: AgentSessionEvent) -> Result<()> {
        self.reports += 1;
        let body = ReportEvents::One(Box::new(NumberedEvent {
            n: self.reports,
            event: SessionEventInput(event),
        }));
        engine.report(&self.caller, self.id, body).await?;
        Ok(())
    }
}

fn attach(name: &str, capabilities: &AgentSessionCapabilities, resume: Option<String>) -> Attach {
    Attach {
        agent: name.to_owned(),
        harness: "example".to_owned(),
        capabilities: capabilities.clone(),
        safe_states: None,
        status: None,
        resume,
        keeps_messages: None,
        attempt: None,
    }
}
