//! Ends what a program leaves behind that was killed.
//!
//! A killed program does nothing any more, and a child that ignores the end of its input stays. So a second process, the reaper, is told
//! of each child and reads a pipe that ends with the program, however that ends; then it ends the families that are left as
//! `family.rs` finds them, grandchildren and those that left the group included. Rejected: the kernel's death signal for children. It
//! reaches the child alone, not what the child has started (`npx` starts `node`), and comes already when the thread has ended that
//! started the child.
//!
//! Without [`set_orphan_reaper`] there is none: a library can't know which program it could start.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::StopGrace;
use super::family::Family;

/// The reaper of this program.
static REAPER: OnceLock<Reaper> = OnceLock::new();

/// Has a process of this program beside the children that ends them if the program is killed. It is started with the first child, and
/// has to call [`reap_orphans`] with its standard input. Counts once, before the first child.
pub fn set_orphan_reaper(program: PathBuf, args: Vec<OsString>) {
    let reaper = Reaper {
        program,
        args,
        state: Mutex::default(),
    };
    // The first one counts.
    let _ = REAPER.set(reaper);
}

/// Reads which children a program has until it has ended, and ends those that are left.
pub fn reap_orphans(input: impl BufRead) {
    let mut families: HashMap<String, u32> = HashMap::new();
    for line in input.lines() {
        let Ok(line) = line else { break };
        match Note::read(&line) {
            Some(Note::Has { mark, leader }) => {
                families.insert(mark.to_owned(), leader);
            }
            Some(Note::Ended { mark }) => {
                families.remove(mark);
            }
            None => {}
        }
    }
    std::thread::scope(|scope| {
        for (mark, leader) in &families {
            scope.spawn(|| {
                let mut hunt = Family::new(*leader, mark).hunt();
                // The end of their input is an end in order.
                hunt.await_end(StopGrace::STANDARD.eof);
                hunt.end(StopGrace::STANDARD.term);
            });
        }
    });
}

/// A line for the reaper.
#[derive(Debug, PartialEq)]
enum Note<'n> {
    /// There is, or will be at once, a child with this mark; zero: the number of its process is not known yet.
    Has { mark: &'n str, leader: u32 },
    /// Nothing is left of it.
    Ended { mark: &'n str },
}

impl<'n> Note<'n> {
    fn read(line: &'n str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match (word, rest.split_once(' ')) {
            ("has", Some((mark, leader))) => {
                let leader = leader.parse().ok()?;
                Some(Self::Has { mark, leader })
            }
            ("ended", None) => Some(Self::Ended { mark: rest }),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Has { mark, leader } => format!("has {mark} {leader}\n"),
            Self::Ended { mark } => format!("ended {mark}\n"),
        }
    }
}

struct Reaper {
    program: PathBuf,
    args: Vec<OsString>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Once it was started. Its input ends with this program.
    process: Option<Child>,
    /// The children, so that a reaper which was ended itself can be followed by another.
    children: HashMap<String, u32>,
}

impl Reaper {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, note: &Note<'_>) {
        let mut state = self.state();
        match *note {
            Note::Has { mark, leader } => {
                state.children.insert(mark.to_owned(), leader);
            }
            Note::Ended { mark } => {
                state.children.remove(mark);
            }
        }
        if !state.tell(&note.write()) && !state.children.is_empty() {
            self.start(&mut state);
        }
    }

    /// Starts it and tells it of all children.
    fn start(&self, state: &mut State) {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // What ends the program by its group, such as Ctrl-C, is not for it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.spawn() {
            Ok(process) => state.process = Some(process),
            Err(error) => {
                tracing::warn!(%error, "agents stay if this program is killed: nothing could be started that ends them then");
                return;
            }
        }
        let children = state.children.iter();
        let notes: String = children
            .map(|(mark, leader)| {
                let leader = *leader;
                Note::Has { mark, leader }.write()
            })
            .collect();
        state.tell(&notes);
    }
}

impl State {
    /// Whether it was told.
    fn tell(&mut self, notes: &str) -> bool {
        let Some(process) = &mut self.process else {
            return false;
        };
        let input = process.stdin.as_mut();
        if input.is_some_and(|input| input.write_all(notes.as_bytes()).is_ok()) {
            return true;
        }
        // It was ended; nothing of it is to stay.
        let _ = process.kill();
        let _ = process.wait();
        self.process = None;
        false
    }
}

/// A child that the reaper knows of. Dropped, there is nothing left of it.
#[derive(Debug)]
pub(super) struct Watched {
    mark: String,
}

impl Watched {
    /// Tells the reaper of a child that is about to be started; nothing where there is none.
    pub(super) fn begin(mark: &str) -> Option<Self> {
        let reaper = REAPER.get().filter(|_| cfg!(unix))?;
        reaper.tell(&Note::Has { mark, leader: 0 });
        let mark = mark.to_owned();
        Some(Self { mark })
    }

    pub(super) fn set_leader(&self, leader: u32) {
        if let Some(reaper) = REAPER.get() {
            let mark = &self.mark;
            reaper.tell(&Note::Has { mark, leader });
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(reaper) = REAPER.get() {
            reaper.tell(&Note::Ended { mark: &self.mark });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_are_written() {
        for note in [
            Note::Has {
                mark: "1-a",
                leader: 7,
            },
            Note::Ended { mark: "1-a" },
        ] {
            assert_eq!(Note::read(note.write().trim_end()), Some(note));
        }
        for line in [
            "",
            "has",
            "has x",
            "has x y",
            "ended",
            "ended x 1",
            "other x",
        ] {
            assert_eq!(Note::read(line), None, "{line}");
        }
    }
}
