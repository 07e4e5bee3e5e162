//! Webhooks: events that go out to a URL, and URLs that messages come in by.

use std::future::IntoFuture;
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;

use relay_protocol::api::Page;
use relay_protocol::ids::{EventId, WebhookId};
use relay_protocol::selector::Filter;
use relay_protocol::webhook::{
    CreateInboundWebhook, CreateWebhook, InboundWebhookCreated, InboundWebhookInfo, ReplayWebhook,
    RotateWebhookSecret, UpdateWebhook, WebhookAttempt, WebhookCreated, WebhookInfo,
    WebhookReplayed, WebhookSecret, WebhookState,
};

use super::{Client, bare, page};
use crate::error::Result;
use crate::http::Call;

const OUTBOUND: &str = "/v1/webhooks";
const INBOUND: &str = "/v1/webhooks/inbound";

/// The webhooks of a workspace.
///
/// ```no_run
/// # async fn example(relay: relay_sdk::Relay) -> relay_sdk::Result<()> {
/// let webhook = relay
///     .webhooks()
///     .subscribe("https://your-service.dev/webhooks/relay", ["message.created", "action.completed"])
///     .await?;
/// println!("verify what comes with {}", webhook.secret);
/// # Ok(())
/// # }
/// ```
///
/// A [`WebhookVerifier`](crate::WebhookVerifier) reads what arrives at the other side.
#[derive(Clone)]
pub struct Webhooks {
    client: Client,
}

impl Webhooks {
    pub(super) const fn of(client: Client) -> Self {
        Self { client }
    }

    /// Has a URL called for every event with one of these names or patterns from now on. The answer has the
    /// secret that signs the calls; it is shown this once.
    pub fn subscribe(
        &self,
        url: &str,
        events: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Subscribing {
        let events = events.into_iter().map(|event| event.as_ref().to_owned());
        Subscribing {
            client: self.client.clone(),
            body: CreateWebhook {
                url: url.to_owned(),
                events: events.collect(),
                filter: None,
                headers: None,
                secret: None,
            },
        }
    }

    /// All webhooks, the oldest first. `cursor` is the `nextCursor` of the page before.
    pub async fn list(&self, cursor: Option<&str>) -> Result<Page<WebhookInfo>> {
        self.client
            .http()
            .json(Call::get(page(OUTBOUND, cursor)))
            .await
    }

    /// One webhook.
    pub async fn get(&self, id: WebhookId) -> Result<WebhookInfo> {
        self.client.http().json(Call::get(path(id, ""))).await
    }

    /// Switches a webhook on again. It goes on where it was.
    pub async fn enable(&self, id: WebhookId) -> Result<WebhookInfo> {
        self.switch(id, WebhookState::Active).await
    }

    /// Switches a webhook off. What happens meanwhile is sent when it is switched on again.
    pub async fn disable(&self, id: WebhookId) -> Result<WebhookInfo> {
        self.switch(id, WebhookState::Disabled).await
    }

    async fn switch(&self, id: WebhookId, state: WebhookState) -> Result<WebhookInfo> {
        let call = Call::patch(path(id, ""), &UpdateWebhook { state }).repeatable();
        self.client.http().json(call).await
    }

    /// Gives a webhook a new secret. For a day calls are signed with the old one, too.
    pub async fn rotate_secret(&self, id: WebhookId) -> Result<WebhookSecret> {
        self.replace_secret(id, RotateWebhookSecret::default())
            .await
    }

    /// Gives a webhook this secret. For a day calls are signed with the old one, too.
    pub async fn set_secret(&self, id: WebhookId, secret: &str) -> Result<WebhookSecret> {
        let secret = Some(secret.to_owned());
        self.replace_secret(id, RotateWebhookSecret { secret })
            .await
    }

    async fn replace_secret(
        &self,
        id: WebhookId,
        body: RotateWebhookSecret,
    ) -> Result<WebhookSecret> {
        let call = Call::post(path(id, "/secret"), &body);
        self.client.http().json(call).await
    }

    /// The newest calls of a webhook, newest first. `cursor` is the `nextCursor` of the page before.
    pub async fn attempts(
        &self,
        id: WebhookId,
        cursor: Option<&str>,
    ) -> Result<Page<WebhookAttempt>> {
        let path = page(&path(id, "/attempts"), cursor);
        self.client.http().json(Call::get(path)).await
    }

    /// Sends events once more: those of these that the webhook wants. How many that are.
    pub async fn replay(
        &self,
        id: WebhookId,
        events: impl IntoIterator<Item = EventId>,
    ) -> Result<u64> {
        let ids = Some(events.into_iter().collect());
        let body = ReplayWebhook {
            ids,
            ..ReplayWebhook::default()
        };
        self.send_again(id, body).await
    }

    /// Sends a part of the log once more: what the webhook wants of it. How many events that are.
    ///
    /// ```no_run
    /// # async fn example(relay: relay_sdk::Relay) -> relay_sdk::Result<()> {
    /// # let id = relay.webhooks().list(None).await?.items[0].id;
    /// relay.webhooks().replay_range(id, 100..=200).await?;
    /// relay.webhooks().replay_range(id, 100..).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replay_range(&self, id: WebhookId, seqs: impl RangeBounds<u64>) -> Result<u64> {
        let body = ReplayWebhook {
            ids: None,
            from: Some(first(seqs.start_bound())),
            to: last(seqs.end_bound()),
        };
        self.send_again(id, body).await
    }

