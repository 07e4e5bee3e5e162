//! The least that streams events: the same HTTP library as Relay's, one task for each stream, the same bytes at the same pace. No model,
//! no run, no log, nobody who comes back.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::Response;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use axum::{Router, serve as serve_http};
use futures_util::stream::unfold;
use relay_script::Clock;
use tokio::net::TcpListener;

use super::streams::PACE;

/// An id as it is in Relay's events.
const ID: &str = "01963a5c-7890-7abc-8ef0-123456789abc";

/// Serves `POST /chat`, for ever.
pub(crate) async fn serve(listening: impl FnOnce(SocketAddr)) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listening(listener.local_addr().unwrap());
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    let routes = Router::new().route("/chat", post(chat));
    serve_http(listener, routes).await.unwrap();
}

async fn chat() -> Response {
    let clock = Clock {
        times: u32::MAX,
        every: PACE,
    };
    let events = unfold((clock.start(), 1), |(mut ticks, number)| async move {
        let time = ticks.next().await?;
        let event = format!(
            "id: {number}\nevent: text\ndata: {{\"agentId\":\"{ID}\",\"runId\":\"{ID}\",\"type\":\"text\",\"id\":\"{ID}\",\"content\":\"{time}\"}}\n\n"
        );
        Some((Ok::<_, Infallible>(event), (ticks, number + 1)))
    });
    let mut response = Response::new(Body::from_stream(events));
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
