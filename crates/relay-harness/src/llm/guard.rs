//! What every answer has to keep to, whoever gives it: pure, an event at a time.
//!
//! An answer ends with a reason; nothing comes after that; no two calls have the same id; a call that was begun is ended; there
//! is a bound to everything. A stream that breaks one of these is an error, never a shorter answer.

use std::collections::HashSet;

use super::error::ProviderError;
use super::limits::{AnswerLimits, CALL_NAME_BYTES};
use super::provider::{ProviderEvent, StopReason};

/// Watches over one answer.
#[derive(Debug)]
pub struct Guard {
    limits: AnswerLimits,
    ids: HashSet<String>,
    /// For each call whether it is open.
    calls: Vec<bool>,
    arguments: usize,
    has_stopped: bool,
}

impl Guard {
    /// Begins.
    #[must_use]
    pub fn new(limits: AnswerLimits) -> Self {
        Self {
            limits,
            ids: HashSet::new(),
            calls: Vec::new(),
            arguments: 0,
            has_stopped: false,
        }
    }

    /// Looks at the next event.
    pub fn pass(&mut self, event: &ProviderEvent) -> Result<(), ProviderError> {
        if self.has_stopped {
            return Err(ProviderError::broken("the model went on after its end"));
        }
        match event {
            ProviderEvent::CallBegin { call, id, name } => self.begin(*call, id, name),
            ProviderEvent::CallArguments { call, text } => {
                self.open(*call)?;
                self.arguments += text.len();
                match self.arguments > self.limits.arguments_bytes {
                    true => Err(ProviderError::limit(format!(
                        "the tool calls have more than {} bytes of arguments",
                        self.limits.arguments_bytes
                    ))),
                    false => Ok(()),
                }
            }
            ProviderEvent::CallEnd { call } => {
                *self.open(*call)? = false;
                Ok(())
            }
            ProviderEvent::Stop(reason) => self.stop(reason),
            ProviderEvent::Text(_)
            | ProviderEvent::Reasoning(_)
            | ProviderEvent::ReasoningEnd(_)
            | ProviderEvent::Usage(_) => Ok(()),
        }
    }

    /// Looks at the end of the stream.
    pub fn end(&self) -> Result<(), ProviderError> {
        match self.has_stopped {
            true => Ok(()),
            false => Err(ProviderError::broken(
                "the answer ended without a reason to stop",
            )),
        }
    }

    fn begin(&mut self, call: usize, id: &str, name: &str) -> Result<(), ProviderError> {
        if self.calls.len() >= self.limits.calls {
            let most = self.limits.calls;
            return Err(ProviderError::limit(format!(
                "the answer has more than {most} tool calls"
            )));
        }
        let named = |text: &str| !text.is_empty() && text.len() <= CALL_NAME_BYTES;
        if !named(id) || !named(name) {
            return Err(ProviderError::broken(
                "the answer has a tool call without an id or a name, or with one that is too long",
            ));
        }
        if call != self.calls.len() {
            return Err(ProviderError::broken("the tool calls are out of order"));
        }
        if !self.ids.insert(id.to_owned()) {
            return Err(ProviderError::broken(format!(
                "two tool calls of the answer have the id {id:?}"
            )));
        }
        self.calls.push(true);
        Ok(())
    }

    fn open(&mut self, call: usize) -> Result<&mut bool, ProviderError> {
        let open = self.calls.get_mut(call).filter(|open| **open);
        open.ok_or_else(|| {
            ProviderError::broken("the answer goes on with a tool call that is not open")
        })
    }

    fn stop(&mut self, reason: &StopReason) -> Result<(), ProviderError> {
        if self.calls.contains(&true) {
            return Err(ProviderError::broken(
                "the answer ended in the middle of a tool call",
            ));
        }
        if *reason == StopReason::Tools && self.calls.is_empty() {
            return Err(ProviderError::broken(
                "the answer says that tools are to be called, and calls none",
            ));
        }
        self.has_stopped = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::error::ErrorKind;

    fn begin(call: usize, id: &str) -> ProviderEvent {
        ProviderEvent::CallBegin {
            call,
            id: id.to_owned(),
            name: "bash".to_owned(),
        }
    }

    fn more(call: usize) -> ProviderEvent {
        ProviderEvent::CallArguments {
            call,
            text: "{}".to_owned(),
        }
    }

    fn check(events: &[ProviderEvent]) -> Result<(), ProviderError> {
        let mut guard = Guard::new(AnswerLimits {
            calls: 3,
            arguments_bytes: 6,
            ..AnswerLimits::default()
        });
        for event in events {
            guard.pass(event)?;
        }
        guard.end()
    }

    #[test]
    fn answers_that_keep_to_the_rules_and_answers_that_do_not() {
        use ProviderEvent::{CallEnd, Stop, Text};
        let text = || Text("x".to_owned());
        let end = |call| CallEnd { call };
        let long = "x".repeat(CALL_NAME_BYTES + 1);
        let table: [(Vec<ProviderEvent>, Option<ErrorKind>); 16] = [
            (vec![text(), Stop(StopReason::End)], None),
            (vec![Stop(StopReason::End)], None),
            (
                vec![
                    begin(0, "a"),
                    begin(1, "b"),
                    more(1),
                    more(0),
                    end(0),
                    end(1),
                    Stop(StopReason::Tools),
                ],
                None,
            ),
            // Many servers say `stop` although they call tools.
            (vec![begin(0, "a"), end(0), Stop(StopReason::End)], None),
            (vec![], Some(ErrorKind::Broken)),
            (vec![text()], Some(ErrorKind::Broken)),
            (vec![Stop(StopReason::Tools)], Some(ErrorKind::Broken)),
            (vec![Stop(StopReason::End), text()], Some(ErrorKind::Broken)),
            (
                vec![begin(0, "a"), Stop(StopReason::Tools)],
                Some(ErrorKind::Broken),
            ),
            (vec![begin(0, "a"), begin(1, "a")], Some(ErrorKind::Broken)),
            (vec![begin(0, "")], Some(ErrorKind::Broken)),
            (vec![begin(0, &long)], Some(ErrorKind::Broken)),
            (
                vec![begin(0, "a"), end(0), more(0)],
                Some(ErrorKind::Broken),
            ),
            (vec![more(0)], Some(ErrorKind::Broken)),
            (
                vec![begin(0, "a"), begin(1, "b"), begin(2, "c"), begin(3, "d")],
                Some(ErrorKind::Limit),
            ),
            (
                vec![begin(0, "a"), more(0), more(0), more(0), more(0)],
                Some(ErrorKind::Limit),
            ),
        ];
        for (events, expected) in table {
            let found = check(&events).err().map(|error| error.kind);
            assert_eq!(found, expected, "{events:?}");
        }
    }
}
