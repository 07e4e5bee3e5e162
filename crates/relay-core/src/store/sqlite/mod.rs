//! The store in SQLite: one file, one writer thread, a few readers, a search index beside it.
//!
//! Order at start: the lock, recovery of the write-ahead log (SQLite does that on opening, in memory),
//! the format version, the last links of the chain. Everything found wrong is an [`OpenError`], and the
//! file is left as it was: only then the connection is made ready to write, and a new file gets its
//! schema. An older format is copied and migrated first (`migration.rs`).

mod actions;
mod agents;
mod attaching;
mod attachments;
mod audit;
mod beside;
mod channels;
mod checkpoint;
mod codes;
mod connection;
mod delivering;
mod delivery_events;
mod delivery_read;
mod delivery_rows;
mod directory;
mod edits;
mod erasing;
mod fates;
mod grants;
mod history;
mod idempotency;
mod inbound;
mod invocations;
mod lock;
mod log;
mod log_read;
mod message_read;
mod messages;
mod migration;
mod observers;
mod opening;
mod permission_ends;
mod permission_notices;
mod permission_rules;
mod permissions;
mod readers;
mod reading;
mod reports;
mod room_index;
mod runs;
mod search;
mod session_turns;
mod sessions;
mod steps;
mod targets;
mod tokens;
mod waiting;
mod waiting_check;
mod waiting_read;
mod webhooks;
mod workspaces;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use relay_protocol::agent::AgentSummary;
use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    Conversation, Inbox, MessageView, Reaction, Reader, SearchHit,
};
use relay_protocol::api::workspace::{ChannelMember, ObserverToken};
use relay_protocol::channel::Channel;
use relay_protocol::ids::{AttachmentId, DeliveryId, MessageId, WorkspaceId};
use relay_protocol::message::RelayMessage;
use rusqlite::Connection;
use uuid::Uuid;

pub use self::beside::Beside;
use self::checkpoint::Checkpointer;
pub use self::connection::{OpenError, SqliteOptions, Synchronous, WriterHook};
pub use self::lock::DatabaseLock;
use self::migration::{STEPS, migrate};
use self::opening::{Found, check_tail, create, examine};
pub(crate) use self::permission_rules::judge;
use self::readers::Readers;
use self::search::SearchIndex;
use self::writer::{Writer, WriterParts};
use super::chain::Hash;
use super::live::{Hub, StoredEvent};
use super::requests::{AgentChange, Release};
use super::{
    ActionQuery, ActionRemoval, ActionRow, Advance, Advanced, AgentNo, AgentRow, AttachedSession,
    AttachmentContent, AuditReport, ChainHead, ChannelChange, Credential, DeliveryContent,
    DeliveryFilter, DeliveryRow, DeliveryStory, DueNow, Erasure, ExecutionStep, FlushRequest,
    GrantList, GrantRow, InForce, InboundRow, InboxQuery, InvocationEnd, InvocationRow, Invoked,
    Joining, MessageEdit, NewAction, NewAgent, NewAttachmentRow, NewChannel, NewDelivery, NewFork,
    NewInbound, NewInvocation, NewMessage, NewObserver, NewPermission, NewRun, NewSession,
    NewToken, NewWebhook, NewWorkspace, PageRequest, PermissionEnding, PermissionList,
    PermissionNo, PermissionRow, Place, Position, ReactionRequest, ReadMark, Reply, Report,
    Reported, Resolution, Resolved, Retention, Revocation, RunRow, Search, SendRecord,
    SessionChange, SessionNo, SessionRow, Store, TokenRotation, Viewer, WaitingPage, WaitingQuery,
    WebhookChange, WebhookProgress, WebhookReplay, WebhookRetries, WebhookRow, Whose,
    WorkspaceChange, WorkspaceRow,
};
use crate::environment::Random;
use crate::error::Result;
use relay_protocol::ids::{GrantId, InvocationId, PermissionId, RunId, SessionId, WebhookId};
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::WebhookAttempt;

