//! The listeners of a socket and their places in the log. No I/O.
//!
//! The server is asked for one subscription that covers all listeners, because only then the events of a
//! connection come in one rising order, and a place means the same for everybody: with an event's arrival every
//! listener has had everything before it. Which listener an event is for is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use relay_protocol::event::LoggedEvent;
use relay_protocol::selector::{Filter, Selector};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::ListenerId;
use crate::error::{Error, Result};
use crate::listening::{Choice, NewListener};

/// All listeners.
#[derive(Default)]
pub(super) struct Listeners(BTreeMap<ListenerId, Listener>);

struct Listener {
    choice: Choice,
    selector: Selector,
    /// Everything up to here was handed over or is not wanted; nothing: begins when it is subscribed.
    place: Option<u64>,
    queue: mpsc::Sender<LoggedEvent>,
    /// The subscription covers it; otherwise an event that comes is not the next one after its place.
    is_covered: bool,
    is_behind: bool,
    behind: Arc<AtomicBool>,
    ready: Option<oneshot::Sender<Result<()>>>,
}

/// Where the subscription for all listeners begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// There is nobody to subscribe for.
    Nowhere,
    /// At the end of the log.
    Now,
    /// After a place.
    After(u64),
    /// Some begin at the end of the log, which has to be found first.
    Mixed,
}

impl Listeners {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, new: NewListener) {
        let listener = Listener {
            choice: new.choice,
            selector: new.selector,
            place: new.after,
            queue: new.queue,
            is_covered: false,
            is_behind: false,
            behind: new.behind,
            ready: Some(new.ready),
        };
        self.0.insert(new.id, listener);
    }

    /// Removes a listener; false if there was none.
    pub(super) fn remove(&mut self, id: ListenerId) -> bool {
        self.0.remove(&id).is_some()
    }

    /// Lets a listener that fell behind go on; false if there is none.
    pub(super) fn catch_up(&mut self, id: ListenerId) -> bool {
        let Some(listener) = self.0.get_mut(&id) else {
            return false;
        };
        let was_behind = std::mem::take(&mut listener.is_behind);
        if was_behind {
            listener.needs_cover();
        }
        was_behind
    }

    /// One choice that covers all of them from now on.
    pub(super) fn cover(&mut self) -> Choice {
        for listener in self.0.values_mut() {
            listener.is_covered = true;
        }
        union(self.0.values().map(|listener| &listener.choice))
    }

    pub(super) fn beginning(&self) -> Beginning {
        let waiting = self.0.values().filter(|listener| !listener.is_behind);
        beginning(self.0.is_empty(), waiting.map(|listener| listener.place))
    }

    /// Those that begin at the end of the log begin here.
    pub(super) fn begin_at(&mut self, seq: u64) {
        let covered = self.0.values_mut().filter(|listener| listener.is_covered);
        for listener in covered {
            listener.place.get_or_insert(seq);
        }
    }

    /// Begins anew at the end of the log, because the server does not know the place.
    pub(super) fn forget_places(&mut self) {
        for listener in self.0.values_mut() {
            listener.place = None;
        }
    }

    /// Whether somebody waits to hear that it can begin.
    pub(super) fn has_new(&self) -> bool {
        self.0.values().any(|listener| listener.ready.is_some())
    }

    /// Tells those that are covered that events come from now on.
    pub(super) fn all_ready(&mut self) {
        for listener in self.0.values_mut() {
            if listener.is_covered
                && let Some(ready) = listener.ready.take()
            {
                let _ = ready.send(Ok(()));
            }
        }
    }

    /// Removes those that wait to begin, telling them why they can't.
    pub(super) fn refuse_new(&mut self, error: &Error) {
        self.0.retain(|_, listener| match listener.ready.take() {
            Some(ready) => {
                let _ = ready.send(Err(error.clone()));
                false
            }
            None => true,
        });
    }

    /// Hands an event to everybody who wants it; true if somebody has to be subscribed anew.
    pub(super) fn dispatch(&mut self, event: &LoggedEvent) -> bool {
        let mut is_changed = false;
        self.0.retain(|_, listener| match listener.take(event) {
            Taken::Done => true,
            Taken::CaughtUp => {
                is_changed = true;
                true
            }
            Taken::Gone => {
                is_changed = true;
                false
            }
        });
        is_changed
    }
}

enum Taken {
    Done,
    /// It fell behind, and had room again before that could be noted.
    CaughtUp,
    /// Nobody takes its events any more.
    Gone,
}

impl Listener {
    fn take(&mut self, event: &LoggedEvent) -> Taken {
        let is_new = self.place.is_some_and(|place| place < event.seq);
        if self.is_behind || !self.is_covered || !is_new {
            return Taken::Done;
        }
        if self.selector.matches(event) {
            match self.queue.try_send(event.clone()) {
                Ok(()) => {}
                Err(TrySendError::Closed(_)) => return Taken::Gone,
                Err(TrySendError::Full(_)) => return self.fall_behind(),
            }
        }
        self.place = Some(event.seq);
        Taken::Done
    }

