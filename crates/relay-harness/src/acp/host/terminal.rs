//! Commands that the agent runs through this side: asked for one by one, with bounded output, gone with the agent.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::permission::PermissionOptionKind;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::inbound::{Answer, Asking, text};
use super::shared::Shared;
use super::state::SessionState;
use super::wanted::Wanted;
use crate::acp::event::ToolCall;
use crate::acp::permission::{AgentOption, PermissionQuestion, choose};
use crate::acp::rpc::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};
use crate::child::{Child, ChildCommand, Exit};

/// Most terminals of an agent at once.
const MAX_TERMINALS: usize = 32;

/// Bytes of output that are kept when the agent does not say how many.
pub(super) const OUTPUT_BYTES: usize = 1024 * 1024;

/// Most bytes of output that are kept.
pub(super) const MAX_OUTPUT_BYTES: usize = 4 * 1024 * 1024;

/// The option that lets a command run.
const ALLOW: &str = "allow";

/// The terminals of an agent.
#[derive(Default)]
pub(super) struct Terminals {
    open: Mutex<HashMap<String, Arc<Terminal>>>,
    last: AtomicU64,
}

struct Terminal {
    session: String,
    /// Taken when it is killed.
    child: Mutex<Option<Child>>,
    exited: tokio::sync::watch::Receiver<Option<Exit>>,
    output: Arc<Mutex<Output>>,
}

impl Terminals {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Arc<Terminal>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all: dropping a child kills it.
    pub(super) fn clear(&self) {
        let open = std::mem::take(&mut *self.open());
        for terminal in open.values() {
            terminal.kill();
        }
    }

    fn get(&self, session: &str, id: &str) -> Result<Arc<Terminal>, RpcError> {
        let found = self.open().get(id).cloned();
        found
            .filter(|terminal| terminal.session == session)
            .ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("there is no terminal `{id}`")))
    }
}

/// Serves one call.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    session: Arc<SessionState>,
    method: &str,
    params: &Value,
) -> Answer {
    if method == "terminal/create" {
        return create(shared, &session, params).await;
    }
    let id = text(params, "terminalId")?;
    let terminal = shared.terminals.get(&session.id, &id)?;
    match method {
        "terminal/output" => Ok(terminal.output()),
        "terminal/wait_for_exit" => Ok(status(Some(terminal.exit().await))),
        "terminal/kill" => {
            terminal.kill();
            Ok(json!({}))
        }
        "terminal/release" => {
            terminal.kill();
            shared.terminals.open().remove(&id);
            Ok(json!({}))
        }
        method => Err(RpcError::new(
            METHOD_NOT_FOUND,
            format!("there is no method {method}"),
        )),
    }
}

async fn create(shared: &Arc<Shared>, session: &Arc<SessionState>, params: &Value) -> Answer {
    let number = shared.terminals.last.fetch_add(1, Ordering::Relaxed) + 1;
    let id = format!("terminal-{number}");
    let command = Wanted::read(session, params)?;
    if shared.terminals.open().len() >= MAX_TERMINALS {
        let why = format!("more than {MAX_TERMINALS} terminals are open");
        return Err(RpcError::new(INTERNAL_ERROR, why));
    }
    if !is_allowed(shared, session, &id, &command).await {
        return Err(RpcError::new(
            INTERNAL_ERROR,
            "the command is not permitted",
        ));
    }
    let terminal = Terminal::start(shared, session, command)?;
    shared
        .terminals
        .open()
        .insert(id.clone(), Arc::new(terminal));
    Ok(json!({"terminalId": id}))
}

