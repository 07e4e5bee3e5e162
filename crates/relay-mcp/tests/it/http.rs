//! MCP over streamable HTTP: whose sessions are, how many there are, and when an answer was written.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use relay_core::{Caller, Engine};
use relay_mcp::{HttpLimits, McpHttp};
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::{Action, AgentClient, CallbackSession, Relay, delivered};
use relay_server::{Config, LocalDoor, Mcp, ServeError, local, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::mcp_door::{Service, clients};
use crate::support::{open, soon};

/// The session of a client.
const SESSION: &str = "mcp-session-id";

/// A server that speaks MCP.
struct Home {
    url: String,
    address: std::net::SocketAddr,
    relay: Relay,
    mcp: McpHttp,
    door: LocalDoor,
    engine: Arc<Engine>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
    _directory: TempDir,
}

impl Home {
    async fn start() -> Self {
        Self::with(HttpLimits::default()).await
    }

    async fn with(limits: HttpLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(&directory);
        let owner = Caller::process_owner();
        let created = engine.create_workspace(&owner, "lab").await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (door, doorway) = local();
        let mcp = McpHttp::with_limits(clients(door.clone()), limits);
        let config = Config {
            mcp: Mcp::by(Service(mcp.clone())),
            ..Config::default()
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = serve((listener, doorway), engine.clone(), config, async {
            let _ = stopped.await;
        });
        let serving = tokio::spawn(serving);
        let url = format!("http://{address}");
        let relay = Relay::open(&url, &created.workspace_key).await.unwrap();
        Self {
            url,
            address,
            relay,
            mcp,
            door,
            engine,
            stop,
            serving,
            _directory: directory,
        }
    }

    fn visitor(&self, token: &str) -> Visitor {
        Visitor {
            address: self.address,
            token: token.to_owned(),
            headers: Vec::new(),
        }
    }

    /// A client that has begun a session.
    async fn client(&self, agent: &AgentClient) -> Visitor {
        let mut visitor = self.visitor(agent.token());
        let id = visitor.initialize().await.unwrap();
        visitor.headers.push((SESSION, id));
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(visitor.post(&ready).await.status(), StatusCode::ACCEPTED);
        visitor
    }
}

/// Somebody with a token.
struct Visitor {
    address: std::net::SocketAddr,
    token: String,
    headers: Vec<(&'static str, String)>,
}

fn call(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize() -> Value {
    call(
        1,
        "initialize",
        json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "t", "version": "1" },
        }),
    )
}

impl Visitor {
    fn request(&self, method: Method) -> http::request::Builder {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        answer(stream, request).await
    }

    fn posting(&self, body: &Value) -> Request<Full<Bytes>> {
        let request = self
            .request(Method::POST)
            .header("content-type", "application/json");
        request.body(Full::new(body.to_string().into())).unwrap()
    }

    async fn post(&self, body: &Value) -> Response<Incoming> {
        self.ask(self.posting(body)).await
    }

    async fn without_body(&self, method: Method) -> Response<Incoming> {
        let request = self.request(method).body(Full::default()).unwrap();
        self.ask(request).await
    }

    /// Begins a session: its id.
    async fn initialize(&self) -> Option<String> {
        let response = self.post(&initialize()).await;
        let id = response.headers().get(SESSION)?;
        Some(id.to_str().unwrap().to_owned())
    }

    /// What a request is answered.
    async fn result(&self, method: &str, params: Value) -> Value {
        let response = self.post(&call(2, method, params)).await;
        assert_eq!(response.status(), StatusCode::OK);
        let answer = message(response).await;
        assert_eq!(answer["id"], 2, "{answer}");
        answer["result"].clone()
    }

    /// What a tool says.
    async fn tool(&self, name: &str, arguments: Value) -> String {
        let params = json!({ "name": name, "arguments": arguments });
        let result = self.result("tools/call", params).await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// Asks over a connection of any kind.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Response<Incoming> {
    let stream = TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    soon("an answer", sender.send_request(request))
        .await
        .unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let body = soon("the body", response.into_body().collect()).await;
    String::from_utf8(body.unwrap().to_bytes().to_vec()).unwrap()
}

/// The message of an answer, whether it comes as a stream or not.
async fn message(response: Response<Incoming>) -> Value {
    let text = text(response).await;
    let line = text
        .lines()
        .rev()
        .map(|line| line.strip_prefix("data: ").unwrap_or(line))
        .find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap()).unwrap()
}

/// Why a request was refused.
async fn problem(response: Response<Incoming>) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, serde_json::from_str(&text(response).await).unwrap())
}

