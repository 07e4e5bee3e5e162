//! A receiver of calls on this machine, which leaves it to the test what to answer.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use relay_outbound::{AllowList, Limits, Outbound};
use relay_server::Config;
use relay_signature::Secret;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::soon;

/// A server that is called, and leaves it to the test what to answer.
pub(crate) struct Receiver {
    pub(crate) url: String,
    calls: mpsc::UnboundedReceiver<Called>,
}

/// A call that waits for its answer.
pub(crate) struct Called {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    answer: oneshot::Sender<(u16, String)>,
}

impl Called {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn answer(self, status: u16, body: &Value) {
        self.answer.send((status, body.to_string())).unwrap();
    }

    /// Whether this secret signed it.
    pub(crate) fn is_signed_by(&self, secret: &str) -> bool {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let secret = Secret::parse(secret).unwrap();
        secret.verify(&self.headers, &self.body, now).is_ok()
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (sender, calls) = mpsc::unbounded_channel();
        let router = Router::new().fallback(take).with_state(sender);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, calls }
    }

    /// Whether nobody has called since.
    pub(crate) fn is_quiet(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) async fn next(&mut self) -> Called {
        soon("a call", self.calls.recv()).await.unwrap()
    }
}

async fn take(
    State(calls): State<mpsc::UnboundedSender<Called>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let (answer, answered) = oneshot::channel();
    let called = Called {
        headers,
        body,
        answer,
    };
    calls.send(called).ok();
    let (status, body) = answered.await.unwrap_or((500, String::new()));
    (StatusCode::from_u16(status).unwrap(), body)
}

/// A configuration that lets this machine be called.
pub(crate) fn calls_this_machine() -> Config {
    let allow = AllowList::new(["127.0.0.1"]).unwrap();
    Config {
        outbound: Outbound::new(allow, Limits::default()),
        ..Config::default()
    }
}