    fn fall_behind(&mut self) -> Taken {
        self.behind.store(true, Ordering::Release);
        let has_room = self.queue.capacity() == self.queue.max_capacity();
        if has_room && self.behind.swap(false, Ordering::AcqRel) {
            self.needs_cover();
            return Taken::CaughtUp;
        }
        self.is_behind = true;
        Taken::Done
    }

    /// It has missed events of the subscription there is, so what still comes of that is not the next after its
    /// place: only one that begins there is for it.
    const fn needs_cover(&mut self) {
        self.is_covered = false;
    }
}

fn beginning(is_empty: bool, places: impl Iterator<Item = Option<u64>>) -> Beginning {
    let (mut earliest, mut has_now) = (None, false);
    for place in places {
        match place {
            None => has_now = true,
            Some(place) => earliest = Some(earliest.map_or(place, |other: u64| other.min(place))),
        }
    }
    match (earliest, has_now) {
        _ if is_empty => Beginning::Nowhere,
        (Some(_), true) => Beginning::Mixed,
        (Some(place), false) => Beginning::After(place),
        (None, true) => Beginning::Now,
        // All of them are behind and will say when they have room.
        (None, false) => Beginning::Nowhere,
    }
}

/// The choice of everything that one of these choices has; of everything at all if that is too long to say.
fn union<'a>(choices: impl Iterator<Item = &'a Choice>) -> Choice {
    let mut filters: Vec<Filter> = Vec::new();
    for choice in choices {
        let filter = match choice {
            Choice::Pattern(pattern) => Filter::event(pattern),
            Choice::Filter(filter) => (**filter).clone(),
        };
        if !filters.contains(&filter) {
            filters.push(filter);
        }
    }
    let everything = || Choice::Pattern("*".to_owned());
    match filters.len() {
        1 => filters.pop().map_or_else(everything, filtered),
        _ => {
            let union = Filter {
                or: Some(filters),
                ..Filter::default()
            };
            match Selector::from_filter(union.clone()) {
                Ok(_) => filtered(union),
                Err(_) => everything(),
            }
        }
    }
}

fn filtered(filter: Filter) -> Choice {
    Choice::Filter(Box::new(filter))
}

#[cfg(test)]
mod tests {
    use relay_protocol::ids::{EventId, WorkspaceId};
    use relay_protocol::time::Timestamp;

    use super::*;

    fn event(seq: u64) -> LoggedEvent {
        let at = Timestamp::from_millis(1);
        LoggedEvent {
            seq,
            id: EventId::new(at, u128::from(seq)),
            at,
            workspace_id: WorkspaceId::new(at, 1),
            event: None,
            event_type: "message.created".to_owned(),
        }
    }

    #[test]
    fn one_that_fell_behind_gets_what_it_missed_before_anything_else() {
        let mut listeners = Listeners::default();
        let (queue, mut taken) = mpsc::channel(1);
        let id = ListenerId::next();
        listeners.add(NewListener {
            id,
            choice: Choice::Pattern("*".to_owned()),
            selector: Selector::all(),
            after: Some(0),
            queue,
            behind: Arc::default(),
            ready: oneshot::channel().0,
        });
        listeners.cover();
        listeners.dispatch(&event(1));
        listeners.dispatch(&event(2));
        assert_eq!(taken.try_recv().unwrap().seq, 1);
        assert!(listeners.catch_up(id), "there was no room for the second");
        // Events of the subscription that it fell behind are still on their way.
        listeners.dispatch(&event(3));
        assert!(taken.try_recv().is_err(), "the second comes first");
        assert_eq!(listeners.beginning(), Beginning::After(1));
        listeners.cover();
        for seq in [2, 3] {
            listeners.dispatch(&event(seq));
            assert_eq!(taken.try_recv().unwrap().seq, seq);
        }
    }

    #[test]
    fn where_the_subscription_begins() {
        let cases: [(bool, &[Option<u64>], Beginning); 6] = [
            (true, &[], Beginning::Nowhere),
            (false, &[], Beginning::Nowhere),
            (false, &[None, None], Beginning::Now),
            (false, &[Some(7), Some(3)], Beginning::After(3)),
            (false, &[Some(7), None], Beginning::Mixed),
            (false, &[Some(0)], Beginning::After(0)),
        ];
        for (is_empty, places, expected) in cases {
            let found = beginning(is_empty, places.iter().copied());
            assert_eq!(found, expected, "{places:?}");
        }
    }

    #[test]
    fn one_choice_covers_all() {
        let pattern = |pattern: &str| Choice::Pattern(pattern.to_owned());
        let filter = Filter::delivery_failed().for_agent("a");
        let one = union([&pattern("message.*"), &pattern("message.*")].into_iter());
        assert_eq!(one, filtered(Filter::event("message.*")));
        let two = union([&pattern("message.*"), &filtered(filter.clone())].into_iter());
        let parts = vec![Filter::event("message.*"), filter];
        let expected = Filter {
            or: Some(parts),
            ..Filter::default()
        };
        assert_eq!(two, filtered(expected));
        let many: Vec<Choice> = (0..100)
            .map(|n| filtered(Filter::delivery_failed().for_agent(format!("a{n}"))))
            .collect();
        assert_eq!(union(many.iter()), pattern("*"));
    }
}
