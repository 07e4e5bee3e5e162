//! How fast one sender and one conversation may go.
//!
//! Both are measured by the same rule: a minute's allowance may be used at once, and comes back
//! evenly over a minute. What goes beyond it waits in a row, each as long after the one before as the
//! allowance needs to come back by one. So with an allowance of N, what is let go in any stretch of
//! time is at most N and what comes back in that time: on the long run N in a minute, and never more
//! than 2 N within one. Only a row so long that its end would wait for more than [`LONGEST_WAIT_MS`]
//! is let go faster: its end waits just that long.
//!
//! A sender's allowance is of sends. A pair's is of answers: a message counts when the other one of the two
//! spoke last, so that a burst of tasks, however long, is one. What two agents say while their allowance
//! is used up waits as long as the last answer does, whether it is one or not: a loop must not go on beside it.
//! People, and what is urgent, are not held and not counted.
//!
//! The wall clock may be set back. Time goes on from where it was then.

use std::collections::HashMap;
use std::hash::Hash;

use relay_protocol::policy::Policy;
use relay_protocol::time::Timestamp;

use crate::store::{AgentNo, RoomNo};

/// Most senders, and most pairs of agents, whose pace is remembered. Beyond it those that have most of
/// their allowance are forgotten, which gives them all of it.
pub const REMEMBERED: usize = 65_536;
/// The longest that anything waits because of its pace.
pub const LONGEST_WAIT_MS: i64 = 60 * 60 * 1000;
/// How long an answer waits that ends too long a chain of answers.
pub const CHAIN_WAIT_MS: i64 = 60 * 1000;
/// The reason when a sender goes too fast.
pub const SENDER_RATE: &str = "sender_rate";
/// The reason when a conversation runs away.
pub const RUNAWAY_GUARD: &str = "runaway_guard";

/// What was sent in the last minute, by sender and by conversation.
#[derive(Debug, Default)]
pub struct Pace {
    clock: Steady,
    senders: Meter<AgentNo>,
    pairs: Meter<Pair>,
    speakers: LastSpeakers,
}

/// Two agents in one conversation, the lesser one first.
type Pair = (RoomNo, AgentNo, AgentNo);

/// A message about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    /// Where.
    pub room: RoomNo,
    /// By whom; those without a mailbox are not counted.
    pub author: Option<AgentNo>,
    /// Whether it may be part of a loop: an agent wrote it, no person, and it is not urgent.
    pub may_loop: bool,
    /// How many answers of agents to other agents, one upon the other, lead to it.
    pub depth: u32,
    /// When.
    pub now: Timestamp,
}

/// Why a delivery has to wait, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brake {
    /// `sender_rate` or `runaway_guard`.
    pub reason: &'static str,
    /// When it may go.
    pub until: Timestamp,
}

impl Pace {
    /// Counts a message; says whether its author goes too fast. Called once per message.
    pub fn send(&mut self, stride: Stride, policy: &Policy) -> Option<Brake> {
        let author = stride.author?;
        let wait = self.senders.count(
            author,
            policy.sender_per_minute,
            self.clock.tick(stride.now),
        );
        brake(SENDER_RATE, stride.now, wait)
    }

    /// Counts a message on its way to an agent; says whether the two answer each other without end.
    pub fn deliver(&mut self, stride: Stride, to: AgentNo, policy: &Policy) -> Option<Brake> {
        let author = stride.author.filter(|_| stride.may_loop)?;
        let pair = (stride.room, author.min(to), author.max(to));
        let per_minute = policy.runaway.per_minute;
        let now = self.clock.tick(stride.now);
        let wait = if self.speakers.is_answer(pair, author) {
            self.pairs.count(pair, per_minute, now)
        } else {
            self.pairs.wait_of_last(pair, per_minute, now)
        };
        let chain = if stride.depth > policy.runaway.depth {
            CHAIN_WAIT_MS
        } else {
            0
        };
        brake(RUNAWAY_GUARD, stride.now, wait.max(chain))
    }
}

/// Who of two agents spoke last.
#[derive(Debug, Default)]
struct LastSpeakers {
    by_pair: HashMap<Pair, AgentNo>,
}

