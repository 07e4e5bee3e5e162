//! The seam to storage: few verbs, each one atomic change or one consistent read.
//!
//! A write is answered only after it is on disk, together with the events it caused. The engine
//! decides what is right about a request by itself; what depends on stored state (is the name free, who
//! is in the channel) is decided inside the store's call, so that no other change can come between.

pub mod action_requests;
pub mod chain;
pub mod delivery_requests;
pub mod live;
pub mod news;
pub mod permission_requests;
pub mod position;
pub mod records;
pub mod reply;
pub mod requests;
pub mod sent;
pub mod session_requests;
pub mod sqlite;
pub mod webhook_requests;

use std::path::Path;
use std::sync::Arc;

use relay_protocol::agent::AgentSummary;
use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    Conversation, Inbox, MessageView, Reaction, Reader, SearchHit,
};
use relay_protocol::api::workspace::{ChannelMember, ObserverToken};
use relay_protocol::channel::Channel;
use relay_protocol::ids::{
    AttachmentId, DeliveryId, GrantId, InvocationId, MessageId, PermissionId, RunId, SessionId,
    WebhookId, WorkspaceId,
};
use relay_protocol::message::RelayMessage;
use relay_protocol::time::Timestamp;
use relay_protocol::webhook::WebhookAttempt;
use uuid::Uuid;

pub use self::action_requests::{
    ActionNo, ActionQuery, ActionRemoval, ActionRow, InvocationEnd, InvocationOutcome,
    InvocationRow, Invoked, NewAction, NewInvocation,
};
use self::chain::Hash;
pub use self::delivery_requests::{
    Advance, Advanced, DeliverTo, DeliveryFilter, DeliveryStory, DueNow, FlushRequest, NewDelivery,
    WaitingPage, WaitingQuery,
};
use self::live::{Hub, StoredEvent};
pub use self::news::{CredentialEnd, DeliveryMoved, News, Observer};
pub use self::permission_requests::{
    EndingCause, ExecutionMove, ExecutionStep, GrantList, GrantNo, GrantQuery, GrantRow, InForce,
    Layer, NewPermission, NewRun, PermissionBody, PermissionEnding, PermissionList, PermissionNo,
    PermissionQuery, PermissionRow, Resolution, Resolved, RunNo, RunRow, Whose,
};
pub use self::position::Position;
pub use self::records::{
    AgentNo, AgentRow, AttachmentContent, AuditReport, ChainHead, Credential, DeliveryRow, Holder,
    RoomKind, RoomNo, RoomRow, SessionNo, SessionRow, WorkspaceRow,
};
pub use self::reply::Reply;
pub use self::requests::{
    Author, ChannelChange, Erasure, InboxQuery, Joining, MessageEdit, NewAgent, NewAttachmentRow,
    NewChannel, NewMessage, NewObserver, NewToken, NewWorkspace, PageRequest, Place,
    ReactionRequest, ReadMark, ReaderGate, Reading, Retention, Revocation, Search, TokenRotation,
    Viewer, WorkspaceChange,
};
pub use self::sent::{DeliveryContent, Recipient, SendRecord};
pub use self::session_requests::{
    AttachedSession, NewFork, NewSession, NumberedReport, Report, ReportKind, Reported,
    SessionChange, SessionTurn,
};
pub(crate) use self::sqlite::judge;

pub use self::webhook_requests::{
    CallMade, CallNext, InboundRow, NewInbound, NewWebhook, WebhookBody, WebhookChange, WebhookNo,
    WebhookProgress, WebhookReplay, WebhookRetries, WebhookRetry, WebhookRow,
};

