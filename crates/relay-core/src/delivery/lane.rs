//! The queues in which an agent's deliveries wait.
//!
//! Whether a delivery may go to a session depends on few things about it: the mode that was asked for,
//! whether another will do, what content it has, and whether it was flushed. All that wait in one lane
//! share these, so a boundary opens or keeps closed a whole lane, and finding what is due is a look at
//! the heads of the open lanes, however much waits in the others.

use relay_protocol::delivery::{DeliveryMode, DeliveryState, Priority};

use crate::store::DeliveryRow;

/// One queue of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u8);

impl Lane {
    /// Those for one session only; looked through as a whole.
    pub const ADDRESSED: Self = Self(0xfd);
    /// Those that a session holds.
    pub const HELD: Self = Self(0xfe);
    /// Those that wait until a given time.
    pub const RESTING: Self = Self(0xff);

    /// The mode's part of the number of lanes whose deliveries were flushed.
    const FLUSHED: u8 = 6;

    /// The lane of an unfinished delivery.
    #[must_use]
    pub fn of(row: &DeliveryRow) -> Self {
        match row.state {
            DeliveryState::Accepted => Self::HELD,
            _ if row.not_before.is_some() => Self::RESTING,
            _ if row.only_session.is_some() => Self::ADDRESSED,
            _ => Self::for_ask(row.ask(), row.priority),
        }
    }

    /// The lane for what is asked of a session.
    #[must_use]
    pub fn for_ask(ask: Ask, priority: Priority) -> Self {
        let mode = match (ask.flushed, ask.mode) {
            (true, _) => Self::FLUSHED,
            (false, None) => 0,
            (false, Some(mode)) => 1 + mode as u8,
        };
        let normal = u8::from(priority == Priority::Normal);
        Self(mode << 3 | u8::from(ask.allow_downgrade) << 2 | u8::from(ask.image) << 1 | normal)
    }

    /// What the deliveries of this lane ask of a session; `None` for the three special lanes.
    #[must_use]
    pub fn ask(self) -> Option<Ask> {
        let mode = match self.0 >> 3 {
            0 | Self::FLUSHED => None,
            at @ 1..=5 => Some(DeliveryMode::ALL[at as usize - 1]),
            _ => return None,
        };
        Some(Ask {
            mode,
            allow_downgrade: self.0 & 4 != 0,
            image: self.0 & 2 != 0,
            flushed: self.is_flushed(),
        })
    }

    /// Whether its deliveries were flushed: they may go at any moment.
    #[must_use]
    pub const fn is_flushed(self) -> bool {
        self.0 >> 3 == Self::FLUSHED
    }

    /// Which of the deliveries that are due come first.
    #[must_use]
    pub const fn priority(self) -> Priority {
        if self.0 & 1 == 0 {
            Priority::Urgent
        } else {
            Priority::Normal
        }
    }

    /// The lane with this number.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// Its number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// What a delivery asks of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The mode; `None`: the first safe boundary.
    pub mode: Option<DeliveryMode>,
    /// Whether another boundary, or a line instead of an image, will do.
    pub allow_downgrade: bool,
    /// Whether it has an image.
    pub image: bool,
    /// Whether somebody has let it go at any moment.
    pub flushed: bool,
}

/// Several ordinary lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSet(u64);

impl LaneSet {
    /// How many ordinary lanes there are.
    const LANES: u8 = 7 << 3;

    /// All ordinary lanes.
    pub const ALL: Self = Self((1 << Self::LANES) - 1);

    /// Adds a lane; the special ones are never part of a set.
    pub const fn insert(&mut self, lane: Lane) {
        if lane.0 < Self::LANES {
            self.0 |= 1 << lane.0;
        }
    }

    /// Whether a lane is part of it.
    #[must_use]
    pub const fn contains(self, lane: Lane) -> bool {
        lane.0 < Self::LANES && self.0 >> lane.0 & 1 == 1
    }

    /// Whether all of it is part of another set.
    #[must_use]
    pub const fn is_subset(self, of: Self) -> bool {
        self.0 & !of.0 == 0
    }

    /// Whether there is no lane in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lanes, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Lane> {
        (0..Self::LANES)
            .map(Lane)
            .filter(move |lane| self.contains(*lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::apply::fixtures::{SESSION, accepted, at, pending};

    fn asks() -> Vec<Ask> {
        let modes = DeliveryMode::ALL.iter().copied().map(Some);
        let mut asks = Vec::new();
        for mode in modes.chain([None]) {
            for bits in 0..8 {
                asks.push(Ask {
                    mode,
                    allow_downgrade: bits & 1 != 0,
                    image: bits & 2 != 0,
                    flushed: bits & 4 != 0,
                });
            }
        }
        asks
    }

    #[test]
    fn a_lane_tells_what_was_asked_but_not_the_mode_of_what_was_flushed() {
        for ask in asks() {
            for priority in [Priority::Urgent, Priority::Normal] {
                let lane = Lane::for_ask(ask, priority);
                let kept = Ask {
                    mode: ask.mode.filter(|_| !ask.flushed),
                    ..ask
                };
                assert_eq!(lane.ask(), Some(kept));
                assert_eq!(lane.priority(), priority);
                assert_eq!(Lane::from_code(lane.code()), lane);
                assert!(LaneSet::ALL.contains(lane));
            }
        }
    }

    #[test]
    fn every_ordinary_lane_is_of_some_ask() {
        let lanes: Vec<Lane> = LaneSet::ALL.iter().collect();
        assert_eq!(lanes.len(), 56);
        assert!(lanes.is_sorted());
        for lane in lanes {
            let ask = lane.ask().unwrap();
            assert_eq!(Lane::for_ask(ask, lane.priority()), lane);
        }
    }

    #[test]
    fn special_lanes_ask_nothing_and_are_in_no_set() {
        let mut set = LaneSet::default();
        for lane in [Lane::ADDRESSED, Lane::HELD, Lane::RESTING] {
            set.insert(lane);
            assert_eq!(lane.ask(), None);
            assert!(!LaneSet::ALL.contains(lane));
        }
        assert!(set.is_empty());
        assert_eq!(set.iter().count(), 0);
    }

    #[test]
    fn a_delivery_is_in_the_lane_of_what_keeps_it() {
        let resting = DeliveryRow {
            not_before: Some(at(1)),
            only_session: Some(SESSION),
            ..pending()
        };
        let addressed = DeliveryRow {
            not_before: None,
            ..resting.clone()
        };
        let urgent = DeliveryRow {
            mode: Some(DeliveryMode::Manual),
            image: true,
            priority: Priority::Urgent,
            ..pending()
        };
        assert_eq!(Lane::of(&accepted()), Lane::HELD);
        assert_eq!(Lane::of(&resting), Lane::RESTING);
        assert_eq!(Lane::of(&addressed), Lane::ADDRESSED);
        assert_eq!(
            Lane::of(&urgent),
            Lane::for_ask(urgent.ask(), Priority::Urgent)
        );
    }

    #[test]
    fn sets_hold_what_was_put_into_them() {
        let mut some = LaneSet::default();
        let chosen: Vec<Lane> = LaneSet::ALL.iter().step_by(7).collect();
        for lane in &chosen {
            some.insert(*lane);
            some.insert(*lane);
        }
        assert_eq!(some.iter().collect::<Vec<_>>(), chosen);
        assert!(some.is_subset(LaneSet::ALL) && some.is_subset(some));
        assert!(!LaneSet::ALL.is_subset(some));
        assert!(LaneSet::default().is_subset(some));
    }
}
