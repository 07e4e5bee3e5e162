//! `bash`: a command in the working directory, with a cleared environment, a bound on its time and on what is kept of its output.
//!
//! The command leads a process group; nothing of it is left when it has ended, was too slow, or the run was cancelled (`child/`). The two
//! output streams are one, as on a terminal: what was said before what matters to the model.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::ToolParams;
use relay_protocol::redact::{HOLD_MS, Redactor, Stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::output::{Characters, Clipped};
use super::{Tool, ToolContext, ToolOutput, params};
use crate::child::{Child, ChildCommand, ChildEnvironment, Exit, SpawnError, StopGrace};
use crate::llm::provider::ToolSpec;

/// How long a command may take when the model does not say.
const TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// How long a command may take at most.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Bytes from the beginning of the output that are kept.
const HEAD_BYTES: usize = 16 * 1024;

/// Bytes from the end of the output that are kept.
const TAIL_BYTES: usize = 48 * 1024;

/// Most bytes that are shown while the command runs.
const SHOWN_BYTES: usize = 1024 * 1024;

/// How long what may be the beginning of a secret is held back.
const HOLD: Duration = Duration::from_millis(HOLD_MS);

/// How long the end of the output may take after the command has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How a command is ended. Its standard input is closed from the beginning, so that is not waited for.
const STOP: StopGrace = StopGrace {
    eof: Duration::ZERO,
    term: Duration::from_secs(2),
};

/// Where commands run, and what they know.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The directory they start in.
    pub cwd: PathBuf,
    /// All of their environment.
    pub environment: ChildEnvironment,
}

/// Runs commands.
#[derive(Clone, Debug)]
pub struct BashTool {
    shell: Shell,
}

impl BashTool {
    /// Runs commands in this shell.
    #[must_use]
    pub const fn new(shell: Shell) -> Self {
        Self { shell }
    }

    fn spawn(&self, wanted: &Params) -> Result<Child, String> {
        let cwd = match &wanted.cwd {
            Some(cwd) => self.shell.cwd.join(cwd),
            None => self.shell.cwd.clone(),
        };
        let script = format!("exec 2>&1\n{}", wanted.command);
        let command = |program: &str, options: &[&str]| ChildCommand {
            program: program.into(),
            args: options
                .iter()
                .copied()
                .chain(["-c", &script])
                .map(Into::into)
                .collect(),
            cwd: cwd.clone(),
            environment: self.shell.environment.clone(),
        };
        let spawned = match Child::spawn(&command("bash", &["--noprofile", "--norc"])) {
            Err(SpawnError::NotInstalled { .. }) => Child::spawn(&command("sh", &[])),
            spawned => spawned,
        };
        spawned.map_err(|error| error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Params {
    command: String,
    timeout_ms: Option<u64>,
    cwd: Option<PathBuf>,
}

impl Params {
    fn timeout(&self) -> Duration {
        let wanted = self.timeout_ms.map_or(TIMEOUT, Duration::from_millis);
        wanted.min(MAX_TIMEOUT)
    }
}

impl Tool for BashTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "bash".to_owned(),
            description: "Runs a shell command in the working directory and gives its output, standard error included. \
                Nothing it starts lives on after it."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": { "type": "string" },
                    "timeoutMs": { "type": "integer", "minimum": 1, "description": "Default: 120000." },
                    "cwd": { "type": "string", "description": "Another directory to start in." },
                },
                "required": ["command"],
                "additionalProperties": false,
            }),
        }
    }

    fn check(&self, given: &ToolParams) -> Result<(), String> {
        let wanted: Params = params(given)?;
        match wanted.command.contains('\0') || wanted.command.trim().is_empty() {
            true => Err("the arguments don't fit: `command` is no command".to_owned()),
            false => Ok(()),
        }
    }

    fn run(
        &self,
        given: ToolParams,
        context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            let wanted: Params = params(&given)?;
            let mut child = self.spawn(&wanted)?;
            drop(child.take_stdin());
            let mut output = Output::new(&context);
            let ended = follow(child, &mut output, wanted.timeout(), &context).await;
            let kept = output.finish().await;
            Ok(ended.output(&kept, wanted.timeout()))
        }
        .boxed()
    }
}

/// How a command ended.
enum Ended {
    Exited(Exit),
    TooSlow,
    Cancelled,
}

