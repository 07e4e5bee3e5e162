//! The chain, checked; and retention, which shortens the log. The other lawful way is in [`super::erasing`].

use std::collections::VecDeque;
use std::fmt::Write as _;

use relay_protocol::event::is_bulky;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::erasing::erase_rows;
use super::log::{Content, Head, bounds, header, read_cut, read_end, read_head};
use super::log_read::{LogRow, SELECT_LOG, read_row};
use super::messages::{delivery_digest, message_digest};
use super::writer::Tx;
use crate::error::Result;
use crate::store::chain::{Hash, PayloadDigest, Salt, link};
use crate::store::position::Position;
use crate::store::records::{AgentNo, AuditReport, ChainHead, WorkspaceRow};
use crate::store::requests::Retention;

/// Most payloads that one change of the retention erases; the next one goes on.
const ERASED_AT_ONCE: usize = 1_000;

/// What stands where a text was erased.
pub(super) const ERASED: &str = "[erased]";

pub(super) fn head(connection: &Connection, workspace_no: u32) -> Result<ChainHead> {
    let Head { seq, hash } = read_head(connection, workspace_no)?;
    Ok(ChainHead {
        seq,
        hash: hex(&hash),
    })
}

/// The end of the chain as it was when this was the last sequence number; nothing if no change ended there, or it
/// was cut off since.
pub(super) fn head_at(
    connection: &Connection,
    workspace_no: u32,
    seq: u64,
) -> Result<Option<ChainHead>> {
    let cut = read_cut(connection, workspace_no)?;
    let last = connection
        .prepare_cached(
            "SELECT position, count, hash FROM log WHERE position BETWEEN ?1 AND ?2
             ORDER BY position DESC LIMIT 1",
        )?
        .query_row(
            [
                bounds(workspace_no).0,
                Position::new(workspace_no, seq).key(),
            ],
            read_end,
        )
        .optional()?;
    let found = last.into_iter().chain([cut]).find(|end| end.seq == seq);
    Ok(found.map(|Head { seq, hash }| ChainHead {
        seq,
        hash: hex(&hash),
    }))
}

fn hex(hash: &Hash) -> String {
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing to a string can't fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Checks the chain from its beginning.
pub(super) fn verify(connection: &Connection, workspace: &WorkspaceRow) -> Result<AuditReport> {
    let start = read_cut(connection, workspace.no)?;
    check(connection, workspace, start)
}

/// Checks the last links of the chain.
pub(super) fn verify_tail(
    connection: &Connection,
    workspace: &WorkspaceRow,
    links: u64,
) -> Result<AuditReport> {
    let (first, last) = bounds(workspace.no);
    let before = connection
        .prepare_cached(
            "SELECT position, count, hash FROM log WHERE position BETWEEN ?1 AND ?2
             ORDER BY position DESC LIMIT 1 OFFSET ?3",
        )?
        .query_row(params![first, last, links], read_end)
        .optional()?;
    match before {
        Some(start) => check(connection, workspace, start),
        None => verify(connection, workspace),
    }
}

fn check(connection: &Connection, workspace: &WorkspaceRow, start: Head) -> Result<AuditReport> {
    let last = bounds(workspace.no).1;
    let mut report = AuditReport {
        from_seq: start.seq + 1,
        to_seq: start.seq,
        ..AuditReport::default()
    };
    let mut previous = start.hash;
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_LOG} WHERE position > ?1 AND position <= ?2 ORDER BY position"
    ))?;
    let mut rows = statement.query([Position::new(workspace.no, start.seq).key(), last])?;
    while let Some(row) = rows.next()? {
        let row = read_row(row)?;
        let seq = row.position.seq();
        if seq != report.to_seq + 1 {
            report.missing.push((report.to_seq + 1, seq - 1));
        }
        report.erased += u64::from(row.digest.is_some());
        let digest = payload_digest(connection, &row)?;
        let header = header(
            workspace.id,
            row.position,
            row.count,
            &row.event_type,
            row.at,
        );
        let intact = digest.is_some_and(|digest| link(&previous, header, &digest) == row.hash);
        // After a gap the row before is unknown, so the link can't be checked; the gap is reported.
        if !intact && seq == report.to_seq + 1 {
            report.changed.push(seq);
        }
        previous = row.hash;
        report.rows += 1;
        report.events += row.count;
        report.to_seq = (seq + row.count).saturating_sub(1);
    }
    report.head = hex(&previous);
    Ok(report)
}

