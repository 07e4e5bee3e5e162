//! Somebody who calls an action without pause, and whoever runs the calls, until they are killed.

use std::collections::BTreeMap;

use relay_sdk::protocol::ids::InvocationId;
use relay_sdk::{Action, ActionCall, AgentClient, Options, Relay};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::support::soon;

/// The action, and the agent that offers it.
pub(crate) const WORK: &str = "double";

/// Calls under way at the same time.
const AT_ONCE: u64 = 4;

/// Calls, and remembers what was acknowledged: each call's number by its id.
pub(crate) struct Caller {
    calling: Vec<JoinHandle<BTreeMap<InvocationId, u64>>>,
    acknowledged: watch::Sender<u64>,
    lives: watch::Sender<u64>,
    is_over: watch::Sender<bool>,
}

impl Caller {
    pub(crate) fn start(agent: AgentClient) -> Self {
        let (acknowledged, _) = watch::channel(0);
        let (lives, _) = watch::channel(0);
        let (is_over, _) = watch::channel(false);
        let calling = (0..AT_ONCE).map(|first| {
            let (agent, acknowledged) = (agent.clone(), acknowledged.clone());
            let (mut lives, is_over) = (lives.subscribe(), is_over.subscribe());
            tokio::spawn(async move {
                let mut all = BTreeMap::new();
                let mut number = first;
                while !*is_over.borrow() {
                    number += AT_ONCE;
                    let life = *lives.borrow_and_update();
                    match agent.invoke(WORK, json!({ "number": number })).await {
                        Ok(id) => {
                            all.insert(id, number);
                            acknowledged.send_modify(|count| *count += 1);
                        }
                        // Nobody knows whether it was stored; the next life of the server takes the next one.
                        Err(_) => {
                            let next = lives.wait_for(|now| *now > life);
                            soon("the server", next).await.unwrap();
                        }
                    }
                }
                all
            })
        });
        Self {
            calling: calling.collect(),
            acknowledged,
            lives,
            is_over,
        }
    }

    /// The server is there again.
    pub(crate) fn try_again(&self) {
        self.lives.send_modify(|life| *life += 1);
    }

    /// Waits until this many more calls were acknowledged.
    pub(crate) async fn progress(&self, more: u64) {
        let mut acknowledged = self.acknowledged.subscribe();
        let goal = *acknowledged.borrow() + more;
        let reached = acknowledged.wait_for(|count| *count >= goal);
        soon("progress", reached).await.unwrap();
    }

    pub(crate) async fn end(self) -> BTreeMap<InvocationId, u64> {
        self.is_over.send_replace(true);
        let mut all = BTreeMap::new();
        for calling in self.calling {
            all.extend(soon("the last answer", calling).await.unwrap());
        }
        all
    }
}

/// Runs calls in a runtime of its own, which ends as a process does: without a word, wherever its work is.
pub(crate) struct Handler {
    kill: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Handler {
    pub(crate) async fn start(url: &str, token: &str) -> Self {
        let (url, token) = (url.to_owned(), token.to_owned());
        let (kill, killed) = oneshot::channel::<()>();
        let (ready, is_ready) = oneshot::channel();
        let thread = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.spawn(handle(url, token, ready));
            let _ = killed.blocking_recv();
            runtime.shutdown_background();
        });
        soon("a handler", is_ready).await.unwrap();
        Self { kill, thread }
    }

    pub(crate) async fn kill(self) {
        let _ = self.kill.send(());
        self.thread.await.unwrap();
    }
}

async fn handle(url: String, token: String, ready: oneshot::Sender<()>) {
    let relay = Relay::with_options(&url, "", Options::default()).unwrap();
    let worker = relay.reconnect(&token).await.unwrap();
    let action = Action::with_schema(WORK, json!({ "type": "object" }));
    let handling = worker.register_action(action, |call: ActionCall| async move {
        let number = call.input["number"].as_u64().unwrap();
        // Long enough that some are under way at the end.
        tokio::time::sleep(std::time::Duration::from_millis(number % 4)).await;
        Ok(json!({ "double": number * 2 }))
    });
    let handling = handling.await.unwrap();
    let _ = ready.send(());
    std::future::pending::<()>().await;
    drop(handling);
}