/// Reads what a command writes until it has ended, or ends it.
async fn follow(
    mut child: Child,
    output: &mut Output<'_>,
    within: Duration,
    context: &ToolContext,
) -> Ended {
    let deadline = Instant::now() + within;
    let mut stdout = child.take_stdout();
    let mut buffer = vec![0; 16 * 1024];
    let mut exited = Box::pin(child.exited());
    let ended = loop {
        tokio::select! {
            () = context.cancelled() => break Ended::Cancelled,
            () = sleep_until(deadline) => break Ended::TooSlow,
            exit = &mut exited => break Ended::Exited(exit),
            read = piece(&mut stdout, &mut buffer), if stdout.is_some() => match read {
                0 => stdout = None,
                // Not a part of what is waited for: it would be lost if something else comes first.
                read => output.take(&buffer[..read]).await,
            },
            () = sleep_until(output.came_at + HOLD), if output.masking.has_waiting() => output.flush().await,
        }
    };
    if !matches!(ended, Ended::Exited(_)) {
        child.stop(STOP).await;
    }
    // What was written before the end is there; a pipe that a foreign process holds open has no end.
    let last = Instant::now() + LAST_WORDS;
    while let Ok(read @ 1..) = timeout_at(last, piece(&mut stdout, &mut buffer)).await {
        output.take(&buffer[..read]).await;
    }
    ended
}

/// The next piece; nothing at the end.
async fn piece(stdout: &mut Option<ChildStdout>, buffer: &mut [u8]) -> usize {
    match stdout {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

/// What a command writes: kept in part, shown as it comes, without secrets.
struct Output<'a> {
    context: &'a ToolContext,
    kept: Clipped,
    characters: Characters,
    /// Holds back what may be the beginning of a secret.
    masking: Stream,
    /// When something came last.
    came_at: Instant,
    shown: usize,
}

impl<'a> Output<'a> {
    fn new(context: &'a ToolContext) -> Self {
        Self {
            context,
            kept: Clipped::new(HEAD_BYTES, TAIL_BYTES),
            characters: Characters::default(),
            masking: Redactor::new().stream(),
            came_at: Instant::now(),
            shown: 0,
        }
    }

    async fn take(&mut self, bytes: &[u8]) {
        self.kept.push(bytes);
        self.came_at = Instant::now();
        let text = self.characters.push(bytes);
        self.mask(&text).await;
    }

    async fn mask(&mut self, text: &str) {
        if self.shown < SHOWN_BYTES {
            let masked = self.masking.push(text);
            self.show(masked).await;
        }
    }

    /// Nothing has come for a while: whoever waits for an answer has asked for it.
    async fn flush(&mut self) {
        let held = self.masking.flush();
        self.show(held).await;
    }

    async fn show(&mut self, text: String) {
        self.shown += text.len();
        show(self.context, text).await;
    }

    /// Shows what is left; gives what is kept.
    async fn finish(mut self) -> Clipped {
        let rest = std::mem::take(&mut self.characters).finish();
        self.mask(&rest).await;
        show(self.context, self.masking.finish()).await;
        self.kept
    }
}

async fn show(context: &ToolContext, text: String) {
    if !text.is_empty() {
        let content = json!({ "channel": "output", "data": text });
        context.progress(content).await;
    }
}

impl Ended {
    fn output(&self, kept: &Clipped, within: Duration) -> ToolOutput {
        let text = kept.text();
        let code = match self {
            Self::Exited(exit) => exit.status.and_then(|status| status.code()),
            Self::TooSlow | Self::Cancelled => None,
        };
        let note = match self {
            Self::Exited(_) if code == Some(0) => None,
            Self::Exited(exit) => Some(format!("[{exit}]")),
            Self::TooSlow => Some(format!("[ended after {} ms]", within.as_millis())),
            Self::Cancelled => Some("[cancelled]".to_owned()),
        };
        let context = match note {
            Some(note) if text.is_empty() => note,
            Some(note) => format!("{}\n{note}", text.trim_end_matches('\n')),
            None => text.clone(),
        };
        let result: Value = json!({
            "exitCode": code,
            "output": text,
            "truncated": kept.is_clipped(),
            "timedOut": matches!(self, Self::TooSlow),
        });
        ToolOutput { context, result }
    }
}
