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
/// Most bytes of a search query.
pub const QUERY_BYTES: usize = 1024;
/// Most unread messages that an inbox counts in one place; beyond it says `more`.
pub const UNREAD_COUNTED: usize = 1_000;
/// Most deliveries that wait for one agent, unless the workspace's policy says less.
pub const PENDING_DELIVERIES_PER_AGENT: u32 = 10_000;
/// Most bytes of one frame on the socket.
pub const SOCKET_FRAME_BYTES: usize = 1024 * 1024;
/// How long a replaced token keeps working.
pub const TOKEN_GRACE_MS: i64 = 60 * 1000;
/// How long an upload that no message uses is kept.
pub const UNUSED_ATTACHMENT_MS: i64 = 24 * 60 * 60 * 1000;
/// Log entries kept in memory for subscribers; one that falls behind further is told `lagged`.
pub const LIVE_ENTRIES: usize = 4_096;
/// Log entries that are checked when a database is opened.
pub const CHAIN_CHECKED_AT_START: u64 = 1_000;
