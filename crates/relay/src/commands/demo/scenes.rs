//! The scenes: every mode, every receipt, an agent that goes away, and a message that can't be delivered.

use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_sdk::{AgentStatus, FlushInput};

use super::narrator::Pace;
use super::play::{Letter, Play};
use crate::failure::Outcome;
use crate::moment::clock;
use crate::throwaway::{Answer, Step};

/// For how long an agent puts a message off.
const PUT_OFF_MS: i64 = 3_000;
const PUT_OFF_FAST_MS: i64 = 200;

pub(super) async fn all(play: &mut Play<'_>) -> Outcome {
    immediate(play).await?;
    next_tool_call(play).await?;
    on_idle(play).await?;
    next_message(play).await?;
    manual(play).await?;
    deferred(play).await?;
    retried(play).await?;
    away(play).await?;
    impossible(play).await
}

async fn immediate(play: &mut Play<'_>) -> Outcome {
    play.scene("immediate: interrupt an agent that works")
        .await?;
    let to = play.cast.coder.handle().to_owned();
    play.say(&format!("{to} is active: it is in the middle of its turn."))
        .await?;
    let from = play.cast.planner.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: Some(DeliveryMode::Immediate),
            text: "Stop: staging is down.",
        })
        .await?;
    play.delivered(&sent, "the session has it, in the middle of its turn")
        .await
}

async fn next_tool_call(play: &mut Play<'_>) -> Outcome {
    play.scene("next-tool-call: a word between two tools")
        .await?;
    let to = play.cast.coder.handle().to_owned();
    let from = play.cast.planner.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: Some(DeliveryMode::NextToolCall),
            text: "Use the new client library.",
        })
        .await?;
    play.waits(&sent, "it is on disk, and Relay holds it while a tool runs")
        .await?;
    play.say(&format!("{to} finishes `cargo test`.")).await?;
    play.cast.coder.finish_tool("cargo test").await?;
    play.delivered(&sent, "before the next tool call, so that it still counts")
        .await
}

async fn on_idle(play: &mut Play<'_>) -> Outcome {
    play.scene("on-idle: do not disturb, but do not forget")
        .await?;
    let to = play.cast.coder.handle().to_owned();
    let from = play.cast.reviewer.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: Some(DeliveryMode::OnIdle),
            text: "I left comments on your change.",
        })
        .await?;
    play.waits(&sent, "the turn goes on").await?;
    play.say(&format!("{to} ends its turn and is idle."))
        .await?;
    play.cast.coder.become_status(AgentStatus::Idle).await?;
    play.delivered(&sent, "the turn was over").await
}

async fn next_message(play: &mut Play<'_>) -> Outcome {
    play.scene("next-message: an agent that queues for itself")
        .await?;
    play.cast.planner.will_answer(Answer::Accept);
    let to = play.cast.planner.handle().to_owned();
    let from = play.cast.coder.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: Some(DeliveryMode::NextMessage),
            text: "Tests pass. What is next?",
        })
        .await?;
    play.until(&sent, |step| *step == Step::Accepted).await?;
    let text = "accepted: the session holds it; that is not yet delivered";
    play.happened(&sent, DeliveryState::Accepted, text).await?;
    play.say(&format!("The person at {to} types something."))
        .await?;
    play.cast.planner.surface(sent.delivery).await?;
    play.delivered(
        &sent,
        "it went in with what was typed, and only now it counts",
    )
    .await
}

async fn manual(play: &mut Play<'_>) -> Outcome {
    play.scene("manual: not before somebody says so").await?;
    let to = play.cast.reviewer.handle().to_owned();
    let from = play.cast.planner.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: Some(DeliveryMode::Manual),
            text: "For the weekly round: flaky tests.",
        })
        .await?;
    play.waits(&sent, "the agent is idle, and still it waits for a flush")
        .await?;
    play.say(&format!("Somebody runs: relay delivery flush {to}"))
        .await?;
    let flush = FlushInput::all(to.trim_start_matches('@')).mode(DeliveryMode::Manual);
    play.relay.deliveries().flush(flush).await?;
    play.delivered(&sent, "it was flushed").await
}

async fn deferred(play: &mut Play<'_>) -> Outcome {
    play.scene("deferred: the agent says when").await?;
    play.say("Without a mode a message goes at the first safe moment. This agent is idle: now.")
        .await?;
    let for_ms = match play.narrator.pace() {
        Pace::Readable => PUT_OFF_MS,
        Pace::Fast => PUT_OFF_FAST_MS,
    };
    let reason = "the rate limit of its model is used up";
    play.cast
        .reviewer
        .will_answer(Answer::PutOff { for_ms, reason });
    let to = play.cast.reviewer.handle().to_owned();
    let from = play.cast.coder.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: None,
            text: "Please review my fix.",
        })
        .await?;
    let noted = play
        .until(&sent, |step| matches!(step, Step::Deferred { .. }))
        .await?;
    if let Step::Deferred { until, reason } = noted.step {
        let text = format!("deferred until {}: {reason}", clock(until));
        play.happened(&sent, DeliveryState::Deferred, &text).await?;
    }
    play.say("Nobody has to ask again: Relay comes back at that time.")
        .await?;
    play.delivered(&sent, "it was offered again when it was time")
        .await
}

async fn retried(play: &mut Play<'_>) -> Outcome {
    play.scene("failed, and tried again").await?;
    let reason = "the editor did not answer";
    play.cast.coder.will_answer(Answer::FailForNow { reason });
    let to = play.cast.coder.handle().to_owned();
    let from = play.cast.reviewer.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: None,
            text: "One comment is still open.",
        })
        .await?;
    let noted = play
        .until(&sent, |step| matches!(step, Step::AttemptFailed { .. }))
        .await?;
    if let Step::AttemptFailed { reason, again_at } = noted.step {
        let again = again_at.map(|at| format!("; the next attempt is at {}", clock(at)));
        let text = format!("an attempt failed: {reason}{}", again.unwrap_or_default());
        play.happened(&sent, DeliveryState::Pending, &text).await?;
    }
    play.delivered(&sent, "the second attempt succeeded").await
}

async fn away(play: &mut Play<'_>) -> Outcome {
    play.scene("an agent goes away and comes back").await?;
    let to = play.cast.reviewer.handle().to_owned();
    play.say(&format!("{to} is closed, as if its terminal had been."))
        .await?;
    play.cast.reviewer.leave().await?;
    let from = play.cast.planner.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: None,
            text: "Can we release on Monday?",
        })
        .await?;
    play.waits(
        &sent,
        "it is in the inbox, and would be after a crash of the server, too",
    )
    .await?;
    play.say(&format!(
        "{to} is opened again, and goes on with the same session."
    ))
    .await?;
    play.cast.reviewer.come_back().await?;
    play.delivered(&sent, "it came back").await
}

async fn impossible(play: &mut Play<'_>) -> Outcome {
    play.scene("what can't be done is said, not swallowed")
        .await?;
    let to = play.cast.reviewer.handle().to_owned();
    let from = play.cast.planner.client.clone();
    let sent = play
        .send(Letter {
            from: &from,
            to: &to,
            mode: Some(DeliveryMode::NextToolCall),
            text: "Before your next tool call: stop.",
        })
        .await?;
    let why = sent
        .problem
        .clone()
        .unwrap_or_else(|| "it was refused".to_owned());
    play.until(&sent, |step| matches!(step, Step::Failed { .. }))
        .await?;
    let text = format!("failed at once: {why}");
    play.happened(&sent, DeliveryState::Failed, &text).await?;
    play.say("The sender knows, and can choose another mode, or --allow-downgrade.")
        .await
}
