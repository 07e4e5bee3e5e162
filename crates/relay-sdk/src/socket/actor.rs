//! The task that owns the socket: connects, serves a connection until it ends, and begins again.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::action::RegisterAction;
use relay_protocol::ids::InvocationId;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::Attach;
use relay_protocol::socket::{ClientRequest, EventFrame, InvocationResult, OkFrame, ServerMessage};
use tokio::sync::mpsc;

use super::actions::Handlers;
use super::connection::{Connection, Ended};
use super::followed::{Ask, Followed, Refused};
use super::listeners::Listeners;
use super::sessions::{Clock, Input, NowAttached, Refusal, Sessions};
use super::{Command, HandlerKey, SessionKey};
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::http::Http;
use crate::session::Tag;

/// Owns the socket of a client.
pub(super) struct Actor {
    http: Arc<Http>,
    commands: mpsc::UnboundedReceiver<Command>,
    listeners: Listeners,
    sessions: Sessions,
    handlers: Handlers,
    connections: u64,
}

/// A connection with what was asked on it.
struct Live {
    connection: Connection,
    followed: Followed,
    pending: HashMap<u64, Pending>,
}

/// What an answer is about.
enum Pending {
    Followed,
    Attach(SessionKey),
    Session(SessionKey, Tag),
    Register(HandlerKey),
    Result(InvocationId),
}

/// Why a connection is no longer served.
enum Over {
    /// It ended.
    Ended(Ended),
    /// There is nothing to keep it for, or something to end it for.
    NotNeeded,
    /// The client was closed.
    Closed,
}

impl Actor {
    pub(super) fn new(http: Arc<Http>, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        Self {
            http,
            commands,
            listeners: Listeners::default(),
            sessions: Sessions::default(),
            handlers: Handlers::default(),
            connections: 0,
        }
    }

    pub(super) async fn run(mut self) {
        let error = match self.work().await {
            Ok(()) => Error::Closed,
            Err(error) => {
                tracing::error!(%error, "the socket is given up");
                error
            }
        };
        self.give_up(&error);
        // Whoever asks for something after the end learns why it can't be.
        while let Some(command) = self.commands.recv().await {
            self.take_offline(command);
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &Error) {
        self.listeners.refuse_new(error);
        self.listeners = Listeners::default();
        self.sessions.end_all(error);
        self.handlers.end_all(error);
    }

    /// Connects and serves until the client is closed, or a connection is refused for good.
    async fn work(&mut self) -> Result<()> {
        let mut backoff = Backoff::default();
        loop {
            while self.is_idle() {
                match self.commands.recv().await {
                    None | Some(Command::Close) => return Ok(()),
                    Some(command) => self.take_offline(command),
                }
            }
            let Some(connection) = self.connect(&mut backoff).await? else {
                return Ok(());
            };
            tracing::debug!(connection.id = %connection.id(), "connected");
            let over = self.serve(connection, &mut backoff).await;
            self.sessions_lost(&over);
            match over {
                Over::Closed => return Ok(()),
                Over::Ended(Ended::Refused(error)) => return Err(error),
                Over::NotNeeded | Over::Ended(_) => {}
            }
        }
    }

    fn sessions_lost(&mut self, over: &Over) {
        if matches!(over, Over::Ended(Ended::Superseded)) {
            self.sessions.all_superseded();
        }
        self.sessions.all_lost();
    }

    fn is_idle(&self) -> bool {
        self.listeners.is_empty() && self.sessions.is_empty() && self.handlers.is_empty()
    }

    /// Connects, however often that takes; nothing when the client is closed or idle meanwhile.
    async fn connect(&mut self, backoff: &mut Backoff) -> Result<Option<Connection>> {
        loop {
            self.connections += 1;
            let http = self.http.clone();
            let number = self.connections;
            let mut opening = std::pin::pin!(Connection::open(&http, number));
            let opened = loop {
                tokio::select! {
                    opened = &mut opening => break opened,
                    command = self.commands.recv() => match command {
                        None | Some(Command::Close) => return Ok(None),
                        Some(command) => self.take_offline(command),
                    }
                }
            };
            match opened {
                Ok(connection) => return Ok(Some(connection)),
                Err(error) if error.is_final_for_a_connection() => return Err(error),
                Err(error) => tracing::debug!(%error, "no connection yet"),
            }
            if !self.wait(backoff).await {
                return Ok(None);
            }
        }
    }

    /// Waits before the next attempt; false when the client is closed meanwhile.
    async fn wait(&mut self, backoff: &mut Backoff) -> bool {
        let mut waiting = std::pin::pin!(tokio::time::sleep(backoff.next()));
        loop {
            tokio::select! {
                () = &mut waiting => return true,
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return false,
                    Some(command) => self.take_offline(command),
                }
            }
        }
    }

