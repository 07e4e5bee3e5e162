//! A delivery's way in plain words.
use super::history::Offer;
use crate::store::DeliveryStory;
use relay_protocol::delivery_record::{Delivery, DeliveryDecision};
/// stub
#[must_use]
pub fn explain(
    story: &DeliveryStory,
    _decisions: &[DeliveryDecision],
    _out: Option<&Offer>,
) -> Delivery {
    Delivery {
        delivery_id: story.id,
        message_id: story.message_id,
        agent: story.agent.name.clone(),
        state: story.row.state,
        reason: story.row.reason,
        priority: story.row.priority,
        allow_downgrade: story.row.allow_downgrade,
        requested_mode: story.row.mode,
        mode: story.row.used_mode,
        mode_reason: None,
        session_id: None,
        attempt: story.row.attempts,
        generation: story.row.generation,
        deadline: story.row.deadline,
        next_attempt_at: story.row.not_before,
        surfaced: story.row.surfaced,
        error: story.row.error.clone(),
        decisions: None,
        attempts: None,
        receipts: None,
        story: None,
    }
}
