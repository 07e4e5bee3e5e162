//! How somebody sees what an agent does, and says something to it: in a terminal, or by lines in and out.

use std::io::BufRead as _;

use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionRecord, ResolvePermission};
use tokio::sync::mpsc;

use super::screen::Screen;
use super::step::Step;
use crate::failure::Outcome;
use crate::output::{Flow, Output};
use crate::platform::Keyboard;
use crate::words::Doing;

/// Most lines of standard input that wait.
const TYPED_AHEAD: usize = 16;

/// What somebody did.
pub(super) enum Entered {
    /// Something for the agent.
    Prompt(String),
    /// A decision about what it asked.
    Answer(Box<PermissionRecord>, Box<ResolvePermission>),
    /// It is to end.
    End,
}

/// The one who looks on.
pub(super) struct View<'a> {
    output: &'a Output,
    kind: Kind,
}

enum Kind {
    Screen(Box<Screen>),
    Lines {
        doing: Doing,
        flow: Flow,
        typed: mpsc::Receiver<String>,
    },
}

impl<'a> View<'a> {
    /// The terminal, where there is one at both ends; otherwise lines.
    pub(super) fn open(output: &'a Output, name: &str) -> Self {
        let panel = output.panel();
        let kind = match panel.and_then(|panel| Some((panel, Keyboard::open()?))) {
            Some((panel, keyboard)) => Kind::Screen(Box::new(Screen::new(panel, keyboard, name))),
            None => Kind::Lines {
                doing: Doing::default(),
                flow: Flow::default(),
                typed: lines_of_input(),
            },
        };
        Self { output, kind }
    }

    /// Whether somebody sits there.
    pub(super) const fn is_screen(&self) -> bool {
        matches!(self.kind, Kind::Screen(_))
    }

    pub(super) fn show(&mut self, step: Step) -> Outcome {
        match &mut self.kind {
            Kind::Screen(screen) => screen.show(step, self.output),
            Kind::Lines { .. } if self.output.is_json() => self.output.json_line(&step),
            Kind::Lines { doing, flow, .. } => match step.tell(self.output.style(), doing) {
                Some(told) => flow.write(self.output, &told),
                None => Ok(()),
            },
        }
    }

    /// What somebody does next. The end of lines is no end: an agent that a service manager has started has no input.
    pub(super) async fn entered(&mut self) -> Outcome<Entered> {
        match &mut self.kind {
            Kind::Screen(screen) => screen.entered(self.output).await,
            Kind::Lines { typed, .. } => match typed.recv().await {
                Some(line) => Ok(Entered::Prompt(line)),
                None => std::future::pending().await,
            },
        }
    }

    /// The request that was put before somebody's eyes just now.
    pub(super) fn newly_shown(&mut self) -> Option<PermissionId> {
        match &mut self.kind {
            Kind::Screen(screen) => screen.newly_shown(),
            Kind::Lines { .. } => None,
        }
    }

    /// Takes a request away that is over.
    pub(super) fn forget(&mut self, id: PermissionId) {
        if let Kind::Screen(screen) = &mut self.kind {
            screen.forget(id);
        }
    }

    /// Says that an answer was not taken.
    pub(super) fn refuse(&mut self, id: PermissionId, why: &str) -> Outcome {
        match &mut self.kind {
            Kind::Screen(screen) => screen.refuse(id, why, self.output),
            Kind::Lines { .. } => Ok(()),
        }
    }

    /// Leaves what there is to see as it is.
    pub(super) fn clear(&mut self) -> Outcome {
        match &mut self.kind {
            Kind::Screen(screen) => screen.clear(self.output),
            Kind::Lines { flow, .. } => flow.end(self.output),
        }
    }
}

/// The lines of standard input. A thread that nobody waits for reads them: nothing else can be left alone while it reads.
fn lines_of_input() -> mpsc::Receiver<String> {
    let (tell, typed) = mpsc::channel(TYPED_AHEAD);
    let reading = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if !line.trim().is_empty() && tell.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // Without it nothing is typed.
    let _ = std::thread::Builder::new().spawn(reading);
    typed
}
