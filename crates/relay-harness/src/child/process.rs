//! One child process and the task that watches over it.
//!
//! The task alone reaps the child, so whoever signals its group knows whether the number is still the child's. Whatever way
//! the child ends, the rest of its family is ended after it.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::family::{Family, Hunt};
use super::orphans::Watched;
use super::{ChildCommand, MARK_VARIABLE, SpawnError, StderrTail};

/// How long each step of stopping a child may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopGrace {
    /// After its standard input was closed.
    pub eof: Duration,
    /// After it was asked to end; again for processes that it left behind.
    pub term: Duration,
}

impl StopGrace {
    /// One second, then two.
    pub const STANDARD: Self = Self {
        eof: Duration::from_secs(1),
        term: Duration::from_secs(2),
    };

    /// It is killed.
    pub const NONE: Self = Self {
        eof: Duration::ZERO,
        term: Duration::ZERO,
    };
}

impl Default for StopGrace {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// What the system says; nothing where that could not be found out.
    pub status: Option<ExitStatus>,
    /// Whether it was stopped; otherwise it ended by itself.
    pub stopped: bool,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}"),
            None => f.write_str("exit status unknown"),
        }
    }
}

/// A child process with piped standard streams. Dropped, it is killed with all that comes from it.
pub struct Child {
    pid: u32,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: StderrTail,
    exit: watch::Receiver<Option<Exit>>,
    stop: Option<oneshot::Sender<Stop>>,
    /// Kills what is left when the last of handle and task is dropped.
    _leash: Arc<Leash>,
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl Child {
    /// Starts a program. Must be called in a tokio runtime, which has to outlive the child.
    pub fn spawn(command: &ChildCommand) -> Result<Self, SpawnError> {
        if !command.cwd.is_dir() {
            return Err(SpawnError::NoSuchDirectory(command.cwd.clone()));
        }
        let mark = new_mark();
        let mut process = Command::new(&command.program);
        process
            .args(&command.args)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(command.environment.iter())
            .env(MARK_VARIABLE, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        process.process_group(0);
        // The reaper knows of it before it is there, so that there is no moment at which it could be forgotten.
        let watched = Watched::begin(&mark);
        let mut process = process.spawn().map_err(|error| command.refused(error))?;

        let pid = process.id().unwrap_or_default();
        if let Some(watched) = &watched {
            watched.set_leader(pid);
        }
        let leash = Arc::new(Leash::new(Family::new(pid, &mark), watched));
        let stderr = StderrTail::default();
        let stdin = process.stdin.take();
        let stdout = process.stdout.take();
        let reading = process
            .stderr
            .take()
            .map(|pipe| tokio::spawn(stderr.clone().follow(pipe)));
        let (tell, exit) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        let keeper = Keeper {
            process,
            leash: leash.clone(),
        };
        tokio::spawn(async move {
            let exit = keeper.run(stopped).await;
            if let Some(reading) = reading {
                // What was written before the end is there or comes at once; a pipe that a foreign process holds does not.
                let abort = reading.abort_handle();
                let _ = timeout(LAST_WORDS, reading).await;
                abort.abort();
            }
            tell.send_replace(Some(exit));
        });
        Ok(Self {
            pid,
            stdin,
            stdout,
            stderr,
            exit,
            stop: Some(stop),
            _leash: leash,
        })
    }

    /// The number of its process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Takes its standard input; dropped, the child reads the end of it.
    pub const fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes its standard output.
    pub const fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// What it wrote to standard error last.
    #[must_use]
    pub const fn stderr(&self) -> &StderrTail {
        &self.stderr
    }

    /// How it ended; nothing while it runs.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits until it has ended and nothing is left of it. The future does not borrow the child.
    pub fn exited(&self) -> impl Future<Output = Exit> + Send + 'static {
        let mut exit = self.exit.clone();
        async move {
            let unknown = Exit {
                status: None,
                stopped: true,
            };
            // The task ends without a word only when its runtime does.
            match exit.wait_for(Option::is_some).await {
                Ok(exit) => exit.unwrap_or(unknown),
                Err(_) => unknown,
            }
        }
    }

    /// Stops it with grace and waits until nothing is left of it.
    pub async fn stop(mut self, grace: StopGrace) -> Exit {
        let stdin = self.stdin.take();
        self.stop_closing(stdin, grace).await
    }

    /// The same for whoever took its standard input: what is given here is dropped at the right moment, and that has to
    /// close it. Before, the family is looked at while all parents in it still live.
    pub async fn stop_closing(mut self, input: impl Send + 'static, grace: StopGrace) -> Exit {
        let exited = self.exited();
        if let Some(stop) = self.stop.take() {
            let input = Box::new(input);
            // Refused only when it has ended already.
            let _ = stop.send(Stop { grace, input });
        }
        exited.await
    }
}

/// How a child is to be stopped.
struct Stop {
    grace: StopGrace,
    /// Dropped, it closes the child's standard input.
    input: Box<dyn Send>,
}

/// How long the last lines of standard error may take after the process has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A value that nobody else has.
fn new_mark() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // Without randomness the mark is still different from those of this process and of others at this time.
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        bytes = now.as_nanos().to_le_bytes();
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hex}", std::process::id())
}

