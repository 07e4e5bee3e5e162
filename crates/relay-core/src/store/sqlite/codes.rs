//! Small numbers for the literals that hot rows hold. The order of the spec's lists is the code, so
//! new literals go to the end.

use relay_protocol::action::InvocationState;
use relay_protocol::agent::AgentType;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority, Surfaced};
use relay_protocol::event::TokenKind;
use relay_protocol::link::LinkKind;
use relay_protocol::message::AttachmentKind;
use relay_protocol::permission::{GrantEffect, GrantScope, PermissionState};
use relay_protocol::status::AgentStatus;
use relay_protocol::webhook::WebhookState;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

/// A literal as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code<T>(pub(super) T);

macro_rules! codes {
    ($($literal:ty),*) => {$(
        impl ToSql for Code<$literal> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok((self.0 as i64).into())
            }
        }

        impl FromSql for Code<$literal> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let code = usize::try_from(value.as_i64()?).map_err(|_| FromSqlError::InvalidType)?;
                <$literal>::ALL.get(code).copied().map(Self).ok_or(FromSqlError::InvalidType)
            }
        }
    )*};
}

codes!(
    AgentStatus,
    AgentType,
    AttachmentKind,
    DeliveryMode,
    DeliveryReason,
    DeliveryState,
    GrantEffect,
    GrantScope,
    InvocationState,
    LinkKind,
    PermissionState,
    Priority,
    Surfaced,
    TokenKind,
    WebhookState
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_below_four_are_not_finished() {
        use DeliveryState::{Accepted, Cancelled, Deferred, Delivered, Failed, Offered, Pending};
        for state in [Pending, Offered, Accepted, Deferred] {
            assert!((state as i64) < 4, "{state}");
        }
        for state in [Delivered, Failed, Cancelled] {
            assert!((state as i64) >= 4, "{state}");
        }
    }
}
