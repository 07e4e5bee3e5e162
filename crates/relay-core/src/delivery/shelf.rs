//! The part of an agent's waiting deliveries that is kept in memory.
//!
//! The store holds all of them; the shelf holds the first few of those that were asked for, in the
//! order in which they go: urgent ones first, then by their place. It knows up to where it is
//! complete, so it never names a wrong delivery and never says that there is none when the store has
//! one: it asks for more instead. What changes while a page is being read is newer than the page.

mod entries;

use std::collections::BTreeSet;

use self::entries::{Entries, Key};
use super::lane::{Lane, LaneSet};
use crate::store::Position;

/// A part of what waits for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// In which lanes.
    pub lanes: LaneSet,
    /// Only what is newer than this, or was flushed.
    pub after: Option<Position>,
}

impl Wanted {
    /// All that waits in ordinary lanes.
    pub const EVERYTHING: Self = Self {
        lanes: LaneSet::ALL,
        after: None,
    };

    /// Whether a delivery in this lane and place is part of it.
    #[must_use]
    pub fn includes(&self, lane: Lane, position: Position) -> bool {
        self.lanes.contains(lane) && self.after_in(lane).is_none_or(|after| after < position)
    }

    /// The place after which deliveries of this lane are part of it.
    #[must_use]
    pub fn after_in(&self, lane: Lane) -> Option<Position> {
        self.after.filter(|_| !lane.is_flushed())
    }

    /// Whether all of another part is part of it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        // `None` is less than any position.
        other.lanes.is_subset(self.lanes) && self.after <= other.after
    }
}

/// What comes next on the shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a, T> {
    /// This one.
    Item(Position, &'a T),
    /// Nothing waits.
    Empty,
    /// The shelf does not know: this has to be read from the store.
    Refill(Wanted),
    /// The shelf does not know, and a refill is under way.
    Wait,
}

/// The first of an agent's waiting deliveries, with what is kept of each.
#[derive(Clone, Debug)]
pub struct Shelf<T> {
    capacity: usize,
    entries: Entries<T>,
    coverage: Option<Coverage>,
    /// Whether all that waits had room when the store was last asked.
    all_fits: bool,
    refill: Option<Refill<T>>,
}

/// What the entries are the beginning of.
#[derive(Clone, Copy, Debug)]
struct Coverage {
    wanted: Wanted,
    /// Everything wanted whose key is less is an entry; `None`: simply everything.
    below: Option<Key>,
}

/// A page that is being read.
#[derive(Clone, Debug)]
struct Refill<T> {
    wanted: Wanted,
    /// What was put or removed since: of these the page knows less than the shelf.
    changed: BTreeSet<Position>,
    /// What was put since and is not covered so far.
    aside: Entries<T>,
    /// The least key among what found no room there.
    lost: Option<Key>,
}

