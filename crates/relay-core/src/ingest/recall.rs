//! What a session's text streams ended with before this process began.
//!
//! A secret may be split between two processes. The log has what was shown of the first part, and where it was
//! removed; that is enough to remove the second part as well. Read once for each session, and never far back.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::event::RelayEvent;
use relay_protocol::ids::SessionId;
use relay_protocol::limits::{RECALLED_EVENTS, RECALLED_TEXT_BYTES};
use relay_protocol::session_event::AgentSessionEvent;

use super::streams::piece;
use crate::error::Result;
use crate::store::live::StoredEvent;
use crate::store::{SessionRow, Store};

/// Events that are read at a time; they may be large.
const PAGE: u64 = 16;

/// The end of the stored text of each stream of a session, by its kind.
pub(super) fn stored_ends(
    store: &Arc<dyn Store>,
    session: &SessionRow,
) -> Result<HashMap<String, String>> {
    let workspace = session.workspace_no;
    let head = store.head(workspace).wait()?.seq;
    let oldest = head.saturating_sub(RECALLED_EVENTS);
    let mut ends = HashMap::new();
    let mut before = head;
    while before > oldest {
        let after = before.saturating_sub(PAGE).max(oldest);
        let limit = usize::try_from(before - after).unwrap_or(usize::MAX);
        let page = store.events(workspace, after, limit).wait()?;
        let page = page.iter().filter(|stored| stored.event.seq <= before);
        for stored in page.rev() {
            if let Some((kind, text)) = text_of(stored, session.id) {
                prepend(ends.entry(kind).or_default(), &text);
            }
        }
        before = after;
    }
    Ok(ends)
}

fn prepend(end: &mut String, text: &str) {
    let room = RECALLED_TEXT_BYTES.saturating_sub(end.len());
    let from = text.ceil_char_boundary(text.len().saturating_sub(room));
    end.insert_str(0, &text[from..]);
}

fn text_of(stored: &StoredEvent, session: SessionId) -> Option<(String, String)> {
    let report = match stored.event.event.as_ref()? {
        RelayEvent::TerminalOutput(report)
        | RelayEvent::TranscriptChunk(report)
        | RelayEvent::ToolOutput(report) => report,
        _ => return None,
    };
    if report.session_id != Some(session) {
        return None;
    }
    let mut event: AgentSessionEvent = report.event.clone();
    let (kind, text) = piece(&mut event)?;
    Some((kind, std::mem::take(text)))
}
