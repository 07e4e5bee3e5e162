//! The relay decides what an agent may do: its questions become permission requests, with the agent's own options.
//!
//! A [`Broker`] is given to a host when that is started ([`HostOptions::deciding`](crate::acp::host::HostOptions::deciding)), and
//! to [`attach`](super::attach) when a session is put on the relay; only then is known through whom to ask. What a session asks that is
//! not on the relay is refused, not kept: nobody could see it, and a turn would wait for ever for what nobody was asked.
//!
//! One question is served by a task of its own (`asking.rs`). It outlives the turn that asked, so that a request which nobody
//! needs any more is always taken back. What is asked and what a decision means for the agent is pure (`form.rs`).

mod asking;
mod desk;
mod form;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::permission::PermissionRecord;
use tokio::sync::{oneshot, watch};

use self::asking::Asking;
use self::desk::Desk;
pub(super) use self::desk::Through;
use crate::acp::permission::{Decides, Deciding, PermissionAnswer, PermissionQuestion};

/// What a broker tells of.
#[derive(Clone, Debug)]
pub enum BrokerNews {
    /// A request waits for somebody's decision. Rules and grants have not decided it.
    Asked {
        /// The request, as it is on the relay.
        request: Box<PermissionRecord>,
        /// What the agent asked.
        question: Box<PermissionQuestion>,
    },
    /// A request that waited is over.
    Ended {
        /// The request, as far as it is known; it is pending where that can't be found out any more.
        request: Box<PermissionRecord>,
        /// The call, as the agent names it.
        call: String,
    },
    /// A question is answered, whoever decided it. The agent is told behind this.
    Answered {
        /// The call, as the agent names it.
        call: String,
        /// What becomes of it.
        fate: CallFate,
    },
}

/// What becomes of a call that was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFate {
    /// It may run, and that is written down.
    Runs,
    /// It was refused, or approved in a way that the agent can't follow.
    Denied {
        /// Why.
        reason: Option<String>,
        /// Whether the turn ends with it.
        stops: bool,
    },
    /// Nobody answered in time.
    Expired,
    /// Nobody needs an answer any more.
    Cancelled {
        /// Why.
        reason: Option<String>,
    },
    /// Nobody could be asked, or what was allowed could not be written down.
    Failed {
        /// Why.
        error: String,
    },
}

impl CallFate {
    /// Whether the turn ends with it.
    #[must_use]
    pub const fn stops(&self) -> bool {
        matches!(self, Self::Denied { stops: true, .. })
    }
}

type OnNews = Box<dyn Fn(BrokerNews) + Send + Sync>;

/// Asks the relay what an agent may do. Clones are the same broker; each host needs one of its own, because agents choose the
/// ids of their sessions.
#[derive(Clone, Default)]
pub struct Broker {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The sessions that are on the relay, by the agent's id.
    desks: Mutex<HashMap<String, Arc<Desk>>>,
    on_news: Option<OnNews>,
    /// How many things the relay is not told of yet.
    open: watch::Sender<usize>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Broker")
    }
}

impl Broker {
    /// A broker that asks the relay and tells nobody else.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A broker that also tells of every question, for example so that somebody at a terminal can answer it like any
    /// other client. Whoever is told must not hold it up.
    pub fn telling(on_news: impl Fn(BrokerNews) + Send + Sync + 'static) -> Self {
        Self {
            inner: Arc::new(Inner {
                on_news: Some(Box::new(on_news)),
                ..Inner::default()
            }),
        }
    }

    /// Waits until no question is open and the relay knows of the end of each. Before a program ends, cancel what runs, then
    /// wait for this.
    pub async fn settled(&self) {
        let mut open = self.inner.open.subscribe();
        // Can't fail: the sender is here.
        let _ = open.wait_for(|open| *open == 0).await;
    }

    /// A session is on the relay, as long as what this gives is kept.
    pub(super) fn register(&self, session: &str, through: Through) -> Registered {
        let work = Work(self.inner.clone());
        let desk = Arc::new(Desk::new(through, work));
        self.desks().insert(session.to_owned(), desk.clone());
        Registered {
            broker: self.clone(),
            session: session.to_owned(),
            desk,
        }
    }

    fn desks(&self) -> MutexGuard<'_, HashMap<String, Arc<Desk>>> {
        let desks = &self.inner.desks;
        desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn tell(&self, news: impl FnOnce() -> BrokerNews) {
        if let Some(on_news) = &self.on_news {
            on_news(news());
        }
    }
}

impl Decides for Broker {
    fn decide(&self, question: PermissionQuestion) -> Deciding<'_> {
        Box::pin(async move {
            let desk = self.desks().get(&question.session_id).cloned();
            let Some(desk) = desk else {
                tracing::warn!(agent = %question.agent, "an agent asked in a session that is not on the relay");
                return PermissionAnswer::Reject;
            };
            let (answer, answered) = oneshot::channel();
            let inner = self.inner.clone();
            let asking = Asking {
                inner,
                desk,
                question,
            };
            Work(self.inner.clone()).begin(asking.serve(answer));
            // When this is dropped the task notices, and takes the request back.
            answered.await.unwrap_or(PermissionAnswer::Cancelled)
        })
    }
}

/// Begins tasks that [`Broker::settled`] waits for.
struct Work(Arc<Inner>);

impl Work {
    fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(self.0.clone());
        tokio::spawn(async move {
            work.await;
            drop(counted);
        });
    }
}

struct Counted(Arc<Inner>);

impl Counted {
    fn new(inner: Arc<Inner>) -> Self {
        inner.open.send_modify(|open| *open += 1);
        Self(inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

/// A session that the broker can ask through. Dropped, it can't any more.
pub(super) struct Registered {
    broker: Broker,
    session: String,
    pub(super) desk: Arc<Desk>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.desk.close();
        let mut desks = self.broker.desks();
        // The same session may have been put on the relay anew.
        if desks
            .get(&self.session)
            .is_some_and(|desk| Arc::ptr_eq(desk, &self.desk))
        {
            desks.remove(&self.session);
        }
    }
}
