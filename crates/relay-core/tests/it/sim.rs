//! A deterministic simulation of delivery: the real engine and the real store, with senders, sessions,
//! links and harnesses that do everything they can do wrong, and a process that may die between any two
//! writes. One seed is one run; the same seed is the same run.
//!
//! A failing seed prints the command that repeats it step by step. `scripts/sabotage` shows that deliberate
//! bugs are noticed. `docs/delivery.md` says what is checked.

mod chaos;
mod dice;
mod executor;
mod gate;
mod harness;
mod model;
mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use relay_core::store::Store as _;

use self::model::{Fault, Stand};
use self::world::World;

/// Things that happen in one run before everybody calms down.
const HAPPENINGS: u64 = 350;

/// How long after its deadline a delivery may take to end: asking a session to give it back.
const SLACK_MS: i64 = 35_000;

/// Runs one seed.
fn run(seed: u64, trace: bool) -> Result<(), Fault> {
    let mut world = World::new(seed, trace);
    live(&mut world).inspect_err(|fault| {
        if trace {
            world.tell_stories(fault);
        }
    })
}

fn live(world: &mut World) -> Result<(), Fault> {
    world.read_log()?;
    for _ in 0..HAPPENINGS {
        world.happen()?;
    }
    world.calm_down();
    world.say(|| "CALM".to_owned());
    world.come_to_rest()?;
    for _ in 0..4 {
        world.everybody_works()?;
        pass(world, 130_000)?;
        not_overdue(world)?;
    }
    // A backlog comes in shares, one per turn.
    let mut open = usize::MAX;
    while world.model.open() < open {
        open = world.model.open();
        world.everybody_works()?;
    }
    nothing_due_is_left(world)?;
    // Everybody is idle and stays so: what comes now has to go by itself.
    world.everybody_writes()?;
    nothing_due_is_left(world)?;
    for _ in 0..200 {
        let wait = world.come_to_rest()?;
        not_overdue(world)?;
        match wait {
            Some(wait) if !wait.is_zero() => world.clock.pass(wait.as_millis() as u64),
            Some(_) => world.clock.pass(1),
            None => break,
        }
    }
    at_the_end(world)
}

/// Lets time pass in the steps in which the engine wants to be woken.
fn pass(world: &mut World, millis: u64) -> Result<(), Fault> {
    let until = world.now().plus_millis(millis as i64);
    for _ in 0..500 {
        let left = until.as_millis() - world.now().as_millis();
        if left <= 0 {
            return Ok(());
        }
        let wait = world.come_to_rest()?.unwrap_or(Duration::MAX).as_millis();
        let wait = u64::try_from(wait)
            .unwrap_or(u64::MAX)
            .clamp(1, left as u64);
        world.say(|| format!("{wait} ms pass"));
        world.clock.pass(wait);
    }
    Err("the engine wants to be woken again and again without doing anything".to_owned())
}

/// Nothing may be open long after its deadline.
fn not_overdue(world: &World) -> Result<(), Fault> {
    for (id, told) in &world.model.deliveries {
        let overdue = world.model.deadline(told).plus_millis(SLACK_MS) < world.now();
        if overdue && !matches!(told.stand, Stand::Ended(_)) {
            return Err(format!("{id} is overdue: {told:?}"));
        }
    }
    Ok(())
}

/// Everybody is attached, idle and honest: what could be handed over has been.
fn nothing_due_is_left(world: &World) -> Result<(), Fault> {
    for (id, told) in &world.model.deliveries {
        if told.stand != Stand::Waiting || world.model.out.contains_key(id) {
            continue;
        }
        let sessions = match &told.only {
            Some(only) => only.iter().copied().collect(),
            None => Vec::from_iter(world.model.current(told.agent)),
        };
        // Whichever of them it was made for: it is due for all or for none.
        let [session] = sessions[..] else {
            continue;
        };
        if world
            .model
            .sessions
            .get(&session)
            .is_none_or(|session| session.ended)
        {
            continue;
        }
        let linked = world
            .harnesses
            .iter()
            .any(|harness| harness.session == Some(session) && harness.link.is_some());
        if linked && world.model.is_due(session, told, &world.policy) {
            return Err(format!(
                "{id} is due for {session} and was not offered: {told:?}"
            ));
        }
    }
    Ok(())
}

fn at_the_end(world: &mut World) -> Result<(), Fault> {
    world.read_log()?;
    world.model.at_the_end()?;
    for id in &world.acknowledged {
        if !world.model.messages.contains_key(id) {
            return Err(format!("{id} was acknowledged and is not in the log"));
        }
    }
    let report = world.real().verify(world.workspace_no).wait();
    let report = report.map_err(|error| error.to_string())?;
    if !report.is_intact() {
        return Err(format!("the chain is broken: {report:?}"));
    }
    let due = world.real().due(world.now(), 10).wait();
    let due = due.map_err(|error| error.to_string())?;
    if !due.rows.is_empty() || due.next.is_some() {
        return Err(format!("the store still has something due: {due:?}"));
    }
    Ok(())
}

fn seeds() -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let first = number("RELAY_SIM_FROM").unwrap_or(0);
    let count = number("RELAY_SIM_SEEDS").unwrap_or_else(|| {
        if crate::depth::is_full() {
            50_000
        } else {
            10_000
        }
    });
    (first, count)
}

/// Seeds beyond the default number that found something, once.
const FOUND_SOMETHING: [u64; 2] = [24_623, 24_655];

#[test]
fn seeds_that_found_something_hold() {
    for seed in FOUND_SOMETHING {
        if let Err(fault) = run(seed, false) {
            panic!("seed {seed}: {fault}");
        }
    }
}

#[test]
fn seeds_hold() {
    let (first, count) = seeds();
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::SeqCst) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= first + count {
                        return;
                    }
                    if let Err(fault) = run(seed, false) {
                        failed.store(true, Ordering::SeqCst);
                        eprintln!("seed {seed}: {fault}\n  after {} seeds; to repeat it step by step:\n  RELAY_SIM_SEED={seed} cargo test -p relay-core --test it sim::replay -- --ignored --nocapture", seed - first + 1);
                    }
                }
            });
        }
    });
    assert!(!failed.load(Ordering::SeqCst), "see above");
}

/// Repeats one seed and tells every step.
#[test]
#[ignore = "for one seed: RELAY_SIM_SEED=n"]
fn replay() {
    let seed = std::env::var("RELAY_SIM_SEED").expect("RELAY_SIM_SEED is the seed");
    let seed = seed.parse().expect("RELAY_SIM_SEED is a number");
    if let Err(fault) = run(seed, true) {
        panic!("seed {seed}: {fault}");
    }
}
