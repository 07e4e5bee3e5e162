//! Which state of a delivery may follow which.
//!
//! `pending` → `offered` → `accepted` → `delivered`; from the first three also `deferred`, `failed`
//! and `cancelled`. The three ends are left by nothing but an explicit retry of a failed one.

use crate::delivery::DeliveryState;
use crate::problem::{ErrorCode, Problem};

/// What makes a delivery change its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryCause {
    /// The runner, a receipt, a deadline or a cancellation.
    Progress,
    /// The agent read the message in its inbox.
    InboxRead,
    /// Somebody asked for another try; it opens a new generation.
    Retry,
}

/// A change of state that is not legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a delivery cannot go from {from} to {to}{}", match .cause {
    DeliveryCause::Progress => "",
    DeliveryCause::InboxRead => " by being read in the inbox",
    DeliveryCause::Retry => " by a retry",
})]
pub struct IllegalDeliveryTransition {
    /// Where the delivery stands.
    pub from: DeliveryState,
    /// Where it was to go.
    pub to: DeliveryState,
    /// What was to move it.
    pub cause: DeliveryCause,
}

impl From<IllegalDeliveryTransition> for Problem {
    fn from(error: IllegalDeliveryTransition) -> Self {
        let code = match error.from {
            DeliveryState::Delivered => ErrorCode::AlreadyDelivered,
            _ => ErrorCode::IllegalTransition,
        };
        Self {
            found: Some(error.from.to_string()),
            ..Self::new(code, error.to_string())
        }
    }
}

impl DeliveryState {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed | Self::Cancelled)
    }

    /// Whether a session has it or is about to have it.
    #[must_use]
    pub const fn is_with_session(self) -> bool {
        matches!(self, Self::Offered | Self::Accepted)
    }

    /// Decides whether a delivery in this state may go to another. To stay is not a change.
    pub const fn check_transition(
        self,
        to: Self,
        cause: DeliveryCause,
    ) -> Result<(), IllegalDeliveryTransition> {
        if self.may_become(to, cause) {
            Ok(())
        } else {
            Err(IllegalDeliveryTransition {
                from: self,
                to,
                cause,
            })
        }
    }

    const fn may_become(self, to: Self, cause: DeliveryCause) -> bool {
        match cause {
            DeliveryCause::Progress => self.may_progress(to),
            DeliveryCause::InboxRead => {
                matches!(
                    (self, to),
                    (Self::Pending | Self::Deferred, Self::Delivered)
                )
            }
            DeliveryCause::Retry => matches!((self, to), (Self::Failed, Self::Pending)),
        }
    }

    const fn may_progress(self, to: Self) -> bool {
        use DeliveryState as D;
        match self {
            D::Pending => matches!(to, D::Offered | D::Deferred | D::Failed | D::Cancelled),
            // Back to pending: the link was lost, or the attempt failed and another follows.
            D::Offered => !matches!(to, D::Offered),
            // Back to pending: the lease ended, or the session is gone.
            D::Accepted => !matches!(to, D::Accepted | D::Offered),
            D::Deferred => matches!(to, D::Pending | D::Failed | D::Cancelled),
            D::Delivered | D::Failed | D::Cancelled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are `from`, columns `to`, both in the order of `ALL`:
    /// pending offered accepted deferred delivered failed cancelled.
    /// `y` by progress, `i` by reading the inbox, `r` by retry, `.` never.
    const TABLE: [(&str, &str); 7] = [
        ("pending", ".y.yiyy"),
        ("offered", "y.yyyyy"),
        ("accepted", "y..yyyy"),
        ("deferred", "y...iyy"),
        ("delivered", "......."),
        ("failed", "r......"),
        ("cancelled", "......."),
    ];

    #[test]
    fn the_table_is_exact() {
        for (&from, (name, row)) in DeliveryState::ALL.iter().zip(TABLE) {
            assert_eq!(from.as_str(), name);
            for (&to, rule) in DeliveryState::ALL.iter().zip(row.chars()) {
                for (cause, letter) in [
                    (DeliveryCause::Progress, 'y'),
                    (DeliveryCause::InboxRead, 'i'),
                    (DeliveryCause::Retry, 'r'),
                ] {
                    let result = from.check_transition(to, cause);
                    assert_eq!(result.is_ok(), rule == letter, "{from} {to} {cause:?}");
                }
            }
        }
    }

    #[test]
    fn refusals_become_problems() {
        use DeliveryState as D;
        let problem = |from: D, to| -> Problem {
            let error = from.check_transition(to, DeliveryCause::Retry);
            error.unwrap_err().into()
        };
        let delivered = problem(D::Delivered, D::Pending);
        assert_eq!(delivered.code, ErrorCode::AlreadyDelivered);
        let cancelled = problem(D::Cancelled, D::Pending);
        assert_eq!(cancelled.code, ErrorCode::IllegalTransition);
        assert_eq!(
            cancelled.detail,
            "a delivery cannot go from cancelled to pending by a retry"
        );
    }

    #[test]
    fn three_states_are_ends() {
        use DeliveryState as D;
        let ends: Vec<_> = D::ALL.iter().copied().filter(|s| s.is_terminal()).collect();
        assert_eq!(ends, [D::Delivered, D::Failed, D::Cancelled]);
    }
}
