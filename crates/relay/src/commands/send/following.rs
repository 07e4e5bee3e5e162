//! Follows the deliveries of one message until each has ended, or there is nothing more to wait for.
//!
//! It listens before the message is sent, so nothing is missed, also when the server restarts meanwhile. On a
//! terminal each recipient has a line that changes in place; elsewhere a line is printed when it is final.

use std::time::Duration;

use relay_protocol::api::messages::{DeliverySummary, MessageSent, Notice};
use relay_protocol::delivery::DeliveryState;
use relay_protocol::delivery_record::{Delivery, WaitCode};
use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::ids::{DeliveryId, MessageId};
use relay_protocol::message::RelayMessage;
use relay_sdk::{Relay, Timestamp};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Patience;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::moment::{clock, span};
use crate::output::{LiveLines, Output, one_line};
use crate::words;

/// Events that may wait to be looked at.
const QUEUED: usize = 256;

/// After so long without an outcome people want to know what it waits for.
const CURIOSITY: Duration = Duration::from_millis(250);

/// Deliveries that are asked about one by one. Who sends to more does not wait to hear of the rest.
const ASKED_ABOUT: usize = 500;

/// Listens to what becomes of deliveries.
pub(super) struct Following {
    relay: Relay,
    events: mpsc::Receiver<LoggedEvent>,
}

/// One recipient's delivery.
struct Recipient {
    delivery: DeliverySummary,
    words: String,
    reason: Option<String>,
    /// Nothing more is waited for.
    is_settled: bool,
}

/// The answer of the send with how its deliveries stand now, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Followed<'a> {
    message_id: MessageId,
    message: &'a RelayMessage,
    deliveries: Vec<FollowedDelivery<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notices: Option<&'a [Notice]>,
}

#[derive(Serialize)]
struct FollowedDelivery<'a> {
    #[serde(flatten)]
    delivery: &'a DeliverySummary,
    /// Why it failed or was cancelled, in the words of whoever ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// What an event says about a delivery.
struct News {
    id: DeliveryId,
    state: DeliveryState,
    words: String,
    reason: Option<String>,
}

/// All of them, and where they are shown.
struct Board<'a> {
    sent: MessageSent,
    recipients: Vec<Recipient>,
    live: Option<LiveLines>,
    output: &'a Output,
    widest: usize,
}

impl Following {
    pub(super) async fn begin(relay: &Relay) -> Outcome<Self> {
        let (queue, events) = mpsc::channel(QUEUED);
        relay
            .add_listener("delivery.*", move |event| {
                let queue = queue.clone();
                async move {
                    let _ = queue.send(event).await;
                }
            })
            .await?;
        Ok(Self {
            relay: relay.clone(),
            events,
        })
    }

    /// Follows a message that was sent after this began.
    pub(super) async fn follow(
        mut self,
        sent: MessageSent,
        patience: Patience,
        output: &Output,
    ) -> Outcome {
        let begun = Instant::now();
        let until = begun + patience.at_most;
        let mut curious = Some(begun + CURIOSITY.min(patience.at_most));
        let mut board = Board::new(sent, output);
        board.show_all()?;
        while !board.is_settled() {
            let wake = curious.unwrap_or(until);
            tokio::select! {
                event = self.events.recv() => match event {
                    Some(event) => board.take(&event)?,
                    // The credential ended meanwhile; what is known by now is all.
                    None => break,
                },
                () = sleep_until(wake) => match curious.take() {
                    Some(_) => self.look(&mut board, patience).await?,
                    None => break,
                },
            }
        }
        if board.has_unknown_waits() {
            self.look(&mut board, patience).await?;
        }
        board.finish(patience)
    }

    /// Finds out what the deliveries that have not ended wait for.
    async fn look(&self, board: &mut Board<'_>, patience: Patience) -> Outcome {
        for (asked, index) in board.open().into_iter().enumerate() {
            if asked >= ASKED_ABOUT {
                board.recipients[index].is_settled = !patience.was_asked_for;
                continue;
            }
            let id = board.recipients[index].delivery.delivery_id;
            let Ok(delivery) = self.relay.delivery(id).await else {
                continue;
            };
            board.recipients[index].learn(&delivery, patience);
            board.show(index)?;
        }
        Ok(())
    }
}

