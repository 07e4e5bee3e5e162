//! The link of sessions that ask: what comes for one waits here until its next question.
//!
//! A session counts as reachable while a question waits or the last one is not long ago. Then the link is
//! lost: what was out over it is offered again, and the session comes back with its resume token.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_core::link::{CloseReason, Deliver, LinkClosed, LinkId, Parcel, SessionLink};
use relay_core::{Error, Reach};
use relay_protocol::ids::SessionId;
use relay_protocol::limits::{BOUNDARY_BYTES, BOUNDARY_DELIVERIES, UNREAD_PARCELS};
use relay_protocol::link::LinkKind;
use relay_protocol::problem::ErrorCode;
use relay_protocol::session::{Attach, Attached, DueDelivery, Polled, SessionSummary};
use relay_protocol::socket::ControlFrame;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::access::{Access, Participant};
use crate::refusal::Refusal;

/// The links of all sessions that ask.
pub(crate) struct Polls {
    silence: Duration,
    links: Mutex<HashMap<SessionId, Arc<PollLink>>>,
}

impl Polls {
    pub(crate) fn new(silence: Duration) -> Self {
        Self {
            silence,
            links: Mutex::default(),
        }
    }

    fn links(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<PollLink>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, session: SessionId) -> Option<Arc<PollLink>> {
        self.links().get(&session).cloned()
    }

    /// Forgets a link, unless the session has another one by now.
    fn forget(&self, session: SessionId, link: &Arc<PollLink>) {
        let mut links = self.links();
        if links
            .get(&session)
            .is_some_and(|known| Arc::ptr_eq(known, link))
        {
            links.remove(&session);
        }
    }
}

/// The link of one session that asks.
struct PollLink {
    state: Mutex<State>,
    /// Rings when something came, when the link was closed, and when a newer question came.
    stirred: Notify,
}

struct State {
    deliveries: VecDeque<Box<Deliver>>,
    controls: VecDeque<ControlFrame>,
    closed: Option<CloseReason>,
    /// Counts questions; only the newest one is answered with something.
    asked: u64,
    waiting: usize,
    /// When the last question was answered.
    seen: Instant,
}

