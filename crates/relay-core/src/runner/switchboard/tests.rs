use std::collections::BTreeMap;

use proptest::prelude::*;
use relay_protocol::action::{ActionCaller, InvocationState};
use relay_protocol::ids::WorkspaceId;

use super::super::link::MemoryLink;
use super::*;

const ACTION: ActionNo = ActionNo(1);

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + ms)
}

fn call(seq: u64) -> Position {
    Position::new(1, seq)
}

/// A call that ends by itself after a second.
fn row(seq: u64, offers: u32, at_most_once: bool) -> InvocationRow {
    InvocationRow {
        position: call(seq),
        workspace: WorkspaceId::new(at(0), 1),
        at: at(0),
        action: ACTION,
        name: "classify".to_owned(),
        owner: None,
        caller_no: None,
        caller: ActionCaller {
            name: "ada".to_owned(),
            id: None,
            agent_type: None,
        },
        state: InvocationState::Invoked,
        input: None,
        output: None,
        error: None,
        retryable: None,
        offers,
        at_most_once,
        notify_caller: false,
        deadline: at(1_000),
        ended_at: None,
    }
}

/// What is to be done, in short.
fn done(board: &mut Switchboard) -> Vec<String> {
    let calls = std::mem::take(&mut board.calls);
    let shown = calls.into_iter().map(|call| match call {
        Call::Hand(handler, _, invoke) => {
            let id = invoke.invocation_id;
            let seq = (1..100).find(|seq| row(*seq, 0, false).id() == id);
            format!("hand {} to {}", seq.unwrap(), handler.0)
        }
        Call::Mark(call, offers) => format!("mark {} as {offers}", call.seq()),
        Call::Note(call, offers) => format!("note {} as {offers}", call.seq()),
        Call::End(call, lapse) => format!("end {}: {lapse:?}", call.seq()),
    });
    shown.collect()
}

fn with_handlers(count: usize) -> (Switchboard, Vec<HandlerId>) {
    let mut board = Switchboard::default();
    let came = (0..count).map(|_| board.handler_came(ACTION, MemoryLink::new()));
    let handlers = came.collect();
    (board, handlers)
}

#[test]
fn handlers_take_turns() {
    let (mut board, _) = with_handlers(2);
    for seq in 1..=3 {
        board.opened(&row(seq, 1, false));
    }
    let expected = ["hand 1 to 1", "hand 2 to 2", "hand 3 to 1"];
    assert_eq!(done(&mut board), expected);
}

#[test]
fn what_was_not_marked_with_the_call_is_marked_meanwhile_or_before() {
    let (mut board, _) = with_handlers(1);
    board.opened(&row(1, 0, false));
    assert_eq!(done(&mut board), ["hand 1 to 1", "note 1 as 1"]);
    board.opened(&row(2, 0, true));
    assert_eq!(done(&mut board), ["mark 2 as 1"]);
    board.marked(call(2), Some(&row(2, 1, true)));
    assert_eq!(done(&mut board), ["hand 2 to 1"]);
}

#[test]
fn calls_wait_for_a_handler() {
    let mut board = Switchboard::default();
    board.opened(&row(1, 0, false));
    board.opened(&row(2, 0, true));
    assert_eq!(done(&mut board), [""; 0]);
    assert!(!board.is_ready(ACTION));
    let handler = board.handler_came(ACTION, MemoryLink::new());
    assert_eq!(done(&mut board), ["mark 1 as 1", "mark 2 as 1"]);
    // It is gone before the marks are stored.
    board.handler_lost(handler);
    board.marked(call(1), Some(&row(1, 1, false)));
    board.marked(call(2), Some(&row(2, 1, true)));
    assert_eq!(done(&mut board), [""; 0], "neither went out");
    board.handler_came(ACTION, MemoryLink::new());
    assert_eq!(done(&mut board), ["mark 1 as 1", "mark 2 as 1"]);
}

