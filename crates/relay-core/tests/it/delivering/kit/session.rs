//! A session that the test plays: it takes what comes over its link and says what the test says.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use relay_core::link::{CloseReason, Deliver, LinkId, MemoryLink, Parcel};
use relay_core::{Caller, Reach, ReceiptStored, Result};
use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, FailedReceipt, MessageReceipt,
};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::link::LinkKind;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::{
    Acked, AtBoundary, Attached, BoundaryKind, DueDeliveries, EventBatch, LifecycleRequest,
    NumberedEvent, ReportEvents, SessionSummary,
};
use relay_protocol::socket::{ControlFrame, ControlResult, ReceiptFrame};
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use relay_protocol::wire;
use serde_json::{Value, json};

use super::kinds::Reached;
use super::{Call, Kind, Lab, only};

/// A session and the test's end of its link.
pub(crate) struct Session<'l> {
    lab: &'l Lab,
    caller: Caller,
    pub(crate) attached: Attached,
    link: Arc<MemoryLink>,
    link_id: Option<LinkId>,
    /// The number of the last event that it reported.
    n: Cell<u64>,
    arrived: RefCell<Arrived>,
}

/// What has come over the link and was not looked at.
#[derive(Default)]
struct Arrived {
    offers: VecDeque<Deliver>,
    controls: VecDeque<ControlFrame>,
    closed: Option<CloseReason>,
}

impl<'l> Session<'l> {
    pub(super) fn attach(lab: &'l Lab, agent: &str, caller: &Caller, kind: &Kind) -> Result<Self> {
        let link = MemoryLink::new();
        let reach = match kind.reach {
            Reached::Linked => Reach::in_process(link.clone()),
            Reached::Hooks => Reach::none(),
            Reached::Poll => Reach {
                kind: LinkKind::Poll,
                ..Reach::none()
            },
        };
        let attach = lab.engine().attach(caller, kind.body(agent), reach);
        let (attached, link_id) = lab.drive(attach)?;
        Ok(Self {
            lab,
            caller: caller.clone(),
            link,
            link_id,
            n: Cell::new(attached.acked),
            attached,
            arrived: RefCell::default(),
        })
    }

    pub(crate) fn id(&self) -> SessionId {
        self.attached.session_id
    }

    pub(crate) fn token(&self) -> &str {
        &self.attached.resume_token
    }

    /// The session as others see it.
    pub(crate) fn summary(&self) -> SessionSummary {
        self.lab.session(self.id())
    }

    pub(crate) fn is_current(&self) -> bool {
        self.summary().current
    }

