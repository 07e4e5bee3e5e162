//! Places where a reply waits until somebody lets it go on: how a test stops time in the middle of a stream.
//!
//! A gate is a name. Once opened it stays open, also for those who come later.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// A set of gates, all closed at first.
#[derive(Clone, Debug)]
pub struct Gates {
    open: watch::Sender<BTreeSet<String>>,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            open: watch::Sender::new(BTreeSet::new()),
        }
    }
}

impl Gates {
    /// Opens a gate, for everybody and for good.
    pub fn open(&self, name: &str) {
        self.open
            .send_if_modified(|gates| gates.insert(name.to_owned()));
    }

    /// Waits until this gate is open.
    pub async fn wait(&self, name: &str) {
        let mut gates = self.open.subscribe();
        // Fails only without a sender, and this is one.
        let _ = gates.wait_for(|gates| gates.contains(name)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_goes_on_when_the_gate_opens_and_later_ones_do_not_stop() {
        let gates = Gates::default();
        let there = gates.clone();
        let waiting = tokio::spawn(async move { there.wait("a").await });
        gates.open("b");
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gates.open("a");
        waiting.await.unwrap();
        gates.wait("a").await;
    }
}
