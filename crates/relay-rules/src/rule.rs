//! One rule: a tool, and patterns for its parameters.
//!
//! It is written `tool`, `tool:pattern` (on the tool's main parameter), or as the JSON of the long form, which alone
//! can name other parameters and tools with a colon in their name.

use std::collections::BTreeMap;
use std::sync::Arc;

use relay_protocol::permission::{DenyRule, PermissionRule, ToolRule};
use relay_protocol::wire::decode;
use serde_json::Value;

use crate::call::{Call, Part, View};
use crate::fault::RuleFault;
use crate::files::Files;
use crate::kinds::{Kind, kind_of, known_main, main_of};
use crate::pattern::{Hit, Pattern};

/// A compiled rule. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rule(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    tool: String,
    text: String,
    /// Patterns by parameter; `None` is the main one, whichever that is in a call.
    params: Vec<(Option<String>, Pattern)>,
}

/// How a rule is found without looking at all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// It covers every call of its tool.
    Tool,
    /// It is about one program.
    Program(String),
    /// It is about one command text.
    Exact(String),
    /// It has to be looked at.
    Other,
}

impl Rule {
    /// Reads a rule from its text.
    pub fn parse(text: &str) -> Result<Self, RuleFault> {
        if text.starts_with('{') {
            let rule: ToolRule = decode(text.as_bytes())
                .map_err(|error| RuleFault::new(error.path, "a rule", error.message))?;
            return Self::from_tool(&rule);
        }
        let (tool, pattern) = match text.split_once(':') {
            Some((tool, pattern)) => (tool, Some(pattern)),
            None => (text, None),
        };
        let mut params = Vec::new();
        if let Some(pattern) = pattern {
            let (name, kind) = match known_main(tool) {
                Some((name, kind)) => (Some(name.to_owned()), Some(kind)),
                None => (None, None),
            };
            let pattern = Pattern::parse(pattern, kind).map_err(|why| why.at(""))?;
            params.push((name, pattern));
        }
        Self::new(tool, text.to_owned(), params).map_err(|mut fault| {
            fault.path.clear();
            fault
        })
    }

    /// Compiles a rule as it came over the wire.
    pub fn compile(rule: &PermissionRule) -> Result<Self, RuleFault> {
        match rule {
            PermissionRule::Short(text) => Self::parse(text),
            PermissionRule::Tool(rule) => Self::from_tool(rule),
        }
    }

    /// Compiles a rule that refuses; `None` when it names a call.
    pub(crate) fn compile_deny(rule: &DenyRule) -> Result<Option<Self>, RuleFault> {
        match rule {
            DenyRule::Short(text) => Self::parse(text).map(Some),
            DenyRule::Tool(rule) => Self::from_tool(rule).map(Some),
            DenyRule::Call(_) => Ok(None),
        }
    }

    fn from_tool(rule: &ToolRule) -> Result<Self, RuleFault> {
        let mut params = Vec::new();
        for (name, text) in rule.params.iter().flatten() {
            let kind = kind_of(&rule.tool, name);
            let pattern = Pattern::parse(text, Some(kind))
                .map_err(|why| why.at(&format!("params.{name}")))?;
            params.push((Some(name.clone()), pattern));
        }
        let none = BTreeMap::new();
        let text = text_of(&rule.tool, rule.params.as_ref().unwrap_or(&none));
        Self::new(&rule.tool, text, params)
    }

    fn new(
        tool: &str,
        text: String,
        params: Vec<(Option<String>, Pattern)>,
    ) -> Result<Self, RuleFault> {
        if tool.trim().is_empty() || tool.trim() != tool {
            return Err(RuleFault::new(
                "tool",
                "the name of a tool",
                format!("`{tool}`"),
            ));
        }
        Ok(Self(Arc::new(Parts {
            tool: tool.to_owned(),
            text,
            params,
        })))
    }

