//! Deliveries: receipts, and what callers can do about a delivery.

use std::borrow::Cow;

use relay_protocol::agent::Metadata;
use relay_protocol::api::Page;
use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveryState, FailedReceipt, MessageReceipt, Priority,
    RELAY_KEYS,
};
use relay_protocol::delivery_record::{CancelDelivery, DeliverMessage, Delivery, Flush, Flushed};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::limits::{FLUSHED_AT_ONCE, METADATA_BYTES, REASON_BYTES};
use relay_protocol::socket::{ControlOp, ReceiptFrame};
use relay_protocol::status::{AgentStatus, is_safe};
use tokio::sync::oneshot;

use crate::agents::bare;
use crate::caller::Caller;
use crate::delivery::apply::{CANCELLED, Step};
use crate::delivery::history::Entry;
use crate::delivery::story::{explain, summary};
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::messages::{check_deadline, idempotency};
use crate::runner::{AnswerTo, Ask, Asked, Heard};
use crate::store::position::place_of;
use crate::store::{
    AgentNo, DeliverTo, DeliveryFilter, DeliveryRow, DeliveryStory, FlushRequest, NewDelivery,
    Position, Viewer, WorkspaceRow,
};

/// What became of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptStored {
    /// Where the delivery stands now.
    pub state: DeliveryState,
    /// Whether it came after the end or for an older offer, and changed nothing.
    pub late: bool,
}

impl Engine {
    /// Stores what a session says about a delivery. `via` is the session that speaks, where the door it
    /// came through knows that.
    pub async fn receipt(
        &self,
        caller: &Caller,
        via: Option<SessionId>,
        body: ReceiptFrame,
    ) -> Result<ReceiptStored> {
        let receipt = self.clean_receipt(body.delivery_id, body.receipt)?;
        let via = match via {
            Some(session) => Some(self.own_session(caller, session).await?),
            None => {
                self.store_text_of(caller);
                None
            }
        };
        let of = via.as_ref().map(|row| row.agent).or(caller.viewer()?.agent);
        let via = via.map(|row| row.no);
        let position = self.place(caller, body.delivery_id)?;
        let mut settling = self.runner.settle(of, position, via, body.epoch);
        let was_shown = matches!(receipt, MessageReceipt::Delivered(_));
        let mut lapsed = None;
        let agent = match &settling {
            Some(settling) => settling.found.agent,
            None => {
                let agent = self.recipient(caller, of, body.delivery_id).await?;
                if was_shown {
                    match self.runner.answer_to(agent, position, via, body.epoch) {
                        AnswerTo::Offer(found) => settling = Some(found),
                        AnswerTo::LapsedOffer(offer) => lapsed = Some(offer),
                        AnswerTo::OlderOffer => {}
                    }
                }
                agent
            }
        };
        let (offer, decisions) = match settling {
            Some(settling) => {
                let (_, offer, decisions) = settling.into_parts();
                (Some(offer), decisions)
            }
            None => (None, Vec::new()),
        };
        let (session, epoch) = (via, body.epoch);
        let step = match lapsed {
            Some(offer) => Step::BelatedReceipt {
                session,
                offer,
                epoch,
                receipt,
            },
            None => Step::Receipt {
                session,
                offer,
                epoch,
                receipt,
            },
        };
        let advanced = self.runner.take(agent, position, step, decisions).await?;
        Ok(ReceiptStored {
            state: advanced.row.state,
            late: !advanced.moved,
        })
    }

    /// A receipt whose ids agree, without secrets.
    pub(crate) fn clean_receipt(
        &self,
        delivery: DeliveryId,
        mut receipt: MessageReceipt,
    ) -> Result<MessageReceipt> {
        let named = match &mut receipt {
            MessageReceipt::Accepted(receipt) => receipt.delivery_id,
            MessageReceipt::Delivered(receipt) => receipt.delivery_id,
            MessageReceipt::Deferred(receipt) => *receipt.delivery_id.get_or_insert(delivery),
            MessageReceipt::Failed(receipt) => *receipt.delivery_id.get_or_insert(delivery),
        };
        if named != delivery {
            return Err(Error::Invalid {
                path: "receipt.deliveryId",
                expected: delivery.to_string(),
                found: named.to_string(),
            });
        }
        let (reason, metadata) = texts(&mut receipt);
        if let Some(reason) = reason {
            within("receipt.reason", REASON_BYTES, reason.len())?;
            if let Cow::Owned(redacted) = self.redactor.redact(reason) {
                *reason = redacted;
            }
        }
        if let Some(metadata) = metadata {
            let mut value = serde_json::Value::Object(std::mem::take(metadata));
            let bytes = value.to_string().len();
            within("receipt.metadata", METADATA_BYTES, bytes)?;
            self.redactor.redact_json(&mut value);
            if let serde_json::Value::Object(redacted) = value {
                *metadata = redacted;
            }
        }
        Ok(receipt)
    }