impl<'a> Board<'a> {
    fn new(sent: MessageSent, output: &'a Output) -> Self {
        let recipients: Vec<Recipient> = sent.deliveries.iter().map(Recipient::new).collect();
        let widest = recipients
            .iter()
            .map(|one| one.delivery.agent.len() + 1)
            .max();
        Self {
            live: output.live_lines(recipients.len()),
            widest: widest.unwrap_or(0),
            sent,
            recipients,
            output,
        }
    }

    fn is_settled(&self) -> bool {
        self.recipients.iter().all(|recipient| recipient.is_settled)
    }

    /// Those that have not ended.
    fn open(&self) -> Vec<usize> {
        let all = self.recipients.iter().enumerate();
        let open = all.filter(|(_, recipient)| !recipient.delivery.state.is_terminal());
        open.map(|(index, _)| index).collect()
    }

    /// Whether something waits of which it is not known for what.
    fn has_unknown_waits(&self) -> bool {
        let mut all = self.recipients.iter().map(|recipient| &recipient.delivery);
        all.any(|delivery| !delivery.state.is_terminal() && delivery.waiting.is_none())
    }

    /// Takes an event, if it is about one of these.
    fn take(&mut self, logged: &LoggedEvent) -> Outcome {
        let sent_at = self.sent.message.created_at;
        let news = logged.event.as_ref();
        let Some(news) = news.and_then(|event| told(event, sent_at, logged.at)) else {
            return Ok(());
        };
        let mut all = self.recipients.iter();
        let Some(index) = all.position(|one| one.delivery.delivery_id == news.id) else {
            return Ok(());
        };
        let recipient = &mut self.recipients[index];
        if recipient.delivery.state.is_terminal() {
            return Ok(());
        }
        recipient.delivery.state = news.state;
        // What it waits for from now on is asked for at the end.
        recipient.delivery.waiting = None;
        recipient.words = news.words;
        recipient.reason = news.reason;
        recipient.is_settled = news.state.is_terminal();
        self.show(index)
    }

    fn show_all(&mut self) -> Outcome {
        for index in 0..self.recipients.len() {
            self.show(index)?;
        }
        Ok(())
    }

    /// Shows a recipient's line: in place on a terminal, else once it is final.
    fn show(&mut self, index: usize) -> Outcome {
        let line = self.line(index);
        match &mut self.live {
            Some(live) => self.output.change(live, index, &line),
            None if self.recipients[index].is_settled && !self.output.is_json() => {
                self.output.line(&line)
            }
            None => Ok(()),
        }
    }

    fn line(&self, index: usize) -> String {
        let Recipient {
            delivery, words, ..
        } = &self.recipients[index];
        let style = self.output.style();
        let words = match delivery.state {
            DeliveryState::Delivered => style.good(words),
            DeliveryState::Failed | DeliveryState::Cancelled => style.bad(words),
            _ => style.open(words),
        };
        let name = format!(
            "{:width$}",
            format!("@{}", delivery.agent),
            width = self.widest
        );
        format!("{}  {words}", style.strong(&name))
    }

    fn for_programs(&self) -> Followed<'_> {
        let ended = |recipient: &Recipient| recipient.delivery.state.is_terminal();
        Followed {
            message_id: self.sent.message_id,
            message: &self.sent.message,
            deliveries: self
                .recipients
                .iter()
                .map(|recipient| FollowedDelivery {
                    delivery: &recipient.delivery,
                    reason: recipient.reason.as_deref().filter(|_| ended(recipient)),
                })
                .collect(),
            notices: self.sent.notices.as_deref(),
        }
    }

    /// What there is to say at the end.
    fn finish(mut self, patience: Patience) -> Outcome {
        if let Some(live) = &mut self.live {
            self.output.settle(live)?;
        } else if !self.output.is_json() {
            for index in 0..self.recipients.len() {
                if !self.recipients[index].is_settled {
                    self.output.line(&self.line(index))?;
                }
            }
        }
        if self.output.is_json() {
            self.output.json_line(&self.for_programs())?;
        }
        let ended_badly: Vec<&Recipient> = self
            .recipients
            .iter()
            .filter(|one| {
                matches!(
                    one.delivery.state,
                    DeliveryState::Failed | DeliveryState::Cancelled
                )
            })
            .collect();
        let all = self.recipients.len();
        if let Some(first) = ended_badly.first() {
            let message = format!("{} of {all} deliveries did not succeed", ended_badly.len());
            return Err(
                Failure::new(Exit::DeliveryFailed, "delivery_failed", message).next(explain(first)),
            );
        }
        let open = self.open();
        let Some(first) = open.first().map(|index| &self.recipients[*index]) else {
            return Ok(());
        };
        if patience.was_asked_for {
            let message = format!(
                "after {} {} of {all} deliveries had not ended",
                span(i64::try_from(patience.at_most.as_millis()).unwrap_or(i64::MAX)),
                open.len()
            );
            return Err(Failure::new(Exit::NotYet, "not_yet", message).next(explain(first)));
        }
        self.output.note(&format!("follow it: {}", explain(first)));
        Ok(())
    }
}

