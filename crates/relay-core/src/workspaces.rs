//! Workspaces and the server's own key.

use std::sync::Arc;

use relay_protocol::api::workspace::{Me, Workspace, WorkspaceCreated};
use relay_protocol::event::TokenKind;
use relay_protocol::ids::{ChannelId, WorkspaceId};
use relay_protocol::limits::NAME_CHARS;
use relay_protocol::policy::{Policy, PolicyPatch};

use crate::caller::{Caller, make_token};
use crate::engine::{Engine, within};
use crate::error::{Error, Result};
use crate::permissions::check_workspace_rules;
use crate::store::{NewWorkspace, WorkspaceChange, WorkspaceRow};

impl Engine {
    /// Makes a new admin key; an older one stops working.
    pub async fn create_admin_key(&self, caller: &Caller) -> Result<String> {
        caller.require_admin()?;
        let (key, token) = make_token(TokenKind::Admin, &*self.environment.random, self.now());
        self.store.set_admin_key(token).await?;
        Ok(key)
    }

    /// Creates a workspace with `#general` in it.
    pub async fn create_workspace(&self, caller: &Caller, name: &str) -> Result<WorkspaceCreated> {
        caller.require_admin()?;
        check_workspace_name(name)?;
        let now = self.now();
        let (workspace_key, key) = make_token(TokenKind::Workspace, &*self.environment.random, now);
        let id = WorkspaceId::new(now, self.bits());
        let general = ChannelId::new(now, self.bits());
        let new = NewWorkspace {
            id,
            name: name.to_owned(),
            key,
            general,
        };
        let workspace = self.store.create_workspace(new).await?;
        self.note(&workspace);
        Ok(WorkspaceCreated {
            workspace_id: id,
            name: workspace.name.clone(),
            workspace_key,
        })
    }

    /// Opens a workspace without its key, for the program that owns the engine.
    pub async fn open_workspace(&self, caller: &Caller, id: WorkspaceId) -> Result<Caller> {
        caller.require_admin()?;
        let workspace = self
            .store
            .workspace(id)
            .await?
            .ok_or(Error::UnknownWorkspace(id))?;
        Ok(Caller::workspace_key(workspace))
    }

    /// The caller's workspace.
    pub fn workspace(&self, caller: &Caller) -> Result<Workspace> {
        let row = self.newest(caller.home()?);
        Ok(Workspace {
            workspace_id: row.id,
            name: row.name.clone(),
            created_at: row.created_at,
        })
    }

    /// What the caller's credential stands for.
    #[must_use]
    pub fn me(&self, caller: &Caller) -> Me {
        Me {
            kind: caller.kind(),
            workspace: self.workspace(caller).ok(),
            agent: caller.agent().ok().map(|agent| agent.identity()),
            scope: caller.scope().map(|scope| (**scope).clone()),
        }
    }

    /// How the workspace delivers.
    pub fn policy(&self, caller: &Caller) -> Result<Policy> {
        caller.reader()?;
        Ok(self.newest(caller.home()?).policy.clone())
    }

    /// Changes how the workspace delivers.
    pub async fn update_policy(&self, caller: &Caller, patch: PolicyPatch) -> Result<Policy> {
        if let Some(permissions) = &patch.permissions {
            check_workspace_rules(permissions)?;
        }
        let workspace = self.change_workspace(caller, None, Some(patch)).await?;
        Ok(workspace.policy.clone())
    }

    /// Gives the workspace another name.
    pub async fn rename_workspace(&self, caller: &Caller, name: &str) -> Result<()> {
        check_workspace_name(name)?;
        self.change_workspace(caller, Some(name.to_owned()), None)
            .await?;
        Ok(())
    }

    async fn change_workspace(
        &self,
        caller: &Caller,
        name: Option<String>,
        policy: Option<PolicyPatch>,
    ) -> Result<Arc<WorkspaceRow>> {
        let workspace_no = caller.require_workspace_key()?.no;
        let change = WorkspaceChange {
            workspace_no,
            at: self.now(),
            name,
            policy,
        };
        let workspace = self.store.update_workspace(change).await?;
        self.note(&workspace);
        Ok(workspace)
    }
}

/// People call a workspace what they like, within a length.
fn check_workspace_name(name: &str) -> Result<()> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(Error::Invalid {
            path: "name",
            expected: "a name without control characters".to_owned(),
            found: format!("{name:?}"),
        });
    }
    within("name", NAME_CHARS, name.chars().count())
}
