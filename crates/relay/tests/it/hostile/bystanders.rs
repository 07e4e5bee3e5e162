//! Two agents that behave: one sends without pause, the other's session is shown everything, in order.

use std::time::Duration;

use relay_sdk::{AttachedSession, CallbackSession, Options, Relay, delivered};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::{Server, soon};

/// How many sockets they have.
pub(crate) const SOCKETS: u64 = 1;

/// The two.
pub(crate) struct Bystanders {
    shown: watch::Receiver<Vec<String>>,
    is_over: watch::Sender<bool>,
    sending: JoinHandle<usize>,
    _session: AttachedSession,
}

impl Bystanders {
    pub(crate) async fn begin(server: &Server) -> Self {
        let options = Options {
            // They don't give up soon; it is their progress that is looked at.
            patience: Duration::from_secs(100),
            ..Options::default()
        };
        let relay = Relay::with_options(&server.url, &server.key, options).unwrap();
        let ann = relay.register("ann").await.unwrap();
        let ben = relay.register("ben").await.unwrap();
        let (all, shown) = watch::channel(Vec::new());
        let session = CallbackSession::new(ben.identity().clone(), move |message, ctx| {
            all.send_modify(|all: &mut Vec<String>| all.push(message.text));
            async move { Ok(delivered(ctx.id)) }
        });
        let session = ben.attach(session).await.unwrap();
        let (is_over, over) = watch::channel(false);
        let sending = tokio::spawn(async move {
            let mut sent = 0;
            while !*over.borrow() {
                ann.send_message("@ben", sent.to_string()).await.unwrap();
                sent += 1;
            }
            sent
        });
        Self {
            shown,
            is_over,
            sending,
            _session: session,
        }
    }

    /// Waits until so many more messages were shown.
    pub(crate) async fn get_on(&self, more: usize) {
        let mut shown = self.shown.clone();
        let goal = shown.borrow().len() + more;
        let reached = shown.wait_for(|shown| shown.len() >= goal);
        soon("progress of others", reached).await.unwrap();
    }

    /// Everything that was sent was shown, once and in order.
    pub(crate) async fn end(mut self) {
        self.is_over.send_replace(true);
        let sent = soon("the last answer", self.sending).await.unwrap();
        let all = self.shown.wait_for(|shown| shown.len() >= sent);
        let shown = soon("the last message", all).await.unwrap();
        let expected: Vec<String> = (0..sent).map(|number| number.to_string()).collect();
        assert_eq!(*shown, expected);
    }
}
