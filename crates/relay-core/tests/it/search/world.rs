//! A store with a workspace in it, and short ways to make things happen there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relay_core::environment::Environment;
use relay_core::error::Result;
use relay_core::store::requests::Release;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use relay_core::store::{
    AgentNo, Author, Joining, MessageEdit, NewAgent, NewChannel, NewMessage, NewToken,
    NewWorkspace, PageRequest, Retention, Search, SendRecord, Store as _, Viewer,
};
use relay_protocol::agent::AgentType;
use relay_protocol::api::Page;
use relay_protocol::api::messages::{SearchHit, SendTarget};
use relay_protocol::delivery::Priority;
use relay_protocol::ids::{AgentId, ChannelId, TokenId, WorkspaceId};
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// A day in milliseconds.
pub(super) const DAY: i64 = 24 * 60 * 60 * 1000;

/// The words to look for, without filters.
pub(super) fn words(words: &str) -> Search {
    Search {
        words: words.to_owned(),
        channel: None,
        from: None,
        after: None,
        before: None,
        page: PageRequest {
            cursor: None,
            limit: 50,
        },
    }
}

/// The file of a database's index.
pub(super) fn index_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".search");
    name.into()
}

/// One workspace of a store.
pub(super) struct World {
    environment: Environment,
    store: Option<Arc<SqliteStore>>,
    directory: Arc<TempDir>,
    workspace_no: u32,
    vfs: Option<String>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::on(None)
    }

    /// A world whose database is on a VFS of its own.
    pub(super) fn on(vfs: Option<String>) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let environment = Environment::system();
        let path = directory.path().join("relay.db");
        let store = open(&environment, &path, vfs.clone());
        let mut world = Self {
            environment,
            store: Some(store),
            directory,
            workspace_no: 0,
            vfs,
        };
        world.workspace_no = world.create_workspace();
        world
    }

    /// Another workspace of the same store.
    pub(super) fn other_workspace(&self) -> Self {
        Self {
            environment: self.environment.clone(),
            store: self.store.clone(),
            directory: self.directory.clone(),
            workspace_no: self.create_workspace(),
            vfs: self.vfs.clone(),
        }
    }

    fn create_workspace(&self) -> u32 {
        let new = NewWorkspace {
            id: WorkspaceId::new(self.now(), self.bits()),
            name: "test".to_owned(),
            key: self.token(),
            general: ChannelId::new(self.now(), self.bits()),
        };
        self.store().create_workspace(new).wait().unwrap().no
    }

    pub(super) fn store(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }

    pub(super) fn path(&self) -> &Path {
        self.store().path()
    }

    pub(super) fn workspace_no(&self) -> u32 {
        self.workspace_no
    }

    pub(super) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    pub(super) fn viewer(&self, agent: Option<AgentNo>) -> Viewer {
        Viewer {
            workspace_no: self.workspace_no,
            agent,
        }
    }

    /// Does something to the files while the store is closed.
    pub(super) fn closed(&mut self, work: impl FnOnce(&Path)) {
        let path = self.path().to_owned();
        drop(self.store.take());
        work(&path);
        self.store = Some(open(&self.environment, &path, self.vfs.clone()));
    }

    /// Deletes the index.
    pub(super) fn without_index(&mut self) {
        self.closed(|path| std::fs::remove_file(index_of(path)).unwrap());
    }

    /// How far the file says that the workspace is indexed.
    pub(super) fn indexed_to(&self) -> Option<u64> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let index = Connection::open_with_flags(index_of(self.path()), flags).ok()?;
        let sql = "SELECT seq FROM progress WHERE workspace = ?1 AND scanned IS NULL";
        index
            .query_row(sql, [self.workspace_no], |row| row.get(0))
            .ok()
    }

    pub(super) fn agent(&self, name: &str) -> AgentNo {
        let new = NewAgent {
            workspace_no: self.workspace_no,
            id: AgentId::new(self.now(), self.bits()),
            name: name.to_owned(),
            agent_type: AgentType::Agent,
            metadata: None,
            adopt: false,
            in_channels: true,
            token: self.token(),
        };
        self.store().register_agent(new).wait().unwrap().no
    }

    pub(super) fn release(&self, name: &str) {
        let release = Release {
            viewer: self.viewer(None),
            name: name.to_owned(),
            at: self.now(),
            reason: None,
            offered: Vec::new(),
        };
        self.store().release_agent(release).wait().unwrap();
    }

    pub(super) fn channel(&self, name: &str, members: &[&str]) {
        let new = NewChannel {
            workspace_no: self.workspace_no,
            id: ChannelId::new(self.now(), self.bits()),
            name: name.to_owned(),
            topic: None,
            by: None,
            at: self.now(),
        };
        self.store().create_channel(new).wait().unwrap();
        let joining = self.joining(name, members);
        self.store().join_channel(joining).wait().unwrap();
    }

    pub(super) fn leave(&self, channel: &str, agent: &str) {
        let leaving = self.joining(channel, &[agent]);
        self.store().leave_channel(leaving).wait().unwrap();
    }

    fn joining(&self, channel: &str, agents: &[&str]) -> Joining {
        Joining {
            viewer: self.viewer(None),
            channel: channel.to_owned(),
            agents: agents.iter().map(|&name| name.to_owned()).collect(),
            at: self.now(),
        }
    }

    pub(super) fn say(&self, author: AgentNo, channel: &str, text: &str) -> Arc<SendRecord> {
        self.say_at(author, channel, text, self.now().as_millis())
    }

    pub(super) fn say_at(
        &self,
        author: AgentNo,
        channel: &str,
        text: &str,
        at: i64,
    ) -> Arc<SendRecord> {
        let to = SendTarget::Channel(channel.to_owned());
        self.send(author, to, text, Timestamp::from_millis(at))
    }

    pub(super) fn tell(&self, author: AgentNo, agent: &str, text: &str) -> Arc<SendRecord> {
        let to = SendTarget::Agent(agent.to_owned());
        self.send(author, to, text, self.now())
    }

    fn send(&self, author: AgentNo, to: SendTarget, text: &str, at: Timestamp) -> Arc<SendRecord> {
        let new = NewMessage {
            workspace_no: self.workspace_no,
            at,
            author: Author::Agent(author),
            to: Some(to),
            reply_to: None,
            text: text.to_owned(),
            mentions: Vec::new(),
            attachments: Vec::new(),
            metadata: None,
            mode: None,
            allow_downgrade: true,
            priority: Priority::Normal,
            deadline: None,
            idempotency: None,
            redacted: false,
            objection: None,
            reason: None,
        };
        self.store().send(new).wait().unwrap()
    }

    pub(super) fn edit(&self, author: AgentNo, sent: &SendRecord, text: &str) {
        let edit = MessageEdit {
            viewer: self.viewer(Some(author)),
            message: sent.message().id,
            text: text.to_owned(),
            mentions: Vec::new(),
            at: self.now(),
        };
        self.store().edit_message(edit).wait().unwrap();
    }

    /// Cuts off all there is of the log; says how many rows that were.
    pub(super) fn cut_log(&self) -> u64 {
        let cut = Retention {
            workspace_no: self.workspace_no,
            bulky_before: None,
            all_before: Some(self.now().plus_millis(DAY)),
            at: self.now(),
        };
        self.store().retain(cut).wait().unwrap().1
    }

    pub(super) fn find(&self, search: Search) -> Result<Page<SearchHit>> {
        self.find_for(None, search)
    }

    pub(super) fn find_for(
        &self,
        agent: Option<AgentNo>,
        search: Search,
    ) -> Result<Page<SearchHit>> {
        self.store().search(self.viewer(agent), search).wait()
    }

    /// The texts that the workspace's key finds.
    pub(super) fn texts(&self, query: &str) -> Vec<String> {
        self.texts_for(None, words(query))
    }

    pub(super) fn texts_for(&self, agent: Option<AgentNo>, search: Search) -> Vec<String> {
        let page = self.find_for(agent, search).unwrap();
        page.items.into_iter().map(|hit| hit.message.text).collect()
    }

    fn bits(&self) -> u128 {
        self.environment.random.bits()
    }

    fn token(&self) -> NewToken {
        let mut hash = [0; 32];
        self.environment.random.fill(&mut hash);
        NewToken {
            id: TokenId::new(self.now(), self.bits()),
            hash,
            at: self.now(),
        }
    }
}

/// Nothing here is about power cuts, and waiting for the disk takes time.
fn open(environment: &Environment, path: &Path, vfs: Option<String>) -> Arc<SqliteStore> {
    let options = SqliteOptions {
        synchronous: Synchronous::Off,
        vfs,
        ..SqliteOptions::new(path)
    };
    Arc::new(SqliteStore::open(&options, environment.random.clone()).unwrap())
}
