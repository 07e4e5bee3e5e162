//! `credentials.json`: how other programs of the same user find a running server and get in.

use std::path::Path;

use anyhow::{Context as _, Result};
use relay_protocol::ids::WorkspaceId;
use serde::{Deserialize, Serialize};

use crate::data::write_private;

/// What is in the file. The keys are there only: the database has their hashes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Credentials {
    /// Where the server listens that was started over this data last; not there until one was. Only while a server
    /// runs over this data (`running.rs`) is it known that this is the one that answers there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    pub(crate) admin_key: String,
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) workspace_key: String,
}

impl Credentials {
    /// What the file says, if it is there.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("{} can't be read", path.display()));
            }
        };
        let read = serde_json::from_str(&text);
        read.with_context(|| format!("{} is not what Relay wrote", path.display()))
            .map(Some)
    }

    /// The same for a copy of the data, whose server will listen elsewhere.
    pub(crate) fn without_url(self) -> Self {
        Self { url: None, ..self }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_private(path, &text)
    }
}
