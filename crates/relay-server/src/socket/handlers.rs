//! What each frame of a client does.

use std::sync::Arc;

use futures_util::FutureExt as _;
use relay_core::{Engine, Reach};
use relay_protocol::action::{CompleteInvocation, FailInvocation, RegisterAction};
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::SessionId;
use relay_protocol::limits::{
    ACTIONS_PER_CONNECTION, SESSIONS_PER_CONNECTION, SUBSCRIPTION_ID_CHARS,
    SUBSCRIPTIONS_PER_CONNECTION,
};
use relay_protocol::link::{LinkKind, NoOptions};
use relay_protocol::negotiation::{CapabilityMismatch, check_expose, check_send};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::{Attach, NumberedEvent, ReportEvents};
use relay_protocol::socket::{
    Ack, BoundaryFrame, ClientFrame, ClientRequest, ControlResult, FrameRef, InvocationResult,
    OkFrame, ReceiptFrame, ServerMessage, SessionEventFrame, Subscribe, Unsubscribe,
};
use serde_json::json;

use super::follow::NewSubscription;
use super::link::SocketLink;
use super::outbox::Outgoing;
use super::reader::{Answer, Answering, Handling, LinkedSession, Reader};
use crate::refusal::Refusal;

type Answered = Result<ServerMessage, Refusal>;

