use proptest::prelude::*;
use relay_protocol::policy::RunawayPolicy;

use super::*;

const START_MS: i64 = 1_763_244_860_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START_MS + millis)
}

fn policy(sender_per_minute: u32, runaway_per_minute: u32) -> Policy {
    Policy {
        sender_per_minute,
        runaway: RunawayPolicy {
            per_minute: runaway_per_minute,
            depth: 20,
        },
        ..Policy::default()
    }
}

fn stride(author: i64, now: i64) -> Stride {
    Stride {
        room: RoomNo(1),
        author: Some(AgentNo(author)),
        may_loop: true,
        depth: 0,
        now: at(now),
    }
}

/// Sends at these times; how long each waits.
fn waits(per_minute: u32, times: &[i64]) -> Vec<i64> {
    let mut pace = Pace::default();
    let policy = policy(per_minute, 1);
    let waiting = |now: &i64| {
        let brake = pace.send(stride(1, *now), &policy);
        brake.map_or(0, |brake| {
            assert_eq!(brake.reason, "sender_rate");
            brake.until.as_millis() - at(*now).as_millis()
        })
    };
    times.iter().map(waiting).collect()
}

#[test]
fn an_allowance_is_used_at_once_and_comes_back_evenly() {
    let cases: [(u32, &[i64], &[i64]); 7] = [
        // All of it at once; what comes then waits in a row.
        (3, &[0, 0, 0, 0, 0], &[0, 0, 0, 20_000, 40_000]),
        // One comes back after a third of a minute.
        (3, &[0, 0, 0, 20_000, 20_000], &[0, 0, 0, 0, 20_000]),
        (3, &[0, 0, 0, 19_999], &[0, 0, 0, 1]),
        // All is back after a minute of silence.
        (2, &[0, 0, 60_000, 60_000, 60_000], &[0, 0, 0, 0, 30_000]),
        // As fast as it comes back nobody waits.
        (2, &[0, 30_000, 60_000, 90_000], &[0, 0, 0, 0]),
        (1, &[0, 0, 0], &[0, 60_000, 120_000]),
        (1_000_000, &[0, 0, 0], &[0, 0, 0]),
    ];
    for (per_minute, times, expected) in cases {
        assert_eq!(waits(per_minute, times), expected, "{per_minute} {times:?}");
    }
}

#[test]
fn senders_do_not_hinder_each_other() {
    let mut pace = Pace::default();
    let policy = policy(1, 1);
    assert_eq!(pace.send(stride(1, 0), &policy), None);
    assert_eq!(pace.send(stride(2, 0), &policy), None);
    assert!(pace.send(stride(1, 0), &policy).is_some());
    let nobody = Stride {
        author: None,
        ..stride(1, 0)
    };
    for _ in 0..5 {
        assert_eq!(pace.send(nobody, &policy), None);
        assert_eq!(pace.deliver(nobody, AgentNo(1), &policy), None);
    }
}

/// Who speaks to whom in which room; how long it waits.
fn talk(per_minute: u32, said: &[(i64, i64, i64)]) -> Vec<i64> {
    let mut pace = Pace::default();
    let policy = policy(1_000, per_minute);
    let deliver = |(from, to, room): &(i64, i64, i64)| {
        let stride = Stride {
            room: RoomNo(*room),
            ..stride(*from, 0)
        };
        let brake = pace.deliver(stride, AgentNo(*to), &policy);
        brake.map_or(0, |brake| {
            assert_eq!(brake.reason, "runaway_guard");
            brake.until.as_millis() - START_MS
        })
    };
    said.iter().map(deliver).collect()
}

#[test]
fn two_agents_in_one_room_share_an_allowance_of_answers() {
    let said = [
        (1, 2, 1),
        (2, 1, 1),
        (1, 2, 1),
        // Two answers were given; this is the third.
        (2, 1, 1),
        (1, 3, 1),
        (3, 1, 1),
        (2, 1, 2),
        (1, 2, 2),
        (1, 2, 1),
    ];
    assert_eq!(talk(2, &said), [0, 0, 0, 30_000, 0, 0, 0, 0, 60_000]);
}

#[test]
fn a_burst_in_one_direction_is_one_answer() {
    let mut said = vec![(2, 1, 1)];
    said.extend([(1, 2, 1); 1_000]);
    said.extend([(2, 1, 1); 1_000]);
    assert_eq!(talk(2, &said), vec![0; 2_001]);
}

#[test]
fn a_loop_does_not_go_on_beside_the_answer_that_is_held() {
    let said = [
        (1, 2, 1),
        (2, 1, 1),
        (1, 2, 1),
        (2, 1, 1),
        // It is no answer, and waits as long as the one before.
        (2, 1, 1),
        (1, 2, 1),
        (1, 2, 1),
    ];
    assert_eq!(talk(2, &said), [0, 0, 0, 30_000, 30_000, 60_000, 60_000]);
}

#[test]
fn people_and_urgent_messages_are_neither_held_nor_counted() {
    let mut pace = Pace::default();
    let policy = policy(1_000, 1);
    let mut deliver = |from, to, may_loop| {
        let stride = Stride {
            may_loop,
            depth: 1_000,
            ..stride(from, 0)
        };
        pace.deliver(stride, AgentNo(to), &policy)
    };
    for _ in 0..100 {
        assert_eq!(deliver(1, 2, false), None);
        assert_eq!(deliver(2, 1, false), None);
    }
}

