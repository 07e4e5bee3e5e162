//! Steps of deliveries on their way to the store, and what comes of them.

use relay_protocol::delivery::DeliveryState;
use relay_protocol::delivery_record::DeliveryDecision;

use super::state::{Advancing, Command, STALL_MS, State, Stepped, Times};
use crate::delivery::apply::{Recall, Step};
use crate::store::{AgentNo, DeliveryRow, Position, SessionNo};

impl State {
    /// A delivery's time is over. Whoever has it is asked to give it back first.
    pub(super) fn deadline_passed(&mut self, row: DeliveryRow, times: Times) {
        let (agent, position) = (row.agent, row.position);
        let desk = self.desks.get(&agent);
        let out = desk.and_then(|desk| desk.out(position));
        if out.is_some_and(|out| out.settling) {
            return;
        }
        let held_by = match (out, row.state, row.holder) {
            (Some(out), _, _) => Some(out.offer.session),
            (None, DeliveryState::Accepted, Some(holder)) => Some(holder.session),
            _ => None,
        };
        match held_by {
            Some(session) => self.recall_for_deadline(&row, session, times),
            None => {
                let step = Step::Expired {
                    recall: Recall::NotNeeded,
                };
                let decisions = self.take_from_desk(agent, position);
                self.step(agent, position, step, decisions);
            }
        }
    }

    /// Takes a delivery off its desk, because a step of it is under way.
    pub(super) fn take_from_desk(
        &mut self,
        agent: AgentNo,
        position: Position,
    ) -> Vec<DeliveryDecision> {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return Vec::new();
        };
        let shelved = desk.shelf.remove(position);
        let mut lives = desk.sessions.values_mut();
        let addressed = || lives.find_map(|live| live.addressed.remove(&position));
        shelved
            .or_else(addressed)
            .map(|waiting| waiting.decisions)
            .unwrap_or_default()
    }

    /// Begins a step of a delivery that is not out.
    pub(super) fn step(
        &mut self,
        agent: AgentNo,
        position: Position,
        step: Step,
        decisions: Vec<DeliveryDecision>,
    ) {
        self.stepping.insert(position, false);
        self.commands.push(Command::Advance(Box::new(Advancing {
            agent,
            position,
            step,
            decisions,
            callers: Vec::new(),
        })));
    }

    /// A step is over. What it changed was learned before.
    pub(super) fn stepped(&mut self, stepped: Stepped, times: Times) {
        let Stepped {
            agent,
            position,
            epoch,
            stored,
            row,
        } = stepped;
        match epoch {
            Some(epoch) => {
                let generation = row.filter(is_open).map(|row| row.generation);
                self.offer_stepped(agent, position, epoch, stored, generation, times);
            }
            None if self.stepping.remove(&position) == Some(false) => {
                // Nothing came of it: it is due as before, and was taken off its desk for nothing.
                let wait = if stored { 0 } else { STALL_MS as i64 };
                self.wake_by(times.now.plus_millis(wait));
                if let Some(desk) = self.desks.get_mut(&agent) {
                    desk.shelf.forget();
                }
                self.reload_addressed(agent);
            }
            None => {}
        }
        if !stored {
            self.stall(agent, times);
        }
        self.resume_recall(position);
        self.touch(agent);
    }

    /// A step that was to settle an offer is over. If the offer is still out, the step came to nothing:
    /// either the delivery has been settled otherwise, or it goes on in this generation as before.
    pub(super) fn offer_stepped(
        &mut self,
        agent: AgentNo,
        position: Position,
        epoch: u64,
        stored: bool,
        open_in: Option<u32>,
        times: Times,
    ) {
        let desk = self.desks.get_mut(&agent);
        let Some(out) = desk.and_then(|desk| desk.out_mut(position)) else {
            return;
        };
        if out.offer.epoch != epoch {
            return;
        }
        out.settling = false;
        if !stored || open_in == Some(out.offer.generation) {
            out.recalled = self.recalls.contains_key(&position);
        } else {
            self.drop_out(agent, position, times);
        }
        let sessions: Vec<SessionNo> = self.desks[&agent].sessions.keys().copied().collect();
        for session in sessions {
            self.schedule(session);
            self.forget_if_done(session);
        }
    }

    /// An offer that the store knows to be settled otherwise.
    fn drop_out(&mut self, agent: AgentNo, position: Position, times: Times) {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        for live in desk.sessions.values_mut() {
            live.take_out(position, times.mono);
        }
        desk.shelf.forget();
        self.reload_addressed(agent);
    }
}

/// Whether a delivery can be offered, or is.
fn is_open(row: &DeliveryRow) -> bool {
    matches!(row.state, DeliveryState::Pending | DeliveryState::Deferred)
}