impl Reader {
    /// Does what a frame asks for, once those before it are answered.
    pub(super) async fn handle(&mut self, frame: ClientFrame) {
        let ClientFrame { reference, request } = frame;
        self.store_text();
        self.finish_answers().await;
        let answer = match request {
            ClientRequest::Attach(attach) => return self.attach(reference, attach).await,
            ClientRequest::Subscribe(subscribe) => {
                return self.subscribe(reference, subscribe).await;
            }
            ClientRequest::Unsubscribe(unsubscribe) => self.unsubscribe(&unsubscribe),
            ClientRequest::Boundary(boundary) => self.boundary(&boundary).await,
            ClientRequest::ControlResult(result) => self.control_result(result).await,
            ClientRequest::Ping(_) => Ok(ServerMessage::Pong(NoOptions {})),
            ClientRequest::RegisterAction(action) => {
                return self.register_action(reference, action).await;
            }
            ClientRequest::Hello(_) => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "hello comes first, and only when no credential was in the header",
            )),
            // Started without waiting, see the reader.
            ClientRequest::Send(_)
            | ClientRequest::Receipt(_)
            | ClientRequest::Event(_)
            | ClientRequest::InvocationResult(_) => return,
        };
        self.answer(Answer { reference, answer }).await;
    }

    pub(super) fn send(&self, reference: Option<FrameRef>, send: SendMessage) -> Answering {
        let allowed = self.check_may_send();
        let access = self.access.clone();
        let sending = async move {
            let answer = async {
                allowed?;
                let sent = access.engine().send(access.caller(), send).await?;
                Ok(ServerMessage::Sent(Box::new(sent)))
            };
            let answer = answer.await;
            Box::new(Answer { reference, answer })
        };
        sending.boxed()
    }

    /// What is sent over a session's socket is sent by that session, which has to have said that it can.
    fn check_may_send(&self) -> Result<(), Refusal> {
        self.check_any(|session| &session.may_send)
    }

    /// One session of the connection that may is enough; without any it is the agent itself that asks.
    fn check_any(
        &self,
        may: impl Fn(&LinkedSession) -> &Result<(), CapabilityMismatch>,
    ) -> Result<(), Refusal> {
        let mut refused = None;
        for session in self.sessions.values() {
            match may(session) {
                Ok(()) => return Ok(()),
                Err(mismatch) => refused = Some(mismatch.clone()),
            }
        }
        match refused {
            None => Ok(()),
            Some(mismatch) => Err(Problem::from(mismatch).into()),
        }
    }

    pub(super) fn receipt(&self, reference: Option<FrameRef>, frame: ReceiptFrame) -> Answering {
        let via = self.offered_to(&frame);
        if !matches!(frame.receipt, MessageReceipt::Accepted(_)) {
            self.offers.settled(frame.delivery_id);
        }
        let access = self.access.clone();
        let storing = async move {
            let stored = access.engine().receipt(access.caller(), via, frame).await;
            let answer = stored.map_err(Refusal::from).map(|stored| {
                ServerMessage::Ok(OkFrame {
                    duplicate: stored.late.then_some(true),
                    result: Some(json!({ "state": stored.state })),
                    warnings: None,
                })
            });
            Box::new(Answer { reference, answer })
        };
        storing.boxed()
    }

    /// The session that a receipt speaks for.
    fn offered_to(&self, frame: &ReceiptFrame) -> Option<SessionId> {
        let mut sessions = self.sessions.keys();
        match (sessions.next(), sessions.next()) {
            (Some(only), None) => Some(*only),
            _ => self
                .offers
                .session(frame.delivery_id)
                .filter(|session| self.sessions.contains_key(session)),
        }
    }

    pub(super) fn event(&self, reference: Option<FrameRef>, frame: SessionEventFrame) -> Answering {
        let known = self.require_own(frame.session_id);
        let access = self.access.clone();
        let storing = async move {
            let answer = async {
                known?;
                let SessionEventFrame {
                    session_id,
                    n,
                    event,
                } = frame;
                let report = ReportEvents::One(Box::new(NumberedEvent { n, event }));
                let acked = access
                    .engine()
                    .report(access.caller(), session_id, report)
                    .await?;
                Ok(ServerMessage::Ack(Ack {
                    session_id,
                    n: acked.acked,
                }))
            };
            let answer = answer.await;
            Box::new(Answer { reference, answer })
        };
        storing.boxed()
    }

    /// A session belongs to the connection that attached it.
    fn require_own(&self, session: SessionId) -> Result<(), Refusal> {
        if self.sessions.contains_key(&session) {
            Ok(())
        } else {
            Err(relay_core::Error::UnknownSession(session).into())
        }
    }

    async fn attach(&mut self, reference: Option<FrameRef>, attach: Attach) {
        let link = SocketLink::new(self.outbox.clone(), self.offers.clone());
        match self.attached(attach, &link).await {
            Ok(answer) => {
                self.outbox.answer(reference, answer).await;
                // Only now: the session has to learn first that it is attached.
                link.open();
            }
            Err(refusal) => self.outbox.refuse(reference, refusal.0).await,
        }
    }

    async fn attached(&mut self, attach: Attach, link: &Arc<SocketLink>) -> Answered {
        if self.sessions.len() >= SESSIONS_PER_CONNECTION {
            let what = "sessions of a connection";
            return Err(too_many(what, SESSIONS_PER_CONNECTION));
        }
        let may_send = check_send(&attach.capabilities);
        let may_expose = check_expose(&attach.capabilities);
        let reach = Reach {
            kind: LinkKind::WebSocket,
            webhook: None,
            link: Some(link.clone()),
        };
        let (attached, link_id) = self
            .engine()
            .attach(self.access.caller(), attach, reach)
            .await?;
        for delivery in &attached.keep {
            self.offers.add(*delivery, attached.session_id);
        }
        let session = LinkedSession {
            link: link.clone(),
            link_id,
            may_send,
            may_expose,
        };
        self.sessions.insert(attached.session_id, session);
        Ok(ServerMessage::Attached(attached))
    }

    async fn register_action(&mut self, reference: Option<FrameRef>, action: RegisterAction) {
        let link = SocketLink::new(self.outbox.clone(), self.offers.clone());
        match self.handles(action, &link).await {
            Ok(answer) => {
                self.outbox.answer(reference, answer).await;
                // Only now: the handler has to learn first that it is registered.
                link.open();
            }
            Err(refusal) => self.outbox.refuse(reference, refusal.0).await,
        }
    }

    async fn handles(&mut self, action: RegisterAction, link: &Arc<SocketLink>) -> Answered {
        self.check_any(|session| &session.may_expose)?;
        if self.handlers.len() >= ACTIONS_PER_CONNECTION {
            return Err(too_many("actions of a connection", ACTIONS_PER_CONNECTION));
        }
        let (info, id) = self
            .engine()
            .handle_action(self.access.caller(), action, link.clone())
            .await?;
        let handling = Handling {
            link: link.clone(),
            id,
        };
        // Registered again over the same connection: calls come once.
        if let Some(before) = self.handlers.insert(info.name.clone(), handling) {
            before.link.close();
            self.engine().handler_gone(before.id);
        }
        Ok(ServerMessage::Ok(OkFrame {
            result: Some(json!(info)),
            ..OkFrame::default()
        }))
    }

    pub(super) fn invocation_result(
        &self,
        reference: Option<FrameRef>,
        result: InvocationResult,
    ) -> Answering {
        let access = self.access.clone();
        let storing = async move {
            let (engine, caller, id) = (access.engine(), access.caller(), result.invocation_id);
            let ended = match result.error {
                None => {
                    let output = result.output;
                    let body = CompleteInvocation { output };
                    engine.complete_invocation(caller, id, body).await
                }
                Some(error) => {
                    let retryable = result.retryable;
                    let body = FailInvocation { error, retryable };
                    engine.fail_invocation(caller, id, body).await
                }
            };
            let answer = ended.map_err(Refusal::from).map(|ended| {
                ServerMessage::Ok(OkFrame {
                    result: Some(json!({ "state": ended.state })),
                    ..OkFrame::default()
                })
            });
            Box::new(Answer { reference, answer })
        };
        storing.boxed()
    }

    async fn subscribe(&mut self, reference: Option<FrameRef>, frame: Subscribe) {
        match self.subscribed(frame).await {
            Ok((answer, new)) => {
                self.outbox.answer(reference, answer).await;
                self.outbox.tell(Outgoing::Subscribe(Box::new(new)));
            }
            Err(refusal) => self.outbox.refuse(reference, refusal.0).await,
        }
    }

    async fn subscribed(
        &mut self,
        frame: Subscribe,
    ) -> Result<(ServerMessage, NewSubscription), Refusal> {
        if frame.id.is_empty() || frame.id.chars().count() > SUBSCRIPTION_ID_CHARS {
            let expected = format!("1 to {SUBSCRIPTION_ID_CHARS} characters");
            return Err(Refusal::invalid("id", expected, &frame.id));
        }
        if self.subscriptions.contains(&frame.id) {
            let expected = "the name of no other subscription of this connection";
            return Err(Refusal::invalid("id", expected, &frame.id));
        }
        if self.subscriptions.len() >= SUBSCRIPTIONS_PER_CONNECTION {
            let what = "subscriptions of a connection";
            return Err(too_many(what, SUBSCRIPTIONS_PER_CONNECTION));
        }
        let (engine, caller) = (self.engine(), self.access.caller());
        let selector = engine.knowing(caller, frame.selector()?).await?;
        let warning = engine.unobservable(caller, &selector).await?;
        // Refuses a place that is not in the log, and finds the end of it.
        let begun = engine
            .subscribe(caller, selector.clone(), frame.after)
            .await?;
        let new = NewSubscription {
            id: frame.id.clone(),
            selector,
            after: begun.after(),
        };
        self.subscriptions.insert(frame.id);
        let answer = ServerMessage::Ok(OkFrame {
            duplicate: None,
            result: Some(json!({ "after": begun.after() })),
            warnings: warning.map(|problem| vec![problem]),
        });
        Ok((answer, new))
    }

    fn unsubscribe(&mut self, frame: &Unsubscribe) -> Answered {
        if !self.subscriptions.remove(&frame.id) {
            let expected = "the name of a subscription of this connection";
            return Err(Refusal::invalid("id", expected, &frame.id));
        }
        self.outbox
            .tell(Outgoing::Unsubscribe(frame.id.as_str().into()));
        Ok(done())
    }

    async fn boundary(&mut self, frame: &BoundaryFrame) -> Answered {
        self.require_own(frame.session_id)?;
        self.engine()
            .at_boundary(self.access.caller(), frame.session_id, frame.kind)
            .await?;
        Ok(done())
    }

    async fn control_result(&mut self, result: ControlResult) -> Answered {
        let mut refusal = Refusal::invalid(
            "controlId",
            "an operation that a session of this connection was asked for",
            &result.control_id.to_string(),
        );
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            let answered = self
                .engine()
                .control_result(self.access.caller(), session, result.clone())
                .await;
            match answered {
                Ok(_) => return Ok(done()),
                Err(error) => refusal = error.into(),
            }
        }
        Err(refusal)
    }

    fn engine(&self) -> &Engine {
        self.access.engine()
    }
}

fn done() -> ServerMessage {
    ServerMessage::Ok(OkFrame::default())
}

fn too_many(what: &'static str, most: usize) -> Refusal {
    let found = most + 1;
    relay_core::Error::LimitExceeded { what, most, found }.into()
}
