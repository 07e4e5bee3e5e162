//! Text that comes in pieces: events are stored in the order in which they were emitted, each with its own text and
//! identity, what is acknowledged is on disk, and a secret that is split over events is removed.

use std::collections::BTreeMap;

use relay_core::Error;
use relay_protocol::limits::{HELD_EVENTS, STREAMS_PER_SESSION};
use relay_protocol::session::Acked;
use serde_json::{Value, json};

use super::kit::{Call, Kind, Lab, Session};
use crate::depth;

fn terminal(text: &str) -> Value {
    json!({ "type": "terminal.output", "text": text })
}

fn chunk(n: u64, role: &str, text: &str) -> Value {
    let chunk = json!({ "id": format!("chunk-{n}"), "role": role, "content": text,
                        "sequence": n, "at": "2025-11-15T12:00:00.000Z" });
    json!({ "type": "transcript.chunk", "chunk": chunk })
}

fn tool(run: &str, text: &str) -> Value {
    json!({ "type": "tool.output", "tool": "bash", "run": run, "output": text })
}

fn line(message: &str) -> Value {
    json!({ "type": "log", "level": "info", "message": message })
}

/// What a session has reported, as it is in the log.
fn logged(lab: &Lab, session: &Value) -> Vec<Value> {
    let mut events = lab.log();
    events.retain(|event| event["sessionId"] == *session && event["event"].is_object());
    let reports = events.into_iter().map(|mut event| event["event"].take());
    // Its life is told by Relay itself.
    let is_life = |event: &Value| event["type"].as_str().unwrap().starts_with("session.");
    reports.filter(|event| !is_life(event)).collect()
}

fn id(session: &Session<'_>) -> Value {
    json!(session.id())
}

fn stored(lab: &Lab, session: &Session<'_>) -> Vec<Value> {
    logged(lab, &id(session))
}

/// The place of the text in an event that comes in pieces.
fn text_of(event: &mut Value) -> Option<&mut Value> {
    match event["type"].as_str()? {
        "terminal.output" => event.get_mut("text"),
        "tool.output" => event.get_mut("output"),
        "transcript.chunk" => event.get_mut("chunk")?.get_mut("content"),
        _ => None,
    }
}

#[test]
fn held_text_is_stored_before_whatever_follows_it() {
    type Follow = fn(&Lab, &Session<'_>);
    let follows: [(&str, Follow); 7] = [
        ("log", |_, bob| {
            bob.report(line("next")).unwrap();
        }),
        ("terminal.output", |_, bob| {
            let other = json!({ "type": "terminal.output", "stream": "stderr", "text": "next\n" });
            bob.report(other).unwrap();
        }),
        ("tool.completed", |_, bob| bob.ran_a_tool()),
        ("agent.status.changed", |_, bob| {
            bob.becomes(relay_protocol::status::AgentStatus::Active);
        }),
        ("message.created", |lab, _| {
            lab.send(
                "bob",
                relay_protocol::api::messages::SendMessage::text(
                    crate::support::target("@alice"),
                    "next",
                ),
            );
        }),
        ("session.released", |_, bob| {
            let release = bob.begin_release();
            bob.confirm(&bob.control());
            release.end().unwrap();
        }),
        ("session.resumed", |lab, bob| {
            let back = lab.attach("bob", &Kind::able().resuming(bob.token()));
            assert_eq!(back.attached.acked, 1);
        }),
    ];
    for (name, follow) in follows {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let mut held = bob.emit(tool("1", "the last wor"));
        assert!(held.waits(), "{name}");
        follow(&lab, &bob);
        assert_eq!(held.end(), Ok(Acked { acked: 1 }), "{name}");
        let names: Vec<Value> = lab
            .log()
            .iter()
            .map(|event| event["type"].clone())
            .collect();
        let place = |name: &str| names.iter().rposition(|found| found == name);
        let (text, next) = (place("tool.output"), place(name));
        assert!(text.is_some() && text < next, "{name}: {names:?}");
        assert_eq!(stored(&lab, &bob)[0]["output"], "the last wor");
    }
}

#[test]
fn every_chunk_keeps_its_id_its_sequence_and_its_text() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let texts = ["I am ", "wri", "ting", " to ", "you", ".\n", "Bye"];
    let chunks: Vec<Value> = (1..)
        .zip(texts)
        .map(|(n, text)| chunk(n, "agent", text))
        .collect();
    for event in &chunks {
        drop(bob.emit(event.clone()));
    }
    lab.pass(200);
    assert_eq!(stored(&lab, &bob), chunks);
}

