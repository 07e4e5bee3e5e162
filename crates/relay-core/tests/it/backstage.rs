//! What the delivery runner asks of a store, in short words, for tests that are their own runner.

use std::borrow::Cow;
use std::sync::Arc;

use relay_core::delivery::apply::{Recall, Step};
use relay_core::delivery::history::Offer;
use relay_core::environment::Clock as _;
use relay_core::store::{
    Advance, Advanced, AgentNo, AttachedSession, DeliveryRow, DeliveryStory, FlushRequest, NewFork,
    NewSession, NumberedReport, ReadMark, ReaderGate, Report, ReportKind, Reported, SessionChange,
    SessionRow, SessionTurn, Store, Viewer,
};
use relay_core::{Caller, Result};
use relay_protocol::api::messages::ReadDoor;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, DeliveryMode, FailedReceipt, MessageReceipt,
};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::link::LinkKind;
use relay_protocol::message::AttachmentKind;
use relay_protocol::session_event::AgentSessionEventType;
use relay_protocol::status::{AgentStatus, DEFAULT_SAFE_STATES};
use relay_protocol::time::Timestamp;

use crate::support::TestClock;

/// A store seen from behind.
pub(crate) struct Backstage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) workspace_no: u32,
}

/// A session that can do everything.
pub(crate) fn able() -> AgentSessionCapabilities {
    let mut able = AgentSessionCapabilities::minimum();
    able.messaging.attachments = vec![AttachmentKind::Text, AttachmentKind::Image];
    able.delivery.modes = DeliveryMode::ALL.to_vec();
    able.events.emits = AgentSessionEventType::ALL.to_vec();
    able.lifecycle.pause = Some(true);
    able
}

/// A number that stands for a session: its id and its token.
pub(crate) fn session_id(number: u8) -> SessionId {
    SessionId::new(Timestamp::from_millis(0), number.into())
}

