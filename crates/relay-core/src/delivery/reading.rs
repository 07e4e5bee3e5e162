//! Decides which of the deliveries that wait for an agent its inbox shows.
//!
//! An inbox is a second way into an agent, beside its session. A mode that names a moment holds there, too: `manual` waits for a
//! flush, the others for their boundary in the session that the agent has. Without a session there is no boundary, and the inbox is
//! where the message is meant to be read.

use relay_protocol::delivery::DeliveryMode;
use relay_protocol::policy::Policy;

use super::decide::{Hold, Moment, SessionView, Verdict, decide};
use super::lane::{Ask, LaneSet};

/// Decides whether a reader has to wait for a delivery, and why.
#[must_use]
pub fn hold_for_reader(
    ask: Ask,
    session: Option<&SessionView<'_>>,
    policy: &Policy,
) -> Option<Hold> {
    if !may_hold(ask) {
        return None;
    }
    // A session that knows no flush may have it another way only if that was allowed.
    let waits_for_flush = ask.mode == Some(DeliveryMode::Manual);
    let Some(session) = session.filter(|_| !waits_for_flush || ask.allow_downgrade) else {
        return waits_for_flush.then(|| Hold {
            waits_for: ask.mode,
            until: None,
            why: "it waits for a flush".into(),
        });
    };
    // Whoever reads fetches it, so the link does not matter.
    let session = SessionView {
        linked: true,
        ..*session
    };
    match decide(&session, ask, policy, Moment::Now) {
        Verdict::Hold { waits_for, why } => Some(Hold {
            waits_for,
            until: None,
            why,
        }),
        Verdict::Offer { .. } | Verdict::Mismatch(_) => None,
    }
}

/// Whether there is a moment at which a reader has to wait for it: it was sent for one, and nobody has flushed it.
const fn may_hold(ask: Ask) -> bool {
    use DeliveryMode::{Immediate, Manual, NextMessage, NextToolCall, OnIdle};
    match ask.mode {
        Some(NextMessage | NextToolCall | OnIdle | Manual) => !ask.flushed,
        Some(Immediate) | None => false,
    }
}

/// The lanes of deliveries that stay when those around them are read: what may have to wait for its moment, and what was flushed since.
#[must_use]
pub fn lanes_beside_the_mark() -> LaneSet {
    let mut lanes = LaneSet::default();
    for lane in LaneSet::ALL.iter() {
        if lane.ask().is_some_and(|ask| ask.flushed || may_hold(ask)) {
            lanes.insert(lane);
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use relay_protocol::capability::AgentSessionCapabilities;
    use relay_protocol::status::AgentStatus;

    use super::*;

    fn holds(mode: Option<DeliveryMode>, flushed: bool, status: Option<AgentStatus>) -> bool {
        let mut capabilities = AgentSessionCapabilities::minimum();
        capabilities.delivery.modes = DeliveryMode::ALL.to_vec();
        let session = status.map(|status| SessionView {
            capabilities: &capabilities,
            safe_states: &[AgentStatus::Idle],
            status,
            linked: false,
        });
        let ask = Ask {
            mode,
            allow_downgrade: false,
            image: false,
            flushed,
        };
        hold_for_reader(ask, session.as_ref(), &Policy::default()).is_some()
    }

    #[test]
    fn a_mode_that_names_a_moment_holds_in_the_inbox_too() {
        use AgentStatus::{Active, Idle, Paused};
        use DeliveryMode::{Immediate, Manual, NextMessage, NextToolCall, OnIdle};
        let table = [
            // mode, without a session, active, idle, paused
            (None, [false, false, false, false]),
            (Some(Immediate), [false, false, false, false]),
            (Some(OnIdle), [false, true, false, true]),
            (Some(NextToolCall), [false, true, true, true]),
            (Some(NextMessage), [false, true, true, true]),
            (Some(Manual), [true, true, true, true]),
        ];
        for (mode, expected) in table {
            let sessions = [None, Some(Active), Some(Idle), Some(Paused)];
            let found = sessions.map(|session| holds(mode, false, session));
            assert_eq!(found, expected, "{mode:?}");
            let flushed = sessions.map(|session| holds(mode, true, session));
            assert_eq!(flushed, [false; 4], "{mode:?} flushed");
        }
    }

    #[test]
    fn what_stays_when_the_rest_is_read_is_known_by_its_lane() {
        let lanes = lanes_beside_the_mark();
        for lane in LaneSet::ALL.iter() {
            let ask = lane.ask().unwrap();
            let adaptive = matches!(ask.mode, None | Some(DeliveryMode::Immediate));
            assert_eq!(lanes.contains(lane), ask.flushed || !adaptive, "{ask:?}");
        }
    }
}
