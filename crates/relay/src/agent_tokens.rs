//! The tokens of the agents that were registered from here, so that `--as NAME` can act as them.
//!
//! The server shows a token once and keeps its hash, and the workspace key can't speak for an agent; so the token
//! is kept beside `credentials.json`, one file for each agent, readable by its owner only. Names are the same in
//! any case, and one data directory may know several workspaces:
//! `DIR/agents/WORKSPACE/name.json` has `{"agent", "token", "url"?}`. The address is there where the server was named by
//! `RELAY_URL`; a token is never sent to another one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::names;
use serde::{Deserialize, Serialize};

use crate::data::{DataDirectory, make_private, write_private};

/// The kept tokens of one workspace.
pub(crate) struct AgentTokens {
    folder: PathBuf,
    /// The address of the server, if it is not the one of the data directory.
    url: Option<String>,
}

/// The token of one agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeptToken {
    pub(crate) agent: String,
    pub(crate) token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
}

impl AgentTokens {
    pub(crate) fn of(data: &DataDirectory, workspace: WorkspaceId) -> Self {
        Self {
            folder: data.agents().join(workspace.to_string()),
            url: None,
        }
    }

    /// The same for a server that is elsewhere.
    pub(crate) fn of_server(self, url: Option<&str>) -> Self {
        Self {
            url: url.map(str::to_owned),
            ..self
        }
    }

    /// The token of an agent of the server at this address, if one is kept, whatever its workspace.
    pub(crate) fn find_at(data: &DataDirectory, url: &str, agent: &str) -> Result<Option<String>> {
        let folder = data.agents();
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            entries => entries,
        };
        let unreadable = || format!("{} can't be read", folder.display());
        for entry in entries.with_context(unreadable)? {
            let tokens = Self {
                folder: entry.with_context(unreadable)?.path(),
                url: None,
            };
            let kept = read(&tokens.path(agent)?)?;
            let is_there =
                |kept: &KeptToken| kept.url.as_deref().is_some_and(|at| is_same_url(at, url));
            if let Some(kept) = kept.filter(is_there) {
                return Ok(Some(kept.token));
            }
        }
        Ok(None)
    }

    /// Keeps a token, in place of the one before; where.
    pub(crate) fn keep(&self, agent: &str, token: &str) -> Result<PathBuf> {
        let path = self.path(agent)?;
        make_private(&self.folder)
            .with_context(|| format!("{} can't be made", self.folder.display()))?;
        let kept = KeptToken {
            agent: agent.to_owned(),
            token: token.to_owned(),
            url: self.url.clone(),
        };
        let text = format!("{}\n", serde_json::to_string_pretty(&kept)?);
        write_private(&path, &text)?;
        Ok(path)
    }

    /// The token of an agent, if one is kept.
    pub(crate) fn find(&self, agent: &str) -> Result<Option<String>> {
        let path = self.path(agent)?;
        Ok(read(&path)?.map(|kept| kept.token))
    }

    /// All that are kept, by name.
    pub(crate) fn all(&self) -> Result<Vec<KeptToken>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries,
        };
        let folder = || format!("{} can't be read", self.folder.display());
        let mut all = Vec::new();
        for entry in entries.with_context(folder)? {
            let path = entry.with_context(folder)?.path();
            // A write that did not get far leaves another kind of file.
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                all.extend(read(&path)?);
            }
        }
        all.sort_by(|one, other| one.agent.cmp(&other.agent));
        Ok(all)
    }

    /// Forgets the token of an agent that is no more.
    pub(crate) fn forget(&self, agent: &str) -> Result<()> {
        let path = self.path(agent)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} can't be removed", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Names have no character that means something in a path.
    fn path(&self, agent: &str) -> Result<PathBuf> {
        let name = agent.trim_start_matches('@');
        names::check_form(name).with_context(|| format!("{agent:?} is no agent's name"))?;
        Ok(self.folder.join(format!("{}.json", names::fold(name))))
    }
}

/// What a file keeps, if it is there.
fn read(path: &Path) -> Result<Option<KeptToken>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("{} can't be read", path.display()));
        }
    };
    let kept = serde_json::from_str(&text);
    kept.with_context(|| format!("{} is not what Relay wrote", path.display()))
        .map(Some)
}

/// Whether two addresses name the same server.
pub(crate) fn is_same_url(one: &str, other: &str) -> bool {
    let bare = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
    bare(one) == bare(other)
}