impl Backstage {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<TestClock>, of: &Caller) -> Self {
        Self {
            store,
            clock,
            workspace_no: of.workspace().unwrap().no,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Sees everything.
    pub(crate) fn viewer(&self) -> Viewer {
        Viewer {
            workspace_no: self.workspace_no,
            agent: None,
        }
    }

    /// A session to attach for the workspace.
    pub(crate) fn new_session(&self, agent: &str, number: u8) -> NewSession {
        NewSession {
            viewer: self.viewer(),
            agent: agent.to_owned(),
            at: self.now(),
            id: session_id(number),
            token: [number; 32],
            resume: false,
            harness: "test".to_owned(),
            link: LinkKind::InProcess,
            webhook: None,
            capabilities: able(),
            safe_states: DEFAULT_SAFE_STATES.to_vec(),
            status: None,
            keeps_messages: false,
        }
    }

    pub(crate) async fn attach(&self, agent: &str, number: u8) -> Arc<SessionRow> {
        let new = self.new_session(agent, number);
        self.store.attach_session(new).await.unwrap().session
    }

    pub(crate) async fn resume(&self, agent: &str, number: u8) -> Result<AttachedSession> {
        let new = NewSession {
            resume: true,
            ..self.new_session(agent, number)
        };
        self.store.attach_session(new).await
    }

    pub(crate) async fn fork(
        &self,
        of: &SessionRow,
        number: u8,
        as_agent: Option<&str>,
    ) -> Result<Arc<SessionRow>> {
        let new = NewFork {
            parent: of.no,
            id: session_id(number),
            token: [number; 32],
            as_agent: as_agent.map(str::to_owned),
            at: self.now(),
        };
        self.store.fork_session(new).await
    }

    pub(crate) async fn turn(
        &self,
        session: &SessionRow,
        to: SessionTurn,
    ) -> Result<Arc<SessionRow>> {
        let change = SessionChange {
            session: session.no,
            at: self.now(),
            to,
            reason: Some("test".to_owned()),
            jitter: 0,
        };
        self.store.change_session(change).await
    }

    /// Reports of a session, numbered from there.
    pub(crate) async fn report(
        &self,
        session: &SessionRow,
        first: u64,
        reports: Vec<ReportKind>,
    ) -> Result<Reported> {
        let numbered = (first..).zip(reports);
        let report = Report {
            accepted: false,
            session: session.no,
            at: self.now(),
            events: numbered
                .map(|(n, report)| NumberedReport::new(n, report))
                .collect(),
            jitter: 0,
        };
        self.store.report(report).await
    }

    /// An agent without a session reads up to these messages, each in its place.
    pub(crate) async fn read(&self, reader: AgentNo, messages: Vec<MessageId>) -> Result<()> {
        let workspace = self.store.workspace_by_no(self.workspace_no).await?;
        let mark = ReadMark {
            workspace_no: self.workspace_no,
            reader,
            messages,
            reading: ReadDoor::Inbox.into(),
            offered: Vec::new(),
            gate: ReaderGate {
                session: None,
                workspace,
            },
            at: self.now(),
        };
        self.store.mark_read(mark).await
    }

    pub(crate) async fn story(&self, id: DeliveryId) -> DeliveryStory {
        self.store.delivery(self.viewer(), id).await.unwrap()
    }

    pub(crate) async fn row(&self, id: DeliveryId) -> DeliveryRow {
        self.story(id).await.row
    }

    pub(crate) async fn take(&self, id: DeliveryId, step: Step) -> Result<Advanced> {
        let position = self.row(id).await.position;
        self.store.advance(self.advance(position, step)).await
    }

    pub(crate) fn advance(&self, position: relay_core::store::Position, step: Step) -> Advance {
        Advance {
            position,
            at: self.now(),
            step,
            decisions: Vec::new(),
            jitter: 0,
        }
    }

    /// An offer over a live link.
    pub(crate) fn offer(&self, to: &SessionRow, row: &DeliveryRow, epoch: u64) -> Box<Offer> {
        Box::new(Offer {
            epoch,
            generation: row.generation,
            session: to.no,
            session_id: to.id,
            mode: DeliveryMode::OnIdle,
            why: Cow::Borrowed("the session is idle"),
            offered_at: self.now(),
            live: true,
        })
    }

    /// Offers a delivery and gets this answer.
    pub(crate) async fn answer(
        &self,
        to: &SessionRow,
        id: DeliveryId,
        epoch: u64,
        receipt: MessageReceipt,
    ) -> Result<Advanced> {
        let row = self.row(id).await;
        let step = Step::Receipt {
            session: Some(to.no),
            offer: Some(self.offer(to, &row, epoch)),
            epoch: Some(epoch),
            receipt,
        };
        self.take(id, step).await
    }

    /// A session says something about a delivery that was not offered just now.
    pub(crate) async fn say(
        &self,
        session: &SessionRow,
        id: DeliveryId,
        receipt: MessageReceipt,
    ) -> Result<Advanced> {
        let step = Step::Receipt {
            session: Some(session.no),
            offer: None,
            epoch: None,
            receipt,
        };
        self.take(id, step).await
    }

    pub(crate) async fn cancel(&self, id: DeliveryId) -> Result<Advanced> {
        let step = Step::Cancelled {
            reason: Some("not needed".to_owned()),
            recall: Recall::NotNeeded,
        };
        self.take(id, step).await
    }

    pub(crate) fn flushing(&self, agent: &Caller) -> FlushRequest {
        FlushRequest {
            workspace_no: self.workspace_no,
            agent: agent.agent().unwrap().no,
            mode: None,
            delivery: None,
            at: self.now(),
            limit: 1_000,
        }
    }
}

pub(crate) const fn accepted(delivery_id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Accepted(AcceptedReceipt {
        delivery_id,
        retryable: None,
        metadata: None,
    })
}

pub(crate) const fn delivered(delivery_id: DeliveryId) -> MessageReceipt {
    MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id,
        metadata: None,
    })
}

pub(crate) const fn deferred(delivery_id: DeliveryId, until: Timestamp) -> MessageReceipt {
    MessageReceipt::Deferred(DeferredReceipt {
        delivery_id: Some(delivery_id),
        available_at: until,
        reason: None,
        metadata: None,
    })
}

pub(crate) fn failed(delivery_id: DeliveryId, retryable: bool) -> MessageReceipt {
    MessageReceipt::Failed(FailedReceipt {
        delivery_id: Some(delivery_id),
        reason: "no_room".to_owned(),
        retryable: Some(retryable),
        metadata: None,
    })
}

/// A status as a session reports it.
pub(crate) const fn status(status: AgentStatus) -> ReportKind {
    ReportKind::Status {
        status,
        reason: None,
    }
}