/// How to learn more about a delivery.
fn explain(recipient: &Recipient) -> String {
    hints::command(&format!("delivery show {}", recipient.delivery.delivery_id))
}

impl Recipient {
    fn new(delivery: &DeliverySummary) -> Self {
        let words = match (&delivery.error, delivery.state) {
            (Some(error), _) => format!("failed: {}", one_line(&error.detail)),
            (None, state) => match &delivery.waiting {
                Some(waiting) if waiting.code != WaitCode::Due => words::waiting(waiting),
                Some(_) => "on its way".to_owned(),
                None => state.to_string(),
            },
        };
        Self {
            is_settled: delivery.state.is_terminal(),
            delivery: delivery.clone(),
            words,
            reason: delivery.error.as_ref().map(|error| error.detail.clone()),
        }
    }

    /// Takes over how the delivery stands now. Of one that was sent before, under the same key, no events come.
    fn learn(&mut self, found: &Delivery, patience: Patience) {
        let is_known = self.delivery.state == found.state;
        self.delivery.state = found.state;
        self.delivery.waiting = found.waiting.clone();
        self.delivery.error = found.error.clone();
        let error = found.error.as_ref().map(|error| one_line(&error.detail));
        self.words = match (&found.waiting, error) {
            (Some(waiting), _) => words::waiting(waiting),
            // An event has told more.
            _ if is_known => return,
            (None, Some(error)) => format!("{}: {error}", found.state),
            (None, None) => found.state.to_string(),
        };
        let waiting = found.waiting.as_ref();
        let is_away = waiting.is_some_and(|waiting| waiting.code == WaitCode::NoSession);
        self.is_settled = found.state.is_terminal() || (is_away && !patience.was_asked_for);
    }
}

/// What an event says, if it is about where a delivery stands.
fn told(event: &RelayEvent, sent_at: Timestamp, now: Timestamp) -> Option<News> {
    let took = span(now.as_millis() - sent_at.as_millis());
    let said = |reason: Option<&String>| reason.map(|text| one_line(text)).unwrap_or_default();
    let (id, state, words, reason) = match event {
        RelayEvent::DeliveryAccepted(event) => {
            let words = "accepted: the session shows it when it can".to_owned();
            (event.delivery_id, DeliveryState::Accepted, words, None)
        }
        RelayEvent::DeliveryDelivered(event) => {
            let words = format!("delivered after {took}");
            (event.delivery_id, DeliveryState::Delivered, words, None)
        }
        RelayEvent::DeliveryDeferred(event) => {
            let (until, why) = (clock(event.available_at), said(event.reason.as_ref()));
            let words = format!("put off until {until} {why}");
            let reason = event.reason.clone();
            (event.delivery_id, DeliveryState::Deferred, words, reason)
        }
        RelayEvent::DeliveryFailed(event) => {
            let why = one_line(&event.reason);
            let again = event
                .next_attempt_at
                .map(|at| format!(", again at {}", clock(at)));
            let (state, words) = match event.terminal {
                Some(true) => (DeliveryState::Failed, format!("failed: {why}")),
                _ => {
                    let words = format!("an attempt failed: {why}{}", again.unwrap_or_default());
                    (DeliveryState::Pending, words)
                }
            };
            (event.delivery_id, state, words, Some(event.reason.clone()))
        }
        RelayEvent::DeliveryCancelled(event) => {
            let words = format!("cancelled {}", said(event.reason.as_ref()));
            let reason = event.reason.clone();
            (event.delivery_id, DeliveryState::Cancelled, words, reason)
        }
        _ => return None,
    };
    Some(News {
        id,
        state,
        words: words.trim_end().to_owned(),
        reason,
    })
}
