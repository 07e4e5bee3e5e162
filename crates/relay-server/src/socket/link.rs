//! A socket as the link of a session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_core::link::{CloseReason, LinkClosed, Parcel, SessionLink};
use relay_protocol::ids::{DeliveryId, SessionId};

use super::outbox::{Outbox, Outgoing};

/// Deliveries whose session is remembered; beyond that the engine finds it by itself, more slowly.
const REMEMBERED: usize = 8_192;

/// Which session of the connection was offered which delivery.
#[derive(Clone, Default)]
pub(super) struct Offers(Arc<Mutex<HashMap<DeliveryId, SessionId>>>);

impl Offers {
    fn all(&self) -> MutexGuard<'_, HashMap<DeliveryId, SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, delivery: DeliveryId, session: SessionId) {
        let mut offers = self.all();
        if offers.len() >= REMEMBERED {
            offers.clear();
        }
        offers.insert(delivery, session);
    }

    pub(super) fn session(&self, delivery: DeliveryId) -> Option<SessionId> {
        self.all().get(&delivery).copied()
    }

    pub(super) fn settled(&self, delivery: DeliveryId) {
        self.all().remove(&delivery);
    }
}

/// What a link tells its connection.
pub(super) struct LinkClosing {
    /// The link.
    pub(super) link: Arc<SocketLink>,
    /// Why nothing more comes over it; nothing when it could not take any more.
    pub(super) reason: Option<CloseReason>,
}

/// The link of one session over a socket.
pub(super) struct SocketLink {
    outbox: Outbox,
    offers: Offers,
    state: Mutex<State>,
    /// Itself, to name in what it tells.
    own: std::sync::Weak<Self>,
}

enum State {
    /// The session does not know yet that it is attached; what comes waits.
    Held(Vec<Parcel>),
    Open,
    Closed,
}

impl SocketLink {
    pub(super) fn new(outbox: Outbox, offers: Offers) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            outbox,
            offers,
            state: Mutex::new(State::Held(Vec::new())),
            own: own.clone(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets through what waited, now that the session knows that it is attached.
    pub(super) fn open(&self) {
        let mut state = self.state();
        if let State::Held(parcels) = std::mem::replace(&mut *state, State::Open) {
            for parcel in parcels {
                if self.pass(parcel).is_err() {
                    *state = State::Closed;
                    return self.tell(None);
                }
            }
        }
    }

    /// Takes nothing more.
    pub(super) fn close(&self) {
        *self.state() = State::Closed;
    }

    fn pass(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        match parcel {
            Parcel::Deliver(deliver) => {
                self.offers.add(deliver.context.id, deliver.session_id);
                self.outbox.parcel(Outgoing::Deliver(deliver))
            }
            Parcel::Control(control) => self.outbox.parcel(Outgoing::Control(control)),
            Parcel::Invoke(invoke) => self.outbox.parcel(Outgoing::Invoke(invoke)),
            Parcel::Close(reason) => {
                self.tell(Some(reason));
                Ok(())
            }
        }
    }

    fn tell(&self, reason: Option<CloseReason>) {
        if let Some(link) = self.own.upgrade() {
            self.outbox.link_closing(LinkClosing { link, reason });
        }
    }
}

impl SessionLink for SocketLink {
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        let mut state = self.state();
        match &mut *state {
            State::Held(parcels) => {
                parcels.push(parcel);
                Ok(())
            }
            State::Open => {
                let passed = self.pass(parcel);
                if passed.is_err() {
                    *state = State::Closed;
                    self.tell(None);
                }
                passed
            }
            State::Closed => Err(LinkClosed),
        }
    }
}
