//! How many rounds the randomised tests run, and how one of them is repeated.

use std::hash::{BuildHasher as _, RandomState};

/// Scales a number of rounds with the depth that `scripts/test` was asked for.
pub(crate) fn rounds(default: u64) -> u64 {
    if is_full() { default * 10 } else { default }
}

/// Whether everything is to be tested that can be.
pub(crate) fn is_full() -> bool {
    std::env::var("RELAY_TEST_DEPTH").is_ok_and(|depth| depth == "full")
}

/// Returns the seed of this run, a new one unless `RELAY_SEED` gives it, and prints it: the output
/// of a failed test shows it.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("RELAY_SEED") {
        Ok(seed) => seed.parse().expect("RELAY_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0) >> 16,
    };
    println!("to repeat this: RELAY_SEED={seed}");
    seed
}
