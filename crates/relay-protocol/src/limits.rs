//! Every limit, by name. `docs/limits.md` lists them for users; a test there keeps the two equal.

/// Most bytes of a request's body.
pub const REQUEST_BODY_BYTES: usize = 1024 * 1024;
/// Most bytes of a message's text.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Most bytes of one attachment.
pub const ATTACHMENT_BYTES: usize = 8 * 1024 * 1024;
/// Most bytes of an attachment that comes inside a send; larger ones are uploaded first.
pub const INLINE_ATTACHMENT_BYTES: usize = 512 * 1024;
/// Most attachments of one message.
pub const ATTACHMENTS_PER_MESSAGE: usize = 16;
/// Most characters of the name of an agent, a channel or a workspace.
pub const NAME_CHARS: usize = 64;
/// Most characters of an attachment's file name.
pub const FILE_NAME_CHARS: usize = 255;
/// Most bytes of an attachment's media type.
pub const MEDIA_TYPE_BYTES: usize = 255;
/// Most bytes of a channel's topic.
pub const TOPIC_BYTES: usize = 1024;
/// Most bytes of the reason for a release or an erasure.
pub const REASON_BYTES: usize = 1024;
/// Most bytes of a reaction.
pub const EMOJI_BYTES: usize = 64;
/// Most different reactions on one message.
pub const REACTIONS_PER_MESSAGE: usize = 64;
/// Most names in `to` of one send.
pub const RECIPIENTS_PER_SEND: usize = 64;
/// Most members of a channel.
pub const CHANNEL_MEMBERS: usize = 10_000;
/// Most bytes of metadata, as JSON.
pub const METADATA_BYTES: usize = 16 * 1024;
/// Most characters of an idempotency key.
pub const IDEMPOTENCY_KEY_CHARS: usize = 200;
/// How long an idempotency key is remembered.
pub const IDEMPOTENCY_KEPT_MS: i64 = 24 * 60 * 60 * 1000;
/// Most items of a page.
pub const PAGE_ITEMS: usize = 200;
/// Items of a page when nothing else is asked for.
pub const PAGE_ITEMS_DEFAULT: usize = 50;
/// Most ranges of sequence numbers that one `audit.erased` names; what more was erased is told by further events.
pub const ERASED_RANGES: usize = 1_000;
/// Most bytes of a search query.
pub const QUERY_BYTES: usize = 1024;
/// Most unread messages that an inbox counts in one place; beyond it says `more`.
pub const UNREAD_COUNTED: usize = 1_000;
/// Most deliveries that wait for one agent, unless the workspace's policy says less.
pub const PENDING_DELIVERIES_PER_AGENT: u32 = 10_000;
/// Most entries that are kept of what happened to one delivery: the first and the newest.
pub const DELIVERY_HISTORY_ENTRIES: usize = 200;
/// Most bytes of one frame on the socket.
pub const SOCKET_FRAME_BYTES: usize = 1024 * 1024;
/// How long the server waits for the other half of the closing handshake before it drops a connection.
pub const SOCKET_CLOSE_MS: u64 = 2_000;
/// How long a replaced token keeps working.
pub const TOKEN_GRACE_MS: i64 = 60 * 1000;
/// How long an upload that no message uses is kept.
pub const UNUSED_ATTACHMENT_MS: i64 = 24 * 60 * 60 * 1000;
/// Log entries kept in memory for subscribers; one that falls behind further is told `lagged`.
pub const LIVE_ENTRIES: usize = 4_096;
/// Most bytes that these entries take over all workspaces, with all that was made of them for subscribers.
pub const LIVE_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of events after which a page of the log ends, and a subscriber that reads from it gets no more at a time.
pub const LOG_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Log entries that are checked when a database is opened.
pub const CHAIN_CHECKED_AT_START: u64 = 1_000;
/// Most characters of an action's name, all of `A-Z a-z 0-9 _ -`.
pub const ACTION_NAME_CHARS: usize = 48;
/// Most bytes of an action's schema, as JSON.
pub const ACTION_SCHEMA_BYTES: usize = 64 * 1024;
/// How deep an action's schema may be nested.
pub const ACTION_SCHEMA_DEPTH: usize = 32;
/// Most values in an action's schema, each reference counted as what it refers to.
pub const ACTION_SCHEMA_WEIGHT: usize = 20_000;
/// Most bytes of an action's description.
pub const ACTION_DESCRIPTION_BYTES: usize = 4 * 1024;
/// Most selectors of those who may call an action.
pub const ACTION_SELECTORS: usize = 256;
/// Most bytes of a call's input or output, as JSON.
pub const ACTION_VALUE_BYTES: usize = 256 * 1024;
/// Most actions of one workspace.
pub const ACTIONS: usize = 10_000;
/// Most actions that one connection handles.
pub const ACTIONS_PER_CONNECTION: usize = 1_000;
/// Most calls of one action that have not ended.
pub const ACTION_CALLS_OPEN: usize = 1_000;
/// Most calls that one handler has at a time.
pub const ACTION_CALLS_PER_HANDLER: usize = 64;
/// How long a call may take when the action does not say.
pub const ACTION_TIMEOUT_MS: u64 = 5 * 60 * 1000;
/// How long a call may take at most.
pub const ACTION_TIMEOUT_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// Most MCP sessions over HTTP.
pub const MCP_SESSIONS: usize = 1_000;
/// Most MCP sessions over HTTP of one agent; a new one takes the place of the one that rested longest.
pub const MCP_SESSIONS_PER_AGENT: usize = 32;
/// How long an MCP session over HTTP may rest before it ends; one whose client listens does not rest.
pub const MCP_SESSION_IDLE_MS: u64 = 30 * 60 * 1000;
/// Most webhooks of one workspace that events go out to.
pub const WEBHOOKS: usize = 1_000;
/// Most webhooks of one workspace that messages come in by.
pub const INBOUND_WEBHOOKS: usize = 1_000;
/// Most event names and patterns of one webhook.
pub const WEBHOOK_EVENTS: usize = 64;
/// Most headers that one webhook's calls carry along.
pub const WEBHOOK_HEADERS: usize = 32;
/// Most bytes of a webhook's URL, and of a header's value.
pub const WEBHOOK_TEXT_BYTES: usize = 2 * 1024;
/// Most calls of one webhook that are under way.
pub const WEBHOOK_CALLS: usize = 16;
/// With so many events to send again, a webhook gets no new ones.
pub const WEBHOOK_RETRIES: usize = 64;
/// Most events of one replay.
pub const WEBHOOK_REPLAYED: usize = 10_000;
/// Calls of a webhook that are remembered, the newest.
pub const WEBHOOK_ATTEMPTS_KEPT: usize = 1_000;
/// How long an old secret signs beside the new one.
pub const WEBHOOK_SECRET_GRACE_MS: i64 = 24 * 60 * 60 * 1000;
/// How long a webhook has to answer.
pub const WEBHOOK_TIMEOUT_MS: u64 = 15 * 1000;
/// Most permission requests of one agent that wait for a decision.
pub const PERMISSIONS_PENDING: usize = 1_000;
/// Most bytes of a tool call's parameters, as JSON.
pub const PERMISSION_PARAMS_BYTES: usize = 256 * 1024;
/// Most bytes of a tool's name.
pub const TOOL_NAME_BYTES: usize = 128;
/// Most bytes of a provider's id of a call, of a turn's, and of the ids that make answers and starts repeatable.
pub const CALL_ID_BYTES: usize = 256;
/// Most bytes of a permission request's line for people.
pub const PERMISSION_TITLE_BYTES: usize = 1024;
/// Most bytes of the directory that a tool call runs in.
pub const PERMISSION_CWD_BYTES: usize = 4096;
/// Most answers that a permission request offers.
pub const PERMISSION_OPTIONS: usize = 16;
/// Most bytes of the name of a door or policy in a decision.
pub const PERMISSION_VIA_BYTES: usize = 128;
/// How long a permission request waits for a decision when nobody says otherwise.
pub const PERMISSION_EXPIRES_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a permission request may wait for a decision.
pub const PERMISSION_EXPIRES_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// How long permission requests can be read, at least, after their end, and grants after theirs.
pub const PERMISSIONS_KEPT_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// Most people who are told of one permission request: those who are there for longest.
pub const PERMISSION_TOLD: usize = 32;
/// Most waiting permission requests whose files are looked at when a grant is made. Those beyond wait for an answer of
/// their own if a rule about paths is what covers them.
pub const PERMISSIONS_LOOKED_AT: usize = 10_000;
/// How long a grant that ends by itself may last.
pub const GRANT_EXPIRES_MAX_MS: u64 = 360 * 24 * 60 * 60 * 1000;
/// Most grants of one workspace.
pub const GRANTS: usize = 10_000;
/// Most runs of one agent that have not ended.
pub const RUNS_OPEN: usize = 10_000;
/// Most runs above a run.
pub const RUN_DEPTH: u32 = 16;
/// Most chats at a time.
pub const CHATS: usize = 4_096;
/// Most bytes of a request about chats: a conversation with its pictures.
pub const CHAT_BODY_BYTES: usize = 32 * 1024 * 1024;
/// Most events of a chat that are kept for those who look again.
pub const CHAT_LOG_EVENTS: usize = 10_000;
/// Most bytes of a chat's events that are kept.
pub const CHAT_LOG_BYTES: usize = 8 * 1024 * 1024;
/// How long a chat may be held while nobody looks at it, in seconds.
pub const CHAT_HOLD_MAX_S: u64 = 24 * 60 * 60;
/// How long a chat's stream is silent at most.
pub const CHAT_HEARTBEAT_MS: u64 = 15 * 1000;
/// Most bytes of a text attachment that are shown with its message; the rest is read by itself.
pub const TEXT_ATTACHMENT_SHOWN_BYTES: usize = 16 * 1024;
/// Most bytes of all text attachments of a message that are shown with it.
pub const TEXT_ATTACHMENTS_SHOWN_BYTES: usize = 64 * 1024;
/// The most filters that one selector may hold, counting each nested one.
pub const FILTER_NODES: usize = 64;
/// Most events of one batch.
pub const EVENTS_PER_BATCH: usize = 256;
/// Most deliveries that one boundary call gets.
pub const BOUNDARY_DELIVERIES: u32 = 20;
/// Most bytes of text that one boundary call gets.
pub const BOUNDARY_BYTES: u32 = 32 * 1024;
/// Most deliveries that one flush lets go.
pub const FLUSHED_AT_ONCE: usize = 1_000;
/// Most bytes of the name of a session's harness.
pub const HARNESS_BYTES: usize = 255;

