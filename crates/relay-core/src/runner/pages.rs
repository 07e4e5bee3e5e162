//! What was read from the store, taken into the memory: it may be older than what is known.

use std::collections::{BTreeSet, HashMap, HashSet};

use relay_protocol::delivery_record::DeliveryDecision;

use super::desk::{Desk, Waiting};
use super::state::{Command, STALL_MS, State, Times};
use crate::delivery::apply::Step;
use crate::delivery::lane::Lane;
use crate::error::Result;
use crate::store::{AgentNo, DeliveryRow, DueNow, Position, SessionNo, WaitingPage};

impl State {
    pub(super) fn refilled(
        &mut self,
        agent: AgentNo,
        no: u64,
        page: Result<WaitingPage>,
        times: Times,
    ) {
        // A reading that was given up for a later one is older than what was learned since.
        let Some(desk) = self.desks.get_mut(&agent).filter(|desk| desk.refill == no) else {
            return;
        };
        match page {
            Ok(page) => install(desk, page, &self.stepping),
            Err(_) => {
                desk.shelf.abandon_refill();
                self.stall(agent, times);
            }
        }
        self.touch(agent);
    }

    /// Reads what waits for one session only.
    pub(super) fn read_addressed(&mut self, session: SessionNo) {
        self.refills += 1;
        let no = self.refills;
        if let Some(live) = self.live_mut(session) {
            live.unread = false;
            live.reading = Some((no, BTreeSet::new()));
            self.commands.push(Command::Addressed(session, no));
        }
    }

    pub(super) fn reload_addressed(&mut self, agent: AgentNo) {
        let Some(desk) = self.desks.get(&agent) else {
            return;
        };
        let sessions: Vec<SessionNo> = desk.sessions.keys().copied().collect();
        for session in sessions {
            self.read_addressed(session);
        }
    }

    pub(super) fn addressed(
        &mut self,
        session: SessionNo,
        no: u64,
        rows: Result<Vec<DeliveryRow>>,
        times: Times,
    ) {
        let Some(&agent) = self.sessions.get(&session) else {
            return;
        };
        let Ok(rows) = rows else {
            if let Some(live) = self.live_mut(session) {
                live.reading = None;
                live.unread = true;
            }
            return self.stall(agent, times);
        };
        let Self {
            desks, stepping, ..
        } = self;
        let desk = desks.get_mut(&agent);
        let Some(live) = desk.and_then(|desk| desk.sessions.get_mut(&session)) else {
            return;
        };
        let Some((_, moved)) = live.reading.take_if(|(reading, _)| *reading == no) else {
            return;
        };
        for row in rows {
            let position = row.position;
            let known = live.out.contains_key(&position)
                || live.addressed.contains_key(&position)
                || stepping.contains_key(&position)
                || moved.contains(&position);
            if !known {
                live.addressed.insert(position, Waiting::new(row));
            }
        }
        self.touch_session(agent, session);
    }

    pub(super) fn due(&mut self, due: Result<DueNow>, times: Times) {
        let moved = self.asking_due.take().unwrap_or_default();
        let Ok(DueNow { rows, next }) = due else {
            return self.wake_by(times.now.plus_millis(STALL_MS as i64));
        };
        if let Some(next) = next {
            self.wake_by(next);
        }
        for row in rows {
            let position = row.position;
            let handled =
                self.stepping.contains_key(&position) || self.recalls.contains_key(&position);
            // What has moved since is not as it was read, and known anyway.
            if handled || moved.contains(&position) {
                continue;
            }
            if row.deadline <= times.now {
                self.deadline_passed(row, times);
            } else {
                self.step(row.agent, position, Step::Woken, Vec::new());
            }
        }
    }
}

/// Puts what was read onto the shelf. What was decided about a delivery before stays with it.
fn install(desk: &mut Desk, page: WaitingPage, stepping: &HashMap<Position, bool>) {
    desk.unfinished = page.total;
    let lives = desk.sessions.values();
    let out: HashSet<Position> = lives.flat_map(|live| live.out.keys().copied()).collect();
    let decided = desk.shelf.iter();
    let decided = decided.map(|(position, waiting)| (position, waiting.decisions.clone()));
    let mut decided: HashMap<Position, Vec<DeliveryDecision>> = decided.collect();
    let unexplained = &mut desk.unexplained;
    let rows = page.rows.into_iter().map(|row| {
        let position = row.position;
        unexplained.insert(position);
        let mut waiting = Waiting::new(row);
        waiting.decisions = decided.remove(&position).unwrap_or_default();
        (Lane::of(&waiting.row), position, waiting)
    });
    let total = page.total as usize;
    desk.shelf
        .finish_refill(rows, page.complete, total, |position| {
            out.contains(&position) || stepping.contains_key(&position)
        });
}
