//! How a delivery gets into an agent.

use relay_protocol::delivery::DeliveryMode;

use crate::acp::capabilities::SessionFacts;
use crate::acp::catalogue::MidTurn;
use crate::acp::content::PromptContent;

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

/// How far a prompt of the user has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptStage {
    /// What is due before it has not been asked for.
    New,
    /// What is due before it is here.
    Received,
    /// What was due before it has had a prompt of its own.
    Preceded,
}

/// What the agent is prompted with next, when its user wants to say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextPrompt {
    /// Nothing yet: the relay is asked for what is due.
    ReceiveDue,
    /// What is due, alone.
    Held,
    /// What is due, and the user's words behind it.
    UserWithHeld,
    /// The user's words.
    User,
}

/// Decides what comes before the user's words. Agents know their commands only at the beginning of a prompt, so what is due has one
/// of its own before a command, once: the user does not wait for what comes meanwhile.
pub(super) const fn next_prompt(stage: PromptStage, command: bool, is_due: bool) -> NextPrompt {
    match (stage, command, is_due) {
        (PromptStage::New, _, _) => NextPrompt::ReceiveDue,
        (PromptStage::Received, true, true) => NextPrompt::Held,
        (PromptStage::Received, false, true) => NextPrompt::UserWithHeld,
        (PromptStage::Received, _, false) | (PromptStage::Preceded, _, _) => NextPrompt::User,
    }
}

/// Whether a prompt is a command of the agent, such as `/compact`.
pub(super) fn is_command(content: &[PromptContent]) -> bool {
    match content.first() {
        Some(PromptContent::Text(text)) => text.trim_start().starts_with('/'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_before_the_words_of_the_user() {
        use NextPrompt::{Held, ReceiveDue, User, UserWithHeld};
        use PromptStage::{New, Preceded, Received};
        let table = [
            // stage, command, is due, next
            (New, false, false, ReceiveDue),
            (New, true, true, ReceiveDue),
            (Received, false, false, User),
            (Received, false, true, UserWithHeld),
            (Received, true, false, User),
            (Received, true, true, Held),
            (Preceded, true, true, User),
            (Preceded, false, true, User),
        ];
        for (stage, command, is_due, expected) in table {
            let next = next_prompt(stage, command, is_due);
            assert_eq!(next, expected, "{stage:?} {command} {is_due}");
        }
        assert!(is_command(&[" /compact".into()]));
        assert!(!is_command(&["see /etc/hosts".into()]) && !is_command(&[]));
    }

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