    pub(crate) fn place(&self, caller: &Caller, id: DeliveryId) -> Result<Position> {
        let workspace = caller.workspace()?;
        place_of(workspace.id, workspace.no, id)
            .map(|(position, _)| position)
            .ok_or(Error::UnknownDelivery(id))
    }

    /// For whom a delivery is, for whoever speaks for that agent or for all. To others it does not exist.
    async fn recipient(
        &self,
        caller: &Caller,
        of: Option<AgentNo>,
        id: DeliveryId,
    ) -> Result<AgentNo> {
        let viewer = Viewer {
            workspace_no: caller.workspace()?.no,
            agent: None,
        };
        let story = self.store.delivery(viewer, id).await?;
        match of {
            Some(agent) if agent != story.row.agent => Err(Error::UnknownDelivery(id)),
            _ => Ok(story.row.agent),
        }
    }

    /// One delivery with every decision, attempt and receipt, and the story of it all.
    pub async fn delivery(&self, caller: &Caller, id: DeliveryId) -> Result<Delivery> {
        let story = self.store.delivery(caller.reader()?, id).await?;
        let (out, waiting) = self.runner.standing(&story);
        let decisions = self.runner.decisions(story.row.agent, story.row.position);
        Ok(explain(&story, &decisions, out.as_ref(), waiting))
    }

    /// Deliveries, newest first: those of the caller's messages and those for it.
    pub async fn deliveries_where(
        &self,
        caller: &Caller,
        filter: DeliveryFilter,
        page: PageQuery,
    ) -> Result<Page<Delivery>> {
        let filter = DeliveryFilter {
            agent: filter.agent.as_deref().map(|name| bare(name).to_owned()),
            ..filter
        };
        let page = self
            .store
            .delivery_list(caller.reader()?, filter, page.request()?)
            .await?;
        let standings = self.runner.standings(&page.items);
        let items = page.items.iter().zip(standings);
        let items = items
            .map(|(story, (out, waiting))| summary(story, out.as_ref(), waiting))
            .collect();
        Ok(Page {
            items,
            next_cursor: page.next_cursor,
        })
    }

    /// Delivers a stored message to an agent or a session: the spec's `deliver`.
    pub async fn deliver(&self, caller: &Caller, body: DeliverMessage) -> Result<MessageReceipt> {
        let key = body.context.as_ref();
        let key = key.and_then(|context| context.idempotency_key.as_deref());
        let idempotency = idempotency(key, &body)?;
        let context = body.context.unwrap_or_default();
        check_context_metadata(context.metadata.as_ref())?;
        let to = match (body.agent, body.session_id) {
            (Some(agent), None) => DeliverTo::Agent(bare(&agent).to_owned()),
            (None, Some(session)) => DeliverTo::Session(session),
            _ => {
                return Err(Error::Invalid {
                    path: "agent",
                    expected: "either agent or sessionId".to_owned(),
                    found: "both or neither".to_owned(),
                });
            }
        };
        let at = self.now();
        check_deadline(context.deadline, at)?;
        let row = self
            .store
            .deliver(NewDelivery {
                viewer: caller.viewer()?,
                message: body.message_id,
                to,
                id: context.id,
                mode: context.mode,
                allow_downgrade: context.allow_downgrade.unwrap_or(false),
                priority: context.priority.unwrap_or(Priority::Normal),
                reason: context.reason,
                deadline: context.deadline,
                metadata: context.metadata.filter(|metadata| !metadata.is_empty()),
                at,
                idempotency,
            })
            .await?;
        let listening = self.runner.listen(row.agent, row.position);
        let workspace = caller.workspace()?;
        let story = self.story(workspace, &row).await?;
        match said(&story).or_else(|| self.put_off(&story)) {
            Some(receipt) => Ok(receipt),
            None => self.hear(workspace, &row, listening).await,
        }
    }

    /// The answer for a delivery that waits until a time.
    fn put_off(&self, story: &DeliveryStory) -> Option<MessageReceipt> {
        story.row.not_before?;
        let (_, waiting) = self.runner.standing(story);
        waiting.map(|waiting| answer(story.id, waiting.into()))
    }

