//! The life of a permission request: one way out of `pending`, and one way through what was allowed. Pure.
//!
//! What was allowed is started once, with exactly the arguments that were allowed, and whoever says that it
//! started must be able to say how it ended: a start without an end is `unknown` and is never repeated.

use relay_protocol::permission::{ExecutionState, PermissionState};
use relay_protocol::time::Timestamp;

/// Where a request stands, as far as its life is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Standing<'a> {
    pub(crate) state: PermissionState,
    pub(crate) expires_at: Timestamp,
    /// The hash of what may run.
    pub(crate) hash: &'a str,
    pub(crate) execution: Option<ExecutionState>,
    /// By which id the start that was written can be repeated.
    pub(crate) start_id: Option<&'a str>,
}

/// Something that happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Move<'a> {
    /// Somebody who may has decided.
    Decide { approved: bool },
    /// The clock says that nobody answered.
    Expire,
    /// It is no longer needed.
    Cancel,
    /// What was allowed is about to run.
    Start {
        hash: &'a str,
        start_id: Option<&'a str>,
    },
    /// What was started has ended, or what was allowed won't be started.
    Finish(ExecutionState),
    /// Whoever asked is gone for good.
    Abandon,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is over.
    Ends(PermissionState),
    /// The call has come so far.
    Executes(ExecutionState),
    /// It was so already.
    Nothing,
}

/// Why it can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It was over before.
    Ended,
    /// It was not allowed, or not yet.
    NotAllowed,
    /// Something else was allowed.
    OtherArguments,
    /// It was started before, or is over.
    StartedBefore,
    /// It was never started.
    NotStarted,
    /// It has ended in another way.
    FinishedBefore,
    /// Nothing ends like that.
    NoEnd,
}

/// What becomes of a request.
pub(crate) fn apply(now: &Standing<'_>, it: &Move<'_>, at: Timestamp) -> Result<Effect, Obstacle> {
    match it {
        Move::Decide { .. } | Move::Expire | Move::Cancel
            if now.state != PermissionState::Pending =>
        {
            Err(Obstacle::Ended)
        }
        // An answer that comes too late is none, whether or not the clock was looked at since.
        Move::Decide { .. } | Move::Expire if at >= now.expires_at => {
            Ok(Effect::Ends(PermissionState::Expired))
        }
        Move::Expire => Ok(Effect::Nothing),
        Move::Decide { approved: true } => Ok(Effect::Ends(PermissionState::Approved)),
        Move::Decide { approved: false } => Ok(Effect::Ends(PermissionState::Denied)),
        Move::Cancel => Ok(Effect::Ends(PermissionState::Cancelled)),
        Move::Start { hash, start_id } => start(now, hash, *start_id),
        Move::Finish(end) => finish(now, *end),
        Move::Abandon => Ok(abandon(now)),
    }
}

fn start(now: &Standing<'_>, hash: &str, start_id: Option<&str>) -> Result<Effect, Obstacle> {
    if now.state != PermissionState::Approved {
        return Err(Obstacle::NotAllowed);
    }
    if hash != now.hash {
        return Err(Obstacle::OtherArguments);
    }
    match now.execution {
        None => Ok(Effect::Executes(ExecutionState::Started)),
        Some(ExecutionState::Started) if start_id.is_some() && start_id == now.start_id => {
            Ok(Effect::Nothing)
        }
        Some(_) => Err(Obstacle::StartedBefore),
    }
}

fn finish(now: &Standing<'_>, end: ExecutionState) -> Result<Effect, Obstacle> {
    use ExecutionState::{Cancelled, Completed, Failed, Started, Unknown};
    if now.state != PermissionState::Approved {
        return Err(Obstacle::NotAllowed);
    }
    match (now.execution, end) {
        (_, Started) => Err(Obstacle::NoEnd),
        (None, Cancelled) | (Some(Started), Completed | Failed | Unknown) => {
            Ok(Effect::Executes(end))
        }
        (None, _) => Err(Obstacle::NotStarted),
        (Some(Started), Cancelled) => Err(Obstacle::StartedBefore),
        (Some(before), _) if before == end => Ok(Effect::Nothing),
        // Whoever comes back and knows how it ended knows more than nobody.
        (Some(Unknown), Completed | Failed) => Ok(Effect::Executes(end)),
        (Some(_), _) => Err(Obstacle::FinishedBefore),
    }
}

