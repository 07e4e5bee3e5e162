//! The desk on which everything lands that happens while an agent runs, in its order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use relay_harness::acp::session::{BrokerNews, Seen};
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::PermissionState;
use tokio::sync::mpsc;

use super::step::Step;

/// Most things that wait to be shown. Whoever shows them may be held up by a terminal that nobody reads.
const WAITING: usize = 4_096;

/// Something that waits to be shown.
pub(super) enum Item {
    Step(Step),
    /// A request is over, whatever came of it.
    Over(PermissionId),
}

/// Takes what happens. Nobody who puts something there is held up.
#[derive(Clone)]
pub(super) struct Desk {
    items: mpsc::Sender<Item>,
    lost: Arc<AtomicU64>,
}

/// What is on the desk.
pub(super) struct Items {
    items: mpsc::Receiver<Item>,
    lost: Arc<AtomicU64>,
}

pub(super) fn desk() -> (Desk, Items) {
    let (sender, items) = mpsc::channel(WAITING);
    let lost = Arc::new(AtomicU64::new(0));
    let desk = Desk {
        items: sender,
        lost: lost.clone(),
    };
    (desk, Items { items, lost })
}

impl Desk {
    pub(super) fn say(&self, step: Step) {
        self.put(Item::Step(step));
    }

    pub(super) fn seen(&self, seen: Seen) {
        self.say(match seen {
            Seen::Event(event) => Step::Event(event),
            Seen::Message { message, context } => Step::Message { message, context },
            // It was told when it came.
            Seen::Entered { .. } => return,
            Seen::Status(status) => Step::Status { status },
        });
    }

    pub(super) fn news(&self, news: BrokerNews) {
        self.put(match news {
            BrokerNews::Asked { request, .. } => Item::Step(Step::Asked {
                permission: request,
            }),
            BrokerNews::Ended { request, .. } if request.state == PermissionState::Pending => {
                Item::Over(request.permission_id)
            }
            BrokerNews::Ended { request, .. } => Item::Step(Step::Decided {
                permission: request,
            }),
            // What the agent does then shows it.
            BrokerNews::Answered { .. } => return,
        });
    }

    fn put(&self, item: Item) {
        if self.items.try_send(item).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Items {
    /// The next thing. What was lost is told before it.
    pub(super) async fn next(&mut self) -> Item {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let text = format!("{lost} things happened too fast to be shown");
            return Item::Step(Step::Warning { text });
        }
        match self.items.recv().await {
            Some(item) => item,
            // Nobody puts anything there any more.
            None => std::future::pending().await,
        }
    }

    /// What is there already.
    pub(super) fn next_now(&mut self) -> Option<Item> {
        self.items.try_recv().ok()
    }
}
