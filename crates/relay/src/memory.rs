//! The allocator. The system's own keeps what thousands of sessions have freed, and takes a seventh of a busy
//! server's time; this one takes half of that, and gives memory back.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How often memory is looked for that can be given back.
const EVERY: Duration = Duration::from_secs(5);

/// The share of their time that threads work while there is nothing much to do.
const QUIET: f64 = 0.1;

/// How often it was looked for.
static ROUND: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The round in which this thread has looked last.
    static LOOKED: Cell<u32> = const { Cell::new(0) };
}

/// Lets every thread of the runtime give back what was freed, from time to time. The allocator does that by
/// itself only while it is asked for more, so not when everybody has left; and each thread can do it only
/// for itself, so they do it when they are about to sleep ([`tidy`]). A thread that does it does nothing else meanwhile,
/// and a busy one has to get the memory anew afterwards: that waits until there is little to do.
pub(crate) async fn give_back() -> Infallible {
    let runtime = tokio::runtime::Handle::current().metrics();
    let worked = || -> Duration {
        let threads = 0..runtime.num_workers();
        threads
            .map(|thread| runtime.worker_total_busy_duration(thread))
            .sum()
    };
    let mut before = (Instant::now(), worked());
    loop {
        tokio::time::sleep(EVERY).await;
        let now = (Instant::now(), worked());
        let (time, work) = (now.0 - before.0, now.1.saturating_sub(before.1));
        before = now;
        if !is_quiet(work, time, runtime.num_workers()) {
            continue;
        }
        ROUND.fetch_add(1, Ordering::Relaxed);
        tidy();
        // One that sleeps all the time has to be woken for it. As many as there are threads: while the first is
        // at it, the second gets the next.
        for _ in 0..runtime.num_workers() {
            tokio::spawn(async { tidy() });
        }
    }
}

/// Whether threads had little to do: how long they worked in this time, all together.
fn is_quiet(work: Duration, time: Duration, threads: usize) -> bool {
    work.as_secs_f64() <= time.as_secs_f64() * threads as f64 * QUIET
}

/// Gives back what this thread has freed, once in each round.
pub(crate) fn tidy() {
    let round = ROUND.load(Ordering::Relaxed);
    if LOOKED.replace(round) == round {
        return;
    }
    #[allow(
        unsafe_code,
        reason = "the allocator is C; this takes nothing and may be called anywhere"
    )]
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_mostly_sleep_are_quiet() {
        let seconds = Duration::from_secs;
        assert!(is_quiet(seconds(0), seconds(5), 2));
        assert!(is_quiet(seconds(1), seconds(5), 2));
        assert!(!is_quiet(seconds(1), seconds(5), 1));
        assert!(!is_quiet(seconds(10), seconds(5), 2));
    }
}
