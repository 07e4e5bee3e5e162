//! How a delivery gets into an agent.

use relay_protocol::delivery::DeliveryMode;

use crate::acp::capabilities::SessionFacts;
use crate::acp::catalogue::MidTurn;

/// A way into an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As a prompt, now.
    Prompt,
    /// Into the turn that runs.
    Steer,
    /// As a prompt behind the turn that runs, which the agent queues.
    Behind,
    /// As a prompt, after the turn that runs was cancelled for it.
    Interrupt,
    /// As a prompt, when the turn that runs has ended by itself.
    Hold,
}

/// Decides how a delivery gets in. What was asked for at a turn's end never disturbs a turn, also when that began while the
/// delivery was on its way.
pub(super) fn decide_way(
    mode: DeliveryMode,
    in_turn: bool,
    steering: bool,
    facts: SessionFacts,
) -> Way {
    if !in_turn {
        return Way::Prompt;
    }
    match (mode, facts.mid_turn) {
        (DeliveryMode::Immediate | DeliveryMode::NextToolCall, _) if steering => Way::Steer,
        (DeliveryMode::Immediate, MidTurn::Queue) => Way::Behind,
        (DeliveryMode::Immediate, MidTurn::CancelAndPrompt) if facts.may_interrupt => {
            Way::Interrupt
        }
        _ => Way::Hold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_in() {
        use DeliveryMode::{Immediate, Manual, NextMessage, NextToolCall, OnIdle};
        let table = [
            // mode, in turn, steering, strategy, may interrupt, way
            (Immediate, false, true, MidTurn::Queue, true, Way::Prompt),
            (OnIdle, false, false, MidTurn::None, false, Way::Prompt),
            (Immediate, true, true, MidTurn::Queue, true, Way::Steer),
            (NextToolCall, true, true, MidTurn::None, false, Way::Steer),
            (Immediate, true, false, MidTurn::Queue, true, Way::Behind),
            (NextToolCall, true, false, MidTurn::Queue, true, Way::Hold),
            (
                Immediate,
                true,
                false,
                MidTurn::CancelAndPrompt,
                true,
                Way::Interrupt,
            ),
            (
                Immediate,
                true,
                false,
                MidTurn::CancelAndPrompt,
                false,
                Way::Hold,
            ),
            (Immediate, true, false, MidTurn::None, true, Way::Hold),
            (Immediate, true, false, MidTurn::Steer, true, Way::Hold),
            (OnIdle, true, true, MidTurn::Queue, true, Way::Hold),
            (
                NextMessage,
                true,
                true,
                MidTurn::CancelAndPrompt,
                true,
                Way::Hold,
            ),
            (Manual, true, true, MidTurn::Queue, true, Way::Hold),
        ];
        for (mode, in_turn, steering, mid_turn, may_interrupt, expected) in table {
            let facts = SessionFacts {
                mid_turn,
                may_interrupt,
                has_relay_tools: false,
            };
            let way = decide_way(mode, in_turn, steering, facts);
            assert_eq!(way, expected, "{mode} {in_turn} {steering} {facts:?}");
        }
    }
}
