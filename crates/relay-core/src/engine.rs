//! The engine: checks a request, then makes one store call.
//!
//! The operations are in files by what users call them: `workspaces`, `agents`, `channels`, `messages`,
//! `reading`, `attachments`, `events`, `audit`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use relay_protocol::limits::{PAGE_ITEMS, PAGE_ITEMS_DEFAULT};
use relay_protocol::redact::Redactor;
use relay_protocol::time::Timestamp;

use crate::caller::{Caller, hash_token};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::store::{PageRequest, Store, WorkspaceRow};

/// Everything that can be asked of Relay, in one process.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) redactor: Redactor,
    /// The newest known state of each workspace, so that a send need not read its policy.
    workspaces: RwLock<HashMap<u32, Arc<WorkspaceRow>>>,
}

impl Engine {
    /// An engine over a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, environment: Environment) -> Self {
        Self {
            store,
            environment,
            redactor: Redactor::new(),
            workspaces: RwLock::default(),
        }
    }

    /// Whom a credential stands for.
    pub async fn authenticate(&self, token: &str) -> Result<Caller> {
        let credential = self.store.credential(hash_token(token)).await?;
        Caller::from_credential(credential.ok_or(Error::Unauthorized)?, self.now())
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// Random bits for an id.
    pub(crate) fn bits(&self) -> u128 {
        self.environment.random.bits()
    }

    /// A caller's workspace in its newest state.
    pub(crate) fn current(&self, caller: &Caller) -> Result<Arc<WorkspaceRow>> {
        let known = caller.workspace()?;
        let newest = self
            .workspaces
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(newest.get(&known.no).unwrap_or(known).clone())
    }

    /// Remembers a workspace's newest state.
    pub(crate) fn note(&self, workspace: &Arc<WorkspaceRow>) {
        let mut newest = self
            .workspaces
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let known = newest
            .entry(workspace.no)
            .or_insert_with(|| workspace.clone());
        // Answers may come in another order than the changes were made.
        if known.policy.version <= workspace.policy.version {
            *known = workspace.clone();
        }
    }
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// The `nextCursor` of an earlier page.
    pub cursor: Option<String>,
    /// Most items; absent: 50.
    pub limit: Option<u32>,
}

impl PageQuery {
    /// The request to the store, if the limit is one that can be had.
    pub(crate) fn request(self) -> Result<PageRequest> {
        let limit = self
            .limit
            .map_or(PAGE_ITEMS_DEFAULT, |limit| limit as usize);
        if limit == 0 || limit > PAGE_ITEMS {
            return Err(Error::Invalid {
                path: "limit",
                expected: format!("1 to {PAGE_ITEMS}"),
                found: limit.to_string(),
            });
        }
        Ok(PageRequest {
            cursor: self.cursor,
            limit,
        })
    }
}

/// Checks a size.
pub(crate) fn within(what: &'static str, most: usize, found: usize) -> Result<()> {
    if found <= most {
        Ok(())
    } else {
        Err(Error::LimitExceeded { what, most, found })
    }
}
