//! The events that a session reports: in order, each once, however often the connection breaks. No I/O.
//!
//! Each has a number, counted from 1 by the server. What is not acknowledged is kept and sent again after a
//! loss. An event that the server refuses leaves no number behind, so those after it are numbered anew; answers to
//! the old numbers belong to an older generation and mean nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session_event::AgentSessionEvent;

use super::Done;
use crate::error::{Error, Result};

/// Most events that wait to be acknowledged; a session that reports more is told so.
const BACKLOG: usize = 10_000;
/// Most events that are under way at a time.
const WINDOW: usize = 64;

/// How many events wait, known to whoever reports and to whoever sends.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog(Arc<AtomicUsize>);

impl Backlog {
    /// Takes a place, if there is one.
    pub(super) fn enter(&self) -> Result<()> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                (waiting < BACKLOG).then_some(waiting + 1)
            });
        taken.map(drop).map_err(|_| Error::Backlog(BACKLOG))
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events of one session.
#[derive(Default)]
pub(super) struct Reports {
    backlog: Backlog,
    waiting: VecDeque<Report>,
    /// The number of the first that waits.
    first: u64,
    /// How many of them are under way.
    sent: usize,
    generation: u64,
}

struct Report {
    event: AgentSessionEvent,
    done: Option<Done>,
}

/// An event that is to be sent now.
#[derive(Debug, PartialEq)]
pub(super) struct Numbered {
    pub(super) generation: u64,
    pub(super) n: u64,
    pub(super) event: AgentSessionEvent,
}

impl Reports {
    pub(super) fn new(backlog: Backlog) -> Self {
        Self {
            backlog,
            ..Self::default()
        }
    }

    /// Adds an event that has a place in the backlog.
    pub(super) fn push(&mut self, event: AgentSessionEvent, done: Option<Done>) {
        self.waiting.push_back(Report { event, done });
    }

    /// The session is attached. `acked` is the last number that the server has; those of another session's
    /// life mean nothing here.
    pub(super) fn attached(&mut self, acked: u64, is_same_session: bool) {
        while is_same_session && self.first <= acked && !self.waiting.is_empty() {
            self.settle(Ok(()));
        }
        self.renumber(acked + 1);
    }

    /// The next event to send, if one may be.
    pub(super) fn next(&mut self) -> Option<Numbered> {
        if self.sent >= WINDOW {
            return None;
        }
        let report = self.waiting.get(self.sent)?;
        let numbered = Numbered {
            generation: self.generation,
            n: self.first + self.sent as u64,
            event: report.event.clone(),
        };
        self.sent += 1;
        Some(numbered)
    }

    /// The server has everything up to a number.
    pub(super) fn acked(&mut self, generation: u64, n: u64) {
        while generation == self.generation && self.first <= n && self.sent > 0 {
            self.settle(Ok(()));
        }
    }

    /// The server did not take an event.
    pub(super) fn refused(&mut self, generation: u64, n: u64, problem: Box<Problem>) {
        if generation != self.generation {
            return;
        }
        let expected = problem
            .expected
            .as_deref()
            .and_then(|text| text.parse().ok());
        match (problem.code, expected) {
            (ErrorCode::EventGap, Some(expected)) => self.renumber(expected),
            _ if problem.retryable => self.renumber(self.first),
            _ => {
                self.drop_refused(n, problem);
                self.renumber(self.first);
            }
        }
    }

    fn drop_refused(&mut self, n: u64, problem: Box<Problem>) {
        // Those before it were taken, or their answers would have come first.
        while self.first < n && !self.waiting.is_empty() {
            self.settle(Ok(()));
        }
        if let Some(report) = self.waiting.pop_front() {
            self.backlog.leave();
            tracing::warn!(
                event = report.event.tag(),
                problem.detail,
                "a session event was refused"
            );
            if let Some(done) = report.done {
                let _ = done.send(Err(Error::Problem(problem)));
            }
        }
    }

