//! What happens in a turn, told as it happens, or not.

use relay_harness::acp::event::SessionEvent;

use crate::failure::Outcome;
use crate::output::{Flow, Output};
use crate::words::Doing;

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
    flow: Flow,
}

impl<'a> Chatter<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self {
            output,
            doing: Doing::default(),
            flow: Flow::default(),
        }
    }

    /// Ends the line that was begun.
    pub(super) fn end(&mut self) -> Outcome {
        self.flow.end(self.output)
    }
}

impl Teller for Chatter<'_> {
    fn tell(&mut self, event: &SessionEvent) -> Outcome {
        if self.output.is_json() {
            return self.output.json_line(event);
        }
        match self.doing.tell(self.output.style(), &event.event) {
            Some(told) => self.flow.write(self.output, &told),
            None => Ok(()),
        }
    }
}