    fn look(&self) -> std::cell::RefMut<'_, Arrived> {
        self.lab.step();
        let mut arrived = self.arrived.borrow_mut();
        while let Some(parcel) = self.link.try_take() {
            match parcel {
                Parcel::Deliver(deliver) => arrived.offers.push_back(*deliver),
                Parcel::Control(frame) => arrived.controls.push_back(*frame),
                Parcel::Invoke(_) => panic!("a session handles no action"),
                Parcel::Close(reason) => arrived.closed = Some(reason),
            }
        }
        arrived
    }

    /// Everything that was offered since the last look.
    pub(crate) fn offers(&self) -> Vec<Deliver> {
        self.look().offers.drain(..).collect()
    }

    /// The one thing that was offered since the last look.
    pub(crate) fn offer(&self) -> Deliver {
        only(&self.offers()).clone()
    }

    /// The texts of what was offered since the last look.
    pub(crate) fn texts(&self) -> Vec<String> {
        let offers = self.offers();
        let text = |offer: &Deliver| offer.message.text.clone();
        offers.iter().map(text).collect()
    }

    /// The one thing that was asked of it since the last look.
    pub(crate) fn control(&self) -> ControlFrame {
        only(&self.controls()).clone()
    }

    pub(crate) fn controls(&self) -> Vec<ControlFrame> {
        self.look().controls.drain(..).collect()
    }

    /// Why its link was closed, if it was.
    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.look().closed
    }

    /// Its link breaks, and somebody notices.
    pub(crate) fn lose_link(&self) {
        self.link.close();
        self.lab
            .engine()
            .link_lost(self.id(), self.link_id.unwrap());
        self.lab.step();
    }

    /// Its link breaks, and nobody notices.
    pub(crate) fn breaks_unnoticed(&self) {
        self.link.close();
    }

    /// Says what happened to an offer.
    pub(crate) fn answer(&self, offer: &Deliver, receipt: MessageReceipt) {
        let stored = self.receipt(offer.context.id, offer.context.epoch(), receipt);
        assert!(!stored.unwrap().late, "the receipt counts");
    }

    /// Sends a receipt, for whatever it is.
    pub(crate) fn receipt(
        &self,
        delivery_id: DeliveryId,
        epoch: Option<u64>,
        receipt: MessageReceipt,
    ) -> Result<ReceiptStored> {
        let frame = ReceiptFrame {
            delivery_id,
            epoch,
            receipt,
        };
        let engine = self.lab.engine();
        self.lab
            .drive(engine.receipt(&self.caller, Some(self.id()), frame))
    }

    pub(crate) fn deliver(&self, offer: &Deliver) {
        self.answer(offer, delivered(offer.context.id));
    }

    pub(crate) fn accept(&self, offer: &Deliver) {
        self.answer(offer, accepted(offer.context.id));
    }

    /// Accepts something that nobody else is to be offered.
    pub(crate) fn accept_once(&self, offer: &Deliver) {
        let receipt = AcceptedReceipt {
            delivery_id: offer.context.id,
            retryable: Some(false),
            metadata: None,
        };
        self.answer(offer, MessageReceipt::Accepted(receipt));
    }

    /// Shows what it has accepted before.
    pub(crate) fn deliver_held(&self, id: DeliveryId) {
        let stored = self.receipt(id, None, delivered(id));
        assert!(!stored.unwrap().late, "the receipt counts");
    }

    /// Takes everything that is offered; the texts.
    pub(crate) fn take_all(&self) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            let offers = self.offers();
            if offers.is_empty() {
                return texts;
            }
            for offer in offers {
                self.deliver(&offer);
                texts.push(offer.message.text.clone());
            }
        }
    }

    /// Says how something ended that was asked of it.
    fn result(
        &self,
        frame: &ControlFrame,
        outcome: std::result::Result<Option<Value>, &str>,
    ) -> Result<()> {
        let problem = |why| Box::new(Problem::new(ErrorCode::UnsupportedOperation, why));
        let result = ControlResult {
            control_id: frame.control_id,
            ok: outcome.is_ok(),
            problem: outcome.as_ref().err().copied().map(problem),
            result: outcome.ok().flatten(),
        };
        let engine = self.lab.engine();
        let call = engine.control_result(&self.caller, self.id(), result);
        self.lab.drive(call).map(drop)
    }

    /// Does what it was asked to do.
    pub(crate) fn confirm(&self, frame: &ControlFrame) {
        self.try_confirm(frame).unwrap();
    }

    pub(crate) fn try_confirm(&self, frame: &ControlFrame) -> Result<()> {
        self.result(frame, Ok(None))
    }

    pub(crate) fn confirm_with(&self, frame: &ControlFrame, result: Value) {
        self.result(frame, Ok(Some(result))).unwrap();
    }

    /// Can't do what it was asked to do.
    pub(crate) fn refuse(&self, frame: &ControlFrame, why: &str) {
        self.result(frame, Err(why)).unwrap();
    }

    /// The workspace begins to release it.
    pub(crate) fn begin_release(&self) -> Call<'l, Result<SessionSummary>> {
        let (engine, key, id) = (self.lab.engine(), self.lab.who("key"), self.id());
        let body = LifecycleRequest {
            reason: Some("done".to_owned()),
        };
        self.lab
            .begin(async move { engine.release_session(&key, id, body).await })
    }

    /// Reports the next event.
    pub(crate) fn report(&self, event: Value) -> Result<Acked> {
        self.report_as(self.n.get() + 1, event)
    }

    /// Reports an event under a number.
    pub(crate) fn report_as(&self, n: u64, event: Value) -> Result<Acked> {
        self.report_all(&[(n, event)])
    }

    /// Reports several events at once.
    pub(crate) fn report_all(&self, events: &[(u64, Value)]) -> Result<Acked> {
        let acked = self.report_as_session(self.id(), events)?;
        self.n.set(acked.acked);
        Ok(acked)
    }

    /// Reports something in the name of another session.
    pub(crate) fn report_for(&self, session: SessionId, event: Value) -> Result<Acked> {
        self.report_as_session(session, &[(1, event)])
    }

    /// Reports the next event without waiting for the answer, which comes when it is stored.
    pub(crate) fn emit(&self, event: Value) -> Call<'l, Result<Acked>> {
        let n = self.n.get() + 1;
        self.n.set(n);
        self.begin_report(self.id(), &[(n, event)])
    }

    /// Begins to report several events at once, under these numbers.
    pub(crate) fn emit_all(&self, events: &[(u64, Value)]) -> Call<'l, Result<Acked>> {
        if let Some((last, _)) = events.last() {
            self.n.set(self.n.get().max(*last));
        }
        self.begin_report(self.id(), events)
    }

    fn report_as_session(&self, session: SessionId, events: &[(u64, Value)]) -> Result<Acked> {
        self.begin_report(session, events).end()
    }

    fn begin_report(&self, session: SessionId, events: &[(u64, Value)]) -> Call<'l, Result<Acked>> {
        let numbered = |(n, event): &(u64, Value)| NumberedEvent {
            n: *n,
            event: wire::decode_value(event.clone()).unwrap(),
        };
        let events = events.iter().map(numbered).collect();
        let body = ReportEvents::Batch(EventBatch { events });
        let (engine, caller) = (self.lab.engine(), self.caller.clone());
        self.lab
            .begin(async move { engine.report(&caller, session, body).await })
    }

    /// Says what it is doing now.
    pub(crate) fn becomes(&self, status: AgentStatus) {
        let event = json!({ "type": "status.changed", "status": status });
        self.report(event).unwrap();
    }

    /// Says that a tool has run.
    pub(crate) fn ran_a_tool(&self) {
        let event = json!({ "type": "tool.completed", "tool": "bash" });
        self.report(event).unwrap();
    }

    /// Stands at a boundary; what is due comes over the link.
    pub(crate) fn stands_at(&self, kind: BoundaryKind) {
        let engine = self.lab.engine();
        let call = engine.at_boundary(&self.caller, self.id(), kind);
        self.lab.drive(call).unwrap();
    }

    /// Stands at a boundary and takes along what is due.
    pub(crate) fn claim(&self, kind: BoundaryKind) -> DueDeliveries {
        self.try_claim(AtBoundary {
            kind,
            limit: None,
            max_bytes: None,
        })
        .unwrap()
    }

    pub(crate) fn try_claim(&self, body: AtBoundary) -> Result<DueDeliveries> {
        let engine = self.lab.engine();
        self.lab
            .drive(engine.boundary(&self.caller, self.id(), body))
    }

    /// Takes along what is due without standing at a boundary.
    pub(crate) fn due_now(&self, limit: Option<u32>) -> Result<DueDeliveries> {
        let engine = self.lab.engine();
        self.lab
            .drive(engine.due_now(&self.caller, self.id(), limit))
    }
}

pub(crate) fn delivered(delivery_id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id,
        metadata: None,
    })
}

pub(crate) fn accepted(delivery_id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Accepted(AcceptedReceipt {
        delivery_id,
        retryable: None,
        metadata: None,
    })
}

/// Put off until a time.
pub(crate) fn deferred(available_at: Timestamp) -> MessageReceipt {
    MessageReceipt::Deferred(DeferredReceipt {
        delivery_id: None,
        available_at,
        reason: Some("busy".to_owned()),
        metadata: None,
    })
}

/// Not taken, for a reason that may pass or not.
pub(crate) fn failed(reason: &str, retryable: Option<bool>) -> MessageReceipt {
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: None,
        reason: reason.to_owned(),
        retryable,
        metadata: None,
    })
}