    /// Reopens a failed delivery under the same id.
    pub async fn retry(&self, caller: &Caller, id: DeliveryId) -> Result<MessageReceipt> {
        let row = self.store.delivery(caller.viewer()?, id).await?.row;
        // The session may answer before we know that the delivery is open again.
        let listening = self.runner.listen(row.agent, row.position);
        let taken = self
            .runner
            .take(row.agent, row.position, Step::Retried, Vec::new())
            .await?;
        self.hear(caller.workspace()?, &taken.row, listening).await
    }

    /// A delivery as it stands now.
    async fn story(&self, workspace: &WorkspaceRow, row: &DeliveryRow) -> Result<DeliveryStory> {
        let viewer = Viewer {
            workspace_no: workspace.no,
            agent: None,
        };
        self.store.delivery(viewer, row.id(workspace.id)).await
    }

    /// What a session says about a delivery from now on or, while Relay holds it, that it does.
    async fn hear(
        &self,
        workspace: &WorkspaceRow,
        row: &DeliveryRow,
        listening: oneshot::Receiver<Heard>,
    ) -> Result<MessageReceipt> {
        let heard = listening.await.unwrap_or(Heard::Nothing);
        if heard == Heard::Nothing {
            let story = self.story(workspace, row).await?;
            if let Some(receipt) = said(&story).or_else(|| said_since(&story, row)) {
                return Ok(receipt);
            }
        }
        Ok(answer(row.id(workspace.id), heard))
    }

    /// Calls a delivery back. One that a session has is asked for first.
    pub async fn cancel_delivery(
        &self,
        caller: &Caller,
        id: DeliveryId,
        body: CancelDelivery,
    ) -> Result<Delivery> {
        if let Some(reason) = &body.reason {
            within("reason", REASON_BYTES, reason.len())?;
        }
        let story = self.store.delivery(caller.viewer()?, id).await?;
        if story.row.state.is_terminal() {
            let from = story.row.state;
            let cause = relay_protocol::delivery_state::DeliveryCause::Progress;
            from.check_transition(DeliveryState::Cancelled, cause)
                .map_err(|error| Error::Refused(Box::new(error.into())))?;
        }
        self.runner.cancel(&story.row, body.reason).await?;
        self.delivery(caller, id).await
    }

    /// Lets everything go that waits for an agent; one receipt each.
    pub async fn flush(&self, caller: &Caller, agent: &str, body: Flush) -> Result<Flushed> {
        self.require_agent_or_key(caller, agent)?;
        let workspace = caller.workspace()?;
        let row = self.store.agent(workspace.no, bare(agent)).await?;
        let at = self.now();
        let meant = self
            .store
            .flush(FlushRequest {
                workspace_no: workspace.no,
                agent: row.no,
                mode: body.mode,
                delivery: body.delivery_id,
                at,
                limit: FLUSHED_AT_ONCE,
            })
            .await?;
        let mut receipts = Vec::with_capacity(meant.len());
        if let Some(reason) = self.away(row.no) {
            receipts.extend(meant.iter().map(|row| {
                MessageReceipt::Deferred(DeferredReceipt {
                    delivery_id: Some(row.id(workspace.id)),
                    available_at: at,
                    reason: Some(reason.clone()),
                    metadata: None,
                })
            }));
            return Ok(Flushed { receipts });
        }
        // All of them are heard at the same time: together they have as long as one.
        let listening: Vec<_> = meant
            .iter()
            .map(|row| self.runner.listen(row.agent, row.position))
            .collect();
        for row in &meant {
            if row.state == DeliveryState::Accepted {
                self.flush_held(row, row.id(workspace.id));
            }
        }
        // A session may have answered before we listened.
        let mut early = Vec::with_capacity(meant.len());
        for row in &meant {
            early.push(said_since(&self.story(workspace, row).await?, row));
        }
        for ((row, listening), early) in meant.iter().zip(listening).zip(early) {
            receipts.push(match early {
                Some(receipt) => receipt,
                None => self.hear(workspace, row, listening).await?,
            });
        }
        Ok(Flushed { receipts })
    }

    /// Why an agent can't take anything now; nothing if it can.
    fn away(&self, agent: AgentNo) -> Option<String> {
        match self.runner.current(agent) {
            None => Some("no_session".to_owned()),
            Some(row) if is_safe(row.status, &row.safe_states) => None,
            Some(row) if row.status == AgentStatus::Paused => Some("paused".to_owned()),
            Some(row) if !row.status.takes_offers() => Some(row.status.to_string()),
            Some(_) => None,
        }
    }

