//! Webhooks: events that go out. Who they go to is decided here; a server makes the calls, with what is at the end of this
//! file. `docs/webhooks.md` has the picture.

mod schedule;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::event::TokenKind;
use relay_protocol::ids::WebhookId;
use relay_protocol::limits::{
    NAME_CHARS, PAGE_ITEMS, WEBHOOK_EVENTS, WEBHOOK_HEADERS, WEBHOOK_REPLAYED,
    WEBHOOK_SECRET_GRACE_MS, WEBHOOK_TEXT_BYTES,
};
use relay_protocol::problem::Problem;
use relay_protocol::selector::{Filter, Selector};
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::{
    CreateInboundWebhook, CreateWebhook, InboundWebhookInfo, ReplayWebhook, WebhookAttempt,
    WebhookCreated, WebhookInfo, WebhookReplayed, WebhookSecret, WebhookState,
};
use tokio::sync::watch;

use crate::caller::{Caller, make_token};
use crate::channels::without_hash;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::events::Subscription;
use crate::store::position::place_of;
use crate::store::{
    CallNext, InboundRow, NewInbound, NewWebhook, WebhookBody, WebhookChange, WebhookProgress,
    WebhookReplay, WebhookRetries, WebhookRow,
};

impl Engine {
    /// Makes a webhook, which gets what happens from now on. The secret has the form that the caller of the
    /// webhook signs with; whether the URL may be called is its matter, too.
    pub async fn create_webhook(
        &self,
        caller: &Caller,
        body: CreateWebhook,
        secret: String,
    ) -> Result<WebhookCreated> {
        let workspace_no = caller.require_workspace_key()?.no;
        check(&body)?;
        let body = WebhookBody {
            url: body.url,
            events: body.events,
            filter: body.filter,
            headers: body.headers.unwrap_or_default(),
        };
        check_can_fire(&body)?;
        let at = self.now();
        let row = self
            .store
            .create_webhook(NewWebhook {
                workspace_no,
                id: WebhookId::new(at, self.bits()),
                body,
                secret,
                at,
            })
            .await?;
        self.webhooks_changed();
        Ok(WebhookCreated {
            id: row.id,
            url: row.body.url,
            events: row.body.events,
            secret: row.secret,
        })
    }

    /// All webhooks, the oldest first.
    pub async fn webhooks(&self, caller: &Caller, page: PageQuery) -> Result<Page<WebhookInfo>> {
        let workspace_no = caller.require_workspace_key()?.no;
        let found = self.store.webhooks(workspace_no, page.request()?).await?;
        Ok(Page {
            items: found.items.into_iter().map(info).collect(),
            next_cursor: found.next_cursor,
        })
    }

    /// One webhook.
    pub async fn webhook(&self, caller: &Caller, id: WebhookId) -> Result<WebhookInfo> {
        let workspace_no = caller.require_workspace_key()?.no;
        self.store.webhook(workspace_no, id).await.map(info)
    }

    /// Ends a webhook.
    pub async fn delete_webhook(&self, caller: &Caller, id: WebhookId) -> Result<()> {
        let workspace_no = caller.require_workspace_key()?.no;
        self.store.delete_webhook(workspace_no, id).await?;
        self.webhooks_changed();
        Ok(())
    }

