//! Every route × every credential: none, one that is not valid, each kind, each kind of another workspace.

use axum::http::Response;
use futures_util::future::BoxFuture;
use relay_protocol::event::TokenKind;
use relay_server::{
    Body, Chat, ChatCall, ChatPlace, ChatService, Config, Mcp, McpAnswer, McpService, McpVisit,
    Rate, RouteInfo, route_list,
};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Raw, Socket, World, attach, calls_this_machine};

/// A word that is only in the first workspace.
const SECRET: &str = "xyzzyplugh";

/// Says what was said over MCP.
struct Echo;

impl McpService for Echo {
    fn answer(&self, visit: McpVisit) -> BoxFuture<'static, McpAnswer> {
        let (status, media_type) = match visit.request.method().as_str() {
            "POST" => (200, "application/json"),
            "GET" => (200, "text/event-stream"),
            _ => (202, "none"),
        };
        let response = Response::builder()
            .status(status)
            .header("content-type", media_type);
        let body = Body::from(visit.request.into_body());
        Box::pin(async move { Ok(response.body(body).unwrap()) })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// Says what was asked of it about chats.
impl ChatService for Echo {
    fn answer(&self, call: ChatCall) -> BoxFuture<'static, Response<Body>> {
        let (status, media_type, body) = match call {
            ChatCall::Models => (200, "application/json", "{}".into()),
            ChatCall::Begin { body, .. } => (200, "text/event-stream", body),
            ChatCall::Look { .. } => (200, "text/event-stream", ": nothing".into()),
            ChatCall::Cancel { .. } => (204, "none", "".into()),
            ChatCall::Resolve { .. } => (200, "application/json", "{}".into()),
        };
        let response = Response::builder()
            .status(status)
            .header("content-type", media_type);
        Box::pin(async move { response.body(Body::from(body)).unwrap() })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// A workspace with one of everything, and everybody who may ask.
pub(crate) struct Everything {
    pub(crate) world: World,
    pub(crate) agent: Client,
    pub(crate) observer: Client,
    foreign: Vec<(TokenKind, Client)>,
    message: Value,
    delivery: Value,
    session: Value,
    attachment: Value,
    conversation: Value,
    observer_id: Value,
    invocation: Value,
    webhook: Value,
    asked: Value,
    allowed: Value,
    grant: Value,
    run: Value,
    inbound: Client,
    inbound_id: Value,
}

impl Everything {
    pub(crate) async fn make() -> Self {
        let many = Rate {
            per_second: 1_000_000,
            at_once: 1_000_000,
        };
        let config = Config {
            failed_authentications: many,
            mcp: Mcp::by(Echo),
            chat: Chat::by(Echo, ChatPlace::default()),
            ..calls_this_machine()
        };
        let world = World::start_with(config).await;
        let agent = world.agent("alice").await;
        let other = world.agent("bob").await;
        let observers = json!({ "name": "watcher" });
        let observer = world
            .key
            .post("/v1/observer-tokens", observers)
            .await
            .expect(201);
        let topic = json!({ "name": "ops", "topic": SECRET });
        agent.post("/v1/channels", topic).await.expect(201);
        let post = json!({ "to": "#general", "text": SECRET });
        let sent = agent.post("/v1/messages", post).await.expect(201);
        let talk = json!({ "to": "@alice", "text": SECRET });
        let talk = other.post("/v1/messages", talk).await.expect(201);
        let mut session = attach("alice");
        session["link"] = json!({ "kind": "none" });
        session["capabilities"]["delivery"]["modes"] = json!(["on-idle", "manual"]);
        let session = agent.post("/v1/sessions", session).await.expect(201);
        let upload = Raw::new("POST", "/v1/attachments").body("text/plain", SECRET);
        let attachment = agent.ask(upload).await.expect(201);
        let action = json!({ "name": "classify", "description": SECRET, "inputSchema": {} });
        agent.post("/v1/actions", action).await.expect(201);
        let called = other.post("/v1/actions/classify/invoke", json!({})).await;
        let webhook = json!({ "url": "http://127.0.0.1:9/", "events": ["message.created"] });
        let webhook = world.key.post("/v1/webhooks", webhook).await.expect(201);
        let into_general = json!({ "channel": "general" });
        let inbound = world.key.post("/v1/webhooks/inbound", into_general.clone());
        let inbound = inbound.await.expect(201);
        let ask = |command: &str| json!({ "tool": "bash", "params": { "command": format!("{command} {SECRET}") } });
        let asked = agent.post("/v1/permissions", ask("rm")).await.expect(201);
        let allowed = agent.post("/v1/permissions", ask("ls")).await.expect(201);
        let resolve = permission(&allowed, "/resolve");
        let always = json!({ "approved": true, "always": true, "scope": "agent" });
        let granted = world.key.post(&resolve, always).await.expect(200);
        let run = agent.post("/v1/permissions/runs", json!({})).await;
        let elsewhere = world.elsewhere().await;
        let stranger = elsewhere
            .post("/v1/agents", json!({ "name": "stranger" }))
            .await;
        let onlooker = elsewhere.post("/v1/observer-tokens", json!({})).await;
        let caller = elsewhere.post("/v1/webhooks/inbound", into_general).await;
        let foreign = vec![
            (TokenKind::Webhook, token_of(&world, &caller)),
            (TokenKind::Agent, token_of(&world, &stranger)),
            (TokenKind::Observer, token_of(&world, &onlooker)),
            (TokenKind::Workspace, elsewhere),
        ];
        Self {
            observer: world.with(observer["token"].as_str().unwrap()),
            observer_id: observer["observer"]["tokenId"].clone(),
            message: sent["messageId"].clone(),
            delivery: talk["deliveries"][0]["deliveryId"].clone(),
            session: session["sessionId"].clone(),
            attachment: attachment["attachmentId"].clone(),
            conversation: talk["message"]["to"]["conversationId"].clone(),
            invocation: called.expect(202)["invocationId"].clone(),
            webhook: webhook["id"].clone(),
            grant: granted["outcome"]["grantId"].clone(),
            run: run.expect(201)["runId"].clone(),
            asked,
            allowed,
            inbound: world.with(inbound["token"].as_str().unwrap()),
            inbound_id: inbound["id"].clone(),
            foreign,
            agent,
            world,
        }
    }

