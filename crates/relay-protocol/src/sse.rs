//! Reads server-sent events: bytes in, events out, however the bytes are cut.
//!
//! Written here because the readers at hand either stumble (over a leading byte order mark, over lines that end with CR alone)
//! or have no bound. As the standard says: lines end with LF, CR or CRLF; a byte order mark at the very start is skipped; lines
//! that begin with a colon are comments; several `data` lines of one event are joined by LF. Otherwise than the standard says, text
//! that is no UTF-8 is an error (a tool call must not be made of replacement characters), and the end of the stream ends the
//! last event: its JSON shows whether it was whole.

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why events can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line is too long.
    #[error("the stream has a line of more than {0} bytes")]
    Line(usize),
    /// An event is too long.
    #[error("the stream has an event of more than {0} bytes")]
    Event(usize),
    /// Something is no text.
    #[error("the stream has bytes that are no UTF-8")]
    NoText,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; empty where it has none.
    pub name: String,
    /// Its data, lines joined by LF.
    pub data: String,
    /// Its own id; that of an event before it is not repeated.
    pub id: Option<String>,
}

/// Reads events.
#[derive(Debug)]
pub struct SseDecoder {
    line: Vec<u8>,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    /// No line was read yet.
    at_start: bool,
    name: String,
    id: Option<String>,
    data: Option<String>,
    line_bytes: usize,
    event_bytes: usize,
}

impl SseDecoder {
    /// Reads events whose lines, and which as a whole, have at most so many bytes.
    #[must_use]
    pub const fn with_bounds(line_bytes: usize, event_bytes: usize) -> Self {
        Self {
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            name: String::new(),
            id: None,
            data: None,
            line_bytes,
            event_bytes,
        }
    }

    /// Takes the next bytes and adds the events that they complete.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend(&rest[..end])?;
            let was_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line(events)?;
            if was_cr {
                match rest {
                    [] => self.after_cr = true,
                    [b'\n', more @ ..] => rest = more,
                    _ => {}
                }
            }
        }
        self.extend(rest)
    }

    /// Takes the end of the stream, which ends the last line and the last event.
    pub fn finish(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if !self.line.is_empty() {
            self.end_line(events)?;
        }
        self.end_event(events);
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        if self.line.len() + bytes.len() > self.line_bytes {
            return Err(SseError::Line(self.line_bytes));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        let line = std::str::from_utf8(line).map_err(|_| SseError::NoText)?;
        if line.is_empty() {
            self.end_event(events);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        self.field(field, value.strip_prefix(' ').unwrap_or(value))
    }

    /// A comment has the empty name. When to reconnect is the reader's matter.
    fn field(&mut self, field: &str, value: &str) -> Result<(), SseError> {
        match field {
            "event" => self.name = value.to_owned(),
            "id" => self.id = Some(value.to_owned()),
            "data" => {
                let before = self.data.as_ref().map_or(0, |data| data.len() + 1);
                if before + value.len() > self.event_bytes {
                    return Err(SseError::Event(self.event_bytes));
                }
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => self.data = Some(value.to_owned()),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self, events: &mut Vec<SseEvent>) {
        let (name, id) = (std::mem::take(&mut self.name), self.id.take());
        if let Some(data) = self.data.take() {
            events.push(SseEvent { name, data, id });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Vec<SseEvent>, SseError> {
        let mut decoder = SseDecoder::with_bounds(64, 100);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut events)?;
        }
        decoder.finish(&mut events)?;
        Ok(events)
    }

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent {
            name: name.to_owned(),
            data: data.to_owned(),
            id: None,
        }
    }

    fn numbered(id: &str, event: SseEvent) -> SseEvent {
        SseEvent {
            id: Some(id.to_owned()),
            ..event
        }
    }

    #[test]
    fn streams_are_read_alike_wherever_they_are_cut() {
        let table: [(&[u8], Vec<SseEvent>); 13] = [
            (b"data: a\n\n", vec![event("", "a")]),
            (
                b"data:a\n\ndata: b\n\n",
                vec![event("", "a"), event("", "b")],
            ),
            (b"event: x\ndata: a\n\n", vec![event("x", "a")]),
            (b"event: x\r\ndata: a\r\n\r\n", vec![event("x", "a")]),
            (
                b"event: x\rdata: a\r\rdata: b\r\r",
                vec![event("x", "a"), event("", "b")],
            ),
            (b"\xef\xbb\xbfdata: a\n\n", vec![event("", "a")]),
            // In the middle it is a part of the name, and no such name is known.
            (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", vec![event("", "a")]),
            (b": hi\n\n:\ndata: a\n: there\n\n", vec![event("", "a")]),
            (b"data: a\ndata:\ndata:  b\n\n", vec![event("", "a\n\n b")]),
            (
                b"id: 1\nretry: 2\nnothing\ndata\n\ndata: a\n\n",
                vec![numbered("1", event("", "")), event("", "a")],
            ),
            // The name of an event without data is forgotten.
            (b"event: x\n\ndata: a\n\n", vec![event("", "a")]),
            (
                "data: Grüße, 世界 🚀\n\n".as_bytes(),
                vec![event("", "Grüße, 世界 🚀")],
            ),
            // The end of the stream ends the event.
            (
                b"data: a\n\nevent: x\ndata: b",
                vec![event("", "a"), event("x", "b")],
            ),
        ];
        for (bytes, expected) in table {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(read([bytes]).unwrap(), expected, "{shown:?}");
            assert_eq!(read(bytes.chunks(1)).unwrap(), expected, "{shown:?}");
            for at in 0..=bytes.len() {
                let (one, other) = bytes.split_at(at);
                assert_eq!(read([one, other]).unwrap(), expected, "{shown:?} at {at}");
                assert_eq!(
                    read([one, &[], other]).unwrap(),
                    expected,
                    "{shown:?} at {at}"
                );
            }
        }
    }

    #[test]
    fn text_that_is_no_utf8_is_an_error() {
        for bytes in [&b"data: \xff\n\n"[..], b"data: \xf0\x9f\n\n", b"data: \xc3"] {
            for cut in 0..=bytes.len() {
                let (one, other) = bytes.split_at(cut);
                let error = read([one, other]).unwrap_err();
                assert_eq!(error, SseError::NoText, "{bytes:?}");
            }
        }
    }

    #[test]
    fn lines_and_events_have_bounds() {
        let long = format!("data: {}\n\n", "x".repeat(58));
        assert_eq!(read([long.as_bytes()]).unwrap().len(), 1);
        let endless = "x".repeat(65);
        let many = "data: 0123456789\n".repeat(10);
        let exactly = "data: 0123456789\n".repeat(9) + "data: 1\n\n";
        assert_eq!(read([exactly.as_bytes()]).unwrap()[0].data.len(), 100);
        for (text, expected) in [(endless, SseError::Line(64)), (many, SseError::Event(100))] {
            let error = read(text.as_bytes().chunks(7)).unwrap_err();
            assert_eq!(error, expected);
        }
    }
}
