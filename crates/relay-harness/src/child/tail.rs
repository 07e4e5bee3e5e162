//! The end of what a child wrote to standard error: kept for whoever has to find out why it failed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::redact::Redactor;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes that are kept.
pub(super) const TAIL_BYTES: usize = 64 * 1024;

/// Most lines that [`StderrTail::text`] shows.
const SHOWN_LINES: usize = 64;

/// The newest part of a child's standard error. Cheap to clone; all clones see the same.
#[derive(Clone, Debug, Default)]
pub struct StderrTail(Arc<Mutex<VecDeque<u8>>>);

impl StderrTail {
    /// The last lines without secrets and control characters; empty when nothing was written.
    #[must_use]
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes().iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let text = Redactor::new().redact(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        let shown: Vec<String> = shown.iter().map(|line| plain(line)).collect();
        shown.join("\n").trim().to_owned()
    }

    fn bytes(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, new: &[u8]) {
        let mut bytes = self.bytes();
        bytes.extend(&new[new.len().saturating_sub(TAIL_BYTES)..]);
        let excess = bytes.len().saturating_sub(TAIL_BYTES);
        bytes.drain(..excess);
    }

    /// Reads until the end, whatever comes, so that the child is never held up.
    pub(super) async fn follow(self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
            self.push(&buffer[..read]);
        }
    }
}

/// A line without terminal escapes and other control characters.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            // A control sequence ends with a byte from `@` to `~`.
            while chars
                .next()
                .is_some_and(|char| !('@'..='~').contains(&char))
            {}
        } else if char == '\t' || !char.is_control() {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_is_kept_and_secrets_are_not_shown() {
        let tail = StderrTail::default();
        let mut written = vec![b'x'; 3 * TAIL_BYTES];
        written.extend(b"\nfirst\n\x1b[31mred\x1b[0m\nOPENAI_API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz012345\nlast\n");
        tail.clone().follow(&written[..]).await;
        assert_eq!(tail.bytes().len(), TAIL_BYTES);
        let text = tail.text();
        assert!(text.ends_with("last"), "{text}");
        assert!(text.contains("\nred\n"), "{text}");
        assert!(!text.contains("abcdefghijklmnop"), "{text}");
    }

    #[tokio::test]
    async fn few_lines_are_shown() {
        let tail = StderrTail::default();
        let written: String = (0..1000).map(|n| format!("{n}\n")).collect();
        tail.clone().follow(written.as_bytes()).await;
        let text = tail.text();
        assert_eq!(text.lines().count(), SHOWN_LINES);
        assert!(
            text.starts_with("936\n") && text.ends_with("\n999"),
            "{text}"
        );
        assert_eq!(StderrTail::default().text(), "");
    }
}