    /// The rule as text that [`Rule::parse`] reads.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The tool that it is about.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.0.tool
    }

    /// Whether it allows a call all by itself. What is not understood is not covered.
    #[must_use]
    pub fn covers(&self, call: &Call<'_>, files: &dyn Files) -> bool {
        self.covers_all(&View::new(call, files))
    }

    pub(crate) fn covers_all(&self, view: &View<'_>) -> bool {
        view.parts()
            .iter()
            .all(|part| self.covers_part(view, *part))
    }

    /// Whether it allows a part of a call.
    pub(crate) fn covers_part(&self, view: &View<'_>, part: Part) -> bool {
        self.0.tool == view.call.tool
            && self.0.params.iter().all(|(name, pattern)| {
                value_of(view, name.as_deref())
                    .is_some_and(|(name, value)| pattern.covers(view, name, value, part))
            })
    }

    /// Whether its author wrote the whole command of this call, so that nothing in it is left to a wildcard.
    pub(crate) fn spells_out(&self, view: &View<'_>) -> bool {
        let Some(command) = view.main_command() else {
            return false;
        };
        let is_exact = |pattern: &Pattern| {
            pattern.command().and_then(|pattern| pattern.exact()) == Some(&*command.text)
        };
        self.0.params.iter().any(|(_, pattern)| is_exact(pattern)) && self.covers_all(view)
    }

    /// Whether it refuses or asks about a call.
    pub(crate) fn meets(&self, view: &View<'_>) -> Hit {
        if self.0.tool != view.call.tool {
            return Hit::No;
        }
        let hits = self.0.params.iter().map(|(name, pattern)| {
            match value_of(view, name.as_deref()) {
                Some((name, value)) => pattern.meets(view, name, value),
                // What is not said may still be what the tool does.
                None => Hit::Maybe,
            }
        });
        hits.min().unwrap_or(Hit::Yes)
    }

    /// How it is found when it allows.
    pub(crate) fn key(&self) -> Key {
        match self.command_pattern() {
            _ if self.0.params.is_empty() => Key::Tool,
            Some(pattern) => match (pattern.program(), pattern.exact()) {
                (Some(program), _) => Key::Program(program),
                (None, Some(text)) => Key::Exact(text.to_owned()),
                (None, None) => Key::Other,
            },
            None => Key::Other,
        }
    }

    /// How it is found when it refuses.
    pub(crate) fn wide_key(&self) -> Key {
        match self.command_pattern() {
            _ if self.0.params.is_empty() => Key::Tool,
            Some(pattern) => pattern.wide_program().map_or(Key::Other, Key::Program),
            None => Key::Other,
        }
    }

    /// The pattern of a rule that is about a known tool's command and nothing else.
    fn command_pattern(&self) -> Option<&crate::command::CommandPattern> {
        match &self.0.params[..] {
            [(Some(name), pattern)] => {
                let is_main = known_main(&self.0.tool) == Some((name, Kind::Command));
                pattern.command().filter(|_| is_main)
            }
            _ => None,
        }
    }
}

/// A parameter of a call; `null` counts as absent.
fn value_of<'a>(view: &View<'a>, name: Option<&str>) -> Option<(&'a str, &'a Value)> {
    let params = view.call.params;
    let name = match name {
        Some(name) => name,
        None => main_of(view.call.tool, params)?,
    };
    let (name, value) = params.get_key_value(name)?;
    (!value.is_null()).then_some((name.as_str(), value))
}

/// The shortest text of a rule.
pub(crate) fn text_of(tool: &str, params: &BTreeMap<String, String>) -> String {
    let short = !tool.contains(':') && !tool.starts_with('{');
    let main = known_main(tool).map(|(name, _)| name);
    match params.iter().collect::<Vec<_>>()[..] {
        [] if short => tool.to_owned(),
        [(name, pattern)] if short && main == Some(name) => format!("{tool}:{pattern}"),
        _ => {
            let rule = ToolRule {
                tool: tool.to_owned(),
                params: Some(params.clone()).filter(|params| !params.is_empty()),
            };
            serde_json::to_string(&rule).unwrap_or_default()
        }
    }
}
