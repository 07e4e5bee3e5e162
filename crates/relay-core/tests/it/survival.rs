//! What must be found in a database after a crash: all that was acknowledged, nothing in part.
//!
//! [`inspect`] opens it as the server would, compares the log and the messages with the
//! acknowledgements, uses it a little, closes it and looks at the tables past the engine.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use relay_core::{Caller, Engine};
use relay_protocol::api::messages::{SearchQuery, SendMessage, SendTarget};
use relay_protocol::event::{LoggedEvent, MessageReacted, MessageRead, ReactionChange, RelayEvent};
use relay_protocol::ids::{DeliveryId, MessageId};
use relay_protocol::selector::Selector;
use relay_protocol::time::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::writers::{Ack, DATABASE, Keys, open_as_of, open_in, open_unsynced_in, settle};

/// How many of the keyed sends are repeated, the newest first.
const REPEATED: usize = 10;

/// Why a database is not as it should be.
#[derive(Debug)]
pub(crate) struct Wrong(String);

impl<E: std::fmt::Display> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails with a sentence unless a condition holds.
macro_rules! check {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err(Wrong(format!($($why)+)));
        }
    };
}

/// Returns what is wrong with the database of a directory, given what was acknowledged before.
pub(crate) fn inspect(directory: &Path, keys: &Keys, acks: &[Ack]) -> Result<(), Wrong> {
    inspect_with(open_unsynced_in(directory)?, directory, keys, acks)
}

fn inspect_with(engine: Engine, directory: &Path, keys: &Keys, acks: &[Ack]) -> Result<(), Wrong> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(inspect_open(&engine, keys, acks))?;
    drop(engine);
    inspect_closed(&directory.join(DATABASE))
}

async fn inspect_open(engine: &Engine, keys: &Keys, acks: &[Ack]) -> Result<(), Wrong> {
    let owner = keys.owner(engine).await?;
    let damage = engine.check_integrity(&Caller::process_owner()).await?;
    check!(damage.is_empty(), "the file is damaged: {damage:?}");
    check_chain(engine, &owner).await?;
    let log = Log::read(engine, &owner).await?;
    for ack in acks {
        log.check(ack)?;
        check_stored(engine, &owner, ack, &log).await?;
    }
    check_repeats(engine, keys, acks).await?;
    check_search(engine, &owner, acks).await?;
    check_work_goes_on(engine, keys).await?;
    check_chain(engine, &owner).await
}

async fn check_chain(engine: &Engine, owner: &Caller) -> Result<(), Wrong> {
    let report = engine.audit_verify(owner).await?;
    check!(report.is_intact(), "the chain is broken: {report:?}");
    let head = engine.audit_head(owner).await?;
    check!(
        (report.from_seq, report.to_seq, &report.head) == (1, head.seq, &head.hash),
        "the chain does not reach from the beginning to {head:?}: {report:?}"
    );
    Ok(())
}

/// The whole log, by what its events are about.
#[derive(Default)]
struct Log {
    messages: HashMap<MessageId, Logged>,
    deliveries: HashMap<DeliveryId, (MessageId, String)>,
    reactions: HashMap<(MessageId, String, String), u32>,
    reads: HashMap<(MessageId, String), u32>,
}

/// What the log says of one message.
#[derive(Default)]
struct Logged {
    /// The text of each version.
    versions: Vec<String>,
    /// Recipients, in order.
    recipients: Vec<(DeliveryId, String)>,
    /// Events beside the ones above: `thread.reply`, `dm.received` and the like.
    notices: Vec<&'static str>,
}

impl Log {
    async fn read(engine: &Engine, owner: &Caller) -> Result<Self, Wrong> {
        let mut log = Self::default();
        let mut last = 0;
        loop {
            let page = engine
                .events(owner, &Selector::all(), last, Some(200))
                .await?;
            for stored in &page.events {
                let event = &stored.event;
                check!(
                    event.seq == last + 1,
                    "event {} follows {last}: a gap or a repetition",
                    event.seq
                );
                last = event.seq;
                log.add(event)?;
            }
            if page.events.is_empty() {
                break;
            }
        }
        let head = engine.audit_head(owner).await?.seq;
        check!(last == head, "the log ends at {last}, its head is {head}");
        Ok(log)
    }

