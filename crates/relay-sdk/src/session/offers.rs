//! Deliveries of a session: one at a time, in order, each answered, none surfaced twice.

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{MessageContext, MessageReceipt, REDELIVERED};
use relay_protocol::ids::DeliveryId;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::socket::{ControlFrame, ControlOp, ControlResult, DeliverFrame};
use tokio::task::{JoinError, JoinHandle};

use super::controls;
use super::memory::Step;
use super::receipts::{accepted, complete, deferred, delivered, failed};
use super::serve::Server;
use super::traits::SessionError;

/// A delivery that the session is being given.
pub(super) struct Handling {
    id: DeliveryId,
    /// The last offer of it.
    epoch: Option<u64>,
    /// Whether a receipt was given for it already; what the session answers then is not said.
    is_answered: bool,
    task: JoinHandle<Result<MessageReceipt, SessionError>>,
}

/// What the session made of a delivery.
pub(super) struct Handled {
    id: DeliveryId,
    epoch: Option<u64>,
    is_answered: bool,
    result: Result<Result<MessageReceipt, SessionError>, JoinError>,
}

impl Handling {
    pub(super) const fn id(&self) -> DeliveryId {
        self.id
    }

    /// Waits for the session. Safe to cancel.
    pub(super) async fn finish(mut self) -> Handled {
        self.wait().await
    }

    async fn wait(&mut self) -> Handled {
        let result = (&mut self.task).await;
        Handled {
            id: self.id,
            epoch: self.epoch,
            is_answered: self.is_answered,
            result,
        }
    }
}

/// Waits until the session has answered, if it is being asked. Safe to cancel.
pub(super) async fn finished(handling: &mut Option<Handling>) -> Handled {
    match handling {
        Some(handling) => handling.wait().await,
        None => std::future::pending().await,
    }
}

impl Server {
    /// Takes an offer. A newer offer of the same delivery takes the place of the older one.
    pub(super) fn offered(&mut self, frame: DeliverFrame) {
        let id = frame.context.id;
        if let Some(handling) = self.handling.as_mut().filter(|handling| handling.id == id) {
            handling.epoch = frame.context.epoch();
            return;
        }
        let mut offers = self.offers.iter_mut();
        match offers.find(|offer| offer.context.id == id) {
            Some(older) => *older = frame,
            None => self.offers.push_back(frame),
        }
        self.advance();
    }

    /// Begins with the next offers, as far as that is possible.
    pub(super) fn advance(&mut self) {
        while self.handling.is_none() && self.giving_back == 0 && self.link.is_some() {
            match self.offers.pop_front() {
                Some(frame) => self.begin(frame),
                None => return,
            }
        }
    }

    fn begin(&mut self, frame: DeliverFrame) {
        let DeliverFrame {
            message,
            mut context,
            ..
        } = frame;
        let (id, epoch) = (context.id, context.epoch());
        let step = self.memory.step(id);
        match step {
            Some(Step::Delivered) => {
                let receipt = complete(repeated(delivered(id)), id);
                return self.say_receipt(id, epoch, receipt);
            }
            Some(Step::Accepted) if self.held.contains(&id) => {
                return self.say_receipt(id, epoch, complete(accepted(id), id));
            }
            _ => {}
        }
        if self.is_late(&context) {
            let receipt = complete(failed("deadline_exceeded"), id);
            return self.say_receipt(id, epoch, receipt);
        }
        if step.is_some() {
            // An earlier attempt did not live to say what became of it.
            let metadata = context.metadata.get_or_insert_with(Metadata::new);
            metadata.insert(REDELIVERED.to_owned(), true.into());
        }
        self.memory.remember(id, Some(Step::Begun));
        let session = self.session.clone();
        let task = tokio::spawn(session.receive_message(message, context));
        self.handling = Some(Handling {
            id,
            epoch,
            is_answered: false,
            task,
        });
    }

    /// A receipt was given for a delivery that the session is being given, before it has answered.
    pub(super) fn answered_early(&mut self, id: DeliveryId) {
        if let Some(handling) = self.handling.as_mut().filter(|handling| handling.id == id) {
            handling.is_answered = true;
        }
    }

    /// Whether a deadline has passed, by the server's clock.
    fn is_late(&self, context: &MessageContext) -> bool {
        let now = self.link.map(|link| link.clock.now());
        let deadline = context.deadline;
        matches!((deadline, now), (Some(deadline), Some(now)) if deadline <= now)
    }

