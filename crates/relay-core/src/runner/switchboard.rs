//! Which handler runs which call of an action. Pure: what happens goes in, what is to be done comes out.
//!
//! A call is with one handler at a time. It stays open until the store says that it ended, so whatever is lost on
//! the way, here or in the handler, is made up for by giving it to the next one, or by its deadline.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use relay_protocol::limits::ACTION_CALLS_PER_HANDLER;
use relay_protocol::socket::InvokeFrame;
use relay_protocol::time::Timestamp;

use super::link::SessionLink;
use crate::store::{ActionNo, InvocationRow, Position};

/// Names one handler among all there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub u64);

/// How long a call whose end could not be stored waits before that is tried again.
const AGAIN_AFTER_MS: i64 = 1_000;

/// Something that is to be done about a call.
pub(super) enum Call {
    /// Gives it to a handler.
    Hand(HandlerId, Arc<dyn SessionLink>, Box<InvokeFrame>),
    /// Marks it as given so many times; answered by [`Switchboard::marked`].
    Mark(Position, u32),
    /// Marks it, and nobody waits for that.
    Note(Position, u32),
    /// Ends it; answered by its end, or by [`Switchboard::not_ended`].
    End(Position, Lapse),
}

/// Why Relay ends a call by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lapse {
    /// Its time is over.
    TimedOut,
    /// Its handler is gone and it may not be given to another.
    HandlerLost,
}

/// The memory of calls and handlers.
#[derive(Default)]
pub(super) struct Switchboard {
    last: u64,
    handlers: BTreeMap<HandlerId, Handler>,
    /// Whose turn it is, for each action.
    turns: HashMap<ActionNo, VecDeque<HandlerId>>,
    open: BTreeMap<Position, Open>,
    /// Calls that no handler has, for each action.
    waiting: HashMap<ActionNo, BTreeSet<Position>>,
    deadlines: BTreeSet<(Timestamp, Position)>,
    pub(super) calls: Vec<Call>,
}

struct Handler {
    action: ActionNo,
    link: Arc<dyn SessionLink>,
    has: BTreeSet<Position>,
}

struct Open {
    action: ActionNo,
    at_most_once: bool,
    /// How often it went to a handler.
    offers: u32,
    deadline: Timestamp,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// The mark that it goes to this handler is on its way to the store.
    Marking(HandlerId),
    With(HandlerId),
    /// Its end is on its way to the store.
    Ending(Lapse),
    /// Its end could not be stored, and will be tried again.
    Lapsed(Lapse),
}

impl Switchboard {
    /// A call was written down, in this run.
    pub(super) fn opened(&mut self, row: &InvocationRow) {
        // It was marked with the call itself, if a handler stood ready then.
        let is_marked = row.offers > 0;
        self.enter(row, 0);
        match self.free_handler(row.action) {
            Some(handler) if is_marked || !row.at_most_once => {
                self.hand(row, handler);
                if !is_marked {
                    self.calls.push(Call::Note(row.position, 1));
                }
            }
            _ => self.give_out(row.action),
        }
    }

    /// A call is left over from a former run.
    pub(super) fn left_over(&mut self, row: &InvocationRow) {
        self.enter(row, row.offers);
        if row.at_most_once && row.offers > 0 {
            self.end(row.position, Lapse::HandlerLost);
        }
        self.give_out(row.action);
    }

    fn enter(&mut self, row: &InvocationRow, offers: u32) {
        let open = Open {
            action: row.action,
            at_most_once: row.at_most_once,
            offers,
            deadline: row.deadline,
            stage: Stage::Waiting,
        };
        self.deadlines.insert((row.deadline, row.position));
        self.waiting
            .entry(row.action)
            .or_default()
            .insert(row.position);
        self.open.insert(row.position, open);
    }

    /// A call has ended.
    pub(super) fn ended(&mut self, call: Position) {
        let Some(open) = self.open.remove(&call) else {
            return;
        };
        self.deadlines.remove(&(open.deadline, call));
        self.no_longer_waits(open.action, call);
        self.taken_from(open.stage, call);
        self.give_out(open.action);
    }

    /// A handler is there for an action.
    pub(super) fn handler_came(
        &mut self,
        action: ActionNo,
        link: Arc<dyn SessionLink>,
    ) -> HandlerId {
        self.last += 1;
        let id = HandlerId(self.last);
        let has = BTreeSet::new();
        self.handlers.insert(id, Handler { action, link, has });
        self.turns.entry(action).or_default().push_back(id);
        self.give_out(action);
        id
    }

    /// A handler is gone; what it had goes to the next one, or fails.
    pub(super) fn handler_lost(&mut self, id: HandlerId) {
        let Some(handler) = self.handlers.remove(&id) else {
            return;
        };
        if let Some(turns) = self.turns.get_mut(&handler.action) {
            turns.retain(|other| *other != id);
            if turns.is_empty() {
                self.turns.remove(&handler.action);
            }
        }
        for call in handler.has {
            let Some(open) = self.open.get_mut(&call) else {
                continue;
            };
            let was_given = open.stage == Stage::With(id);
            if was_given && open.at_most_once {
                self.end(call, Lapse::HandlerLost);
            } else if was_given {
                self.waits_again(call);
            }
            // One whose mark is on its way is looked at when that is over.
        }
        self.give_out(handler.action);
    }

