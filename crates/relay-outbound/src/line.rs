//! Connections that one caller keeps between its calls.
//!
//! A connection was opened to an address that was checked, and stays with it; it is kept for the same host and port alone, and for
//! a short time only, so that a name which has moved is looked up again. Written here because clients with a pool look up and
//! connect by themselves, which is what the guard must do, and share connections between callers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::call::{Answer, Open, Outbound, Request, checked, message};
use crate::error::Error;
use crate::target::{Host, Target};

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(15);

/// How old a connection may be when it is used again.
const AGE: Duration = Duration::from_secs(5 * 60);

/// Calls of one caller, who may be heard twice: a call over a kept connection that ends without an answer is
/// made again over a new one.
pub struct Line {
    outbound: Outbound,
    kept: Arc<Mutex<Kept>>,
}

/// Connections that nobody uses just now.
#[derive(Default)]
struct Kept {
    idle: Vec<Idle>,
    /// Whether somebody looks after them.
    is_watched: bool,
}

struct Idle {
    end: End,
    open: Open,
    opened_at: Instant,
    since: Instant,
}

/// What a connection leads to.
#[derive(Clone, PartialEq, Eq)]
struct End {
    is_https: bool,
    host: Host,
    port: u16,
}

impl From<&Target> for End {
    fn from(target: &Target) -> Self {
        Self {
            is_https: target.is_https,
            host: target.host.clone(),
            port: target.port,
        }
    }
}

impl Line {
    pub(crate) fn new(outbound: Outbound) -> Self {
        Self {
            outbound,
            kept: Arc::default(),
        }
    }

    /// Makes a call.
    pub async fn call(&self, request: Request) -> Result<Answer, Error> {
        let target = checked(&request)?;
        let calling = self.call_target(&target, request);
        self.outbound.in_time(&target, Box::pin(calling)).await
    }

    async fn call_target(&self, target: &Target, request: Request) -> Result<Answer, Error> {
        let end = End::from(target);
        while let Some((mut open, opened_at)) = self.take(&end) {
            if open.sender.ready().await.is_err() {
                continue;
            }
            let message = message(target, request.clone());
            match self.outbound.ask(target, &mut open, message).await {
                // Most likely the other side has closed it at the same time.
                Err(Error::Http { .. }) => break,
                asked => return asked.inspect(|_| self.put_back(end, open, opened_at)),
            }
        }
        let opened_at = Instant::now();
        let mut open = self.outbound.open(target).await?;
        let message = message(target, request);
        let answer = self.outbound.ask(target, &mut open, message).await?;
        self.put_back(end, open, opened_at);
        Ok(answer)
    }

    /// A connection that was not closed as far as is known, the one that was used last.
    fn take(&self, end: &End) -> Option<(Open, Instant)> {
        let mut kept = lock(&self.kept);
        kept.idle
            .retain(|idle| idle.end == *end && !idle.open.sender.is_closed());
        let idle = kept.idle.pop()?;
        Some((idle.open, idle.opened_at))
    }

    fn put_back(&self, end: End, open: Open, opened_at: Instant) {
        let now = Instant::now();
        if open.sender.is_closed() || now > opened_at + AGE {
            return;
        }
        let mut kept = lock(&self.kept);
        kept.idle.push(Idle {
            end,
            open,
            opened_at,
            since: now,
        });
        if !kept.is_watched {
            kept.is_watched = true;
            tokio::spawn(watch(Arc::downgrade(&self.kept)));
        }
    }
}

/// Closes what nobody has used for a while, until nothing is left.
async fn watch(kept: std::sync::Weak<Mutex<Kept>>) {
    let mut next = Instant::now() + IDLE;
    loop {
        sleep_until(next).await;
        let Some(kept) = kept.upgrade() else { return };
        let mut kept = lock(&kept);
        let oldest = Instant::now().checked_sub(IDLE);
        let is_recent = |idle: &Idle| oldest.is_none_or(|oldest| idle.since > oldest);
        kept.idle.retain(is_recent);
        match kept.idle.iter().map(|idle| idle.since).min() {
            Some(since) => next = since + IDLE,
            None => {
                kept.is_watched = false;
                return;
            }
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