/// Kills the family when it is dropped, unless that has ended already.
#[derive(Debug)]
struct Leash {
    family: Family,
    ended: AtomicBool,
    /// Dropped behind the kill: from then on the reaper has nothing to do with it.
    _watched: Option<Watched>,
}

impl Leash {
    const fn new(family: Family, watched: Option<Watched>) -> Self {
        Self {
            family,
            ended: AtomicBool::new(false),
            _watched: watched,
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            self.family.hunt().kill();
        }
    }
}

/// Owns the process: waits for its end, or brings it about.
struct Keeper {
    process: tokio::process::Child,
    leash: Arc<Leash>,
}

impl Keeper {
    async fn run(mut self, stop: oneshot::Receiver<Stop>) -> Exit {
        tokio::select! {
            status = self.process.wait() => {
                self.end_family(None, StopGrace::STANDARD).await;
                Exit { status: status.ok(), stopped: false }
            }
            stop = stop => {
                // An error means that the handle was dropped.
                let stop = stop.unwrap_or_else(|_| Stop {
                    grace: StopGrace::NONE,
                    input: Box::new(()),
                });
                self.stop(stop).await
            }
        }
    }

    async fn stop(mut self, Stop { grace, input }: Stop) -> Exit {
        let known = self.look().await;
        drop(input);
        let mut status = timeout(grace.eof, self.process.wait()).await.ok();
        if status.is_none() && !grace.term.is_zero() {
            self.leash.family.ask_group();
            status = timeout(grace.term, self.process.wait()).await.ok();
        }
        let status = match status {
            Some(status) => status,
            None => {
                self.leash.family.kill_group();
                // Where there are no groups.
                let _ = self.process.start_kill();
                self.process.wait().await
            }
        };
        self.end_family(known, grace).await;
        Exit {
            status: status.ok(),
            stopped: true,
        }
    }

    /// The family while the leader still lives: the parents of all are known.
    async fn look(&self) -> Option<Hunt> {
        let family = self.leash.family.clone();
        tokio::task::spawn_blocking(move || family.hunt())
            .await
            .ok()
    }

    async fn end_family(&self, known: Option<Hunt>, grace: StopGrace) {
        let family = self.leash.family.clone();
        // Fails only when the runtime ends; then the leash does it.
        let ended = tokio::task::spawn_blocking(move || {
            known.unwrap_or_else(|| family.hunt()).end(grace.term);
        });
        let ended = ended.await.is_ok();
        self.leash.ended.store(ended, Ordering::Relaxed);
    }
}