    pub(crate) fn holder(&self, kind: TokenKind) -> &Client {
        match kind {
            TokenKind::Admin => &self.world.admin,
            TokenKind::Workspace => &self.world.key,
            TokenKind::Agent => &self.agent,
            TokenKind::Observer => &self.observer,
            TokenKind::Webhook => &self.inbound,
        }
    }

    /// A request that a route is made for.
    pub(crate) fn example(&self, route: &RouteInfo) -> Raw {
        let (id, body) = self.parts(route);
        let name = match route.path {
            path if path.starts_with("/v1/agents") => "alice",
            path if path.starts_with("/v1/actions") => "classify",
            _ => "general",
        };
        let id = id.as_str().unwrap_or_default();
        let path = route
            .path
            .replace("{id}", id)
            .replace("{sessionId}", "01963a5c-7890-7abc-8ef0-123456789abc")
            .replace("{relayId}", "01963a5c-7893-7abc-8ef0-123456789abc")
            .replace("{name}", name)
            .replace("{emoji}", ":x:");
        let path = if route.path == "/v1/search" {
            format!("{path}?q={SECRET}")
        } else {
            path
        };
        let raw = Raw::new(route.method.as_str(), &path);
        match body {
            Value::Null => raw,
            Value::String(text) => raw.body("text/plain", text),
            body => raw.body("application/json", body.to_string()),
        }
    }

