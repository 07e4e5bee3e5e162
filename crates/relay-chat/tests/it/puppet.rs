//! A chat whose strings the test pulls.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_chat::{Begun, Chat, ChatRequest, Decides, Deciding, Drives, Gateway, Refusal, Viewer};
use relay_protocol::chat::ModelList;
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionOutcome, PermissionState, ResolvePermission};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::time::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// What drives chats: each hands its strings to the test.
pub(crate) struct Puppets {
    strings: mpsc::UnboundedSender<Strings>,
}

/// How a test moves a chat.
pub(crate) struct Strings {
    pub(crate) chat: Arc<Chat>,
    pub(crate) decided: Arc<Decisions>,
    end: Option<oneshot::Sender<Ending>>,
    /// Told when the run has ended.
    pub(crate) ended: oneshot::Receiver<bool>,
}

/// How a run ends by itself.
enum Ending {
    Well,
    Panic,
}

/// What was decided; the first decision counts.
#[derive(Default)]
pub(crate) struct Decisions(pub(crate) Mutex<Vec<(PermissionId, ResolvePermission)>>);

impl Strings {
    pub(crate) fn tell(&self, content: &str) {
        self.chat
            .tell("text", &json!({ "type": "text", "content": content }));
    }

    pub(crate) fn ask(&self, id: PermissionId) {
        let event = json!({ "type": "relay", "kind": "permission", "id": id });
        self.chat.ask(&id.to_string(), &event);
    }

    pub(crate) fn resolved(&self, id: PermissionId) {
        let event = json!({ "type": "relay_resolved", "relayId": id });
        self.chat.resolve(&id.to_string(), &event);
    }

    /// Lets the run end by itself.
    pub(crate) async fn finish(&mut self) {
        assert!(self.end.take().unwrap().send(Ending::Well).is_ok());
        assert!(!(&mut self.ended).await.unwrap(), "it was cancelled");
    }

    /// Lets the run break down.
    pub(crate) fn break_down(&mut self) {
        assert!(self.end.take().unwrap().send(Ending::Panic).is_ok());
    }

    /// Waits for the end of a run that was cancelled.
    pub(crate) async fn cancelled(&mut self) {
        assert!((&mut self.ended).await.unwrap(), "it ended by itself");
    }
}

impl Decides for Decisions {
    fn decide(&self, id: PermissionId, decision: ResolvePermission) -> Deciding<'_> {
        let mut decisions = self.0.lock().unwrap();
        let before = decisions.iter().find(|(other, _)| *other == id);
        let refused = before.map(|(_, first)| {
            let state = match first.approved {
                true => PermissionState::Approved,
                false => PermissionState::Denied,
            };
            let mut problem = Problem::new(ErrorCode::PermissionResolved, "decided before");
            problem.outcome = Some(Box::new(PermissionOutcome::new(state, at())));
            Refusal::of(&problem)
        });
        if refused.is_none() {
            decisions.push((id, decision));
        }
        async move { refused.map_or(Ok(()), Err) }.boxed()
    }
}

impl Drives for Puppets {
    type Visitor = ();

    fn models(&self) -> ModelList {
        let names = ["one/a".to_owned(), "one/b".to_owned()];
        ModelList::new(names.to_vec(), Some("one/a".to_owned()))
    }

    fn prepare(&self, _: ChatRequest, (): ()) -> BoxFuture<'static, Result<Begun, Refusal>> {
        let strings = self.strings.clone();
        let decided = Arc::new(Decisions::default());
        let decides = decided.clone();
        let run = move |chat: Arc<Chat>| {
            let (end, ending) = oneshot::channel();
            let (tell, ended) = oneshot::channel();
            let pulled = Strings {
                chat: chat.clone(),
                decided,
                end: Some(end),
                ended,
            };
            let _ = strings.send(pulled);
            async move {
                let was_cancelled = tokio::select! {
                    () = chat.cancelled() => true,
                    ending = ending => match ending {
                        Ok(Ending::Panic) => panic!("it broke down"),
                        _ => false,
                    },
                };
                let _ = tell.send(was_cancelled);
            }
            .boxed()
        };
        let run = Box::new(run);
        async move { Ok(Begun { decides, run }) }.boxed()
    }
}

pub(crate) struct Stage {
    pub(crate) gateway: Gateway<Puppets>,
    strings: mpsc::UnboundedReceiver<Strings>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let (tell, strings) = mpsc::unbounded_channel();
        let gateway = Gateway::new(Puppets { strings: tell });
        Self { gateway, strings }
    }

    /// Begins a chat; `more` is added to what is asked for.
    pub(crate) async fn begin(&mut self, more: Value) -> (Viewer, String, Strings) {
        let mut body = json!({ "messages": [] });
        for (field, value) in more.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        let body = body.to_string();
        let mut viewer = self.gateway.begin(body.as_bytes(), (), at()).await.unwrap();
        let (id, connected) = seen(&mut viewer).await.unwrap();
        assert_eq!(id, Some(1));
        assert_eq!(connected["type"], "connected");
        let session = connected["sessionId"].as_str().unwrap().to_owned();
        (viewer, session, self.strings.recv().await.unwrap())
    }

    pub(crate) async fn resolve(
        &self,
        relay: &str,
        session: &str,
        response: Value,
    ) -> Result<Value, Refusal> {
        let body = json!({ "sessionId": session, "response": response }).to_string();
        self.gateway.resolve(relay, body.as_bytes()).await
    }
}

pub(crate) fn at() -> Timestamp {
    Timestamp::from_millis(1_763_200_000_000)
}

/// A request's id.
pub(crate) fn relay(number: u128) -> PermissionId {
    PermissionId::new(at(), number << 64 | number)
}

/// The next event: its number, if it has one, and what it says.
pub(crate) async fn seen(viewer: &mut Viewer) -> Option<(Option<u64>, Value)> {
    let frame = viewer.next().await?;
    let text = std::str::from_utf8(&frame).unwrap();
    assert!(text.ends_with("\n\n"), "{text:?}");
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let data: Value = serde_json::from_str(field("data: ").unwrap_or("null")).unwrap();
    assert_eq!(field("event: "), data["type"].as_str());
    Some((field("id: ").map(|id| id.parse().unwrap()), data))
}