    /// Takes what the session made of a delivery.
    pub(super) fn handled(&mut self, handled: Handled) {
        let Handled {
            id,
            epoch,
            is_answered,
            result,
        } = handled;
        if is_answered {
            return;
        }
        let receipt = match result {
            Ok(Ok(receipt)) => receipt,
            Ok(Err(error)) => failed(error.to_string()),
            Err(_) => {
                tracing::error!(delivery.id = %id, "a session panicked over a delivery");
                // Nobody knows whether it was surfaced before, so `begun` stays.
                let receipt = complete(failed("the session panicked"), id);
                return self.say_receipt(id, epoch, receipt);
            }
        };
        let receipt = complete(receipt, id);
        self.note_receipt(id, &receipt);
        self.say_receipt(id, epoch, receipt);
    }

    /// Remembers what a receipt says.
    pub(super) fn note_receipt(&mut self, id: DeliveryId, receipt: &MessageReceipt) {
        let step = match receipt {
            MessageReceipt::Delivered(_) => Some(Step::Delivered),
            MessageReceipt::Accepted(_) => Some(Step::Accepted),
            MessageReceipt::Deferred(_) | MessageReceipt::Failed(_) => None,
        };
        self.note(id, step);
    }

    pub(super) fn note(&mut self, id: DeliveryId, step: Option<Step>) {
        if step == Some(Step::Accepted) {
            self.held.insert(id);
        } else {
            self.held.remove(&id);
        }
        self.memory.remember(id, step);
    }

    /// After a loss, makes the session's view of what it holds the same as the server's.
    pub(super) fn reconcile(&mut self, keep: &[DeliveryId]) {
        for id in keep {
            if !self.held.contains(id) {
                self.explain(*id);
            }
        }
        let held = self.held.iter().copied();
        let gone: Vec<_> = held.filter(|id| !keep.contains(id)).collect();
        for id in gone {
            self.giving_back += 1;
            self.work
                .spawn(controls::give_back(self.session.clone(), id));
        }
    }

    /// Says what became of a delivery that the server believes to be held here, and is not.
    fn explain(&mut self, id: DeliveryId) {
        let receipt = match (self.memory.step(id), self.link) {
            (Some(Step::Delivered), _) => delivered(id),
            (_, Some(link)) => deferred(link.clock.now(), "an earlier process held it"),
            (_, None) => return,
        };
        self.settle_late(id, receipt, None);
    }

    /// A delivery that is no longer the session's was given back, or could not be.
    pub(super) fn given_back(&mut self, id: DeliveryId, was_given_back: bool) {
        self.giving_back -= 1;
        // One that could not be stays held: if it is offered again, it need not be taken again.
        if was_given_back {
            self.note(id, None);
        }
        self.advance();
    }

    /// Takes an operation.
    pub(super) fn control(&mut self, frame: ControlFrame) {
        if frame.op == ControlOp::Cancel
            && let Some(id) = frame.delivery_id
            && let Some(result) = self.cancel_here(id, &frame)
        {
            return self.say_control(result, false);
        }
        self.work
            .spawn(controls::control(self.session.clone(), frame));
    }

    /// Gives a delivery back that the session does not have; nothing if it has.
    fn cancel_here(&mut self, id: DeliveryId, frame: &ControlFrame) -> Option<ControlResult> {
        self.offers.retain(|offer| offer.context.id != id);
        let is_handling = self.handling.as_ref().is_some_and(|it| it.id == id);
        if is_handling || self.held.contains(&id) {
            return None;
        }
        if self.memory.step(id) == Some(Step::Delivered) {
            self.settle_late(id, delivered(id), None);
            let detail = "the message was surfaced before it could be called back";
            let problem = Problem::new(ErrorCode::AlreadyDelivered, detail);
            return Some(ControlResult {
                control_id: frame.control_id,
                ok: false,
                result: None,
                problem: Some(Box::new(problem)),
            });
        }
        Some(controls::answer(frame.control_id, frame.op, Ok(None)))
    }
}

/// A receipt that says that it was given before.
fn repeated(mut receipt: MessageReceipt) -> MessageReceipt {
    if let MessageReceipt::Delivered(delivered) = &mut receipt {
        let metadata = delivered.metadata.get_or_insert_with(Metadata::new);
        metadata.insert("duplicate".to_owned(), true.into());
    }
    receipt
}
