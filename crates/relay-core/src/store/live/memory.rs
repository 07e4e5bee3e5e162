//! How many bytes the newest entries take, over all workspaces.
//!
//! What is kept holds a [`MemoryCharge`], which gives its bytes back when it is dropped, also by a subscriber that
//! held it longer than its topic. It knows nothing of what is charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_protocol::limits::LIVE_BYTES;

/// What a value of a JSON array or object takes besides its text.
const NODE_BYTES: usize = 96;

/// The bytes that live entries and their frames take.
#[derive(Default)]
pub struct LiveMemory(AtomicUsize);

impl LiveMemory {
    /// How many there are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts bytes that are there already.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> MemoryCharge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        MemoryCharge {
            memory: self.clone(),
            bytes,
        }
    }

    /// Counts bytes if they fit into what live entries may take.
    pub(super) fn try_charge(self: &Arc<Self>, bytes: usize) -> Option<MemoryCharge> {
        let fits = |taken: usize| {
            let sum = taken.checked_add(bytes)?;
            (sum <= LIVE_BYTES).then_some(sum)
        };
        let charged = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        charged.ok().map(|_| MemoryCharge {
            memory: self.clone(),
            bytes,
        })
    }
}

/// Bytes that are counted until this is dropped.
pub(super) struct MemoryCharge {
    memory: Arc<LiveMemory>,
    bytes: usize,
}

impl MemoryCharge {
    /// What they are counted in.
    pub(super) const fn memory(&self) -> &Arc<LiveMemory> {
        &self.memory
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// About how many bytes of memory a value takes, by its JSON: its text, and its parts.
#[must_use]
pub fn heap_bytes(json: &str) -> usize {
    heap_of(json.as_bytes())
}

pub(super) fn heap_of(json: &[u8]) -> usize {
    let (mut nodes, mut in_string, mut is_escaped) = (0, false, false);
    for &byte in json {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
        } else {
            in_string = byte == b'"';
            nodes += usize::from(matches!(byte, b',' | b':' | b'[' | b'{'));
        }
    }
    json.len() + nodes * NODE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_and_what_looks_like_them_in_text_does_not() {
        let cases = [
            (r#""a,b:[c]{\"d,\\\\""#, 0),
            ("[1,2,3]", 3),
            (r#"{"a":1,"b\"":[{}]}"#, 6),
        ];
        for (json, nodes) in cases {
            assert_eq!(heap_bytes(json), json.len() + nodes * NODE_BYTES, "{json}");
        }
    }

    #[test]
    fn what_is_dropped_counts_no_more() {
        let memory = Arc::<LiveMemory>::default();
        let all = memory.try_charge(LIVE_BYTES).unwrap();
        assert!(memory.try_charge(1).is_none());
        let more = memory.charge(5);
        assert_eq!(memory.bytes(), LIVE_BYTES + 5);
        drop((all, more));
        assert_eq!(memory.bytes(), 0);
    }
}