    fn add(&mut self, logged: &LoggedEvent) -> Result<(), Wrong> {
        let Some(event) = &logged.event else {
            return Err(Wrong(format!("event {} has no payload", logged.seq)));
        };
        match event {
            RelayEvent::MessageCreated(event) => {
                let (id, text) = (event.message.id, event.message.text.clone());
                let message = self.messages.entry(id).or_default();
                check!(message.versions.is_empty(), "{id} was created twice");
                message.versions.push(text);
            }
            RelayEvent::MessageUpdated(event) => {
                let id = event.message.id;
                let versions = &mut self.message(id)?.versions;
                versions.push(event.message.text.clone());
                check!(
                    event.message.version as usize == versions.len(),
                    "{id} has version {} where {} was to come",
                    event.message.version,
                    versions.len()
                );
            }
            RelayEvent::ThreadReply(event) => {
                self.message(event.message.id)?.notices.push("thread.reply");
            }
            RelayEvent::DmReceived(event) => {
                self.message(event.message.id)?.notices.push("dm.received");
            }
            RelayEvent::GroupDmReceived(event) => {
                let notices = &mut self.message(event.message.id)?.notices;
                notices.push("group_dm.received");
            }
            RelayEvent::DeliveryCreated(event) => {
                let (id, agent) = (event.message.id, event.agent.name.clone());
                let recipients = &mut self.message(id)?.recipients;
                recipients.push((event.delivery_id, agent.clone()));
                let before = self.deliveries.insert(event.delivery_id, (id, agent));
                check!(before.is_none(), "{} was created twice", event.delivery_id);
            }
            RelayEvent::MessageReacted(MessageReacted {
                message_id,
                emoji,
                agent_name,
                action: ReactionChange::Added,
            }) => {
                let key = (*message_id, agent_name.clone(), emoji.clone());
                *self.reactions.entry(key).or_default() += 1;
            }
            RelayEvent::MessageRead(MessageRead {
                message_id,
                agent_name,
                ..
            }) => {
                let key = (*message_id, agent_name.clone());
                *self.reads.entry(key).or_default() += 1;
            }
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, id: MessageId) -> Result<&mut Logged, Wrong> {
        self.messages
            .get_mut(&id)
            .ok_or_else(|| Wrong(format!("an event before the creation of {id}")))
    }

    /// Checks that what was acknowledged is in the log, once.
    fn check(&self, ack: &Ack) -> Result<(), Wrong> {
        match ack {
            Ack::Sent {
                body,
                id,
                deliveries,
                ..
            } => {
                let logged = self.known(*id)?;
                check!(logged.versions[0] == body.text, "{id} has another text");
                check!(logged.recipients == *deliveries, "{id}: other deliveries");
                let expected = notices(body);
                check!(logged.notices == expected, "{id}: {:?}", logged.notices);
            }
            Ack::Edited { id, version, text } => {
                let found = self.known(*id)?.versions.get(*version as usize - 1);
                check!(found == Some(text), "version {version} of {id} is lost");
            }
            Ack::Reacted { id, agent, emoji } => {
                let key = (*id, agent.clone(), emoji.clone());
                let times = self.reactions.get(&key).copied().unwrap_or_default();
                check!(times == 1, "{emoji} of {agent} is there {times} times");
            }
            Ack::Read { id, agent } => {
                // Marking again what was read, or something older, logs nothing.
                let times = self.reads.get(&(*id, agent.clone())).copied();
                check!(times.unwrap_or_default() <= 1, "{id} was read twice");
            }
        }
        Ok(())
    }

    fn known(&self, id: MessageId) -> Result<&Logged, Wrong> {
        self.messages
            .get(&id)
            .ok_or_else(|| Wrong(format!("{id} is lost")))
    }
}

/// The events of a send between its creation and its deliveries.
fn notices(body: &SendMessage) -> Vec<&'static str> {
    let reply = body.reply_to.map(|_| "thread.reply");
    let direct = match &body.to {
        SendTarget::Channel(_) => None,
        SendTarget::Agents(_) => Some("group_dm.received"),
        _ => Some("dm.received"),
    };
    reply.into_iter().chain(direct).collect()
}