/// Durable storage of workspaces.
pub trait Store: Send + Sync + 'static {
    /// Creates a workspace with its key and `#general`.
    fn create_workspace(&self, new: NewWorkspace) -> Reply<Arc<WorkspaceRow>>;
    /// Changes a workspace's name or policy.
    fn update_workspace(&self, change: WorkspaceChange) -> Reply<Arc<WorkspaceRow>>;
    /// One workspace.
    fn workspace(&self, id: WorkspaceId) -> Reply<Option<Arc<WorkspaceRow>>>;
    /// One workspace by its number, which must exist.
    fn workspace_by_no(&self, no: u32) -> Reply<Arc<WorkspaceRow>>;
    /// Keeps the server's admin key, replacing an older one.
    fn set_admin_key(&self, token: NewToken) -> Reply<()>;
    /// What the credential with this hash may do.
    fn credential(&self, hash: Hash) -> Reply<Option<Credential>>;

    /// Makes a credential for somebody who only looks.
    fn create_observer(&self, new: NewObserver) -> Reply<ObserverToken>;
    /// Takes back a credential of somebody who only looks.
    fn revoke_observer(&self, revocation: Revocation) -> Reply<()>;
    /// The credentials of those who only look, the oldest first.
    fn observers(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<ObserverToken>>;

    /// Registers an agent, or adopts the one that has the name.
    fn register_agent(&self, new: NewAgent) -> Reply<Arc<AgentRow>>;
    /// Replaces an agent's metadata.
    fn update_agent(&self, change: requests::AgentChange) -> Reply<Arc<AgentRow>>;
    /// Gives an agent a new token; the old ones go on for the grace time.
    fn rotate_token(&self, rotation: TokenRotation) -> Reply<()>;
    /// Releases an agent: its tokens end, its waiting deliveries fail.
    fn release_agent(&self, release: requests::Release) -> Reply<()>;
    /// The agent with this name.
    fn agent(&self, workspace_no: u32, name: &str) -> Reply<Arc<AgentRow>>;
    /// One agent by its number, released or not.
    fn agent_by_no(&self, no: AgentNo) -> Reply<Arc<AgentRow>>;
    /// All agents, by name.
    fn agents(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<AgentSummary>>;

    /// Creates a channel; its creator is its first member.
    fn create_channel(&self, new: NewChannel) -> Reply<Channel>;
    /// Changes a channel's topic, or archives it.
    fn update_channel(&self, change: ChannelChange) -> Reply<Channel>;
    /// Adds members. Those who are in it already stay so.
    fn join_channel(&self, joining: Joining) -> Reply<Channel>;
    /// Removes members. Those who are not in it stay so.
    fn leave_channel(&self, leaving: Joining) -> Reply<Channel>;
    /// The channel with this name.
    fn channel(&self, workspace_no: u32, name: &str) -> Reply<Channel>;
    /// All channels, by name.
    fn channels(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<Channel>>;
    /// The members of a channel, by name.
    fn members(
        &self,
        workspace_no: u32,
        channel: &str,
        page: PageRequest,
    ) -> Reply<Page<ChannelMember>>;

    /// Whether an agent is in the channel or conversation with this id.
    fn is_member(&self, agent: AgentNo, room: Uuid) -> Reply<bool>;

    /// Stores a message with one delivery per recipient.
    fn send(&self, new: NewMessage) -> Reply<Arc<SendRecord>>;
    /// Replaces a message's text; its earlier versions stay in the log.
    fn edit_message(&self, edit: MessageEdit) -> Reply<Arc<RelayMessage>>;
    /// Adds or removes a reaction.
    fn react(&self, request: ReactionRequest) -> Reply<Vec<Reaction>>;
    /// Marks messages, and all before each of them in the same place, as read. Deliveries of these to the
    /// reader that no session has yet are settled: they were seen in the inbox.
    fn mark_read(&self, mark: ReadMark) -> Reply<()>;
    /// One message with its reactions.
    fn message(&self, viewer: Viewer, id: MessageId) -> Reply<MessageView>;
    /// The messages of a channel or conversation, newest first.
    fn messages(&self, viewer: Viewer, place: Place, page: PageRequest)
    -> Reply<Page<MessageView>>;
    /// A thread: its root, then the replies, oldest first.
    fn thread(
        &self,
        viewer: Viewer,
        root: MessageId,
        page: PageRequest,
    ) -> Reply<Page<MessageView>>;
    /// Who has read a message.
    fn readers(&self, viewer: Viewer, id: MessageId) -> Reply<Vec<Reader>>;
    /// A message's deliveries, those last that were not made by its send.
    fn deliveries(&self, viewer: Viewer, id: MessageId) -> Reply<Vec<DeliveryStory>>;
    /// One delivery with all that happened to it, for its recipient, the author, or the workspace.
    fn delivery(&self, viewer: Viewer, id: DeliveryId) -> Reply<DeliveryStory>;
    /// Deliveries, newest first: those of an agent's own messages and those for it.
    fn delivery_list(
        &self,
        viewer: Viewer,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Reply<Page<DeliveryStory>>;
    /// Makes a delivery of a message that was sent before. One that is not finished is found, not made.
    fn deliver(&self, new: NewDelivery) -> Reply<DeliveryRow>;
    /// Takes one step of a delivery. See [`crate::delivery::apply`].
    fn advance(&self, advance: Advance) -> Reply<Advanced>;
    /// Lets waiting deliveries go at any moment, oldest first; answers with all that are meant.
    fn flush(&self, request: FlushRequest) -> Reply<Vec<DeliveryRow>>;
    /// What waits for an agent.
    fn waiting(&self, query: WaitingQuery) -> Reply<WaitingPage>;
    /// What waits for one session only, oldest first.
    fn addressed_to(&self, session: SessionNo) -> Reply<Vec<DeliveryRow>>;
    /// Unfinished deliveries whose deadline, or the time until which they wait, has come.
    fn due(&self, now: Timestamp, limit: usize) -> Reply<DueNow>;
    /// Reads what a session is given of a delivery: the message as it is now, and what came with it.
    fn delivery_content(&self, message: Position, delivery: Position) -> Reply<DeliveryContent>;

    /// Begins a new run of the runner; answers with its number, greater than all before.
    fn begin_run(&self) -> Reply<u64>;
    /// Makes a session, or lets one go on.
    fn attach_session(&self, new: NewSession) -> Reply<AttachedSession>;
    /// What a session accepted and still answers for.
    fn held_by(&self, session: SessionNo) -> Reply<Vec<DeliveryId>>;
    /// Makes a session from another one. It is `starting` until it attaches.
    fn fork_session(&self, new: NewFork) -> Reply<Arc<SessionRow>>;
    /// Changes a session; what an ended one held waits again.
    fn change_session(&self, change: SessionChange) -> Reply<Arc<SessionRow>>;
    /// Takes back what a session accepted, because its link was gone for too long; says how many.
    fn take_back(&self, session: SessionNo, at: Timestamp, jitter: u64) -> Reply<u32>;
    /// Stores reports of a session: all of them or none.
    fn report(&self, report: Report) -> Reply<Reported>;
    /// One session, for its agent or the workspace.
    fn session(&self, viewer: Viewer, id: SessionId) -> Reply<Arc<SessionRow>>;
    /// The session that this resume token belongs to, in any workspace; also one that has ended.
    fn session_of_token(&self, token: Hash) -> Reply<Option<(SessionNo, SessionId)>>;
    /// Sessions, newest first, those of one agent or all.
    fn sessions(
        &self,
        viewer: Viewer,
        agent: Option<String>,
        page: PageRequest,
    ) -> Reply<Page<Arc<SessionRow>>>;
    /// Sessions that have not ended, in the order of their numbers.
    fn open_sessions(&self, after: SessionNo, limit: usize) -> Reply<Vec<Arc<SessionRow>>>;
    /// What an agent has not read, oldest first.
    fn inbox(&self, query: InboxQuery) -> Reply<Inbox>;
    /// An agent's conversations, the most recent first.
    fn conversations(
        &self,
        workspace_no: u32,
        agent: AgentNo,
        page: PageRequest,
    ) -> Reply<Page<Conversation>>;
    /// Messages that hold the words.
    fn search(&self, viewer: Viewer, search: Search) -> Reply<Page<SearchHit>>;

    /// Registers an action, or replaces what its owner registered before.
    fn register_action(&self, new: NewAction) -> Reply<Arc<ActionRow>>;
    /// Takes an action back; its open calls fail.
    fn remove_action(&self, removal: ActionRemoval) -> Reply<()>;
    /// The action with this name.
    fn action(&self, workspace_no: u32, name: &str) -> Reply<Arc<ActionRow>>;
    /// Actions that somebody may call or has registered, by name.
    fn actions(&self, query: ActionQuery) -> Reply<Page<ActionRow>>;
    /// Writes a call down.
    fn invoke(&self, new: NewInvocation) -> Reply<Invoked>;
    /// Notes how often a call went to a handler; says what it is called with.
    fn offer_invocation(&self, call: Position, offers: u32) -> Reply<Arc<InvocationRow>>;
    /// Ends a call. The first answer counts.
    fn end_invocation(&self, end: InvocationEnd) -> Reply<Arc<InvocationRow>>;
    /// One call, for its caller, whoever may answer it, and the workspace.
    fn invocation(&self, viewer: Viewer, id: InvocationId) -> Reply<InvocationRow>;
    /// Open calls of all workspaces, in the order of their places.
    fn open_invocations(&self, after: Position, limit: usize) -> Reply<Vec<Arc<InvocationRow>>>;

    /// Writes a permission request down. The rules decide at once, or it waits.
    fn ask_permission(&self, new: NewPermission) -> Reply<Arc<PermissionRow>>;
    /// Takes an answer. The first counts.
    fn resolve_permission(&self, resolution: Resolution) -> Reply<Resolved>;
    /// Ends a request that nobody decided about, if it still waits.
    fn end_permission(&self, ending: PermissionEnding) -> Reply<Arc<PermissionRow>>;
    /// Notes that somebody who may decide has seen a request; none: they may not.
    fn see_permission(
        &self,
        viewer: Viewer,
        id: PermissionId,
        at: Timestamp,
    ) -> Reply<Option<Arc<PermissionRow>>>;
    /// Takes a step of what was allowed.
    fn execute_permission(&self, step: ExecutionStep) -> Reply<Arc<PermissionRow>>;
    /// One request, for the agent that asked, for people, and for the workspace.
    fn permission(&self, viewer: Viewer, id: PermissionId) -> Reply<Arc<PermissionRow>>;
    /// Requests, newest first.
    fn permissions(&self, list: PermissionList) -> Reply<Page<Arc<PermissionRow>>>;
    /// Those of all workspaces that wait, oldest first.
    fn pending_permissions(
        &self,
        after: PermissionNo,
        limit: usize,
    ) -> Reply<Vec<Arc<PermissionRow>>>;
    /// What decides about somebody's calls.
    fn rules_in_force(&self, whose: Whose) -> Reply<InForce>;
    /// Begins a run.
    fn create_run(&self, new: NewRun) -> Reply<RunRow>;
    /// One run, for its agent, for people, and for the workspace.
    fn permission_run(&self, viewer: Viewer, id: RunId) -> Reply<RunRow>;
    /// Ends a run and those below it.
    fn end_run(
        &self,
        viewer: Viewer,
        id: RunId,
        reason: Option<String>,
        at: Timestamp,
    ) -> Reply<RunRow>;
    /// Standing decisions, newest first.
    fn grants(&self, list: GrantList) -> Reply<Page<Arc<GrantRow>>>;
    /// Takes a standing decision back.
    fn revoke_grant(&self, viewer: Viewer, id: GrantId, at: Timestamp) -> Reply<Arc<GrantRow>>;

    /// Makes a webhook; it begins with the next event.
    fn create_webhook(&self, new: NewWebhook) -> Reply<WebhookRow>;
    /// Changes a webhook.
    fn change_webhook(&self, change: WebhookChange) -> Reply<WebhookRow>;
    /// Ends a webhook and forgets what it did.
    fn delete_webhook(&self, workspace_no: u32, id: WebhookId) -> Reply<()>;
    /// Lists events to be sent once more; says how many.
    fn replay_webhook(&self, replay: WebhookReplay) -> Reply<u64>;
    /// Writes down what a webhook's calls came to; none when it is gone.
    fn progress_webhook(&self, progress: WebhookProgress) -> Reply<Option<Arc<WebhookRow>>>;
    /// One webhook, and how many events it has to send again.
    fn webhook(&self, workspace_no: u32, id: WebhookId) -> Reply<(WebhookRow, usize)>;
    /// All webhooks of a workspace, the oldest first, each with how many events it has to send again.
    fn webhooks(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<(WebhookRow, usize)>>;
    /// Webhooks of all workspaces that are called.
    fn active_webhooks(&self) -> Reply<Vec<Arc<WebhookRow>>>;
    /// What a webhook has to send again.
    fn webhook_retries(
        &self,
        row: &WebhookRow,
        now: Timestamp,
        limit: usize,
    ) -> Reply<WebhookRetries>;
    /// The newest calls of a webhook, newest first.
    fn webhook_attempts(
        &self,
        workspace_no: u32,
        id: WebhookId,
        page: PageRequest,
    ) -> Reply<Page<WebhookAttempt>>;

    /// Makes a way for messages to come in.
    fn create_inbound(&self, new: NewInbound) -> Reply<InboundRow>;
    /// Ends a way for messages to come in.
    fn delete_inbound(&self, workspace_no: u32, id: WebhookId, at: Timestamp) -> Reply<()>;
    /// All ways for messages to come in, the oldest first.
    fn inbound_webhooks(&self, workspace_no: u32, page: PageRequest) -> Reply<Page<InboundRow>>;

    /// Stores content for messages to refer to.
    fn store_attachment(&self, new: NewAttachmentRow) -> Reply<AttachmentId>;
    /// Stored content.
    fn attachment(&self, viewer: Viewer, id: AttachmentId) -> Reply<AttachmentContent>;

    /// Events after a sequence number, oldest first.
    fn events(&self, workspace_no: u32, after: u64, limit: usize) -> Reply<Vec<Arc<StoredEvent>>>;
    /// Where committed changes are announced.
    fn live(&self) -> &Arc<Hub>;

    /// The end of the chain.
    fn head(&self, workspace_no: u32) -> Reply<ChainHead>;
    /// Checks a workspace's whole chain against what is stored.
    fn verify(&self, workspace_no: u32) -> Reply<AuditReport>;
    /// Removes payloads from the log, keeping headers and hashes.
    fn erase(&self, erasure: Erasure) -> Reply<u64>;
    /// Removes what a workspace's erased content has left in the files: words in the search index, free pages, the
    /// write-ahead logs. It takes as long as copying the files does, and nothing is written meanwhile.
    fn scrub(&self, workspace_no: u32) -> Reply<()>;
    /// The numbers of all workspaces.
    fn workspace_nos(&self) -> Reply<Vec<u32>>;
    /// Applies retention; says how many payloads, of which there may be more, and how many rows went.
    fn retain(&self, retention: Retention) -> Reply<(u64, u64)>;
    /// Removes unused uploads, old idempotency keys and dead tokens; says how many.
    fn collect_garbage(&self, now: i64) -> Reply<u64>;

    /// Checks the files themselves, which takes time.
    fn check_integrity(&self) -> Reply<Vec<String>>;
    /// Copies everything into a new file while work goes on.
    fn backup(&self, to: &Path) -> Reply<()>;
}
