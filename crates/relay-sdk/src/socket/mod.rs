//! The one socket of a client, which its listeners, sessions and action handlers share.
//!
//! An [`actor`] owns everything: it connects, comes back after a loss, keeps the place of every listener, and
//! lets sessions go on. Others talk to it by [`Command`]s and are told what concerns them. It holds no state
//! that a lost connection could spoil: listeners have their place in the log, sessions have their resume token.

mod actions;
mod actor;
mod connection;
mod followed;
mod listeners;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_protocol::socket::{ClientRequest, InvocationResult};
use tokio::sync::mpsc;

use crate::http::Http;
use crate::listening::NewListener;
use crate::session::Tag;

pub(crate) use actions::NewHandler;
pub(crate) use sessions::{Clock, Input, NewSession, NowAttached};

/// Talks to the socket.
pub(crate) type Commands = mpsc::UnboundedSender<Command>;

/// The same, without keeping the socket open.
pub(crate) type WeakCommands = mpsc::WeakUnboundedSender<Command>;

/// What the socket can be asked for.
pub(crate) enum Command {
    /// Adds a listener.
    Listen(Box<NewListener>),
    /// Ends a listener.
    Unlisten(ListenerId),
    /// A listener that fell behind has room again.
    CaughtUp(ListenerId),
    /// Adds a session, which is attached now and after every loss.
    Attach(Box<NewSession>),
    /// Ends the link of a session.
    Detach(SessionKey),
    /// Says something for a session.
    Say(Box<Said>),
    /// Adds a handler of an action, which is registered now and after every loss.
    Handle(Box<NewHandler>),
    /// Ends a handler.
    Unhandle(HandlerKey),
    /// A handler has answered a call.
    Answered(Box<InvocationResult>),
    /// Ends everything.
    Close,
}

/// Something that a session says.
pub(crate) struct Said {
    pub(crate) session: SessionKey,
    /// The connection it is meant for; on a later one it would be out of order.
    pub(crate) connection: u64,
    pub(crate) request: ClientRequest,
    /// How the session recognises the answer.
    pub(crate) tag: Tag,
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u64);

        impl $name {
            /// One that is not in use.
            pub(crate) fn next() -> Self {
                static NEXT: AtomicU64 = AtomicU64::new(1);
                Self(NEXT.fetch_add(1, Ordering::Relaxed))
            }
        }
    )+};
}

keys! {
    /// A listener of this process.
    ListenerId
    /// A session of this process, also before the server gave it an id.
    SessionKey
    /// A handler of this process.
    HandlerKey
}

/// Starts the socket's task. It connects when there is something to connect for, and ends when nobody can
/// ask it for anything any more.
pub(crate) fn start(http: Arc<Http>) -> Commands {
    let (commands, queue) = mpsc::unbounded_channel();
    tokio::spawn(actor::Actor::new(http, queue).run());
    commands
}
