//! Words of an agent as they come, and lines between them, on standard output.

use super::Output;
use crate::failure::Outcome;
use crate::words::Told;

/// Writes pieces one after the other, and sees to it that a line stands alone.
#[derive(Default)]
pub(crate) struct Flow {
    /// What the line that was begun consists of.
    begun: Option<Begun>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    Text,
    Thought,
}

impl Flow {
    pub(crate) fn write(&mut self, output: &Output, told: &Told) -> Outcome {
        match told {
            Told::Text(text) => self.piece(output, Begun::Text, text),
            Told::Thought(text) => self.piece(output, Begun::Thought, text),
            Told::Line(line) => {
                self.end(output)?;
                output.line(line)
            }
        }
    }

    /// Ends the line that was begun.
    pub(crate) fn end(&mut self, output: &Output) -> Outcome {
        match self.begun.take() {
            Some(_) => output.write("\n"),
            None => Ok(()),
        }
    }

    fn piece(&mut self, output: &Output, kind: Begun, text: &str) -> Outcome {
        if self.begun.is_some_and(|begun| begun != kind) {
            self.end(output)?;
        }
        let shown = match kind {
            Begun::Text => text.to_owned(),
            Begun::Thought => output.style().faint(text),
        };
        output.write(&shown)?;
        self.begun = (!text.ends_with('\n')).then_some(kind);
        Ok(())
    }
}
