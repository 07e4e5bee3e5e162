//! The ten states of a session and which may follow which.

use crate::problem::{ErrorCode, Problem};
use crate::session_event::AgentSessionEventType;
use crate::wire::literals;

literals! {
    /// What a session is doing.
    pub enum AgentStatus {
        /// The harness is creating or attaching to the session.
        Starting = "starting",
        /// The session is actively working or generating output.
        Active = "active",
        /// The session is ready for more work.
        Idle = "idle",
        /// The session is waiting on a tool, user input, network, or external result.
        Waiting = "waiting",
        /// The session cannot continue without intervention.
        Blocked = "blocked",
        /// The session is intentionally paused.
        Paused = "paused",
        /// Release has started but is not complete.
        Releasing = "releasing",
        /// The session boundary has been released.
        Released = "released",
        /// The adapter cannot currently reach the session.
        Offline = "offline",
        /// The session or harness failed unexpectedly.
        Failed = "failed",
    }
}

/// The states in which `on-idle` is open when a harness does not say otherwise.
pub const DEFAULT_SAFE_STATES: &[AgentStatus] = &[
    AgentStatus::Idle,
    AgentStatus::Waiting,
    AgentStatus::Blocked,
];

/// Whether a session of this status is at its `on-idle` boundary.
#[must_use]
pub fn is_safe(status: AgentStatus, safe_states: &[AgentStatus]) -> bool {
    !status.is_terminal() && safe_states.contains(&status)
}

impl AgentStatus {
    /// Whether the session has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Released | Self::Failed)
    }

    /// Whether anything is offered to a session of this status, in any mode.
    #[must_use]
    pub const fn takes_offers(self) -> bool {
        matches!(
            self,
            Self::Active | Self::Idle | Self::Waiting | Self::Blocked
        )
    }

    /// The session event that reports only this status, for the five that have one.
    #[must_use]
    pub const fn session_event(self) -> Option<AgentSessionEventType> {
        match self {
            Self::Idle => Some(AgentSessionEventType::StatusIdle),
            Self::Active => Some(AgentSessionEventType::StatusActive),
            Self::Blocked => Some(AgentSessionEventType::StatusBlocked),
            Self::Waiting => Some(AgentSessionEventType::StatusWaiting),
            Self::Offline => Some(AgentSessionEventType::StatusOffline),
            _ => None,
        }
    }

    /// The status that a session event such as `status.idle` reports.
    #[must_use]
    pub fn of_session_event(event_type: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|status| {
            status
                .session_event()
                .is_some_and(|event| event.as_str() == event_type)
        })
    }
}

/// Who changes a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusSource {
    /// The session reports it.
    Session,
    /// The server sets it.
    Server,
}

/// A change of status that somebody wants to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// What the status is.
    pub from: AgentStatus,
    /// What it is to be.
    pub to: AgentStatus,
    /// Who says so.
    pub by: StatusSource,
    /// Whether the session declared `lifecycle.pause`.
    pub can_pause: bool,
}

/// A change of status that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the status cannot change from {from} to {to}: {why}")]
pub struct IllegalTransition {
    /// What the status is.
    pub from: AgentStatus,
    /// What it was to be.
    pub to: AgentStatus,
    /// The rule that forbids it.
    pub why: &'static str,
}

impl From<IllegalTransition> for Problem {
    fn from(error: IllegalTransition) -> Self {
        Self {
            expected: Some(format!("a status that may follow {}", error.from)),
            found: Some(error.to.to_string()),
            ..Self::new(ErrorCode::IllegalTransition, error.to_string())
        }
    }
}

/// Decides whether a status may change like that. To stay the same is always legal.
pub const fn check_transition(change: StatusChange) -> Result<(), IllegalTransition> {
    match obstacle(change) {
        None => Ok(()),
        Some(why) => Err(IllegalTransition {
            from: change.from,
            to: change.to,
            why,
        }),
    }
}

