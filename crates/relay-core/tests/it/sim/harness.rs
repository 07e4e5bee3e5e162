//! Harnesses: what stands at the other end of a link, with all its faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use relay_core::link::{LinkClosed, LinkId, Parcel, SessionLink};
use relay_protocol::capability::{
    AgentSessionCapabilities, DeliveryCapabilities, EventCapabilities, LifecycleCapabilities,
    MessagingCapabilities,
};
use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, DeliveryMode, FailedReceipt,
    MessageContext, MessageReceipt,
};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::message::AttachmentKind;
use relay_protocol::session::BoundaryKind;
use relay_protocol::session_event::AgentSessionEventType;
use relay_protocol::socket::{ControlFrame, ControlOp, ControlResult, ReceiptFrame};
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use relay_protocol::wire::True;

use super::dice::Dice;

/// What the engine has put on links, not yet looked at.
pub(super) type Wire = Arc<Mutex<Vec<Carried>>>;

/// Something that was put on a link.
pub(super) struct Carried {
    pub(super) harness: usize,
    pub(super) line: u64,
    pub(super) parcel: Parcel,
    /// The link was cut, and the engine has been told so.
    pub(super) lost: bool,
}

/// One end of a link.
pub(super) struct SimLink {
    pub(super) harness: usize,
    pub(super) line: u64,
    pub(super) cut: AtomicBool,
    pub(super) wire: Wire,
}

impl SessionLink for SimLink {
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        let lost = self.cut.load(Ordering::SeqCst);
        self.wire.lock().unwrap().push(Carried {
            harness: self.harness,
            line: self.line,
            parcel,
            lost,
        });
        if lost { Err(LinkClosed) } else { Ok(()) }
    }
}

/// How a harness behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    Honest,
    Moody,
    Silent,
}

/// Something that a harness has accepted and not surfaced.
pub(super) struct HeldItem {
    pub(super) epoch: Option<u64>,
}

/// A harness with its session.
pub(super) struct Harness {
    pub(super) agent: usize,
    pub(super) temper: Temper,
    pub(super) capabilities: AgentSessionCapabilities,
    pub(super) safe_states: Vec<AgentStatus>,
    pub(super) hooks_only: bool,
    pub(super) session: Option<SessionId>,
    pub(super) token: Option<String>,
    pub(super) link: Option<(Arc<SimLink>, Option<LinkId>)>,
    /// A call that attaches it is under way.
    pub(super) attaching: bool,
    /// A report is under way.
    pub(super) reporting: bool,
    pub(super) n: u64,
    /// Surfaced before; kept in a file, so it outlives everything.
    pub(super) seen: BTreeSet<DeliveryId>,
    pub(super) held: BTreeMap<DeliveryId, HeldItem>,
    /// What it held when it asked to attach.
    pub(super) at_risk: BTreeSet<DeliveryId>,
    /// The boundaries that it has said it stands at.
    pub(super) openings: BTreeSet<BoundaryKind>,
    /// Calls under way that open a boundary.
    pub(super) opening_calls: u32,
    pub(super) lines: u64,
}

/// Something on its way from a harness to the engine.
#[derive(Clone, Debug)]
pub(super) enum Up {
    Receipt(ReceiptFrame),
    Control(ControlResult),
}

impl Harness {
    pub(super) fn roll(agent: usize, dice: &mut Dice) -> Self {
        let hooks_only = dice.chance(150);
        let mut modes: Vec<DeliveryMode> = DeliveryMode::ALL
            .iter()
            .copied()
            .filter(|_| dice.chance(550))
            .filter(|mode| !hooks_only || *mode != DeliveryMode::Immediate)
            .collect();
        if modes.is_empty() {
            modes.push(if hooks_only {
                DeliveryMode::OnIdle
            } else {
                DeliveryMode::Immediate
            });
        }
        let queue = !hooks_only && dice.chance(300);
        let mut emits = vec![
            AgentSessionEventType::StatusChanged,
            AgentSessionEventType::ToolCompleted,
            AgentSessionEventType::DeliveryDelivered,
        ];
        if !modes.contains(&DeliveryMode::OnIdle) && dice.chance(200) {
            emits.clear();
        }
        let attachments = if dice.chance(500) {
            vec![AttachmentKind::Text, AttachmentKind::Image]
        } else {
            vec![AttachmentKind::Text]
        };
        Self {
            agent,
            temper: dice.weighted(&[(5, Temper::Honest), (6, Temper::Moody), (1, Temper::Silent)]),
            capabilities: AgentSessionCapabilities {
                messaging: MessagingCapabilities {
                    receive: True,
                    send: None,
                    attachments,
                },
                delivery: DeliveryCapabilities {
                    modes,
                    queue: queue.then_some(true),
                },
                events: EventCapabilities { emits },
                actions: None,
                lifecycle: LifecycleCapabilities {
                    pause: Some(true),
                    resume: Some(true),
                    ..LifecycleCapabilities::default()
                },
            },
            safe_states: if dice.chance(700) {
                vec![
                    AgentStatus::Idle,
                    AgentStatus::Waiting,
                    AgentStatus::Blocked,
                ]
            } else if dice.chance(700) {
                vec![AgentStatus::Idle]
            } else {
                vec![AgentStatus::Idle, AgentStatus::Paused]
            },
            hooks_only,
            session: None,
            token: None,
            link: None,
            attaching: false,
            reporting: false,
            n: 0,
            seen: BTreeSet::new(),
            held: BTreeMap::new(),
            at_risk: BTreeSet::new(),
            openings: BTreeSet::new(),
            opening_calls: 0,
            lines: 0,
        }
    }

