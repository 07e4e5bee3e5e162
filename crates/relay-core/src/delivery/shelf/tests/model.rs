//! The shelf against a store that holds everything, through random changes and refills.
//!
//! A change is committed first and told later, in the order of the commits; a page is read at some
//! moment between the beginning and the end of its refill. Whenever the shelf has been told all, what
//! it says must be true.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// What is kept of a delivery: the lane and the number of the change that put it there.
type Kept = (Lane, u32);

#[derive(Clone, Debug)]
enum Op {
    /// Commits that a delivery waits in a lane.
    Put(usize, u64),
    /// Commits that a delivery has ended.
    End(u64),
    /// Takes what comes next and hands it to a session.
    Offer(Wanted),
    /// Tells the shelf of this many commits.
    Tell(usize),
    /// Begins a refill, if none is under way.
    Begin(Wanted),
    /// Reads the page.
    Read,
    /// Ends the refill.
    Finish,
    /// Gives it up.
    Abandon,
    /// Forgets everything.
    Forget,
}

struct World {
    capacity: usize,
    changes: u32,
    /// What waits, going by the store, which knows nothing of offers.
    stored: BTreeMap<Position, Kept>,
    /// What is on its way to a session.
    in_flight: BTreeSet<Position>,
    /// Commits that the shelf was not told of.
    news: VecDeque<(Position, Option<Kept>)>,
    refill: Option<Reading>,
    shelf: Shelf<Kept>,
}

struct Reading {
    wanted: Wanted,
    rows: usize,
    page: Option<Page>,
}

#[derive(Clone)]
struct Page {
    rows: Vec<(Lane, Position, Kept)>,
    complete: bool,
    total: usize,
}

impl World {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            changes: 0,
            stored: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            news: VecDeque::new(),
            refill: None,
            shelf: Shelf::new(capacity),
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Put(lane, seq) => self.commit(seq, Some(lanes()[lane])),
            Op::End(seq) => self.commit(seq, None),
            Op::Offer(wanted) => self.offer(wanted),
            Op::Tell(count) => self.tell(count),
            Op::Begin(wanted) => self.begin(wanted),
            Op::Read => self.read(),
            Op::Finish => self.finish(),
            Op::Abandon => {
                self.refill = None;
                self.shelf.abandon_refill();
            }
            Op::Forget => {
                self.refill = None;
                self.shelf.forget();
            }
        }
    }

    fn commit(&mut self, seq: u64, lane: Option<Lane>) {
        self.changes += 1;
        let kept = lane.map(|lane| (lane, self.changes));
        match kept {
            Some(kept) => self.stored.insert(position(seq), kept),
            None => self.stored.remove(&position(seq)),
        };
        self.news.push_back((position(seq), kept));
    }

    fn tell(&mut self, count: usize) {
        for _ in 0..count {
            let Some((position, kept)) = self.news.pop_front() else {
                return;
            };
            // Any change of a delivery settles its offer.
            self.in_flight.remove(&position);
            match kept {
                Some(kept) => self.shelf.put(kept.0, position, kept),
                None => drop(self.shelf.remove(position)),
            }
        }
    }

    fn offer(&mut self, wanted: Wanted) {
        if let Next::Item(position, _) = self.shelf.next(wanted) {
            self.shelf.remove(position);
            self.in_flight.insert(position);
        }
    }

    fn begin(&mut self, wanted: Wanted) {
        if self.refill.is_none() {
            self.shelf.begin_refill(wanted);
            let of_use = self
                .changes
                .is_multiple_of(2)
                .then_some(self.changes as usize % 5);
            self.refill = Some(Reading {
                wanted,
                rows: self.shelf.page_rows(of_use, self.in_flight.len()),
                page: None,
            });
        }
    }

    fn read(&mut self) {
        if let Some(reading) = &mut self.refill {
            let page = page_of(&self.stored, reading.wanted, reading.rows);
            reading.page.get_or_insert(page);
        }
    }

    fn finish(&mut self) {
        self.read();
        if let Some(Reading {
            page: Some(page), ..
        }) = self.refill.take()
        {
            install(&mut self.shelf, page, &self.in_flight);
        }
    }

    fn check(&self, wanted: Wanted) {
        assert!(self.shelf.len() <= self.capacity);
        assert!(self.shelf.iter().count() <= 2 * self.capacity);
        if !self.news.is_empty() {
            return;
        }
        match self.shelf.next(wanted) {
            Next::Wait => assert!(self.refill.is_some()),
            Next::Refill(asked) => {
                assert!(self.refill.is_none());
                assert!(asked.covers(&wanted));
            }
            Next::Item(position, kept) => assert_eq!(self.first(wanted), Some((position, *kept))),
            Next::Empty => assert_eq!(self.first(wanted), None),
        }
        self.check_progress(wanted);
    }

    /// Reading what is asked for, with nothing between, soon leads to an answer.
    fn check_progress(&self, wanted: Wanted) {
        let mut shelf = self.shelf.clone();
        shelf.abandon_refill();
        for _ in 0..3 {
            let asked = match shelf.next(wanted) {
                Next::Refill(asked) => asked,
                Next::Wait => panic!("nothing is under way"),
                Next::Item(..) | Next::Empty => return,
            };
            let rows = shelf.page_rows(Some(1), self.in_flight.len());
            shelf.begin_refill(asked);
            install(
                &mut shelf,
                page_of(&self.stored, asked, rows),
                &self.in_flight,
            );
        }
        panic!("it asks for ever");
    }

    /// What really comes next.
    fn first(&self, wanted: Wanted) -> Option<(Position, Kept)> {
        let rows = sorted(&self.stored, wanted).into_iter();
        rows.map(|(_, position, kept)| (position, kept))
            .find(|(position, _)| !self.in_flight.contains(position))
    }
}