    /// Takes a command while there is no connection.
    fn take_offline(&mut self, command: Command) {
        match command {
            Command::Listen(new) => self.listeners.add(*new),
            Command::Unlisten(id) => {
                self.listeners.remove(id);
            }
            Command::CaughtUp(id) => {
                self.listeners.catch_up(id);
            }
            Command::Attach(new) => {
                self.sessions.add(*new);
            }
            Command::Detach(key) => self.sessions.detach(key),
            Command::Handle(new) => {
                self.handlers.add(*new);
            }
            Command::Unhandle(key) => {
                self.handlers.remove(key);
            }
            Command::Answered(result) => self.handlers.answered(*result),
            // Meant for a connection that is gone.
            Command::Say(_) | Command::Close => {}
        }
    }

    /// Serves a connection until it ends.
    async fn serve(&mut self, connection: Connection, backoff: &mut Backoff) -> Over {
        let mut live = Live {
            connection,
            followed: Followed::default(),
            pending: HashMap::new(),
        };
        for (key, attach) in self.sessions.attaches() {
            live.attach(key, attach);
        }
        for (key, register) in self.handlers.registrations() {
            live.register(key, register);
        }
        for result in self.handlers.unsaid() {
            live.say_result(result);
        }
        live.listeners_changed(&mut self.listeners);
        loop {
            if self.is_idle() {
                return Over::NotNeeded;
            }
            tokio::select! {
                frame = live.connection.next() => {
                    let frame = match frame {
                        Ok(frame) => frame,
                        Err(ended) => return Over::Ended(ended),
                    };
                    let reference = frame.reference.and_then(number);
                    if let Err(ended) = self.heard(&mut live, reference, frame.message) {
                        // What is refused for now would be refused again at once.
                        self.wait(backoff).await;
                        return Over::Ended(ended);
                    }
                    backoff.reset();
                }
                command = self.commands.recv() => match command {
                    None | Some(Command::Close) => return Over::Closed,
                    // A link ends with its connection only; what else is on it comes back at once.
                    Some(Command::Detach(key)) => {
                        self.sessions.detach(key);
                        return Over::NotNeeded;
                    }
                    Some(Command::Unhandle(key)) => {
                        if self.handlers.remove(key) {
                            return Over::NotNeeded;
                        }
                    }
                    Some(command) => self.take(&mut live, command),
                }
            }
        }
    }

    /// Takes a command while there is a connection.
    fn take(&mut self, live: &mut Live, command: Command) {
        match command {
            Command::Listen(new) => {
                self.listeners.add(*new);
                live.listeners_changed(&mut self.listeners);
            }
            Command::Unlisten(id) => {
                if self.listeners.remove(id) {
                    live.listeners_changed(&mut self.listeners);
                }
            }
            Command::CaughtUp(id) => {
                if self.listeners.catch_up(id) {
                    live.listeners_changed(&mut self.listeners);
                }
            }
            Command::Attach(new) => {
                let key = new.key;
                let attach = self.sessions.add(*new);
                live.attach(key, attach);
            }
            Command::Say(said) if said.connection == live.connection.number => {
                let reference = live.connection.say(said.request);
                let pending = Pending::Session(said.session, said.tag);
                live.pending.insert(reference, pending);
            }
            Command::Handle(new) => {
                let key = new.key;
                let register = self.handlers.add(*new);
                live.register(key, register);
            }
            Command::Answered(result) => {
                self.handlers.answered((*result).clone());
                live.say_result(*result);
            }
            Command::Say(_) | Command::Detach(_) | Command::Unhandle(_) | Command::Close => {}
        }
    }

    /// Takes a frame of the server.
    fn heard(
        &mut self,
        live: &mut Live,
        reference: Option<u64>,
        message: ServerMessage,
    ) -> std::result::Result<(), Ended> {
        let pending = reference.and_then(|reference| live.pending.remove(&reference));
        match (pending, message) {
            (Some(pending), message) => return self.answered(live, pending, message),
            (None, ServerMessage::Event(frame)) => self.event(live, &frame),
            (None, ServerMessage::Deliver(frame)) => {
                self.sessions
                    .tell_by_id(frame.session_id, Input::Deliver(frame));
            }
            (None, ServerMessage::Control(frame)) => {
                let id = frame.session_id;
                self.sessions
                    .tell_by_id(id, Input::Control(Box::new(frame)));
            }
            (None, ServerMessage::Invoke(frame)) => self.handlers.invoked(frame),
            (None, ServerMessage::Error(error)) => self.told(&error.problem),
            (None, other) => tracing::trace!(frame = other.tag(), "nothing to do"),
        }
        Ok(())
    }