impl LastSpeakers {
    /// Notes who speaks; says whether the other one of the two spoke last.
    fn is_answer(&mut self, pair: Pair, author: AgentNo) -> bool {
        if self.by_pair.len() >= REMEMBERED && !self.by_pair.contains_key(&pair) {
            // The next message of each pair counts as its first.
            self.by_pair.clear();
        }
        let before = self.by_pair.insert(pair, author);
        before.is_some_and(|before| before != author)
    }
}

fn brake(reason: &'static str, now: Timestamp, wait_ms: i64) -> Option<Brake> {
    (wait_ms > 0).then(|| Brake {
        reason,
        until: now.plus_millis(wait_ms),
    })
}

/// A clock that is never set back, in milliseconds.
#[derive(Debug, Default)]
struct Steady {
    latest: i64,
    /// What it is ahead of the wall clock.
    ahead: i64,
}

impl Steady {
    /// Calls that overtake each other look like a clock that was set back by up to this.
    const OVERTAKING_MS: i64 = 1_000;

    fn tick(&mut self, wall: Timestamp) -> i64 {
        let now = wall.as_millis().saturating_add(self.ahead);
        let back = self.latest - now;
        if back > Self::OVERTAKING_MS {
            self.ahead += back;
        }
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// A minute in microseconds, the unit in which allowances come back.
const MINUTE_US: i64 = 60 * 1_000_000;

/// How an allowance comes back, in microseconds.
struct Allowance {
    /// After so long by one.
    step: i64,
    /// So long before the whole allowance is back there is room for one.
    slack: i64,
}

impl Allowance {
    fn of(per_minute: u32) -> Self {
        let allowance = i64::from(per_minute.max(1));
        let step = MINUTE_US / allowance;
        Self {
            step,
            slack: step * (allowance - 1),
        }
    }
}

/// Rounds up to whole milliseconds; what has passed is none.
fn whole_millis(micros: i64) -> i64 {
    (micros.max(0) + 999) / 1_000
}

/// Counts by key.
#[derive(Debug)]
struct Meter<K> {
    capacity: usize,
    /// When each key has its whole allowance again, in microseconds.
    whole_at: HashMap<K, i64>,
}

impl<K> Default for Meter<K> {
    fn default() -> Self {
        Self {
            capacity: REMEMBERED,
            whole_at: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> Meter<K> {
    /// Counts one and says how many milliseconds it has to wait.
    fn count(&mut self, key: K, per_minute: u32, now_ms: i64) -> i64 {
        let now = now_ms * 1_000;
        let Allowance { step, slack } = Allowance::of(per_minute);
        let longest = now + slack + LONGEST_WAIT_MS * 1_000;
        self.make_room(key, now);
        let whole_at = self.whole_at.entry(key).or_insert(now);
        let before = (*whole_at).clamp(now, longest);
        *whole_at = before + step;
        whole_millis(before - slack - now)
    }

    /// How many milliseconds the one that was counted last still has to wait.
    fn wait_of_last(&self, key: K, per_minute: u32, now_ms: i64) -> i64 {
        let Allowance { step, slack } = Allowance::of(per_minute);
        let whole_at = self.whole_at.get(&key);
        whole_at.map_or(0, |at| {
            let wait = whole_millis(at - step - slack - now_ms * 1_000);
            wait.min(LONGEST_WAIT_MS)
        })
    }

    /// Forgets those that have their whole allowance; if that is not enough, the half that has most.
    fn make_room(&mut self, key: K, now: i64) {
        if self.whole_at.len() < self.capacity || self.whole_at.contains_key(&key) {
            return;
        }
        self.whole_at.retain(|_, whole_at| *whole_at > now);
        if self.whole_at.len() < self.capacity {
            return;
        }
        let mut times: Vec<i64> = self.whole_at.values().copied().collect();
        let half = times.len() / 2;
        let (_, middle, _) = times.select_nth_unstable(half);
        let middle = *middle;
        self.whole_at.retain(|_, whole_at| *whole_at > middle);
    }
}

#[cfg(test)]
mod tests;
