//! Calls of actions: does what the switchboard decides.

use std::sync::Arc;

use super::link::{Parcel, SessionLink};
use super::state::Input;
use super::switchboard::{Call, HandlerId, Lapse};
use super::{Runner, is_stored};
use crate::actions::told;
use crate::error::Result;
use crate::store::{ActionNo, InvocationEnd, InvocationOutcome, Position};

impl Runner {
    /// Learns of the calls that a former run has left open.
    pub(super) async fn find_open_calls(&self) -> Result<()> {
        const AT_ONCE: usize = 100;
        let mut after = Position::from_key(0);
        loop {
            let rows = self.store.open_invocations(after, AT_ONCE).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.position;
            for row in rows {
                self.inbox.put(Input::LeftOver(row));
            }
        }
    }

    /// A link takes calls of an action.
    pub(crate) fn handler_came(&self, action: ActionNo, link: Arc<dyn SessionLink>) -> HandlerId {
        let handler = self.with(|state, _| state.switchboard.handler_came(action, link));
        self.ring();
        handler
    }

    /// A link takes no calls any more.
    pub(crate) fn handler_lost(&self, handler: HandlerId) {
        self.with(|state, _| state.switchboard.handler_lost(handler));
        self.ring();
    }

    /// Whether a handler stands ready for an action.
    pub(crate) fn is_ready(&self, action: ActionNo) -> bool {
        self.with(|state, _| state.switchboard.is_ready(action))
    }

    /// How many handlers an action has.
    pub(crate) fn handlers(&self, action: ActionNo) -> usize {
        self.with(|state, _| state.switchboard.handlers(action))
    }

    pub(super) fn call(&self, call: Call) {
        match call {
            Call::Hand(handler, link, invoke) => {
                if link.carry(Parcel::Invoke(invoke)).is_err() {
                    self.with(|state, _| state.switchboard.handler_lost(handler));
                }
            }
            Call::Mark(call, offers) => {
                let inbox = self.inbox.clone();
                self.store
                    .offer_invocation(call, offers)
                    .then(move |row| inbox.put(Input::Marked(call, row.ok())));
            }
            Call::Note(call, offers) => self.store.offer_invocation(call, offers).then(drop),
            Call::End(call, lapse) => self.lapse(call, lapse),
        }
    }

    fn lapse(&self, call: Position, lapse: Lapse) {
        let (error, retryable) = match lapse {
            Lapse::TimedOut => ("no handler answered in time", true),
            Lapse::HandlerLost => ("its handler is gone, and it may have been run", false),
        };
        let outcome = InvocationOutcome::Failed {
            error: error.to_owned(),
            retryable: Some(retryable),
        };
        let end = InvocationEnd {
            viewer: None,
            call,
            told: Some(told("you called", &outcome)),
            outcome,
            at: self.environment.clock.now(),
        };
        let inbox = self.inbox.clone();
        self.store.end_invocation(end).then(move |result| {
            // One that ended otherwise meanwhile has told that itself.
            if !is_stored(&result) {
                inbox.put(Input::NotEnded(call));
            }
        });
    }
}