#[test]
fn a_long_chain_of_answers_waits_a_minute() {
    let mut pace = Pace::default();
    let policy = policy(1_000, 1);
    let mut deliver = |from: i64, depth, now| {
        let stride = Stride {
            depth,
            ..stride(from, now)
        };
        let brake = pace.deliver(stride, AgentNo(3 - from), &policy);
        brake.map(|brake| (brake.reason, brake.until.as_millis() - START_MS - now))
    };
    assert_eq!(deliver(1, 20, 0), None);
    assert_eq!(
        deliver(2, 21, 60_000),
        Some(("runaway_guard", CHAIN_WAIT_MS))
    );
    // Too fast as well: the longer wait counts.
    assert_eq!(deliver(1, 21, 60_000), Some(("runaway_guard", 60_000)));
    assert_eq!(deliver(2, 21, 60_000), Some(("runaway_guard", 120_000)));
    assert_eq!(deliver(1, 20, 60_000), Some(("runaway_guard", 180_000)));
}

#[test]
fn who_spoke_last_is_remembered_of_so_many_pairs() {
    let mut speakers = LastSpeakers::default();
    for room in 0..3 * REMEMBERED as i64 {
        let pair = (RoomNo(room), AgentNo(1), AgentNo(2));
        assert!(!speakers.is_answer(pair, AgentNo(1)));
        assert!(speakers.is_answer(pair, AgentNo(2)));
        assert!(speakers.by_pair.len() <= REMEMBERED);
    }
}

#[test]
fn a_clock_that_is_set_back_costs_nobody_time() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    assert_eq!(waits(2, &[0, -DAY_MS, -DAY_MS]), [0, 0, 30_000]);
    assert_eq!(
        waits(2, &[0, 0, 0, -DAY_MS, 30_000 - DAY_MS]),
        [0, 0, 30_000, 60_000, 60_000]
    );
    // Calls that overtook each other by a little are of the same moment.
    assert_eq!(waits(1, &[0, -900]), [0, 60_000]);
}

#[test]
fn nobody_waits_longer_than_the_longest_wait() {
    let times = [0; 100];
    let waits = waits(1, &times);
    assert_eq!(waits[60], LONGEST_WAIT_MS);
    assert_eq!(waits.iter().max(), Some(&LONGEST_WAIT_MS));
}

#[test]
fn memory_is_bounded_and_those_who_rest_are_forgotten_first() {
    let mut meter = Meter {
        capacity: 10,
        whole_at: HashMap::new(),
    };
    for key in 0..9 {
        meter.count(key, 6, 0);
    }
    meter.count(9, 6, 9_000);
    meter.count(9, 6, 9_000);
    // Ten seconds later those that sent once have everything back.
    meter.count(10, 6, 10_000);
    let mut keys: Vec<i32> = meter.whole_at.keys().copied().collect();
    keys.sort_unstable();
    assert_eq!(keys, [9, 10]);
    // When nobody rests, those who have most are forgotten.
    for key in 11..40 {
        meter.count(key, 6, 10_000);
        meter.count(key, 6, 10_000);
        assert!(meter.whole_at.len() <= 10);
    }
    assert!(meter.whole_at.contains_key(&39));
}

/// When messages are let go: at once, or when their wait is over.
fn departures(per_minute: u32, pauses: &[i64]) -> Vec<i64> {
    let mut meter = Meter::default();
    let mut now = START_MS;
    let mut go = Vec::new();
    for pause in pauses {
        now += pause;
        let wait = meter.count((), per_minute, now);
        go.push(now + wait);
    }
    go
}

proptest! {
    #[test]
    fn no_stretch_of_time_sees_more_than_the_allowance_and_what_came_back(
        // With one in a minute the row could get longer than the longest wait.
        per_minute in 2..40_u32,
        pauses in proptest::collection::vec(
            prop_oneof![3 => Just(0), 3 => 0..3_000_i64, 1 => 0..90_000_i64],
            1..80,
        ),
    ) {
        let go = departures(per_minute, &pauses);
        prop_assert!(go.is_sorted());
        let step = 60_000.0 / f64::from(per_minute);
        for (first, from) in go.iter().enumerate() {
            for (last, to) in go.iter().enumerate().skip(first) {
                let came_back = (to - from + 1) as f64 / step;
                let most = f64::from(per_minute) + came_back;
                prop_assert!((last - first + 1) as f64 <= most.ceil(), "{go:?}");
            }
        }
    }

    #[test]
    fn nobody_waits_who_keeps_to_the_allowance(
        per_minute in 1..1_000_u32,
        bursts in proptest::collection::vec(1..1_000_u32, 1..10),
    ) {
        let mut meter = Meter::default();
        let mut now = START_MS;
        for burst in bursts {
            for _ in 0..burst.min(per_minute) {
                prop_assert_eq!(meter.count((), per_minute, now), 0);
            }
            now += 60_000;
        }
    }

    #[test]
    fn whatever_the_clock_does_waits_are_bounded(
        times in proptest::collection::vec(-10_000_000_i64..10_000_000, 1..60),
        per_minute in 1..10_u32,
    ) {
        let mut pace = Pace::default();
        let policy = policy(per_minute, per_minute);
        for (at_turn, now) in times.into_iter().enumerate() {
            let from = 1 + at_turn as i64 % 2;
            let stride = stride(from, now);
            let to = AgentNo(3 - from);
            for brake in [pace.send(stride, &policy), pace.deliver(stride, to, &policy)] {
                let until = brake.map_or(at(now), |brake| brake.until);
                prop_assert!(until >= at(now));
                prop_assert!(until <= at(now).plus_millis(LONGEST_WAIT_MS));
            }
        }
    }
}