    /// An error that answers nothing: a session that goes on elsewhere, or something that should not be.
    fn told(&mut self, problem: &Problem) {
        let session = problem.found.as_deref().and_then(|id| id.parse().ok());
        match session {
            Some(id) if problem.code == ErrorCode::SessionUnreachable => {
                self.sessions.superseded(id);
            }
            _ => tracing::warn!(problem.detail, "the server complains"),
        }
    }

    fn event(&mut self, live: &mut Live, frame: &EventFrame) {
        if live.followed.counts() && self.listeners.dispatch(&frame.event) {
            live.listeners_changed(&mut self.listeners);
        }
    }

    fn answered(
        &mut self,
        live: &mut Live,
        pending: Pending,
        message: ServerMessage,
    ) -> std::result::Result<(), Ended> {
        match (pending, message) {
            (Pending::Session(key, tag), ServerMessage::Error(error)) => {
                let answer = Err(error.problem);
                self.sessions.tell(key, Input::Answer(tag, answer));
            }
            (Pending::Session(key, tag), message) => {
                let answer = Ok(Box::new(message));
                self.sessions.tell(key, Input::Answer(tag, answer));
            }
            (Pending::Attach(key), ServerMessage::Attached(attached)) => {
                let now = NowAttached {
                    connection: live.connection.number,
                    attached,
                    clock: Clock {
                        server_time: live.connection.welcome.server_time,
                        read_at: live.connection.welcomed,
                    },
                };
                self.sessions.attached(key, now);
            }
            (Pending::Attach(key), ServerMessage::Error(error)) => {
                match self.sessions.refused(key, error.problem) {
                    Refusal::Again(attach) => live.attach(key, *attach),
                    Refusal::Later => return Err(Ended::Lost),
                    Refusal::Over => {}
                }
            }
            (Pending::Register(key), ServerMessage::Error(error)) => {
                if !self.handlers.refused(key, error.problem) {
                    return Err(Ended::Lost);
                }
            }
            (Pending::Register(key), _) => self.handlers.registered(key),
            (Pending::Result(id), ServerMessage::Error(error)) => {
                if error.problem.retryable {
                    return Err(Ended::Lost);
                }
                tracing::warn!(invocation.id = %id, error.problem.detail, "an answer is not wanted");
                self.handlers.said(id);
            }
            (Pending::Result(id), _) => self.handlers.said(id),
            (Pending::Followed, ServerMessage::Error(error)) => {
                let error = Error::Problem(error.problem);
                match live.followed.refused(&error, &mut self.listeners) {
                    Refused::Instead(ask) => live.ask(Some(ask)),
                    Refused::Later => return Err(Ended::Lost),
                    Refused::Over => {}
                }
            }
            (Pending::Followed, ServerMessage::Ok(ok)) => {
                let ask = live.followed.done(place(&ok), &mut self.listeners);
                live.ask(ask);
            }
            (_, other) => tracing::warn!(frame = other.tag(), "an answer of another kind"),
        }
        Ok(())
    }
}

impl Live {
    fn attach(&mut self, key: SessionKey, attach: Attach) {
        let reference = self.connection.say(ClientRequest::Attach(attach));
        self.pending.insert(reference, Pending::Attach(key));
    }

    fn register(&mut self, key: HandlerKey, register: RegisterAction) {
        let reference = self.connection.say(ClientRequest::RegisterAction(register));
        self.pending.insert(reference, Pending::Register(key));
    }

    fn say_result(&mut self, result: InvocationResult) {
        let id = result.invocation_id;
        let reference = self.connection.say(ClientRequest::InvocationResult(result));
        self.pending.insert(reference, Pending::Result(id));
    }

    fn listeners_changed(&mut self, listeners: &mut Listeners) {
        let ask = self.followed.change(listeners);
        self.ask(ask);
    }

    fn ask(&mut self, ask: Option<Ask>) {
        let request = match ask {
            Some(Ask::Subscribe(subscribe)) => ClientRequest::Subscribe(*subscribe),
            Some(Ask::Unsubscribe(unsubscribe)) => ClientRequest::Unsubscribe(unsubscribe),
            None => return,
        };
        let reference = self.connection.say(request);
        self.pending.insert(reference, Pending::Followed);
    }
}

/// Where a subscription begins.
fn place(ok: &OkFrame) -> Option<u64> {
    ok.result.as_ref()?.get("after")?.as_u64()
}

fn number(reference: relay_protocol::socket::FrameRef) -> Option<u64> {
    match reference {
        relay_protocol::socket::FrameRef::Number(number) => Some(number),
        relay_protocol::socket::FrameRef::Text(_) => None,
    }
}
