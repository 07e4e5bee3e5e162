//! What tests of deliveries are made of.

use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::time::Timestamp;

use super::LapsedOffer;
use crate::delivery::history::Offer;
use crate::store::{AgentNo, DeliveryRow, Holder, Position, SessionNo};

/// The session that most tests are about, and another.
pub(crate) const SESSION: SessionNo = SessionNo(7);
/// See [`SESSION`].
pub(crate) const OTHER_SESSION: SessionNo = SessionNo(8);

/// When the deliveries of tests were made.
pub(crate) const CREATED_MS: i64 = 1_763_244_860_000;

/// The time that many milliseconds after the delivery was made.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(CREATED_MS + millis)
}

/// A short id, easy to find in a text.
pub(crate) fn session_id(session: SessionNo) -> SessionId {
    SessionId::new(Timestamp::from_millis(0), session.0 as u128)
}

/// The delivery's id.
pub(crate) fn delivery_id() -> DeliveryId {
    DeliveryId::new(at(0), 5)
}

/// The message's id.
pub(crate) fn message_id() -> MessageId {
    MessageId::new(at(0), 4)
}

/// A delivery that was just made, due in an hour at the latest.
pub(crate) fn pending() -> DeliveryRow {
    DeliveryRow {
        position: Position::new(1, 5),
        at: at(0),
        message: Position::new(1, 4),
        agent: AgentNo(3),
        state: DeliveryState::Pending,
        mode: None,
        used_mode: None,
        allow_downgrade: false,
        image: false,
        flushed: false,
        redelivered: false,
        after_accept: false,
        priority: Priority::Normal,
        reason: DeliveryReason::Message,
        deadline: at(3_600_000),
        generation: 1,
        attempts: 0,
        not_before: None,
        only_session: None,
        holder: None,
        surfaced: None,
        error: None,
    }
}

/// A delivery that the session has accepted as offer 1.
pub(crate) fn accepted() -> DeliveryRow {
    DeliveryRow {
        state: DeliveryState::Accepted,
        used_mode: Some(DeliveryMode::OnIdle),
        holder: Some(Holder {
            session: SESSION,
            epoch: 1,
            retryable: true,
        }),
        ..pending()
    }
}

/// An offer of before, settled without the session's word.
pub(crate) fn lapsed(epoch: u64) -> LapsedOffer {
    LapsedOffer {
        epoch,
        generation: 1,
        session: SESSION,
        session_id: session_id(SESSION),
        mode: DeliveryMode::OnIdle,
    }
}

/// An offer over a live link, a second after the delivery was made.
pub(crate) fn offer(epoch: u64) -> Offer {
    Offer {
        epoch,
        generation: 1,
        session: SESSION,
        session_id: session_id(SESSION),
        mode: DeliveryMode::OnIdle,
        why: "the session is idle".into(),
        offered_at: at(1_000),
        live: true,
    }
}
