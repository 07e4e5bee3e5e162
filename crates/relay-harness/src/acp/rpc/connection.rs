//! One connection: calls out and their answers, calls in and theirs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use super::lines::{Lines, MAX_LINE_BYTES, Read};
use super::message::{Message, RpcError, notification, request, response};

/// Most lines that wait to be written. The other side reads none of them when it is full.
const WAITING_LINES: usize = 1_024;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Gets the answer to a call, in the order of the wire: it runs before anything that came later is looked at.
pub(crate) type OnAnswer = Box<dyn FnOnce(Result<Value, RpcError>) + Send>;

/// Takes what the other side says, in the order of the wire. It must not wait for anything.
pub(crate) trait Handler: Send + Sync + 'static {
    /// A call that wants an answer: [`Outgoing::respond`] under the same id, now or later.
    fn request(&self, id: Value, method: String, params: Value);

    /// A call that wants none, and how long its line was.
    fn notification(&self, method: String, params: Value, bytes: usize);

    /// A line that could not be used.
    fn noise(&self, what: Noise);
}

/// A line that could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    /// It was no message.
    NoMessage,
    /// It was longer than what is read.
    TooLong(u64),
    /// It answered no call.
    AnswerToNothing,
}

/// The reading side; [`run`](Self::run) has to be awaited.
pub(crate) struct Connection {
    outgoing: Outgoing,
    lines: mpsc::Receiver<Vec<u8>>,
}

/// The writing side. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outgoing {
    lines: mpsc::Sender<Vec<u8>>,
    calls: Arc<Calls>,
}

#[derive(Default)]
struct Calls {
    next: AtomicU64,
    /// The open calls; nothing once the connection has ended.
    open: Mutex<Option<HashMap<u64, OnAnswer>>>,
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, Option<HashMap<u64, OnAnswer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: &Value) -> Option<OnAnswer> {
        // Some answer with the number as text.
        let id = match id {
            Value::String(id) => id.parse().ok()?,
            id => id.as_u64()?,
        };
        self.open().as_mut()?.remove(&id)
    }
}

/// The connection has ended, or the other side does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotSent;

impl Connection {
    pub(crate) fn new() -> Self {
        let (sender, lines) = mpsc::channel(WAITING_LINES);
        let calls = Calls {
            next: AtomicU64::new(1),
            open: Mutex::new(Some(HashMap::new())),
        };
        let outgoing = Outgoing {
            lines: sender,
            calls: Arc::new(calls),
        };
        Self { outgoing, lines }
    }

    pub(crate) fn outgoing(&self) -> Outgoing {
        self.outgoing.clone()
    }

    /// Reads and writes until the other side has ended its output. Then every open call is forgotten, which drops what
    /// waited for it. When the sender of `close` is dropped, the output is ended and only reading goes on.
    pub(crate) async fn run(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        handler: Arc<impl Handler>,
        close: oneshot::Receiver<()>,
    ) {
        let calls = self.outgoing.calls.clone();
        let closing = Closing(calls.clone());
        // Only others hold the sender now, so writing ends when nobody is left who could write.
        drop(self.outgoing);
        let mut reading = std::pin::pin!(read(input, &calls, &*handler));
        let mut writing = std::pin::pin!(write(output, self.lines, close));
        tokio::select! {
            () = &mut reading => {}
            // The other side does not read any more. It may still say something.
            () = &mut writing => reading.await,
        }
        drop(closing);
    }
}

/// Forgets all open calls, also when the task is ended from outside.
struct Closing(Arc<Calls>);

impl Drop for Closing {
    fn drop(&mut self) {
        let open = self.0.open().take();
        drop(open);
    }
}

async fn read(input: impl AsyncRead + Unpin, calls: &Calls, handler: &impl Handler) {
    let mut lines = Lines::new(BufReader::with_capacity(READ_BYTES, input), MAX_LINE_BYTES);
    loop {
        match lines.next().await {
            Read::Line => take(lines.line(), calls, handler),
            Read::TooLong { bytes } => handler.noise(Noise::TooLong(bytes)),
            Read::End => return,
        }
    }
}

fn take(line: &[u8], calls: &Calls, handler: &impl Handler) {
    match Message::read(line) {
        Some(Message::Request { id, method, params }) => handler.request(id, method, params),
        Some(Message::Notification { method, params }) => {
            handler.notification(method, params, line.len());
        }
        Some(Message::Response { id, result }) => match calls.take(&id) {
            Some(answer) => answer(result),
            None => handler.noise(Noise::AnswerToNothing),
        },
        None if line.trim_ascii().is_empty() => {}
        None => handler.noise(Noise::NoMessage),
    }
}

async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Vec<u8>>,
    close: oneshot::Receiver<()>,
) {
    let writing = write_all(&mut output, &mut lines);
    tokio::select! {
        () = writing => {}
        _ = close => {}
    }
    // Dropping the output tells the other side that nothing more comes.
    let _ = output.shutdown().await;
}

async fn write_all(output: &mut (impl AsyncWrite + Unpin), lines: &mut mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&line).await?;
            // More may wait already; then it is flushed with that.
            match lines.is_empty() {
                true => output.flush().await,
                false => Ok(()),
            }
        };
        if written.await.is_err() {
            return;
        }
    }
}

impl Outgoing {
    /// Makes a call. The callback runs when the answer comes; it is dropped when none can come any more.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &Value,
        answer: OnAnswer,
    ) -> Result<u64, NotSent> {
        let id = self.calls.next.fetch_add(1, Ordering::Relaxed);
        let place = self.lines.reserve().await.map_err(|_| NotSent)?;
        match self.calls.open().as_mut() {
            Some(open) => open.insert(id, answer),
            None => return Err(NotSent),
        };
        place.send(request(id, method, params));
        Ok(id)
    }

    /// Nobody waits for the answer any more. If there is none yet, the other side is told that it need not go on.
    pub(crate) fn forget(&self, id: u64) {
        let forgotten = self.calls.open().as_mut().and_then(|open| open.remove(&id));
        if forgotten.is_some() {
            // One that does not read can't be told.
            let _ = self.notify_now("$/cancel_request", &json!({"requestId": id}));
        }
    }

    /// Says something that wants no answer, without waiting; refused when the other side does not read.
    pub(crate) fn notify_now(&self, method: &str, params: &Value) -> Result<(), NotSent> {
        let line = notification(method, params);
        self.lines.try_send(line).map_err(|_| NotSent)
    }

    /// Answers a call without waiting: one who does not read its answers does not get them.
    pub(crate) fn respond(
        &self,
        id: &Value,
        result: &Result<Value, RpcError>,
    ) -> Result<(), NotSent> {
        let line = response(id, result);
        self.lines.try_send(line).map_err(|_| NotSent)
    }
}
