//! The terminal of somebody who sits with an agent: what it does stays above, and at the bottom is a line to type in, or the
//! request that waits for a key.
//!
//! Only a key that was pressed alone and after the request was shown decides, as in `relay permission watch`.

use std::collections::VecDeque;
use std::time::Duration;

use relay_protocol::ids::PermissionId;
use relay_protocol::permission::PermissionRecord;
use relay_protocol::status::AgentStatus;

use super::step::Step;
use super::view::Entered;
use crate::commands::permission::{Card, Deed};
use crate::failure::Outcome;
use crate::output::{Output, Panel, one_line};
use crate::platform::{Key, Keyboard};
use crate::words::{Doing, Told};

/// How often the countdown of a request moves.
const TICK: Duration = Duration::from_secs(1);

/// The terminal.
pub(super) struct Screen {
    panel: Panel,
    keyboard: Keyboard,
    name: String,
    status: AgentStatus,
    doing: Doing,
    /// The line that the agent has begun, and whether it is a thought.
    begun: String,
    is_thought: bool,
    /// What its user has typed.
    typed: String,
    waiting: VecDeque<PermissionRecord>,
    card: Option<Card>,
    /// A request that was shown and not told of yet.
    shown: Option<PermissionId>,
}

impl Screen {
    pub(super) fn new(panel: Panel, keyboard: Keyboard, name: &str) -> Self {
        Self {
            panel,
            keyboard,
            name: name.to_owned(),
            status: AgentStatus::Starting,
            doing: Doing::default(),
            begun: String::new(),
            is_thought: false,
            typed: String::new(),
            waiting: VecDeque::new(),
            card: None,
            shown: None,
        }
    }

    /// Shows something that happened.
    pub(super) fn show(&mut self, step: Step, output: &Output) -> Outcome {
        match step {
            Step::Status { status } => self.status = status,
            Step::Asked { permission } => self.waiting.push_back(*permission),
            step => {
                if let Step::Decided { permission } = &step {
                    self.forget(permission.permission_id);
                }
                match step.tell(output.style(), &mut self.doing) {
                    Some(Told::Text(text)) => self.piece(&text, false, output)?,
                    Some(Told::Thought(text)) => self.piece(&text, true, output)?,
                    Some(Told::Line(line)) => {
                        self.end_line(output)?;
                        self.panel.leave(output, &line)?;
                    }
                    None => {}
                }
            }
        }
        self.draw(output)
    }

    /// The request that was put before somebody's eyes since this was asked last.
    pub(super) fn newly_shown(&mut self) -> Option<PermissionId> {
        self.shown.take()
    }

    /// Takes a request away that is over.
    pub(super) fn forget(&mut self, id: PermissionId) {
        self.card.take_if(|card| card.record.permission_id == id);
        self.waiting.retain(|record| record.permission_id != id);
    }

    /// Says that an answer was not taken.
    pub(super) fn refuse(&mut self, id: PermissionId, why: &str, output: &Output) -> Outcome {
        if let Some(card) = &mut self.card
            && card.record.permission_id == id
        {
            card.note = Some(why.to_owned());
        }
        self.draw(output)
    }

    /// What somebody does next.
    pub(super) async fn entered(&mut self, output: &Output) -> Outcome<Entered> {
        loop {
            let key = tokio::select! {
                key = self.keyboard.key() => key,
                () = tokio::time::sleep(TICK), if self.card.is_some() => {
                    self.draw(output)?;
                    continue;
                }
            };
            let Some(key) = key else {
                return Ok(Entered::End);
            };
            let is_alone = !self.keyboard.has_more();
            let entered = match self.card.is_some() {
                true => self.decides(key, is_alone),
                false => self.types(key, is_alone),
            };
            self.draw(output)?;
            if let Some(entered) = entered {
                return Ok(entered);
            }
        }
    }

    /// Takes everything at the bottom away.
    pub(super) fn clear(&mut self, output: &Output) -> Outcome {
        self.end_line(output)?;
        self.panel.clear(output)
    }

