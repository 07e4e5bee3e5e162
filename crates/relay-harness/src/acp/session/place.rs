//! Where a session is on the relay: as whose body, through which client, how. Copies of the session go there, too.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use relay_protocol::agent::AgentIdentity;
use relay_protocol::ids::RunId;
use relay_protocol::permission::CreateRun;
use relay_sdk::{AttachedSession, Client, Fork};
use tokio::sync::mpsc;

use super::broker::Through;
use super::driver::Driver;
use super::{AcpSession, Conversation, RelayOptions, RelaySession, Watch};
use crate::acp::capabilities::{SAFE_STATES, SessionFacts, session_capabilities};
use crate::acp::host::Session;

/// Most orders that wait for the task of a session.
const WAITING_ORDERS: usize = 64;

/// A session that is being put on the relay. Boxed, because a session that is there can put another one there.
type Putting = Pin<Box<dyn Future<Output = relay_sdk::Result<RelaySession>> + Send>>;

#[derive(Clone)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) identity: AgentIdentity,
    pub(super) options: RelayOptions,
    /// Whether the session is a copy, which lives in somebody else's agent and does not end it.
    pub(super) is_fork: bool,
}

impl Place {
    /// Puts a session there; with a resume token, as the session that the relay has made for it.
    pub(super) fn put(self, session: Session, resume: Option<String>) -> Putting {
        Box::pin(self.attach(session, resume))
    }

    async fn attach(
        self,
        session: Session,
        resume: Option<String>,
    ) -> relay_sdk::Result<RelaySession> {
        let facts = SessionFacts {
            mid_turn: session.host().agent().mid_turn,
            may_interrupt: self.options.may_interrupt,
            has_relay_tools: self.options.has_relay_tools,
        };
        let (orders, queue) = mpsc::channel(WAITING_ORDERS);
        let events = Arc::new(OnceLock::new());
        let conversation = self.options.conversation.as_ref();
        let mut capabilities = session_capabilities(session.host().handshake(), facts);
        if conversation.is_some() {
            capabilities.lifecycle.fork = None;
        }
        let served = AcpSession {
            client: self.client.clone(),
            identity: self.identity.clone(),
            capabilities,
            orders: orders.clone(),
            events: events.clone(),
            is_conversation: conversation.is_some(),
        };
        let mut attaching = self
            .client
            .attach(served)
            .harness(format!("acp/{}", session.host().agent_id()))
            .safe_states(SAFE_STATES)
            .status(self.options.first_status());
        if conversation.is_some() {
            attaching = attaching.keeps_messages();
        }
        if let Some(resume) = resume {
            attaching = attaching.resume(resume);
        }
        if let Some(memory) = &self.options.memory {
            attaching = attaching.memory(memory);
        }
        let attached = Arc::new(attaching.await?);
        let run = match conversation {
            Some(conversation) => Some(begin_run(&attached, conversation).await?),
            None => None,
        };
        let broker = self.options.broker.as_ref();
        let asks = broker.map(|broker| {
            let through = Through {
                attached: Arc::downgrade(&attached),
                orders: orders.clone(),
                run,
                guided_by: conversation.map(|_| self.client.clone()),
            };
            broker.register(session.id(), through)
        });
        let driver = Driver::new(
            session.clone(),
            facts,
            attached.clone(),
            events,
            orders.clone(),
            self,
            asks,
        );
        let driving = tokio::spawn(driver.run(queue));
        Ok(RelaySession {
            session,
            attached,
            orders,
            run,
            driving,
        })
    }

    /// Copies a session, and puts the copy beside it; or says why not.
    pub(super) async fn fork(
        mut self,
        session: &Session,
        fork: Fork,
    ) -> Result<RelaySession, String> {
        if let Some(name) = fork.as_agent {
            // They came with the session and its token, so the other agent would act as this one.
            if self.options.has_relay_tools {
                return Err("the relay's tools in this session act as its own agent".to_owned());
            }
            self.identity.handle = format!("@{name}");
            self.identity.name = name;
        }
        // A file remembers one session, and whoever looks on looks at one.
        self.options.memory = None;
        self.options.watch = Watch::default();
        self.is_fork = true;
        let copy = session.fork().await.map_err(|error| error.to_string())?;
        let put = self.put(copy, Some(fork.resume_token)).await;
        put.map_err(|error| error.to_string())
    }
}

/// Begins the run that has a conversation's rules. It ends with the session.
async fn begin_run(
    attached: &AttachedSession,
    conversation: &Conversation,
) -> relay_sdk::Result<RunId> {
    let run = CreateRun {
        parent_run_id: None,
        permissions: conversation.permissions.clone(),
    };
    Ok(attached.create_run(&run).await?.run_id)
}
