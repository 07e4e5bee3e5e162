//! The real store behind a gate: a call is made when the simulation says so, and answered when it says
//! so. Between any two of these anything else may happen: time passes, the runner looks at its timers, and
//! the process may die, after which what was not made yet never is. Only what the engine reads without
//! waiting is answered on the spot.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use relay_core::Result;
use relay_core::error::StorageError;
use relay_core::store::chain::Hash;
use relay_core::store::live::{Hub, StoredEvent};
use relay_core::store::requests::{AgentChange, Release};
use relay_core::store::sqlite::SqliteStore;
use relay_core::store::*;
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

use crate::delivering::Prompt;

/// A store whose writes wait to be let through.
pub(super) struct Gate {
    real: Arc<SqliteStore>,
    calls: Mutex<VecDeque<Call>>,
}

/// A call that waits.
struct Call {
    name: &'static str,
    reads: bool,
    make: Box<Make>,
}

/// Makes a write and says how it is answered.
type Make = dyn FnOnce(&SqliteStore, Fate) -> Answer + Send;

/// Gives an answer.
pub(super) type Answer = Box<dyn FnOnce() + Send>;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is made.
    Made,
    /// The store can't write at the moment.
    Refused,
}

impl Gate {
    pub(super) fn new(real: Arc<SqliteStore>) -> Self {
        Self {
            real,
            calls: Mutex::default(),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Makes the next write; its answer is given later.
    pub(super) fn make_next(&self, fate: Fate) -> Option<(&'static str, Answer)> {
        let call = self.calls.lock().unwrap().pop_front()?;
        let fate = if call.reads { Fate::Made } else { fate };
        Some((call.name, (call.make)(&self.real, fate)))
    }

    /// Writes that were not made never are.
    pub(super) fn die(&self) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        drop(calls);
    }

    fn later<T: Send + Unpin + 'static>(
        &self,
        (name, reads): (&'static str, bool),
        make: impl FnOnce(&SqliteStore) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let (replier, reply) = Reply::pending();
        let make = Box::new(move |real: &SqliteStore, fate: Fate| -> Answer {
            let result: Result<T> = match fate {
                Fate::Made => make(real).wait(),
                Fate::Refused => Err(StorageError::Unavailable("simulated".to_owned()).into()),
            };
            Box::new(move || replier.send(result))
        });
        self.calls
            .lock()
            .unwrap()
            .push_back(Call { name, reads, make });
        reply
    }
}

/// Writes and reads wait at the gate, or are made and answered on the spot. What the engine reads without
/// waiting, or with borrowed parameters, goes straight through.
macro_rules! gate {
    (
        writes { $(fn $write:ident(&self $(, $warg:ident: $wtype:ty)*) -> $wreply:ty;)* }
        reads { $(fn $read:ident(&self $(, $rarg:ident: $rtype:ty)*) -> $rreply:ty;)* }
        named { $(fn $named:ident(&self, $workspace:ident: u32, $name:ident: &str) -> $nreply:ty;)* }
        on_the_spot { $(fn $spot:ident(&self $(, $sarg:ident: $stype:ty)*) -> $sreply:ty;)* }
    ) => {
        impl Store for Gate {
            $(fn $write(&self $(, $warg: $wtype)*) -> Reply<$wreply> {
                self.later((stringify!($write), false), move |real| real.$write($($warg),*))
            })*
            $(fn $read(&self $(, $rarg: $rtype)*) -> Reply<$rreply> {
                self.later((stringify!($read), true), move |real| real.$read($($rarg),*))
            })*
            $(fn $named(&self, $workspace: u32, $name: &str) -> Reply<$nreply> {
                let $name = $name.to_owned();
                self.later((stringify!($named), true), move |real| real.$named($workspace, &$name))
            })*
            $(fn $spot(&self $(, $sarg: $stype)*) -> Reply<$sreply> {
                self.real.$spot($($sarg),*)
            })*

            fn live(&self) -> &Arc<Hub> {
                self.real.live()
            }
        }

        impl Store for Prompt {
            $(fn $write(&self $(, $warg: $wtype)*) -> Reply<$wreply> {
                self.at_once(move |real| real.$write($($warg),*))
            })*
            $(fn $read(&self $(, $rarg: $rtype)*) -> Reply<$rreply> {
                self.real().$read($($rarg),*)
            })*
            $(fn $named(&self, $workspace: u32, $name: &str) -> Reply<$nreply> {
                self.real().$named($workspace, $name)
            })*
            $(fn $spot(&self $(, $sarg: $stype)*) -> Reply<$sreply> {
                self.real().$spot($($sarg),*)
            })*

            fn live(&self) -> &Arc<Hub> {
                self.real().live()
            }
        }
    };
}

gate! {
    writes {
        fn create_workspace(&self, new: NewWorkspace) -> Arc<WorkspaceRow>;
        fn update_workspace(&self, change: WorkspaceChange) -> Arc<WorkspaceRow>;
        fn set_admin_key(&self, token: NewToken) -> ();
        fn create_observer(&self, new: NewObserver) -> ObserverToken;
        fn revoke_observer(&self, revocation: Revocation) -> ();
        fn register_agent(&self, new: NewAgent) -> Arc<AgentRow>;
        fn update_agent(&self, change: AgentChange) -> Arc<AgentRow>;
        fn rotate_token(&self, rotation: TokenRotation) -> ();
        fn release_agent(&self, release: Release) -> ();
        fn create_channel(&self, new: NewChannel) -> Channel;
        fn update_channel(&self, change: ChannelChange) -> Channel;
        fn join_channel(&self, joining: Joining) -> Channel;
        fn leave_channel(&self, leaving: Joining) -> Channel;
        fn send(&self, new: NewMessage) -> Arc<SendRecord>;
        fn edit_message(&self, edit: MessageEdit) -> Arc<RelayMessage>;
        fn react(&self, request: ReactionRequest) -> Vec<Reaction>;
        fn mark_read(&self, mark: ReadMark) -> ();
        fn deliver(&self, new: NewDelivery) -> DeliveryRow;
        fn advance(&self, advance: Advance) -> Advanced;
        fn flush(&self, request: FlushRequest) -> Vec<DeliveryRow>;
        fn waiting(&self, query: WaitingQuery) -> WaitingPage;
        fn addressed_to(&self, session: SessionNo) -> Vec<DeliveryRow>;
        fn due(&self, now: Timestamp, limit: usize) -> DueNow;
        fn begin_run(&self) -> u64;
        fn attach_session(&self, new: NewSession) -> AttachedSession;
        fn held_by(&self, session: SessionNo) -> Vec<DeliveryId>;
        fn fork_session(&self, new: NewFork) -> Arc<SessionRow>;
        fn change_session(&self, change: SessionChange) -> Arc<SessionRow>;
        fn take_back(&self, session: SessionNo, at: Timestamp, jitter: u64) -> u32;
        fn report(&self, report: Report) -> Reported;
        fn register_action(&self, new: NewAction) -> Arc<ActionRow>;
        fn remove_action(&self, removal: ActionRemoval) -> ();
        fn invoke(&self, new: NewInvocation) -> Invoked;
        fn offer_invocation(&self, call: Position, offers: u32) -> Arc<InvocationRow>;
        fn end_invocation(&self, end: InvocationEnd) -> Arc<InvocationRow>;
        fn create_webhook(&self, new: NewWebhook) -> WebhookRow;
        fn change_webhook(&self, change: WebhookChange) -> WebhookRow;
        fn delete_webhook(&self, workspace_no: u32, id: WebhookId) -> ();
        fn replay_webhook(&self, replay: WebhookReplay) -> u64;
        fn progress_webhook(&self, progress: WebhookProgress) -> Option<Arc<WebhookRow>>;
        fn create_inbound(&self, new: NewInbound) -> InboundRow;
        fn delete_inbound(&self, workspace_no: u32, id: WebhookId, at: Timestamp) -> ();
        fn store_attachment(&self, new: NewAttachmentRow) -> AttachmentId;
        fn erase(&self, erasure: Erasure) -> u64;
        fn scrub(&self, workspace_no: u32) -> ();
        fn retain(&self, retention: Retention) -> (u64, u64);
        fn collect_garbage(&self, now: i64) -> u64;
        fn ask_permission(&self, new: NewPermission) -> Arc<PermissionRow>;
        fn resolve_permission(&self, resolution: Resolution) -> Resolved;
        fn end_permission(&self, ending: PermissionEnding) -> Arc<PermissionRow>;
        fn see_permission(&self, viewer: Viewer, id: PermissionId, at: Timestamp) -> Option<Arc<PermissionRow>>;
        fn execute_permission(&self, step: ExecutionStep) -> Arc<PermissionRow>;
        fn create_run(&self, new: NewRun) -> RunRow;
        fn end_run(&self, viewer: Viewer, id: RunId, reason: Option<String>, at: Timestamp) -> RunRow;
        fn revoke_grant(&self, viewer: Viewer, id: GrantId, at: Timestamp) -> Arc<GrantRow>;
    }
    reads {
        fn permission(&self, viewer: Viewer, id: PermissionId) -> Arc<PermissionRow>;
        fn permissions(&self, list: PermissionList) -> Page<Arc<PermissionRow>>;
        fn pending_permissions(&self, after: PermissionNo, limit: usize) -> Vec<Arc<PermissionRow>>;
        fn rules_in_force(&self, whose: Whose) -> InForce;
        fn permission_run(&self, viewer: Viewer, id: RunId) -> RunRow;
        fn grants(&self, list: GrantList) -> Page<Arc<GrantRow>>;
        fn workspace(&self, id: WorkspaceId) -> Option<Arc<WorkspaceRow>>;
        fn workspace_nos(&self) -> Vec<u32>;
        fn workspace_by_no(&self, no: u32) -> Arc<WorkspaceRow>;
        fn credential(&self, hash: Hash) -> Option<Credential>;
        fn observers(&self, workspace_no: u32, page: PageRequest) -> Page<ObserverToken>;
        fn agent_by_no(&self, no: AgentNo) -> Arc<AgentRow>;
        fn agents(&self, workspace_no: u32, page: PageRequest) -> Page<AgentSummary>;
        fn channels(&self, workspace_no: u32, page: PageRequest) -> Page<Channel>;
        fn messages(&self, viewer: Viewer, place: Place, page: PageRequest) -> Page<MessageView>;
        fn thread(&self, viewer: Viewer, root: MessageId, page: PageRequest) -> Page<MessageView>;
        fn readers(&self, viewer: Viewer, id: MessageId) -> Vec<Reader>;
        fn deliveries(&self, viewer: Viewer, id: MessageId) -> Vec<DeliveryStory>;
        fn delivery(&self, viewer: Viewer, id: DeliveryId) -> DeliveryStory;
        fn delivery_list(&self, viewer: Viewer, filter: DeliveryFilter, page: PageRequest) -> Page<DeliveryStory>;
        fn session(&self, viewer: Viewer, id: SessionId) -> Arc<SessionRow>;
        fn session_of_token(&self, token: Hash) -> Option<(SessionNo, SessionId)>;
        fn sessions(&self, viewer: Viewer, agent: Option<String>, page: PageRequest) -> Page<Arc<SessionRow>>;
        fn open_sessions(&self, after: SessionNo, limit: usize) -> Vec<Arc<SessionRow>>;
        fn inbox(&self, query: InboxQuery) -> Inbox;
        fn conversations(&self, workspace_no: u32, agent: AgentNo, page: PageRequest) -> Page<Conversation>;
        fn search(&self, viewer: Viewer, search: Search) -> Page<SearchHit>;
        fn actions(&self, query: ActionQuery) -> Page<ActionRow>;
        fn open_invocations(&self, after: Position, limit: usize) -> Vec<Arc<InvocationRow>>;
        fn webhook(&self, workspace_no: u32, id: WebhookId) -> (WebhookRow, usize);
        fn webhooks(&self, workspace_no: u32, page: PageRequest) -> Page<(WebhookRow, usize)>;
        fn active_webhooks(&self) -> Vec<Arc<WebhookRow>>;
        fn webhook_attempts(&self, workspace_no: u32, id: WebhookId, page: PageRequest) -> Page<WebhookAttempt>;
        fn inbound_webhooks(&self, workspace_no: u32, page: PageRequest) -> Page<InboundRow>;
        fn attachment(&self, viewer: Viewer, id: AttachmentId) -> AttachmentContent;
        fn events(&self, workspace_no: u32, after: u64, limit: usize) -> Vec<Arc<StoredEvent>>;
        fn head(&self, workspace_no: u32) -> ChainHead;
        fn verify(&self, workspace_no: u32) -> AuditReport;
        fn check_integrity(&self) -> Vec<String>;
    }
    named {
        fn agent(&self, workspace_no: u32, name: &str) -> Arc<AgentRow>;
        fn action(&self, workspace_no: u32, name: &str) -> Arc<ActionRow>;
    }
    on_the_spot {
        fn is_member(&self, agent: AgentNo, room: Uuid) -> bool;
        fn channel(&self, workspace_no: u32, name: &str) -> Channel;
        fn members(&self, workspace_no: u32, channel: &str, page: PageRequest) -> Page<ChannelMember>;
        fn message(&self, viewer: Viewer, id: MessageId) -> MessageView;
        fn delivery_content(&self, message: Position, delivery: Position) -> DeliveryContent;
        fn invocation(&self, viewer: Viewer, id: InvocationId) -> InvocationRow;
        fn webhook_retries(&self, row: &WebhookRow, now: Timestamp, limit: usize) -> WebhookRetries;
        fn backup(&self, to: &Path) -> ();
    }
}
