//! A server for pages: the example's files, one page of the test's, and a place where it can say something.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The server.
pub(crate) struct Pages {
    pub(crate) origin: String,
    /// What was said.
    pub(crate) told: mpsc::UnboundedReceiver<String>,
    page: Arc<Mutex<String>>,
}

impl Pages {
    pub(crate) async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (tell, told) = mpsc::unbounded_channel();
        let page = Arc::new(Mutex::new(String::new()));
        let shown = page.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, shown.clone(), tell.clone()));
            }
        });
        Self { origin, told, page }
    }

    /// Shows a page with this script from now on.
    pub(crate) fn show(&self, script: &str) {
        let page =
            format!("<!doctype html><title>A test</title><script type=module>{script}</script>");
        *self.page.lock().unwrap() = page;
    }
}

async fn answer(
    mut stream: TcpStream,
    page: Arc<Mutex<String>>,
    tell: mpsc::UnboundedSender<String>,
) {
    let Some((head, body)) = read(&mut stream).await else {
        return;
    };
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, media_type, content) = match path {
        "/told" => {
            let _ = tell.send(body);
            (200, "text/plain", String::new())
        }
        "/test.html" => (200, "text/html", page.lock().unwrap().clone()),
        "/relay.js" => (200, "text/javascript", example("relay.js")),
        "/" => (200, "text/html", example("index.html")),
        _ => (404, "text/plain", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        content.len()
    );
    let _ = stream.write_all((head + &content).as_bytes()).await;
}

fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/browser");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Reads a request: its head and its body.
async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
        if body.len() >= length {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}