fn install(shelf: &mut Shelf<Kept>, page: Page, in_flight: &BTreeSet<Position>) {
    let flies = |position| in_flight.contains(&position);
    shelf.finish_refill(page.rows, page.complete, page.total, flies);
}

fn page_of(stored: &BTreeMap<Position, Kept>, wanted: Wanted, rows: usize) -> Page {
    let mut found = sorted(stored, wanted);
    let complete = found.len() <= rows;
    found.truncate(rows);
    Page {
        rows: found,
        complete,
        total: stored.len(),
    }
}

fn sorted(stored: &BTreeMap<Position, Kept>, wanted: Wanted) -> Vec<(Lane, Position, Kept)> {
    let mut rows: Vec<_> = stored
        .iter()
        .filter(|(position, (lane, _))| {
            wanted.lanes.contains(*lane)
                && (lane.is_flushed() || wanted.after.is_none_or(|after| **position > after))
        })
        .map(|(position, kept)| (kept.0, *position, *kept))
        .collect();
    rows.sort_by_key(|(lane, position, _)| (lane.priority() == Priority::Normal, *position));
    rows
}

fn any_wanted() -> impl Strategy<Value = Wanted> {
    let lanes = proptest::collection::vec(0..lanes().len(), 1..4);
    let after = prop_oneof![3 => Just(None), 1 => (0..30_u64).prop_map(Some)];
    let some = (lanes, after).prop_map(|(lanes, after)| wanted(&lanes, after));
    prop_oneof![3 => some, 1 => Just(Wanted::EVERYTHING)]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..lanes().len(), 0..30_u64).prop_map(|(lane, seq)| Op::Put(lane, seq)),
        3 => (0..30_u64).prop_map(Op::End),
        6 => any_wanted().prop_map(Op::Offer),
        8 => (1..6_usize).prop_map(Op::Tell),
        4 => any_wanted().prop_map(Op::Begin),
        3 => Just(Op::Read),
        4 => Just(Op::Finish),
        1 => Just(Op::Abandon),
        1 => Just(Op::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_shelf_is_never_wrong(
        capacity in 1..6_usize,
        ops in proptest::collection::vec((any_op(), any_wanted()), 1..60),
        told_at_once in any::<bool>(),
    ) {
        let mut world = World::new(capacity);
        for (op, wanted) in ops {
            world.run(op);
            if told_at_once {
                world.tell(usize::MAX);
            }
            world.check(wanted);
        }
        world.tell(usize::MAX);
        for of in 0..lanes().len() {
            world.check(super::wanted(&[of], None));
        }
        world.check(Wanted::EVERYTHING);
    }
}