impl PollLink {
    fn new() -> Self {
        Self {
            state: Mutex::new(State {
                deliveries: VecDeque::new(),
                controls: VecDeque::new(),
                closed: None,
                asked: 0,
                waiting: 0,
                seen: Instant::now(),
            }),
            stirred: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the session may stay silent from now on; nothing while it asks.
    fn patience(&self, silence: Duration) -> Option<Duration> {
        let state = self.state();
        if state.waiting > 0 {
            return Some(silence);
        }
        let patience = silence.saturating_sub(state.seen.elapsed());
        (!patience.is_zero()).then_some(patience)
    }
}

impl SessionLink for PollLink {
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        let mut state = self.state();
        let unread = state.deliveries.len() + state.controls.len();
        if state.closed.is_some() || unread >= UNREAD_PARCELS {
            return Err(LinkClosed);
        }
        match parcel {
            Parcel::Deliver(deliver) => {
                // A newer offer of the same delivery takes the place of the one that nobody asked for.
                let id = deliver.context.id;
                state.deliveries.retain(|older| older.context.id != id);
                state.deliveries.push_back(deliver);
            }
            Parcel::Control(control) => state.controls.push_back(*control),
            // Only sockets handle actions.
            Parcel::Invoke(_) => return Err(LinkClosed),
            Parcel::Close(reason) => state.closed = Some(reason),
        }
        drop(state);
        self.stirred.notify_waiters();
        Ok(())
    }

    fn take_unfetched(&self, take: &mut dyn FnMut(&Deliver) -> bool) {
        let mut state = self.state();
        while state.deliveries.front().is_some_and(|next| take(next)) {
            state.deliveries.pop_front();
        }
    }
}

/// Attaches a session that will ask for what comes.
pub(crate) async fn attach(by: &Access<Participant>, attach: Attach) -> Result<Attached, Refusal> {
    let link = Arc::new(PollLink::new());
    let reach = Reach {
        kind: LinkKind::Poll,
        webhook: None,
        link: Some(link.clone()),
    };
    let (attached, id) = by.engine().attach(by.caller(), attach, reach).await?;
    let session = attached.session_id;
    by.polls().links().insert(session, link.clone());
    if let Some(id) = id {
        let by = by.clone();
        let app = by.app().clone();
        app.tasks().spawn(watch(by, session, id, link));
    }
    Ok(attached)
}

/// Notices when a session no longer asks.
async fn watch(by: Access<Participant>, session: SessionId, id: LinkId, link: Arc<PollLink>) {
    let polls = by.polls();
    while let Some(patience) = link.patience(polls.silence) {
        let stirred = link.stirred.notified();
        if link.state().closed.is_some() {
            break;
        }
        tokio::select! {
            () = by.app().stopping().cancelled() => return,
            () = tokio::time::sleep(patience) => {}
            () = stirred => {}
        }
    }
    polls.forget(session, &link);
    let superseded = link.state().closed.is_some();
    if !superseded {
        tracing::info!(session.id = %session, "a session no longer asks for deliveries");
        by.engine().link_lost(session, id);
    }
}

/// Answers a session's question for what came.
pub(crate) async fn ask(
    by: &Access<Participant>,
    session: &SessionSummary,
    wait: Duration,
    limit: Option<u32>,
) -> Result<Polled, Refusal> {
    let limit = limit.unwrap_or(BOUNDARY_DELIVERIES);
    if limit == 0 || limit > BOUNDARY_DELIVERIES {
        let expected = format!("1 to {BOUNDARY_DELIVERIES}");
        return Err(Refusal::invalid("limit", expected, &limit.to_string()));
    }
    let Some(link) = by.polls().get(session.session_id) else {
        return Err(not_linked(session));
    };
    let question = Question::new(&link);
    let stopping = by.app().stopping();
    let until = Instant::now() + wait;
    let mut ended = by.ended();
    loop {
        let stirred = link.stirred.notified();
        if let Some(polled) = question.take(limit as usize, by) {
            return Ok(polled);
        }
        if let Some(reason) = link.state().closed {
            return Err(closed(reason));
        }
        let over = tokio::select! {
            biased;
            () = &mut ended => return Err(Error::Unauthorized.into()),
            () = stirred => false,
            () = tokio::time::sleep_until(until) => true,
            () = stopping.cancelled() => true,
        };
        if over || question.is_old() {
            // What came in this moment waits for the next question.
            return Ok(empty());
        }
    }
}

const fn empty() -> Polled {
    Polled {
        deliveries: Vec::new(),
        controls: None,
        more: false,
    }
}

fn not_linked(session: &SessionSummary) -> Refusal {
    let detail = match (session.link, session.ended_at) {
        (_, Some(_)) => return closed(CloseReason::Ended),
        (LinkKind::Poll, None) => {
            "the session did not ask for too long, or the server was started again; \
             attach again with its resume token"
        }
        _ => "the session has a link of another kind",
    };
    Refusal::new(ErrorCode::SessionUnreachable, detail)
}

fn closed(reason: CloseReason) -> Refusal {
    match reason {
        CloseReason::Superseded => Refusal::new(
            ErrorCode::SessionUnreachable,
            "the session came back over another link",
        ),
        CloseReason::Ended => Refusal::new(ErrorCode::IllegalTransition, "the session has ended"),
    }
}

/// One question of a session. While it is there the session counts as alive.
struct Question<'a> {
    link: &'a PollLink,
    number: u64,
}

impl<'a> Question<'a> {
    fn new(link: &'a PollLink) -> Self {
        let mut state = link.state();
        state.asked += 1;
        state.waiting += 1;
        let number = state.asked;
        drop(state);
        // An older question is answered with nothing.
        link.stirred.notify_waiters();
        Self { link, number }
    }

    fn is_old(&self) -> bool {
        self.link.state().asked != self.number
    }

    /// What came, if something did and no newer question asks for it.
    fn take(&self, limit: usize, by: &Access<Participant>) -> Option<Polled> {
        let mut state = self.link.state();
        let nothing = state.deliveries.is_empty() && state.controls.is_empty();
        if nothing || state.asked != self.number {
            return None;
        }
        let controls: Vec<_> = state.controls.drain(..).collect();
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(next) = state.deliveries.front() {
            bytes += next.message.text.len();
            let fits = taken.is_empty() || bytes <= BOUNDARY_BYTES as usize;
            if taken.len() == limit || !fits {
                break;
            }
            taken.extend(state.deliveries.pop_front());
        }
        let more = !state.deliveries.is_empty();
        drop(state);
        Some(Polled {
            deliveries: taken.into_iter().map(|deliver| due(*deliver, by)).collect(),
            controls: (!controls.is_empty()).then_some(controls),
            more,
        })
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut state = self.link.state();
        state.waiting -= 1;
        state.seen = Instant::now();
    }
}

/// A delivery with its text for a model.
fn due(deliver: Deliver, by: &Access<Participant>) -> DueDelivery {
    let Deliver {
        message, context, ..
    } = deliver;
    let text = by.engine().text_for_model(by.caller(), &message, &context);
    DueDelivery {
        message: Arc::unwrap_or_clone(message),
        context,
        text,
    }
}
