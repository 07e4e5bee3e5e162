//! The log as evidence: head, verification, erasure, retention; and the care of the files.

use std::path::Path;

use relay_protocol::limits::{PAGE_ITEMS, REASON_BYTES};
use relay_protocol::time::Timestamp;

use crate::caller::Caller;
use crate::engine::{Engine, within};
use crate::error::Result;
use crate::store::{AuditReport, ChainHead, Erasure, Retention};

/// What the log need not keep any longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepSince {
    /// Payloads of bulky kinds (terminal output, transcripts, tool output) from before this time go.
    pub bulky: Option<Timestamp>,
    /// Whole entries from before this time go, as far as they are the oldest. Messages stay.
    pub all: Option<Timestamp>,
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

    /// Applies retention; says how many payloads and how many whole entries went.
    pub async fn retain(&self, caller: &Caller, since: KeepSince) -> Result<(u64, u64)> {
        let retention = Retention {
            workspace_no: caller.require_workspace_key()?.no,
            bulky_before: since.bulky,
            all_before: since.all,
            at: self.now(),
        };
        self.store.retain(retention).await
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
