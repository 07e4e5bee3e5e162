//! Looks up what deliveries wait for: what the memory knows of the way to their recipients.

use relay_protocol::delivery_record::WaitReason;
use relay_protocol::link::LinkKind;

use super::Runner;
use super::desk::Live;
use super::state::{State, Times};
use crate::delivery::history::Offer;
use crate::delivery::waiting::{LastChange, RouteView, WaitContext, explain_wait};
use crate::store::{DeliveryRow, DeliveryStory, SendRecord};

/// How the memory knows a delivery: the offer that is out, and what it waits for.
pub(crate) type Standing = (Option<Offer>, Option<WaitReason>);

impl Runner {
    /// Looks up how deliveries stand.
    pub(crate) fn standings(&self, stories: &[DeliveryStory]) -> Vec<Standing> {
        let (state, times) = self.memory();
        let standings = stories.iter().map(|story| {
            let desk = state.desks.get(&story.row.agent);
            let out = desk.and_then(|desk| desk.out(story.row.position));
            let offer = out.map(|out| out.offer.clone());
            let waiting = state.wait_reason(&story.row, &story.change, offer.as_ref(), times);
            (offer, waiting)
        });
        standings.collect()
    }

    /// Looks up how a delivery stands.
    pub(crate) fn standing(&self, story: &DeliveryStory) -> Standing {
        let standing = self.standings(std::slice::from_ref(story)).pop();
        standing.unwrap_or_default()
    }

    /// Looks up what each delivery of a send waits for before anything was offered; those that failed at
    /// once wait for nothing.
    pub(crate) fn waits_of_send(&self, record: &SendRecord) -> Vec<Option<WaitReason>> {
        let (state, times) = self.memory();
        let rows = record.all_rows().map(|(row, change)| {
            // An offer that went out meanwhile is not part of the answer: its states are those of the send.
            state.wait_reason(&row, &change, None, times)
        });
        rows.collect()
    }
}

impl State {
    fn wait_reason(
        &self,
        row: &DeliveryRow,
        change: &LastChange,
        offer: Option<&Offer>,
        times: Times,
    ) -> Option<WaitReason> {
        let desk = self.desks.get(&row.agent);
        let holder = row.holder.zip(desk);
        let holder = holder.and_then(|(holder, desk)| desk.sessions.get(&holder.session));
        let to = row.only_session.or_else(|| desk?.current());
        let live = to.and_then(|to| desk?.sessions.get(&to));
        explain_wait(&WaitContext {
            row,
            change,
            offer,
            is_holder_linked: holder.is_some_and(|live| live.is_linked()),
            route: live.and_then(|live| self.route(live, row)),
            now: times.now,
        })
    }

    fn route<'a>(&'a self, live: &'a Live, row: &DeliveryRow) -> Option<RouteView<'a>> {
        let policy = self.policy(live.row.workspace_no)?;
        let others_out = live.out.len() - usize::from(live.out.contains_key(&row.position));
        let later_than = live.backlog.after().filter(|_| row.only_session.is_none());
        Some(RouteView {
            session: live.view(),
            policy,
            polls_at_boundaries: live.row.link == LinkKind::None,
            is_window_full: others_out >= live.window(policy),
            is_in_later_share: later_than.is_some_and(|mark| row.position <= mark),
        })
    }
}

impl Live {
    /// Whether it can be reached, or comes by itself.
    fn is_linked(&self) -> bool {
        self.link.is_some() || self.row.link == LinkKind::None
    }
}
