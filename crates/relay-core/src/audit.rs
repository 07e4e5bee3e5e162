//! The log as evidence: head, verification, erasure, retention; and the care of the files.

use std::path::Path;
use std::time::Duration;

use relay_protocol::api::audit::{EventsRetained, RetainEvents};
use relay_protocol::limits::{PAGE_ITEMS, REASON_BYTES};
use relay_protocol::time::Timestamp;

use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::{Error, Result};
use crate::store::{AuditReport, ChainHead, Erasure, Retention};

/// What the log need not keep any longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepSince {
    /// Payloads of bulky kinds (terminal output, transcripts, tool output) from before this time go.
    pub bulky: Option<Timestamp>,
    /// Whole entries from before this time go, as far as they are the oldest. Messages stay.
    pub all: Option<Timestamp>,
}

/// How long logs are kept; without a time, for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepFor {
    /// Payloads of bulky kinds.
    pub bulky: Option<Duration>,
    /// Whole entries.
    pub all: Option<Duration>,
}

impl KeepFor {
    /// Whether everything is kept.
    #[must_use]
    pub const fn is_for_ever(&self) -> bool {
        self.bulky.is_none() && self.all.is_none()
    }

    fn since(&self, now: Timestamp) -> KeepSince {
        let before =
            |kept: Duration| now.plus_millis(-i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
        KeepSince {
            bulky: self.bulky.map(before),
            all: self.all.map(before),
        }
    }
}

impl Engine {
    /// The end of the chain. Kept elsewhere, it shows later that nothing was rewritten.
    pub async fn audit_head(&self, caller: &Caller) -> Result<ChainHead> {
        self.store.head(caller.require_workspace_key()?.no).await
    }

    /// Checks the whole log against its chain.
    pub async fn audit_verify(&self, caller: &Caller) -> Result<AuditReport> {
        self.store.verify(caller.require_workspace_key()?.no).await
    }

    /// Removes payloads, such as a leaked secret, from the log, with every record that copies them, and what they have
    /// left in the files; says how many rows of the log that were. What happened, and that it was erased, stays. So
    /// many at a time as a page has.
    ///
    /// A failure may come after the content was removed from all answers but not from the files. The same call again
    /// finishes that.
    pub async fn audit_erase(&self, caller: &Caller, seqs: Vec<u64>, reason: &str) -> Result<u64> {
        let workspace_no = caller.require_workspace_key()?.no;
        within("seqs", PAGE_ITEMS, seqs.len())?;
        within("reason", REASON_BYTES, reason.len())?;
        let reason = reason.to_owned();
        let erasure = Erasure {
            workspace_no,
            seqs,
            reason,
            at: self.now(),
        };
        let erased = self.store.erase(erasure).await?;
        self.store.scrub(workspace_no).await?;
        Ok(erased)
    }

    /// Applies retention to a workspace.
    pub async fn retain_events(
        &self,
        caller: &Caller,
        body: RetainEvents,
    ) -> Result<EventsRetained> {
        let workspace_no = caller.require_workspace_key()?.no;
        let RetainEvents {
            bulky_before,
            all_before,
        } = body;
        if bulky_before.is_none() && all_before.is_none() {
            return Err(Error::Invalid {
                path: "bulkyBefore",
                expected: "this or `allBefore`".to_owned(),
                found: "neither".to_owned(),
            });
        }
        let since = KeepSince {
            bulky: bulky_before,
            all: all_before,
        };
        self.retain_in(workspace_no, since).await
    }

    /// Applies retention; says how many payloads and how many whole entries went.
    pub async fn retain(&self, caller: &Caller, since: KeepSince) -> Result<(u64, u64)> {
        let workspace_no = caller.require_workspace_key()?.no;
        let EventsRetained { erased, cut } = self.retain_in(workspace_no, since).await?;
        Ok((erased, cut))
    }

    /// Applies retention to every workspace.
    pub async fn retain_everywhere(
        &self,
        caller: &Caller,
        keep: KeepFor,
    ) -> Result<EventsRetained> {
        caller.require_admin()?;
        let since = keep.since(self.now());
        let mut total = EventsRetained::default();
        for workspace_no in self.store.workspace_nos().await? {
            let EventsRetained { erased, cut } = self.retain_in(workspace_no, since).await?;
            total.erased += erased;
            total.cut += cut;
        }
        Ok(total)
    }

    /// Applies retention in changes of a bounded size, until there is nothing left to do.
    async fn retain_in(&self, workspace_no: u32, since: KeepSince) -> Result<EventsRetained> {
        let mut total = EventsRetained::default();
        loop {
            let retention = Retention {
                workspace_no,
                bulky_before: since.bulky,
                all_before: since.all,
                at: self.now(),
            };
            let (erased, cut) = self.store.retain(retention).await?;
            total.erased += erased;
            total.cut += cut;
            if erased == 0 {
                return Ok(total);
            }
        }
    }

    /// Removes what nobody can use any more; says how many things.
    pub async fn collect_garbage(&self, caller: &Caller) -> Result<u64> {
        caller.require_admin()?;
        self.store.collect_garbage(self.now().as_millis()).await
    }

    /// Copies everything into a new file while work goes on.
    pub async fn backup(&self, caller: &Caller, to: &Path) -> Result<()> {
        caller.require_admin()?;
        self.store.backup(to).await
    }

    /// Checks the database file itself; says what is wrong with it.
    pub async fn check_integrity(&self, caller: &Caller) -> Result<Vec<String>> {
        caller.require_admin()?;
        self.store.check_integrity().await
    }
}