/// Checks that what was acknowledged can be read, as its newest version.
async fn check_stored(engine: &Engine, owner: &Caller, ack: &Ack, log: &Log) -> Result<(), Wrong> {
    match ack {
        Ack::Sent {
            body,
            id,
            deliveries,
            ..
        } => {
            let message = engine.message(owner, *id).await?.message;
            let versions = &log.known(*id)?.versions;
            check!(
                Some(&message.text) == versions.last()
                    && message.version as usize == versions.len(),
                "{id} is not the last version that was logged"
            );
            check!(message.parent == body.reply_to, "{id}: another parent");
            let stored = engine.deliveries(owner, *id).await?.into_iter();
            let stored: Vec<_> = stored.map(|one| (one.delivery_id, one.agent)).collect();
            check!(stored == *deliveries, "{id}: {stored:?} are stored");
            let attached = body.attachments.as_ref().map_or(0, Vec::len);
            check!(message.attachments.len() == attached, "{id}: attachments");
            for attachment in message.attachments.iter().map(|one| one.attachment_id) {
                let attachment = attachment.ok_or("an attachment without id")?;
                engine.attachment(owner, attachment).await?;
            }
        }
        // The send of the same message was acknowledged too, and its versions are compared there.
        Ack::Edited { .. } => {}
        Ack::Reacted { id, agent, emoji } => {
            let view = engine.message(owner, *id).await?;
            let found = view.reactions.iter().flatten();
            let mut same = found.filter(|reaction| reaction.emoji == *emoji);
            let is_there = same.any(|reaction| reaction.agents.contains(agent));
            check!(is_there, "{emoji} of {agent} on {id} is lost");
        }
        Ack::Read { id, agent } => {
            let readers = engine.readers(owner, *id).await?;
            let is_there = readers.iter().any(|reader| reader.agent_name == *agent);
            check!(is_there, "{agent} has read {id}, which is lost");
        }
    }
    Ok(())
}

/// Repeats sends under their keys: they answer as before, and write nothing.
async fn check_repeats(engine: &Engine, keys: &Keys, acks: &[Ack]) -> Result<(), Wrong> {
    let owner = keys.owner(engine).await?;
    let head = engine.audit_head(&owner).await?;
    let keyed = acks.iter().rev().filter_map(|ack| match ack {
        Ack::Sent {
            sender,
            body,
            id,
            deliveries,
        } => body
            .idempotency_key
            .as_ref()
            .map(|_| (*sender, body, *id, deliveries)),
        _ => None,
    });
    for (sender, body, id, deliveries) in keyed.take(REPEATED) {
        let caller = keys.agent(engine, sender).await?;
        let again = engine.send(&caller, SendMessage::clone(body)).await?;
        check!(again.message_id == id, "the key of {id} is lost");
        check!(again.message.text == body.text, "{id} answers another text");
        let answered = again.deliveries.iter();
        let same = answered
            .map(|delivery| &delivery.delivery_id)
            .eq(deliveries.iter().map(|(id, _)| id));
        check!(same, "{id}: other deliveries on repetition");
    }
    let after = engine.audit_head(&owner).await?;
    check!(head == after, "a repetition was written");
    Ok(())
}