    async fn send_again(&self, id: WebhookId, body: ReplayWebhook) -> Result<u64> {
        let call = Call::post(path(id, "/replay"), &body);
        let WebhookReplayed { queued } = self.client.http().json(call).await?;
        Ok(queued)
    }

    /// Ends a webhook; what waits to be sent is not sent any more.
    pub async fn delete(&self, id: WebhookId) -> Result<()> {
        self.client.http().done(Call::delete(path(id, ""))).await
    }

    /// Makes a URL by which messages come into a channel. The answer has the token that goes with it; it is shown
    /// this once.
    pub async fn create_inbound(
        &self,
        channel: &str,
        name: Option<&str>,
    ) -> Result<InboundWebhookCreated> {
        let body = CreateInboundWebhook {
            channel: bare(channel).to_owned(),
            name: name.map(str::to_owned),
        };
        self.client.http().json(Call::post(INBOUND, &body)).await
    }

    /// The URLs by which messages come in, the oldest first. `cursor` is the `nextCursor` of the page before.
    pub async fn list_inbound(&self, cursor: Option<&str>) -> Result<Page<InboundWebhookInfo>> {
        self.client
            .http()
            .json(Call::get(page(INBOUND, cursor)))
            .await
    }

    /// Ends such a URL; its token stops working at once.
    pub async fn delete_inbound(&self, id: WebhookId) -> Result<()> {
        let path = format!("{INBOUND}/{id}");
        self.client.http().done(Call::delete(path)).await
    }
}

fn path(id: WebhookId, rest: &str) -> String {
    format!("{OUTBOUND}/{id}{rest}")
}

fn first(start: Bound<&u64>) -> u64 {
    match start {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 1,
    }
}

fn last(end: Bound<&u64>) -> Option<u64> {
    match end {
        Bound::Included(last) => Some(*last),
        Bound::Excluded(after) => Some(after.saturating_sub(1)),
        Bound::Unbounded => None,
    }
}

/// A webhook that is about to be made: awaited, it is.
///
/// ```no_run
/// # async fn example(relay: relay_sdk::Relay) -> relay_sdk::Result<()> {
/// let in_general = relay.events().message().in_channel("general");
/// relay
///     .webhooks()
///     .subscribe("https://your-service.dev/webhooks/relay", ["message.*"])
///     .filter(in_general)
///     .header("x-team", "release")
///     .secret("a secret of at least 16 bytes")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a webhook is made when this is awaited"]
pub struct Subscribing {
    client: Client,
    body: CreateWebhook,
}

impl Subscribing {
    /// Only events that this holds for as well: a predicate as listeners have them, or a filter.
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.body.filter = Some(filter.into());
        self
    }

    /// Sends a header along.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let headers = self.body.headers.get_or_insert_default();
        headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Signs the calls with this. Default: the server makes a secret.
    pub fn secret(mut self, secret: &str) -> Self {
        self.body.secret = Some(secret.to_owned());
        self
    }
}

impl IntoFuture for Subscribing {
    type Output = Result<WebhookCreated>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let call = Call::post(OUTBOUND, &self.body);
            self.client.http().json(call).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_the_log_is_what_its_form_says() {
        let check = |range: (Bound<u64>, Bound<u64>), expected| {
            let found = (first(range.start_bound()), last(range.end_bound()));
            assert_eq!(found, expected, "{range:?}");
        };
        let (at, beside) = (Bound::Included, Bound::Excluded);
        check((at(3), at(5)), (3, Some(5)));
        check((at(3), beside(5)), (3, Some(4)));
        check((beside(3), Bound::Unbounded), (4, None));
        check((Bound::Unbounded, at(5)), (1, Some(5)));
    }
}
