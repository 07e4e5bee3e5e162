//! One look at a chat: what waits for a decision, what was missed, then what happens.
//!
//! A viewer holds nothing but its place in the log, so a slow one costs no memory. No event comes twice: a question that was shown at the
//! beginning is left out where it would come again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use relay_protocol::limits::CHAT_HEARTBEAT_MS;
use serde_json::json;
use tokio::sync::watch;

use crate::chats::{Chat, Looking};
use crate::log::{After, Head, frame};

/// Most events that are taken from the log at a time.
const AT_A_TIME: usize = 256;

/// Somebody who looks at a chat.
#[derive(Debug)]
pub struct Viewer {
    chat: Arc<Chat>,
    head: watch::Receiver<Head>,
    /// The last event that was seen.
    seen: u64,
    /// Questions that were shown at the beginning.
    shown: BTreeSet<u64>,
    ready: VecDeque<Bytes>,
    /// Last, so that the chat learns that nobody looks once nothing of this is left.
    _looking: Looking,
}

impl Viewer {
    /// Looks from the beginning, as whoever began the chat does.
    pub(crate) fn from_the_beginning(chat: Arc<Chat>) -> Self {
        let looking = Chat::look(&chat);
        Self {
            head: chat.log.head(),
            seen: 0,
            shown: BTreeSet::new(),
            ready: VecDeque::new(),
            chat,
            _looking: looking,
        }
    }

    /// Looks again: from after an event that was seen, questions that wait first.
    pub(crate) fn after(chat: Arc<Chat>, seen: u64) -> Self {
        let mut viewer = Self::from_the_beginning(chat);
        let is_of_this_chat = seen <= viewer.head.borrow().last;
        viewer.seen = if is_of_this_chat { seen } else { 0 };
        match viewer.chat.log.after(viewer.seen, 0) {
            After::Gone(first) => viewer.resync(first),
            After::Events(..) if !is_of_this_chat => viewer.resync(1),
            After::Events(..) => viewer.show_waiting(),
        }
        viewer
    }

    /// Shows the questions that wait, before anything else.
    fn show_waiting(&mut self) {
        for (number, question) in self.chat.log.waiting() {
            self.ready.push_back(question);
            self.shown.insert(number);
        }
    }

    /// What was missed can't be had any more: what follows begins at another place. Questions that wait are not lost with it.
    fn resync(&mut self, first: u64) {
        let told = json!({ "type": "resync_required", "firstId": first });
        let told = frame(None, "resync_required", &told.to_string());
        self.ready.push_back(told);
        self.seen = first - 1;
        self.show_waiting();
    }

    /// The next piece of the stream; nothing when the chat is over and all of it was seen. Safe to cancel.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            // Before the log is read: what comes between is noticed by the next look.
            let head = *self.head.borrow_and_update();
            match self.chat.log.after(self.seen, AT_A_TIME) {
                After::Gone(first) => self.resync(first),
                After::Events(first, frames) if !frames.is_empty() => self.take(first, frames),
                After::Events(..) if head.is_over => return None,
                After::Events(..) => {
                    let pause = Duration::from_millis(CHAT_HEARTBEAT_MS);
                    match tokio::time::timeout(pause, self.head.changed()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return None,
                        Err(_) => return Some(Bytes::from_static(b": heartbeat\n\n")),
                    }
                }
            }
        }
    }

    fn take(&mut self, first: u64, frames: Vec<Bytes>) {
        for (number, frame) in (first..).zip(frames) {
            self.seen = number;
            if !self.shown.remove(&number) {
                self.ready.push_back(frame);
            }
        }
    }

    /// All pieces, for a body.
    pub fn stream(self) -> impl Stream<Item = Bytes> + Send {
        futures_util::stream::unfold(self, |mut viewer| async move {
            let frame = viewer.next().await?;
            Some((frame, viewer))
        })
    }
}
