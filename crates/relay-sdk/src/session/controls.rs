//! Operations on a session: asked by the server, done by the session, answered in every case.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::{ControlId, DeliveryId};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::socket::{ControlFrame, ControlOp, ControlResult};
use serde_json::Value;

use super::served::Served;
use super::traits::{ControlError, Fork};

/// Something that was done beside the deliveries.
pub(super) enum Work {
    /// An operation that the server asked for.
    Control {
        control_id: ControlId,
        op: ControlOp,
        delivery_id: Option<DeliveryId>,
        outcome: Result<Outcome, ControlError>,
    },
    /// A delivery that is no longer the session's was given back, or could not be.
    GivenBack {
        delivery_id: DeliveryId,
        outcome: Result<(), ControlError>,
    },
}

/// What came of an operation.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) result: Option<Value>,
    pub(super) receipts: Vec<MessageReceipt>,
}

/// Does what the server asks for.
pub(super) async fn control(session: Arc<dyn Served>, frame: ControlFrame) -> Work {
    let (control_id, op, delivery_id) = (frame.control_id, frame.op, frame.delivery_id);
    let doing = AssertUnwindSafe(perform(session, frame)).catch_unwind();
    Work::Control {
        control_id,
        op,
        delivery_id,
        outcome: doing.await.unwrap_or_else(|_| Err(panicked())),
    }
}

/// Gives back a delivery that is no longer the session's.
pub(super) async fn give_back(session: Arc<dyn Served>, delivery_id: DeliveryId) -> Work {
    let reason = Some("it is no longer this session's".to_owned());
    let doing = AssertUnwindSafe(session.cancel(delivery_id, reason)).catch_unwind();
    Work::GivenBack {
        delivery_id,
        outcome: doing.await.unwrap_or_else(|_| Err(panicked())),
    }
}

fn panicked() -> ControlError {
    ControlError::Failed("the session panicked".to_owned())
}

async fn perform(session: Arc<dyn Served>, frame: ControlFrame) -> Result<Outcome, ControlError> {
    let ControlFrame {
        delivery_id,
        as_agent,
        fork,
        reason,
        ..
    } = frame;
    let nothing = |(): ()| Outcome::default();
    match frame.op {
        ControlOp::Release => {
            session.release(reason).await;
            Ok(Outcome::default())
        }
        ControlOp::Pause => session.pause(reason).await.map(nothing),
        ControlOp::Resume => session.resume(reason).await.map(nothing),
        ControlOp::Fork => {
            let grant = fork.ok_or_else(|| missing("fork"))?;
            let fork = Fork {
                session_id: grant.session_id,
                resume_token: grant.resume_token,
                as_agent,
            };
            session.fork(fork).await.map(nothing)
        }
        ControlOp::Snapshot => session.snapshot().await.map(|snapshot| Outcome {
            result: Some(snapshot),
            ..Outcome::default()
        }),
        ControlOp::Flush => session.flush(delivery_id).await.map(|receipts| Outcome {
            receipts,
            ..Outcome::default()
        }),
        ControlOp::Cancel => {
            let id = delivery_id.ok_or_else(|| missing("deliveryId"))?;
            session.cancel(id, reason).await.map(nothing)
        }
    }
}

fn missing(field: &str) -> ControlError {
    ControlError::Failed(format!("the operation came without `{field}`"))
}

/// How an operation is answered.
pub(super) fn answer(
    control_id: ControlId,
    op: ControlOp,
    outcome: Result<Option<Value>, ControlError>,
) -> ControlResult {
    match outcome {
        Ok(result) => ControlResult {
            control_id,
            ok: true,
            result,
            problem: None,
        },
        Err(error) => ControlResult {
            control_id,
            ok: false,
            result: None,
            problem: Some(Box::new(problem(op, &error))),
        },
    }
}

fn problem(op: ControlOp, error: &ControlError) -> Problem {
    let why = error.to_string();
    match error {
        ControlError::Unsupported => Problem {
            operation: Some(op.to_string()),
            why: Some(why.clone()),
            ..Problem::new(ErrorCode::UnsupportedOperation, why)
        },
        ControlError::Failed(_) => Problem::new(ErrorCode::Internal, why),
    }
}
