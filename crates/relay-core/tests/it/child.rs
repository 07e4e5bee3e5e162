//! A process of its own that writes until it is killed: this binary, run again.
//!
//! It prints one line of JSON per acknowledgement, after it came. Whatever else the test runner prints
//! there is not such a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::writers::{Ack, DATABASE, Keys, Texts, open_in, write};

/// Tells the child what to do, as the JSON of its [`Orders`].
const ORDERS: &str = "RELAY_TEST_CHILD";

#[derive(Serialize, Deserialize)]
struct Orders {
    directory: PathBuf,
    keys: Keys,
    seed: u64,
}

/// A running writer. Dropping it kills it.
pub(crate) struct Child {
    process: std::process::Child,
    lines: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a process that opens the database of a directory and writes.
    pub(crate) fn start(directory: &Path, keys: &Keys, seed: u64) -> Self {
        let orders = Orders {
            directory: directory.to_owned(),
            keys: keys.clone(),
            seed,
        };
        let mut process = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "child::entry", "--nocapture"])
            .env(ORDERS, serde_json::to_string(&orders).expect("orders"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child starts");
        let lines = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, lines }
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the next acknowledgement; `None` once the process has ended.
    pub(crate) fn next(&mut self) -> Option<Ack> {
        loop {
            let mut line = String::new();
            // A line that was cut short by the kill has no end, and is no acknowledgement.
            self.lines.read_line(&mut line).expect("a pipe");
            if !line.ends_with('\n') {
                return None;
            }
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).expect("an acknowledgement"));
            }
        }
    }

    /// Kills the process with SIGKILL, and returns what it had still said.
    pub(crate) fn kill(mut self) -> Vec<Ack> {
        self.process.kill().expect("the process can be killed");
        self.process.wait().expect("the process ends");
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may be gone, which is all that is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's side. In an ordinary run there are no orders, and nothing to do.
#[test]
fn entry() {
    let Ok(orders) = std::env::var(ORDERS) else {
        return;
    };
    let Orders {
        directory,
        keys,
        seed,
    } = serde_json::from_str(&orders).unwrap();
    let engine = open_in(&directory).unwrap_or_else(|error| panic!("{DATABASE}: {error}"));
    // The test runner may have begun a line.
    println!();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(write(Arc::new(engine), &keys, Texts::Short, seed, say));
    panic!("the child only ends when it is killed");
}

/// Prints an acknowledgement; the lock keeps lines whole.
fn say(ack: Ack) -> ControlFlow<()> {
    let line = serde_json::to_string(&ack).expect("JSON");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").expect("the parent listens");
    out.flush().expect("the parent listens");
    ControlFlow::Continue(())
}
