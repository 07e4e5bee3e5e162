//! The loop that serves a session: one task for each, told by the socket and by the owner what comes.
//!
//! Deliveries are in `offers`, operations in `controls`, reports in `reports`; here is what connects them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::problem::Problem;
use relay_protocol::session::Attached;
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::session_input::SessionEventInput;
use relay_protocol::socket::{
    BoundaryFrame, ClientRequest, ControlOp, ControlResult, DeliverFrame, ReceiptFrame,
    ServerMessage, SessionEventFrame,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::controls::{self, Work};
use super::handle::{Directory, EventHandler, Life, Standing};
use super::memory::{Memory, Step};
use super::offers::Handling;
use super::receipts::delivery_of;
use super::reports::{Backlog, Reports};
use super::served::Served;
use super::{Done, Order, Tag, Wait};
use crate::error::{Error, Result};
use crate::socket::{Clock, Command, Commands, Input, NowAttached, Said, SessionKey};

/// How long to wait before a report is sent again that the server could not store.
const REPORT_PAUSE: Duration = Duration::from_millis(500);

/// Serves one session.
pub(super) struct Server {
    key: SessionKey,
    pub(super) session: Arc<dyn Served>,
    commands: Commands,
    inputs: mpsc::UnboundedReceiver<Input>,
    /// While it is attached.
    pub(super) link: Option<Link>,
    id: Option<SessionId>,
    pub(super) memory: Memory,
    /// What the session accepted in this process and has not surfaced.
    pub(super) held: HashSet<DeliveryId>,
    /// What was offered and waits for its turn.
    pub(super) offers: VecDeque<DeliverFrame>,
    pub(super) handling: Option<Handling>,
    /// How many deliveries are being given back; until then nothing is taken.
    pub(super) giving_back: usize,
    /// Receipts that nobody asked for and the server may not have.
    late: BTreeMap<DeliveryId, LateReceipt>,
    reports: Reports,
    report_at: Option<Instant>,
    boundaries: BTreeMap<u64, (Wait, Done)>,
    last_boundary: u64,
    /// Owners that wait until these offers are answered.
    unanswered: Vec<(HashSet<DeliveryId>, Done)>,
    pub(super) work: JoinSet<Work>,
}

/// The link of a session.
#[derive(Clone, Copy)]
pub(super) struct Link {
    connection: u64,
    session_id: SessionId,
    pub(super) clock: Clock,
}

struct LateReceipt {
    receipt: MessageReceipt,
    done: Option<Done>,
}

/// How serving a session ended.
type End = Option<Result<()>>;

impl Server {
    pub(super) fn new(
        key: SessionKey,
        session: Arc<dyn Served>,
        commands: Commands,
        inputs: mpsc::UnboundedReceiver<Input>,
        memory: Memory,
        backlog: Backlog,
    ) -> Self {
        Self {
            key,
            session,
            commands,
            inputs,
            link: None,
            id: None,
            memory,
            held: HashSet::new(),
            offers: VecDeque::new(),
            handling: None,
            giving_back: 0,
            late: BTreeMap::new(),
            reports: Reports::new(backlog),
            report_at: None,
            boundaries: BTreeMap::new(),
            last_boundary: 0,
            unanswered: Vec::new(),
            work: JoinSet::new(),
        }
    }

    /// Serves until the session ends, or nobody wants it served.
    pub(super) async fn run(
        mut self,
        tell: watch::Sender<Life>,
        directory: Directory,
        events: EventHandler,
    ) {
        let ended = loop {
            let known = self.id;
            let ended = self.step(&tell).await;
            self.settle_unanswered();
            if known != self.id {
                self.enlist(known, &directory, &events);
            }
            if let Some(ended) = ended {
                break ended;
            }
        };
        let _ = self.commands.send(Command::Detach(self.key));
        if let Some(id) = self.id {
            directory.remove(id);
        }
        // What is being surfaced is remembered, so that it is not surfaced again.
        if let Some(handling) = self.handling.take() {
            self.handled(handling.finish().await);
        }
        drop(self);
        let _ = tell.send(Life::Ended(ended));
    }

    fn enlist(&self, known: Option<SessionId>, directory: &Directory, events: &EventHandler) {
        if let Some(old) = known {
            directory.remove(old);
        }
        if let Some(new) = self.id {
            directory.add(new, events.clone());
        }
    }

    async fn step(&mut self, tell: &watch::Sender<Life>) -> End {
        tokio::select! {
            input = self.inputs.recv() => match input {
                Some(input) => self.take(input, tell),
                None => Some(Ok(())),
            },
            handled = super::offers::finished(&mut self.handling) => {
                self.handling = None;
                self.handled(handled);
                self.advance();
                None
            }
            Some(done) = self.work.join_next() => {
                if let Ok(work) = done {
                    self.worked(work);
                }
                None
            }
            () = sleep_until(self.report_at.unwrap_or_else(Instant::now)), if self.report_at.is_some() => {
                self.report_at = None;
                self.report();
                None
            }
        }
    }

    fn take(&mut self, input: Input, tell: &watch::Sender<Life>) -> End {
        match input {
            Input::Attached(now) => {
                let _ = tell.send(Life::Attached(Arc::new(standing(&now.attached))));
                self.attached(*now);
            }
            Input::Lost => return self.lost(),
            Input::Over(error) => return Some(Err(error)),
            Input::Deliver(frame) => self.offered(*frame),
            Input::Control(frame) => self.control(*frame),
            Input::Answer(tag, answer) => return self.answered(tag, answer),
            Input::Order(Order::Stop) => return Some(Ok(())),
            Input::Order(order) => self.ordered(order),
        }
        None
    }

    fn attached(&mut self, now: NowAttached) {
        let NowAttached {
            connection,
            attached,
            clock,
        } = now;
        let session_id = attached.session_id;
        let is_same = self.id == Some(session_id);
        self.id = Some(session_id);
        self.link = Some(Link {
            connection,
            session_id,
            clock,
        });
        self.reconcile(&attached.keep);
        self.reports.attached(attached.acked, is_same);
        self.report();
        let late: Vec<_> = self.late.keys().copied().collect();
        for id in late {
            self.say_late(id);
        }
        self.advance();
    }

    /// The link is gone. What was offered over it will be offered again.
    fn lost(&mut self) -> End {
        self.link = None;
        self.offers.clear();
        for (_, (_, done)) in std::mem::take(&mut self.boundaries) {
            let _ = done.send(Err(Error::Broken("the link was lost".to_owned())));
        }
        None
    }

    fn ordered(&mut self, order: Order) {
        match order {
            Order::Emit(event, done) => {
                self.observe(&event);
                self.reports.push(event, done);
                self.report();
            }
            Order::Boundary(kind, wait, done) => {
                let Some(link) = self.link else {
                    let _ = done.send(Err(Error::Broken("there is no link".to_owned())));
                    return;
                };
                self.last_boundary += 1;
                self.boundaries.insert(self.last_boundary, (wait, done));
                let frame = BoundaryFrame {
                    session_id: link.session_id,
                    kind,
                };
                self.say(
                    ClientRequest::Boundary(frame),
                    Tag::Boundary(self.last_boundary),
                );
            }
            Order::Receipt(receipt, done) => match delivery_of(&receipt) {
                Some(id) => {
                    self.answered_early(id);
                    self.settle_late(id, receipt, Some(done));
                }
                None => {
                    let problem = "expected a receipt that names its delivery".to_owned();
                    let _ = done.send(Err(Error::InvalidTarget(problem)));
                }
            },
            Order::Stop => {}
        }
    }

    /// A session may say by an event, too, what became of a delivery.
    fn observe(&mut self, event: &AgentSessionEvent) {
        let (id, step) = match event {
            AgentSessionEvent::DeliveryDelivered(report) => {
                (report.delivery_id, Some(Step::Delivered))
            }
            AgentSessionEvent::DeliveryAccepted(report) => {
                (report.delivery_id, Some(Step::Accepted))
            }
            AgentSessionEvent::DeliveryDeferred(report) => (report.delivery_id, None),
            AgentSessionEvent::DeliveryFailed(report) => (report.delivery_id, None),
            _ => return,
        };
        self.note(id, step);
    }

    /// Sends the reports that may be sent now.
    fn report(&mut self) {
        let Some(link) = self.link else {
            return;
        };
        if self.report_at.is_some() {
            return;
        }
        while let Some(numbered) = self.reports.next() {
            let tag = Tag::Report {
                generation: numbered.generation,
                n: numbered.n,
            };
            let frame = SessionEventFrame {
                session_id: link.session_id,
                n: numbered.n,
                event: SessionEventInput(numbered.event),
            };
            self.say(ClientRequest::Event(frame), tag);
        }
    }

    /// Says what became of a delivery without being asked, and again until the server has it.
    pub(super) fn settle_late(
        &mut self,
        id: DeliveryId,
        receipt: MessageReceipt,
        done: Option<Done>,
    ) {
        let receipt = super::receipts::complete(receipt, id);
        self.note_receipt(id, &receipt);
        self.late.insert(id, LateReceipt { receipt, done });
        self.say_late(id);
    }

    fn say_late(&mut self, id: DeliveryId) {
        if let Some(late) = self.late.get(&id) {
            let frame = ReceiptFrame {
                delivery_id: id,
                epoch: None,
                receipt: late.receipt.clone(),
            };
            self.say(ClientRequest::Receipt(frame), Tag::LateReceipt(id));
        }
    }

    pub(super) fn say_receipt(&self, id: DeliveryId, epoch: Option<u64>, receipt: MessageReceipt) {
        let frame = ReceiptFrame {
            delivery_id: id,
            epoch,
            receipt,
        };
        self.say(ClientRequest::Receipt(frame), Tag::Receipt(id));
    }

    pub(super) fn say_control(&self, result: ControlResult, is_release: bool) {
        let tag = match is_release {
            true => Tag::Released,
            false => Tag::Control(result.control_id),
        };
        self.say(ClientRequest::ControlResult(result), tag);
    }

    /// Says something over the link; without one it is not said.
    fn say(&self, request: ClientRequest, tag: Tag) {
        if let Some(link) = &self.link {
            let said = Said {
                session: self.key,
                connection: link.connection,
                request,
                tag,
            };
            let _ = self.commands.send(Command::Say(Box::new(said)));
        }
    }

    fn answered(&mut self, tag: Tag, answer: Result<Box<ServerMessage>, Box<Problem>>) -> End {
        match tag {
            Tag::Report { generation, n } => self.reported(generation, n, answer),
            Tag::LateReceipt(id) => self.late_stored(id, answer),
            Tag::Boundary(number) => match (self.boundaries.remove(&number), answer) {
                // What is due was sent before the answer, so it is among the offers by now.
                (Some((Wait::Answered, done)), Ok(_)) => {
                    self.unanswered.push((self.open_offers(), done));
                }
                (Some((_, done)), answer) => {
                    let _ = done.send(answer.map(drop).map_err(Error::Problem));
                }
                (None, _) => {}
            },
            Tag::Receipt(id) => {
                if let Err(problem) = answer {
                    tracing::warn!(delivery.id = %id, problem.detail, "a receipt was refused");
                }
            }
            Tag::Control(id) => {
                if let Err(problem) = answer {
                    tracing::debug!(control.id = %id, problem.detail, "an answer came too late");
                }
            }
            Tag::Released => return Some(Ok(())),
        }
        None
    }

    /// The offers that the session has not answered.
    fn open_offers(&self) -> HashSet<DeliveryId> {
        let waiting = self.offers.iter().map(|offer| offer.context.id);
        let handling = self.handling.as_ref().map(Handling::id);
        waiting.chain(handling).collect()
    }

    /// Releases the owners whose offers are answered, or gone with their link.
    fn settle_unanswered(&mut self) {
        if self.unanswered.is_empty() {
            return;
        }
        let open = self.open_offers();
        for (offers, done) in std::mem::take(&mut self.unanswered) {
            if offers.is_disjoint(&open) {
                let _ = done.send(Ok(()));
            } else {
                self.unanswered.push((offers, done));
            }
        }
    }

    fn reported(
        &mut self,
        generation: u64,
        n: u64,
        answer: Result<Box<ServerMessage>, Box<Problem>>,
    ) {
        match answer {
            Ok(message) => {
                let acked = match *message {
                    ServerMessage::Ack(ack) => ack.n,
                    _ => n,
                };
                self.reports.acked(generation, acked);
            }
            Err(problem) => {
                if problem.retryable {
                    self.report_at = Some(Instant::now() + REPORT_PAUSE);
                }
                self.reports.refused(generation, n, problem);
            }
        }
        self.report();
    }

    fn late_stored(&mut self, id: DeliveryId, answer: Result<Box<ServerMessage>, Box<Problem>>) {
        // What could not be stored now is said again after the next loss.
        if answer.as_ref().is_err_and(|problem| problem.retryable) {
            return;
        }
        if let Some(late) = self.late.remove(&id)
            && let Some(done) = late.done
        {
            let _ = done.send(answer.map(drop).map_err(Error::Problem));
        }
    }

    /// Takes what an operation came to.
    fn worked(&mut self, work: Work) {
        match work {
            Work::GivenBack {
                delivery_id,
                outcome,
            } => self.given_back(delivery_id, outcome.is_ok()),
            Work::Control {
                control_id,
                op,
                delivery_id,
                outcome,
            } => {
                if let (Ok(_), ControlOp::Cancel, Some(id)) = (&outcome, op, delivery_id) {
                    self.note(id, None);
                }
                let outcome = outcome.map(|outcome| {
                    for receipt in outcome.receipts {
                        if let Some(id) = delivery_of(&receipt).or(delivery_id) {
                            self.settle_late(id, receipt, None);
                        }
                    }
                    outcome.result
                });
                let is_release = op == ControlOp::Release;
                self.say_control(controls::answer(control_id, op, outcome), is_release);
            }
        }
    }
}

fn standing(attached: &Attached) -> Standing {
    Standing {
        session_id: attached.session_id,
        resume_token: attached.resume_token.clone(),
        negotiated: attached.negotiated.clone(),
    }
}
