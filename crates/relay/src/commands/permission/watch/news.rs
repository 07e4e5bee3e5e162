//! What is asked and how it ends, from now on: first what waits already, then everything as it happens. Nothing is missed
//! in between, also when the server restarts.

use std::collections::{HashSet, VecDeque};

use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionOutcome, PermissionRecord};
use relay_sdk::{Filter, PermissionQuery, Relay};
use tokio::sync::mpsc;

use crate::commands::listen;
use crate::commands::permission::waits;
use crate::failure::Outcome;
use crate::paging::all_pages;

/// Something that happened to a request.
pub(super) enum Happening {
    /// It waits for a decision.
    Asked(Box<PermissionRecord>),
    /// It waits no more.
    Ended {
        id: PermissionId,
        outcome: Box<PermissionOutcome>,
    },
}

/// The stream of it.
pub(super) struct News {
    relay: Relay,
    events: mpsc::Receiver<LoggedEvent>,
    /// What waited at the beginning, the oldest first.
    waiting: VecDeque<PermissionRecord>,
    /// What of it may come as an event, too.
    known: HashSet<PermissionId>,
}

impl News {
    pub(super) async fn begin(relay: &Relay) -> Outcome<Self> {
        // Before it is asked what waits: then nothing comes in between.
        let events = listen::follow(relay, Filter::event("permission.*")).await?;
        let permissions = relay.permissions();
        let waiting = all_pages(async |cursor| {
            let query = PermissionQuery {
                cursor: cursor.map(str::to_owned),
                ..PermissionQuery::pending()
            };
            permissions.list(&query).await
        })
        .await?;
        let waiting: VecDeque<_> = waiting.items.into_iter().rev().collect();
        Ok(Self {
            relay: relay.clone(),
            events,
            known: waiting.iter().map(|record| record.permission_id).collect(),
            waiting,
        })
    }

    /// What happened next.
    pub(super) async fn next(&mut self) -> Outcome<Happening> {
        if let Some(record) = self.waiting.pop_front() {
            return Ok(Happening::Asked(Box::new(record)));
        }
        loop {
            let Some(event) = self.events.recv().await else {
                return Err(listen::ended(&self.relay).await);
            };
            match event.event {
                Some(RelayEvent::PermissionRequested(asked)) => {
                    let is_new = !self.known.remove(&asked.permission.permission_id);
                    if is_new && waits(&asked.permission) {
                        return Ok(Happening::Asked(asked.permission));
                    }
                }
                Some(
                    RelayEvent::PermissionResolved(ended)
                    | RelayEvent::PermissionExpired(ended)
                    | RelayEvent::PermissionCancelled(ended),
                ) => {
                    return Ok(Happening::Ended {
                        id: ended.permission_id,
                        outcome: Box::new(ended.outcome),
                    });
                }
                _ => {}
            }
        }
    }
}
