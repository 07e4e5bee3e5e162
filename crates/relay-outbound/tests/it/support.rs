//! Servers that count who comes, and names that lead where a test wants.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay_outbound::{AllowList, Limits, Outbound, Request, Resolve, Resolving};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server that counts connections and answers each with the same bytes.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    reached: Arc<AtomicUsize>,
}

impl Server {
    /// Answers 200 with a body.
    pub(crate) async fn inside() -> Self {
        Self::at(
            "127.0.0.1:0",
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\ninside",
        )
        .await
    }

    pub(crate) async fn at(address: &str, answer: &'static str) -> Self {
        Self::with(address, move |mut stream| async move {
            let _ = read_head(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        })
        .await
    }

    pub(crate) async fn with<F, Fut>(address: &str, serve: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let reached = Arc::new(AtomicUsize::new(0));
        let count = reached.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream));
            }
        });
        Self { address, reached }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// How often somebody connected.
    pub(crate) fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }

    /// Makes sure that whoever connected is counted: connections are accepted in their order.
    pub(crate) async fn assert_never_reached(&self, by: &str) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        writer.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        reader.read_to_end(&mut answer).await.unwrap();
        assert_eq!(self.reached(), 1, "{by}");
    }
}

/// Reads the head of a request.
pub(crate) async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Leads names to addresses: each question takes the next answer, the last one stays.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn add(&self, name: &str, answers: &[&[&str]]) {
        let parse = |address: &&str| address.parse().unwrap();
        let answers = answers
            .iter()
            .map(|answer| answer.iter().map(parse).collect());
        let mut all = self.answers.lock().unwrap();
        all.insert(name.to_owned(), answers.collect());
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut all = self.answers.lock().unwrap();
        let found = match all.get_mut(name) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        Box::pin(async move { found })
    }
}

/// Short enough for a test that has to wait until time is up.
pub(crate) const SHORT: Limits = Limits {
    timeout: Duration::from_millis(300),
    connect_timeout: Duration::from_millis(300),
    answer_bytes: 4096,
};

pub(crate) fn outbound(allow: &[&str], limits: Limits) -> Outbound {
    Outbound::new(AllowList::new(allow).unwrap(), limits)
}

pub(crate) fn post(url: &str) -> Request {
    Request::post_json(url, "{}")
}