    fn decides(&mut self, key: Key, is_alone: bool) -> Option<Entered> {
        let card = self.card.as_mut()?;
        let deed = match card.typing.is_some() {
            true => card.typed(key),
            false if is_alone => card.pressed(key),
            false => Deed::Nothing,
        };
        match deed {
            Deed::Answer(answer) => Some(Entered::Answer(Box::new(card.record.clone()), answer)),
            // Others may still decide about it.
            Deed::Skip => {
                self.card = None;
                None
            }
            Deed::Nothing | Deed::Edit | Deed::Quit => None,
        }
    }

    fn types(&mut self, key: Key, is_alone: bool) -> Option<Entered> {
        match key {
            Key::Letter(letter) => self.typed.push(letter),
            Key::Backspace => drop(self.typed.pop()),
            Key::Escape => self.typed.clear(),
            // Several lines that are pasted are one prompt.
            Key::Enter if !is_alone => self.typed.push('\n'),
            Key::Enter => {
                let typed = std::mem::take(&mut self.typed);
                let is_empty = typed.trim().is_empty();
                return (!is_empty).then_some(Entered::Prompt(typed));
            }
            Key::End if self.typed.is_empty() => return Some(Entered::End),
            Key::End | Key::Other => {}
        }
        None
    }

    /// A piece of the agent's text. Whole lines stay; the last one goes on.
    fn piece(&mut self, text: &str, is_thought: bool, output: &Output) -> Outcome {
        if self.is_thought != is_thought {
            self.end_line(output)?;
            self.is_thought = is_thought;
        }
        self.begun.push_str(text);
        while let Some((line, rest)) = self.begun.split_once('\n') {
            let (line, rest) = (self.painted(line, output), rest.to_owned());
            self.panel.leave(output, &line)?;
            self.begun = rest;
        }
        Ok(())
    }

    fn end_line(&mut self, output: &Output) -> Outcome {
        if self.begun.is_empty() {
            return Ok(());
        }
        let line = self.painted(&self.begun, output);
        self.begun.clear();
        self.panel.leave(output, &line)
    }

    fn painted(&self, text: &str, output: &Output) -> String {
        match self.is_thought {
            true => output.style().faint(text),
            false => text.to_owned(),
        }
    }

    fn draw(&mut self, output: &Output) -> Outcome {
        self.next_card();
        let mut bottom = self.bottom(output);
        let begun = (!self.begun.is_empty()).then(|| self.painted(&self.begun, output));
        let mut all: Vec<String> = begun.into_iter().collect();
        all.append(&mut bottom.clone());
        if !self.panel.has_room(&all) {
            // What scrolls away can't be changed, so it stays as it is.
            self.end_line(output)?;
            if let Some(card) = self.card.as_mut().filter(|card| !card.stands) {
                card.stands = true;
                let head = card.head(output.style());
                self.panel.leave(output, &head.join("\n"))?;
            }
            bottom = self.bottom(output);
            all = bottom;
        }
        self.panel.draw(output, all)
    }

    /// Puts the next request before somebody's eyes. What was typed before was not meant for it.
    fn next_card(&mut self) {
        if self.card.is_some() {
            return;
        }
        if let Some(record) = self.waiting.pop_front() {
            self.keyboard.forget();
            self.shown = Some(record.permission_id);
            self.card = Some(Card::of_agent(record));
        }
    }

    fn bottom(&self, output: &Output) -> Vec<String> {
        let style = output.style();
        if let Some(card) = &self.card {
            let head = match card.stands {
                true => Vec::new(),
                false => card.head(style),
            };
            let foot = card.foot(style, self.waiting.len());
            return head.into_iter().chain(foot).collect();
        }
        let standing = format!(
            "@{} is {}; Ctrl-C cancels its turn, Ctrl-D ends it",
            self.name, self.status
        );
        vec![
            style.faint(&standing),
            format!("{} {}_", style.strong(">"), one_line_kept(&self.typed)),
        ]
    }
}

/// What is typed on one line, with its last space: somebody is going on.
fn one_line_kept(text: &str) -> String {
    let end = if text.ends_with(' ') { " " } else { "" };
    format!("{}{end}", one_line(text))
}
