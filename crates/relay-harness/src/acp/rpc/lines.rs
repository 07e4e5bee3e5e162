//! Lines of bounded length from a stream.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Most bytes of one line. Images travel inside lines, so it is generous.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Bytes of room that are kept between lines.
const KEPT_CAPACITY: usize = 64 * 1024;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A line, in the reader's buffer, without its end.
    Line,
    /// A line that was too long; it is gone.
    TooLong {
        /// How long it was.
        bytes: u64,
    },
    /// The end of the stream. A line that was begun and not ended is dropped: it may be half of something.
    End,
}

/// Reads lines, holding no more than one.
pub(super) struct Lines<R> {
    stream: R,
    line: Vec<u8>,
    limit: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) const fn new(stream: R, limit: usize) -> Self {
        Self {
            stream,
            line: Vec::new(),
            limit,
        }
    }

    /// The line that was read last.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    pub(super) async fn next(&mut self) -> Read {
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
        let mut skipped = 0_u64;
        loop {
            let Ok(chunk @ [_, ..]) = self.stream.fill_buf().await else {
                return Read::End;
            };
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let piece = &chunk[..end.unwrap_or(chunk.len())];
            let used = end.map_or(chunk.len(), |end| end + 1);
            if skipped > 0 || self.line.len() + piece.len() > self.limit {
                skipped += (self.line.len() + piece.len()) as u64;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(piece);
            }
            self.stream.consume(used);
            if end.is_some() {
                return match skipped {
                    0 => Read::Line,
                    bytes => Read::TooLong { bytes },
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn read_all(text: &[u8], buffer: usize) -> Vec<String> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, text), 8);
        let mut all = Vec::new();
        loop {
            match lines.next().await {
                Read::Line => all.push(String::from_utf8_lossy(lines.line()).into_owned()),
                Read::TooLong { bytes } => all.push(format!("<{bytes}>")),
                Read::End => return all,
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_whatever_the_pieces() {
        let text = b"one\n\n12345678\n123456789\ntwo\r\n1234567890123456\nthree\nhalf";
        let expected = ["one", "", "12345678", "<9>", "two\r", "<16>", "three"];
        for buffer in [1, 2, 3, 7, 8, 9, 100] {
            assert_eq!(read_all(text, buffer).await, expected, "{buffer}");
        }
    }

    #[tokio::test]
    async fn a_line_without_end_takes_no_memory() {
        let endless = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 100_000_000);
        let mut lines = Lines::new(BufReader::new(endless), 1024);
        assert_eq!(lines.next().await, Read::End);
        assert!(lines.line.capacity() <= KEPT_CAPACITY);
    }
}