const fn obstacle(change: StatusChange) -> Option<&'static str> {
    use AgentStatus as S;
    let StatusChange {
        from,
        to,
        by,
        can_pause,
    } = change;
    match (from, to) {
        _ if from as u8 == to as u8 => None,
        (S::Released | S::Failed, _) => Some("the session has ended"),
        (_, S::Starting) => Some("nothing goes back to starting"),
        (_, S::Failed | S::Offline) => None,
        (_, S::Releasing | S::Released) if matches!(by, StatusSource::Session) => {
            Some("only the server releases")
        }
        (_, S::Releasing) | (S::Releasing, S::Released) => None,
        (_, S::Released) => Some("releasing comes first"),
        (S::Releasing, _) => Some("a release has begun"),
        (S::Starting, S::Paused) => Some("a session that is starting cannot be paused"),
        (_, S::Paused) if !can_pause => Some("the session did not declare lifecycle.pause"),
        (_, S::Paused | S::Active | S::Idle | S::Waiting | S::Blocked) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are `from`, columns `to`, both in the order of `ALL`:
    /// starting active idle waiting blocked paused releasing released offline failed.
    /// `y` yes, `p` only with lifecycle.pause, `s` only by the server, `.` never.
    const TABLE: [(&str, &str); 10] = [
        ("starting", "yyyyy.s.yy"),
        ("active", ".yyyyps.yy"),
        ("idle", ".yyyyps.yy"),
        ("waiting", ".yyyyps.yy"),
        ("blocked", ".yyyyps.yy"),
        ("paused", ".yyyyys.yy"),
        ("releasing", "......ysyy"),
        ("released", ".......y.."),
        ("offline", ".yyyyps.yy"),
        ("failed", ".........y"),
    ];

    #[test]
    fn the_table_is_exact() {
        for (&from, (name, row)) in AgentStatus::ALL.iter().zip(TABLE) {
            assert_eq!(from.as_str(), name);
            for (&to, rule) in AgentStatus::ALL.iter().zip(row.chars()) {
                for by in [StatusSource::Session, StatusSource::Server] {
                    for can_pause in [false, true] {
                        let legal = match rule {
                            'y' => true,
                            'p' => can_pause,
                            's' => by == StatusSource::Server,
                            _ => false,
                        };
                        let change = StatusChange {
                            from,
                            to,
                            by,
                            can_pause,
                        };
                        assert_eq!(check_transition(change).is_ok(), legal, "{change:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_both_states() {
        let error = check_transition(StatusChange {
            from: AgentStatus::Released,
            to: AgentStatus::Idle,
            by: StatusSource::Server,
            can_pause: true,
        })
        .unwrap_err();
        let problem = Problem::from(error);
        assert_eq!(
            problem.detail,
            "the status cannot change from released to idle: the session has ended"
        );
        assert_eq!(problem.code, ErrorCode::IllegalTransition);
    }

    #[test]
    fn states_have_their_properties() {
        use AgentStatus as S;
        let which = |test: fn(S) -> bool| -> Vec<S> {
            S::ALL
                .iter()
                .copied()
                .filter(|status| test(*status))
                .collect()
        };
        assert_eq!(which(S::is_terminal), [S::Released, S::Failed]);
        assert_eq!(
            which(S::takes_offers),
            [S::Active, S::Idle, S::Waiting, S::Blocked]
        );
        assert_eq!(
            which(|status| is_safe(status, DEFAULT_SAFE_STATES)),
            [S::Idle, S::Waiting, S::Blocked]
        );
        assert_eq!(which(|status| is_safe(status, &[S::Idle])), [S::Idle]);
        assert_eq!(which(|status| is_safe(status, &[S::Paused])), [S::Paused]);
        assert_eq!(which(|status| is_safe(status, &[S::Released])), []);
    }

    #[test]
    fn five_states_have_an_event_of_their_own() {
        for event in AgentSessionEventType::ALL {
            let name = event.as_str();
            let status = AgentStatus::of_session_event(name);
            let expected = name
                .strip_prefix("status.")
                .filter(|rest| *rest != "changed");
            assert_eq!(status.map(AgentStatus::as_str), expected);
            assert!(status.is_none_or(|status| status.session_event() == Some(*event)));
        }
    }
}
