//! What a session remembers of its deliveries, across restarts of the process.
//!
//! A file with one line for each step: `begun`, then `delivered`, `accepted` or `undone`, and the delivery's id. A line is
//! written right after the step, before the server hears of it. A process that dies between surfacing and
//! writing leaves `begun` alone; when that delivery is offered again, its context says `redelivered`.
//!
//! Lines are handed to the system, not synced to the disk: a crash of the process loses none, a crash of the
//! machine may lose the last ones, and a message may then be surfaced twice. The file is locked while it is in use:
//! two processes that believe to be the same session would each surface everything.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use relay_protocol::ids::DeliveryId;

use crate::error::{Error, Result};

/// How many deliveries are remembered; the server offers nothing again that ended so long ago.
const REMEMBERED: usize = 10_000;

/// How far a delivery came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was handed to the session, which has not answered.
    Begun,
    /// The session took it over.
    Accepted,
    /// It was surfaced.
    Delivered,
}

/// What a session remembers.
pub(super) struct Memory {
    steps: HashMap<DeliveryId, Step>,
    /// The oldest first; may name deliveries that were forgotten.
    order: VecDeque<DeliveryId>,
    file: Option<MemoryFile>,
}

struct MemoryFile {
    path: PathBuf,
    file: File,
    lines: usize,
}

impl Memory {
    /// Remembers as long as the process lives.
    pub(super) fn fleeting() -> Self {
        Self {
            steps: HashMap::new(),
            order: VecDeque::new(),
            file: None,
        }
    }

    /// Remembers in a file, which is made if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::read(path).map_err(|why| Error::Memory {
            path: path.to_owned(),
            why: Arc::new(why),
        })
    }

    fn read(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let mut memory = Self::fleeting();
        let mut lines = 0;
        for line in BufReader::new(&file).lines() {
            lines += 1;
            // A last line that was cut off says nothing.
            if let Some((step, id)) = parse(&line?) {
                memory.note(id, step);
            }
        }
        let path = path.to_owned();
        memory.file = Some(MemoryFile { path, file, lines });
        Ok(memory)
    }

    /// How far a delivery came.
    pub(super) fn step(&self, id: DeliveryId) -> Option<Step> {
        self.steps.get(&id).copied()
    }

    /// Writes a step down; `None` takes it back: nothing was surfaced.
    pub(super) fn remember(&mut self, id: DeliveryId, step: Option<Step>) {
        if self.step(id) == step {
            return;
        }
        self.note(id, step);
        if let Err(error) = self.write(id, step) {
            // The session goes on: a message that is seen twice is better than one that is not seen.
            tracing::error!(%error, "what was surfaced can't be written down");
        }
    }

    fn note(&mut self, id: DeliveryId, step: Option<Step>) {
        match step {
            None => {
                self.steps.remove(&id);
            }
            Some(step) => {
                if self.steps.insert(id, step).is_none() {
                    self.order.push_back(id);
                }
            }
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.steps.remove(&oldest);
            }
        }
    }

    fn write(&mut self, id: DeliveryId, step: Option<Step>) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if file.lines > REMEMBERED * 4 {
            file.rewrite(&self.steps, &self.order)?;
        }
        file.lines += 1;
        file.file.write_all(line(id, step).as_bytes())
    }
}

impl MemoryFile {
    /// Keeps only what is remembered. The new file takes the place of the old one whole, or not at all.
    fn rewrite(
        &mut self,
        steps: &HashMap<DeliveryId, Step>,
        order: &VecDeque<DeliveryId>,
    ) -> io::Result<()> {
        let path = self.path.with_extension("new");
        let mut file = open(&path)?;
        file.set_len(0)?;
        let kept: Vec<String> = order
            .iter()
            .filter_map(|id| steps.get(id).map(|step| line(*id, Some(*step))))
            .collect();
        file.write_all(kept.concat().as_bytes())?;
        std::fs::rename(&path, &self.path)?;
        self.lines = kept.len();
        self.file = file;
        Ok(())
    }
}

/// Opens a file for this process alone.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create(true).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another session uses this file",
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn line(id: DeliveryId, step: Option<Step>) -> String {
    let word = match step {
        Some(Step::Begun) => "begun",
        Some(Step::Accepted) => "accepted",
        Some(Step::Delivered) => "delivered",
        None => "undone",
    };
    format!("{word} {id}\n")
}

fn parse(line: &str) -> Option<(Option<Step>, DeliveryId)> {
    let (word, id) = line.split_once(' ')?;
    let step = match word {
        "begun" => Some(Step::Begun),
        "accepted" => Some(Step::Accepted),
        "delivered" => Some(Step::Delivered),
        "undone" => None,
        _ => return None,
    };
    Some((step, id.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use relay_protocol::time::Timestamp;

    use super::*;

    fn id(number: u128) -> DeliveryId {
        DeliveryId::new(Timestamp::from_millis(1), number)
    }

    #[test]
    fn a_file_outlives_its_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen");
        let mut memory = Memory::open(&path).unwrap();
        for (number, step) in [
            (1, Some(Step::Begun)),
            (2, Some(Step::Begun)),
            (2, Some(Step::Delivered)),
            (3, Some(Step::Accepted)),
            (4, Some(Step::Begun)),
            (4, None),
        ] {
            memory.remember(id(number), step);
        }
        let busy = Memory::open(&path).err().unwrap();
        assert!(busy.to_string().contains("another session"), "{busy}");
        drop(memory);
        // The process died while it wrote.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"delivered 0198").unwrap();
        let memory = Memory::open(&path).unwrap();
        let found: Vec<_> = (1..=5).map(|number| memory.step(id(number))).collect();
        let expected = [
            Some(Step::Begun),
            Some(Step::Delivered),
            Some(Step::Accepted),
            None,
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn neither_file_nor_memory_grows_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen");
        let mut memory = Memory::open(&path).unwrap();
        let last = REMEMBERED as u128 * 5;
        for number in 0..=last {
            memory.remember(id(number), Some(Step::Delivered));
        }
        assert_eq!(memory.steps.len(), REMEMBERED);
        assert_eq!(
            (memory.step(id(0)), memory.step(id(last))),
            (None, Some(Step::Delivered))
        );
        drop(memory);
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= REMEMBERED * 4 + 1, "{lines}");
        let memory = Memory::open(&path).unwrap();
        assert_eq!(memory.step(id(last)), Some(Step::Delivered));
    }
}
