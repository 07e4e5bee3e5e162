//! Calls webhooks: one task for each, so that a slow one holds up no other.
//!
//! What is to be sent is in the log, and what became of it is stored by the engine; here nothing is kept that a crash
//! could lose. See docs/webhooks.md.

mod call;
mod endpoint;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use relay_core::store::{WebhookNo, WebhookRow};
use relay_core::{Caller, Engine};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

pub(crate) use self::call::extra_headers;
use self::endpoint::Endpoint;
use crate::webhook::Calls;

/// How long to wait after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// A webhook that is being called.
struct Running {
    row: watch::Sender<Arc<WebhookRow>>,
    task: AbortHandle,
}

/// Calls all webhooks that are to be called, until it is dropped.
pub(crate) async fn run(engine: Arc<Engine>, calls: Arc<Calls>) {
    let mut changes = engine.watch_webhooks();
    let mut running = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        changes.borrow_and_update();
        match engine.active_webhooks(&Caller::process_owner()).await {
            Ok(rows) => {
                let found = Found {
                    engine: &engine,
                    calls: &calls,
                    rows,
                };
                found.reconcile(&mut running, &mut tasks);
            }
            Err(error) => {
                tracing::warn!(%error, "webhooks can't be read");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            // One that has ended was switched off, or could not be followed: look again.
            Some(ended) = tasks.join_next_with_id() => {
                let (id, was_ended) = match ended {
                    Ok((id, ())) => (id, false),
                    Err(error) => (error.id(), error.is_cancelled()),
                };
                running.retain(|_, running: &mut Running| running.task.id() != id);
                // One that was removed holds up nobody who is new.
                if !was_ended {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// What is to be called.
struct Found<'a> {
    engine: &'a Arc<Engine>,
    calls: &'a Arc<Calls>,
    rows: Vec<Arc<WebhookRow>>,
}

impl Found<'_> {
    /// Begins what is new, ends what is not there any more, and tells the others what has changed.
    fn reconcile(self, running: &mut HashMap<WebhookNo, Running>, tasks: &mut JoinSet<()>) {
        running.retain(|no, running| {
            let is_wanted = self.rows.iter().any(|row| row.no == *no);
            if !is_wanted {
                running.task.abort();
            }
            is_wanted
        });
        for row in self.rows {
            if let Some(known) = running.get(&row.no) {
                known.row.send_replace(row);
                continue;
            }
            let no = row.no;
            let (sender, receiver) = watch::channel(row);
            let endpoint = Endpoint::new(self.engine.clone(), self.calls.clone(), receiver);
            let task = tasks.spawn(async move {
                if let Err(error) = endpoint.run().await {
                    tracing::warn!(%error, "a webhook can't be called at the moment");
                }
            });
            running.insert(no, Running { row: sender, task });
        }
    }
}
