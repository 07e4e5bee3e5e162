//! Asking for permission: a question that outlives connections and servers, what was decided about it, and a tool that
//! runs at most once.
//!
//! The calls of those who answer are in [`Permissions`](crate::Permissions).

mod decision;
mod question;
mod wait;

pub use decision::{Decision, Ran};
pub use question::Question;
pub(crate) use wait::Waiting;

use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{CancelPermission, PermissionRecord, PermissionState};

use crate::error::{Error, Result};
use crate::http::{Call, Http};

/// The path of a permission request.
pub(crate) fn path(id: PermissionId, rest: &str) -> String {
    format!("/v1/permissions/{id}{rest}")
}

/// Says that a request is no longer needed. If that was said before, also by this very call whose answer was lost, it is so.
pub(crate) async fn cancel(
    http: &Http,
    id: PermissionId,
    reason: Option<&str>,
) -> Result<PermissionRecord> {
    let body = CancelPermission {
        reason: reason.map(str::to_owned),
    };
    let call = Call::post(path(id, "/cancel"), &body).repeatable();
    match http.json(call).await {
        Err(error) if is_cancelled(&error) => http.json(Call::get(path(id, ""))).await,
        answer => answer,
    }
}

fn is_cancelled(error: &Error) -> bool {
    let outcome = error.outcome();
    outcome.is_some_and(|outcome| outcome.decision == PermissionState::Cancelled)
}
