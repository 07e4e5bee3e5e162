//! What has come for a model: what may be said before its next question, what waits for its next run, and what it was asked with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{DOOR, DeliveredReceipt, MessageContext, MessageReceipt};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use relay_protocol::render::UnsurfacedAttachment;
use relay_sdk::{AttachedSession, failed_for_now};
use tokio::sync::Notify;

use super::served::Mail;
use crate::llm::conversation::{Content, Media, Message};
use crate::llm::run::{Incoming, MessageShown};
use crate::surfacing::{SurfacedMessage, note_unsurfaced};

/// Most messages that wait.
const MAX_WAITING: usize = 256;

/// The door of what came into a conversation.
const PROMPT_DOOR: &str = "llm.prompt";

/// A message on its way to a model.
pub(super) struct Delivery {
    id: DeliveryId,
    content: Vec<Content>,
    /// What of it the model is not shown, or not all of.
    unsurfaced: Vec<UnsurfacedAttachment>,
    shown: MessageShown,
}

impl Delivery {
    /// A message that is ready for a model.
    pub(super) fn new(
        message: &RelayMessage,
        context: &MessageContext,
        surfaced: SurfacedMessage,
    ) -> Self {
        let images = surfaced.images.into_iter();
        let images = images.map(|(media_type, data)| Content::Image(Media { media_type, data }));
        let text = Content::Text(surfaced.text);
        Self {
            id: context.id,
            content: std::iter::once(text).chain(images).collect(),
            unsurfaced: surfaced.unsurfaced,
            shown: MessageShown::new(message, context),
        }
    }
}

/// The receipt for what is said in a conversation.
pub(super) fn said(
    delivery_id: DeliveryId,
    unsurfaced: &[UnsurfacedAttachment],
) -> DeliveredReceipt {
    let mut metadata = Metadata::from_iter([(DOOR.to_owned(), PROMPT_DOOR.into())]);
    note_unsurfaced(&mut metadata, unsurfaced);
    DeliveredReceipt {
        delivery_id,
        metadata: Some(metadata),
    }
}

/// What has come for a model.
pub(super) struct Bag {
    state: Mutex<State>,
    arrived: Notify,
    attached: OnceLock<Arc<AttachedSession>>,
    mail: Mail,
}

#[derive(Default)]
struct State {
    /// To be said before the next question.
    next: VecDeque<Delivery>,
    /// To be said when the run has ended.
    later: VecDeque<Delivery>,
    /// Said with a question that is not answered yet.
    asked: Vec<(DeliveryId, Vec<UnsurfacedAttachment>)>,
    is_running: bool,
}

impl Bag {
    pub(super) fn new(mail: Mail) -> Self {
        let state = State {
            // A conversation begins with a run that needs no message.
            is_running: mail == Mail::Shared,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            arrived: Notify::new(),
            attached: OnceLock::new(),
            mail,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is told what became of messages.
    pub(super) fn deliver_by(&self, attached: Arc<AttachedSession>) {
        // Called once.
        let _ = self.attached.set(attached);
    }

    /// Puts a message in; false where it is full.
    pub(super) fn put(&self, delivery: Delivery, disturbs: bool) -> bool {
        let mut state = self.state();
        if state.next.len() + state.later.len() >= MAX_WAITING {
            return false;
        }
        match state.is_running && !disturbs {
            true => state.later.push_back(delivery),
            false => state.next.push_back(delivery),
        }
        drop(state);
        self.arrived.notify_one();
        true
    }

    /// Takes out a message that was not said; false where it was.
    pub(super) fn take_out(&self, id: DeliveryId) -> bool {
        let mut state = self.state();
        let before = state.next.len() + state.later.len();
        state.next.retain(|delivery| delivery.id != id);
        state.later.retain(|delivery| delivery.id != id);
        state.next.len() + state.later.len() < before
    }

    /// Takes what is to be said with the next question; at the end of a turn also what waited for that.
    pub(super) fn take_next(&self, at_end: bool) -> Vec<Incoming> {
        let mut state = self.state();
        let mut next = std::mem::take(&mut state.next);
        if at_end {
            next.extend(std::mem::take(&mut state.later));
        }
        let mut incoming = Vec::with_capacity(next.len());
        state.asked = Vec::with_capacity(next.len());
        for delivery in next {
            state.asked.push((delivery.id, delivery.unsurfaced));
            incoming.push(Incoming {
                message: Message::User(delivery.content),
                shown: delivery.shown,
            });
        }
        incoming
    }

    /// Whether a run goes on with what has come when the model has said all.
    pub(super) const fn continues_runs(&self) -> bool {
        matches!(self.mail, Mail::Shared)
    }

    /// Whether anything waits.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.next.is_empty() && state.later.is_empty()
    }

    /// The model has begun to answer: it has what it was asked with.
    pub(super) fn answered(&self) {
        let asked = std::mem::take(&mut self.state().asked);
        for (delivery_id, unsurfaced) in asked {
            self.settle(MessageReceipt::Delivered(said(delivery_id, &unsurfaced)));
        }
    }

    /// The model did not answer: what it was asked with goes back.
    pub(super) fn unanswered(&self, why: &str) {
        let asked = std::mem::take(&mut self.state().asked);
        self.give_back(asked.into_iter().map(|(id, _)| id), why);
    }

    /// Waits for something to begin a run with.
    pub(super) async fn has_mail(&self) {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut state = self.state();
                if !state.next.is_empty() {
                    state.is_running = true;
                    return;
                }
            }
            arrived.await;
        }
    }

    /// The run is over: what waited for that comes next. Whether there is anything.
    pub(super) fn turn_over(&self) -> bool {
        let mut state = self.state();
        let later = std::mem::take(&mut state.later);
        state.next.extend(later);
        state.is_running = false;
        !state.next.is_empty()
    }

    /// No run could begin: what was to be said goes back.
    pub(super) fn refuse_all(&self, why: &str) {
        let next = std::mem::take(&mut self.state().next);
        self.give_back(next.into_iter().map(|delivery| delivery.id), why);
    }

    /// What was never said goes back.
    pub(super) fn give_back_all(&self, why: &str) {
        let (next, later) = {
            let mut state = self.state();
            (
                std::mem::take(&mut state.next),
                std::mem::take(&mut state.later),
            )
        };
        let all = next.into_iter().chain(later);
        self.give_back(all.map(|delivery| delivery.id), why);
    }

    fn give_back(&self, ids: impl IntoIterator<Item = DeliveryId>, why: &str) {
        for id in ids {
            let mut receipt = failed_for_now(why);
            if let MessageReceipt::Failed(failed) = &mut receipt {
                failed.delivery_id = Some(id);
            }
            self.settle(receipt);
        }
    }

    fn settle(&self, receipt: MessageReceipt) {
        let Some(attached) = self.attached.get().cloned() else {
            return;
        };
        tokio::spawn(async move {
            if let Err(error) = attached.receipt(receipt).await {
                tracing::warn!(%error, "a receipt was not stored");
            }
        });
    }
}
