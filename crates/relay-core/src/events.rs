//! The log, read by cursor or followed live.
//!
//! A subscription joins what is stored with what comes: it pulls from the newest entries in memory while
//! it keeps up, and from the store when it does not, by sequence number in both cases, so nothing is
//! missed and nothing comes twice. How that is announced is in [`crate::store::live`]. Everybody sees what
//! [`crate::visibility`] lets them see.

use std::collections::VecDeque;
use std::sync::Arc;

use relay_protocol::event::LoggedEvent;
use relay_protocol::limits::{LOG_PAGE_BYTES, PAGE_ITEMS};
use relay_protocol::negotiation::check_observable;
use relay_protocol::problem::Problem;
use relay_protocol::selector::Selector;
use tokio::sync::watch;

use crate::agents::bare;
use crate::caller::Caller;
use crate::engine::{Engine, PageQuery};
use crate::error::Result;
use crate::store::live::{Recall, StoredEvent, Topic};
use crate::store::{PageRequest, Store, Viewer};
use crate::visibility::Look;

/// Events that are read from the store at a time.
const READ_AT_A_TIME: usize = 256;

/// Bytes of events that a subscription has in hand at a time: those that came last may go beyond.
const BYTES_AT_A_TIME: usize = LOG_PAGE_BYTES;

/// Events that one page looks at before it answers with what it found so far.
const SCANNED_PER_PAGE: usize = 10_000;

/// Chooses events to follow.
pub type Wanted = dyn Fn(&LoggedEvent) -> bool + Send + Sync;

/// Some events, and where to go on.
pub struct EventPage {
    /// The events that match.
    pub events: Vec<Arc<StoredEvent>>,
    /// The last sequence number that was looked at: `after` of the next page.
    pub after: u64,
    /// True when the end of the log was not reached.
    pub more: bool,
}

/// What a subscription yields.
#[derive(Clone)]
pub enum Followed {
    /// The next event that matches.
    Event(Arc<StoredEvent>),
    /// The subscriber fell behind what is kept in memory and goes on from the log; nothing is lost.
    Lagged {
        /// The last sequence number it had seen.
        resume_after: u64,
    },
}

impl Engine {
    /// Events after a sequence number that match, oldest first.
    pub async fn events(
        &self,
        caller: &Caller,
        selector: &Selector,
        after: u64,
        limit: Option<u32>,
    ) -> Result<EventPage> {
        let mut look = Look::of(caller, self.store.clone())?;
        let workspace_no = look.workspace_no();
        let limit = PageQuery {
            cursor: None,
            limit,
        }
        .request()?
        .limit;
        let mut page = EventPage {
            events: Vec::new(),
            after,
            more: true,
        };
        let mut bytes = 0;
        for _ in 0..SCANNED_PER_PAGE / PAGE_ITEMS {
            let found = self
                .store
                .events(workspace_no, page.after, PAGE_ITEMS)
                .await?;
            if found.is_empty() {
                page.more = false;
                break;
            }
            for event in found {
                page.after = event.event.seq;
                if !selector.matches(&event.event) {
                    continue;
                }
                if let Some(seen) = look.at(&event)? {
                    bytes += seen.size;
                    page.events.push(seen);
                    if page.events.len() == limit || bytes >= LOG_PAGE_BYTES {
                        return Ok(page);
                    }
                }
            }
        }
        Ok(page)
    }

    /// A selector that also matches events which carry only the id or only the name of an agent it names.
    pub async fn knowing(&self, caller: &Caller, selector: Selector) -> Result<Selector> {
        let workspace_no = caller.home()?.no;
        Ok(selector.with_agents(|written| {
            let agent = self.store.agent(workspace_no, bare(written)).wait().ok()?;
            Some((agent.id, agent.name.clone()))
        }))
    }

    /// Why a selector may never match: no session that is there observes what it asks for.
    pub async fn unobservable(
        &self,
        caller: &Caller,
        selector: &Selector,
    ) -> Result<Option<Problem>> {
        if check_observable([], selector).is_ok() {
            return Ok(None);
        }
        let everyone = Viewer {
            workspace_no: caller.home()?.no,
            agent: None,
        };
        let newest = PageRequest {
            cursor: None,
            limit: PAGE_ITEMS,
        };
        let sessions = self.store.sessions(everyone, None, newest).await?.items;
        let live = sessions.iter().filter(|row| row.ended_at.is_none());
        let found = check_observable(live.map(|row| &row.capabilities), selector);
        Ok(found.err().map(Problem::from))
    }

