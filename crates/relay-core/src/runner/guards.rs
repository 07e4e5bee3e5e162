//! What is given back when whoever holds it goes away: an offer that was to be settled, an agent that
//! was held back.

use std::sync::Arc;

use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::ids::SessionId;

use super::Inbox;
use super::state::{Input, Stepped};
use crate::delivery::history::Offer;
use crate::store::{AgentNo, Position};

/// An offer that is being settled by a receipt. Dropped before that, it is out as before.
pub(crate) struct Settling {
    pub(crate) found: Found,
    inbox: Arc<Inbox>,
    armed: bool,
}

/// What a receipt answers.
pub(crate) enum AnswerTo {
    /// An offer that is out.
    Offer(Settling),
    /// An offer that was settled, or is about to be, without the session's word. The delivery is not offered
    /// until the receipt is stored. The offer, if it is still to be settled.
    LapsedOffer(Option<Box<Offer>>),
    /// An offer that another one has followed, which is out.
    OlderOffer,
}

/// An offer that is out.
pub(crate) struct Found {
    pub(crate) agent: AgentNo,
    pub(crate) position: Position,
    pub(crate) offer: Box<Offer>,
    pub(crate) decisions: Vec<DeliveryDecision>,
}

impl Settling {
    pub(super) const fn new(found: Found, inbox: Arc<Inbox>) -> Self {
        let armed = true;
        Self {
            found,
            inbox,
            armed,
        }
    }

    /// Whoever stores the receipt tells the end of it.
    pub(crate) fn into_parts(mut self) -> (AgentNo, Box<Offer>, Vec<DeliveryDecision>) {
        self.armed = false;
        let decisions = std::mem::take(&mut self.found.decisions);
        (self.found.agent, self.found.offer.clone(), decisions)
    }

    /// The receipt was stored, or refused.
    pub(crate) fn finish(mut self, stored: bool) {
        if stored {
            self.armed = false;
            let Found {
                agent, position, ..
            } = self.found;
            let epoch = Some(self.found.offer.epoch);
            self.inbox.put(Input::Stepped(Box::new(Stepped {
                agent,
                position,
                epoch,
                stored: true,
                row: None,
            })));
        }
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        if self.armed {
            let Found {
                agent, position, ..
            } = self.found;
            let epoch = self.found.offer.epoch;
            self.inbox.put(Input::Unsettled(agent, position, epoch));
        }
    }
}

/// Does something when it is dropped.
pub(super) struct OnDrop<F: FnMut()>(pub(super) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// While it lives, nothing is offered to an agent.
pub(crate) struct HoldGuard {
    inbox: Arc<Inbox>,
    agent: AgentNo,
}

impl HoldGuard {
    pub(super) const fn new(inbox: Arc<Inbox>, agent: AgentNo) -> Self {
        Self { inbox, agent }
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.inbox.put(Input::Released(self.agent));
    }
}

/// Marks a session as being attached. Dropped, with or without success, the session's grace time and
/// lease go on from where they are.
pub(crate) struct AttachGuard {
    inbox: Arc<Inbox>,
    session: SessionId,
}

impl AttachGuard {
    pub(super) const fn new(inbox: Arc<Inbox>, session: SessionId) -> Self {
        Self { inbox, session }
    }
}

impl Drop for AttachGuard {
    fn drop(&mut self) {
        self.inbox.put(Input::AttachEnded(self.session));
    }
}
