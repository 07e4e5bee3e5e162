//! The boundaries of a run on the relay: before a question is asked, what is due at that moment has come.
//!
//! The run stops at each moment at which it takes messages, and the session's task stands at the boundary for it: only that task knows what
//! was reported before. It waits until the relay has handed over what is due and the session has taken it in.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::Driver;
use super::bag::Bag;
use super::report::Reporter;
use super::served::Mail;
use crate::llm::run::{Inbox, Incoming, RunMoment};

/// How long a question waits for the relay. One that can't be reached must not keep the model from going on; what it has comes later.
const BOUNDARY_WAIT: Duration = Duration::from_secs(15);

/// A run that waits until its session has stood at a boundary.
pub(super) struct BoundaryStop {
    moment: RunMoment,
    done: oneshot::Sender<()>,
}

/// What a run takes from the mailbox of its session.
pub(super) struct BoundaryInbox {
    bag: Arc<Bag>,
    stops: mpsc::Sender<BoundaryStop>,
}

impl BoundaryInbox {
    pub(super) const fn new(bag: Arc<Bag>, stops: mpsc::Sender<BoundaryStop>) -> Self {
        Self { bag, stops }
    }

    async fn stop(&self, moment: RunMoment) {
        let (done, is_done) = oneshot::channel();
        if self.stops.send(BoundaryStop { moment, done }).await.is_ok() {
            // Without the task of the session nothing comes any more.
            let _ = is_done.await;
        }
    }
}

impl Inbox for BoundaryInbox {
    fn take(&self, moment: RunMoment) -> BoxFuture<'_, Vec<Incoming>> {
        async move {
            self.stop(moment).await;
            match (moment, self.bag.continues_runs()) {
                // The session's task begins the next run.
                (RunMoment::End, false) => Vec::new(),
                (moment, _) => self.bag.take_next(moment == RunMoment::End),
            }
        }
        .boxed()
    }

    fn answered(&self) {
        self.bag.answered();
    }

    fn unanswered(&self, why: &str) {
        self.bag.unanswered(why);
    }
}

/// The boundary of the relay at which a session stands then, if it is one.
const fn boundary_of(moment: RunMoment, mail: Mail) -> Option<BoundaryKind> {
    match (moment, mail) {
        // Nothing can have been addressed to a conversation that has just begun.
        (RunMoment::Begin, Mail::Shared) => None,
        // Its task stands at that boundary when it is idle.
        (RunMoment::End, Mail::Read) => None,
        (RunMoment::Begin | RunMoment::End, _) => Some(BoundaryKind::NextMessage),
        (RunMoment::AfterCalls, _) => Some(BoundaryKind::NextToolCall),
    }
}

impl Driver {
    /// Stands at the boundary that a run has reached, and lets it go on when what is due there has come.
    pub(super) async fn stand_at(&self, stop: BoundaryStop, reporter: &mut Reporter) {
        let BoundaryStop { moment, done } = stop;
        if let Some(kind) = boundary_of(moment, self.mail) {
            let standing = self.stand_at_boundary(moment, kind, reporter);
            tokio::select! {
                () = self.release.cancelled() => {}
                stood = timeout(BOUNDARY_WAIT, standing) => {
                    if stood.is_err() {
                        tracing::warn!("the relay did not say in time what is due for a model");
                    }
                }
            }
            if !self.bag.is_empty() {
                reporter.status(AgentStatus::Active, None);
            }
        }
        // The run may have been cancelled meanwhile.
        let _ = done.send(());
    }

    async fn stand_at_boundary(
        &self,
        moment: RunMoment,
        kind: BoundaryKind,
        reporter: &mut Reporter,
    ) {
        if moment == RunMoment::End {
            // What waits for a session at rest is due from the moment in which the relay knows that it rests.
            if let Some(resting) = reporter.rest() {
                let _ = self.attached.emit_session_event(resting).await;
            }
        }
        // Without a link nothing comes; it is offered again when there is one.
        let _ = self.attached.receive_due(kind).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_a_run_are_boundaries_of_its_session() {
        use BoundaryKind::{NextMessage, NextToolCall};
        for (moment, mail, expected) in [
            (RunMoment::Begin, Mail::Read, Some(NextMessage)),
            (RunMoment::Begin, Mail::Shared, None),
            (RunMoment::AfterCalls, Mail::Read, Some(NextToolCall)),
            (RunMoment::AfterCalls, Mail::Shared, Some(NextToolCall)),
            (RunMoment::End, Mail::Read, None),
            (RunMoment::End, Mail::Shared, Some(NextMessage)),
        ] {
            assert_eq!(boundary_of(moment, mail), expected, "{moment:?} {mail:?}");
        }
    }
}
