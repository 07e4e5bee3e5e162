//! The bytes of one answer, read: events of the stream, what they mean, and the bound of it all. Pure.

use super::adapters::Decoder;
use super::conversation::Api;
use super::error::ProviderError;
use super::limits::{AnswerLimits, EVENT_BYTES, LINE_BYTES};
use super::provider::ProviderEvent;
use relay_protocol::sse::SseDecoder;

/// Reads one answer of a provider.
#[derive(Debug)]
pub struct Decoding {
    stream: SseDecoder,
    decoder: Box<dyn Decoder>,
    bytes: usize,
    most: usize,
}

impl Decoding {
    /// Begins to read an answer.
    #[must_use]
    pub fn new(api: Api, limits: AnswerLimits) -> Self {
        Self {
            stream: SseDecoder::with_bounds(LINE_BYTES, EVENT_BYTES),
            decoder: api.decoder(),
            bytes: 0,
            most: limits.bytes,
        }
    }

    /// Takes the next bytes and adds what they mean, also before an error. After the end of the answer nothing is read.
    pub fn push(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        if self.is_whole() {
            return Ok(());
        }
        let left = self.most - self.bytes;
        let mut events = Vec::new();
        let read = self
            .stream
            .push(&bytes[..bytes.len().min(left)], &mut events);
        for event in &events {
            self.decoder.event(event, out)?;
            if self.is_whole() {
                return Ok(());
            }
        }
        read?;
        self.bytes += bytes.len().min(left);
        match bytes.len() > left {
            true => Err(ProviderError::limit(format!(
                "the answer has more than {} bytes",
                self.most
            ))),
            false => Ok(()),
        }
    }

    /// Takes the end of the stream.
    pub fn finish(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        if self.is_whole() {
            return Ok(());
        }
        let mut events = Vec::new();
        self.stream.finish(&mut events)?;
        for event in &events {
            self.decoder.event(event, out)?;
        }
        match self.is_whole() {
            true => Ok(()),
            false => self.decoder.end(out),
        }
    }

    /// Whether the answer is whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.decoder.is_whole()
    }
}
