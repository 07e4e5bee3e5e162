use relay_protocol::delivery::{DeliveryMode, Priority};

use super::*;
use crate::delivery::lane::Ask;

mod model;

fn lane(mode: DeliveryMode, priority: Priority) -> Lane {
    let ask = Ask {
        mode: Some(mode),
        allow_downgrade: false,
        image: false,
        flushed: false,
    };
    Lane::for_ask(ask, priority)
}

/// Some lanes of either priority.
fn lanes() -> [Lane; 4] {
    use DeliveryMode as M;
    [
        lane(M::OnIdle, Priority::Normal),
        lane(M::Manual, Priority::Normal),
        lane(M::OnIdle, Priority::Urgent),
        lane(M::NextMessage, Priority::Normal),
    ]
}

fn position(seq: u64) -> Position {
    Position::new(1, seq)
}

fn wanted(of: &[usize], after: Option<u64>) -> Wanted {
    let mut set = LaneSet::default();
    for index in of {
        set.insert(lanes()[*index]);
    }
    Wanted {
        lanes: set,
        after: after.map(position),
    }
}

/// A page of rows, given by lane and place; each is kept as its own name.
fn page(rows: &[(usize, u64)]) -> Vec<(Lane, Position, String)> {
    let rows = rows.iter();
    rows.map(|(lane, seq)| (lanes()[*lane], position(*seq), format!("{lane}/{seq}")))
        .collect()
}

fn put(shelf: &mut Shelf<String>, lane: usize, seq: u64) {
    shelf.put(lanes()[lane], position(seq), format!("{lane}/{seq}"));
}

/// What comes next, in words.
fn next(shelf: &Shelf<String>, wanted: Wanted) -> String {
    match shelf.next(wanted) {
        Next::Item(_, item) => item.clone(),
        Next::Empty => "empty".to_owned(),
        Next::Refill(Wanted::EVERYTHING) => "refill all".to_owned(),
        Next::Refill(asked) if asked == wanted => "refill".to_owned(),
        Next::Refill(asked) => panic!("{asked:?}"),
        Next::Wait => "wait".to_owned(),
    }
}

/// A shelf that was filled with all there is.
fn filled(capacity: usize, rows: &[(usize, u64)]) -> Shelf<String> {
    let mut shelf = Shelf::new(capacity);
    shelf.begin_refill(Wanted::EVERYTHING);
    shelf.finish_refill(page(rows), true, rows.len(), |_| false);
    shelf
}

#[test]
fn a_shelf_is_clear_up_to_a_place_only_where_it_knows_all() {
    let mut shelf = Shelf::new(3);
    assert!(!shelf.is_clear_to(position(1)), "nothing is known");
    shelf.begin_refill(wanted(&[0, 1], None));
    shelf.finish_refill(page(&[(0, 5)]), true, 1, |_| false);
    assert!(!shelf.is_clear_to(position(1)), "only some lanes are known");
    shelf.begin_refill(Wanted::EVERYTHING);
    shelf.finish_refill(page(&[(0, 5), (1, 3)]), true, 2, |_| false);
    for (place, clear) in [(2, true), (3, false), (4, false), (9, false)] {
        assert_eq!(shelf.is_clear_to(position(place)), clear, "{place}");
    }
    // What has no room is not known.
    put(&mut shelf, 0, 6);
    put(&mut shelf, 0, 7);
    assert!(!shelf.is_clear_to(position(2)));
}

#[test]
fn what_was_flushed_is_wanted_however_old_it_is() {
    let flushed = Lane::for_ask(
        Ask {
            mode: None,
            allow_downgrade: false,
            image: false,
            flushed: true,
        },
        Priority::Normal,
    );
    let mut shelf = Shelf::new(3);
    shelf.begin_refill(Wanted::EVERYTHING);
    shelf.finish_refill(page(&[(0, 1), (0, 9)]), true, 2, |_| false);
    shelf.put(flushed, position(2), "flushed".to_owned());
    let mut newer = wanted(&[0], Some(5));
    newer.lanes.insert(flushed);
    assert_eq!(next(&shelf, newer), "flushed");
    shelf.remove(position(2));
    assert_eq!(next(&shelf, newer), "0/9");
}

#[test]
fn a_new_shelf_asks_for_everything() {
    let mut shelf = Shelf::new(4);
    let idle = wanted(&[0, 2], None);
    assert_eq!(next(&shelf, idle), "refill all");
    put(&mut shelf, 0, 1);
    assert_eq!(next(&shelf, idle), "refill all");
    assert_eq!(next(&shelf, wanted(&[], None)), "empty");
    shelf.begin_refill(Wanted::EVERYTHING);
    assert_eq!(next(&shelf, idle), "wait");
    shelf.finish_refill(page(&[(0, 1)]), true, 1, |_| false);
    assert_eq!(next(&shelf, idle), "0/1");
}

#[test]
fn urgent_ones_come_first_then_the_oldest() {
    let mut shelf = filled(8, &[(2, 9), (0, 3), (1, 1), (3, 2)]);
    let mut order = Vec::new();
    let all = wanted(&[0, 1, 2, 3], None);
    while let Next::Item(position, item) = shelf.next(all) {
        order.push(item.clone());
        shelf.remove(position);
    }
    assert_eq!(order, ["2/9", "1/1", "3/2", "0/3"]);
    assert_eq!(next(&shelf, all), "empty");
}