    /// The id in the path, and the body.
    fn parts(&self, route: &RouteInfo) -> (Value, Value) {
        let none = Value::Null;
        let receipt = json!({ "receipt": { "status": "delivered", "deliveryId": self.delivery } });
        match (route.method.as_str(), route.path) {
            ("POST", "/v1/workspaces") => (none, json!({ "name": "third" })),
            ("PATCH", "/v1/workspace") => (none, json!({ "name": "renamed" })),
            ("PATCH", "/v1/workspace/policy") => (none, json!({ "window": 8 })),
            ("POST", "/v1/audit/retain") => {
                (none, json!({ "bulkyBefore": "2020-01-01T00:00:00.000Z" }))
            }
            ("POST", "/v1/audit/erase") => (none, json!({ "seqs": [1], "reason": "leaked" })),
            ("POST", "/v1/observer-tokens") => (none, json!({})),
            ("DELETE", "/v1/observer-tokens/{id}") => (self.observer_id.clone(), none),
            ("POST", "/v1/agents") => (none, json!({ "name": "carol" })),
            ("PATCH", "/v1/agents/{name}") => (none, json!({ "metadata": { "a": 1 } })),
            ("POST", "/v1/agents/{name}/token" | "/v1/agents/{name}/flush") => (none, json!({})),
            ("POST", "/v1/channels") => (none, json!({ "name": "more" })),
            ("PATCH", "/v1/channels/{name}") => (none, json!({ "topic": "t" })),
            ("POST", "/v1/channels/{name}/join" | "/v1/channels/{name}/leave") => (none, json!({})),
            ("POST", "/v1/channels/{name}/invite") => (none, json!({ "agents": ["bob"] })),
            ("POST", "/v1/messages") => (none, json!({ "to": "#general", "text": "hi" })),
            ("PATCH", "/v1/messages/{id}") => (self.message.clone(), json!({ "text": "new" })),
            ("POST", "/v1/messages/{id}/replies") => {
                (self.message.clone(), json!({ "text": "re" }))
            }
            ("POST", "/v1/messages/{id}/reactions") => {
                (self.message.clone(), json!({ "emoji": ":x:" }))
            }
            ("POST", "/v1/messages/{id}/read") => (self.message.clone(), json!({})),
            ("POST", "/v1/attachments") => (none, json!("content")),
            ("GET", "/v1/attachments/{id}") => (self.attachment.clone(), none),
            ("GET", "/v1/conversations/{id}/messages") => (self.conversation.clone(), none),
            ("POST", "/v1/sessions") => {
                let mut body = attach("alice");
                body["link"] = json!({ "kind": "poll" });
                (none, body)
            }
            ("POST", "/v1/sessions/{id}/events") => {
                let event = json!({ "type": "status.changed", "status": "active" });
                (self.session.clone(), json!({ "n": 1, "event": event }))
            }
            ("POST", "/v1/sessions/{id}/boundary") => {
                (self.session.clone(), json!({ "kind": "on-idle" }))
            }
            ("POST", "/v1/sessions/{id}/control") => (
                self.session.clone(),
                json!({ "controlId": self.session, "ok": true }),
            ),
            ("POST", path) if path.starts_with("/v1/sessions/{id}/") => {
                (self.session.clone(), json!({}))
            }
            ("GET", path) if path.starts_with("/v1/sessions/{id}") => (self.session.clone(), none),
            ("POST", "/v1/deliveries") => {
                (none, json!({ "messageId": self.message, "agent": "bob" }))
            }
            ("POST", "/v1/deliveries/{id}/receipt") => (self.delivery.clone(), receipt),
            ("POST", "/v1/deliveries/{id}/retry" | "/v1/deliveries/{id}/cancel") => {
                (self.delivery.clone(), json!({}))
            }
            ("POST", "/v1/webhooks") => (
                none,
                json!({ "url": "http://127.0.0.1:9/", "events": ["*"] }),
            ),
            ("PATCH", "/v1/webhooks/{id}") => {
                (self.webhook.clone(), json!({ "state": "disabled" }))
            }
            ("POST", "/v1/webhooks/{id}/secret") => (self.webhook.clone(), json!({})),
            ("POST", "/v1/webhooks/{id}/replay") => {
                (self.webhook.clone(), json!({ "from": 1, "to": 3 }))
            }
            ("POST", "/v1/webhooks/inbound") => (none, json!({ "channel": "general" })),
            ("POST", "/hooks/{id}") => (
                self.inbound_id.clone(),
                json!({ "message": "hi", "author": "ci" }),
            ),
            ("DELETE", "/v1/webhooks/inbound/{id}") => (self.inbound_id.clone(), none),
            (_, path) if path.starts_with("/v1/webhooks/{id}") => (self.webhook.clone(), none),
            ("POST", "/v1/actions") => (none, json!({ "name": "more", "inputSchema": true })),
            ("POST", "/v1/actions/{name}/invoke") => (none, json!({ "input": {} })),
            ("POST", "/v1/invocations/{id}/fail") => {
                (self.invocation.clone(), json!({ "error": "no" }))
            }
            ("POST", "/v1/permissions") => (
                none,
                json!({ "tool": "bash", "params": { "command": "ls" } }),
            ),
            ("POST", "/v1/permissions/evaluate") => (
                none,
                json!({ "tool": "bash", "params": { "command": "ls" } }),
            ),
            ("POST", "/v1/permissions/runs") => (
                none,
                json!({ "permissions": { "allowlist": ["bash:ls *"] } }),
            ),
            ("GET" | "DELETE", "/v1/permissions/runs/{id}") => (self.run.clone(), none),
            ("POST", "/v1/permissions/{id}/start") => (
                self.allowed["permissionId"].clone(),
                json!({ "argsHash": self.allowed["argsHash"], "startId": "s" }),
            ),
            ("POST", "/v1/permissions/{id}/finish") => (
                self.allowed["permissionId"].clone(),
                json!({ "state": "cancelled", "error": "not needed" }),
            ),
            ("POST", "/v1/permissions/{id}/resolve") => (
                self.asked["permissionId"].clone(),
                json!({ "approved": false, "reason": "no", "stop": true }),
            ),
            ("POST", "/v1/permissions/{id}/cancel") => (
                self.asked["permissionId"].clone(),
                json!({ "reason": "not needed" }),
            ),
            ("POST", "/v1/permissions/{id}/seen") => {
                (self.asked["permissionId"].clone(), json!({}))
            }
            ("GET", "/v1/permissions/{id}") => (self.asked["permissionId"].clone(), none),
            ("DELETE", "/v1/grants/{id}") => (self.grant.clone(), none),
            ("POST", "/chat" | "/chat/relay/{relayId}") => (none, json!({ "messages": [] })),
            ("POST", "/mcp") => (none, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })),
            ("POST", "/v1/invocations/{id}/complete") => (self.invocation.clone(), json!({})),
            ("GET", "/v1/invocations/{id}") => (self.invocation.clone(), none),
            ("GET", "/v1/deliveries/{id}") => (self.delivery.clone(), none),
            ("GET" | "DELETE", path) if path.starts_with("/v1/messages/{id}") => {
                (self.message.clone(), none)
            }
            ("GET" | "DELETE", path) if !path.contains("{id}") => (none.clone(), none),
            (method, path) => panic!("{method} {path} has no example"),
        }
    }
}