    pub(super) fn emits_status(&self) -> bool {
        !self.capabilities.events.emits.is_empty()
    }

    /// The link broke, or the process died: what is only in memory stays as it is, nothing arrives.
    pub(super) fn unplug(&mut self) -> Option<LinkId> {
        let (link, id) = self.link.take()?;
        link.cut.store(true, Ordering::SeqCst);
        id
    }

    /// What it says to a delivery.
    pub(super) fn receives(
        &mut self,
        context: &MessageContext,
        now: Timestamp,
        dice: &mut Dice,
    ) -> Vec<Up> {
        let (id, epoch) = (context.id, context.epoch());
        if self.seen.contains(&id) {
            return vec![receipt(id, epoch, delivered(id))];
        }
        let queues = self.capabilities.delivery.queue == Some(true);
        match self.temper {
            Temper::Silent => Vec::new(),
            Temper::Honest if queues => self.accepts(context, None),
            Temper::Honest => vec![self.surfaces(id, epoch)],
            Temper::Moody => self.moody(context, queues, now, dice),
        }
    }

    fn moody(
        &mut self,
        context: &MessageContext,
        queues: bool,
        now: Timestamp,
        dice: &mut Dice,
    ) -> Vec<Up> {
        let (id, epoch) = (context.id, context.epoch());
        let accept = if queues { 50 } else { 8 };
        match dice.weighted(&[
            (40, 0),
            (accept, 1),
            (8, 2),
            (8, 3),
            (3, 4),
            (8, 5),
            (3, 6),
            (4, 7),
            (2, 8),
        ]) {
            0 => vec![self.surfaces(id, epoch)],
            1 => {
                let retryable = dice.weighted(&[(6, None), (2, Some(true)), (1, Some(false))]);
                self.accepts(context, retryable)
            }
            2 => {
                // Into the past, soon, or beyond any deadline.
                let wait = *dice
                    .pick(&[-5_000, 800, 20_000, 90_000, 86_400_000])
                    .unwrap();
                let deferred = DeferredReceipt {
                    delivery_id: dice.chance(500).then_some(id),
                    available_at: now.plus_millis(wait),
                    reason: Some("busy".to_owned()),
                    metadata: None,
                };
                vec![receipt(id, epoch, MessageReceipt::Deferred(deferred))]
            }
            3 => vec![receipt(id, epoch, failed(id, Some(true)))],
            4 => vec![receipt(id, epoch, failed(id, None))],
            5 => Vec::new(),
            // Twice.
            6 => {
                let said = self.surfaces(id, epoch);
                vec![said.clone(), said]
            }
            // Accepted, and at once delivered.
            7 => {
                let mut said = self.accepts(context, None);
                self.held.remove(&id);
                said.push(self.surfaces(id, epoch));
                said
            }
            // For an offer that was never made.
            _ => vec![receipt(id, epoch.map(|epoch| epoch + 7), delivered(id))],
        }
    }

    fn accepts(&mut self, context: &MessageContext, retryable: Option<bool>) -> Vec<Up> {
        let (id, epoch) = (context.id, context.epoch());
        self.held.insert(id, HeldItem { epoch });
        // It has it anew, whatever becomes of what it held when it asked to attach.
        self.at_risk.remove(&id);
        let accepted = AcceptedReceipt {
            delivery_id: id,
            retryable,
            metadata: None,
        };
        vec![receipt(id, epoch, MessageReceipt::Accepted(accepted))]
    }

    /// Shows a message to the agent; from then on it is never shown again.
    pub(super) fn surfaces(&mut self, id: DeliveryId, epoch: Option<u64>) -> Up {
        self.seen.insert(id);
        receipt(id, epoch, delivered(id))
    }

    /// Surfaces something that it holds.
    pub(super) fn surfaces_held(&mut self, dice: &mut Dice) -> Option<Up> {
        let ids: Vec<DeliveryId> = self.held.keys().copied().collect();
        let id = *dice.pick(&ids)?;
        let item = self.held.remove(&id)?;
        Some(self.surfaces(id, item.epoch.filter(|_| dice.chance(500))))
    }

    /// What it answers to something that is asked of it.
    pub(super) fn controlled(&mut self, frame: &ControlFrame, dice: &mut Dice) -> Vec<Up> {
        let answer = |ok| {
            Up::Control(ControlResult {
                control_id: frame.control_id,
                ok,
                result: None,
                problem: None,
            })
        };
        if self.temper == Temper::Silent {
            return Vec::new();
        }
        let moody = self.temper == Temper::Moody;
        match (frame.op, frame.delivery_id) {
            (ControlOp::Cancel, Some(id)) => {
                if self.seen.contains(&id) {
                    return vec![receipt(id, None, delivered(id))];
                }
                if moody && dice.chance(200) {
                    return Vec::new();
                }
                if moody && dice.chance(200) {
                    return vec![answer(false)];
                }
                self.held.remove(&id);
                vec![answer(true)]
            }
            (ControlOp::Flush, _) => {
                let mut said: Vec<Up> = self.surfaces_held(dice).into_iter().collect();
                said.push(answer(true));
                said
            }
            _ if moody && dice.chance(250) => Vec::new(),
            _ => vec![answer(true)],
        }
    }
}

pub(super) fn receipt(id: DeliveryId, epoch: Option<u64>, receipt: MessageReceipt) -> Up {
    Up::Receipt(ReceiptFrame {
        delivery_id: id,
        epoch,
        receipt,
    })
}

pub(super) fn delivered(id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: id,
        metadata: None,
    })
}

pub(super) fn failed(id: DeliveryId, retryable: Option<bool>) -> MessageReceipt {
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: Some(id),
        reason: "no".to_owned(),
        retryable,
        metadata: None,
    })
}
