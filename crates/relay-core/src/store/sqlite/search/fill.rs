//! What is to be indexed: read from the database, in the order of the log.
//!
//! A workspace that the index does not know begins with a scan of its messages, because the oldest part
//! of its log may have been cut off; what happened since the scan began follows from the log. Indexing
//! a message again does no harm: it is always its current text that is read.

use relay_protocol::event::{RelayEvent, SeqRange};
use relay_protocol::wire;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::audit::ERASED;
use super::super::log::{Content, Head, bounds, read_cut, read_head};
use crate::error::Result;
use crate::store::chain::Hash;
use crate::store::position::Position;

/// Most messages of one batch, which is one transaction of the index.
const BATCH_MESSAGES: usize = 2_000;

/// Bytes of text after which a batch is full.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Most rows of the log that one batch goes through.
const BATCH_ROWS: usize = 20_000;

/// How far a workspace is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// The last event that was looked at.
    pub(super) seq: u64,
    /// The hash of its row, by which the log is known to be the same.
    pub(super) hash: Hash,
    /// While the scan goes on: the last message that it has passed.
    pub(super) scanned: Option<u64>,
}

impl Progress {
    /// Whether all that was written up to a place is indexed.
    pub(super) fn covers(&self, seq: u64) -> bool {
        self.scanned.is_none() && self.seq >= seq
    }

    fn scan_to(head: Head) -> Self {
        Self {
            seq: head.seq,
            hash: head.hash,
            scanned: Some(0),
        }
    }
}

/// A message as the index sees it.
pub(super) struct Document {
    pub(super) position: Position,
    pub(super) at: i64,
    pub(super) room: i64,
    pub(super) author: Option<i64>,
    /// `None` when it was erased.
    pub(super) text: Option<String>,
}

/// What one transaction adds to the index.
pub(super) struct Batch {
    pub(super) documents: Vec<Document>,
    /// How far the workspace is indexed with it.
    pub(super) progress: Progress,
    /// True when words of erased texts may be left in the file and have to go.
    pub(super) purge: bool,
    bytes: usize,
    rows: usize,
}