/// The path of a permission request.
fn permission(record: &Value, rest: &str) -> String {
    let id = record["permissionId"].as_str().unwrap();
    format!("/v1/permissions/{id}{rest}")
}

fn token_of(world: &World, made: &Answer) -> Client {
    world.with(made.expect(201)["token"].as_str().unwrap())
}

/// Routes that the tests below look at one by one; the stream and the socket have no end.
fn ends(route: &RouteInfo) -> bool {
    !matches!(route.path, "/v1/events/stream" | "/v1/ws")
}

const KINDS: [TokenKind; 5] = [
    TokenKind::Admin,
    TokenKind::Workspace,
    TokenKind::Agent,
    TokenKind::Observer,
    TokenKind::Webhook,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_asks_for_its_credential() {
    let everything = Everything::make().await;
    let world = &everything.world;
    for route in route_list().iter().filter(|route| route.path != "/v1/ws") {
        let example = everything.example(route);
        let nobody = world.nobody();
        if route.credentials.is_empty() {
            nobody.ask(example).await.expect(200);
            continue;
        }
        let what = format!("{} {}", route.method, route.path);
        let refused = nobody.ask(example.clone()).await;
        assert_eq!(refused.refused(401), "unauthorized", "{what}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"), "{what}");
        for wrong in [
            "at_nonsense",
            "x",
            "rk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            let refused = world.with(wrong).ask(example.clone()).await;
            assert_eq!(refused.refused(401), "unauthorized", "{what}");
        }
        let basic = example.clone().header("authorization", "Basic eDp5");
        assert_eq!(
            nobody.ask(basic).await.refused(401),
            "unauthorized",
            "{what}"
        );
        for kind in KINDS
            .iter()
            .filter(|kind| !route.credentials.contains(kind))
        {
            let refused = everything.holder(*kind).ask(example.clone()).await;
            assert_eq!(refused.refused(403), "forbidden", "{what} with {kind}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_works_for_whom_it_is_made() {
    for route in route_list().iter().filter(|route| ends(route)) {
        for kind in route.credentials {
            let everything = Everything::make().await;
            let answer = everything
                .holder(*kind)
                .ask(everything.example(route))
                .await;
            let what = format!(
                "{} {} with {kind}: {}",
                route.method,
                route.path,
                answer.text()
            );
            let expected = match (route.method.as_str(), route.path, kind) {
                // The key has no own messages; the delivery has not failed; nothing can be asked of a
                // session that has no link.
                ("PATCH", "/v1/messages/{id}", TokenKind::Workspace) => 403,
                // Nor does an agent decide about what it asked itself, or takes back what it was granted.
                (
                    _,
                    "/v1/permissions/{id}/resolve" | "/v1/permissions/{id}/seen",
                    TokenKind::Agent,
                )
                | ("DELETE", "/v1/grants/{id}", TokenKind::Agent) => 403,
                ("POST", "/v1/deliveries/{id}/retry", _) => 409,
                ("POST", "/v1/sessions/{id}/control", _) => 400,
                (_, "/v1/sessions/{id}/pause" | "/v1/sessions/{id}/resume", _)
                | (_, "/v1/sessions/{id}/fork" | "/v1/sessions/{id}/snapshot", _) => 503,
                _ => {
                    assert!(answer.status < 300, "{what}");
                    continue;
                }
            };
            assert_eq!(answer.status, expected, "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_shows_or_changes_another_workspace() {
    let everything = Everything::make().await;
    let log = "/v1/events?limit=200";
    let before = everything.world.key.get(log).await.expect(200);
    for route in route_list().iter().filter(|route| ends(route)) {
        for (kind, client) in &everything.foreign {
            if !route.credentials.contains(kind) {
                continue;
            }
            let answer = client.ask(everything.example(route)).await;
            let what = format!(
                "{} {} with {kind}: {}",
                route.method,
                route.path,
                answer.text()
            );
            if route.path.contains("{id}") {
                assert_eq!(answer.status, 404, "{what}");
            }
            if route.path.starts_with("/v1/agents/{name}") {
                assert!(matches!(answer.status, 403 | 404), "{what}");
            }
            assert!(!answer.text().contains(SECRET), "{what}");
            assert!(answer.status < 500, "{what}");
        }
    }
    assert_eq!(everything.world.key.get(log).await.expect(200), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_asks_for_a_credential_too() {
    let everything = Everything::make().await;
    let world = &everything.world;
    for (client, expected) in [(world.with("at_nonsense"), 401), (world.admin.clone(), 403)] {
        let refused = Socket::connect(Socket::request(&client)).await.err();
        let Some(tokio_tungstenite::tungstenite::Error::Http(answer)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(answer.status(), expected);
    }
    for kind in [TokenKind::Workspace, TokenKind::Agent, TokenKind::Observer] {
        let socket = everything.holder(kind).socket().await;
        assert_eq!(socket.welcome["protocol"], 1);
    }
}