/// The digest of a row's payload as it is stored now; `None` when parts of it are gone.
pub(super) fn payload_digest(connection: &Connection, row: &LogRow) -> Result<Option<Hash>> {
    if row.digest.is_some() {
        return Ok(row.digest);
    }
    let Some(salt) = row.salt else {
        return Ok(None);
    };
    match Content::from_code(row.content) {
        Ok(Content::Inline) => Ok(row.payload.as_ref().map(|payload| {
            let mut digest = PayloadDigest::new(&salt);
            digest
                .text(Some(payload))
                .number(row.message.map(Position::key));
            digest.finish()
        })),
        Ok(Content::Send) => send_digest(connection, row, &salt),
        Ok(Content::Version) => version_digest(connection, row, &salt),
        Err(_) => Ok(None),
    }
}

/// Text and extra of the version that was written at a place.
fn version_text(
    connection: &Connection,
    written: Position,
    message: Position,
) -> Result<Option<(String, Option<String>)>> {
    Ok(connection
        .prepare_cached(
            "SELECT text, extra FROM message_versions WHERE position = ?1
             UNION ALL
             SELECT text, extra FROM messages
             WHERE position = ?2 AND coalesce(version_position, position) = ?1",
        )?
        .query_row([written.key(), message.key()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?)
}

fn send_digest(connection: &Connection, row: &LogRow, salt: &Salt) -> Result<Option<Hash>> {
    let Some((text, extra)) = version_text(connection, row.position, row.position)? else {
        return Ok(None);
    };
    let mut digest = PayloadDigest::new(salt);
    message_digest(&mut digest, &text, extra.as_deref());
    // The message has the time of its row, which the header covers, and its deliveries are its own.
    let recipients: Option<u64> = connection
        .prepare_cached(
            "SELECT room, author, author_name, parent, recipients FROM messages
             WHERE position = ?1 AND at = ?2",
        )?
        .query_row([row.position.key(), row.at.as_millis()], |message| {
            digest.number(message.get(0)?).number(message.get(1)?);
            let author_name = message.get::<_, Option<String>>(2)?;
            digest.text(author_name.as_deref()).number(message.get(3)?);
            message.get(4)
        })
        .optional()?;
    let Some(recipients) = recipients else {
        return Ok(None);
    };
    let after = row.position.plus(row.count).key();
    let first = after.saturating_sub_unsigned(recipients);
    let mut statement = connection.prepare_cached(
        "SELECT agent FROM deliveries WHERE position >= ?1 AND position < ?2 AND message = ?3
         ORDER BY position",
    )?;
    let mut agents = statement.query([first, after, row.position.key()])?;
    while let Some(agent) = agents.next()? {
        delivery_digest(&mut digest, AgentNo(agent.get(0)?));
    }
    Ok(Some(digest.finish()))
}

fn version_digest(connection: &Connection, row: &LogRow, salt: &Salt) -> Result<Option<Hash>> {
    let Some(message) = row.message else {
        return Ok(None);
    };
    Ok(
        version_text(connection, row.position, message)?.map(|(text, extra)| {
            let mut digest = PayloadDigest::new(salt);
            message_digest(&mut digest, &text, extra.as_deref());
            digest.number(Some(message.key()));
            digest.finish()
        }),
    )
}

/// Erases old payloads of bulky kinds, and cuts the oldest part off.
pub(super) fn retain(tx: &mut Tx<'_>, retention: &Retention) -> Result<(u64, u64)> {
    let workspace = tx.workspace(retention.workspace_no)?;
    let cut = match retention.all_before {
        Some(before) => cut_prefix(tx, &workspace, before)?,
        None => 0,
    };
    let erased = match retention.bulky_before {
        Some(before) => erase_bulky(tx, &workspace, before, retention.at)?,
        None => 0,
    };
    Ok((erased, cut))
}

fn erase_bulky(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    before: Timestamp,
    at: Timestamp,
) -> Result<u64> {
    let (first, last) = bounds(workspace.no);
    let rows: VecDeque<LogRow> = tx
        .query(&format!(
            "{SELECT_LOG} WHERE position BETWEEN ?1 AND ?2 AND at < ?3 AND digest IS NULL
             AND content = 0 ORDER BY position"
        ))?
        .query_map(params![first, last, before.as_millis()], read_row)?
        .filter(|row| row.as_ref().map_or(true, |row| is_bulky(&row.event_type)))
        .take(ERASED_AT_ONCE)
        .collect::<rusqlite::Result<_>>()?;
    erase_rows(tx, workspace, rows, "retention", at)
}

/// Removes whole rows from the beginning, leaving the hash from which the rest goes on.
fn cut_prefix(tx: &mut Tx<'_>, workspace: &WorkspaceRow, before: Timestamp) -> Result<u64> {
    let (first, last) = bounds(workspace.no);
    let kept: i64 = tx
        .query("SELECT min(position) FROM log WHERE position BETWEEN ?1 AND ?2 AND at >= ?3")?
        .query_row(params![first, last, before.as_millis()], |row| {
            row.get::<_, Option<i64>>(0)
        })?
        .unwrap_or(last);
    let end = tx
        .query(
            "SELECT position + count - 1, hash FROM log WHERE position >= ?1 AND position < ?2
             ORDER BY position DESC LIMIT 1",
        )?
        .query_row([first, kept], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Hash>(1)?))
        })
        .optional()?;
    let Some((end, hash)) = end else { return Ok(0) };
    let cut = tx.execute(
        "DELETE FROM log WHERE position BETWEEN ?1 AND ?2",
        [first, end],
    )?;
    tx.execute(
        "INSERT OR REPLACE INTO log_cuts (workspace, position, hash) VALUES (?1, ?2, ?3)",
        params![workspace.no, end, hash],
    )?;
    Ok(cut as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relay_protocol::event::{RelayEvent, SeqRange};
    use relay_protocol::ids::{AgentId, ChannelId, TokenId, WorkspaceId};
    use serde_json::json;

    use super::*;
    use crate::environment::Environment;
    use crate::store::requests::{NewToken, NewWorkspace};
    use crate::store::sqlite::{SqliteOptions, SqliteStore};
    use crate::store::{Store as _, WorkspaceRow};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn workspace(store: &SqliteStore) -> Arc<WorkspaceRow> {
        let key = NewToken {
            id: TokenId::new(at(1), 1),
            hash: [1; 32],
            at: at(1),
        };
        let new = NewWorkspace {
            id: WorkspaceId::new(at(1), 2),
            name: "lab".to_owned(),
            key,
            general: ChannelId::new(at(1), 3),
        };
        store.create_workspace(new).wait().unwrap()
    }

    /// Logs what a session reports, which the engine does not do by itself.
    fn report(
        store: &SqliteStore,
        workspace: &Arc<WorkspaceRow>,
        millis: i64,
        event: serde_json::Value,
    ) {
        let agent = AgentId::new(at(1), 4);
        let tag = event["type"].clone();
        let event = json!({ "type": tag, "agentId": agent, "event": event });
        let event: RelayEvent = serde_json::from_value(event).unwrap();
        let workspace = workspace.clone();
        let logged = store
            .writer
            .submit(move |tx| tx.log(&workspace, at(millis), event.clone()));
        logged.wait().unwrap();
    }

    #[test]
    fn retention_takes_old_bulky_payloads_and_nothing_else() {
        let directory = tempfile::TempDir::new().unwrap();
        let options = SqliteOptions::new(directory.path().join("relay.db"));
        let store = SqliteStore::open(&options, Environment::system().random).unwrap();
        let workspace = workspace(&store);
        let output = || json!({ "type": "terminal.output", "text": "hunter2" });
        let line = || json!({ "type": "log", "level": "info", "message": "started" });
        for (millis, event) in [(10, output()), (10, line()), (20, output()), (30, output())] {
            report(&store, &workspace, millis, event);
        }
        let retention = |before| Retention {
            workspace_no: workspace.no,
            bulky_before: Some(at(before)),
            all_before: None,
            at: at(40),
        };
        assert_eq!(store.retain(retention(10)).wait(), Ok((0, 0)));
        assert_eq!(store.retain(retention(30)).wait(), Ok((2, 0)));
        assert_eq!(store.retain(retention(30)).wait(), Ok((0, 0)));
        let events = store.events(workspace.no, 2, 10).wait().unwrap();
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.event.event_type.as_str(), event.event.event.is_some()))
            .collect();
        let expected = [
            ("terminal.output", false),
            ("log", true),
            ("terminal.output", false),
            ("terminal.output", true),
            ("audit.erased", true),
        ];
        assert_eq!(found, expected);
        let Some(RelayEvent::AuditErased(erased)) = &events[4].event.event else {
            panic!("{:?}", events[4].event)
        };
        assert_eq!((erased.entries, erased.from_seq, erased.to_seq), (2, 3, 5));
        let range = |seq| SeqRange {
            from_seq: seq,
            to_seq: seq,
        };
        assert_eq!(erased.ranges, [range(3), range(5)]);
        assert_eq!(erased.reason, "retention");
        let report = store.verify(workspace.no).wait().unwrap();
        assert!(report.is_intact(), "{report:?}");
        assert_eq!(report.erased, 2);
    }
}