    /// Follows the log: the stored events after a sequence number, then those that come. Without one,
    /// only those that come.
    pub async fn subscribe(
        &self,
        caller: &Caller,
        selector: Selector,
        after: Option<u64>,
    ) -> Result<Subscription> {
        let wanted = Box::new(move |event: &LoggedEvent| selector.matches(event));
        self.subscribe_where(caller, wanted, after).await
    }

    /// Follows those events of the log that a function chooses.
    pub async fn subscribe_where(
        &self,
        caller: &Caller,
        wanted: Box<Wanted>,
        after: Option<u64>,
    ) -> Result<Subscription> {
        let look = Look::of(caller, self.store.clone())?;
        let workspace_no = look.workspace_no();
        let topic = self.store.live().topic(workspace_no);
        let head = topic.watch();
        let after = match after {
            Some(after) => after,
            None => self.store.head(workspace_no).await?.seq,
        };
        // A cursor that is not from here is refused now, not at the first event.
        self.store.events(workspace_no, after, 1).await?;
        Ok(Subscription {
            store: self.store.clone(),
            workspace_no,
            topic,
            head,
            wanted,
            look,
            after,
            was_live: false,
            ready: VecDeque::new(),
        })
    }
}

/// One follower of the log. Dropping it ends it.
pub struct Subscription {
    store: Arc<dyn Store>,
    workspace_no: u32,
    topic: Arc<Topic>,
    head: watch::Receiver<u64>,
    wanted: Box<Wanted>,
    look: Look,
    after: u64,
    was_live: bool,
    ready: VecDeque<Followed>,
}

impl Subscription {
    /// The next event that matches, as soon as there is one. Safe to cancel.
    pub async fn next(&mut self) -> Result<Followed> {
        loop {
            if let Some(next) = self.next_ready()? {
                return Ok(next);
            }
            // Before looking, so that what is announced meanwhile wakes the wait below.
            self.head.borrow_and_update();
            if !self.gather().await? {
                // The sender lives as long as the topic that is held here.
                let _ = self.head.changed().await;
            }
        }
    }

    /// The next of what was gathered that may be seen.
    fn next_ready(&mut self) -> Result<Option<Followed>> {
        while let Some(next) = self.ready.front() {
            let seen = match next {
                Followed::Event(event) => self.look.at(event)?.map(Followed::Event),
                lagged => Some(lagged.clone()),
            };
            self.ready.pop_front();
            if seen.is_some() {
                return Ok(seen);
            }
        }
        Ok(None)
    }

    /// The last sequence number that is done with: a later subscription can go on from there.
    #[must_use]
    pub fn after(&self) -> u64 {
        match self.ready.front() {
            Some(Followed::Event(next)) => next.event.seq - 1,
            Some(Followed::Lagged { resume_after }) => *resume_after,
            None => self.after,
        }
    }

    /// Takes what follows from memory or from the store; false when there is nothing yet.
    async fn gather(&mut self) -> Result<bool> {
        match self
            .topic
            .after(self.after, (READ_AT_A_TIME, BYTES_AT_A_TIME))
        {
            Recall::Entries(entries) => {
                self.was_live = true;
                for event in entries.iter().flat_map(|entry| entry.events()) {
                    self.take(event);
                }
                Ok(true)
            }
            Recall::Nothing => {
                self.was_live = true;
                Ok(false)
            }
            Recall::Gap => self.read_stored().await,
        }
    }

    async fn read_stored(&mut self) -> Result<bool> {
        let found = self
            .store
            .events(self.workspace_no, self.after, READ_AT_A_TIME)
            .await?;
        if found.is_empty() {
            return Ok(false);
        }
        if std::mem::take(&mut self.was_live) {
            self.ready.push_back(Followed::Lagged {
                resume_after: self.after,
            });
        }
        for event in &found {
            self.take(event);
        }
        Ok(true)
    }

    fn take(&mut self, event: &Arc<StoredEvent>) {
        if event.event.seq <= self.after {
            return;
        }
        self.after = event.event.seq;
        self.look.pass(&event.event);
        if (self.wanted)(&event.event) {
            self.ready.push_back(Followed::Event(event.clone()));
        }
    }
}
