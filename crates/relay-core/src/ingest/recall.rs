//! What a session's text streams ended with before this process began.
//!
//! A secret may be split between two processes. The log has what was shown of the first part, and where it was
//! removed; that is enough to remove the second part as well. Read once for each session, and never far back.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::event::RelayEvent;
use relay_protocol::ids::SessionId;
use relay_protocol::limits::{RECALLED_EVENTS, RECALLED_TEXT_BYTES};

use super::streams::piece;
use crate::error::Result;
use crate::store::live::StoredEvent;
use crate::store::{SessionRow, Store};

/// Events that are read at a time; they may be large.
const PAGE: usize = 16;

/// The end of the stored text of each stream of a session, by its kind.
pub(super) async fn stored_ends(
    store: &Arc<dyn Store>,
    session: &SessionRow,
) -> Result<HashMap<String, String>> {
    let head = store.head(session.workspace_no).await?.seq;
    let mut after = head.saturating_sub(RECALLED_EVENTS);
    let mut ends = HashMap::new();
    while after < head {
        let page = store.events(session.workspace_no, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.event.seq;
        for (kind, text) in page.iter().filter_map(|stored| text_of(stored, session.id)) {
            append(ends.entry(kind).or_default(), &text);
        }
    }
    Ok(ends)
}

fn append(end: &mut String, text: &str) {
    end.push_str(text);
    let from = end.len().saturating_sub(RECALLED_TEXT_BYTES);
    end.drain(..end.ceil_char_boundary(from));
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
    let mut event = report.event.clone();
    let (kind, text) = piece(&mut event)?;
    Some((kind, std::mem::take(text)))
}
