//! One request before somebody's eyes: what is shown of it, and what a key does. Pure.

use relay_protocol::permission::{PermissionRecord, ResolvePermission, ToolParams};

use super::editing;
use crate::commands::permission::reading;
use crate::output::{Style, fields, one_line};
use crate::platform::Key;
use crate::words;

/// What can be done by somebody who does nothing else.
const ALL_KEYS: &str =
    "[a]llow once  [A]lways  [d]eny  [D]eny and stop  [g]uidance  [e]dit  [s]kip  [q]uit";

/// What can be done about a call of a coding agent that runs here: its protocol has no way to run another one.
const AGENT_KEYS: &str = "[a]llow once  [A]lways  [d]eny  [D]eny and stop  [g]uidance  [s]kip";

/// A request that is shown.
pub(crate) struct Card {
    pub(crate) record: PermissionRecord,
    /// Parameters to run with instead.
    pub(crate) edited: Option<ToolParams>,
    /// What is being typed, and what for.
    pub(crate) typing: Option<(Purpose, String)>,
    /// Something that went wrong.
    pub(crate) note: Option<String>,
    /// Whether it is too tall to change in place, and stands above already.
    pub(crate) stands: bool,
    /// Whether it is the call of an agent that runs here.
    of_agent: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Guidance,
    Params,
}

/// What a key does.
pub(crate) enum Deed {
    Nothing,
    Answer(Box<ResolvePermission>),
    Edit,
    Skip,
    Quit,
}

impl Deed {
    fn answer(answer: ResolvePermission) -> Self {
        Self::Answer(Box::new(answer))
    }
}

impl Card {
    pub(crate) const fn new(record: PermissionRecord) -> Self {
        Self {
            record,
            edited: None,
            typing: None,
            note: None,
            stands: false,
            of_agent: false,
        }
    }

    /// A request of an agent that runs here.
    pub(crate) fn of_agent(record: PermissionRecord) -> Self {
        Self {
            of_agent: true,
            ..Self::new(record)
        }
    }

    /// The call.
    pub(crate) fn head(&self, style: &Style) -> Vec<String> {
        let mut shown = self.record.clone();
        let mut lines = vec![reading::heading(style, &shown)];
        if let Some(params) = &self.edited {
            shown.params.clone_from(params);
            shown.suggestions.clear();
        }
        let rows = reading::call_fields(style, &shown);
        lines.extend(fields(style, &rows).lines().map(str::to_owned));
        if self.edited.is_some() {
            lines.push(style.open("changed by you; [a] allows it like this"));
        }
        lines
    }

    /// What can be done about it, and for how long.
    pub(crate) fn foot(&self, style: &Style, behind: usize) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(note) = &self.note {
            lines.push(style.bad(&one_line(note)));
        }
        if let Some((purpose, text)) = &self.typing {
            let what = match purpose {
                Purpose::Guidance => "deny, and do instead",
                Purpose::Params => "parameters",
            };
            lines.push(format!("{}: {}_", style.strong(what), one_line(text)));
            lines.push(style.faint("Enter takes it, Escape goes back"));
            return lines;
        }
        let behind = match behind {
            0 => String::new(),
            count => format!(", {count} more"),
        };
        let left = words::countdown(self.record.expires_at);
        let keys = if self.of_agent { AGENT_KEYS } else { ALL_KEYS };
        lines.push(format!(
            "{}  {keys}",
            style.open(&format!("{left}{behind}"))
        ));
        lines
    }

    pub(crate) fn pressed(&mut self, key: Key) -> Deed {
        let Key::Letter(letter) = key else {
            return Deed::Nothing;
        };
        self.note = None;
        match letter {
            'a' => Deed::answer(ResolvePermission {
                updated_params: self.edited.clone(),
                ..ResolvePermission::approve()
            }),
            'A' if self.edited.is_some() => {
                self.say("what you have changed can be allowed once only")
            }
            'A' if self.record.suggestions.is_empty() => {
                self.say("no rule can be offered for this call; [a] allows it once")
            }
            'A' => Deed::answer(ResolvePermission::approve_always()),
            'd' => Deed::answer(ResolvePermission::default()),
            'D' => Deed::answer(ResolvePermission {
                stop: Some(true),
                ..ResolvePermission::default()
            }),
            'g' => {
                self.typing = Some((Purpose::Guidance, String::new()));
                Deed::Nothing
            }
            'e' | 'q' if self.of_agent => Deed::Nothing,
            'e' if self.record.masked == Some(true) => {
                self.say("it holds secrets that are not shown, so it can't be changed")
            }
            'e' => Deed::Edit,
            's' => Deed::Skip,
            'q' => Deed::Quit,
            _ => Deed::Nothing,
        }
    }

    fn say(&mut self, note: &str) -> Deed {
        self.note = Some(note.to_owned());
        Deed::Nothing
    }

    /// A key while a line is typed.
    pub(crate) fn typed(&mut self, key: Key) -> Deed {
        let Some((purpose, text)) = &mut self.typing else {
            return Deed::Nothing;
        };
        match key {
            Key::Letter(letter) => text.push(letter),
            Key::Backspace => drop(text.pop()),
            Key::Escape => self.typing = None,
            Key::Enter => {
                let (purpose, text) = (*purpose, std::mem::take(text));
                self.typing = None;
                return self.entered(purpose, &text);
            }
            Key::End | Key::Other => {}
        }
        Deed::Nothing
    }

    fn entered(&mut self, purpose: Purpose, text: &str) -> Deed {
        match purpose {
            Purpose::Guidance if text.trim().is_empty() => self.say("nothing was written"),
            Purpose::Guidance => Deed::answer(ResolvePermission {
                guidance: Some(text.to_owned()),
                ..ResolvePermission::default()
            }),
            Purpose::Params => {
                self.take_edited(editing::read(text));
                Deed::Nothing
            }
        }
    }

    /// What somebody made of the parameters. What stands above is shown again as it is now.
    pub(crate) fn take_edited(&mut self, edited: Result<ToolParams, String>) {
        match edited {
            Ok(params) => {
                self.edited = (params != self.record.params).then_some(params);
                self.stands = false;
            }
            Err(why) => self.note = Some(why),
        }
    }
}