#[test]
fn only_open_lanes_and_newer_places_are_looked_at() {
    let shelf = filled(8, &[(2, 9), (0, 3), (0, 5), (1, 1)]);
    let cases = [
        (wanted(&[0, 2], None), "2/9"),
        (wanted(&[0], None), "0/3"),
        (wanted(&[0], Some(3)), "0/5"),
        (wanted(&[0], Some(5)), "empty"),
        (wanted(&[0, 2], Some(5)), "2/9"),
        (wanted(&[3], None), "empty"),
    ];
    for (wanted, expected) in cases {
        assert_eq!(next(&shelf, wanted), expected, "{wanted:?}");
    }
}

#[test]
fn what_does_not_fit_is_read_again() {
    let mut shelf = filled(2, &[(0, 1), (0, 2)]);
    let idle = wanted(&[0, 2], None);
    put(&mut shelf, 0, 3);
    put(&mut shelf, 1, 4);
    assert_eq!(shelf.len(), 2);
    // An urgent one goes before those, so the last one goes.
    put(&mut shelf, 2, 5);
    assert_eq!(next(&shelf, idle), "2/5");
    shelf.remove(position(5));
    assert_eq!(next(&shelf, idle), "0/1");
    shelf.remove(position(1));
    // Whether the second or another comes now is for the store to say.
    assert_eq!(next(&shelf, idle), "refill");
    // An older one than all that was dropped is known to be next.
    put(&mut shelf, 0, 1);
    assert_eq!(next(&shelf, idle), "0/1");
}

#[test]
fn when_not_all_fit_only_what_is_wanted_is_read() {
    let mut shelf = Shelf::new(2);
    shelf.begin_refill(Wanted::EVERYTHING);
    shelf.finish_refill(page(&[(1, 1), (1, 2)]), false, 9, |_| false);
    assert_eq!(next(&shelf, wanted(&[1], None)), "1/1");
    let idle = wanted(&[0, 2], None);
    assert_eq!(next(&shelf, idle), "refill");
    shelf.begin_refill(idle);
    // The other lane is still known while the page is read.
    assert_eq!(next(&shelf, wanted(&[1], None)), "1/1");
    assert_eq!(next(&shelf, idle), "wait");
    shelf.finish_refill(page(&[(0, 7)]), true, 9, |_| false);
    assert_eq!(next(&shelf, idle), "0/7");
    assert_eq!(next(&shelf, wanted(&[0], Some(7))), "empty");
    assert_eq!(next(&shelf, wanted(&[1], None)), "refill");
}

#[test]
fn what_changed_during_a_refill_is_newer_than_the_page() {
    let mut shelf = filled(3, &[(0, 1), (0, 2)]);
    let all = wanted(&[0, 1, 2, 3], None);
    shelf.begin_refill(Wanted::EVERYTHING);
    shelf.remove(position(1));
    put(&mut shelf, 0, 3);
    // This one changed its lane.
    put(&mut shelf, 1, 2);
    let old = page(&[(0, 1), (0, 2), (0, 4)]);
    shelf.finish_refill(old, true, 3, |position| position.seq() == 4);
    let kept: Vec<&str> = shelf.iter().map(|(_, item)| item.as_str()).collect();
    assert_eq!(kept, ["1/2", "0/3"]);
    assert_eq!(next(&shelf, all), "1/2");
}

#[test]
fn what_is_put_before_the_first_page_is_not_lost() {
    let mut shelf = Shelf::new(2);
    shelf.begin_refill(Wanted::EVERYTHING);
    for seq in 1..=4 {
        put(&mut shelf, 0, seq);
    }
    *shelf.get_mut(position(1)).unwrap() = "edited".to_owned();
    assert_eq!(shelf.iter_mut().count(), 2);
    shelf.finish_refill(page(&[]), true, 0, |_| false);
    let idle = wanted(&[0], None);
    assert_eq!(next(&shelf, idle), "edited");
    assert_eq!(shelf.remove(position(1)).as_deref(), Some("edited"));
    assert_eq!(shelf.remove(position(2)).as_deref(), Some("0/2"));
    // The third and the fourth had no room.
    assert_eq!(next(&shelf, idle), "refill");
}

#[test]
fn a_refill_that_failed_leaves_things_as_they_were() {
    let mut shelf = filled(3, &[(0, 1)]);
    shelf.begin_refill(wanted(&[1], None));
    put(&mut shelf, 0, 2);
    shelf.abandon_refill();
    assert!(!shelf.is_refilling());
    shelf.finish_refill(page(&[(1, 9)]), true, 1, |_| false);
    let all = wanted(&[0, 1], None);
    assert_eq!(next(&shelf, all), "0/1");
    assert_eq!(next(&shelf, wanted(&[1], None)), "empty");
    shelf.forget();
    assert_eq!(next(&shelf, all), "refill all");
    assert!(shelf.is_empty());
}

#[test]
fn special_lanes_are_not_kept() {
    let mut shelf = filled(3, &[(0, 1)]);
    shelf.begin_refill(Wanted::EVERYTHING);
    for lane in [Lane::ADDRESSED, Lane::HELD, Lane::RESTING] {
        shelf.put(lane, position(1), "elsewhere".to_owned());
    }
    assert_eq!(shelf.iter().count(), 0);
    shelf.finish_refill(page(&[(0, 1)]), true, 1, |_| false);
    assert!(shelf.is_empty());
    assert_eq!(next(&shelf, wanted(&[0], None)), "empty");
}

#[test]
fn a_total_that_does_not_agree_with_its_page_is_not_believed() {
    let mut shelf = Shelf::new(4);
    shelf.begin_refill(Wanted::EVERYTHING);
    shelf.finish_refill(page(&[(1, 1)]), false, 1, |_| false);
    assert_eq!(next(&shelf, wanted(&[0], None)), "refill");
}
