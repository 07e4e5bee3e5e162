//! Opening sessions, and listing those that an agent has stored. What the agent does not advertise is refused before
//! anything is sent.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relay_protocol::acp::CapabilityNotSupportedError;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Host;
use super::error::HostError;
use super::session::Session;
use super::shared::Forgetting;
use super::state::SessionState;
use crate::acp::capabilities::{check_fork, check_resume};
use crate::acp::content::McpServer;

/// Most pages that are followed: an agent whose pages never end is not believed.
const MAX_PAGES: usize = 10_000;

/// A session to open.
#[derive(Clone, Debug, Default)]
pub struct OpenSession {
    /// Where it works; absolute.
    pub cwd: PathBuf,
    /// Where it may read, too. Dropped with a warning where the agent can't.
    pub additional_directories: Vec<PathBuf>,
    /// The MCP servers that it is to use.
    pub mcp_servers: Vec<McpServer>,
    /// Instructions for the model, where the agent takes them this way.
    pub system_prompt: Option<String>,
    /// What is handed on as `_meta`.
    pub meta: Option<Value>,
}

impl OpenSession {
    /// A session in a directory.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            ..Self::default()
        }
    }
}

/// A session that an agent has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// Its id.
    pub id: String,
    /// Where it worked.
    pub cwd: Option<PathBuf>,
    /// Its title.
    pub title: Option<String>,
    /// When something happened in it last, as the agent writes it.
    pub updated_at: Option<String>,
}

/// Some of the sessions that an agent has stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<StoredSession>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

impl Host {
    /// Opens a new session.
    pub async fn new_session(&self, open: OpenSession) -> Result<Session, HostError> {
        let params = self.params(&open, None)?;
        self.open_unnamed("session/new", params, open).await
    }

    /// Opens a stored session; what was said in it comes as events of no turn.
    pub async fn load_session(&self, id: &str, open: OpenSession) -> Result<Session, HostError> {
        self.capabilities().check_load_session()?;
        self.open_named("session/load", id, open).await
    }

    /// Opens a stored session without playing it back.
    pub async fn resume_session(&self, id: &str, open: OpenSession) -> Result<Session, HostError> {
        check_resume(self.capabilities())?;
        self.open_named("session/resume", id, open).await
    }

    /// Opens a copy of a session, which goes its own way from here.
    pub async fn fork_session(&self, id: &str, open: OpenSession) -> Result<Session, HostError> {
        check_fork(self.capabilities())?;
        let params = self.params(&open, Some(id))?;
        self.open_unnamed("session/fork", params, open).await
    }

    /// One page of the stored sessions, of all or of one directory.
    pub async fn list_sessions(
        &self,
        cwd: Option<&Path>,
        cursor: Option<&str>,
    ) -> Result<SessionPage, HostError> {
        self.capabilities().check_list_sessions()?;
        let mut params = json!({});
        if let Some(cwd) = cwd {
            params["cwd"] = self.path(cwd)?;
        }
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        let answer = self.call("session/list", &params).await?;
        let Some(sessions) = answer["sessions"].as_array() else {
            return Err(self.malformed("session/list", "`sessions`"));
        };
        Ok(SessionPage {
            sessions: sessions.iter().filter_map(StoredSession::read).collect(),
            next_cursor: answer["nextCursor"].as_str().map(str::to_owned),
        })
    }

    /// All stored sessions, page after page.
    pub fn stream_all_sessions(
        &self,
        cwd: Option<PathBuf>,
    ) -> Result<AllSessions, CapabilityNotSupportedError> {
        self.capabilities().check_list_sessions()?;
        Ok(AllSessions {
            host: self.clone(),
            cwd,
            page: VecDeque::new(),
            next: Next::First,
            pages: 0,
        })
    }

    pub(super) fn forget_session(&self, id: &str) {
        if let Some(state) = self.shared().unregister(id) {
            state.close(&HostError::Invalid(format!(
                "the session `{id}` was closed"
            )));
        }
    }

    /// Opens a session whose id the agent chooses. It is registered before the next line of the agent is read.
    async fn open_unnamed(
        &self,
        method: &'static str,
        params: Value,
        open: OpenSession,
    ) -> Result<Session, HostError> {
        let shared = self.shared().clone();
        let directories = self.usable_directories(&open);
        let (tell, told) = oneshot::channel();
        let registering = shared.clone();
        let answer = Box::new(move |answer: Result<Value, _>| {
            let opened = match answer {
                Ok(answer) => match answer["sessionId"].as_str() {
                    Some(id) => {
                        let state = SessionState::new(id.to_owned(), open, directories);
                        state.change_settings(|settings| settings.read(&answer));
                        Ok(registering.register(state))
                    }
                    None => Ok(None),
                },
                Err(error) => Err(HostError::from_rpc(&registering.agent, method, error)),
            };
            if let Err(Ok(Some(state))) = tell.send(opened) {
                // Nobody waits any more: then nobody will read it either.
                registering.unregister(&state.id);
            }
        });
        let limit = shared.options.request_timeout;
        let opened = timeout(limit, async {
            let Ok(id) = shared.outgoing.call(method, &params, answer).await else {
                return Err(shared.closed().await);
            };
            let _forgetting = Forgetting(&shared.outgoing, id);
            match told.await {
                Ok(opened) => opened,
                Err(_) => Err(shared.closed().await),
            }
        });
        let opened = opened.await;
        let state = opened.unwrap_or_else(|_| Err(shared.timeout(method, limit)))?;
        let state = state.ok_or_else(|| self.malformed(method, "a new `sessionId`"))?;
        Ok(Session::new(self.clone(), state))
    }

