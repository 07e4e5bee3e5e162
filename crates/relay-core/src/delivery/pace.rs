//! How fast one sender and one conversation may go.

use relay_protocol::policy::Policy;
use relay_protocol::time::Timestamp;

use crate::store::{AgentNo, RoomNo};

/// What was sent in the last minute, by sender and by conversation.
#[derive(Default)]
pub struct Pace {}

/// A message about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    /// Where.
    pub room: RoomNo,
    /// By whom; those without a mailbox are not counted.
    pub author: Option<AgentNo>,
    /// How many answers by agents, one upon the other, lead to it.
    pub depth: u32,
    /// When.
    pub now: Timestamp,
}

/// Why a delivery has to wait, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brake {
    /// `sender_rate` or `runaway_guard`.
    pub reason: &'static str,
    /// When it may go.
    pub until: Timestamp,
}

impl Pace {
    /// Counts a message; says whether its author goes too fast. Called once per message.
    pub fn send(&mut self, stride: Stride, policy: &Policy) -> Option<Brake> {
        let _ = (stride, policy);
        None
    }

    /// Counts a message on its way to one recipient; says whether the two go too fast.
    pub fn deliver(&mut self, stride: Stride, to: AgentNo, policy: &Policy) -> Option<Brake> {
        let _ = (stride, to, policy);
        None
    }
}
