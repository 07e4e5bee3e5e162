//! The one task that writes to a socket.
//!
//! It takes what is queued, then events of the log, as many as are there up to a share, and flushes once for
//! all of them. A client that does not read makes it wait, which holds up nobody else: events stay in the
//! log, and after a while the client counts as dead.

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::stream::SplitSink;
use futures_util::{FutureExt as _, SinkExt as _};
use relay_core::Followed;
use relay_core::link::Deliver;
use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::SessionId;
use relay_protocol::limits::SOCKET_CLOSE_MS;
use relay_protocol::message::RelayMessage;
use relay_protocol::socket::{CLOSE_UNAUTHORIZED, Lagged, ServerFrame, ServerMessage};
use serde::Serialize;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::follow::Follower;
use super::outbox::{Outgoing, Queue};
use super::{CLOSE_INTERNAL, close_frame};
use crate::access::{Access, Reader};

/// Most frames between two flushes.
const SHARE: usize = 64;

/// Writes to one socket.
pub(super) struct Writer {
    access: Access<Reader>,
    sink: SplitSink<WebSocket, Message>,
    queue: Queue,
    follower: Follower,
}

/// Why writing is over.
struct Over;

/// What the writer turns to next.
enum Turn {
    Queued(Outgoing),
    Followed(Result<Followed, crate::refusal::Refusal>),
    Ping,
}

impl Writer {
    pub(super) fn new(
        access: Access<Reader>,
        sink: SplitSink<WebSocket, Message>,
        queue: Queue,
    ) -> Box<Self> {
        Box::new(Self {
            follower: Follower::new(access.clone()),
            access,
            sink,
            queue,
        })
    }

    /// Writes until there is nothing more to say, or nobody to say it to.
    pub(super) async fn run(mut self: Box<Self>) {
        let every = self.access.app().config().ping_every;
        let mut pings = interval_at(Instant::now() + every, every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ended = self.access.ended();
        loop {
            let turn = tokio::select! {
                biased;
                () = &mut ended => return Box::pin(self.close_unauthorized()).await,
                queued = self.queue.next() => Turn::Queued(queued),
                followed = self.follower.next() => Turn::Followed(followed),
                _ = pings.tick() => Turn::Ping,
            };
            let patience = self.access.app().config().silence;
            // On the heap for as long as it takes: it is large, and most connections are silent.
            let written = tokio::select! {
                biased;
                () = &mut ended => None,
                written = timeout(patience, Box::pin(self.write_share(turn))) => Some(written),
            };
            match written {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(Over))) => return,
                Some(Err(_)) => {
                    tracing::debug!("a client does not read");
                    return;
                }
                None => return Box::pin(self.close_unauthorized()).await,
            }
        }
    }

    /// Ends a connection whose credential has ended. What is queued for it is dropped first, which ends the reader, too.
    async fn close_unauthorized(self: Box<Self>) {
        let Self {
            mut sink, queue, ..
        } = *self;
        drop(queue);
        let patience = Duration::from_millis(SOCKET_CLOSE_MS);
        let _ = timeout(patience, sink.send(close_frame(CLOSE_UNAUTHORIZED))).await;
    }

    /// Writes one thing and what else is there, and flushes.
    async fn write_share(&mut self, first: Turn) -> Result<(), Over> {
        self.write(first).await?;
        for _ in 0..SHARE {
            match self.queue.next_now() {
                Some(queued) => self.write(Turn::Queued(queued)).await?,
                None => break,
            }
        }
        for _ in 0..SHARE {
            if self.follower.is_idle() {
                break;
            }
            match self.follower.next().now_or_never() {
                Some(followed) => self.write(Turn::Followed(followed)).await?,
                None => break,
            }
        }
        self.sink.flush().await.map_err(|_| Over)
    }

    async fn write(&mut self, turn: Turn) -> Result<(), Over> {
        match turn {
            Turn::Ping => self.feed(Message::Ping(bytes::Bytes::new())).await,
            Turn::Queued(queued) => self.write_queued(queued).await,
            Turn::Followed(Ok(followed)) => self.write_followed(&followed).await,
            Turn::Followed(Err(refusal)) => {
                tracing::warn!(code = %refusal.0.code, "the log can't be followed");
                self.close(CLOSE_INTERNAL).await
            }
        }
    }

    async fn write_queued(&mut self, queued: Outgoing) -> Result<(), Over> {
        match queued {
            Outgoing::Answer(text) => self.feed_text(text).await,
            Outgoing::Deliver(deliver) => self.feed_text(deliver_text(&deliver)).await,
            Outgoing::Control(control) => {
                self.feed_text(text_of(ServerMessage::Control(*control)))
                    .await
            }
            Outgoing::Invoke(invoke) => {
                self.feed_text(text_of(ServerMessage::Invoke(*invoke)))
                    .await
            }
            Outgoing::Subscribe(new) => self.followed(|it| it.add(*new).boxed()).await,
            Outgoing::Unsubscribe(id) => {
                self.followed(|it| async move { it.remove(&id).await }.boxed())
                    .await
            }
            Outgoing::Close(why) => self.close(*why).await,
        }
    }

    /// Changes what is followed.
    async fn followed(
        &mut self,
        change: impl FnOnce(
            &mut Follower,
        )
            -> futures_util::future::BoxFuture<'_, Result<(), crate::refusal::Refusal>>,
    ) -> Result<(), Over> {
        match change(&mut self.follower).await {
            Ok(()) => Ok(()),
            Err(refusal) => {
                tracing::warn!(code = %refusal.0.code, "the log can't be followed");
                self.close(CLOSE_INTERNAL).await
            }
        }
    }

    async fn write_followed(&mut self, followed: &Followed) -> Result<(), Over> {
        let metrics = self.access.app().metrics();
        match followed {
            Followed::Event(event) => {
                metrics.event_out();
                // JSON is text; the bytes are shared by all who follow.
                let text = Utf8Bytes::try_from(event.frame().clone()).map_err(|_| Over)?;
                self.feed(Message::Text(text)).await
            }
            Followed::Lagged { resume_after } => {
                metrics.lagged();
                let lagged = text_of(ServerMessage::Lagged(Lagged {
                    resume_after: *resume_after,
                }));
                self.feed_text(lagged).await
            }
        }
    }

    async fn feed_text(&mut self, text: String) -> Result<(), Over> {
        self.feed(Message::Text(Utf8Bytes::from(text))).await
    }

    async fn feed(&mut self, message: Message) -> Result<(), Over> {
        self.access.app().metrics().frame_out();
        self.sink.feed(message).await.map_err(|_| Over)
    }

    async fn close(&mut self, why: (u16, &'static str)) -> Result<(), Over> {
        let _ = self.sink.send(close_frame(why)).await;
        Err(Over)
    }
}

fn text_of(message: ServerMessage) -> String {
    serde_json::to_string(&ServerFrame::of(message)).unwrap_or_default()
}

/// The frame `deliver`, written from what is shared with other recipients.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeliverJson<'a> {
    #[serde(rename = "type")]
    frame_type: &'static str,
    session_id: SessionId,
    message: &'a RelayMessage,
    context: &'a MessageContext,
}

fn deliver_text(deliver: &Deliver) -> String {
    let frame = DeliverJson {
        frame_type: "deliver",
        session_id: deliver.session_id,
        message: &deliver.message,
        context: &deliver.context,
    };
    serde_json::to_string(&frame).unwrap_or_default()
}