/// Looks for the newest message that was acknowledged, by words that only it has.
async fn check_search(engine: &Engine, owner: &Caller, acks: &[Ack]) -> Result<(), Wrong> {
    let edited = |id: &MessageId| {
        let mut others = acks.iter();
        others.any(|ack| matches!(ack, Ack::Edited { id: other, .. } if other == id))
    };
    let newest = acks.iter().rev().find_map(|ack| match ack {
        Ack::Sent { body, id, .. } if !edited(id) => Some((body, *id)),
        _ => None,
    });
    let Some((body, id)) = newest else {
        return Ok(());
    };
    // An edit may have been stored although its acknowledgement came too late.
    let current = engine.message(owner, id).await?.message;
    if current.version > 1 {
        return Ok(());
    }
    let words: Vec<_> = body.text.split(' ').take(3).collect();
    let query = SearchQuery {
        q: format!("\"{}\"", words.join(" ")),
        channel: None,
        from: None,
        after: None,
        before: None,
        cursor: None,
        limit: None,
    };
    let found = engine.search(owner, query).await?;
    let mut hits = found.items.iter().map(|hit| hit.message.id);
    check!(hits.any(|hit| hit == id), "a search does not find {id}");
    Ok(())
}

async fn check_work_goes_on(engine: &Engine, keys: &Keys) -> Result<(), Wrong> {
    let caller = keys.agent(engine, 0).await?;
    let body = SendMessage::text(SendTarget::Channel("general".to_owned()), "we are back");
    let sent = engine.send(&caller, body).await?;
    let found = engine.message(&caller, sent.message_id).await?;
    check!(found.message == *sent.message, "a new send is not stored");
    Ok(())
}

/// Queries that find what is there only in part. Each counts, and must find nothing.
const HALVES: [(&str, &str); 16] = [
    (
        "messages without their log row",
        "SELECT count(*) FROM messages m WHERE NOT EXISTS
             (SELECT 1 FROM log l WHERE l.position = m.position AND l.content = 1)",
    ),
    (
        "log rows of sends without their message",
        "SELECT count(*) FROM log l WHERE l.content = 1 AND NOT EXISTS
             (SELECT 1 FROM messages m WHERE m.position = l.position)",
    ),
    (
        "log rows of edits without their version",
        "SELECT count(*) FROM log l WHERE l.content = 2
             AND NOT EXISTS (SELECT 1 FROM messages m
                             WHERE m.position = l.message AND m.version_position = l.position)
             AND NOT EXISTS (SELECT 1 FROM message_versions v WHERE v.position = l.position)",
    ),
    (
        "log rows without payload or salt",
        "SELECT count(*) FROM log WHERE digest IS NOT NULL OR salt IS NULL
             OR (payload IS NULL) <> (content <> 0)",
    ),
    (
        "gaps in the log",
        "SELECT count(*) FROM (SELECT position, lag(position + count) OVER (ORDER BY position) AS next
                               FROM log) WHERE position <> next",
    ),
    (
        "messages without all of their deliveries",
        "SELECT count(*) FROM messages m JOIN log l ON l.position = m.position
         WHERE m.recipients <> (SELECT count(*) FROM deliveries d WHERE d.message = m.position
                                AND d.position BETWEEN l.position + l.count - m.recipients
                                                   AND l.position + l.count - 1)",
    ),
    (
        "deliveries without their message",
        "SELECT count(*) FROM deliveries d WHERE NOT EXISTS
             (SELECT 1 FROM messages m JOIN log l ON l.position = m.position
              WHERE m.position = d.message AND d.position BETWEEN l.position AND l.position + l.count - 1)",
    ),
    (
        "messages that are not once in the index of their room",
        "WITH rooms_index AS (SELECT * FROM room_new UNION ALL SELECT * FROM room_recent
                              UNION ALL SELECT * FROM room_messages)
         SELECT count(*) FROM messages m WHERE 1 <>
             (SELECT count(*) FROM rooms_index i WHERE i.room = m.room AND i.position = m.position)",
    ),
    (
        "entries in the index of a room without their message",
        "WITH rooms_index AS (SELECT * FROM room_new UNION ALL SELECT * FROM room_recent
                              UNION ALL SELECT * FROM room_messages)
         SELECT count(*) FROM rooms_index i WHERE NOT EXISTS
             (SELECT 1 FROM messages m WHERE m.room = i.room AND m.position = i.position)",
    ),
    (
        "deliveries up to the mark that wait without being listed, or are listed without waiting",
        "SELECT count(*) FROM deliveries d JOIN waiting_marks k ON k.workspace = d.position >> 40
         WHERE d.position <= k.position AND (d.state < 4) <>
             (SELECT count(*) FROM waiting w WHERE w.agent = d.agent AND w.position = d.position)",
    ),
    (
        "deliveries up to the mark that wait without a time, or have one without waiting",
        "SELECT count(*) FROM deliveries d JOIN waiting_marks k ON k.workspace = d.position >> 40
         WHERE d.position <= k.position AND (d.state < 4) <>
             (SELECT count(*) FROM wakes w WHERE w.position = d.position
                  AND w.at = min(d.deadline, coalesce(d.not_before, d.deadline)))",
    ),
    (
        "messages without all of their versions",
        "SELECT count(*) FROM messages m WHERE m.version - 1 <>
             (SELECT count(*) FROM message_versions v WHERE v.message = m.position)",
    ),
    (
        "versions without their message",
        "SELECT count(*) FROM message_versions v WHERE NOT EXISTS
             (SELECT 1 FROM messages m WHERE m.position = v.message)",
    ),
    (
        "reactions without message or log row",
        "SELECT count(*) FROM reactions r WHERE NOT EXISTS
             (SELECT 1 FROM messages m JOIN log l ON l.position = r.position
              WHERE m.position = r.message AND l.type = 'message.reacted')",
    ),
    (
        "idempotency keys without what they made",
        "SELECT count(*) FROM idempotency i WHERE NOT EXISTS
             (SELECT 1 FROM messages m WHERE m.position = i.message) AND NOT EXISTS
             (SELECT 1 FROM invocations c WHERE c.position = i.message AND i.route = 'invoke')",
    ),
    (
        "attachments without their message",
        "SELECT count(*) FROM attachments a WHERE NOT EXISTS
             (SELECT 1 FROM attachment_uses u JOIN messages m ON m.position = u.message
              WHERE u.attachment = a.no)",
    ),
];

