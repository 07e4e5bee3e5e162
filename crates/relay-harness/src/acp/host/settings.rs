//! What can be set in a session: modes, models, options. Agents have them in two generations: lists of modes and models, and
//! options with a category.

use serde_json::Value;

use crate::acp::event::Event;

/// What can be set in a session, and how it is set now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The modes, where the agent has any.
    pub modes: Option<Choice>,
    /// The models, where the agent lists them by themselves.
    pub models: Option<Choice>,
    /// The options.
    pub options: Vec<ConfigOption>,
    /// The slash commands, once the agent has told them.
    pub commands: Vec<String>,
    /// The title of the session.
    pub title: Option<String>,
}

/// One of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The one that is on.
    pub current: String,
    /// All, by id.
    pub available: Vec<String>,
}

/// An option of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigOption {
    /// Its id.
    pub id: String,
    /// What it is about: `mode`, `model`, `thought_level`, or what the agent calls it.
    pub category: Option<String>,
    /// How it is set.
    pub current: Value,
    /// The values that can be chosen, where they are listed.
    pub available: Vec<String>,
    /// The option as it came.
    pub raw: Value,
}

impl Settings {
    /// Reads what an answer to opening a session says; what it does not say stays.
    pub(super) fn read(&mut self, answer: &Value) {
        let modes = Choice::read(&answer["modes"], ["currentModeId", "availableModes", "id"]);
        let models = Choice::read(
            &answer["models"],
            ["currentModelId", "availableModels", "modelId"],
        );
        self.modes = modes.or(self.modes.take());
        self.models = models.or(self.models.take());
        if answer["configOptions"].is_array() {
            self.options = ConfigOption::read_all(&answer["configOptions"]);
        }
    }

    /// Takes what an update changes.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Mode { mode } => {
                let modes = self.modes.get_or_insert_default();
                modes.current.clone_from(mode);
            }
            Event::ConfigOptions { options } => self.options = ConfigOption::read_all(options),
            Event::Commands { names } => self.commands.clone_from(names),
            Event::Title { title } => self.title = Some(title.clone()),
            _ => {}
        }
    }

    /// The option that carries the model.
    #[must_use]
    pub fn model_option(&self) -> Option<&ConfigOption> {
        let mut by_category = self.options.iter();
        by_category
            .find(|option| option.category.as_deref() == Some("model"))
            .or_else(|| self.options.iter().find(|option| option.id == "model"))
    }
}

impl Choice {
    fn read(found: &Value, [current, available, id]: [&str; 3]) -> Option<Self> {
        let all = found[available].as_array()?.iter();
        Some(Self {
            current: found[current].as_str().unwrap_or_default().to_owned(),
            available: all.filter_map(|one| text(&one[id])).collect(),
        })
    }

    /// Whether this can be chosen. Where nothing is listed, everything can.
    #[must_use]
    pub fn allows(&self, id: &str) -> bool {
        self.available.is_empty() || self.available.iter().any(|known| known == id)
    }
}

impl ConfigOption {
    pub(super) fn read_all(options: &Value) -> Vec<Self> {
        let options = options.as_array().into_iter().flatten();
        options.filter_map(Self::read).collect()
    }

    fn read(option: &Value) -> Option<Self> {
        let choices = option["options"].as_array().into_iter().flatten();
        // Choices may be in groups.
        let choices = choices.flat_map(|choice| match choice["options"].as_array() {
            Some(group) => group.iter().collect(),
            None => vec![choice],
        });
        Some(Self {
            id: text(&option["id"])?,
            category: text(&option["category"]),
            current: option["currentValue"].clone(),
            available: choices
                .filter_map(|choice| text(&choice["value"]))
                .collect(),
            raw: option.clone(),
        })
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_generations_are_read() {
        let mut settings = Settings::default();
        settings.read(&json!({
            "sessionId": "s",
            "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "code"}]},
            "models": {"currentModelId": "m1", "availableModels": [{"modelId": "m1"}, {"modelId": "m2"}]},
            "configOptions": [
                {"id": "m", "category": "model", "type": "select", "currentValue": "a",
                    "options": [{"value": "a"}, {"group": "g", "options": [{"value": "b"}]}]},
                {"id": "fast", "type": "hologram", "currentValue": true},
                {"no": "id"},
            ],
        }));
        let modes = settings.modes.clone().unwrap();
        assert_eq!(
            (
                modes.current.as_str(),
                modes.allows("code"),
                modes.allows("x")
            ),
            ("ask", true, false)
        );
        assert_eq!(settings.models.clone().unwrap().available, ["m1", "m2"]);
        assert_eq!(settings.options.len(), 2);
        assert_eq!(settings.model_option().unwrap().available, ["a", "b"]);

        settings.apply(&Event::Mode {
            mode: "code".to_owned(),
        });
        settings.read(&Value::Null);
        assert_eq!(settings.modes.unwrap().current, "code");
        assert_eq!(settings.options.len(), 2);
    }
}
