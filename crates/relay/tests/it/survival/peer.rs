//! An agent that sends without pause, and whose session is shown what others send.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use relay_sdk::protocol::api::messages::MessageSent;
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::{AgentClient, AttachedSession, CallbackSession, delivered};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::soon;

/// A send that was acknowledged. Its text is its idempotency key, too.
pub(crate) struct Ack {
    /// The number of who sent it.
    pub(crate) from: usize,
    pub(crate) to: String,
    pub(crate) text: String,
    pub(crate) sent: MessageSent,
}

/// What a session was shown, in order.
type Shown = Arc<Mutex<Vec<(DeliveryId, String)>>>;

/// One agent.
pub(crate) struct Peer {
    pub(crate) client: AgentClient,
    shown: Shown,
    sending: Option<JoinHandle<Vec<Ack>>>,
    _session: AttachedSession,
}

impl Peer {
    /// Serves the agent's session, which remembers in a file what it was shown.
    pub(crate) async fn attach(client: AgentClient, memory: PathBuf) -> Self {
        let shown = Shown::default();
        let all = shown.clone();
        let session = CallbackSession::new(client.identity().clone(), move |message, ctx| {
            all.lock().unwrap().push((ctx.id, message.text));
            async move { Ok(delivered(ctx.id)) }
        });
        let session = client.attach(session).memory(memory).await.unwrap();
        Self {
            client,
            shown,
            sending: None,
            _session: session,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.client.identity().name
    }

    /// What its session was shown.
    pub(crate) fn shown(&self) -> Vec<(DeliveryId, String)> {
        self.shown.lock().unwrap().clone()
    }

    /// Sends to everybody in turn until it is over.
    pub(crate) fn begin(
        &mut self,
        names: Vec<String>,
        acknowledged: watch::Sender<u64>,
        is_over: watch::Receiver<bool>,
    ) {
        let client = self.client.clone();
        let own = names.iter().position(|name| name == self.name()).unwrap();
        let sending = async move {
            let mut acks = Vec::new();
            while !*is_over.borrow() {
                let number = acks.len();
                let to = match number % (names.len() + 1) {
                    other if other < names.len() && other != own => format!("@{}", names[other]),
                    _ => "#work".to_owned(),
                };
                let text = format!("{} {number}", names[own]);
                let sending = client.send_message(&to, &text).idempotency_key(&text);
                let sent = sending.await.unwrap();
                acks.push(Ack {
                    from: own,
                    to,
                    text,
                    sent,
                });
                acknowledged.send_modify(|count| *count += 1);
            }
            acks
        };
        self.sending = Some(tokio::spawn(sending));
    }

    /// Waits for the last answer; all that were acknowledged.
    pub(crate) async fn end(&mut self) -> Vec<Ack> {
        let sending = self.sending.take().unwrap();
        soon("the last answer", sending).await.unwrap()
    }
}