#[test]
fn a_lost_handlers_calls_go_to_the_next_one_unless_they_may_go_out_once_only() {
    let (mut board, handlers) = with_handlers(1);
    board.opened(&row(1, 1, false));
    board.opened(&row(2, 1, true));
    done(&mut board);
    board.handler_lost(handlers[0]);
    assert_eq!(done(&mut board), ["end 2: HandlerLost"]);
    board.handler_came(ACTION, MemoryLink::new());
    assert_eq!(done(&mut board), ["mark 1 as 2"]);
    board.marked(call(1), Some(&row(1, 2, false)));
    assert_eq!(done(&mut board), ["hand 1 to 2"]);
    board.ended(call(1));
    board.ended(call(2));
    assert_eq!(board.next_deadline(), None);
}

#[test]
fn time_ends_a_call_wherever_it_is_and_that_is_tried_again() {
    let (mut board, _) = with_handlers(1);
    board.opened(&row(1, 1, false));
    done(&mut board);
    board.tick(at(999));
    assert_eq!(done(&mut board), [""; 0]);
    assert_eq!(board.next_deadline(), Some(at(1_000)));
    board.tick(at(1_000));
    assert_eq!(done(&mut board), ["end 1: TimedOut"]);
    board.tick(at(5_000));
    assert_eq!(done(&mut board), [""; 0], "it is on its way");
    board.not_ended(call(1), at(5_000));
    board.tick(at(5_999));
    assert_eq!(done(&mut board), [""; 0]);
    board.tick(at(6_000));
    assert_eq!(done(&mut board), ["end 1: TimedOut"]);
}

#[test]
fn what_may_go_out_once_only_does_not_go_out_again_when_its_end_can_not_be_stored() {
    let (mut board, handlers) = with_handlers(2);
    board.opened(&row(1, 1, true));
    done(&mut board);
    board.handler_lost(handlers[0]);
    assert_eq!(done(&mut board), ["end 1: HandlerLost"]);
    board.not_ended(call(1), at(10));
    board.handler_came(ACTION, MemoryLink::new());
    assert_eq!(done(&mut board), [""; 0]);
    board.tick(at(1_010));
    assert_eq!(done(&mut board), ["end 1: HandlerLost"]);
}

#[test]
fn after_a_restart_calls_wait_and_those_that_may_have_been_run_fail_if_they_must() {
    let mut board = Switchboard::default();
    board.left_over(&row(1, 3, false));
    board.left_over(&row(2, 1, true));
    board.left_over(&row(3, 0, true));
    assert_eq!(done(&mut board), ["end 2: HandlerLost"]);
    board.handler_came(ACTION, MemoryLink::new());
    assert_eq!(done(&mut board), ["mark 1 as 4", "mark 3 as 1"]);
}

#[test]
fn a_handler_has_so_many_at_a_time() {
    let (mut board, _) = with_handlers(1);
    let most = ACTION_CALLS_PER_HANDLER as u64;
    for seq in 1..=most + 1 {
        board.opened(&row(seq, 1, false));
    }
    assert_eq!(done(&mut board).len(), ACTION_CALLS_PER_HANDLER);
    board.ended(call(5));
    assert_eq!(done(&mut board), [format!("mark {} as 1", most + 1)]);
}

#[test]
fn with_its_action_a_handler_goes() {
    let (mut board, handlers) = with_handlers(1);
    board.action_removed(ACTION);
    assert_eq!(board.handlers(ACTION), 0);
    board.handler_lost(handlers[0]);
}

