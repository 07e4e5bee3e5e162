//! The events of one chat, which go on where they were when the connection breaks, if the server holds the chat for that long.

use std::collections::VecDeque;
use std::time::Duration;

use relay_harness::llm::sse::{SseDecoder, SseEvent};
use relay_outbound::Streaming;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::api::Api;
use crate::failure::{Exit, Failure, Outcome};

/// How long nothing may come: the server sends a heartbeat every 15 s.
const SILENCE: Duration = Duration::from_secs(45);

/// Most bytes of one event, which is one line. The server's are far smaller.
const EVENT_BYTES: usize = 64 * 1024 * 1024;

/// Before it is tried again to come back: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The events.
pub(super) struct Events<'a> {
    api: &'a Api,
    streaming: Streaming,
    decoder: SseDecoder,
    /// What was read and not told yet.
    read: VecDeque<SseEvent>,
    hold: Option<Duration>,
    session_id: String,
    seen: u64,
    is_over: bool,
}

impl<'a> Events<'a> {
    /// Begins a chat.
    pub(super) async fn begin(api: &'a Api, body: &Value, hold: Option<Duration>) -> Outcome<Self> {
        Ok(Self {
            streaming: api.begin(body).await?,
            api,
            decoder: decoder(),
            read: VecDeque::new(),
            hold,
            session_id: String::new(),
            seen: 0,
            is_over: false,
        })
    }

    /// The name of the chat, once it is known.
    pub(super) fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The next event; nothing after the last. What was read stays when nobody waits for this any more.
    pub(super) async fn next(&mut self) -> Outcome<Option<Value>> {
        loop {
            if let Some(event) = self.read.pop_front() {
                let data = serde_json::from_str(&event.data)
                    .map_err(|_| unreadable("an event is no JSON"))?;
                // Those that are shown again have no number.
                let number = event.id.and_then(|id| id.parse().ok());
                self.seen = number.unwrap_or(self.seen);
                self.notice(&data);
                return Ok(Some(data));
            }
            let why = match timeout(SILENCE, self.streaming.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    let mut events = Vec::new();
                    let read = self.decoder.push(&bytes, &mut events);
                    read.map_err(|error| unreadable(&error.message))?;
                    self.read.extend(events);
                    continue;
                }
                _ if self.is_over => return Ok(None),
                Ok(Ok(None)) => "it ended before the chat did".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "nothing comes any more".to_owned(),
            };
            self.come_back(&why).await?;
        }
    }

    fn notice(&mut self, event: &Value) {
        let is_outermost = event.get("parentId").is_none();
        match event["type"].as_str() {
            Some("connected") => {
                let session_id = event["sessionId"].as_str().unwrap_or_default();
                session_id.clone_into(&mut self.session_id);
            }
            Some("harness_end" | "error") if is_outermost => self.is_over = true,
            _ => {}
        }
    }

    /// Looks again, as often as it takes while the server holds the chat.
    async fn come_back(&mut self, why: &str) -> Outcome {
        let lost = |why: &str| {
            let message = format!("the connection broke: {why}");
            Failure::new(Exit::ServerAway, "connection_lost", message)
        };
        let hold = self.hold.filter(|_| !self.session_id.is_empty());
        let Some(hold) = hold else {
            return Err(lost(why));
        };
        let until = Instant::now() + hold;
        let mut wait = RETRY.0;
        loop {
            match self.api.look(&self.session_id, self.seen).await {
                Ok(streaming) => {
                    self.streaming = streaming;
                    // Half of an event comes again, whole.
                    self.decoder = decoder();
                    return Ok(());
                }
                Err(failure) if failure.exit() == Exit::NotFound => {
                    return Err(lost("the server does not have the chat any more"));
                }
                Err(failure) if failure.exit() != Exit::ServerAway => return Err(failure),
                Err(failure) if Instant::now() + wait > until => {
                    return Err(lost(failure.message()));
                }
                Err(_) => {}
            }
            sleep(wait).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }
}

fn decoder() -> SseDecoder {
    SseDecoder::with_bounds(EVENT_BYTES, EVENT_BYTES)
}

fn unreadable(why: &str) -> Failure {
    let message = format!("what the server sends can't be read: {why}");
    Failure::new(Exit::Failed, "incompatible", message)
}