impl Batch {
    fn after(progress: Progress) -> Self {
        Self {
            documents: Vec::new(),
            progress,
            purge: false,
            bytes: 0,
            rows: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.documents.len() >= BATCH_MESSAGES
            || self.bytes >= BATCH_BYTES
            || self.rows >= BATCH_ROWS
    }

    fn add(&mut self, document: Document) {
        self.bytes += document.text.as_ref().map_or(0, String::len);
        self.documents.push(document);
    }
}

/// All workspaces.
pub(super) fn workspaces(main: &Connection) -> Result<Vec<u32>> {
    Ok(main
        .prepare_cached("SELECT no FROM workspaces")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// Whether this is the database that was indexed so far, and not another one or an older copy.
pub(super) fn is_of(
    main: &Connection,
    mut indexed: impl Iterator<Item = (u32, Progress)>,
) -> Result<bool> {
    indexed.try_fold(true, |so_far, (workspace_no, progress)| {
        Ok(so_far && row_end(main, workspace_no, progress.seq)? == (progress.seq, progress.hash))
    })
}

/// Where the row ends that begins last at or before a place, and its hash.
fn row_end(main: &Connection, workspace_no: u32, seq: u64) -> Result<(u64, Hash)> {
    let (first, last) = (
        bounds(workspace_no).0,
        Position::new(workspace_no, seq).key(),
    );
    let row = main
        .prepare_cached(
            "SELECT position + count - 1, hash FROM log WHERE position BETWEEN ?1 AND ?2
             ORDER BY position DESC LIMIT 1",
        )?
        .query_row([first, last], |row| {
            Ok((Position::from_key(row.get(0)?).seq(), row.get(1)?))
        })
        .optional()?;
    match row {
        Some(end) => Ok(end),
        None => read_cut(main, workspace_no).map(|cut| (cut.seq, cut.hash)),
    }
}

/// What comes next; `None` when nothing is missing.
pub(super) fn next_batch(
    main: &Connection,
    workspace_no: u32,
    progress: Option<Progress>,
) -> Result<Option<Batch>> {
    match progress {
        None => start_over(main, workspace_no).map(Some),
        Some(progress) => match progress.scanned {
            Some(passed) => scan(main, workspace_no, progress, passed).map(Some),
            None => follow_log(main, workspace_no, progress),
        },
    }
}

/// Begins with a scan of all messages there are now.
fn start_over(main: &Connection, workspace_no: u32) -> Result<Batch> {
    let progress = Progress::scan_to(read_head(main, workspace_no)?);
    scan(main, workspace_no, progress, 0)
}

const SELECT_DOCUMENT: &str = "SELECT position, at, room, author, text FROM messages";

fn read_document(row: &Row<'_>) -> rusqlite::Result<Document> {
    let text: String = row.get(4)?;
    Ok(Document {
        position: Position::from_key(row.get(0)?),
        at: row.get(1)?,
        room: row.get(2)?,
        author: row.get(3)?,
        text: (text != ERASED).then_some(text),
    })
}

fn scan(main: &Connection, workspace_no: u32, progress: Progress, passed: u64) -> Result<Batch> {
    let mut batch = Batch::after(progress);
    let mut statement = main.prepare_cached(&format!(
        "{SELECT_DOCUMENT} WHERE position > ?1 AND position <= ?2 ORDER BY position"
    ))?;
    let mut rows = statement.query([
        Position::new(workspace_no, passed).key(),
        Position::new(workspace_no, progress.seq).key(),
    ])?;
    while !batch.is_full() {
        let Some(row) = rows.next()? else {
            batch.progress.scanned = None;
            return Ok(batch);
        };
        let document = read_document(row)?;
        batch.progress.scanned = Some(document.position.seq());
        batch.add(document);
    }
    Ok(batch)
}

fn follow_log(main: &Connection, workspace_no: u32, progress: Progress) -> Result<Option<Batch>> {
    let mut batch = Batch::after(progress);
    let mut statement = main.prepare_cached(
        "SELECT position, count, content, message, hash, type = 'audit.erased',
                CASE type WHEN 'audit.erased' THEN payload END
         FROM log WHERE position > ?1 AND position <= ?2 ORDER BY position",
    )?;
    let mut rows = statement.query([
        Position::new(workspace_no, progress.seq).key(),
        bounds(workspace_no).1,
    ])?;
    while !batch.is_full()
        && let Some(row) = rows.next()?
    {
        let entry = read_entry(row)?;
        let follows = entry.position.seq() == batch.progress.seq + 1;
        if !follows || !entry.index(main, &mut batch)? {
            return start_over(main, workspace_no).map(Some);
        }
        batch.progress.seq += entry.count;
        batch.progress.hash = entry.hash;
        batch.rows += 1;
    }
    if batch.rows > 0 {
        return Ok(Some(batch));
    }
    // No rows, but a later end: all that was missing was cut off.
    let is_cut = read_head(main, workspace_no)?.seq > progress.seq;
    is_cut.then(|| start_over(main, workspace_no)).transpose()
}

/// A row of the log, as far as it matters here.
struct LogEntry {
    position: Position,
    count: u64,
    content: i64,
    message: Option<i64>,
    hash: Hash,
    is_erasure: bool,
    erasure: Option<String>,
}

fn read_entry(row: &Row<'_>) -> rusqlite::Result<LogEntry> {
    Ok(LogEntry {
        position: Position::from_key(row.get(0)?),
        count: row.get(1)?,
        content: row.get(2)?,
        message: row.get(3)?,
        hash: row.get(4)?,
        is_erasure: row.get(5)?,
        erasure: row.get(6)?,
    })
}

impl LogEntry {
    /// Adds the messages that it changed; false when it does not say any more which these are.
    fn index(&self, main: &Connection, batch: &mut Batch) -> Result<bool> {
        let message = match Content::from_code(self.content)? {
            Content::Send => Some(self.position.key()),
            Content::Version => self.message,
            Content::Inline if self.is_erasure => return self.index_erased(main, batch),
            Content::Inline => None,
        };
        if let Some(message) = message {
            let document = main
                .prepare_cached(&format!("{SELECT_DOCUMENT} WHERE position = ?1"))?
                .query_row([message], read_document)
                .optional()?;
            document
                .into_iter()
                .for_each(|document| batch.add(document));
        }
        Ok(true)
    }

    fn index_erased(&self, main: &Connection, batch: &mut Batch) -> Result<bool> {
        let event = self.erasure.as_deref().map(str::as_bytes).map(wire::decode);
        let Some(Ok(RelayEvent::AuditErased(erased))) = event else {
            return Ok(false);
        };
        let whole = SeqRange {
            from_seq: erased.from_seq,
            to_seq: erased.to_seq,
        };
        let ranges = match erased.ranges.as_slice() {
            [] => &[whole],
            ranges => ranges,
        };
        for range in ranges {
            add_erased(main, self.position.workspace_no(), *range, batch)?;
        }
        Ok(true)
    }
}

/// Adds the messages that have lost their text, or an earlier text, between two places.
fn add_erased(
    main: &Connection,
    workspace_no: u32,
    erased: SeqRange,
    batch: &mut Batch,
) -> Result<()> {
    let first = bounds(workspace_no).0;
    // The first place may be that of a delivery; its message comes before it.
    let from: Option<i64> = main
        .prepare_cached("SELECT max(position) FROM messages WHERE position BETWEEN ?1 AND ?2")?
        .query_row(
            [first, Position::new(workspace_no, erased.from_seq).key()],
            |row| row.get(0),
        )?;
    let from = from.unwrap_or(first);
    let to = Position::new(workspace_no, erased.to_seq).key();
    let mut statement = main.prepare_cached(&format!(
        "{SELECT_DOCUMENT} WHERE position BETWEEN ?1 AND ?3 AND text = ?4
         AND (position >= ?2 OR version_position BETWEEN ?2 AND ?3)"
    ))?;
    let documents = statement.query_map(params![first, from, to, ERASED], read_document)?;
    for document in documents {
        batch.add(document?);
        batch.purge = true;
    }
    let had_versions = main
        .prepare_cached(
            "SELECT 1 FROM message_versions WHERE position BETWEEN ?1 AND ?2 AND text = ?3",
        )?
        .exists(params![from, to, ERASED])?;
    batch.purge |= had_versions;
    Ok(())
}
