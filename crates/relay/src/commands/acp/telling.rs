//! What happens in a turn, told as it happens, or not.

use relay_harness::acp::event::SessionEvent;

use crate::failure::Outcome;
use crate::output::Output;
use crate::words::{Doing, Told};

/// Somebody who is told.
pub(super) trait Teller {
    fn tell(&mut self, event: &SessionEvent) -> Outcome;
}

/// Tells nothing: the answer is enough.
pub(super) struct Quiet;

impl Teller for Quiet {
    fn tell(&mut self, _: &SessionEvent) -> Outcome {
        Ok(())
    }
}

/// Tells everything on standard output: words for people, a line for each event for programs.
pub(super) struct Chatter<'a> {
    output: &'a Output,
    doing: Doing,
    /// Whether a line was begun, and with what.
    begun: Option<Begun>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Text,
    Thought,
}

impl<'a> Chatter<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self {
            output,
            doing: Doing::default(),
            begun: None,
        }
    }

    /// Ends the line that was begun.
    pub(super) fn end(&mut self) -> Outcome {
        match self.begun.take() {
            Some(_) => self.output.write("\n"),
            None => Ok(()),
        }
    }

    fn piece(&mut self, kind: Begun, text: &str) -> Outcome {
        if self.begun.is_some_and(|begun| begun != kind) {
            self.end()?;
        }
        let shown = match kind {
            Begun::Text => text.to_owned(),
            Begun::Thought => self.output.style().faint(text),
        };
        self.output.write(&shown)?;
        self.begun = (!text.ends_with('\n')).then_some(kind);
        Ok(())
    }
}

impl Teller for Chatter<'_> {
    fn tell(&mut self, event: &SessionEvent) -> Outcome {
        if self.output.is_json() {
            return self.output.json_line(event);
        }
        match self.doing.tell(self.output.style(), &event.event) {
            Some(Told::Text(text)) => self.piece(Begun::Text, &text),
            Some(Told::Thought(text)) => self.piece(Begun::Thought, &text),
            Some(Told::Line(line)) => {
                self.end()?;
                self.output.line(&line)
            }
            None => Ok(()),
        }
    }
}
