//! What happened to deliveries, kept for their explanation.
//!
//! A change adds one row with its entries, however many they are. Of a delivery that lives through very
//! much, the first and the newest entries are kept.

use relay_protocol::delivery_record::{DecisionOutcome, DeliveryDecision};
use relay_protocol::limits::DELIVERY_HISTORY_ENTRIES;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::directory::{from_json, to_json};
use super::writer::Tx;
use crate::delivery::history::{Entry, GivenContext};
use crate::delivery::waiting::LastChange;
use crate::error::Result;
use crate::store::position::Position;

/// How many of the first entries stay when some are left out.
const FIRST: usize = DELIVERY_HISTORY_ENTRIES / 4;

/// How many of the newest entries stay when some are left out.
const NEWEST: usize = DELIVERY_HISTORY_ENTRIES / 2 - 1;

/// After how many new entries it is time to leave some out again: as many as there is room for then.
const ROOM: u64 = (DELIVERY_HISTORY_ENTRIES - FIRST - 1 - NEWEST) as u64;

impl Tx<'_> {
    /// Adds entries to the history of a delivery, given how many it ever had; says how many it has had
    /// with these.
    pub(super) fn add_history(
        &mut self,
        delivery: Position,
        before: u64,
        entries: &[Entry],
        at: Timestamp,
    ) -> Result<u64> {
        if entries.is_empty() {
            return Ok(before);
        }
        self.insert_history(delivery, before, entries)?;
        let after = before + entries.len() as u64;
        if is_time_to_thin(before, after) {
            self.thin_history(delivery, after, at)?;
        }
        Ok(after)
    }

    fn insert_history(&mut self, delivery: Position, n: u64, entries: &[Entry]) -> Result<()> {
        self.execute(
            "INSERT INTO delivery_history (delivery, n, body) VALUES (?1, ?2, ?3)",
            params![delivery.key(), n, to_json(&entries)?],
        )?;
        Ok(())
    }

    /// Removes all entries of a delivery, because what it carries or what a receipt said is erased.
    pub(super) fn erase_history(&mut self, delivery: Position, at: Timestamp) -> Result<()> {
        let rows = self.execute(
            "DELETE FROM delivery_history WHERE delivery = ?1",
            [delivery.key()],
        )?;
        if rows == 0 {
            return Ok(());
        }
        let left = DeliveryDecision {
            reason: "what happened before was erased".to_owned(),
            ..hold(at)
        };
        self.insert_history(delivery, 0, &[Entry::Decision(left)])
    }

    /// Leaves out what is neither at the beginning nor at the end.
    fn thin_history(&mut self, delivery: Position, ever: u64, at: Timestamp) -> Result<()> {
        let mut entries = history(self.connection, delivery)?;
        if entries.len() <= FIRST + 1 + NEWEST {
            return Ok(());
        }
        let newest = entries.split_off(entries.len() - NEWEST);
        entries.truncate(FIRST);
        let left_out = ever - (FIRST + NEWEST) as u64;
        let mut rest = vec![left_out_entry(left_out, at)];
        rest.extend(newest);
        self.execute(
            "DELETE FROM delivery_history WHERE delivery = ?1",
            [delivery.key()],
        )?;
        self.insert_history(delivery, 0, &entries)?;
        self.insert_history(delivery, FIRST as u64, &rest)
    }
}

/// Whether there are too many entries: each time when as many came as there was room for.
const fn is_time_to_thin(before: u64, after: u64) -> bool {
    let most = DELIVERY_HISTORY_ENTRIES as u64;
    after > most && before.saturating_sub(1) / ROOM != (after - 1) / ROOM
}

fn left_out_entry(count: u64, at: Timestamp) -> Entry {
    Entry::Decision(DeliveryDecision {
        reason: format!("{count} entries are left out here"),
        ..hold(at)
    })
}

/// A decision that stands for others.
const fn hold(at: Timestamp) -> DeliveryDecision {
    DeliveryDecision {
        at,
        outcome: DecisionOutcome::Hold,
        reason: String::new(),
        session_id: None,
        mode: None,
        waits_for: None,
        until: None,
    }
}

/// Everything that is kept of a delivery's way, oldest first.
pub(super) fn history(connection: &Connection, delivery: Position) -> Result<Vec<Entry>> {
    let mut statement = connection
        .prepare_cached("SELECT body FROM delivery_history WHERE delivery = ?1 ORDER BY n")?;
    let mut rows = statement.query([delivery.key()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        found.extend(from_json::<Vec<Entry>>(&body)?);
    }
    Ok(found)
}

/// What the caller that made a delivery gave for the session.
pub(super) fn given_context(connection: &Connection, delivery: Position) -> Result<GivenContext> {
    let first: Option<String> = connection
        .prepare_cached("SELECT body FROM delivery_history WHERE delivery = ?1 AND n = 0")?
        .query_row([delivery.key()], |row| row.get(0))
        .optional()?;
    let entries: Vec<Entry> = first.map_or_else(|| Ok(Vec::new()), |body| from_json(&body))?;
    Ok(match entries.into_iter().next() {
        Some(Entry::Context(given)) => given,
        _ => GivenContext::default(),
    })
}

/// The last thing that happened to a delivery, if anything did since it was made.
pub(super) fn last_change(
    connection: &Connection,
    delivery: Position,
) -> Result<Option<LastChange>> {
    let mut statement = connection
        .prepare_cached("SELECT body FROM delivery_history WHERE delivery = ?1 ORDER BY n DESC")?;
    let mut rows = statement.query([delivery.key()])?;
    // The newest row may hold nothing but notes, such as a receipt that came late.
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        if let Some(change) = LastChange::among(&from_json::<Vec<Entry>>(&body)?) {
            return Ok(Some(change));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts what is kept as entries come in changes of these sizes.
    fn most_kept(sizes: impl Iterator<Item = u64>) -> u64 {
        let (mut ever, mut kept, mut most) = (0, 0, 0);
        for size in sizes {
            kept += size;
            if is_time_to_thin(ever, ever + size) {
                kept = kept.min((FIRST + 1 + NEWEST) as u64);
            }
            ever += size;
            most = most.max(kept);
        }
        most
    }

    #[test]
    fn never_more_than_the_limit_is_kept() {
        for size in [1, 2, 3, 7, 49, 50, 51, 199, 200, 201, 1_000] {
            let most = most_kept(std::iter::repeat_n(size, 2_000));
            assert!(most <= DELIVERY_HISTORY_ENTRIES as u64, "{size}: {most}");
        }
        let mixed = (0..10_000).map(|at| at % 13 + 1);
        assert!(most_kept(mixed) <= DELIVERY_HISTORY_ENTRIES as u64);
    }
}
