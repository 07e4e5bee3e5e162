//! What the store has committed, taken into the memory.

use std::sync::Arc;

use super::desk::{Desk, Mono, Waiting};
use super::state::{State, Times};
use crate::delivery::lane::Lane;
use crate::store::{DeliveryMoved, DeliveryRow, Position, SendRecord, SessionNo, WorkspaceRow};

/// How much message text one desk keeps at hand: this many messages, each of at most this many bytes.
const AT_HAND: (usize, usize) = (16, 4_096);

impl State {
    pub(super) fn sent(&mut self, record: &Arc<SendRecord>) {
        for row in record.rows() {
            self.wake_by(row.not_before.unwrap_or(row.deadline).min(row.deadline));
            let Some(desk) = self.desks.get_mut(&row.agent) else {
                continue;
            };
            desk.unfinished += 1;
            let (agent, position, lane) = (row.agent, row.position, Lane::of(&row));
            if lane == Lane::RESTING {
                continue;
            }
            if row.only_session.is_some() {
                place(desk, row);
                self.touch(agent);
                continue;
            }
            let at_hand = desk.shelf.len() < AT_HAND.0 && record.text.len() <= AT_HAND.1;
            let mut waiting = Waiting::new(row);
            waiting.content = at_hand.then(|| record.content());
            desk.shelf.put(lane, position, waiting);
            desk.unexplained.insert(position);
            self.touch(agent);
        }
    }

    pub(super) fn moved(&mut self, moved: DeliveryMoved, times: Times) {
        let DeliveryMoved {
            row,
            settles,
            receipt,
        } = moved;
        let (agent, position) = (row.agent, row.position);
        let terminal = row.state.is_terminal();
        if !terminal {
            self.wake_by(row.not_before.unwrap_or(row.deadline).min(row.deadline));
        }
        if let Some(receipt) = &receipt {
            self.waiters.receipt(position, receipt, &row);
        }
        if let Some(has_moved) = self.stepping.get_mut(&position) {
            *has_moved = true;
        }
        if let Some(moved) = &mut self.asking_due {
            moved.insert(position);
        }
        if let Some(desk) = self.desks.get_mut(&agent) {
            let settled = settle_out(desk, position, settles, times.mono);
            if terminal {
                desk.unfinished = desk.unfinished.saturating_sub(1);
            }
            place(desk, row.clone());
            self.touch(agent);
            if let Some(session) = settled {
                self.forget_if_done(session);
            }
        }
        self.recall_meets(&row);
    }

    pub(super) fn edited(&mut self, message: Position) {
        for desk in self.desks.values_mut() {
            let shelved = desk.shelf.iter_mut();
            let addressed = desk.sessions.values_mut();
            let addressed = addressed.flat_map(|live| live.addressed.values_mut());
            for waiting in shelved.map(|(_, waiting)| waiting).chain(addressed) {
                if waiting.row.message == message {
                    waiting.content = None;
                }
            }
        }
    }

    pub(super) fn workspace_changed(&mut self, row: Arc<WorkspaceRow>) {
        let no = row.no;
        self.workspaces.insert(no, row);
        let desks = self.desks.values_mut();
        let mut concerned = Vec::new();
        for desk in desks.filter(|desk| desk.workspace_no == no) {
            let sessions = desk.sessions.values_mut();
            sessions.for_each(|live| live.changed());
            concerned.push(desk.agent);
        }
        // In an order that does not depend on the map's.
        concerned.sort_unstable();
        for agent in concerned {
            self.touch(agent);
        }
    }
}

/// Takes the offer off its session that a change has settled; says which session that is.
fn settle_out(
    desk: &mut Desk,
    position: Position,
    settles: Option<u64>,
    now: Mono,
) -> Option<SessionNo> {
    let epoch = settles?;
    for (session, live) in &mut desk.sessions {
        let out = live.out.get(&position);
        if out.is_some_and(|out| out.offer.epoch == epoch) {
            live.take_out(position, now);
            return Some(*session);
        }
    }
    None
}

/// Puts a changed delivery where it belongs.
fn place(desk: &mut Desk, row: DeliveryRow) {
    let position = row.position;
    let only = row.only_session;
    let live = only.and_then(|session| desk.sessions.get_mut(&session));
    if let Some((_, moved)) = live.and_then(|live| live.reading.as_mut()) {
        moved.insert(position);
    }
    if let Some(out) = desk.out_mut(position) {
        out.waiting.row = row;
        return;
    }
    let lane = Lane::of(&row);
    let finished = row.state.is_terminal();
    let known = desk.shelf.remove(position);
    if finished || lane == Lane::HELD || lane == Lane::RESTING {
        desk.unexplained.remove(&position);
        for live in desk.sessions.values_mut() {
            live.addressed.remove(&position);
        }
        return;
    }
    let waiting = match known {
        Some(known) => Waiting { row, ..known },
        None => Waiting::new(row),
    };
    if let Some(session) = waiting.row.only_session {
        if let Some(live) = desk.sessions.get_mut(&session) {
            live.addressed.insert(position, waiting);
        }
    } else {
        desk.shelf.put(lane, position, waiting);
    }
    desk.unexplained.insert(position);
}
