//! Hands reports to the store, and ends holds when their time has come.
//!
//! What a session reports goes through here in order: under the lock of its [`PendingReports`] reports are
//! taken in and queued for the writer, outside of it the answers are awaited. The registry knows which
//! sessions hold text, by when it is due and by agent, so that other events of them come after it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::redact::Redactor;

use super::pending::PendingReports;
use super::streams::Released;
use crate::environment::Environment;
use crate::runner::Mono;
use crate::store::{
    AgentNo, NumberedReport, Reply, Report, ReportKind, Reported, SessionNo, Store,
};

/// The pending reports of one session.
pub(crate) type SharedReports = Arc<Mutex<PendingReports>>;

/// The sessions that hold text.
pub(crate) struct HeldReports {
    store: Arc<dyn Store>,
    environment: Environment,
    redactor: Redactor,
    registry: Mutex<Registry>,
    /// Nothing is held any more: the process is about to stop.
    stopping: AtomicBool,
}

#[derive(Default)]
struct Registry {
    by_session: HashMap<SessionNo, Holding>,
    by_due: BTreeSet<(Mono, SessionNo)>,
    by_agent: BTreeSet<(AgentNo, SessionNo)>,
}

#[derive(Clone)]
struct Holding {
    agent: AgentNo,
    due: Mono,
    reports: SharedReports,
}

/// Called with whether reports were stored, before their caller is answered.
pub(super) type OnStored = Box<dyn FnOnce(bool) + Send>;

/// What the store was given.
struct Given {
    id: u64,
    reply: Reply<Reported>,
    on_stored: Option<OnStored>,
}

impl HeldReports {
    pub(crate) fn new(store: Arc<dyn Store>, environment: Environment) -> Self {
        Self {
            store,
            environment,
            redactor: Redactor::new(),
            registry: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues what is ready, then lets go of the lock. Reports up to `accepted` were taken in by earlier calls, which
    /// this one must not undo; `on_stored` is for the others.
    pub(super) fn submit(
        &self,
        session: (SessionNo, AgentNo),
        shared: &SharedReports,
        mut reports: MutexGuard<'_, PendingReports>,
        accepted: u64,
        on_stored: Option<OnStored>,
    ) {
        if self.stopping.load(Ordering::Acquire) {
            self.release(&mut reports);
        }
        let mut earlier = std::mem::take(&mut reports.ready);
        let own = earlier.split_off(earlier.partition_point(|report| report.n <= accepted));
        let given = [
            self.give(session.0, &mut reports, earlier, true, None),
            self.give(session.0, &mut reports, own, false, on_stored),
        ];
        self.register(session, reports.text.due(), shared);
        drop(reports);
        for Given {
            id,
            reply,
            on_stored,
        } in given.into_iter().flatten()
        {
            let shared = shared.clone();
            reply.then(move |result| {
                if let Some(on_stored) = on_stored {
                    on_stored(result.is_ok());
                }
                let mut reports = lock(&shared);
                match result {
                    Ok(reported) => reports.confirm(id, reported.acked),
                    Err(error) => reports.undo(id, &error),
                }
            });
        }
    }

    fn give(
        &self,
        session: SessionNo,
        reports: &mut PendingReports,
        events: Vec<NumberedReport>,
        accepted: bool,
        on_stored: Option<OnStored>,
    ) -> Option<Given> {
        let (first, last) = (events.first()?.n, events.last()?.n);
        let id = reports.begin(first, last);
        let report = Report {
            session,
            at: self.environment.clock.now(),
            accepted,
            events,
            jitter: self.environment.random.bits() as u64,
        };
        Some(Given {
            id,
            reply: self.store.report(report),
            on_stored,
        })
    }

    fn register(
        &self,
        (session, agent): (SessionNo, AgentNo),
        due: Option<Mono>,
        shared: &SharedReports,
    ) {
        let mut registry = self.registry();
        registry.remove(session);
        if let Some(due) = due {
            let reports = shared.clone();
            registry.by_due.insert((due, session));
            registry.by_agent.insert((agent, session));
            registry.by_session.insert(
                session,
                Holding {
                    agent,
                    due,
                    reports,
                },
            );
        }
    }

    fn release(&self, reports: &mut PendingReports) {
        let mut released = Vec::new();
        reports.text.end_hold(&self.redactor, &mut released);
        reports.ready.extend(released.into_iter().map(observed));
    }

    /// Stores what a session holds, because something of it follows that is no continuation.
    pub(crate) fn end_session(&self, session: SessionNo) {
        let held = self.registry().by_session.get(&session).cloned();
        if let Some(held) = held {
            let mut reports = lock(&held.reports);
            self.release(&mut reports);
            let accepted = reports.accepted();
            self.submit(
                (session, held.agent),
                &held.reports,
                reports,
                accepted,
                None,
            );
        }
    }

    /// Stores what the sessions of an agent hold.
    pub(crate) fn end_agent(&self, agent: AgentNo) {
        let registry = self.registry();
        let all = (agent, SessionNo(0))..=(agent, SessionNo(i64::MAX));
        let sessions = registry.by_agent.range(all).map(|(_, session)| *session);
        let sessions: Vec<SessionNo> = sessions.collect();
        drop(registry);
        for session in sessions {
            self.end_session(session);
        }
    }

    /// Stores what was held for long enough; says when the next hold is due.
    pub(crate) fn end_due(&self, now: Mono) -> Option<Mono> {
        loop {
            let (due, session) = *self.registry().by_due.first()?;
            if due > now {
                return Some(due);
            }
            self.end_session(session);
        }
    }

    /// Stores everything that is held, and holds nothing from now on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        while let Some((_, session)) = self.first() {
            self.end_session(session);
        }
    }

    fn first(&self) -> Option<(Mono, SessionNo)> {
        self.registry().by_due.first().copied()
    }
}

impl Registry {
    fn remove(&mut self, session: SessionNo) {
        if let Some(held) = self.by_session.remove(&session) {
            self.by_due.remove(&(held.due, session));
            self.by_agent.remove(&(held.agent, session));
        }
    }
}

/// The pending reports of a session.
pub(super) fn lock(shared: &SharedReports) -> MutexGuard<'_, PendingReports> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A text event as a report.
pub(super) fn observed((n, event): Released) -> NumberedReport {
    NumberedReport::new(n, ReportKind::Observation(Box::new(event)))
}
