//! How many rounds the randomised tests run, where their numbers come from, and what is left out.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;

/// Scales a number of rounds with the depth that `scripts/test` was asked for.
pub(crate) fn rounds(default: u32) -> u32 {
    let full = std::env::var("RELAY_TEST_DEPTH").is_ok_and(|depth| depth == "full");
    if full { default * 10 } else { default }
}

/// Returns the seed of this run, a new one unless `RELAY_SEED` gives it, and prints it.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("RELAY_SEED") {
        Ok(seed) => seed.parse().expect("RELAY_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0) >> 16,
    };
    println!("to repeat this: RELAY_SEED={seed}");
    seed
}

/// Says so that nobody overlooks it that a test was left out: `scripts/test` repeats it in its summary.
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(notes) = std::env::var_os("RELAY_SKIPPED") {
        let mut notes = std::fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{test}: {why}").unwrap();
    }
}

/// Numbers that follow from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below another.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}
