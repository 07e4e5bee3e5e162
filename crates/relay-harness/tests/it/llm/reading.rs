//! Reads streams in pieces and says in words what came of them.

use relay_harness::llm::conversation::Api;
use relay_harness::llm::decode::Decoding;
use relay_harness::llm::error::ProviderError;
use relay_harness::llm::guard::Guard;
use relay_harness::llm::limits::AnswerLimits;
use relay_harness::llm::provider::ProviderEvent;

pub(crate) type Read = (Vec<ProviderEvent>, Option<ProviderError>);

/// Reads a stream that comes in these pieces: what was understood before it ended, or before the error.
pub(crate) fn read<'b>(
    api: Api,
    limits: AnswerLimits,
    pieces: impl IntoIterator<Item = &'b [u8]>,
) -> Read {
    let mut decoding = Decoding::new(api, limits);
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = decoding.push(piece, &mut events);
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = decoding.finish(&mut events);
    }
    guarded(limits, events, result.err())
}

/// What is left of it by the rules that hold for all.
fn guarded(limits: AnswerLimits, events: Vec<ProviderEvent>, error: Option<ProviderError>) -> Read {
    let mut guard = Guard::new(limits);
    let mut passed = Vec::new();
    for event in events {
        if let Err(error) = guard.pass(&event) {
            return (passed, Some(error));
        }
        passed.push(event);
    }
    let error = error.or_else(|| guard.end().err());
    (passed, error)
}

/// The same whole, byte by byte, and cut at every place: always alike.
pub(crate) fn read_everyhow(api: Api, limits: AnswerLimits, bytes: &[u8]) -> Read {
    let whole = read(api, limits, [bytes]);
    assert_eq!(read(api, limits, bytes.chunks(1)), whole, "byte by byte");
    for at in 0..=bytes.len() {
        let (one, other) = bytes.split_at(at);
        assert_eq!(read(api, limits, [one, other]), whole, "cut at {at}");
    }
    whole
}

/// Events in words.
pub(crate) fn told(events: &[ProviderEvent]) -> Vec<String> {
    let told = events.iter().map(|event| match event {
        ProviderEvent::Text(text) => format!("text {text:?}"),
        ProviderEvent::Reasoning(text) => format!("thought {text:?}"),
        ProviderEvent::ReasoningEnd(None) => "thought.".to_owned(),
        ProviderEvent::ReasoningEnd(Some(kept)) => match kept.block["type"].as_str() {
            Some(kind) => format!("kept {kind:?}"),
            None => format!("kept {}", kept.block),
        },
        ProviderEvent::CallBegin { call, id, name } => format!("call {call} {id} {name}"),
        ProviderEvent::CallArguments { call, text } => format!("more {call} {text}"),
        ProviderEvent::CallEnd { call } => format!("end {call}"),
        ProviderEvent::Usage(usage) => format!(
            "usage {} {} {} {}",
            usage.input, usage.output, usage.cache_read, usage.cache_creation
        ),
        ProviderEvent::Stop(reason) => format!("stop {reason:?}"),
    });
    told.collect()
}