#[test]
fn reports_are_taken_in_while_an_earlier_one_is_held() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let one = bob.emit(terminal("wor"));
    let mut two = bob.emit(terminal("ld is"));
    assert!(two.waits());
    assert_eq!(one.end(), Ok(Acked { acked: 1 }));
    // What is held counts: it is no gap, and comes in once.
    let again = bob.emit_all(&[(2, terminal("ld is")), (3, terminal(" big"))]);
    let gap = bob.report_as(5, line("five"));
    let expected = Error::EventGap {
        expected: 4,
        found: 5,
    };
    assert_eq!(gap, Err(expected));
    assert_eq!(two.end(), Ok(Acked { acked: 2 }));
    lab.pass(200);
    assert_eq!(again.end(), Ok(Acked { acked: 3 }));
    let texts = ["wor", "ld is", " big"].map(terminal);
    assert_eq!(stored(&lab, &bob), texts);
}

#[test]
fn a_report_that_is_refused_takes_nothing_that_is_held_with_it() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let held = bob.emit(terminal("wor"));
    let bad = json!({ "type": "message.sent",
                      "messageId": "00000000-0000-7000-8000-000000000001" });
    let refused = bob.report_all(&[(2, terminal("ld")), (3, bad)]);
    assert!(refused.is_err());
    assert_eq!(held.end(), Ok(Acked { acked: 1 }));
    let rest = bob.report_all(&[(2, terminal("ld, again")), (3, line("three"))]);
    assert_eq!(rest, Ok(Acked { acked: 3 }));
    let expected = [terminal("wor"), terminal("ld, again"), line("three")];
    assert_eq!(stored(&lab, &bob), expected);
}

#[test]
fn many_events_that_join_a_hold_end_it() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let mut calls: Vec<Call<'_, _>> = Vec::new();
    for _ in 0..HELD_EVENTS {
        assert!(calls.iter_mut().all(Call::waits));
        calls.push(bob.emit(terminal("word")));
    }
    assert!(!calls.iter_mut().any(Call::waits));
}

#[test]
fn text_of_many_streams_is_stored_in_its_order() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let all: Vec<Value> = (0..=STREAMS_PER_SESSION)
        .map(|run| tool(&run.to_string(), "gh"))
        .collect();
    for event in &all {
        drop(bob.emit(event.clone()));
    }
    lab.pass(200);
    assert_eq!(stored(&lab, &bob), all);
}

#[test]
fn an_ordered_stop_stores_and_acknowledges_what_is_held() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let held = bob.emit(terminal("the last wor"));
    lab.engine().stop_holding_text();
    assert_eq!(held.end(), Ok(Acked { acked: 1 }));
    // From now on nothing is held.
    assert_eq!(bob.report(terminal("d")), Ok(Acked { acked: 2 }));
    let texts = ["the last wor", "d"].map(terminal);
    assert_eq!(stored(&lab, &bob), texts);
}

#[test]
fn an_engine_that_is_dropped_stores_what_is_held() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let session = id(&bob);
    drop(bob.emit(terminal("the last wor")));
    drop(bob);
    let lab = lab.restarted();
    assert_eq!(logged(&lab, &session), [terminal("the last wor")]);
}

#[test]
fn what_was_held_when_the_process_was_killed_was_not_acknowledged() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let (session, token) = (id(&bob), bob.token().to_owned());
    bob.report(terminal("one\n")).unwrap();
    assert!(bob.emit(terminal("two")).waits());
    drop(bob);
    let lab = lab.killed();
    let back = lab.attach("bob", &Kind::able().resuming(&token));
    assert_eq!(back.attached.acked, 1);
    let again = back.emit(terminal("two"));
    lab.pass(200);
    assert_eq!(again.end(), Ok(Acked { acked: 2 }));
    let texts = ["one\n", "two"].map(terminal);
    assert_eq!(logged(&lab, &session), texts);
}

#[test]
fn a_secret_is_removed_that_a_new_process_gets_the_rest_of() {
    let token = format!("{}{}", ["gh", "p_"].concat(), "x7Q2".repeat(9));
    let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n";
    let head = ["-----BEGIN ", "PRIVATE KEY-----\n"].concat();
    let end = ["-----END ", "PRIVATE KEY-----\n"].concat();
    let cases = [
        (token[..14].to_owned(), format!("{} rest\n", &token[14..])),
        ("DB_PASSWORD=".to_owned(), "hunter2aB rest\n".to_owned()),
        (format!("{head}{key}"), format!("{key}{end}and the rest\n")),
    ];
    for (first, second) in cases {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let (session, resume) = (id(&bob), bob.token().to_owned());
        let before = bob.emit(terminal(&first));
        lab.pass(200);
        before.end().unwrap();
        drop(bob);
        let lab = lab.killed();
        let back = lab.attach("bob", &Kind::able().resuming(&resume));
        let after = back.emit(terminal(&second));
        lab.pass(200);
        after.end().unwrap();
        let text = serde_json::to_string(&logged(&lab, &session)).unwrap();
        let lost = second.split_once(['\n', ' ']).unwrap().0;
        assert!(!text.contains(lost), "{text}");
        assert!(text.contains("rest"), "{text}");
    }
}

