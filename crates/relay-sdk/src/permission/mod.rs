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

/// The path of a permission request.
pub(crate) fn path(id: PermissionId, rest: &str) -> String {
    format!("/v1/permissions/{id}{rest}")
}
