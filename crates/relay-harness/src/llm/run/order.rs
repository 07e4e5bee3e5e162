//! Which calls of a turn may run now: pure.
//!
//! Calls take effect in the order in which the model wrote them. One that changes things waits for all before it; those that may
//! run beside each other wait only for those before them that change things. A call that waits for a decision holds up
//! only what is after it.

use crate::llm::tools::Sharing;

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has not begun.
    Waiting,
    /// It runs.
    Running,
    /// It has ended, or never ran.
    Over,
}

/// Whether a call may begin.
pub(super) fn may_begin(calls: &[(Sharing, Place)], at: usize) -> bool {
    let Some((own, _)) = calls.get(at) else {
        return false;
    };
    calls[..at].iter().all(|(sharing, place)| {
        *place == Place::Over || (*own == Sharing::Shared && *sharing == Sharing::Shared)
    })
}

#[cfg(test)]
mod tests {
    use super::Place::{Over, Running, Waiting};
    use super::*;
    use crate::llm::tools::Sharing::{Exclusive, Shared};

    #[test]
    fn calls_take_effect_in_their_order() {
        type Calls = &'static [(Sharing, Place)];
        let table: [(Calls, usize, bool); 9] = [
            (&[(Exclusive, Waiting)], 0, true),
            (&[(Exclusive, Waiting), (Exclusive, Waiting)], 1, false),
            (&[(Exclusive, Running), (Exclusive, Waiting)], 1, false),
            (&[(Exclusive, Over), (Exclusive, Waiting)], 1, true),
            (&[(Shared, Waiting), (Shared, Waiting)], 1, true),
            (&[(Shared, Running), (Shared, Waiting)], 1, true),
            (&[(Shared, Running), (Exclusive, Waiting)], 1, false),
            (&[(Exclusive, Running), (Shared, Waiting)], 1, false),
            (
                &[(Exclusive, Over), (Shared, Running), (Shared, Waiting)],
                2,
                true,
            ),
        ];
        for (calls, at, expected) in table {
            assert_eq!(may_begin(calls, at), expected, "{calls:?} {at}");
        }
        assert!(!may_begin(&[], 0));
    }
}
