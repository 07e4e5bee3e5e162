//! Whoever a webhook calls, and who does not always answer, nor always well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use relay_sdk::protocol::ids::EventId;
use relay_sdk::{LoggedEvent, WebhookVerifier};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::soon;

/// What was said in the name of the webhook and answered with 200, by the id of the call.
type Arrived = BTreeMap<EventId, LoggedEvent>;

pub(crate) struct Receiver {
    pub(crate) url: String,
    verifier: Arc<Mutex<Option<WebhookVerifier>>>,
    arrived: watch::Receiver<Arrived>,
}

struct State {
    verifier: Arc<Mutex<Option<WebhookVerifier>>>,
    arrived: watch::Sender<Arrived>,
    random: Mutex<u64>,
    /// Calls that were not answered well; they are the next time, or it would take hours.
    spurned: Mutex<BTreeSet<EventId>>,
}

/// What becomes of a call.
enum Mood {
    Answers,
    Refuses,
    Leaves,
}

impl State {
    fn mood(&self, id: EventId) -> Mood {
        let mut random = self.random.lock().unwrap();
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let mood = match (*random >> 33) % 10 {
            0 => Mood::Refuses,
            1 => Mood::Leaves,
            _ => return Mood::Answers,
        };
        match self.spurned.lock().unwrap().insert(id) {
            true => mood,
            false => Mood::Answers,
        }
    }
}

impl Receiver {
    pub(crate) async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let verifier = Arc::new(Mutex::new(None));
        let (tell, arrived) = watch::channel(Arrived::new());
        let state = Arc::new(State {
            verifier: verifier.clone(),
            arrived: tell,
            random: Mutex::new(seed),
            spurned: Mutex::default(),
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(BufReader::new(stream), state.clone()));
            }
        });
        Self {
            url,
            verifier,
            arrived,
        }
    }

    /// Believes what this one believes.
    pub(crate) fn believe(&self, verifier: WebhookVerifier) {
        *self.verifier.lock().unwrap() = Some(verifier);
    }

    /// Waits until all of these have come; everything that has.
    pub(crate) async fn until_all(&mut self, ids: BTreeSet<EventId>) -> Arrived {
        let all = self
            .arrived
            .wait_for(|arrived| ids.iter().all(|id| arrived.contains_key(id)));
        soon("the last event", all).await.unwrap().clone()
    }
}

async fn serve(mut stream: BufReader<TcpStream>, state: Arc<State>) -> Option<()> {
    loop {
        let (headers, body) = read(&mut stream).await?;
        let verifier = state.verifier.lock().unwrap().clone().unwrap();
        let event = verifier.verify(&headers, &body).unwrap();
        assert_eq!(headers["webhook-id"], event.id.to_string());
        match state.mood(event.id) {
            Mood::Leaves => return None,
            Mood::Refuses => {
                let refusal = b"HTTP/1.1 503 Not now\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(refusal).await.ok()?;
            }
            Mood::Answers => {
                state.arrived.send_modify(|arrived| {
                    let before = arrived.insert(event.id, event.clone());
                    assert!(before.is_none_or(|before| before == event));
                });
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(answer).await.ok()?;
            }
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<(http::HeaderMap, Vec<u8>)> {
    let mut headers = http::HeaderMap::new();
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        let name: http::HeaderName = name.parse().ok()?;
        headers.insert(name, value.parse().ok()?);
    }
    let length = headers.get("content-length")?.to_str().ok()?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((headers, body))
}