/// Most bytes of what a client that attaches a session calls itself.
pub const ATTACH_CLIENT_BYTES: usize = 64;
/// Kinds of text that are followed at a time in one session; the one that was silent longest ends first.
pub const STREAMS_PER_SESSION: usize = 64;
/// Most text events of a session that are held together because a secret may begin at their end. Fewer than a client
/// has under way, so that one that doesn't wait for answers is never slowed.
pub const HELD_EVENTS: usize = 32;
/// Most bytes of text of a session that are held for the same reason.
pub const HELD_TEXT_BYTES: usize = 256 * 1024;
/// How far back a process that was started anew looks for the ends of a session's texts, in events of the log.
pub const RECALLED_EVENTS: u64 = 256;
/// Most bytes of the end of such a text.
pub const RECALLED_TEXT_BYTES: usize = 1_024;
/// Most characters of a client's name for a subscription.
pub const SUBSCRIPTION_ID_CHARS: usize = 200;
/// Most subscriptions of one connection.
pub const SUBSCRIPTIONS_PER_CONNECTION: usize = 256;
/// How long a connection may stay without `hello` when its credential is not in a header.
pub const HELLO_TIMEOUT_MS: u64 = 10_000;
/// How long a peer may stay silent before it counts as dead.
pub const SILENCE_MS: u64 = 30_000;
/// Most sessions that one connection is the link of.
pub const SESSIONS_PER_CONNECTION: usize = 1_024;
/// Most frames of one connection that are being answered at a time; then no more are read.
pub const PIPELINED_FRAMES: usize = 256;
/// Most bytes of answers that wait for a client to read them; then no more frames are read.
pub const UNREAD_ANSWER_BYTES: usize = 1024 * 1024;
/// Most deliveries and operations that wait for a session's client to read them; then the link is cut.
pub const UNREAD_PARCELS: usize = 16_384;
/// How long a question for deliveries, or for a decision, may wait.
pub const POLL_WAIT_S: u32 = 60;
/// Most names or patterns in the scope of an observer token.
pub const SCOPE_PATTERNS: usize = 64;
/// Most observer tokens of a workspace.
pub const OBSERVER_TOKENS: usize = 1_000;
/// Fewest bytes of a signing secret.
pub const WEBHOOK_SECRET_BYTES_MIN: usize = 16;
/// Most rules in one list of a permission policy.
pub const PERMISSION_RULES: usize = 10_000;
/// Most bytes of one pattern of a permission rule.
pub const PERMISSION_PATTERN_BYTES: usize = 4 * 1024;
/// Most bytes of a shell command that is read for permission; a longer one is not understood.
pub const COMMAND_BYTES: usize = 64 * 1024;
/// How deep commands inside a command are read for permission.
pub const COMMAND_DEPTH: usize = 16;
