//! Waiting for a decision by long polls, whatever becomes of connections and servers meanwhile.

use std::time::Duration;

use relay_protocol::ids::PermissionId;
use relay_protocol::limits::POLL_WAIT_S;
use relay_protocol::permission::{PermissionRecord, PermissionState};
use serde::Serialize;
use tokio::time::Instant;

use super::path;
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::http::{Call, Http, with_query};

#[derive(Serialize)]
struct PollQuery {
    wait: u64,
}

/// Somebody who waits for a decision.
pub(crate) struct Waiting<'a> {
    http: &'a Http,
    id: PermissionId,
    /// As it was when it was seen last.
    known: Option<PermissionRecord>,
}

impl<'a> Waiting<'a> {
    pub(crate) const fn new(
        http: &'a Http,
        id: PermissionId,
        known: Option<PermissionRecord>,
    ) -> Self {
        Self { http, id, known }
    }

    /// Waits until something is decided or the time is over; the request as it then is.
    pub(crate) async fn wait(mut self, within: Option<Duration>) -> Result<PermissionRecord> {
        let Some(within) = within else {
            return self.decided().await;
        };
        match tokio::time::timeout(within, self.decided()).await {
            Ok(decided) => decided,
            Err(_) => self.known.ok_or(Error::TimedOut(within)),
        }
    }

    async fn decided(&mut self) -> Result<PermissionRecord> {
        let mut backoff = Backoff::default();
        loop {
            let asked = Instant::now();
            // The first question is answered at once: there may be nothing to wait for.
            let span = match self.known {
                Some(_) => self.span(),
                None => Duration::ZERO,
            };
            match self.poll(span).await {
                Ok(record) if record.state != PermissionState::Pending => return Ok(record),
                Ok(record) => self.known = Some(record),
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error),
            }
            if asked.elapsed() >= span {
                backoff.reset();
            } else {
                // A server that is about to stop answers early; another one may come.
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }

    async fn poll(&self, span: Duration) -> Result<PermissionRecord> {
        let query = PollQuery {
            wait: span.as_secs(),
        };
        let path = match query.wait {
            0 => path(self.id, ""),
            _ => with_query(&path(self.id, ""), &query),
        };
        self.http.json(Call::get(path)).await
    }

    /// How long one poll may wait: an answer has to come before the client takes its connection for dead.
    fn span(&self) -> Duration {
        let most = self.http.options.timeout * 2 / 3;
        let seconds = most.as_secs().clamp(1, POLL_WAIT_S.into());
        Duration::from_secs(seconds)
    }
}
