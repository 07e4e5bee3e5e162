//! The subscriptions of one connection, followed together: each event is sent once, however many of them
//! match.
//!
//! Each subscription has its own beginning. One that begins behind what was already sent makes the
//! connection go back, and what is sent again then is only what the new one wants.

use std::sync::Arc;

use relay_core::{Followed, Subscription};
use relay_protocol::event::LoggedEvent;
use relay_protocol::selector::Selector;

use crate::access::{Access, Reader};
use crate::refusal::Refusal;

/// A subscription to add.
pub(super) struct NewSubscription {
    /// The client's name for it.
    pub(super) id: String,
    /// What it wants.
    pub(super) selector: Selector,
    /// The last event that it does not want because it was before.
    pub(super) after: u64,
}

/// Follows the log for all subscriptions of a connection.
pub(super) struct Follower {
    access: Access<Reader>,
    wishes: Arc<[Wish]>,
    log: Option<Subscription>,
}

#[derive(Clone, Debug)]
struct Wish {
    id: Arc<str>,
    selector: Selector,
    after: u64,
}

impl Follower {
    pub(super) fn new(access: Access<Reader>) -> Self {
        Self {
            access,
            wishes: Arc::new([]),
            log: None,
        }
    }

    /// Whether there is anything to follow.
    pub(super) const fn is_idle(&self) -> bool {
        self.log.is_none()
    }

    pub(super) async fn add(&mut self, new: NewSubscription) -> Result<(), Refusal> {
        let mut wishes = self.rebased();
        wishes.push(Wish {
            id: new.id.into(),
            selector: new.selector,
            after: new.after,
        });
        self.follow(wishes).await
    }

    pub(super) async fn remove(&mut self, id: &str) -> Result<(), Refusal> {
        let mut wishes = self.rebased();
        wishes.retain(|wish| *wish.id != *id);
        self.follow(wishes).await
    }

    /// The next event, or that the client fell behind. Safe to cancel.
    pub(super) async fn next(&mut self) -> Result<Followed, Refusal> {
        match &mut self.log {
            Some(log) => Ok(log.next().await?),
            None => std::future::pending().await,
        }
    }

    /// The wishes as they are by now: what was sent or passed over is behind them.
    fn rebased(&self) -> Vec<Wish> {
        let position = self.log.as_ref().map_or(0, Subscription::after);
        rebase(&self.wishes, position)
    }

    async fn follow(&mut self, wishes: Vec<Wish>) -> Result<(), Refusal> {
        self.wishes = wishes.into();
        self.log = match beginning(&self.wishes) {
            None => None,
            Some(after) => {
                let wishes = self.wishes.clone();
                let wanted = Box::new(move |event: &LoggedEvent| wants(&wishes, event));
                let caller = self.access.caller();
                let engine = self.access.engine();
                Some(engine.subscribe_where(caller, wanted, Some(after)).await?)
            }
        };
        Ok(())
    }
}

fn rebase(wishes: &[Wish], position: u64) -> Vec<Wish> {
    let rebased = wishes.iter().map(|wish| Wish {
        after: wish.after.max(position),
        ..wish.clone()
    });
    rebased.collect()
}

/// Where the first of them begins.
fn beginning(wishes: &[Wish]) -> Option<u64> {
    wishes.iter().map(|wish| wish.after).min()
}

fn wants(wishes: &[Wish], event: &LoggedEvent) -> bool {
    wishes
        .iter()
        .any(|wish| event.seq > wish.after && wish.selector.matches(event))
}

#[cfg(test)]
mod tests {
    use relay_protocol::event::{RelayEvent, WorkspaceUpdated};
    use relay_protocol::ids::{EventId, WorkspaceId};
    use relay_protocol::time::Timestamp;

    use super::*;

    fn wish(pattern: &str, after: u64) -> Wish {
        Wish {
            id: pattern.into(),
            selector: Selector::parse(pattern).unwrap(),
            after,
        }
    }

    fn event(seq: u64) -> LoggedEvent {
        let at = Timestamp::from_millis(0);
        LoggedEvent {
            seq,
            id: EventId::new(at, 0),
            at,
            workspace_id: WorkspaceId::new(at, 0),
            event_type: "workspace.updated".to_owned(),
            event: Some(RelayEvent::WorkspaceUpdated(WorkspaceUpdated {
                name: "w".to_owned(),
                policy_version: 1,
            })),
        }
    }

    /// What a connection sends that is at `position` of a log of ten events.
    fn sent(wishes: &[Wish], position: u64) -> Vec<u64> {
        let wishes = rebase(wishes, position);
        let from = beginning(&wishes).unwrap_or(10);
        let rest = (from + 1)..=10;
        rest.filter(|seq| wants(&wishes, &event(*seq))).collect()
    }

    #[test]
    fn each_event_is_wanted_once_and_from_its_own_beginning() {
        let cases = [
            (vec![], 0, vec![]),
            (vec![wish("*", 7)], 0, vec![8, 9, 10]),
            (vec![wish("*", 7)], 9, vec![10]),
            (
                vec![wish("*", 7), wish("workspace.*", 5)],
                0,
                vec![6, 7, 8, 9, 10],
            ),
            (vec![wish("*", 8), wish("message.*", 2)], 0, vec![9, 10]),
            (vec![wish("*", 8), wish("message.*", 2)], 9, vec![10]),
            (vec![wish("*", 10)], 0, vec![]),
        ];
        for (wishes, position, expected) in cases {
            assert_eq!(
                sent(&wishes, position),
                expected,
                "{wishes:?} at {position}"
            );
        }
    }

    #[test]
    fn a_newcomer_that_goes_back_repeats_nothing_for_the_others() {
        // One has had everything up to 9; another one comes and wants what was after 4.
        let mut wishes = rebase(&[wish("workspace.updated", 0)], 9);
        wishes.push(wish("message.*", 4));
        assert_eq!(beginning(&wishes), Some(4));
        assert!(!wants(&wishes, &event(5)));
        assert!(wants(&wishes, &event(10)));
        // While it is on its way, a third one comes.
        let mut wishes = rebase(&wishes, 6);
        assert_eq!(
            wishes.iter().map(|wish| wish.after).collect::<Vec<_>>(),
            [9, 6]
        );
        wishes.push(wish("*", 6));
        assert!(wants(&wishes, &event(7)));
    }
}