/// Asks whoever decides about the agent's own tools.
async fn is_allowed(
    shared: &Arc<Shared>,
    session: &Arc<SessionState>,
    id: &str,
    command: &Wanted,
) -> bool {
    let tool_call = ToolCall {
        id: id.to_owned(),
        title: Some(command.line()),
        name: Some("terminal".to_owned()),
        kind: Some("execute".to_owned()),
        input: Some(json!({"command": command.line(), "cwd": command.cwd})),
        ..ToolCall::default()
    };
    let Some(asking) = Asking::open(shared, session, tool_call.clone()) else {
        return false;
    };
    let option = |id: &str, name: &str, kind| AgentOption {
        option_id: id.to_owned(),
        name: name.to_owned(),
        kind: Some(kind),
    };
    let options = vec![
        option(ALLOW, "Run it", PermissionOptionKind::AllowOnce),
        option("reject", "Don't run it", PermissionOptionKind::RejectOnce),
    ];
    let question = PermissionQuestion {
        agent: shared.agent.id.clone(),
        session_id: session.id.clone(),
        turn: session.turn(),
        cwd: command.cwd.clone(),
        tool_call,
        options: options.clone(),
    };
    let answer = asking.answer(question).await;
    let chosen = choose(&answer, &options);
    asking.tell(chosen.clone());
    chosen.as_deref() == Some(ALLOW)
}

impl Terminal {
    fn start(shared: &Shared, session: &SessionState, wanted: Wanted) -> Result<Self, RpcError> {
        let environment = shared.options.terminal_environment.clone();
        let env = wanted.env.iter();
        let command = ChildCommand {
            program: "sh".into(),
            args: wanted.arguments().into_iter().map(Into::into).collect(),
            cwd: wanted.cwd.clone(),
            environment: env.fold(environment, |all, (name, value)| all.with(name, value)),
        };
        let child = Child::spawn(&command);
        let mut child = child.map_err(|error| RpcError::new(INTERNAL_ERROR, error.to_string()))?;
        drop(child.take_stdin());
        let output = Arc::new(Mutex::new(Output::new(wanted.limit)));
        let reading = child
            .take_stdout()
            .map(|stdout| tokio::spawn(follow(stdout, output.clone())));
        let exited = child.exited();
        let (tell, told) = tokio::sync::watch::channel(None);
        tokio::spawn(async move {
            let exit = exited.await;
            if let Some(reading) = reading {
                let _ = reading.await;
            }
            tell.send_replace(Some(exit));
        });
        Ok(Self {
            session: session.id.clone(),
            child: Mutex::new(Some(child)),
            exited: told,
            output,
        })
    }

    /// Dropping a child kills it.
    fn kill(&self) {
        let child = self
            .child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(child);
    }

    async fn exit(&self) -> Exit {
        let mut exited = self.exited.clone();
        let unknown = Exit {
            status: None,
            stopped: true,
        };
        match exited.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(unknown),
            Err(_) => unknown,
        }
    }

    fn output(&self) -> Value {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answer = json!({"output": output.text(), "truncated": output.truncated});
        if let Some(exit) = *self.exited.borrow() {
            answer["exitStatus"] = status(Some(exit));
        }
        answer
    }
}

fn status(exit: Option<Exit>) -> Value {
    let status = exit.and_then(|exit| exit.status);
    #[cfg(unix)]
    let signal = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status));
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    json!({
        "exitCode": status.and_then(|status| status.code()),
        "signal": signal.map(|signal| signal.to_string()),
    })
}

/// The newest part of what a command wrote.
struct Output {
    bytes: VecDeque<u8>,
    limit: usize,
    truncated: bool,
}

impl Output {
    const fn new(limit: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            limit,
            truncated: false,
        }
    }

    fn push(&mut self, new: &[u8]) {
        self.bytes.extend(new);
        let excess = self.bytes.len().saturating_sub(self.limit);
        self.truncated |= excess > 0;
        self.bytes.drain(..excess);
    }

    /// Begins with a whole character.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let begin = match self.truncated {
            true => bytes
                .iter()
                .take(3)
                .take_while(|byte| **byte & 0xc0 == 0x80)
                .count(),
            false => 0,
        };
        String::from_utf8_lossy(&bytes[begin..]).into_owned()
    }
}

async fn follow(mut stdout: impl AsyncRead + Unpin, output: Arc<Mutex<Output>>) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stdout.read(&mut buffer).await {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.push(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_output_is_kept_and_begins_with_a_character() {
        let mut output = Output::new(5);
        output.push("aé".as_bytes());
        assert_eq!((output.text().as_str(), output.truncated), ("aé", false));
        output.push("bbbb".as_bytes());
        assert_eq!((output.text().as_str(), output.truncated), ("bbbb", true));
    }
}