    /// Switches a webhook on again, or off. It goes on where it was.
    pub async fn switch_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
        state: WebhookState,
    ) -> Result<WebhookInfo> {
        let change = WebhookChange {
            workspace_no: caller.require_workspace_key()?.no,
            id,
            secret: None,
            state: Some(state),
            at: self.now(),
        };
        self.store.change_webhook(change).await?;
        self.webhooks_changed();
        self.webhook(caller, id).await
    }

    /// Gives a webhook another secret; the old one signs, too, for a day.
    pub async fn rotate_webhook_secret(
        &self,
        caller: &Caller,
        id: WebhookId,
        secret: String,
    ) -> Result<WebhookSecret> {
        let at = self.now();
        let old_valid_until = at.plus_millis(WEBHOOK_SECRET_GRACE_MS);
        let change = WebhookChange {
            workspace_no: caller.require_workspace_key()?.no,
            id,
            secret: Some((secret, old_valid_until)),
            state: None,
            at,
        };
        let row = self.store.change_webhook(change).await?;
        self.webhooks_changed();
        Ok(WebhookSecret {
            secret: row.secret,
            old_valid_until,
        })
    }

    /// The newest calls of a webhook, newest first.
    pub async fn webhook_attempts(
        &self,
        caller: &Caller,
        id: WebhookId,
        page: PageQuery,
    ) -> Result<Page<WebhookAttempt>> {
        let workspace_no = caller.require_workspace_key()?.no;
        self.store
            .webhook_attempts(workspace_no, id, page.request()?)
            .await
    }

    /// Sends events once more: those of these that the webhook wants.
    pub async fn replay_webhook(
        &self,
        caller: &Caller,
        id: WebhookId,
        body: ReplayWebhook,
    ) -> Result<WebhookReplayed> {
        let workspace = caller.require_workspace_key()?.clone();
        let (row, _) = self.store.webhook(workspace.no, id).await?;
        let selector = self.knowing(caller, selector(&row.body)?).await?;
        let ids = body.ids.unwrap_or_default();
        within("ids", WEBHOOK_REPLAYED, ids.len())?;
        if ids.is_empty() && body.from.is_none() && body.to.is_none() {
            return Err(Error::Invalid {
                path: "ids",
                expected: "ids of events, or from and to".to_owned(),
                found: "neither".to_owned(),
            });
        }
        let mut seqs = BTreeSet::new();
        for event_id in ids {
            let place = place_of(workspace.id, workspace.no, event_id);
            let (position, _) = place.ok_or(Error::UnknownEvent(event_id))?;
            let before = position.seq().saturating_sub(1);
            let found = self.store.events(workspace.no, before, 1).await?;
            let event = found.first().filter(|event| event.event.id == event_id);
            let event = event.ok_or(Error::UnknownEvent(event_id))?;
            if selector.matches(&event.event) {
                seqs.insert(event.event.seq);
            }
        }
        if body.from.is_some() || body.to.is_some() {
            let range = body.from.unwrap_or(1)..=body.to.unwrap_or(u64::MAX);
            self.wanted_in(workspace.no, &selector, range, &mut seqs)
                .await?;
        }
        let replay = WebhookReplay {
            workspace_no: workspace.no,
            id,
            seqs: seqs.into_iter().collect(),
            at: self.now(),
        };
        let queued = self.store.replay_webhook(replay).await?;
        self.webhooks_changed();
        Ok(WebhookReplayed { queued })
    }

    /// Adds the events of a range of the log that a selector matches.
    async fn wanted_in(
        &self,
        workspace_no: u32,
        selector: &Selector,
        range: RangeInclusive<u64>,
        seqs: &mut BTreeSet<u64>,
    ) -> Result<()> {
        let mut after = range.start().saturating_sub(1);
        loop {
            let found = self.store.events(workspace_no, after, PAGE_ITEMS).await?;
            let Some(last) = found.last() else {
                return Ok(());
            };
            after = last.event.seq;
            let within_range = found.iter().map(|event| &event.event);
            let within_range = within_range.filter(|event| range.contains(&event.seq));
            let wanted = within_range.filter(|event| selector.matches(event));
            seqs.extend(wanted.map(|event| event.seq));
            within("events", WEBHOOK_REPLAYED, seqs.len())?;
            if after >= *range.end() {
                return Ok(());
            }
        }
    }

    /// Makes a way for messages to come into a channel; the token is shown this once.
    pub async fn create_inbound(
        &self,
        caller: &Caller,
        body: CreateInboundWebhook,
    ) -> Result<(InboundWebhookInfo, String)> {
        let workspace_no = caller.require_workspace_key()?.no;
        let named = body.name.as_deref().unwrap_or_default();
        within("name", NAME_CHARS, named.chars().count())?;
        let (token, stored) = make_token(TokenKind::Webhook, &*self.environment.random, self.now());
        let new = NewInbound {
            workspace_no,
            token: stored,
            channel: without_hash(&body.channel).to_owned(),
            name: body.name,
        };
        let row = self.store.create_inbound(new).await?;
        Ok((inbound_info(row), token))
    }

    /// All ways for messages to come in, the oldest first.
    pub async fn inbound_webhooks(
        &self,
        caller: &Caller,
        page: PageQuery,
    ) -> Result<Page<InboundWebhookInfo>> {
        let workspace_no = caller.require_workspace_key()?.no;
        let found = self
            .store
            .inbound_webhooks(workspace_no, page.request()?)
            .await?;
        Ok(Page {
            items: found.items.into_iter().map(inbound_info).collect(),
            next_cursor: found.next_cursor,
        })
    }

    /// Ends a way for messages to come in; its token stops working at once.
    pub async fn delete_inbound(&self, caller: &Caller, id: WebhookId) -> Result<()> {
        let workspace_no = caller.require_workspace_key()?.no;
        self.store
            .delete_inbound(workspace_no, id, self.now())
            .await
    }

    fn webhooks_changed(&self) {
        self.webhook_changes.send_modify(|count| *count += 1);
    }
}

/// For whoever makes the calls.
impl Engine {
    /// Tells when webhooks were made, changed or ended.
    #[must_use]
    pub fn watch_webhooks(&self) -> watch::Receiver<u64> {
        self.webhook_changes.subscribe()
    }

