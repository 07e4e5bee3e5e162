//! Steps of deliveries: what [`apply`] decides is written, told and moved between the indexes, all in
//! the transaction of the change that brings it about.

use relay_protocol::delivery::DeliveryReason;
use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::time::Timestamp;

use super::delivery_rows::{StoredDelivery, load_delivery};
use super::history::history;
use super::waiting::Spot;
use super::writer::Tx;
use crate::delivery::apply::{Applied, Circumstances, Fact, LapsedOffer, Moved, Step, apply};
use crate::delivery::history::Entry;
use crate::delivery::lane::Lane;
use crate::error::{Error, Result};
use crate::store::delivery_requests::{Advance, Advanced};
use crate::store::news::{DeliveryMoved, News};
use crate::store::position::Position;
use crate::store::records::{DeliveryRow, SessionRow, WorkspaceRow};

/// A step that is to be taken.
pub(super) struct Taken<'a> {
    pub(super) step: &'a Step,
    pub(super) decisions: &'a [DeliveryDecision],
    pub(super) at: Timestamp,
    pub(super) jitter: u64,
}

impl<'a> Taken<'a> {
    /// A step about which nothing was decided before.
    pub(super) const fn plain(step: &'a Step, at: Timestamp) -> Self {
        Self {
            step,
            decisions: &[],
            at,
            jitter: 0,
        }
    }
}

/// Takes one step of a delivery.
pub(super) fn advance(tx: &mut Tx<'_>, advance: &Advance) -> Result<Advanced> {
    let taken = Taken {
        step: &advance.step,
        decisions: &advance.decisions,
        at: advance.at,
        jitter: advance.jitter,
    };
    tx.step_at(advance.position, &taken)
}

impl Tx<'_> {
    /// Takes a step of the delivery at a place.
    pub(super) fn step_at(&mut self, position: Position, taken: &Taken<'_>) -> Result<Advanced> {
        let stored = load_delivery(self.connection, position)?;
        self.step(stored, taken)
    }

    /// Takes a step of a delivery.
    pub(super) fn step(&mut self, stored: StoredDelivery, taken: &Taken<'_>) -> Result<Advanced> {
        let workspace = self.workspace(stored.row.position.workspace_no())?;
        let holder = stored.row.holder.map(|holder| self.session(holder.session));
        let last_offer = match taken.step {
            Step::BelatedReceipt { .. } => self.last_offer(&workspace, stored.row.position)?,
            _ => None,
        };
        let given = Circumstances {
            policy: &workspace.policy,
            now: taken.at,
            jitter: taken.jitter,
            id: stored.row.id(workspace.id),
            holder: holder.transpose()?.map(|session| session.id),
            last_offer,
        };
        match apply(&stored.row, taken.step, &given) {
            Applied::Moved(moved) => {
                self.check_can_come(&moved.row, taken.step)?;
                self.write_move(&workspace, &stored, *moved, taken)
            }
            Applied::Noted { entry, fact } => {
                let entry = Some(*entry);
                self.write_note(&workspace, stored, entry, fact.map(|fact| *fact), taken)
            }
            Applied::Nothing => self.write_note(&workspace, stored, None, None, taken),
            Applied::Refused(refused) => Err(refused.into()),
        }
    }

    /// The newest offer of a delivery that is settled.
    fn last_offer(
        &mut self,
        workspace: &WorkspaceRow,
        delivery: Position,
    ) -> Result<Option<LapsedOffer>> {
        let history = history(self.connection, delivery)?;
        let mut newest_first = history.into_iter().rev();
        let attempt = newest_first.find_map(|entry| match entry {
            Entry::Offer(settled) => Some(settled.attempt),
            _ => None,
        });
        let Some(attempt) = attempt else {
            return Ok(None);
        };
        let session = self.find_session(workspace.no, attempt.session_id)?;
        Ok(session.map(|session| LapsedOffer {
            epoch: attempt.epoch,
            generation: attempt.generation,
            session: session.no,
            session_id: session.id,
            mode: attempt.mode,
        }))
    }

    /// Refuses to try again what only a session may have that is no more.
    fn check_can_come(&mut self, row: &DeliveryRow, step: &Step) -> Result<()> {
        let Some(only) = row.only_session.filter(|_| matches!(step, Step::Retried)) else {
            return Ok(());
        };
        let session = self.session(only)?;
        match session.status.is_terminal() {
            false => Ok(()),
            true => Err(Error::SessionEnded {
                id: session.id,
                status: session.status,
            }),
        }
    }

    fn write_move(
        &mut self,
        workspace: &WorkspaceRow,
        stored: &StoredDelivery,
        moved: Moved,
        taken: &Taken<'_>,
    ) -> Result<Advanced> {
        let Moved {
            row,
            fact,
            history,
            settles,
            receipt,
        } = moved;
        let ever = self.write_history(stored, history, taken)?;
        self.update_delivery(&row, ever)?;
        let from = Spot::of(&stored.row, stored.room);
        self.moved(from, Spot::of(&row, stored.room))?;
        if let Some(fact) = fact {
            self.log_fact(workspace, stored, fact, taken.at)?;
        }
        if row.reason == DeliveryReason::Notification {
            self.notice_moved(&row, taken.at)?;
        }
        self.tell(News::Moved(Box::new(DeliveryMoved {
            row: row.clone(),
            settles,
            receipt: receipt.clone(),
        })));
        Ok(Advanced {
            row,
            moved: true,
            receipt,
        })
    }

    /// Writes down what changes nothing about a delivery.
    fn write_note(
        &mut self,
        workspace: &WorkspaceRow,
        stored: StoredDelivery,
        entry: Option<Entry>,
        fact: Option<Fact>,
        taken: &Taken<'_>,
    ) -> Result<Advanced> {
        let ever = self.write_history(&stored, entry.into_iter().collect(), taken)?;
        if ever != stored.history {
            self.update_delivery(&stored.row, ever)?;
        }
        if let Some(fact) = fact {
            self.log_fact(workspace, &stored, fact, taken.at)?;
        }
        Ok(Advanced {
            row: stored.row,
            moved: false,
            receipt: None,
        })
    }

    /// Adds what was decided before the step, then what the step brought.
    fn write_history(
        &mut self,
        stored: &StoredDelivery,
        brought: Vec<Entry>,
        taken: &Taken<'_>,
    ) -> Result<u64> {
        let decided = taken.decisions.iter().cloned().map(Entry::Decision);
        let entries: Vec<Entry> = decided.chain(brought).collect();
        self.add_history(stored.row.position, stored.history, &entries, taken.at)
    }

    /// The deliveries that a session has accepted and still answers for, oldest first.
    pub(super) fn held_by(&mut self, session: &SessionRow) -> Result<Vec<StoredDelivery>> {
        let agent = (session.workspace_no, session.agent);
        let mut held = Vec::new();
        for position in self.all_in_lane(agent, Lane::HELD)? {
            let stored = load_delivery(self.connection, position)?;
            if stored.row.holder.is_some_and(|by| by.session == session.no) {
                held.push(stored);
            }
        }
        Ok(held)
    }
}