fn abandon(now: &Standing<'_>) -> Effect {
    match (now.state, now.execution) {
        (PermissionState::Pending, _) => Effect::Ends(PermissionState::Cancelled),
        (PermissionState::Approved, None) => Effect::Executes(ExecutionState::Cancelled),
        (PermissionState::Approved, Some(ExecutionState::Started)) => {
            Effect::Executes(ExecutionState::Unknown)
        }
        _ => Effect::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use ExecutionState::{Cancelled as Dropped, Completed, Failed, Started, Unknown};
    use PermissionState::{Approved, Cancelled, Denied, Expired, Pending};

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1_000);

    fn standing(state: PermissionState, execution: Option<ExecutionState>) -> Standing<'static> {
        Standing {
            state,
            expires_at: Timestamp::from_millis(2_000),
            hash: "h",
            execution,
            start_id: Some("s"),
        }
    }

    fn moves() -> Vec<Move<'static>> {
        vec![
            Move::Decide { approved: true },
            Move::Decide { approved: false },
            Move::Expire,
            Move::Cancel,
            Move::Start {
                hash: "h",
                start_id: Some("s"),
            },
            Move::Start {
                hash: "h",
                start_id: Some("other"),
            },
            Move::Start {
                hash: "x",
                start_id: Some("s"),
            },
            Move::Finish(Completed),
            Move::Finish(Failed),
            Move::Finish(Unknown),
            Move::Finish(Dropped),
            Move::Finish(Started),
            Move::Abandon,
        ]
    }

    fn check(
        state: PermissionState,
        execution: Option<ExecutionState>,
        expected: [Result<Effect, Obstacle>; 13],
    ) {
        for (it, expected) in moves().iter().zip(expected) {
            let found = apply(&standing(state, execution), it, AT);
            assert_eq!(found, expected, "{state} {execution:?} {it:?}");
        }
    }

    /// Every state with everything that can happen to it.
    #[test]
    fn the_whole_table() {
        use Effect::{Ends, Executes, Nothing};
        use Obstacle::{
            Ended, FinishedBefore, NoEnd, NotAllowed, NotStarted, OtherArguments, StartedBefore,
        };
        check(
            Pending,
            None,
            [
                Ok(Ends(Approved)),
                Ok(Ends(Denied)),
                Ok(Nothing),
                Ok(Ends(Cancelled)),
                Err(NotAllowed),
                Err(NotAllowed),
                Err(NotAllowed),
                Err(NotAllowed),
                Err(NotAllowed),
                Err(NotAllowed),
                Err(NotAllowed),
                Err(NotAllowed),
                Ok(Ends(Cancelled)),
            ],
        );
        for over in [Denied, Expired, Cancelled] {
            let mut expected = [Err(NotAllowed); 13];
            expected[..4].fill(Err(Ended));
            expected[12] = Ok(Nothing);
            check(over, None, expected);
        }
        let allowed = |rest: [Result<Effect, Obstacle>; 9]| {
            let mut all = [Err(Ended); 13];
            all[4..].copy_from_slice(&rest);
            all
        };
        check(
            Approved,
            None,
            allowed([
                Ok(Executes(Started)),
                Ok(Executes(Started)),
                Err(OtherArguments),
                Err(NotStarted),
                Err(NotStarted),
                Err(NotStarted),
                Ok(Executes(Dropped)),
                Err(NoEnd),
                Ok(Executes(Dropped)),
            ]),
        );
        check(
            Approved,
            Some(Started),
            allowed([
                Ok(Nothing),
                Err(StartedBefore),
                Err(OtherArguments),
                Ok(Executes(Completed)),
                Ok(Executes(Failed)),
                Ok(Executes(Unknown)),
                Err(StartedBefore),
                Err(NoEnd),
                Ok(Executes(Unknown)),
            ]),
        );
        check(
            Approved,
            Some(Completed),
            allowed([
                Err(StartedBefore),
                Err(StartedBefore),
                Err(OtherArguments),
                Ok(Nothing),
                Err(FinishedBefore),
                Err(FinishedBefore),
                Err(FinishedBefore),
                Err(NoEnd),
                Ok(Nothing),
            ]),
        );
        check(
            Approved,
            Some(Unknown),
            allowed([
                Err(StartedBefore),
                Err(StartedBefore),
                Err(OtherArguments),
                Ok(Executes(Completed)),
                Ok(Executes(Failed)),
                Ok(Nothing),
                Err(FinishedBefore),
                Err(NoEnd),
                Ok(Nothing),
            ]),
        );
        check(
            Approved,
            Some(Dropped),
            allowed([
                Err(StartedBefore),
                Err(StartedBefore),
                Err(OtherArguments),
                Err(FinishedBefore),
                Err(FinishedBefore),
                Err(FinishedBefore),
                Ok(Nothing),
                Err(NoEnd),
                Ok(Nothing),
            ]),
        );
    }

    #[test]
    fn an_answer_at_the_last_moment_is_too_late_by_then() {
        let pending = standing(Pending, None);
        let decide = Move::Decide { approved: true };
        let at = |millis| apply(&pending, &decide, Timestamp::from_millis(millis));
        assert_eq!(at(1_999), Ok(Effect::Ends(Approved)));
        assert_eq!(at(2_000), Ok(Effect::Ends(Expired)));
        let expire = |millis| apply(&pending, &Move::Expire, Timestamp::from_millis(millis));
        assert_eq!(expire(1_999), Ok(Effect::Nothing));
        assert_eq!(expire(2_000), Ok(Effect::Ends(Expired)));
    }

    #[test]
    fn a_start_without_an_id_is_never_repeated() {
        let started = Standing {
            start_id: None,
            ..standing(Approved, Some(Started))
        };
        let again = Move::Start {
            hash: "h",
            start_id: None,
        };
        assert_eq!(apply(&started, &again, AT), Err(Obstacle::StartedBefore));
    }
}