    /// An action is no more, and its handlers with it. Its calls have ended by themselves.
    pub(super) fn action_removed(&mut self, action: ActionNo) {
        for id in self.turns.remove(&action).unwrap_or_default() {
            self.handlers.remove(&id);
        }
    }

    /// A call was marked; none: that could not be stored.
    pub(super) fn marked(&mut self, call: Position, row: Option<&InvocationRow>) {
        let Some(open) = self.open.get(&call) else {
            return;
        };
        let Stage::Marking(handler) = open.stage else {
            return;
        };
        match row {
            Some(row) if self.handlers.contains_key(&handler) => self.hand(row, handler),
            _ => {
                self.taken_from(Stage::Marking(handler), call);
                self.waits_again(call);
                self.give_out(self.open[&call].action);
            }
        }
    }

    /// A call's end could not be stored; it is tried again in a while.
    pub(super) fn not_ended(&mut self, call: Position, now: Timestamp) {
        if let Some(open) = self.open.get_mut(&call)
            && let Stage::Ending(why) = open.stage
        {
            open.stage = Stage::Lapsed(why);
            self.deadlines.remove(&(open.deadline, call));
            open.deadline = now.plus_millis(AGAIN_AFTER_MS);
            self.deadlines.insert((open.deadline, call));
        }
    }

    /// Ends the calls whose time is over.
    pub(super) fn tick(&mut self, now: Timestamp) {
        while let Some(&(at, call)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            self.end(call, Lapse::TimedOut);
        }
    }

    /// When the next call's time is over.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Whether a handler stands ready for an action.
    pub(super) fn is_ready(&self, action: ActionNo) -> bool {
        let turns = self.turns.get(&action).into_iter().flatten();
        turns.into_iter().any(|id| self.has_room(*id))
    }

    /// How many handlers an action has.
    pub(super) fn handlers(&self, action: ActionNo) -> usize {
        self.turns.get(&action).map_or(0, VecDeque::len)
    }

    fn has_room(&self, id: HandlerId) -> bool {
        let handler = self.handlers.get(&id);
        handler.is_some_and(|handler| handler.has.len() < ACTION_CALLS_PER_HANDLER)
    }

    /// The next handler with room, which then has its turn last.
    fn free_handler(&mut self, action: ActionNo) -> Option<HandlerId> {
        let turns = self.turns.get(&action)?;
        let at = turns.iter().position(|id| self.has_room(*id))?;
        let turns = self.turns.get_mut(&action)?;
        let id = turns.remove(at)?;
        turns.push_back(id);
        Some(id)
    }

    /// Gives waiting calls to handlers that have room, the oldest first.
    fn give_out(&mut self, action: ActionNo) {
        while let Some(call) = self.next_waiting(action) {
            let Some(handler) = self.free_handler(action) else {
                break;
            };
            let Some(open) = self.open.get_mut(&call) else {
                break;
            };
            open.stage = Stage::Marking(handler);
            let offers = open.offers + 1;
            self.no_longer_waits(action, call);
            self.taken_by(handler, call);
            self.calls.push(Call::Mark(call, offers));
        }
    }

    fn next_waiting(&self, action: ActionNo) -> Option<Position> {
        self.waiting.get(&action)?.first().copied()
    }

    fn hand(&mut self, row: &InvocationRow, handler: HandlerId) {
        let Some(open) = self.open.get_mut(&row.position) else {
            return;
        };
        open.stage = Stage::With(handler);
        open.offers += 1;
        self.no_longer_waits(row.action, row.position);
        self.taken_by(handler, row.position);
        if let Some(Handler { link, .. }) = self.handlers.get(&handler) {
            let invoke = Box::new(InvokeFrame {
                invocation_id: row.id(),
                action: row.name.clone(),
                agent: row.caller.clone(),
                input: row.input.clone(),
            });
            self.calls.push(Call::Hand(handler, link.clone(), invoke));
        }
    }

    fn end(&mut self, call: Position, why: Lapse) {
        let Some(open) = self.open.get_mut(&call) else {
            return;
        };
        let (action, before) = (open.action, open.stage);
        let why = match before {
            Stage::Ending(_) => return,
            Stage::Lapsed(before) => before,
            _ => why,
        };
        open.stage = Stage::Ending(why);
        self.no_longer_waits(action, call);
        self.taken_from(before, call);
        self.calls.push(Call::End(call, why));
    }

    fn waits_again(&mut self, call: Position) {
        if let Some(open) = self.open.get_mut(&call) {
            open.stage = Stage::Waiting;
            self.waiting.entry(open.action).or_default().insert(call);
        }
    }

    fn no_longer_waits(&mut self, action: ActionNo, call: Position) {
        if let Some(waiting) = self.waiting.get_mut(&action) {
            waiting.remove(&call);
            if waiting.is_empty() {
                self.waiting.remove(&action);
            }
        }
    }

    fn taken_by(&mut self, handler: HandlerId, call: Position) {
        if let Some(handler) = self.handlers.get_mut(&handler) {
            handler.has.insert(call);
        }
    }

    fn taken_from(&mut self, stage: Stage, call: Position) {
        if let Stage::With(handler) | Stage::Marking(handler) = stage
            && let Some(handler) = self.handlers.get_mut(&handler)
        {
            handler.has.remove(&call);
        }
    }
}

#[cfg(test)]
mod tests;
