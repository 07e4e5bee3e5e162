//! An HTTP client for the scripted server, and one question in each provider's form.

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use relay_script::{Api, Script, Server};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::soon;

/// The paths, and the bodies that ask for a streamed answer to `Hi`.
pub(crate) fn questions() -> [(Api, &'static str, Value); 4] {
    let tool = |schema: &str| json!({ "name": "bash", "description": "runs", schema: {} });
    let function = |mut tool: Value| {
        tool["type"] = json!("function");
        tool
    };
    [
        (
            Api::Anthropic,
            "/v1/messages",
            json!({
                "model": "m", "stream": true, "system": [{ "type": "text", "text": "Be." }],
                "messages": [{ "role": "user", "content": "Hi" }],
                "tools": [tool("input_schema")],
            }),
        ),
        (
            Api::Chat,
            "/v1/chat/completions",
            json!({
                "model": "m", "stream": true, "stream_options": { "include_usage": true },
                "messages": [
                    { "role": "system", "content": "Be." }, { "role": "user", "content": "Hi" },
                ],
                "tools": [{ "type": "function", "function": tool("parameters") }],
            }),
        ),
        (
            Api::Responses,
            "/v1/responses",
            json!({
                "model": "m", "stream": true, "instructions": "Be.",
                "input": [{ "type": "message", "role": "user",
                            "content": [{ "type": "input_text", "text": "Hi" }] }],
                "tools": [function(tool("parameters"))],
            }),
        ),
        (
            Api::Gemini,
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            json!({
                "systemInstruction": { "parts": [{ "text": "Be." }] },
                "contents": [{ "role": "user", "parts": [{ "text": "Hi" }] }],
                "tools": [{ "functionDeclarations": [tool("parameters")] }],
            }),
        ),
    ]
}

/// An answer whose body was read as far as it came.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
    pub(crate) whole: bool,
}

pub(crate) async fn open(server: &Server, path: &str, body: &Value) -> http::Response<Incoming> {
    send(server, Method::POST, path, body.to_string()).await
}

pub(crate) async fn send(
    server: &Server,
    method: Method,
    path: &str,
    body: String,
) -> http::Response<Incoming> {
    let address = server.url().replace("http://", "");
    let stream = TcpStream::connect(&address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", address)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    soon("an answer", sender.send_request(request))
        .await
        .unwrap()
}

pub(crate) async fn ask(server: &Server, path: &str, body: &Value) -> Answer {
    read(open(server, path, body).await).await
}

pub(crate) async fn read(response: http::Response<Incoming>) -> Answer {
    let (parts, mut incoming) = response.into_parts();
    let (mut bytes, mut whole) = (Vec::new(), true);
    while let Some(frame) = soon("more of the answer", incoming.frame()).await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap()),
            Err(_) => {
                whole = false;
                break;
            }
        }
    }
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8_lossy(&bytes).into_owned(),
        whole,
    }
}

/// A server that plays this.
pub(crate) async fn playing(script: &str) -> Server {
    Server::start(script.parse::<Script>().unwrap())
        .await
        .unwrap()
}
