//! The task that reads from a socket: frames in the order in which they come, answers in the same order.
//!
//! Sends, receipts, reports and results of calls are started one after the other without waiting for each to end, so a client
//! can have many under way; every other frame waits for those before it.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, SplitStream};
use relay_core::HandlerId;
use relay_core::link::{CloseReason, LinkId};
use relay_protocol::ids::SessionId;
use relay_protocol::limits::PIPELINED_FRAMES;
use relay_protocol::negotiation::CapabilityMismatch;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::socket::{
    CLOSE_GOING_AWAY, CLOSE_SUPERSEDED, CLOSE_TOO_LARGE, ClientFrame, ClientRequest, ErrorFrame,
    FrameRef, ServerMessage,
};
use relay_protocol::wire;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite;

use super::link::{LinkClosing, Offers, SocketLink};
use super::outbox::{Attention, Outbox};
use super::watch::Watch;
use super::{CLOSE_SILENT, CLOSE_SLOW};
use crate::access::{Access, Reader as MayRead};
use crate::refusal::Refusal;

/// An answer that is on its way.
pub(super) type Answering = BoxFuture<'static, Box<Answer>>;

/// What is answered to a frame.
pub(super) struct Answer {
    pub(super) reference: Option<FrameRef>,
    pub(super) answer: Result<ServerMessage, Refusal>,
}

/// Reads from one socket.
pub(super) struct Reader {
    pub(super) access: Access<MayRead>,
    pub(super) outbox: Outbox,
    pub(super) sessions: HashMap<SessionId, LinkedSession>,
    pub(super) subscriptions: HashSet<String>,
    /// What this connection handles, by the action's name.
    pub(super) handlers: HashMap<String, Handling>,
    pub(super) offers: Offers,
    stream: SplitStream<WebSocket>,
    answers: FuturesOrdered<Answering>,
    _hang_up: HangUp,
}

/// Lets the writer end when nobody reads any more, whatever the reason.
struct HangUp(Outbox);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.close(&(1000, ""));
    }
}

/// A session whose link is this connection.
pub(super) struct LinkedSession {
    pub(super) link: Arc<SocketLink>,
    pub(super) link_id: Option<LinkId>,
    /// Whether it declared `messaging.send` and `actions.expose`.
    pub(super) may_send: Result<(), CapabilityMismatch>,
    pub(super) may_expose: Result<(), CapabilityMismatch>,
}

/// An action whose calls come over this connection.
pub(super) struct Handling {
    pub(super) link: Arc<SocketLink>,
    pub(super) id: HandlerId,
}

/// Why a connection ends.
enum End {
    /// The client or the network ended it.
    Gone,
    /// The server ends it, with a word.
    Close(&'static (u16, &'static str)),
}

impl Reader {
    pub(super) fn new(
        access: Access<MayRead>,
        stream: SplitStream<WebSocket>,
        outbox: Outbox,
    ) -> Box<Self> {
        Box::new(Self {
            access,
            _hang_up: HangUp(outbox.clone()),
            outbox,
            sessions: HashMap::new(),
            subscriptions: HashSet::new(),
            handlers: HashMap::new(),
            offers: Offers::default(),
            stream,
            answers: FuturesOrdered::new(),
        })
    }

    /// Reads until the connection ends; then its sessions have lost their link. What is left is to be read to the end of the
    /// closing handshake.
    pub(super) async fn run(mut self: Box<Self>) -> SplitStream<WebSocket> {
        let end = self.read().await;
        self.store_text();
        let outbox = self.outbox.clone();
        let finished = tokio::select! {
            () = Box::pin(self.finish_answers()) => true,
            () = outbox.writer_gone() => false,
        };
        for (id, session) in self.sessions.drain() {
            session.link.close();
            if let Some(link) = session.link_id {
                self.access.engine().link_lost(id, link);
            }
        }
        for (_, handling) in self.handlers.drain() {
            handling.link.close();
            self.access.engine().handler_gone(handling.id);
        }
        if let End::Close(why) = end
            && finished
        {
            self.outbox.close(why);
        }
        self.stream
    }

    async fn read(&mut self) -> End {
        let (app, outbox) = (self.access.app().clone(), self.outbox.clone());
        // These two are shared by all connections; to wait for them anew with each frame would cost more
        // than the frame.
        let mut stopping = pin!(app.stopping().cancelled());
        let mut watch = Watch::new(app.config());
        let mut look = pin!(sleep_until(watch.next()));
        loop {
            let has_room = self.answers.len() < PIPELINED_FRAMES;
            let is_answering = !self.answers.is_empty();
            tokio::select! {
                biased;
                attention = outbox.attention() => {
                    let Attention::LinkClosing(closing) = attention else {
                        return End::Gone;
                    };
                    if let Some(end) = Box::pin(self.link_closed(closing)).await {
                        return end;
                    }
                }
                () = &mut stopping => return End::Close(&CLOSE_GOING_AWAY),
                Some(answer) = self.answers.next(), if is_answering => {
                    Box::pin(self.answer(*answer)).await;
                }
                message = self.stream.next(), if has_room => {
                    watch.heard(Instant::now());
                    // On the heap, like the rest: it is large, and most connections are silent.
                    if let Some(end) = Box::pin(self.take(message)).await {
                        return end;
                    }
                }
                () = &mut look => {
                    let now = Instant::now();
                    if !has_room {
                        // It may well speak; it is not listened to.
                        watch.heard(now);
                    }
                    if watch.is_silent(now) {
                        return End::Close(&CLOSE_SILENT);
                    }
                    look.as_mut().reset(watch.next());
                }
            }
        }
    }