/// Waits until nothing is unread.
async fn settled(agent: &AgentClient) {
    soon("the marks", async {
        while agent.inbox().await.unwrap().unread > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn pair(home: &Home) -> (AgentClient, AgentClient) {
    let alice = home.relay.register("alice").await.unwrap();
    let bob = home.relay.register("bob").await.unwrap();
    (alice, bob)
}

#[tokio::test]
async fn a_client_lists_calls_and_reads_and_what_it_read_is_settled() {
    let home = Home::start().await;
    let (alice, bob) = pair(&home).await;
    let classify = Action::with_schema("classify", json!({ "type": "object" }));
    let handling = bob.register_action(classify, |_| async { Ok(json!(1)) });
    let _handling = handling.await.unwrap();
    let client = home.client(&alice).await;
    let tools = client.result("tools/list", json!({})).await["tools"].clone();
    let names: Vec<&str> = tools
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["send", "check", "people", "classify"]);
    let called = json!({ "name": "classify", "arguments": {} });
    let called = client.result("tools/call", called).await;
    assert!(called["structuredContent"]["invocationId"].is_string());
    let sent = bob.send_message("@alice", "over HTTP").await.unwrap();
    assert!(client.tool("check", json!({})).await.contains("over HTTP"));
    settled(&alice).await;
    let delivery = bob.delivery(sent.deliveries[0].delivery_id).await.unwrap();
    assert_eq!(delivery.state, DeliveryState::Delivered);
    assert_eq!(client.tool("check", json!({})).await, "nothing new");
    assert_eq!(client.without_body(Method::DELETE).await.status(), 202);
    let gone = client.post(&call(3, "ping", json!({}))).await;
    let (status, why) = problem(gone).await;
    assert_eq!((status, &why["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn an_answer_that_was_not_written_settles_nothing() {
    let home = Home::start().await;
    let (alice, bob) = pair(&home).await;
    // More than a pipe of the server's own process holds.
    let long = format!("begins {} ends", "x".repeat(200 * 1024));
    bob.send_message("@alice", long).await.unwrap();
    let client = home.client(&alice).await;
    let check = call(2, "tools/call", json!({ "name": "check" })).to_string();
    let request = client.posting(&serde_json::from_str(&check).unwrap());
    let mut lines = format!("POST /mcp HTTP/1.1\r\ncontent-length: {}\r\n", check.len());
    for (name, value) in request.headers() {
        lines.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
    }
    let mut pipe = home.door.connect().await.unwrap();
    let asked = format!("{lines}\r\n{check}").replace(&home.address.to_string(), "localhost");
    pipe.write_all(asked.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    soon("the beginning", async {
        while !read.windows(6).any(|part| part == b"begins") {
            read.push(pipe.read_u8().await.unwrap());
        }
    })
    .await;
    drop(pipe);
    assert_eq!(alice.inbox().await.unwrap().unread, 1);
    // The next one gets it, whole.
    assert!(client.tool("check", json!({})).await.contains(" ends\n"));
    settled(&alice).await;
}

#[tokio::test]
async fn clients_without_a_session_are_served_too() {
    let home = Home::start().await;
    let (alice, bob) = pair(&home).await;
    bob.send_message("@alice", "to whoever asks").await.unwrap();
    let mut client = home.visitor(alice.token());
    client.headers = vec![
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", "tools/call".to_owned()),
        ("mcp-name", "check".to_owned()),
    ];
    let params = json!({
        "name": "check", "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let response = client.post(&call(2, "tools/call", params)).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(text(response).await.contains("to whoever asks"));
    settled(&alice).await;
}

#[tokio::test]
async fn only_agents_come_in_and_each_has_its_own_sessions() {
    let home = Home::start().await;
    let (alice, bob) = pair(&home).await;
    let nobody = home.visitor("at_nonsense").post(&initialize()).await;
    assert_eq!(problem(nobody).await.0, 401);
    let workspace = home.visitor(home.relay.key()).post(&initialize()).await;
    let (status, why) = problem(workspace).await;
    assert_eq!(status, 403);
    let expected = "expected an agent token, found a workspace key";
    assert_eq!(why["detail"], expected);
    let client = home.client(&alice).await;
    let mut other = home.visitor(bob.token());
    other.headers.clone_from(&client.headers);
    for answer in [
        other.post(&call(2, "tools/list", json!({}))).await,
        other.without_body(Method::GET).await,
        other.without_body(Method::DELETE).await,
    ] {
        assert_eq!(problem(answer).await.0, 404, "it is another's session");
    }
    client.result("ping", json!({})).await;
    // What comes from a page of somebody else's, or too much of it, stays out as everywhere.
    let mut page = home.visitor(alice.token());
    page.headers
        .push(("origin", "https://evil.example".to_owned()));
    let (status, why) = problem(page.post(&initialize()).await).await;
    assert_eq!((status, &why["code"]), (403, &json!("foreign_origin")));
    // What makes no sense to the library is refused in the same form.
    let (status, why) = problem(client.post(&json!("x")).await).await;
    assert_eq!((status, &why["code"]), (400, &json!("invalid_request")));
    let large = json!({ "jsonrpc": "2.0", "x": "x".repeat(1024 * 1024) });
    let (status, _) = problem(client.post(&large).await).await;
    assert_eq!(status, 413);
}

#[tokio::test]
async fn calls_are_made_through_the_session_that_the_header_names() {
    let home = Home::start().await;
    let (alice, _) = pair(&home).await;
    let answering =
        |_, context: relay_sdk::MessageContext| async move { Ok(delivered(context.id)) };
    let session = CallbackSession::new(alice.identity().clone(), answering);
    let session = alice.attach(session).await.unwrap();
    let mut visitor = home.visitor(alice.token());
    let through = ("relay-session", session.session_id().unwrap().to_string());
    visitor.headers.push(through);
    let id = visitor.initialize().await.unwrap();
    visitor.headers.push((SESSION, id));
    let said = visitor
        .tool("send", json!({ "to": "#general", "text": "x" }))
        .await;
    assert!(said.contains("messaging.send"), "{said}");
    let mut unknown = home.visitor(alice.token());
    let nonsense = ("relay-session", "nonsense".to_owned());
    unknown.headers.push(nonsense);
    assert_eq!(problem(unknown.post(&initialize()).await).await.0, 400);
}

#[tokio::test]
async fn sessions_are_limited_and_end_when_they_rest() {
    let idle = Duration::from_secs(3_600);
    let home = Home::with(HttpLimits {
        sessions: 2,
        per_agent: 1,
        idle,
    })
    .await;
    let (alice, bob) = pair(&home).await;
    let carol = home.relay.register("carol").await.unwrap();
    let ping = call(2, "ping", json!({}));
    // A new one takes the place of one that rests,
    let first = home.client(&alice).await;
    let second = home.client(&alice).await;
    assert_eq!(first.post(&ping).await.status(), 404);
    second.result("ping", json!({})).await;
    // but not that of one that is in use.
    let stream = second.without_body(Method::GET).await;
    assert_eq!(stream.status(), 200);
    let (status, why) = problem(home.visitor(alice.token()).post(&initialize()).await).await;
    assert_eq!((status, &why["code"]), (503, &json!("overloaded")));
    // There are two places in all.
    let other = home.client(&bob).await;
    let full = home.visitor(carol.token()).post(&initialize()).await;
    assert_eq!(problem(full).await.0, 503);
    home.mcp.sweep(Instant::now() + idle).await;
    assert_eq!(other.post(&ping).await.status(), 404, "it rested");
    second.result("ping", json!({})).await;
    home.client(&carol).await;
}

#[tokio::test]
async fn a_stream_tells_of_new_tools_and_ends_with_the_server() {
    let home = Home::start().await;
    let (alice, bob) = pair(&home).await;
    let client = home.client(&alice).await;
    let mut stream = client.without_body(Method::GET).await.into_body();
    client.result("tools/list", json!({})).await;
    let classify = Action::with_schema("classify", json!({ "type": "object" }));
    let handling = bob.register_action(classify, |_| async { Ok(json!(1)) });
    let handling = handling.await.unwrap();
    soon("the news", async {
        loop {
            let piece = stream.frame().await.unwrap().unwrap();
            let piece = piece.into_data().unwrap_or_default();
            if String::from_utf8_lossy(&piece).contains("notifications/tools/list_changed") {
                return;
            }
        }
    })
    .await;
    drop((handling, alice, bob, client));
    let Home {
        stop,
        serving,
        engine,
        relay,
        url,
        ..
    } = home;
    drop((relay, url));
    drop(stop);
    let rest: Result<_, Infallible> = Ok(soon("the stream's end", stream.collect()).await);
    drop(rest);
    soon("the server's end", serving).await.unwrap().unwrap();
    drop(engine);
}
