//! Somebody beside the relay who looks on: what happens in a session, as it happens here.

use std::fmt;
use std::sync::Arc;

use relay_protocol::delivery::MessageContext;
use relay_protocol::message::RelayMessage;
use relay_protocol::status::AgentStatus;

use crate::acp::event::SessionEvent;

/// What is seen of a session.
#[derive(Clone, Debug)]
pub enum Seen {
    /// The agent did something.
    Event(Box<SessionEvent>),
    /// A message came for it. What becomes of it is told by its receipt.
    Message {
        /// The message.
        message: Box<RelayMessage>,
        /// How it came.
        context: Box<MessageContext>,
    },
    /// A message that had come is in a turn of the agent now.
    Entered {
        /// The message, without the content of its attachments.
        message: Box<RelayMessage>,
        /// How it came.
        context: Box<MessageContext>,
    },
    /// Its status on the relay is another one.
    Status(AgentStatus),
}

/// Who looks on; by default nobody.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<dyn Fn(Seen) + Send + Sync>>);

impl Watch {
    /// Tells everything to this. It may not wait: the session's own task calls it.
    pub fn by(see: impl Fn(Seen) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(see)))
    }

    pub(super) fn see(&self, seen: impl FnOnce() -> Seen) {
        if let Some(watch) = &self.0 {
            watch(seen());
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Watch" } else { "nobody" })
    }
}
