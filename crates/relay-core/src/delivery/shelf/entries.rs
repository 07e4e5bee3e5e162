//! Waiting deliveries in their order, with the heads of their lanes at hand.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use relay_protocol::delivery::Priority;

use super::Wanted;
use crate::delivery::lane::Lane;
use crate::store::Position;

/// Where a delivery stands in the order: urgent ones first, then the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    normal: bool,
    pub(super) position: Position,
}

impl Key {
    /// Before every other.
    pub(super) const FIRST: Self = Self {
        normal: false,
        position: Position::from_key(i64::MIN),
    };

    pub(super) fn new(lane: Lane, position: Position) -> Self {
        Self {
            normal: lane.priority() == Priority::Normal,
            position,
        }
    }

    /// The one right behind it.
    pub(super) const fn next(self) -> Self {
        Self {
            normal: self.normal,
            position: self.position.plus(1),
        }
    }

    /// Whether it comes before an end; there may be none.
    pub(super) fn is_below(self, end: Option<Self>) -> bool {
        end.is_none_or(|end| self < end)
    }
}

/// Deliveries with their lanes.
#[derive(Clone, Debug)]
pub(super) struct Entries<T> {
    /// Boxed: a map makes room for eleven at once, and keeps it.
    in_order: BTreeMap<Key, (Lane, Box<T>)>,
    lanes: BTreeMap<Lane, BTreeSet<Position>>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self {
            in_order: BTreeMap::new(),
            lanes: BTreeMap::new(),
        }
    }
}

impl<T> Entries<T> {
    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }

    /// Adds one whose position is not there yet.
    pub(super) fn insert(&mut self, lane: Lane, position: Position, item: T) {
        let entry = (lane, Box::new(item));
        self.in_order.insert(Key::new(lane, position), entry);
        self.lanes.entry(lane).or_default().insert(position);
    }

    pub(super) fn remove(&mut self, position: Position) -> Option<T> {
        let key = self.key_of(position)?;
        self.take(key).map(|(_, item)| item)
    }

    pub(super) fn pop_last(&mut self) -> Option<(Key, Lane, T)> {
        let (key, _) = self.in_order.last_key_value()?;
        let key = *key;
        self.take(key).map(|(lane, item)| (key, lane, item))
    }

    /// The least position, in any lane.
    pub(super) fn oldest(&self) -> Option<Position> {
        let heads = self.lanes.values().filter_map(BTreeSet::first);
        heads.min().copied()
    }

    pub(super) fn get(&self, position: Position) -> Option<&T> {
        let key = self.key_of(position)?;
        self.in_order.get(&key).map(|(_, item)| &**item)
    }

    pub(super) fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        let key = self.key_of(position)?;
        self.in_order.get_mut(&key).map(|(_, item)| &mut **item)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Position, &T)> {
        let entries = self.in_order.iter();
        entries.map(|(key, (_, item))| (key.position, &**item))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Position, &mut T)> {
        let entries = self.in_order.iter_mut();
        entries.map(|(key, (_, item))| (key.position, &mut **item))
    }

    /// All of them, in their order.
    pub(super) fn into_rows(self) -> impl Iterator<Item = (Lane, Position, T)> {
        let entries = self.in_order.into_iter();
        entries.map(|(key, (lane, item))| (lane, key.position, *item))
    }

    /// The first that is wanted: the least of the heads of the lanes.
    pub(super) fn first(&self, wanted: Wanted) -> Option<(Position, &T)> {
        let open = self.lanes.iter();
        let key = open
            .filter(|(lane, _)| wanted.lanes.contains(**lane))
            .filter_map(|(lane, positions)| {
                let after = wanted.after_in(*lane);
                let after = after.map_or(Bound::Unbounded, Bound::Excluded);
                let head = positions.range((after, Bound::Unbounded)).next()?;
                Some(Key::new(*lane, *head))
            })
            .min()?;
        let (_, item) = self.in_order.get(&key)?;
        Some((key.position, item))
    }

    /// Keeps only some.
    pub(super) fn retain(&mut self, keep: impl Fn(Key) -> bool) {
        let keys = self.in_order.keys().copied();
        let dropped: Vec<Key> = keys.filter(|key| !keep(*key)).collect();
        for key in dropped {
            self.take(key);
        }
    }

    fn take(&mut self, key: Key) -> Option<(Lane, T)> {
        let (lane, item) = self.in_order.remove(&key)?;
        if let Some(positions) = self.lanes.get_mut(&lane) {
            positions.remove(&key.position);
            if positions.is_empty() {
                self.lanes.remove(&lane);
            }
        }
        Some((lane, *item))
    }

    fn key_of(&self, position: Position) -> Option<Key> {
        let keys = [false, true].map(|normal| Key { normal, position });
        keys.into_iter().find(|key| self.in_order.contains_key(key))
    }
}
