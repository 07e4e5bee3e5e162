//! One file as the disk has it: its content at the last sync, and the changes since.

use std::collections::HashMap;

use super::random::SplitMix64;

/// The unit a disk writes as a whole.
const SECTOR: usize = 512;

/// The content of one file, whatever name it has.
#[derive(Debug, Default)]
pub(super) struct File {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Truncate { size: usize },
}

impl File {
    pub(super) fn synced(content: Vec<u8>) -> Self {
        Self {
            synced: content,
            pending: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        self.pending.push(Change::Write {
            offset,
            data: data.to_vec(),
        });
    }

    pub(super) fn truncate(&mut self, size: usize) {
        self.pending.push(Change::Truncate { size });
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.synced);
        }
    }

    /// Says whether a cut would lose something.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the content without any pending change.
    pub(super) fn after_losing_pending(&self) -> Vec<u8> {
        self.synced.clone()
    }

    /// Returns the content with some of the pending changes.
    ///
    /// A sector reaches the disk as it was at one moment, so it has all writes to it up to then and
    /// none after; each sector has its own moment, and so has the length of the file. A truncate that
    /// reached the disk discards what was behind it.
    pub(super) fn after_keeping_some(&self, random: &mut SplitMix64) -> Vec<u8> {
        let sector_moments = self.choose_sector_moments(random);
        let length_moment = random.below(self.pending.len() as u64 + 1) as usize;
        let mut live = self.synced.clone();
        let mut disk = self.synced.clone();
        let mut length = disk.len();
        for (index, change) in self.pending.iter().enumerate() {
            change.apply(&mut live);
            if index < length_moment {
                length = live.len();
            }
            match change {
                Change::Write { .. } => {
                    for sector in change.sectors() {
                        if sector_moments[&sector] == index + 1 {
                            copy_sector(sector, &live, &mut disk);
                        }
                    }
                }
                Change::Truncate { size } if index < length_moment => disk.truncate(*size),
                Change::Truncate { .. } => {}
            }
        }
        disk.resize(length, 0);
        disk
    }

    /// Picks for every sector written to after how many of the changes it reached the disk; 0: never.
    fn choose_sector_moments(&self, random: &mut SplitMix64) -> HashMap<usize, usize> {
        let mut choices: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut order = Vec::new();
        for (index, change) in self.pending.iter().enumerate() {
            for sector in change.sectors() {
                let moments = choices.entry(sector).or_insert_with(|| {
                    order.push(sector);
                    vec![0]
                });
                moments.push(index + 1);
            }
        }
        // Some cuts come long after the last writes and some right after, so that nearly all or
        // hardly any of the sectors are on the disk.
        let settled = random.below(8);
        // In order of first use, because the map's own order differs from run to run.
        let pick = |sector| {
            let moments: &Vec<usize> = &choices[&sector];
            let last = moments.len() - 1;
            let chosen = if random.below(8) < settled {
                last
            } else {
                random.below(last as u64 + 1) as usize
            };
            (sector, moments[chosen])
        };
        order.into_iter().map(pick).collect()
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { offset, data } => {
                let end = offset + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(data);
            }
            Change::Truncate { size } => content.truncate(*size),
        }
    }

    /// Returns the sectors a write touches; a truncate touches none, it changes the length.
    fn sectors(&self) -> std::ops::Range<usize> {
        match self {
            Change::Write { offset, data } => {
                offset / SECTOR..(offset + data.len()).div_ceil(SECTOR)
            }
            Change::Truncate { .. } => 0..0,
        }
    }
}

fn copy_sector(sector: usize, from: &[u8], to: &mut Vec<u8>) {
    let start = sector * SECTOR;
    let end = from.len().min(start + SECTOR);
    if to.len() < end {
        to.resize(end, 0);
    }
    to[start..end].copy_from_slice(&from[start..end]);
}
