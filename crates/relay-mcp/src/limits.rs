//! How much is told at once. Models pay for every word, so these are small.

use std::time::Duration;

/// Most messages in one answer of `check`.
pub(crate) const CHECKED_MESSAGES: usize = 20;
/// Bytes of rendered messages after which an answer of `check` ends; one message is always told.
pub(crate) const CHECKED_BYTES: usize = 32 * 1024;
/// Bytes of a text attachment that is fetched to be shown with its message; a larger one is read as a resource.
pub(crate) const FETCHED_TEXT_BYTES: u64 = 1024 * 1024;
/// Bytes of images in one answer of `check`; what is beyond is read as a resource.
pub(crate) const CHECKED_IMAGE_BYTES: u64 = 2 * 1024 * 1024;
/// Bytes of rendered messages that reading a resource gives; the newest one is always among them.
pub(crate) const RESOURCE_BYTES: usize = 64 * 1024;
/// Bytes of a text attachment that reading it as a resource gives at once.
pub(crate) const ATTACHMENT_PAGE_BYTES: usize = 256 * 1024;
/// Answers that may be on their way out. Those of cancelled requests stay until newer ones need their place.
pub(crate) const UNWRITTEN_ANSWERS: usize = 64;
/// News that may wait for one client. One that falls behind is told that everything changed.
pub(crate) const QUEUED_NEWS: usize = 256;
/// How long after a look at the actions the next one may be: a process that starts registers many.
pub(crate) const LOOKS_APART: Duration = Duration::from_millis(200);
/// Resources that one client may watch.
pub(crate) const WATCHED_RESOURCES: usize = 1_000;
/// Replies whose thread is remembered.
pub(crate) const KNOWN_REPLIES: usize = 4_096;
/// Replies to replies that are followed to find where a thread begins.
pub(crate) const THREAD_DEPTH: usize = 64;
