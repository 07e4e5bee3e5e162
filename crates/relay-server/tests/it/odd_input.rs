//! Odd input everywhere, put together from the API's description: no fault of the server's own, and every
//! answer as described.

use relay_protocol::event::TokenKind;
use relay_server::{RouteInfo, route_list};
use serde_json::{Value, json};

use crate::matrix::Everything;
use crate::support::{Answer, Client, Raw, World, document};

/// What programs and people put where something else belongs.
fn odd_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!(" "),
        json!("\u{0}"),
        json!("\u{202e}é👩‍🚀\u{fffd}"),
        json!("'; DROP TABLE agents; --"),
        json!("x".repeat(5_000)),
        json!("2026-13-45T99:99:99Z"),
        json!("9999-12-31T23:59:59.999Z"),
        json!("00000000-0000-0000-0000-000000000000"),
        json!("*"),
        json!("@"),
        json!("#"),
        json!([]),
        json!([[[[]]]]),
        json!({}),
        json!({ "type": "x", "kind": "x", "status": "x" }),
    ]
}

/// What is put into paths and queries.
const ODD_TEXTS: &[&str] = &[
    "",
    "0",
    "-1",
    "18446744073709551615",
    "99999999999999999999999",
    "1e9",
    "%00",
    "%FF",
    "%F0%9F%91%A9",
    "%2F..%2F..",
    "a%20b",
    "null",
    "true",
    "*",
    "%25",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

/// Every place inside a document.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                places(member, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn check(what: &str, answer: &Answer) {
    let code = answer.json()["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let fault = answer.status >= 500
        && !matches!(
            code.as_str(),
            "unsupported_operation" | "session_unreachable"
        );
    assert!(!fault, "{what}: {} {}", answer.status, answer.text());
}

/// Whoever may call a route and is not hurt by what it does.
fn caller<'a>(everything: &'a Everything, route: &RouteInfo) -> &'a Client {
    let kinds = route.credentials;
    let kind = match kinds.contains(&TokenKind::Workspace) {
        true => TokenKind::Workspace,
        false => kinds.first().copied().unwrap_or(TokenKind::Workspace),
    };
    everything.holder(kind)
}

