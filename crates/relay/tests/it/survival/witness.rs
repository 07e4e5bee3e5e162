//! Somebody who listens, and whose list is held against the log.

use std::collections::BTreeSet;

use relay_sdk::protocol::api::events::EventQuery;
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::{Client, LoggedEvent, RelayEvent, after};
use tokio::sync::watch;

use crate::support::soon;

/// One listener.
pub(crate) struct Witness {
    client: Client,
    pattern: &'static str,
    seen: watch::Receiver<Vec<LoggedEvent>>,
}

impl Witness {
    /// Listens from the beginning of the log on.
    pub(crate) async fn listen(client: Client, pattern: &'static str) -> Self {
        let (all, seen) = watch::channel(Vec::new());
        client
            .add_listener(after(0, pattern), move |event| {
                all.send_modify(|all: &mut Vec<LoggedEvent>| all.push(event));
                async {}
            })
            .await
            .unwrap();
        Self {
            client,
            pattern,
            seen,
        }
    }

    /// Waits until all of these deliveries were reported as delivered; each was once.
    pub(crate) async fn has_seen_delivered(&mut self, expected: &BTreeSet<DeliveryId>) {
        let mut missing = expected.clone();
        let mut read = 0;
        let reported = self.seen.wait_for(|seen| {
            for event in &seen[read..] {
                if let Some(RelayEvent::DeliveryDelivered(delivery)) = &event.event {
                    let id = delivery.delivery_id;
                    assert!(missing.remove(&id), "{id} was delivered twice or not sent");
                }
            }
            read = seen.len();
            missing.is_empty()
        });
        soon("the last delivery", reported).await.unwrap();
    }

    /// Holds what was seen against the log: no gap, no repetition, no other order.
    pub(crate) async fn check(&mut self) {
        let log = self.log().await;
        let end = log.last().unwrap().seq;
        let reached = self
            .seen
            .wait_for(|seen| seen.last().is_some_and(|event| event.seq >= end));
        let seen = soon("the end of the log", reached).await.unwrap();
        let seen = seen.iter().take_while(|event| event.seq <= end);
        let numbers = |event: &LoggedEvent| (event.seq, event.event_type.clone());
        let seen: Vec<_> = seen.map(numbers).collect();
        let log: Vec<_> = log.iter().map(numbers).collect();
        let differs = seen.iter().zip(&log).position(|(seen, log)| seen != log);
        let at = differs.unwrap_or(seen.len().min(log.len()));
        assert!(
            seen == log,
            "{}: seen {:?}, logged {:?}",
            self.pattern,
            seen.get(at.saturating_sub(2)..seen.len().min(at + 3)),
            log.get(at.saturating_sub(2)..log.len().min(at + 3))
        );
    }

    /// What the same credential finds in the log.
    async fn log(&self) -> Vec<LoggedEvent> {
        let mut found = Vec::new();
        let mut query = EventQuery {
            after: Some(0),
            types: Some(self.pattern.to_owned()),
            limit: Some(200),
        };
        loop {
            let page = self.client.read_events(&query).await.unwrap();
            found.extend(page.items);
            query.after = Some(page.after);
            if page.next_cursor.is_none() {
                return found;
            }
        }
    }
}
