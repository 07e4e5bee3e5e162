//! A session that is one function.

use std::pin::Pin;

use relay_protocol::agent::AgentIdentity;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{MessageContext, MessageReceipt};
use relay_protocol::message::RelayMessage;

use super::traits::{AgentDeliveryAdapter, AgentSession, SessionError};

type Receiving = Pin<Box<dyn Future<Output = Result<MessageReceipt, SessionError>> + Send>>;
type Callback = Box<dyn Fn(RelayMessage, MessageContext) -> Receiving + Send + Sync>;

/// A session inside this process: a function that gets each message.
///
/// ```
/// # fn example(bob: relay_sdk::AgentIdentity) {
/// use relay_sdk::{CallbackSession, delivered};
///
/// let session = CallbackSession::new(bob, |message, ctx| async move {
///     println!("{}", message.text);
///     Ok(delivered(ctx.id))
/// });
/// # }
/// ```
pub struct CallbackSession {
    identity: AgentIdentity,
    capabilities: AgentSessionCapabilities,
    callback: Callback,
}

impl CallbackSession {
    /// A session with the least abilities: it takes text, at once.
    pub fn new<F, Fut>(identity: AgentIdentity, callback: F) -> Self
    where
        F: Fn(RelayMessage, MessageContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<MessageReceipt, SessionError>> + Send + 'static,
    {
        Self {
            identity,
            capabilities: AgentSessionCapabilities::minimum(),
            callback: Box::new(move |message, ctx| Box::pin(callback(message, ctx))),
        }
    }

    /// The same session with other abilities.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: AgentSessionCapabilities) -> Self {
        self.capabilities = capabilities;
        self
    }
}

impl AgentDeliveryAdapter for CallbackSession {
    async fn receive_message(
        &self,
        message: RelayMessage,
        ctx: MessageContext,
    ) -> Result<MessageReceipt, SessionError> {
        (self.callback)(message, ctx).await
    }
}

impl AgentSession for CallbackSession {
    fn identity(&self) -> AgentIdentity {
        self.identity.clone()
    }

    fn capabilities(&self) -> AgentSessionCapabilities {
        self.capabilities.clone()
    }

    async fn release(&self, _: Option<String>) {}
}
