//! Chance, from a seed.

use crate::vfs::SplitMix64;

/// Everything that happens by chance in one run comes from here.
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0.next() % bound.max(1)
    }

    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of these.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() {
            return None;
        }
        of.get(self.below(of.len() as u64) as usize)
    }

    /// A number from `least` to `most`.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// One of several, by weight.
    pub(super) fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let total = of.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for (weight, item) in of {
            if at < *weight {
                return *item;
            }
            at -= weight;
        }
        of[of.len() - 1].1
    }
}