/// Looks for halves in the tables of a database that nobody has open.
fn inspect_closed(path: &Path) -> Result<(), Wrong> {
    let db = Connection::open(path)?;
    let verdict: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    check!(verdict == "ok", "the closed file is damaged: {verdict}");
    for (what, query) in HALVES {
        let found: u64 = db.query_row(query, [], |row| row.get(0))?;
        check!(found == 0, "{found} {what}");
    }
    Ok(())
}

/// Fails the test with what [`inspect`] found.
pub(crate) fn assert_sound(directory: &Path, keys: &Keys, acks: &[Ack], context: &str) {
    if let Err(Wrong(why)) = inspect(directory, keys, acks) {
        panic!("{context}: {why}");
    }
}

/// The same, at a time at which the database was new: keys for repeated sends are kept for a day.
pub(crate) fn assert_sound_as_of(
    at: Timestamp,
    directory: &Path,
    (keys, acks): (&Keys, &[Ack]),
    context: &str,
) {
    let engine = open_as_of(at, directory).expect("it opens");
    if let Err(Wrong(why)) = inspect_with(engine, directory, keys, acks) {
        panic!("{context}: {why}");
    }
}

/// Puts a database with a workspace in it into a directory, and says the keys.
///
/// It is made once and copied: the tests care for what happens to it afterwards.
pub(crate) fn settled(directory: &Path) -> Keys {
    static FIRST: LazyLock<(TempDir, Keys)> = LazyLock::new(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = open_in(directory.path()).expect("a new database opens");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let keys = runtime.expect("a runtime").block_on(settle(&engine));
        (directory, keys.expect("nothing fails"))
    });
    let (first, keys) = &*FIRST;
    std::fs::copy(first.path().join(DATABASE), directory.join(DATABASE)).expect("a copy");
    keys.clone()
}