/// Random numbers of one case.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) >> 1).unwrap() % end
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn letters(&mut self, count: usize) -> String {
        const ALL: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
        let letters: String = (0..count)
            .map(|_| char::from(ALL[self.below(ALL.len())]))
            .collect();
        // Machine-made without a doubt: a letter and a digit side by side.
        format!("q7{}", &letters[2..])
    }
}

/// A text of ordinary words with secrets in it, in pieces.
struct Script {
    stream: usize,
    pieces: Vec<String>,
}

fn script(dice: &mut Dice, stream: usize, secrets: &mut Vec<String>) -> Script {
    let is_clean = dice.chance(30);
    let mut text = String::new();
    for word in 0..dice.below(12) + 2 {
        let planted = if is_clean { 9 } else { dice.below(10) };
        match planted {
            0 => {
                let secret = dice.letters(36);
                text.push_str(&[&["gh", "p_"].concat(), &*secret].concat());
                secrets.push(secret);
            }
            1 => {
                let secret = dice.letters(28);
                text.push_str(&format!("API_KEY={secret}"));
                secrets.push(secret);
            }
            2 => {
                let secret = dice.letters(32);
                text.push_str(&format!("Authorization: Bearer {secret}"));
                secrets.push(secret);
            }
            3 => {
                text.push_str(&["\n-----BEGIN ", "PRIVATE KEY-----\n"].concat());
                for _ in 0..3 {
                    let secret = dice.letters(64);
                    text.push_str(&format!("{secret}\n"));
                    secrets.push(secret);
                }
                text.push_str(&["-----END ", "PRIVATE KEY-----"].concat());
            }
            _ => text.push_str(["the", "file", "was", "changed", "ünder"][dice.below(5)]),
        }
        text.push_str(&format!(" {}{word}", ["alpha", "beta"][stream % 2]));
        text.push(if dice.chance(25) { '\n' } else { ' ' });
    }
    let mut pieces = Vec::new();
    let mut rest = &*text;
    while !rest.is_empty() {
        let most = [3, 12, 60][dice.below(3)];
        let at = rest.ceil_char_boundary((dice.below(most) + 1).min(rest.len()));
        let (piece, after) = rest.split_at(at);
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces.reverse();
    Script { stream, pieces }
}

fn piece_event(n: u64, stream: usize, text: &str) -> Value {
    match stream {
        0 => terminal(text),
        1 => json!({ "type": "terminal.output", "stream": "stderr", "text": text }),
        2 => chunk(n, "agent", text),
        3 => chunk(n, "user", text),
        stream => tool(&stream.to_string(), text),
    }
}

/// A session, what it emitted, and what was acknowledged.
struct Case {
    dice: Dice,
    emitted: Vec<Value>,
    /// The stream of each event that is text.
    streams: Vec<Option<usize>>,
    acked: u64,
    secrets: Vec<String>,
}

impl Case {
    fn new(seed: u64) -> (Self, Vec<Script>) {
        let mut case = Self {
            dice: Dice(seed),
            emitted: Vec::new(),
            streams: Vec::new(),
            acked: 0,
            secrets: Vec::new(),
        };
        let count = case.dice.below(4) + 1;
        let scripts = (0..count).map(|_| {
            let stream = case.dice.below(6);
            script(&mut case.dice, stream, &mut case.secrets)
        });
        let mut scripts: Vec<Script> = scripts.collect();
        scripts.sort_by_key(|script| script.stream);
        scripts.dedup_by_key(|script| script.stream);
        (case, scripts)
    }

    /// The next event: a piece of a text, or something else.
    fn next(&mut self, scripts: &mut Vec<Script>) {
        let n = self.emitted.len() as u64 + 1;
        let sticks = self.dice.chance(60);
        let last = self.streams.last().copied().flatten();
        let same = scripts
            .iter()
            .position(|script| sticks && Some(script.stream) == last);
        let at = same.unwrap_or_else(|| self.dice.below(scripts.len()));
        if self.dice.chance(10) {
            self.emitted.push(line(&format!("line {n}")));
            self.streams.push(None);
            return;
        }
        let script = &mut scripts[at];
        let stream = script.stream;
        let text = script.pieces.pop().unwrap();
        if script.pieces.is_empty() {
            scripts.remove(at);
        }
        self.emitted.push(piece_event(n, stream, &text));
        self.streams.push(Some(stream));
    }

    /// Learns what the calls came to that have an end.
    fn hear(&mut self, calls: &mut Vec<Call<'_, relay_core::Result<Acked>>>) {
        let mut waiting = Vec::new();
        for mut call in calls.drain(..) {
            if call.waits() {
                waiting.push(call);
            } else {
                self.acked = self.acked.max(call.end().unwrap().acked);
            }
        }
        *calls = waiting;
    }

    /// Plays until everything is emitted or the process ends; says which.
    fn play(&mut self, bob: &Session<'_>, lab: &Lab, scripts: &mut Vec<Script>) -> bool {
        let mut calls = Vec::new();
        let known = bob.attached.acked;
        assert!(
            known >= self.acked,
            "{} of {} are stored",
            known,
            self.acked
        );
        // What is not stored is sent again.
        let again = (1..)
            .zip(&self.emitted)
            .skip(usize::try_from(known).unwrap());
        for (n, event) in again {
            calls.push(bob.emit_all(&[(n, event.clone())]));
        }
        while !scripts.is_empty() {
            let from = self.emitted.len();
            for _ in 0..[1, 1, 1, 4][self.dice.below(4)] {
                if !scripts.is_empty() {
                    self.next(scripts);
                }
            }
            let batch: Vec<(u64, Value)> =
                (1..).zip(self.emitted.iter().cloned()).skip(from).collect();
            calls.push(bob.emit_all(&batch));
            if self.dice.chance(15) {
                lab.pass(i64::try_from(self.dice.below(300)).unwrap());
            }
            self.hear(&mut calls);
            if self.dice.chance(4) {
                return false;
            }
        }
        lab.pass(200);
        self.hear(&mut calls);
        assert!(calls.is_empty(), "some call has no end");
        assert_eq!(self.acked, self.emitted.len() as u64);
        true
    }

    fn check(&self, mut stored: Vec<Value>) {
        assert_eq!(stored.len(), self.emitted.len());
        let mut texts: BTreeMap<usize, String> = BTreeMap::new();
        let emitted = self.emitted.iter().cloned().zip(&self.streams);
        for ((mut emitted, stream), stored) in emitted.zip(&mut stored) {
            if let (Some(stream), Some(own)) = (stream, text_of(&mut emitted)) {
                let text = text_of(stored).expect("the same kind of event").take();
                let text = text.as_str().unwrap();
                check_is_of(own.as_str().unwrap(), text);
                texts.entry(*stream).or_default().push_str(text);
                own.take();
            }
            // Everything but the text is what it was.
            assert_eq!(emitted, *stored);
        }
        for (stream, text) in &texts {
            let all: String = self.original(*stream);
            let has_secret = self.secrets.iter().any(|secret| all.contains(secret));
            if !has_secret {
                assert_eq!(*text, all, "ordinary text is not touched");
            }
        }
        // Neither in one event nor over the events of a stream, whatever a mask stands between.
        let everything: String = texts.values().map(|text| without_marks(text)).collect();
        for secret in &self.secrets {
            for part in secret.as_bytes().windows(10) {
                let part = std::str::from_utf8(part).unwrap();
                assert!(
                    !everything.contains(part),
                    "{part} of {secret} in {everything}"
                );
            }
        }
    }

    fn original(&self, stream: usize) -> String {
        let events = self.emitted.iter().zip(&self.streams);
        let own = events.filter(|(_, of)| **of == Some(stream));
        own.map(|(event, _)| {
            let mut event = event.clone();
            text_of(&mut event).unwrap().as_str().unwrap().to_owned()
        })
        .collect()
    }
}

fn without_marks(text: &str) -> String {
    let mut parts = text.split("[redacted:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once(']').map_or("", |(_, rest)| rest)
    })
}

