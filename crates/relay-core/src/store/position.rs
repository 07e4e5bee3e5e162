//! Places in the log, and the ids that are made of them.
//!
//! Everything that enters a workspace's log has a place: the workspace's number and the sequence
//! number in it, together one integer that is also the row's key. The id of a message, a delivery or
//! an event is a version 7 UUID whose time is the row's and whose sixty-two low bits are the place, so
//! that finding a record by its id is a lookup by row key and needs no index of its own.
//!
//! The twelve bits between hold the kind and a byte of the workspace's own random id, so that an id of
//! one kind, or from another database, is not taken for one of ours.

use relay_protocol::ids::{
    DeliveryId, EventId, InvocationId, MessageId, WorkspaceId, uuid_v7, uuid_v7_parts,
};
use relay_protocol::time::Timestamp;
use uuid::Uuid;

/// How many bits of a place are the sequence number.
const SEQ_BITS: u32 = 40;

/// The greatest sequence number.
pub const SEQ_MAX: u64 = (1 << SEQ_BITS) - 1;

/// The greatest workspace number; both together fit the sixty-two bits of an id.
pub const WORKSPACE_NO_MAX: u32 = (1 << 22) - 1;

/// A place in the log of all workspaces: the key of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(i64);

impl Position {
    /// The place with this sequence number in this workspace.
    #[must_use]
    pub const fn new(workspace_no: u32, seq: u64) -> Self {
        Self((workspace_no as i64) << SEQ_BITS | seq as i64)
    }

    /// Takes a row's key.
    #[must_use]
    pub const fn from_key(key: i64) -> Self {
        Self(key)
    }

    /// The row's key.
    #[must_use]
    pub const fn key(self) -> i64 {
        self.0
    }

    /// The workspace's number.
    #[must_use]
    pub const fn workspace_no(self) -> u32 {
        (self.0 >> SEQ_BITS) as u32
    }

    /// The sequence number in the workspace.
    #[must_use]
    pub const fn seq(self) -> u64 {
        self.0 as u64 & SEQ_MAX
    }

    /// The place that many further on. A count from a damaged row leads to the end, not to a panic.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add_unsigned(count))
    }
}

/// A kind of record whose id says where it is.
pub trait Placed: Copy {
    /// Four bits that tell the kinds apart.
    const KIND: u16;
    /// Wraps the UUID.
    fn wrap(id: Uuid) -> Self;
    /// The UUID.
    fn unwrap(self) -> Uuid;
}

macro_rules! placed {
    ($($id:ty = $kind:literal),*) => {$(
        impl Placed for $id {
            const KIND: u16 = $kind;
            fn wrap(id: Uuid) -> Self {
                Self::from_uuid(id)
            }
            fn unwrap(self) -> Uuid {
                self.uuid()
            }
        }
    )*};
}

placed!(
    MessageId = 0x1,
    DeliveryId = 0x2,
    EventId = 0x3,
    InvocationId = 0x4
);

/// The id of the record at this place.
#[must_use]
pub fn id_at<I: Placed>(workspace: WorkspaceId, position: Position, at: Timestamp) -> I {
    I::wrap(uuid_v7(at, tag::<I>(workspace), position.key() as u64))
}

/// Where the record with this id must be, if it is of this workspace, and the time it must have.
#[must_use]
pub fn place_of<I: Placed>(
    workspace: WorkspaceId,
    workspace_no: u32,
    id: I,
) -> Option<(Position, Timestamp)> {
    let (at, found, low) = uuid_v7_parts(id.unwrap())?;
    let position = Position(i64::try_from(low).ok()?);
    (found == tag::<I>(workspace) && position.workspace_no() == workspace_no)
        .then_some((position, at))
}

fn tag<I: Placed>(workspace: WorkspaceId) -> u16 {
    I::KIND << 8 | workspace.uuid().as_u128() as u16 & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_where_its_record_is() {
        let at = Timestamp::from_millis(1_763_244_860_123);
        let workspace = WorkspaceId::new(at, 0x1234_5678_9abc_def0_1234);
        for (no, seq) in [(1, 1), (7, 123_456_789), (WORKSPACE_NO_MAX, SEQ_MAX)] {
            let position = Position::new(no, seq);
            assert_eq!((position.workspace_no(), position.seq()), (no, seq));
            let id: MessageId = id_at(workspace, position, at);
            assert_eq!(place_of(workspace, no, id), Some((position, at)));
            assert_eq!(
                place_of(workspace, no, DeliveryId::from_uuid(id.uuid())),
                None
            );
            assert_eq!(place_of(workspace, no ^ 1, id), None);
        }
    }

    #[test]
    fn ids_sort_as_their_places() {
        let at = Timestamp::from_millis(5);
        let workspace = WorkspaceId::new(at, 1);
        let ids: Vec<EventId> = (1..100)
            .map(|seq| id_at(workspace, Position::new(1, seq), at))
            .collect();
        assert!(ids.is_sorted());
    }
}