/// The format that this program writes.
const FORMAT: i64 = migration::format_after(STEPS);

/// The store. Dropping it writes what is queued and closes the files.
pub struct SqliteStore {
    // Fields are dropped in this order: the writer first, the lock last.
    writer: Writer,
    search: SearchIndex,
    readers: Readers,
    hub: Arc<Hub>,
    path: PathBuf,
    _lock: DatabaseLock,
}

impl SqliteStore {
    /// Opens the database, creating it if there is none.
    pub fn open(options: &SqliteOptions, random: Arc<dyn Random>) -> Result<Self, OpenError> {
        let lock = DatabaseLock::take(&options.path)?;
        Self::open_locked(lock, options, random)
    }

    /// Opens the database like [`Self::open`]; the caller has taken its lock.
    pub fn open_locked(
        lock: DatabaseLock,
        options: &SqliteOptions,
        random: Arc<dyn Random>,
    ) -> Result<Self, OpenError> {
        let sqlite = |error| OpenError::from_sqlite(&options.path, error);
        let mut connection = options.open_writer().map_err(sqlite)?;
        match examine(&connection, &options.path)? {
            Found::Nothing => {
                options.begin_writing(&connection).map_err(sqlite)?;
                create(&connection).map_err(sqlite)?;
            }
            Found::Database => {
                check_tail(&connection, &options.path)?;
                options.begin_writing(&connection).map_err(sqlite)?;
            }
            Found::Older(from) => {
                options.begin_writing(&connection).map_err(sqlite)?;
                migrate(&mut connection, &options.path, from, STEPS)?;
            }
        }
        if let Some(on_writer) = &options.on_writer {
            on_writer(&connection).map_err(sqlite)?;
        }
        let checkpointer = Checkpointer::start(options, &mut connection).map_err(sqlite)?;
        let hub = Arc::new(Hub::default());
        let parts = WriterParts {
            connection,
            hub: hub.clone(),
            random,
            checkpointer,
        };
        let writer = Writer::start(parts).map_err(|error| OpenError::Io {
            path: options.path.clone(),
            error,
        })?;
        let readers = Readers::new(options.clone());
        let search = SearchIndex::open(options).map_err(sqlite)?;
        Ok(Self {
            writer,
            search,
            readers,
            hub,
            path: options.path.clone(),
            _lock: lock,
        })
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has no workspace, so that nothing is in it that anybody could miss.
    pub fn is_empty(&self) -> Result<bool> {
        self.readers.with(|connection| {
            let sql = "SELECT NOT EXISTS (SELECT 1 FROM workspaces)";
            Ok(connection.query_row(sql, [], |row| row.get(0))?)
        })
    }

    /// How many transactions were committed since the store was opened.
    #[must_use]
    pub fn commits(&self) -> usize {
        self.writer.commits()
    }

    /// Compares the indexes of waiting deliveries, in the file and in memory, with the deliveries
    /// themselves; says what differs. Nothing is written meanwhile.
    pub fn check_indexes(&self) -> Reply<Vec<String>> {
        self.writer.submit(waiting_check::check_everything)
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Reply<T> {
        Reply::ready(self.readers.with(work))
    }
}

impl Store for SqliteStore {
    fn create_workspace(&self, new: NewWorkspace) -> Reply<Arc<WorkspaceRow>> {
        self.writer.submit(move |tx| workspaces::create(tx, &new))
    }

    fn update_workspace(&self, change: WorkspaceChange) -> Reply<Arc<WorkspaceRow>> {
        self.writer
            .submit(move |tx| workspaces::update(tx, &change))
    }

    fn workspace(&self, id: WorkspaceId) -> Reply<Option<Arc<WorkspaceRow>>> {
        self.read(|connection| workspaces::find(connection, id))
    }

    fn workspace_by_no(&self, no: u32) -> Reply<Arc<WorkspaceRow>> {
        self.read(|connection| workspaces::by_no(connection, no).map(Arc::new))
    }

    fn set_admin_key(&self, token: NewToken) -> Reply<()> {
        self.writer
            .submit(move |tx| workspaces::set_admin_key(tx, token))
    }

    fn credential(&self, hash: Hash) -> Reply<Option<Credential>> {
        self.read(|connection| workspaces::credential(connection, hash))
    }

    fn create_observer(&self, new: NewObserver) -> Reply<ObserverToken> {
        self.writer.submit(move |tx| observers::create(tx, &new))
    }

    fn revoke_observer(&self, revocation: Revocation) -> Reply<()> {
        self.writer
            .submit(move |tx| observers::revoke(tx, &revocation))
    }

    fn observers(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<ObserverToken>> {
        self.read(|connection| observers::list(connection, workspace_no, &page))
    }

    fn register_agent(&self, new: NewAgent) -> Reply<Arc<AgentRow>> {
        self.writer.submit(move |tx| agents::register(tx, &new))
    }

    fn update_agent(&self, change: AgentChange) -> Reply<Arc<AgentRow>> {
        self.writer.submit(move |tx| agents::update(tx, &change))
    }

    fn rotate_token(&self, rotation: TokenRotation) -> Reply<()> {
        self.writer
            .submit(move |tx| agents::rotate_token(tx, &rotation))
    }

    fn release_agent(&self, release: Release) -> Reply<()> {
        self.writer.submit(move |tx| agents::release(tx, &release))
    }

    fn agent(&self, workspace_no: u32, name: &str) -> Reply<Arc<AgentRow>> {
        self.read(|connection| agents::find(connection, workspace_no, name))
    }

    fn agent_by_no(&self, no: AgentNo) -> Reply<Arc<AgentRow>> {
        self.read(|connection| agents::by_no(connection, no))
    }

    fn agents(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<AgentSummary>> {
        self.read(|connection| agents::list(connection, workspace_no, &page))
    }

    fn create_channel(&self, new: NewChannel) -> Reply<Channel> {
        self.writer.submit(move |tx| channels::create(tx, &new))
    }

    fn update_channel(&self, change: ChannelChange) -> Reply<Channel> {
        self.writer.submit(move |tx| channels::update(tx, &change))
    }

    fn join_channel(&self, joining: Joining) -> Reply<Channel> {
        self.writer.submit(move |tx| channels::join(tx, &joining))
    }

    fn leave_channel(&self, leaving: Joining) -> Reply<Channel> {
        self.writer.submit(move |tx| channels::leave(tx, &leaving))
    }

    fn channel(&self, workspace_no: u32, name: &str) -> Reply<Channel> {
        self.read(|connection| channels::find(connection, workspace_no, name))
    }

    fn channels(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<Channel>> {
        self.read(|connection| channels::list(connection, workspace_no, &page))
    }

    fn members(
        &self,
        workspace_no: u32,
        channel: &str,
        page: PageRequest,
    ) -> Reply<Page<ChannelMember>> {
        self.read(|connection| channels::members(connection, workspace_no, channel, &page))
    }

    fn is_member(&self, agent: AgentNo, room: Uuid) -> Reply<bool> {
        self.read(|connection| message_read::is_member(connection, agent, room))
    }

    fn send(&self, new: NewMessage) -> Reply<Arc<SendRecord>> {
        self.search.soon();
        self.writer.submit(move |tx| messages::send(tx, &new))
    }

    fn edit_message(&self, edit: MessageEdit) -> Reply<Arc<RelayMessage>> {
        self.search.soon();
        self.writer.submit(move |tx| edits::edit(tx, &edit))
    }

    fn react(&self, request: ReactionRequest) -> Reply<Vec<Reaction>> {
        self.writer.submit(move |tx| reading::react(tx, &request))
    }

    fn mark_read(&self, mark: ReadMark) -> Reply<()> {
        self.writer.submit(move |tx| reading::mark_read(tx, &mark))
    }

    fn message(&self, viewer: Viewer, id: MessageId) -> Reply<MessageView> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            let full = message_read::load(connection, &workspace, viewer, id)?;
            message_read::view(connection, full)
        })
    }

    fn messages(
        &self,
        viewer: Viewer,
        place: Place,
        page: PageRequest,
    ) -> Reply<Page<MessageView>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            let room = message_read::place(connection, viewer, &place)?;
            message_read::list(connection, &workspace, room, &page)
        })
    }

    fn thread(
        &self,
        viewer: Viewer,
        root: MessageId,
        page: PageRequest,
    ) -> Reply<Page<MessageView>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            let root = message_read::load(connection, &workspace, viewer, root)?;
            message_read::thread(connection, &workspace, root, &page)
        })
    }

    fn readers(&self, viewer: Viewer, id: MessageId) -> Reply<Vec<Reader>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            let full = message_read::load(connection, &workspace, viewer, id)?;
            message_read::readers(connection, &full)
        })
    }

    fn deliveries(&self, viewer: Viewer, id: MessageId) -> Reply<Vec<DeliveryStory>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            let full = message_read::load(connection, &workspace, viewer, id)?;
            delivery_read::deliveries(connection, &workspace, viewer, &full)
        })
    }

    fn delivery(&self, viewer: Viewer, id: DeliveryId) -> Reply<DeliveryStory> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            delivery_read::delivery(connection, &workspace, viewer, id)
        })
    }

    fn delivery_list(
        &self,
        viewer: Viewer,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Reply<Page<DeliveryStory>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            delivery_read::list(connection, &workspace, viewer, &filter, &page)
        })
    }

    fn deliver(&self, new: NewDelivery) -> Reply<DeliveryRow> {
        self.writer.submit(move |tx| delivering::deliver(tx, &new))
    }

    fn advance(&self, advance: Advance) -> Reply<Advanced> {
        self.writer.submit(move |tx| steps::advance(tx, &advance))
    }

    fn flush(&self, request: FlushRequest) -> Reply<Vec<DeliveryRow>> {
        self.writer
            .submit(move |tx| delivering::flush(tx, &request))
    }

    fn waiting(&self, query: WaitingQuery) -> Reply<WaitingPage> {
        self.writer
            .submit(move |tx| waiting_read::waiting(tx, &query))
    }

    fn addressed_to(&self, session: SessionNo) -> Reply<Vec<DeliveryRow>> {
        self.writer
            .submit(move |tx| waiting_read::addressed_to(tx, session))
    }

    fn due(&self, now: Timestamp, limit: usize) -> Reply<DueNow> {
        self.writer
            .submit(move |tx| waiting_read::due(tx, now, limit))
    }

    fn delivery_content(&self, message: Position, delivery: Position) -> Reply<DeliveryContent> {
        self.read(|connection| {
            let workspace = workspaces::id_of(connection, message.workspace_no())?;
            delivery_read::content(connection, workspace, message, delivery)
        })
    }

    fn begin_run(&self) -> Reply<u64> {
        self.writer.submit(workspaces::begin_run)
    }

    fn attach_session(&self, new: NewSession) -> Reply<AttachedSession> {
        self.writer.submit(move |tx| attaching::attach(tx, &new))
    }

    fn held_by(&self, session: SessionNo) -> Reply<Vec<DeliveryId>> {
        self.writer
            .submit(move |tx| attaching::held_by(tx, session))
    }

    fn fork_session(&self, new: NewFork) -> Reply<Arc<SessionRow>> {
        self.writer.submit(move |tx| attaching::fork(tx, &new))
    }

    fn change_session(&self, change: SessionChange) -> Reply<Arc<SessionRow>> {
        self.writer
            .submit(move |tx| session_turns::change(tx, &change))
    }

    fn take_back(&self, session: SessionNo, at: Timestamp, jitter: u64) -> Reply<u32> {
        self.writer
            .submit(move |tx| session_turns::take_back(tx, session, at, jitter))
    }

    fn report(&self, report: Report) -> Reply<Reported> {
        self.writer.submit(move |tx| reports::report(tx, &report))
    }

    fn session(&self, viewer: Viewer, id: SessionId) -> Reply<Arc<SessionRow>> {
        self.read(|connection| sessions::find(connection, viewer, id))
    }

    fn session_of_token(&self, token: Hash) -> Reply<Option<(SessionNo, SessionId)>> {
        self.read(|connection| sessions::of_token(connection, &token))
    }

    fn sessions(
        &self,
        viewer: Viewer,
        agent: Option<String>,
        page: PageRequest,
    ) -> Reply<Page<Arc<SessionRow>>> {
        self.read(|connection| sessions::list(connection, viewer, agent.as_deref(), &page))
    }

    fn open_sessions(&self, after: SessionNo, limit: usize) -> Reply<Vec<Arc<SessionRow>>> {
        self.read(|connection| sessions::open(connection, after, limit))
    }

    fn inbox(&self, query: InboxQuery) -> Reply<Inbox> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, query.workspace_no)?;
            reading::inbox(connection, &workspace, &query)
        })
    }

    fn conversations(
        &self,
        workspace_no: u32,
        agent: AgentNo,
        page: PageRequest,
    ) -> Reply<Page<Conversation>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, workspace_no)?;
            reading::conversations(connection, &workspace, agent, &page)
        })
    }

    fn search(&self, viewer: Viewer, search: Search) -> Reply<Page<SearchHit>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, viewer.workspace_no)?;
            self.search.find(connection, &workspace, viewer, &search)
        })
    }

    fn register_action(&self, new: NewAction) -> Reply<Arc<ActionRow>> {
        self.writer.submit(move |tx| actions::register(tx, &new))
    }

    fn remove_action(&self, removal: ActionRemoval) -> Reply<()> {
        self.writer.submit(move |tx| actions::remove(tx, &removal))
    }

    fn action(&self, workspace_no: u32, name: &str) -> Reply<Arc<ActionRow>> {
        self.read(|connection| actions::find(connection, workspace_no, name).map(Arc::new))
    }

    fn actions(&self, query: ActionQuery) -> Reply<Page<ActionRow>> {
        self.read(|connection| actions::list(connection, &query))
    }

    fn invoke(&self, new: NewInvocation) -> Reply<Invoked> {
        self.writer.submit(move |tx| invocations::invoke(tx, &new))
    }

    fn offer_invocation(&self, call: Position, offers: u32) -> Reply<Arc<InvocationRow>> {
        self.writer
            .submit(move |tx| invocations::offer(tx, call, offers))
    }

    fn end_invocation(&self, end: InvocationEnd) -> Reply<Arc<InvocationRow>> {
        self.search.soon();
        self.writer.submit(move |tx| invocations::end(tx, &end))
    }

    fn invocation(&self, viewer: Viewer, id: InvocationId) -> Reply<InvocationRow> {
        self.read(|connection| invocations::find(connection, viewer, id))
    }

    fn open_invocations(&self, after: Position, limit: usize) -> Reply<Vec<Arc<InvocationRow>>> {
        self.read(|connection| invocations::open(connection, after, limit))
    }

    fn ask_permission(&self, new: NewPermission) -> Reply<Arc<PermissionRow>> {
        self.search.soon();
        self.writer.submit(move |tx| permissions::ask(tx, &new))
    }

    fn resolve_permission(&self, resolution: Resolution) -> Reply<Resolved> {
        self.writer
            .submit(move |tx| permission_ends::resolve(tx, &resolution))
    }

    fn end_permission(&self, ending: PermissionEnding) -> Reply<Arc<PermissionRow>> {
        self.writer
            .submit(move |tx| permission_ends::end(tx, &ending))
    }

    fn see_permission(
        &self,
        viewer: Viewer,
        id: PermissionId,
        at: Timestamp,
    ) -> Reply<Option<Arc<PermissionRow>>> {
        self.writer
            .submit(move |tx| permission_ends::see(tx, viewer, id, at))
    }

    fn execute_permission(&self, step: ExecutionStep) -> Reply<Arc<PermissionRow>> {
        self.writer
            .submit(move |tx| permissions::execute(tx, &step))
    }

    fn permission(&self, viewer: Viewer, id: PermissionId) -> Reply<Arc<PermissionRow>> {
        self.read(|connection| permissions::find(connection, viewer, id).map(Arc::new))
    }

    fn permissions(&self, list: PermissionList) -> Reply<Page<Arc<PermissionRow>>> {
        self.read(|connection| permissions::list(connection, &list))
    }

    fn pending_permissions(
        &self,
        after: PermissionNo,
        limit: usize,
    ) -> Reply<Vec<Arc<PermissionRow>>> {
        self.read(|connection| permissions::pending(connection, after, limit))
    }

    fn rules_in_force(&self, whose: Whose) -> Reply<InForce> {
        self.read(|connection| permission_rules::in_force(connection, &whose))
    }

    fn create_run(&self, new: NewRun) -> Reply<RunRow> {
        self.writer.submit(move |tx| runs::create(tx, &new))
    }

    fn permission_run(&self, viewer: Viewer, id: RunId) -> Reply<RunRow> {
        self.read(|connection| runs::find(connection, viewer, id))
    }

    fn end_run(
        &self,
        viewer: Viewer,
        id: RunId,
        reason: Option<String>,
        at: Timestamp,
    ) -> Reply<RunRow> {
        self.writer
            .submit(move |tx| runs::end(tx, viewer, id, reason.as_deref(), at))
    }

    fn grants(&self, list: GrantList) -> Reply<Page<Arc<GrantRow>>> {
        self.read(|connection| grants::list(connection, &list))
    }

    fn revoke_grant(&self, viewer: Viewer, id: GrantId, at: Timestamp) -> Reply<Arc<GrantRow>> {
        self.writer
            .submit(move |tx| grants::revoke(tx, viewer, id, at))
    }

    fn create_webhook(&self, new: NewWebhook) -> Reply<WebhookRow> {
        self.writer.submit(move |tx| webhooks::create(tx, &new))
    }

    fn change_webhook(&self, change: WebhookChange) -> Reply<WebhookRow> {
        self.writer.submit(move |tx| webhooks::change(tx, &change))
    }

    fn delete_webhook(&self, workspace_no: u32, id: WebhookId) -> Reply<()> {
        self.writer
            .submit(move |tx| webhooks::delete(tx, workspace_no, id))
    }

    fn replay_webhook(&self, replay: WebhookReplay) -> Reply<u64> {
        self.writer.submit(move |tx| webhooks::replay(tx, &replay))
    }

    fn progress_webhook(&self, progress: WebhookProgress) -> Reply<Option<Arc<WebhookRow>>> {
        self.writer
            .submit(move |tx| webhooks::progress(tx, &progress))
    }

    fn webhook(&self, workspace_no: u32, id: WebhookId) -> Reply<(WebhookRow, usize)> {
        self.read(|connection| {
            let row = webhooks::find(connection, workspace_no, id)?;
            let waiting = webhooks::waiting(connection, row.no)?;
            Ok((row, waiting))
        })
    }

    fn webhooks(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<(WebhookRow, usize)>> {
        self.read(|connection| {
            let found = webhooks::list(connection, workspace_no, &page)?;
            let counted = found.items.into_iter().map(|row| {
                let waiting = webhooks::waiting(connection, row.no)?;
                Ok((row, waiting))
            });
            Ok(Page {
                items: counted.collect::<Result<_>>()?,
                next_cursor: found.next_cursor,
            })
        })
    }

    fn active_webhooks(&self) -> Reply<Vec<Arc<WebhookRow>>> {
        self.read(webhooks::active)
    }

    fn webhook_retries(
        &self,
        row: &WebhookRow,
        now: Timestamp,
        limit: usize,
    ) -> Reply<WebhookRetries> {
        self.read(|connection| webhooks::retries(connection, row, now, limit))
    }

    fn webhook_attempts(
        &self,
        workspace_no: u32,
        id: WebhookId,
        page: PageRequest,
    ) -> Reply<Page<WebhookAttempt>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, workspace_no)?;
            let row = webhooks::find(connection, workspace_no, id)?;
            webhooks::attempts(connection, &workspace, row.no, &page)
        })
    }

    fn create_inbound(&self, new: NewInbound) -> Reply<InboundRow> {
        self.writer.submit(move |tx| inbound::create(tx, &new))
    }

    fn delete_inbound(&self, workspace_no: u32, id: WebhookId, at: Timestamp) -> Reply<()> {
        self.writer
            .submit(move |tx| inbound::delete(tx, workspace_no, id, at))
    }

    fn inbound_webhooks(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<InboundRow>> {
        self.read(|connection| inbound::list(connection, workspace_no, &page))
    }

    fn store_attachment(&self, new: NewAttachmentRow) -> Reply<AttachmentId> {
        self.writer.submit(move |tx| attachments::store(tx, &new))
    }

    fn attachment(&self, viewer: Viewer, id: AttachmentId) -> Reply<AttachmentContent> {
        self.read(|connection| attachments::read(connection, viewer, id))
    }

    fn events(&self, workspace_no: u32, after: u64, limit: usize) -> Reply<Vec<Arc<StoredEvent>>> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, workspace_no)?;
            log_read::events(connection, &workspace, after, limit)
        })
    }

    fn live(&self) -> &Arc<Hub> {
        &self.hub
    }

    fn head(&self, workspace_no: u32) -> Reply<ChainHead> {
        self.read(|connection| audit::head(connection, workspace_no))
    }

    fn verify(&self, workspace_no: u32) -> Reply<AuditReport> {
        self.read(|connection| {
            let workspace = workspaces::by_no(connection, workspace_no)?;
            audit::verify(connection, &workspace)
        })
    }

    fn erase(&self, erasure: Erasure) -> Reply<u64> {
        self.search.soon();
        self.writer.submit(move |tx| erasing::erase(tx, &erasure))
    }

    fn scrub(&self, workspace_no: u32) -> Reply<()> {
        let read_head = |connection: &Connection| log::read_head(connection, workspace_no);
        let head = self.readers.with(read_head);
        let indexed = head.and_then(|head| self.search.scrub(workspace_no, head.seq));
        match indexed {
            Ok(()) => self.writer.scrub(),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    fn workspace_nos(&self) -> Reply<Vec<u32>> {
        self.read(workspaces::numbers)
    }

    fn retain(&self, retention: Retention) -> Reply<(u64, u64)> {
        self.writer.submit(move |tx| audit::retain(tx, &retention))
    }

    fn collect_garbage(&self, now: i64) -> Reply<u64> {
        self.writer
            .submit(move |tx| attachments::collect_garbage(tx, now))
    }

    fn check_integrity(&self) -> Reply<Vec<String>> {
        self.read(|connection| {
            let found: Vec<String> = connection
                .prepare("PRAGMA integrity_check")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut wrong: Vec<String> = found.into_iter().filter(|line| line != "ok").collect();
            wrong.extend(waiting_check::check_tables(connection)?);
            Ok(wrong)
        })
    }

    fn backup(&self, to: &Path) -> Reply<()> {
        self.read(|connection| readers::backup(connection, to))
    }
}