    /// Webhooks of all workspaces that are to be called.
    pub async fn active_webhooks(&self, owner: &Caller) -> Result<Vec<Arc<WebhookRow>>> {
        owner.require_admin()?;
        self.store.active_webhooks().await
    }

    /// The events that a webhook wants, from its place on.
    pub async fn follow_for_webhook(
        &self,
        owner: &Caller,
        row: &WebhookRow,
    ) -> Result<Subscription> {
        owner.require_admin()?;
        let workspace = self.store.workspace_by_no(row.workspace_no).await?;
        let key = Caller::workspace_key(workspace);
        let selector = self.knowing(&key, selector(&row.body)?).await?;
        match self
            .subscribe(&key, selector.clone(), Some(row.cursor))
            .await
        {
            // The log begins later by now: what was cut off can't be sent any more.
            Err(Error::BadCursor { .. }) => self.subscribe(&key, selector, Some(0)).await,
            begun => begun,
        }
    }

    /// What a webhook has to send again.
    pub async fn webhook_retries(
        &self,
        owner: &Caller,
        row: &WebhookRow,
        limit: usize,
    ) -> Result<WebhookRetries> {
        owner.require_admin()?;
        self.store.webhook_retries(row, self.now(), limit).await
    }

    /// Stores what a webhook's calls came to; the webhook as it is then, or nothing when it is gone.
    pub async fn progress_webhook(
        &self,
        owner: &Caller,
        progress: WebhookProgress,
    ) -> Result<Option<Arc<WebhookRow>>> {
        owner.require_admin()?;
        self.store.progress_webhook(progress).await
    }

    /// What follows from a call that failed, as the attempt with this number, at this time.
    #[must_use]
    pub fn after_failed_call(&self, attempt: u32, at: Timestamp) -> CallNext {
        match schedule::wait_ms(attempt, self.bits() as u64) {
            Some(wait) => CallNext::Again(at.plus_millis(i64::try_from(wait).unwrap_or(i64::MAX))),
            None => CallNext::GivenUp,
        }
    }
}

fn check(body: &CreateWebhook) -> Result<()> {
    within("url", WEBHOOK_TEXT_BYTES, body.url.len())?;
    within("events", WEBHOOK_EVENTS, body.events.len())?;
    if body.events.is_empty() {
        return Err(Error::Invalid {
            path: "events",
            expected: "at least one event name or pattern".to_owned(),
            found: "none".to_owned(),
        });
    }
    let headers = body.headers.iter().flatten();
    within("headers", WEBHOOK_HEADERS, headers.clone().count())?;
    for (name, value) in headers {
        within("headers", WEBHOOK_TEXT_BYTES, name.len() + value.len())?;
    }
    for event in &body.events {
        Selector::parse(event).map_err(refused)?;
    }
    if let Some(filter) = &body.filter {
        Selector::from_filter(filter.clone()).map_err(refused)?;
    }
    Ok(())
}

/// Refuses a webhook that no event can reach.
fn check_can_fire(body: &WebhookBody) -> Result<()> {
    if selector(body)?.event_types().next().is_some() {
        return Ok(());
    }
    Err(Error::Invalid {
        path: "events",
        expected: "at least one event that can match, also the filter; events about webhooks go to no webhook"
            .to_owned(),
        found: body.events.join(", "),
    })
}

fn refused(error: impl Into<Problem>) -> Error {
    Error::Refused(Box::new(error.into()))
}

/// One of the events, and the filter; nothing about webhooks, which would cause itself.
fn selector(body: &WebhookBody) -> Result<Selector> {
    let events = body.events.iter().map(|event| Filter::event(event.clone()));
    let any = Filter {
        or: Some(events.collect()),
        ..Filter::default()
    };
    let of_webhooks = Filter {
        not: Some(Box::new(Filter::event("webhook.*"))),
        ..Filter::default()
    };
    let mut all = vec![any, of_webhooks];
    all.extend(body.filter.clone());
    let filter = Filter {
        and: Some(all),
        ..Filter::default()
    };
    Selector::from_filter(filter).map_err(refused)
}

fn inbound_info(row: InboundRow) -> InboundWebhookInfo {
    InboundWebhookInfo {
        id: row.id,
        channel: row.channel,
        name: row.name,
        created_at: row.created_at,
    }
}

fn info((row, waiting): (WebhookRow, usize)) -> WebhookInfo {
    let names: Vec<String> = row.body.headers.into_keys().collect();
    WebhookInfo {
        id: row.id,
        url: row.body.url,
        events: row.body.events,
        filter: row.body.filter,
        header_names: (!names.is_empty()).then_some(names),
        state: row.state,
        created_at: row.created_at,
        last_success_at: row.last_success_at,
        last_error: row.last_error,
        waiting: waiting as u64,
    }
}
