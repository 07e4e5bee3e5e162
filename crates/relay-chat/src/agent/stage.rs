//! Where an agent's chat is told: what happens in its session and what becomes of its questions come here at once, from whoever
//! notices, and are in the chat's log in that order. Nothing waits in between, so nothing can be lost or overtaken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_harness::acp::session::{BrokerNews, Seen};
use relay_harness::llm::new_id;
use relay_harness::llm::run::{DroppedPart, EndReason, Happening, MessageShown, RunEvent};
use relay_protocol::redact::Redactor;
use tokio_util::sync::CancellationToken;

use super::telling::Telling;
use crate::chats::Chat;
use crate::model::pass_on;

/// The stage of a chat. Clones are the same.
#[derive(Clone)]
pub(super) struct Stage {
    chat: Arc<Chat>,
    agent_id: Arc<str>,
    /// Ends the conversation.
    cancel: CancellationToken,
    /// Nothing is told before the run has begun.
    telling: Arc<Mutex<Option<Told>>>,
}

struct Told {
    telling: Telling,
    run_id: String,
    redactor: Redactor,
}

impl Stage {
    pub(super) fn new(chat: Arc<Chat>, cancel: CancellationToken) -> Self {
        Self {
            chat,
            agent_id: new_id().into(),
            cancel,
            telling: Arc::default(),
        }
    }

    /// The run begins.
    pub(super) fn begin(&self, run_id: String) {
        let telling = Telling::new(run_id.clone());
        *self.telling() = Some(Told {
            telling,
            run_id,
            redactor: Redactor::new(),
        });
        self.tell(|_| {
            vec![Happening::Started {
                depth: 1,
                max_iterations: None,
            }]
        });
    }

    /// Something happened in the session. A message is told when it is in a turn of the agent.
    pub(super) fn see(&self, seen: Seen) {
        match seen {
            Seen::Event(event) => self.tell(|telling| telling.take(event.event)),
            Seen::Entered { message, context } => {
                let shown = MessageShown::new(&message, &context);
                self.tell(|telling| telling.message(shown));
            }
            Seen::Message { .. } | Seen::Status(_) => {}
        }
    }

    /// Something happened to a question.
    pub(super) fn hear(&self, news: BrokerNews) {
        let mut ends = false;
        self.tell(|telling| {
            let (told, stops) = telling.hear(news);
            ends = stops;
            told
        });
        if ends {
            self.cancel.cancel();
        }
    }

    /// The agent can't be given these parts of what was said.
    pub(super) fn warn(&self, dropped: Vec<DroppedPart>) {
        let message = format!(
            "the agent does not take {}; it works without",
            match dropped.as_slice() {
                [_] => "a part of what was said".to_owned(),
                parts => format!("{} parts of what was said", parts.len()),
            }
        );
        self.tell(|_| vec![Happening::Warning { message, dropped }]);
    }

    /// It went wrong.
    pub(super) fn fail(&self, message: String) {
        self.tell(|telling| telling.fail(message));
    }

    /// Why the conversation ended.
    pub(super) fn reason(&self) -> EndReason {
        let told = self.telling();
        // One whose end nobody told was taken off the relay.
        let reason = told.as_ref().and_then(|told| told.telling.reason());
        reason.unwrap_or(EndReason::Cancelled)
    }

    /// The run has ended: nothing is told behind this.
    pub(super) fn end(&self, reason: EndReason) {
        self.tell(|telling| telling.end(reason));
        *self.telling() = None;
    }

    fn tell(&self, what: impl FnOnce(&mut Telling) -> Vec<Happening>) {
        let mut told = self.telling();
        let Some(told) = &mut *told else { return };
        for what in what(&mut told.telling) {
            let mut event = RunEvent {
                agent_id: self.agent_id.to_string(),
                run_id: told.run_id.clone(),
                parent_id: None,
                what,
            };
            pass_on(&self.chat, &told.redactor, &mut event);
        }
    }

    fn telling(&self) -> MutexGuard<'_, Option<Told>> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
