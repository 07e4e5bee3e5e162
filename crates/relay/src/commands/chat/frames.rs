//! Reads the server's events from bytes, however they are cut, with their numbers. Pure.

use serde_json::Value;

use crate::failure::{Exit, Failure, Outcome};

/// Most bytes of one event. The server's are far smaller.
const EVENT_BYTES: usize = 64 * 1024 * 1024;

/// An event.
#[derive(Debug, PartialEq)]
pub(super) struct Event {
    /// Its number; those that are shown again have none.
    pub(super) id: Option<u64>,
    pub(super) data: Value,
}

/// What was read and is not whole yet.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    id: Option<u64>,
    data: String,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Outcome {
        self.bytes.extend_from_slice(bytes);
        match self.bytes.len() + self.data.len() <= EVENT_BYTES {
            true => Ok(()),
            false => Err(broken("an event is too large")),
        }
    }

    /// The next event that is whole.
    pub(super) fn next(&mut self) -> Outcome<Option<Event>> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = str::from_utf8(&line).map_err(|_| broken("it is no text"))?;
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(event) = self.line(line)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn line(&mut self, line: &str) -> Outcome<Option<Event>> {
        if !line.is_empty() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => self.id = value.parse().ok(),
                "data" => self.data.push_str(value),
                _ => {}
            }
            return Ok(None);
        }
        let (id, data) = (self.id.take(), std::mem::take(&mut self.data));
        if data.is_empty() {
            return Ok(None);
        }
        let data = serde_json::from_str(&data).map_err(|_| broken("an event is no JSON"))?;
        Ok(Some(Event { id, data }))
    }
}

fn broken(why: &str) -> Failure {
    let message = format!("what the server sends can't be read: {why}");
    Failure::new(Exit::Failed, "incompatible", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_alike_wherever_they_are_cut() {
        let text = "id: 1\nevent: text\ndata: {\"a\":\"é\"}\n\n: heartbeat\n\nevent: relay\r\ndata: {}\r\n\r\n";
        let expected = [
            Event {
                id: Some(1),
                data: json!({ "a": "é" }),
            },
            Event {
                id: None,
                data: json!({}),
            },
        ];
        for size in 1..text.len() {
            let mut frames = Frames::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                frames.push(piece).unwrap();
                while let Some(event) = frames.next().unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(events, expected, "{size}");
        }
    }

    #[test]
    fn what_is_no_event_is_said() {
        let mut frames = Frames::default();
        frames.push(b"data: nonsense\n\n").unwrap();
        assert!(frames.next().unwrap_err().message().contains("no JSON"));
    }
}