fn ends(route: &RouteInfo) -> bool {
    !matches!(route.path, "/v1/events/stream" | "/v1/ws")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_bodies() {
    // What is said in MCP and in chats is not for the server to judge.
    let judged = |route: &&RouteInfo| {
        ends(route) && route.path != "/mcp" && !route.path.starts_with("/chat")
    };
    for route in route_list().iter().filter(judged) {
        let everything = Everything::make().await;
        let example = everything.example(route);
        let Ok(body) = serde_json::from_slice::<Value>(&example.body) else {
            continue;
        };
        let mut all = Vec::new();
        places(&body, "", &mut all);
        for place in all {
            for odd in odd_values() {
                let mut body = body.clone();
                *body.pointer_mut(&place).unwrap() = odd;
                let mut request = Raw::new(&example.method, &example.path);
                request = request.body("application/json", body.to_string());
                let what = format!("{} {} {body}", route.method, route.path);
                check(&what, &caller(&everything, route).ask(request).await);
            }
        }
        // A field more, at each depth.
        let mut more = body.clone();
        if let Some(members) = more.as_object_mut() {
            members.insert("extraField".to_owned(), json!(1));
            let request = Raw::new(&example.method, &example.path);
            let request = request.body("application/json", more.to_string());
            let answer = caller(&everything, route).ask(request).await;
            let path = answer.json()["path"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let what = format!("{} {}: {}", route.method, route.path, answer.text());
            assert_eq!(
                (answer.status, path.as_str()),
                (400, "extraField"),
                "{what}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_paths() {
    let everything = Everything::make().await;
    for route in route_list().iter().filter(|route| ends(route)) {
        if !route.path.contains('{') {
            continue;
        }
        for odd in ODD_TEXTS {
            let example = everything.example(route);
            let path = route
                .path
                .split('/')
                .map(|segment| {
                    if segment.starts_with('{') {
                        odd
                    } else {
                        segment
                    }
                })
                .collect::<Vec<_>>()
                .join("/");
            let request = Raw { path, ..example };
            let what = format!("{} {}", request.method, request.path);
            check(&what, &caller(&everything, route).ask(request).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_queries() {
    let everything = Everything::make().await;
    for route in route_list() {
        let operation =
            &document()["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        let parameters = operation["parameters"].as_array().unwrap();
        for parameter in parameters.iter().filter(|it| it["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            for odd in ODD_TEXTS {
                let mut request = everything.example(&route);
                if route.method == "DELETE" || route.path == "/v1/events/stream" && odd.is_empty() {
                    continue;
                }
                let mark = if request.path.contains('?') { '&' } else { '?' };
                request.path = format!("{}{mark}{name}={odd}", request.path);
                let what = format!("{} {}", request.method, request.path);
                let client = caller(&everything, &route);
                if route.path == "/v1/events/stream" {
                    // It may begin to stream, and then has no end.
                    let mut stream = client.send(&request).await;
                    let mut head = [0; 12];
                    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut head)
                        .await
                        .unwrap();
                    assert_ne!(&head[9..], b"500", "{what}");
                    continue;
                }
                check(&what, &client.ask(request).await);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_frames() {
    let everything = Everything::make().await;
    let mut socket = everything.agent.socket().await;
    let session = socket.attach("alice").await;
    let id = "01963a5c-7893-7abc-8ef0-123456789abc";
    let frames = [
        json!({ "type": "send", "to": "#general", "text": "x" }),
        json!({ "type": "subscribe", "id": "s", "pattern": "message.*", "after": 0 }),
        json!({ "type": "subscribe", "id": "f", "filter": { "event": "*", "or": [{ "agent": "x" }] } }),
        json!({ "type": "unsubscribe", "id": "s" }),
        json!({ "type": "receipt", "deliveryId": id, "epoch": 1,
                "receipt": { "status": "delivered", "deliveryId": id, "metadata": {} } }),
        json!({ "type": "event", "sessionId": session, "n": 1,
                "event": { "type": "status.changed", "status": "active" } }),
        json!({ "type": "boundary", "sessionId": session, "kind": "on-idle" }),
        json!({ "type": "controlResult", "controlId": id, "ok": true, "result": {} }),
        json!({ "type": "ping" }),
    ];
    for frame in frames {
        let mut all = Vec::new();
        places(&frame, "", &mut all);
        for place in all.iter().filter(|place| !place.is_empty()) {
            for odd in odd_values() {
                let mut frame = frame.clone();
                *frame.pointer_mut(place).unwrap() = odd;
                let answer = socket.ask(frame.clone()).await;
                let status = answer["problem"]["status"].as_u64().unwrap_or(200);
                assert!(status < 500, "{frame}: {answer}");
            }
        }
    }
}

/// The header was read over where it had no meaning, so a client believed that repeating was harmless.
#[tokio::test]
async fn an_idempotency_key_is_refused_where_it_means_nothing() {
    const ACCEPTING: [(&str, &str); 5] = [
        ("POST", "/v1/messages"),
        ("POST", "/v1/messages/{id}/replies"),
        ("POST", "/v1/deliveries"),
        ("POST", "/v1/actions/{name}/invoke"),
        ("POST", "/hooks/{id}"),
    ];
    let world = World::start().await;
    for RouteInfo { method, path, .. } in route_list() {
        let raw = Raw::new(method.as_str(), path)
            .body("application/json", "{}")
            .header("idempotency-key", "k");
        let answer = world.key.ask(raw).await;
        let what = format!("{method} {path}: {}", answer.text());
        if ACCEPTING.contains(&(method.as_str(), path)) {
            assert!(!answer.text().contains("Idempotency-Key"), "{what}");
            continue;
        }
        assert_eq!(answer.status, 400, "{what}");
        let problem = answer.json();
        let said = problem["detail"].as_str().or(problem["error"].as_str());
        let said = said.unwrap_or_else(|| panic!("{what}"));
        for (method, path) in ACCEPTING {
            assert!(said.contains(&format!("{method} {path}")), "{what}");
        }
    }
}
