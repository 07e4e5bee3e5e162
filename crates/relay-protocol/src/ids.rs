//! One newtype per kind of id, all UUIDs of version 7 on the wire.
//!
//! Ids of agents, channels and the like are made here from a time and random bits that the caller
//! brings. Ids that the store can compute from a record's place in the log are made in
//! `relay-core`; they look the same.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

/// Builds a version 7 UUID from a time, twelve bits and sixty-two bits.
#[must_use]
pub fn uuid_v7(at: Timestamp, high: u16, low: u64) -> Uuid {
    let millis = at.as_millis() as u128 & 0xffff_ffff_ffff;
    let high = u128::from(high & 0x0fff);
    let low = u128::from(low & 0x3fff_ffff_ffff_ffff);
    Uuid::from_u128(millis << 80 | 0x7 << 76 | high << 64 | 0x2 << 62 | low)
}

/// Takes a version 7 UUID apart into its time, twelve bits and sixty-two bits.
///
/// Returns `None` for a UUID of another version or variant.
#[must_use]
pub fn uuid_v7_parts(id: Uuid) -> Option<(Timestamp, u16, u64)> {
    let bits = id.as_u128();
    if bits >> 76 & 0xf != 0x7 || bits >> 62 & 0x3 != 0x2 {
        return None;
    }
    let at = Timestamp::from_millis((bits >> 80) as i64);
    Some((
        at,
        (bits >> 64) as u16 & 0x0fff,
        bits as u64 & 0x3fff_ffff_ffff_ffff,
    ))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Makes an id from a time and random bits.
            #[must_use]
            pub fn new(at: Timestamp, random: u128) -> Self {
                Self(uuid_v7(at, (random >> 64) as u16, random as u64))
            }

            /// Wraps a UUID.
            #[must_use]
            pub const fn from_uuid(id: Uuid) -> Self {
                Self(id)
            }

            /// The UUID inside.
            #[must_use]
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": "uuid" })
            }
        }
    )*};
}

ids! {
    /// The isolated unit that everything else belongs to.
    WorkspaceId
    /// A named participant.
    AgentId
    /// A channel.
    ChannelId
    /// A direct conversation of two or more agents.
    ConversationId
    /// A message.
    MessageId
    /// A message on its way to one recipient; the idempotency key of every attempt.
    DeliveryId
    /// A live body of an agent.
    SessionId
    /// One entry of the log.
    EventId
    /// Stored content that messages refer to.
    AttachmentId
    /// One call of an action.
    InvocationId
    /// A permission request; on the chat wire the relay id.
    PermissionId
    /// A standing permission.
    GrantId
    /// What asks for permission under rules of its own.
    RunId
    /// An outbound or inbound webhook.
    WebhookId
    /// A credential, named without showing it.
    TokenId
    /// One connection to the server.
    ConnectionId
    /// One request of the server to a session.
    ControlId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v7_parts_come_back() {
        let at = Timestamp::from_millis(1_763_244_000_123);
        let id = uuid_v7(at, 0xabc, 0x3fff_0000_1234_5678);
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(uuid_v7_parts(id), Some((at, 0xabc, 0x3fff_0000_1234_5678)));
    }

    #[test]
    fn other_uuids_have_no_parts() {
        assert_eq!(uuid_v7_parts(Uuid::from_u128(1)), None);
    }
}
