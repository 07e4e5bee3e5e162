//! One webhook: follows the log, keeps some calls under way, and has the engine store what they come to.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use relay_core::store::{CallMade, WebhookProgress, WebhookRetries, WebhookRow};
use relay_core::{Caller, Engine, Followed, Result, Subscription};
use relay_outbound::Line;
use relay_protocol::limits::{WEBHOOK_CALLS, WEBHOOK_RETRIES};
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::WebhookState;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::call::{ToSend, call};
use crate::webhook::Calls;

/// Results that are stored together at most.
const STORED_TOGETHER: usize = 64;

/// How long a result waits for others to be stored with.
const GATHER: Duration = Duration::from_millis(10);

/// How long a place in the log that nothing else is to be said about waits to be stored.
const PLACE_EVERY: Duration = Duration::from_secs(10);

/// One webhook.
pub(super) struct Endpoint {
    engine: Arc<Engine>,
    calls: Arc<Calls>,
    line: Arc<Line>,
    row: watch::Receiver<Arc<WebhookRow>>,
    under_way: FuturesUnordered<BoxFuture<'static, CallMade>>,
    /// The events from the log among these calls.
    new: BTreeSet<u64>,
    /// The events among these calls that are sent again.
    again: HashSet<u64>,
    made: Vec<CallMade>,
    /// Events to be sent again that the log has no more.
    gone: Vec<u64>,
    /// How many events are to be sent again, and when the next one is.
    retries: usize,
    next_retry: Option<Timestamp>,
    stored_place: u64,
}

impl Endpoint {
    pub(super) fn new(
        engine: Arc<Engine>,
        calls: Arc<Calls>,
        row: watch::Receiver<Arc<WebhookRow>>,
    ) -> Self {
        let stored_place = row.borrow().cursor;
        let line = Arc::new(calls.outbound.line());
        Self {
            engine,
            calls,
            line,
            row,
            under_way: FuturesUnordered::new(),
            new: BTreeSet::new(),
            again: HashSet::new(),
            made: Vec::new(),
            gone: Vec::new(),
            retries: 0,
            next_retry: None,
            stored_place,
        }
    }

    fn current(&self) -> Arc<WebhookRow> {
        self.row.borrow().clone()
    }

    /// Calls until nobody wants that any more.
    pub(super) async fn run(mut self) -> Result<()> {
        let owner = Caller::process_owner();
        let row = self.current();
        let mut log = self.engine.follow_for_webhook(&owner, &row).await?;
        self.send_again().await?;
        let mut store_by: Option<Instant> = None;
        loop {
            let has_room = self.under_way.len() < WEBHOOK_CALLS;
            let takes_new = has_room && self.retries < WEBHOOK_RETRIES;
            let is_calling = !self.under_way.is_empty();
            if store_by.is_none() {
                store_by = self.store_by(&log);
            }
            let is_full = self.made.len() >= STORED_TOGETHER;
            let retry_at = self.retry_at();
            tokio::select! {
                biased;
                () = wait_until(store_by, is_full) => {
                    store_by = None;
                    if !self.store(&log).await? {
                        return Ok(());
                    }
                }
                Some(made) = self.under_way.next(), if is_calling => {
                    self.new.remove(&made.seq);
                    self.made.push(made);
                    store_by = Some(store_by.unwrap_or_else(Instant::now).min(Instant::now() + GATHER));
                }
                changed = self.row.changed() => match changed {
                    Ok(()) => self.send_again().await?,
                    Err(_) => return Ok(()),
                },
                () = wait_until(retry_at, false), if has_room => self.send_again().await?,
                followed = log.next(), if takes_new => {
                    if let Followed::Event(event) = followed? {
                        self.new.insert(event.event.seq);
                        self.begin(ToSend { event, attempts: 0, since: None });
                    }
                }
            }
        }
    }

    fn begin(&self, to_send: ToSend) {
        let (engine, calls) = (self.engine.clone(), self.calls.clone());
        let call = call(engine, calls, self.line.clone(), self.current(), to_send);
        self.under_way.push(Box::pin(call));
    }

    /// Everything up to here is dealt with, or will be found in the list of what is to be sent again.
    fn place(&self, log: &Subscription) -> u64 {
        self.new.first().map_or(log.after(), |first| first - 1)
    }

    fn store_by(&self, log: &Subscription) -> Option<Instant> {
        if !self.made.is_empty() || !self.gone.is_empty() {
            return Some(Instant::now() + GATHER);
        }
        (self.place(log) > self.stored_place).then(|| Instant::now() + PLACE_EVERY)
    }

    /// Stores what calls came to, and the place; false when it is not to be called any more.
    async fn store(&mut self, log: &Subscription) -> Result<bool> {
        let place = self.place(log);
        let made = std::mem::take(&mut self.made);
        for one in &made {
            self.again.remove(&one.seq);
        }
        let has_failed = made.iter().any(|made| made.error.is_some());
        let progress = WebhookProgress {
            webhook: self.current().no,
            cursor: place,
            made,
            gone: std::mem::take(&mut self.gone),
            at: self.calls.environment.clock.now(),
        };
        let owner = Caller::process_owner();
        let stored = self.engine.progress_webhook(&owner, progress).await?;
        self.stored_place = place;
        match stored {
            Some(row) if row.state == WebhookState::Active => {
                if has_failed || self.retries > 0 {
                    self.send_again().await?;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Sends what is due to be sent again, as much as there is room for.
    async fn send_again(&mut self) -> Result<()> {
        let room = WEBHOOK_CALLS.saturating_sub(self.under_way.len());
        let (owner, row) = (Caller::process_owner(), self.current());
        // Those under way are still on the list.
        let asked = room + self.again.len();
        let found = self.engine.webhook_retries(&owner, &row, asked).await?;
        let WebhookRetries {
            due,
            next_at,
            waiting,
        } = found;
        (self.retries, self.next_retry) = (waiting, next_at);
        for retry in due {
            match retry.event {
                None => self.gone.push(retry.seq),
                Some(_) if !self.again.insert(retry.seq) => {}
                Some(event) => self.begin(ToSend {
                    event,
                    attempts: retry.attempts,
                    since: Some(retry.since),
                }),
            }
        }
        Ok(())
    }

    /// When something is due to be sent again.
    fn retry_at(&self) -> Option<Instant> {
        let now = self.calls.environment.clock.now().as_millis();
        let wait = self.next_retry?.as_millis().saturating_sub(now).max(1);
        let wait = Duration::from_millis(wait.unsigned_abs());
        Some(Instant::now() + wait)
    }
}

/// Waits for a time, if there is one; or not at all.
async fn wait_until(at: Option<Instant>, now: bool) {
    match at {
        _ if now => {}
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