impl<T> Shelf<T> {
    /// An empty shelf that knows nothing, for this many entries (one at least).
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            entries: Entries::default(),
            coverage: None,
            all_fits: false,
            refill: None,
        }
    }

    /// What of this comes next. An item stays until it is removed.
    #[must_use]
    pub fn next(&self, wanted: Wanted) -> Next<'_, T> {
        let coverage = self
            .coverage
            .filter(|coverage| coverage.wanted.covers(&wanted));
        if wanted.lanes.is_empty() {
            return Next::Empty;
        }
        if let Some(coverage) = coverage {
            if let Some((position, item)) = self.entries.first(wanted) {
                return Next::Item(position, item);
            }
            if coverage.below.is_none() {
                return Next::Empty;
            }
        }
        match self.refill {
            Some(_) => Next::Wait,
            None => Next::Refill(self.to_read(wanted)),
        }
    }

    /// Whether nothing waits up to this place, in any lane. `false` also when the shelf does not know.
    #[must_use]
    pub fn is_clear_to(&self, position: Position) -> bool {
        let is_known = self.coverage.is_some_and(|coverage| {
            coverage.below.is_none() && coverage.wanted.covers(&Wanted::EVERYTHING)
        });
        let oldest = self.entries.oldest();
        is_known && oldest.is_none_or(|oldest| position < oldest)
    }

    /// Everything where that may have room, else only what is wanted.
    fn to_read(&self, wanted: Wanted) -> Wanted {
        if self.coverage.is_none() || self.all_fits {
            Wanted::EVERYTHING
        } else {
            wanted
        }
    }

    /// A delivery waits in this lane from now on. In one of the special lanes it waits elsewhere.
    pub fn put(&mut self, lane: Lane, position: Position, item: T) {
        self.remove(position);
        let key = Key::new(lane, position);
        let known = self.coverage.is_some_and(|coverage| {
            coverage.wanted.includes(lane, position) && key.is_below(coverage.below)
        });
        if known {
            self.entries.insert(lane, position, item);
            self.make_room();
        } else if LaneSet::ALL.contains(lane)
            && let Some(refill) = &mut self.refill
        {
            refill.set_aside(lane, position, item, self.capacity);
        }
    }

    /// A delivery waits no more, or is on its way to a session.
    pub fn remove(&mut self, position: Position) -> Option<T> {
        let aside = self.refill.as_mut().and_then(|refill| {
            refill.changed.insert(position);
            refill.aside.remove(position)
        });
        self.entries.remove(position).or(aside)
    }

    /// What is kept of a delivery.
    #[must_use]
    pub fn get(&self, position: Position) -> Option<&T> {
        let aside = || self.refill.as_ref()?.aside.get(position);
        self.entries.get(position).or_else(aside)
    }

    /// What is kept of a delivery, to be changed.
    pub fn get_mut(&mut self, position: Position) -> Option<&mut T> {
        let aside = self.refill.as_mut().map(|refill| &mut refill.aside);
        match self.entries.get_mut(position) {
            Some(item) => Some(item),
            None => aside?.get_mut(position),
        }
    }

    /// All that is kept: the entries in their order, then what is new during a refill.
    pub fn iter(&self) -> impl Iterator<Item = (Position, &T)> {
        let aside = self.refill.iter().flat_map(|refill| refill.aside.iter());
        self.entries.iter().chain(aside)
    }

    /// All that is kept, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Position, &mut T)> {
        let aside = self
            .refill
            .iter_mut()
            .flat_map(|refill| refill.aside.iter_mut());
        self.entries.iter_mut().chain(aside)
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
    }

    /// Most rows that a page should have: no more than have room or are of use now. Deliveries of the
    /// agent that are on their way to sessions still wait as the store sees it, and must not fill the
    /// page.
    #[must_use]
    pub fn page_rows(&self, of_use: Option<usize>, in_flight: usize) -> usize {
        let wanted = of_use.unwrap_or(usize::MAX);
        wanted.clamp(1, self.capacity) + in_flight
    }

    /// Nothing is known any more; a page that is being read is of no use, either.
    pub fn forget(&mut self) {
        *self = Self::new(self.capacity);
    }

    /// Whether a page is being read.
    #[must_use]
    pub const fn is_refilling(&self) -> bool {
        self.refill.is_some()
    }

    /// A page with this is about to be read. What is put or removed from here on is newer than it.
    pub fn begin_refill(&mut self, wanted: Wanted) {
        self.refill = Some(Refill {
            wanted,
            changed: BTreeSet::new(),
            aside: Entries::default(),
            lost: None,
        });
    }

    /// The page could not be read; what was known before still is.
    pub fn abandon_refill(&mut self) {
        self.refill = None;
    }

    /// Takes the page, unless it was given up meanwhile.
    ///
    /// `complete` says whether the page has all that was wanted, `total` how many unfinished
    /// deliveries the agent has, and `skip` which are on their way to a session now.
    pub fn finish_refill(
        &mut self,
        rows: impl IntoIterator<Item = (Lane, Position, T)>,
        complete: bool,
        total: usize,
        skip: impl Fn(Position) -> bool,
    ) {
        let Some(refill) = self.refill.take() else {
            return;
        };
        let mut fresh = std::mem::take(&mut self.entries);
        fresh.retain(|key| refill.changed.contains(&key.position));
        let mut last = None;
        for (lane, position, item) in rows {
            last = last.max(Some(Key::new(lane, position)));
            let newer = refill.changed.contains(&position) || skip(position);
            if !newer && refill.wanted.includes(lane, position) {
                self.entries.insert(lane, position, item);
            }
        }
        let end = match complete {
            true => None,
            false => Some(last.map_or(Key::FIRST, Key::next)),
        };
        let all_read = complete || refill.wanted != Wanted::EVERYTHING;
        self.all_fits = total <= self.capacity && all_read && refill.lost.is_none();
        self.cover(refill.wanted, least(end, refill.lost));
        for (lane, position, item) in fresh.into_rows().chain(refill.aside.into_rows()) {
            self.put(lane, position, item);
        }
    }

    /// From now on the entries are what is wanted up to an end.
    fn cover(&mut self, wanted: Wanted, below: Option<Key>) {
        self.coverage = Some(Coverage { wanted, below });
        self.entries.retain(|key| key.is_below(below));
        self.make_room();
    }

    /// Drops what is too much, from the end.
    fn make_room(&mut self) {
        while self.entries.len() > self.capacity {
            let Some((key, lane, item)) = self.entries.pop_last() else {
                return;
            };
            self.all_fits = false;
            if let Some(coverage) = &mut self.coverage {
                coverage.below = least(coverage.below, Some(key));
            }
            match &mut self.refill {
                Some(refill) if refill.changed.contains(&key.position) => {
                    refill.set_aside(lane, key.position, item, self.capacity);
                }
                _ => {}
            }
        }
    }
}

impl<T> Refill<T> {
    /// Keeps what is new until the page is there; what has no room has to be read again.
    fn set_aside(&mut self, lane: Lane, position: Position, item: T, capacity: usize) {
        self.aside.insert(lane, position, item);
        if self.aside.len() > capacity
            && let Some((key, _, _)) = self.aside.pop_last()
        {
            self.lost = least(self.lost, Some(key));
        }
    }
}

/// The lesser of two ends; there may be none.
fn least(one: Option<Key>, other: Option<Key>) -> Option<Key> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