/// What may happen.
#[derive(Clone, Debug)]
enum Event {
    Opened { at_most_once: bool, was_ready: bool },
    Came,
    Lost(usize),
    Answered(usize),
    Stored(usize, bool),
    Time(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let index = any::<usize>;
    let event = prop_oneof![
        (any::<bool>(), any::<bool>()).prop_map(|(at_most_once, was_ready)| Event::Opened {
            at_most_once,
            was_ready
        }),
        Just(Event::Came),
        index().prop_map(Event::Lost),
        index().prop_map(Event::Answered),
        (index(), any::<bool>()).prop_map(|(which, ok)| Event::Stored(which, ok)),
        (0..800_i64).prop_map(Event::Time),
    ];
    proptest::collection::vec(event, 1..60)
}

/// What the world around a switchboard knows.
#[derive(Default)]
struct World {
    board: Switchboard,
    now: i64,
    rows: BTreeMap<Position, InvocationRow>,
    handlers: Vec<HandlerId>,
    /// How often each call went out, and to whom it went last.
    out: BTreeMap<Position, (u32, HandlerId)>,
    /// Marks and ends on their way to the store.
    marks: Vec<(Position, u32)>,
    ends: Vec<Position>,
}

impl World {
    fn open(&self) -> Vec<Position> {
        self.rows.keys().copied().collect()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Opened {
                at_most_once,
                was_ready,
            } => {
                let seq = self.rows.len() as u64 + self.out.len() as u64 + 1;
                let offers = u32::from(was_ready);
                let mut new = row(seq, offers, at_most_once);
                new.deadline = at(self.now + 1_000);
                if self.rows.contains_key(&new.position) || self.out.contains_key(&new.position) {
                    return;
                }
                self.board.opened(&new);
                self.rows.insert(new.position, new);
            }
            Event::Came => {
                let handler = self.board.handler_came(ACTION, MemoryLink::new());
                self.handlers.push(handler);
            }
            Event::Lost(which) if !self.handlers.is_empty() => {
                let at = which % self.handlers.len();
                self.board.handler_lost(self.handlers.swap_remove(at));
            }
            Event::Answered(which) if !self.rows.is_empty() => {
                let open = self.open();
                let call = open[which % open.len()];
                self.end(call);
            }
            Event::Stored(which, ok) => self.store(which, ok),
            Event::Time(ms) => {
                self.now += ms;
                self.board.tick(at(self.now));
            }
            _ => {}
        }
        self.look();
    }

    fn store(&mut self, which: usize, ok: bool) {
        if !self.marks.is_empty() {
            let (call, offers) = self.marks.remove(which % self.marks.len());
            if let Some(row) = self.rows.get_mut(&call) {
                if ok {
                    row.offers = offers;
                }
                let stored = row.clone();
                self.board.marked(call, ok.then_some(&stored));
            }
        } else if !self.ends.is_empty() {
            let call = self.ends.remove(which % self.ends.len());
            if ok {
                self.end(call);
            } else {
                self.board.not_ended(call, at(self.now));
            }
        }
    }

    fn end(&mut self, call: Position) {
        if self.rows.remove(&call).is_some() {
            self.board.ended(call);
        }
    }

    /// Notes what is to be done, and checks what has to hold of it.
    fn look(&mut self) {
        for todo in std::mem::take(&mut self.board.calls) {
            match todo {
                Call::Hand(handler, _, invoke) => {
                    let found = self
                        .rows
                        .values()
                        .find(|row| row.id() == invoke.invocation_id);
                    let row = found.expect("only open calls go out");
                    assert!(self.handlers.contains(&handler), "to one that is there");
                    let before = self.out.get(&row.position).map_or(0, |(times, _)| *times);
                    assert!(before == 0 || !row.at_most_once, "once only");
                    assert!(row.offers > 0 || !row.at_most_once, "marked before");
                    if let Some((_, last)) = self.out.get(&row.position) {
                        assert!(!self.handlers.contains(last), "it is with one at a time");
                    }
                    self.out.insert(row.position, (before + 1, handler));
                }
                Call::Mark(call, offers) => self.marks.push((call, offers)),
                Call::Note(call, offers) => {
                    if let Some(row) = self.rows.get_mut(&call) {
                        row.offers = offers;
                    }
                }
                Call::End(call, _) => self.ends.push(call),
            }
        }
    }

    /// Lets everything go well from now on: each call then ends.
    fn settle(&mut self) {
        for _ in 0..200 {
            while !self.marks.is_empty() || !self.ends.is_empty() {
                self.happen(Event::Stored(0, true));
            }
            if self.rows.is_empty() {
                return;
            }
            self.happen(Event::Time(1_000));
        }
        panic!("{} calls never end", self.rows.len());
    }
}

proptest! {
    #[test]
    fn a_call_is_with_one_handler_at_a_time_and_ends(events in events()) {
        let mut world = World::default();
        for event in events {
            world.happen(event);
        }
        world.settle();
        prop_assert!(world.board.open.is_empty());
        prop_assert!(world.board.deadlines.is_empty());
        prop_assert!(world.board.waiting.is_empty());
        prop_assert!(world.board.handlers.values().all(|handler| handler.has.is_empty()));
    }
}
