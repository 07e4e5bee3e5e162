//! The part of an agent's waiting deliveries that is kept in memory.

use super::lane::LaneSet;
use crate::store::Position;

/// A part of what waits for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// In which lanes.
    pub lanes: LaneSet,
    /// Only what is newer than this.
    pub after: Option<Position>,
}