    /// Asks the session that holds a delivery to surface it.
    fn flush_held(&self, row: &DeliveryRow, id: DeliveryId) {
        let Some(holder) = row.holder else { return };
        let (tell, _) = oneshot::channel();
        let ask = Ask {
            op: ControlOp::Flush,
            delivery_id: Some(id),
            mode: row.mode,
            as_agent: None,
            fork: None,
            reason: None,
            asked: Asked::Question(tell),
        };
        // One that can't be reached says so by its silence.
        let _ = self.runner.ask(holder.session, ask);
    }
}

/// Checks what a caller gives for the harness to read.
fn check_context_metadata(metadata: Option<&Metadata>) -> Result<()> {
    let Some(metadata) = metadata else {
        return Ok(());
    };
    if let Some(key) = RELAY_KEYS.iter().find(|key| metadata.contains_key(**key)) {
        return Err(Error::Invalid {
            path: "context.metadata",
            expected: format!("none of Relay's own keys: {}", RELAY_KEYS.join(", ")),
            found: format!("{key:?}"),
        });
    }
    let bytes = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    within("context.metadata", METADATA_BYTES, bytes)
}

/// What is known of a delivery for which nobody has to be asked: how it ended, or that a session has it.
fn said(story: &DeliveryStory) -> Option<MessageReceipt> {
    let state = story.row.state;
    if state.is_terminal() || state == DeliveryState::Accepted {
        last_receipt(story)
    } else {
        None
    }
}

/// The last receipt that counted, or the failure of a delivery that no session was asked about.
fn last_receipt(story: &DeliveryStory) -> Option<MessageReceipt> {
    let reason = match (story.row.state, &story.row.error) {
        (DeliveryState::Failed, Some(error)) => Some(error.code.to_string()),
        (DeliveryState::Cancelled, _) => Some(CANCELLED.to_owned()),
        _ => None,
    };
    if let Some(reason) = reason {
        return Some(MessageReceipt::Failed(FailedReceipt {
            delivery_id: Some(story.id),
            reason,
            retryable: Some(false),
            metadata: None,
        }));
    }
    let mut newest_first = story.history.iter().rev();
    newest_first.find_map(|entry| match entry {
        Entry::Receipt(stored) if !stored.late => Some(stored.receipt.clone()),
        _ => None,
    })
}

/// What was said about a delivery since it was like this, or how it had ended by then.
fn said_since(story: &DeliveryStory, then: &DeliveryRow) -> Option<MessageReceipt> {
    let now = &story.row;
    let moved = (now.state, now.not_before) != (then.state, then.not_before);
    if moved || now.state.is_terminal() {
        last_receipt(story)
    } else {
        None
    }
}

/// What a caller is told of a delivery.
fn answer(id: DeliveryId, heard: Heard) -> MessageReceipt {
    let mut metadata = Metadata::new();
    metadata.insert("heldBy".to_owned(), "relay".into());
    match heard {
        Heard::Receipt(receipt) => return receipt,
        Heard::Held {
            waits_for,
            why,
            code,
            until,
        } => {
            if let Some(mode) = waits_for {
                metadata.insert("waitsFor".to_owned(), mode.as_str().into());
            }
            if let Some(until) = until {
                metadata.insert("until".to_owned(), until.to_string().into());
            }
            metadata.insert("why".to_owned(), why.into());
            metadata.insert("code".to_owned(), code.as_str().into());
        }
        Heard::Nothing => {}
    }
    held(id, metadata)
}

fn held(delivery_id: DeliveryId, metadata: Metadata) -> MessageReceipt {
    MessageReceipt::Accepted(AcceptedReceipt {
        delivery_id,
        retryable: None,
        metadata: Some(metadata),
    })
}

/// The free text of a receipt.
fn texts(receipt: &mut MessageReceipt) -> (Option<&mut String>, Option<&mut Metadata>) {
    match receipt {
        MessageReceipt::Accepted(receipt) => (None, receipt.metadata.as_mut()),
        MessageReceipt::Delivered(receipt) => (None, receipt.metadata.as_mut()),
        MessageReceipt::Deferred(receipt) => (receipt.reason.as_mut(), receipt.metadata.as_mut()),
        MessageReceipt::Failed(receipt) => (Some(&mut receipt.reason), receipt.metadata.as_mut()),
    }
}
