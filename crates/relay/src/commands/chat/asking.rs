//! A call of the model before somebody's eyes, and the key that decides about it; and the lines that are typed.
//!
//! Only a key that was pressed alone and after the question was shown decides, as in `relay permission watch`. While nothing is
//! asked the terminal edits lines as it always does.

use relay_sdk::PermissionResponse;
use serde_json::Value;

use crate::output::{Style, one_line};
use crate::platform::{Key, Keyboard};
use crate::words;

/// A call that waits for a decision.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) params: Value,
    title: Option<String>,
    args_hash: Option<String>,
    /// What `always` would grant: the rule, and what it covers.
    pub(super) rule: Option<(String, String)>,
}

impl Question {
    /// The question of a `relay` event.
    pub(super) fn of(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let offer = &event["suggestions"][0];
        Self {
            id: text(&event["id"]).unwrap_or_default(),
            tool: text(&event["tool"]).unwrap_or_default(),
            params: event["params"].clone(),
            title: text(&event["title"]),
            args_hash: text(&event["argsHash"]),
            rule: text(&offer["rule"]).zip(text(&offer["covers"])),
        }
    }

    /// The call, and the keys.
    fn card(&self, style: &Style) -> String {
        let mut lines = vec![format!(
            "{} {}",
            style.open("asks"),
            style.strong(&one_line(&self.tool))
        )];
        if let Some(title) = &self.title {
            lines.push(format!("  {}", one_line(title)));
        }
        for (name, value) in self.params.as_object().into_iter().flatten() {
            let value = words::value(style, name, value);
            lines.push(format!("  {}: {value}", style.faint(&one_line(name))));
        }
        let always = match &self.rule {
            Some((rule, covers)) => {
                let (rule, covers) = (style.strong(&one_line(rule)), one_line(covers));
                lines.push(format!("  {}: {rule}  {covers}", style.faint("always")));
                "  [A]lways"
            }
            None => "",
        };
        lines.push(format!(
            "[a]llow once{always}  [d]eny  deny with a [r]eason  [D]eny and stop"
        ));
        lines.join("\n")
    }

    /// The decision on the wire. It is about exactly what was shown.
    pub(super) fn answer(&self, answer: &Answer) -> PermissionResponse {
        let decided = match answer {
            Answer::Allow => PermissionResponse::approve(),
            Answer::Always => PermissionResponse::approve_always(),
            Answer::Deny(reason) => PermissionResponse::deny(reason.as_deref()),
            Answer::Stop => PermissionResponse {
                stop: Some(true),
                ..PermissionResponse::deny(None)
            },
        };
        PermissionResponse {
            args_hash: self.args_hash.clone(),
            ..decided
        }
    }
}

/// What is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allow,
    Always,
    Deny(Option<String>),
    Stop,
}

impl Answer {
    pub(super) fn told(&self, style: &Style) -> String {
        match self {
            Self::Allow => style.good("allowed"),
            Self::Always => style.good("allowed from now on in this conversation"),
            Self::Deny(_) => style.bad("denied"),
            Self::Stop => style.bad("denied, and stopped"),
        }
    }
}

/// Whoever sits at the terminal.
pub(super) struct Asker {
    keyboard: Keyboard,
    style: Style,
    has_rule: bool,
    /// A reason is typed.
    is_typing: bool,
    typed: String,
}

impl Asker {
    pub(super) fn new(keyboard: Keyboard, style: Style) -> Self {
        keyboard.give_back();
        Self {
            keyboard,
            style,
            has_rule: false,
            is_typing: false,
            typed: String::new(),
        }
    }

    /// Begins to ask: what to show.
    pub(super) fn show(&mut self, question: &Question) -> String {
        self.keyboard.take();
        // What was typed before was not meant for it.
        self.keyboard.forget();
        self.has_rule = question.rule.is_some();
        question.card(&self.style)
    }

    /// Nothing is asked any more.
    pub(super) fn dismiss(&mut self) {
        self.is_typing = false;
        self.typed.clear();
        self.keyboard.give_back();
    }

    /// What somebody decides, and what to write meanwhile. Safe to stop waiting for.
    pub(super) async fn answer(&mut self) -> Pressed {
        loop {
            let key = self.keyboard.key().await;
            let is_alone = !self.keyboard.has_more();
            let pressed = match key {
                // Nobody is there any more.
                None => Some(Pressed::Decided(Answer::Deny(None))),
                Some(key) if self.is_typing => self.reason(key),
                // An arrow, and its like.
                Some(Key::Other) => None,
                // What is pasted decides nothing.
                Some(_) if !is_alone => {
                    self.keyboard.forget();
                    None
                }
                Some(key) => self.pressed(key),
            };
            if let Some(pressed) = pressed {
                return pressed;
            }
        }
    }

    fn pressed(&mut self, key: Key) -> Option<Pressed> {
        let Key::Letter(letter) = key else {
            return None;
        };
        Some(Pressed::Decided(match letter {
            'a' => Answer::Allow,
            'A' if self.has_rule => Answer::Always,
            'd' => Answer::Deny(None),
            'D' => Answer::Stop,
            'r' => {
                self.is_typing = true;
                self.typed.clear();
                // The terminal shows and edits the line.
                self.keyboard.give_back();
                return Some(Pressed::Writes("deny, because: "));
            }
            _ => return None,
        }))
    }

    fn reason(&mut self, key: Key) -> Option<Pressed> {
        match key {
            Key::Letter(letter) => self.typed.push(letter),
            Key::Enter => {
                self.is_typing = false;
                let reason = std::mem::take(&mut self.typed).trim().to_owned();
                let reason = (!reason.is_empty()).then_some(reason);
                return Some(Pressed::Decided(Answer::Deny(reason)));
            }
            _ => {}
        }
        None
    }

    /// A line that is typed; nothing at the end.
    pub(super) async fn line(&mut self) -> Option<String> {
        self.keyboard.give_back();
        loop {
            match self.keyboard.key().await {
                Some(Key::Letter(letter)) => self.typed.push(letter),
                Some(Key::Enter) => return Some(std::mem::take(&mut self.typed)),
                Some(_) => {}
                None => return None,
            }
        }
    }
}

/// What came of a key.
pub(super) enum Pressed {
    Decided(Answer),
    /// A line is begun.
    Writes(&'static str),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_card_shows_what_always_means_or_does_not_offer_it() {
        let mut event = json!({
            "id": "p", "tool": "bash", "params": { "command": "ls -la" }, "argsHash": "h",
            "suggestions": [{ "rule": "bash:ls **", "scope": "session", "covers": "`ls` with any arguments" }],
        });
        let style = Style::new(false);
        assert_eq!(
            Question::of(&event).card(&style),
            "asks bash\n  command: ls -la\n  always: bash:ls **  `ls` with any arguments\n\
             [a]llow once  [A]lways  [d]eny  deny with a [r]eason  [D]eny and stop"
        );
        event["suggestions"] = json!([]);
        let card = Question::of(&event).card(&style);
        assert!(!card.contains("lways"), "{card}");
    }

    #[test]
    fn decisions_are_about_what_was_shown() {
        let question = Question::of(&json!({ "id": "p", "argsHash": "h" }));
        let reason = Answer::Deny(Some("no".to_owned()));
        let denied = PermissionResponse {
            args_hash: Some("h".to_owned()),
            ..PermissionResponse::deny(Some("no"))
        };
        assert_eq!(question.answer(&reason), denied);
        assert_eq!(question.answer(&Answer::Stop).stop, Some(true));
        assert_eq!(question.answer(&Answer::Always).always, Some(true));
    }
}