    /// Numbers everything that waits anew, and sends it again.
    fn renumber(&mut self, first: u64) {
        self.first = first;
        self.sent = 0;
        self.generation += 1;
    }

    fn settle(&mut self, result: Result<()>) {
        self.first += 1;
        self.sent = self.sent.saturating_sub(1);
        if let Some(report) = self.waiting.pop_front() {
            self.backlog.leave();
            if let Some(done) = report.done {
                let _ = done.send(result);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use relay_protocol::session_event::{LogLevel, LogLine};

    use super::*;

    fn log(message: &str) -> AgentSessionEvent {
        AgentSessionEvent::Log(LogLine {
            level: LogLevel::Info,
            message: message.to_owned(),
        })
    }

    fn reports(messages: &[&str]) -> Reports {
        let mut reports = Reports::default();
        for message in messages {
            reports.backlog.enter().unwrap();
            reports.push(log(message), None);
        }
        reports.attached(0, false);
        reports
    }

    /// What is sent now, as `number message`.
    fn sent(reports: &mut Reports) -> Vec<String> {
        std::iter::from_fn(|| reports.next())
            .map(|numbered| match numbered.event {
                AgentSessionEvent::Log(log) => format!("{} {}", numbered.n, log.message),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn gap(expected: &str) -> Box<Problem> {
        Box::new(Problem {
            expected: Some(expected.to_owned()),
            ..Problem::new(ErrorCode::EventGap, "gap")
        })
    }

    #[test]
    fn numbers_rise_by_one() {
        let mut reports = reports(&["a", "b"]);
        assert_eq!(sent(&mut reports), ["1 a", "2 b"]);
        reports.acked(1, 2);
        reports.push(log("c"), None);
        assert_eq!(sent(&mut reports), ["3 c"]);
        assert!(sent(&mut reports).is_empty());
    }

    #[test]
    fn what_was_not_acknowledged_is_sent_again_after_a_loss() {
        let mut reports = reports(&["a", "b", "c"]);
        assert_eq!(sent(&mut reports).len(), 3);
        reports.acked(1, 1);
        // The server had stored one more than it could say.
        reports.attached(2, true);
        assert_eq!(sent(&mut reports), ["3 c"]);
    }

    #[test]
    fn another_session_counts_anew() {
        let mut reports = reports(&["a", "b"]);
        assert_eq!(sent(&mut reports).len(), 2);
        reports.acked(1, 1);
        reports.attached(0, false);
        assert_eq!(sent(&mut reports), ["1 b"]);
    }

    #[test]
    fn a_refused_event_leaves_no_number_behind() {
        let mut reports = reports(&["a", "bad", "c", "d"]);
        assert_eq!(sent(&mut reports).len(), 4);
        reports.acked(1, 1);
        let problem = Problem::new(ErrorCode::IllegalTransition, "no");
        reports.refused(1, 2, Box::new(problem));
        assert_eq!(sent(&mut reports), ["2 c", "3 d"]);
        // The old numbers were refused, too, because one was missing. That means nothing any more.
        reports.refused(1, 3, gap("2"));
        reports.refused(1, 4, gap("2"));
        assert!(sent(&mut reports).is_empty());
        reports.acked(2, 3);
        assert_eq!(reports.waiting.len(), 0);
    }

    #[test]
    fn somebody_else_counted_on() {
        let mut reports = reports(&["a"]);
        assert_eq!(sent(&mut reports), ["1 a"]);
        reports.refused(1, 1, gap("8"));
        assert_eq!(sent(&mut reports), ["8 a"]);
    }

    #[test]
    fn few_are_under_way_and_not_many_wait() {
        let messages = vec!["x"; WINDOW + 1];
        let mut reports = reports(&messages);
        assert_eq!(sent(&mut reports).len(), WINDOW);
        reports.acked(1, 1);
        assert_eq!(sent(&mut reports).len(), 1);
        let backlog = Backlog::default();
        for _ in 0..BACKLOG {
            backlog.enter().unwrap();
        }
        assert!(backlog.enter().unwrap_err().is_retryable());
    }
}
