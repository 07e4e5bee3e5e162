//! An agent's session on the relay: deliveries become prompts, updates become events.
//!
//! [`attach`] makes one of a [`Session`] and serves it (`place.rs`). A task owns it (`driver`): it alone reads the session's events,
//! so that reports and receipts are in their order. How a delivery gets in is decided in `way.rs`, what an update says to
//! others in `reporter.rs` and `changes.rs`; all are pure. What the agent may do is asked by a [`Broker`]. Text enters only as
//! [`relay_protocol::render`] writes it.

mod broker;
mod changes;
mod driver;
mod parcel;
mod place;
mod reporter;
mod watch;
mod way;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use relay_protocol::agent::AgentIdentity;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{MessageContext, MessageReceipt};
use relay_protocol::ids::{DeliveryId, RunId};
use relay_protocol::message::RelayMessage;
use relay_protocol::permission::Permissions;
use relay_protocol::status::AgentStatus;
use relay_sdk::{
    AgentDeliveryAdapter, AgentSession, AttachedSession, Client, ControlError, EventHandler, Fork,
    SessionError, failed_for_now,
};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::broker::{Broker, BrokerNews, CallFate};
use self::driver::Order;
use self::place::Place;
pub use self::watch::{Seen, Watch};
use super::content::PromptContent;
use super::host::{HostError, Session};
use crate::guidance::is_guidance;
use crate::surfacing::fetch;

/// What is said when there is nobody to give a message to.
const GONE: &str = "the agent has ended";

/// What a session is like that is there for one conversation: it begins with its first prompt, takes in its turns what comes meanwhile, and
/// leaves the relay when nothing is left. Its agent may have others at the same time. It is not copied.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    /// The rules of its calls, beside those of the workspace.
    pub permissions: Option<Permissions>,
    /// Cancelled, it ends.
    pub cancel: CancellationToken,
}

/// How a session is on the relay.
#[derive(Clone, Debug, Default)]
pub struct RelayOptions {
    /// Whether a message may cancel a turn, where the agent has no other way to take one.
    pub may_interrupt: bool,
    /// Whether the agent has started the relay's own MCP server. That it was handed over says nothing.
    pub has_relay_tools: bool,
    /// Who asks the relay when the agent asks for permission: the one that its host was started with, which refuses everything
    /// without this. A host that was started with something else decides by that.
    pub broker: Option<Broker>,
    /// The file that remembers what was surfaced; nothing: only as long as the process lives.
    pub memory: Option<PathBuf>,
    /// Who looks on, beside the relay.
    pub watch: Watch,
    /// The conversation that it is there for; nothing: it stays until it is released.
    pub conversation: Option<Conversation>,
}

impl RelayOptions {
    /// Nobody takes a session for idle that waits for its first prompt.
    const fn first_status(&self) -> AgentStatus {
        match self.conversation {
            Some(_) => AgentStatus::Active,
            None => AgentStatus::Idle,
        }
    }

    fn talk(&self) -> Option<CancellationToken> {
        let conversation = self.conversation.as_ref();
        conversation.map(|conversation| conversation.cancel.clone())
    }
}

/// Puts an agent's session on the relay, as a body of the agent that the identity names.
pub async fn attach(
    client: &Client,
    identity: AgentIdentity,
    session: Session,
    options: RelayOptions,
) -> relay_sdk::Result<RelaySession> {
    let place = Place {
        client: client.clone(),
        identity,
        options,
        is_fork: false,
    };
    place.put(session, None).await
}

/// An agent's session that is on the relay. Dropped, it leaves the relay; the agent lives as long as its host.
pub struct RelaySession {
    session: Session,
    attached: Arc<AttachedSession>,
    orders: mpsc::Sender<Order>,
    run: Option<RunId>,
    driving: JoinHandle<()>,
}

impl RelaySession {
    /// The session in the agent.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The session on the relay.
    #[must_use]
    pub fn attached(&self) -> &AttachedSession {
        &self.attached
    }

    /// The permission run of a conversation, in which its calls are asked about.
    #[must_use]
    pub const fn run_id(&self) -> Option<RunId> {
        self.run
    }

    /// Prompts the agent as its user; in a turn it waits for its end. Ends when the prompt was sent, and borrows nothing meanwhile.
    pub fn prompt(
        &self,
        content: Vec<PromptContent>,
    ) -> impl Future<Output = Result<(), HostError>> + Send + use<> {
        let (session, orders) = (self.session.clone(), self.orders.clone());
        async move {
            let (reply, replied) = oneshot::channel();
            let order = Order::Prompt { content, reply };
            if orders.send(order).await.is_err() {
                return session.alive();
            }
            match replied.await {
                Ok(sent) => sent,
                Err(_) => session.alive(),
            }
        }
    }

    /// Cancels what the agent does.
    pub fn cancel(&self) {
        self.session.cancel();
    }

    /// Waits until nothing more happens in it: it was released, its conversation is over, or its agent has ended.
    pub async fn ended(&mut self) {
        // Ends by itself; a panic is an end, too.
        let _ = (&mut self.driving).await;
    }
}

impl Drop for RelaySession {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

/// What the relay's client serves: it hands everything to the task.
struct AcpSession {
    client: Client,
    identity: AgentIdentity,
    capabilities: AgentSessionCapabilities,
    orders: mpsc::Sender<Order>,
    events: Arc<OnceLock<EventHandler>>,
    is_conversation: bool,
}

impl AgentDeliveryAdapter for AcpSession {
    async fn receive_message(
        &self,
        mut message: RelayMessage,
        ctx: MessageContext,
    ) -> Result<MessageReceipt, SessionError> {
        if self.is_conversation && is_guidance(&message) {
            // Whoever it is meant for has it with the decision.
            let evidence = json!({"by": "decision"});
            return Ok(parcel::delivered(
                ctx.id,
                parcel::PROMPT_DOOR,
                evidence,
                &[],
            ));
        }
        let kinds = &self.capabilities.messaging.attachments;
        if let Some(receipt) = fetch(&self.client, &mut message, kinds).await {
            return Ok(receipt);
        }
        let (reply, replied) = oneshot::channel();
        let order = Order::Receive {
            message: Box::new(message),
            context: Box::new(ctx),
            reply,
        };
        if self.orders.send(order).await.is_err() {
            return Ok(failed_for_now(GONE));
        }
        Ok(replied.await.unwrap_or_else(|_| failed_for_now(GONE)))
    }

    async fn cancel(&self, id: DeliveryId, _: Option<String>) -> Result<(), ControlError> {
        let (reply, replied) = oneshot::channel();
        let gone = || ControlError::Failed(GONE.to_owned());
        let sent = self.orders.send(Order::GiveBack { id, reply }).await;
        sent.map_err(|_| gone())?;
        replied.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl AgentSession for AcpSession {
    fn identity(&self) -> AgentIdentity {
        self.identity.clone()
    }

    fn capabilities(&self) -> AgentSessionCapabilities {
        self.capabilities.clone()
    }

    fn on_event(&self, handler: EventHandler) {
        // Called once.
        let _ = self.events.set(handler);
    }

    async fn fork(&self, fork: Fork) -> Result<(), ControlError> {
        let (reply, replied) = oneshot::channel();
        let gone = || ControlError::Failed(GONE.to_owned());
        let sent = self.orders.send(Order::Fork { fork, reply }).await;
        sent.map_err(|_| gone())?;
        replied.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn release(&self, _: Option<String>) {
        let (reply, replied) = oneshot::channel();
        if self.orders.send(Order::Release { reply }).await.is_ok() {
            let _ = replied.await;
        }
    }
}