    /// Opens a session by its id. It is registered first, so that what is played back is kept.
    async fn open_named(
        &self,
        method: &'static str,
        id: &str,
        open: OpenSession,
    ) -> Result<Session, HostError> {
        let params = self.params(&open, Some(id))?;
        let directories = self.usable_directories(&open);
        let state = SessionState::new(id.to_owned(), open, directories);
        let Some(state) = self.shared().register(state) else {
            return Err(HostError::Invalid(format!(
                "the session `{id}` is open already"
            )));
        };
        let registered = Registered(self, Some(state));
        let answer = self.call(method, &params).await?;
        let state = registered.keep()?;
        state.change_settings(|settings| settings.read(&answer));
        Ok(Session::new(self.clone(), state))
    }

    /// Checks what is asked for, and puts it in the form of the protocol.
    fn params(&self, open: &OpenSession, id: Option<&str>) -> Result<Value, HostError> {
        let capabilities = self.capabilities();
        let transports = open.mcp_servers.iter().map(McpServer::transport);
        capabilities.check_mcp_servers(transports)?;
        for server in &open.mcp_servers {
            if let Some(fault) = server.fault() {
                let name = server.name();
                return Err(HostError::Invalid(format!(
                    "the MCP server `{name}` needs {fault}"
                )));
            }
        }
        let servers: Value = open.mcp_servers.iter().map(McpServer::to_wire).collect();
        let mut params = json!({"cwd": self.path(&open.cwd)?, "mcpServers": servers});
        if let Some(id) = id {
            params["sessionId"] = id.into();
        }
        let directories = self.usable_directories(open);
        if !directories.is_empty() {
            let directories = directories.iter().map(|directory| self.path(directory));
            params["additionalDirectories"] = directories.collect::<Result<_, _>>()?;
        }
        if let Some(prompt) = &open.system_prompt {
            if !self.handshake().extensions.system_prompt {
                let capability = "sessionCapabilities.systemPrompt";
                return Err(CapabilityNotSupportedError { capability }.into());
            }
            let content = json!([{"type": "text", "text": prompt}]);
            params["systemPrompt"] = json!({"mode": "append", "content": content});
        }
        if let Some(meta) = &open.meta {
            params["_meta"] = meta.clone();
        }
        Ok(params)
    }

    /// The additional directories, where the agent takes them; else one warning.
    fn usable_directories(&self, open: &OpenSession) -> Vec<PathBuf> {
        let directories = &open.additional_directories;
        let warning = self
            .capabilities()
            .directories_warning(self.agent_id(), directories.len());
        match warning {
            Some(warning) => {
                self.shared().warn_of_directories(&warning);
                Vec::new()
            }
            None => directories.clone(),
        }
    }

    fn path(&self, path: &Path) -> Result<Value, HostError> {
        match path.to_str() {
            Some(text) if path.is_absolute() => Ok(text.into()),
            _ => Err(HostError::Invalid(format!(
                "{}: expected an absolute path in UTF-8",
                path.display()
            ))),
        }
    }
}

/// A session that was registered and is not open yet.
struct Registered<'h>(&'h Host, Option<Arc<SessionState>>);

impl Registered<'_> {
    fn keep(mut self) -> Result<Arc<SessionState>, HostError> {
        // It is there until it is kept.
        self.1.take().ok_or(HostError::Stuck)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if let Some(state) = &self.1 {
            self.0.shared().unregister(&state.id);
        }
    }
}

impl StoredSession {
    fn read(session: &Value) -> Option<Self> {
        let text = |name: &str| session[name].as_str().map(str::to_owned);
        Some(Self {
            id: text("sessionId")?,
            cwd: text("cwd").map(PathBuf::from),
            title: text("title"),
            updated_at: text("updatedAt"),
        })
    }
}

/// The stored sessions of an agent, one after the other.
pub struct AllSessions {
    host: Host,
    cwd: Option<PathBuf>,
    page: VecDeque<StoredSession>,
    next: Next,
    pages: usize,
}

enum Next {
    First,
    After(String),
    End,
}

impl AllSessions {
    /// The next session; nothing after the last.
    pub async fn next(&mut self) -> Result<Option<StoredSession>, HostError> {
        loop {
            if let Some(session) = self.page.pop_front() {
                return Ok(Some(session));
            }
            let cursor = match &self.next {
                Next::First => None,
                Next::After(cursor) => Some(cursor.clone()),
                Next::End => return Ok(None),
            };
            let page = self
                .host
                .list_sessions(self.cwd.as_deref(), cursor.as_deref());
            let page = page.await?;
            self.pages += 1;
            self.page = page.sessions.into();
            self.next = match page.next_cursor {
                // One that points at itself would be followed for ever.
                Some(next) if Some(&next) != cursor.as_ref() && self.pages < MAX_PAGES => {
                    Next::After(next)
                }
                _ => Next::End,
            };
        }
    }
}
