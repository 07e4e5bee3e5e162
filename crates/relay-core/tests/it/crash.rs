//! `kill -9` of a process that writes: what it had acknowledged is there afterwards.

use crate::child::Child;
use crate::depth::{rounds, seed};
use crate::survival::{assert_sound, settled};
use crate::vfs::SplitMix64;
use crate::writers::Ack;

/// How often each database is killed, so that what was recovered is killed again.
const KILLS: u64 = 5;
/// The most acknowledgements before a kill.
const LATEST_KILL: u64 = 250;
/// One database in so many gets more, so that its lists are entered and moved on.
const LARGE: u64 = 10;
/// The most acknowledgements before a kill of a large database.
const LATEST_KILL_OF_LARGE: u64 = 1_000;

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    let mut random = SplitMix64::new(seed());
    let mut acknowledged = 0;
    for database in 0..rounds(10) {
        let directory = tempfile::tempdir().unwrap();
        let keys = settled(directory.path());
        let mut acks: Vec<Ack> = Vec::new();
        let latest = if database % LARGE == 0 {
            LATEST_KILL_OF_LARGE
        } else {
            LATEST_KILL
        };
        for kill in 0..KILLS {
            let mut child = Child::start(directory.path(), &keys, random.next());
            for _ in 0..random.below(latest) {
                acks.push(child.next().expect("the child works until it is killed"));
            }
            acks.extend(child.kill());
            let context = format!("database {database}, kill {kill}");
            assert_sound(directory.path(), &keys, &acks, &context);
        }
        acknowledged += acks.len();
    }
    println!("{acknowledged} acknowledgements checked");
    assert!(acknowledged > 0);
}