    /// Handles what came from the network.
    async fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Option<End> {
        match message {
            None => Some(End::Gone),
            Some(Err(error)) => Some(broken(error)),
            Some(Ok(Message::Close(_))) => Some(End::Gone),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => None,
            Some(Ok(Message::Binary(_))) => {
                let detail = "expected a text frame with one JSON object, found a binary frame";
                self.refuse_unread(None, Problem::new(ErrorCode::InvalidRequest, detail))
                    .await;
                None
            }
            Some(Ok(Message::Text(text))) => {
                self.keep_pace().await;
                self.access.app().metrics().frame_in();
                match wire::decode::<ClientFrame>(text.as_bytes()) {
                    Ok(frame) => {
                        if let Some(frame) = self.start_pipelined(frame) {
                            self.handle(frame).await;
                        }
                    }
                    Err(error) => {
                        let problem = Refusal::decoding(&error).0;
                        self.refuse_unread(reference_of(&text), *problem).await;
                    }
                }
                None
            }
        }
    }

    /// Waits while the token asks too often. The client is not read meanwhile.
    async fn keep_pace(&mut self) {
        while let Err(wait) = self.access.count() {
            self.access.app().metrics().rate_limited();
            tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
        }
    }

    /// Starts what need not wait for the frames before it; gives back what has to.
    fn start_pipelined(&mut self, frame: ClientFrame) -> Option<ClientFrame> {
        let ClientFrame { reference, request } = frame;
        let answering = match request {
            ClientRequest::Send(send) => self.send(reference, send),
            ClientRequest::Receipt(receipt) => self.receipt(reference, receipt),
            ClientRequest::Event(event) => self.event(reference, event),
            ClientRequest::InvocationResult(result) => self.invocation_result(reference, result),
            request => return Some(ClientFrame { reference, request }),
        };
        self.answers.push_back(answering);
        None
    }

    async fn refuse_unread(&mut self, reference: Option<FrameRef>, problem: Problem) {
        self.finish_answers().await;
        self.outbox.refuse(reference, Box::new(problem)).await;
    }

    /// Has the text stored that the connection's sessions have reported and that is held: what comes now comes
    /// after it, and does not wait until its time is over.
    pub(super) fn store_text(&self) {
        for session in self.sessions.keys() {
            self.access.engine().store_text(*session);
        }
    }

    /// Waits for everything that was started.
    pub(super) async fn finish_answers(&mut self) {
        while let Some(answer) = self.answers.next().await {
            self.answer(*answer).await;
        }
    }

    pub(super) async fn answer(&mut self, answer: Answer) {
        let Answer { reference, answer } = answer;
        match answer {
            Ok(message) => self.outbox.answer(reference, message).await,
            Err(refusal) => self.outbox.refuse(reference, refusal.0).await,
        }
    }

    /// A session has ended, or came back over another link.
    async fn link_closed(&mut self, closing: LinkClosing) -> Option<End> {
        let mut handlers = self.handlers.values();
        if handlers.any(|handling| Arc::ptr_eq(&handling.link, &closing.link)) {
            // It did not take a call in time. What it has goes to others once it is gone.
            return Some(End::Close(&CLOSE_SLOW));
        }
        let found = self
            .sessions
            .iter()
            .find(|(_, session)| Arc::ptr_eq(&session.link, &closing.link));
        // Not there: the session came back over this very connection.
        let id = *found?.0;
        self.sessions.remove(&id);
        match closing.reason {
            None => Some(End::Close(&CLOSE_SLOW)),
            Some(CloseReason::Ended) => None,
            Some(CloseReason::Superseded) if self.sessions.is_empty() => {
                Some(End::Close(&CLOSE_SUPERSEDED))
            }
            Some(CloseReason::Superseded) => {
                let detail = format!("the session {id} came back over another link");
                let mut problem = Problem::new(ErrorCode::SessionUnreachable, detail);
                problem.found = Some(id.to_string());
                problem.retryable = false;
                let error = ErrorFrame {
                    problem: Box::new(problem),
                };
                self.outbox.answer(None, ServerMessage::Error(error)).await;
                None
            }
        }
    }
}

/// What a frame that can't be read says about the answer to it.
fn reference_of(text: &str) -> Option<FrameRef> {
    #[derive(serde::Deserialize)]
    struct Outside {
        r#ref: FrameRef,
    }
    let outside: Result<Outside, _> = serde_json::from_str(text);
    outside.ok().map(|outside| outside.r#ref)
}

/// What an error of the network means.
fn broken(error: axum::Error) -> End {
    let inner = error.into_inner();
    match inner.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => End::Close(&CLOSE_TOO_LARGE),
        Some(tungstenite::Error::Utf8(_)) => End::Close(&(1007, "not_utf8")),
        Some(tungstenite::Error::Protocol(_)) => End::Close(&(1002, "protocol_error")),
        _ => End::Gone,
    }
}
