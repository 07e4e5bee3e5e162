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
use relay_protocol::permission::{CancelPermission, PermissionRecord};

use crate::error::Result;
use crate::http::{Call, Http};

/// The path of a permission request.
pub(crate) fn path(id: PermissionId, rest: &str) -> String {
    format!("/v1/permissions/{id}{rest}")
}

/// Says that a request is no longer needed. To say it twice is to say it once.
pub(crate) async fn cancel(
    http: &Http,
    id: PermissionId,
    reason: Option<&str>,
) -> Result<PermissionRecord> {
    let body = CancelPermission {
        reason: reason.map(str::to_owned),
    };
    let call = Call::post(path(id, "/cancel"), &body).repeatable();
    http.json(call).await
}
