//! The events of one chat, which go on where they were when the connection breaks, if the server holds the chat for that long.

use std::collections::VecDeque;
use std::time::Duration;

use relay_protocol::permission::PermissionResponse;
use relay_protocol::sse::{SseDecoder, SseEvent};
use relay_protocol::wire::decode_lenient;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{ChatDecided, Chats, NewChat, is_not_found};
use crate::backoff::Backoff;
use crate::client::part;
use crate::error::{Error, Result};
use crate::http::{Call, Streaming};

/// How long nothing may come: the server sends a heartbeat every 15 s.
const SILENCE: Duration = Duration::from_secs(45);

/// Most bytes of one event, which is one line. The server's are far smaller.
const EVENT_BYTES: usize = 64 * 1024 * 1024;

/// An event of a chat.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatEvent {
    /// Its number; questions that are shown again to somebody who came back have none.
    pub number: Option<u64>,
    /// What it says.
    pub data: Value,
}

impl ChatEvent {
    /// What kind it is: `text`, `tool_call`, `relay`, …
    #[must_use]
    pub fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap_or_default()
    }

    /// The chat ends with it.
    fn is_last(&self) -> bool {
        let is_outermost = self.data.get("parentId").is_none();
        is_outermost && matches!(self.kind(), "harness_end" | "error")
    }
}

/// A chat that is looked at.
pub struct Chat {
    chats: Chats,
    session_id: String,
    hold: Option<Duration>,
    streaming: Streaming,
    decoder: SseDecoder,
    /// What was read and not given yet.
    read: VecDeque<ChatEvent>,
    seen: u64,
    is_over: bool,
}

impl Chat {
    pub(super) async fn begin(chats: Chats, new: &NewChat) -> Result<Self> {
        let call = Call::post("/chat", new).about_chats();
        let streaming = chats.http.stream(&call).await?;
        let mut chat = Self {
            chats,
            session_id: String::new(),
            hold: new.hold,
            streaming,
            decoder: decoder(),
            read: VecDeque::new(),
            seen: 0,
            is_over: false,
        };
        chat.learn_name().await?;
        Ok(chat)
    }

    pub(super) async fn look(chats: Chats, session_id: &str, seen: u64) -> Result<Self> {
        Ok(Self {
            streaming: chats.http.stream(&look(session_id, seen)).await?,
            chats,
            session_id: session_id.to_owned(),
            hold: None,
            decoder: decoder(),
            read: VecDeque::new(),
            seen,
            is_over: false,
        })
    }

    /// The name of the chat; whoever knows it may decide about its calls.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The next event; nothing after the last. What was read stays when nobody waits for this any more.
    pub async fn next(&mut self) -> Result<Option<ChatEvent>> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.seen = event.number.unwrap_or(self.seen);
                self.is_over |= event.is_last();
                return Ok(Some(event));
            }
            match self.read_on().await {
                Ok(true) => {}
                _ if self.is_over => return Ok(None),
                Ok(false) => {
                    let error = Error::Broken("it ended before the chat did".to_owned());
                    self.come_back(error).await?;
                }
                Err(error) if error.is_retryable() => self.come_back(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Decides about a call of it.
    pub async fn resolve(
        &self,
        relay_id: &str,
        answer: &PermissionResponse,
    ) -> Result<ChatDecided> {
        let chats = &self.chats;
        chats.resolve(&self.session_id, relay_id, answer).await
    }

    /// Cancels it; the events tell its end.
    pub async fn cancel(&self) -> Result<()> {
        self.chats.cancel(&self.session_id).await
    }

    /// The first event says what the chat is called.
    async fn learn_name(&mut self) -> Result<()> {
        while self.read.is_empty() {
            if !self.read_on().await? {
                let why = "it ended before the chat began";
                return Err(Error::Broken(why.to_owned()));
            }
        }
        let name = self.read[0].data["sessionId"].as_str();
        name.unwrap_or_default().clone_into(&mut self.session_id);
        Ok(())
    }

    /// Reads what comes next; false at the end.
    async fn read_on(&mut self) -> Result<bool> {
        let piece = timeout(SILENCE, self.streaming.piece()).await;
        let Some(piece) = piece.map_err(|_| Error::TimedOut(SILENCE))?? else {
            return Ok(false);
        };
        let mut events = Vec::new();
        let read = self.decoder.push(&piece, &mut events);
        for event in events {
            self.read.push_back(parsed(event)?);
        }
        read.map_err(|error| Error::Broken(error.to_string()))?;
        Ok(true)
    }

    /// Looks again, as often as it takes while the server holds the chat.
    async fn come_back(&mut self, lost: Error) -> Result<()> {
        let Some(hold) = self.hold.filter(|_| !self.session_id.is_empty()) else {
            return Err(lost);
        };
        let until = Instant::now() + hold;
        let mut backoff = Backoff::default();
        loop {
            let call = look(&self.session_id, self.seen);
            match self.chats.http.stream_once(&call).await {
                Ok(streaming) => {
                    self.streaming = streaming;
                    // Half of an event comes again, whole.
                    self.decoder = decoder();
                    return Ok(());
                }
                Err(error) if is_not_found(&error) => {
                    let why = "the server does not have the chat any more";
                    return Err(Error::Broken(why.to_owned()));
                }
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    let wait = backoff.next();
                    if Instant::now() + wait > until {
                        return Err(error);
                    }
                    sleep(wait).await;
                }
            }
        }
    }
}

fn look(session_id: &str, seen: u64) -> Call {
    let call = Call::get(format!("/chat/{}/events", part(session_id)));
    call.after(seen).about_chats()
}

fn decoder() -> SseDecoder {
    SseDecoder::with_bounds(EVENT_BYTES, EVENT_BYTES)
}

fn parsed(event: SseEvent) -> Result<ChatEvent> {
    Ok(ChatEvent {
        number: event.id.and_then(|id| id.parse().ok()),
        data: decode_lenient(event.data.as_bytes())?,
    })
}