/// The text of an event is what was left of its own: nothing was moved into it.
fn check_is_of(own: &str, text: &str) {
    let kept = without_marks(text);
    let mut own_chars = own.chars();
    let is_of = kept.chars().all(|kept| own_chars.any(|own| own == kept));
    assert!(is_of, "{text:?} is not what is left of {own:?}");
}

fn play(seed: u64) {
    let (mut case, mut scripts) = Case::new(seed);
    let mut lab = Lab::pair();
    let mut bob = lab.attach("bob", &Kind::able());
    let (session, token) = (id(&bob), bob.token().to_owned());
    while !case.play(&bob, &lab, &mut scripts) {
        let is_ordered = case.dice.chance(30);
        drop(bob);
        lab = if is_ordered {
            lab.restarted()
        } else {
            lab.killed()
        };
        bob = lab.attach("bob", &Kind::able().resuming(&token));
        if is_ordered {
            assert_eq!(bob.attached.acked, case.emitted.len() as u64);
        }
    }
    case.check(logged(&lab, &session));
}

#[test]
fn random_streams_keep_order_and_identity_lose_nothing_and_show_no_secret() {
    let first = depth::seed();
    for seed in (first..).take(usize::try_from(depth::rounds(150)).unwrap()) {
        let played = std::panic::catch_unwind(|| play(seed));
        assert!(played.is_ok(), "repeat this with RELAY_SEED={seed}");
    }
}
