//! The pattern of one parameter, by what that parameter is.

use std::ops::RangeInclusive;

use relay_protocol::limits::PERMISSION_PATTERN_BYTES;
use serde_json::Value;

use crate::call::{Part, View};
use crate::command::CommandPattern;
use crate::fault::Unreadable;
use crate::glob::Glob;
use crate::kinds::{Kind, kind_of};
use crate::path::PathPattern;
use crate::url::UrlPattern;

/// Whether a rule that refuses or asks meets a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hit {
    No,
    /// It can't be told, so somebody is asked.
    Maybe,
    Yes,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    command: Option<CommandPattern>,
    path: Option<PathPattern>,
    url: Option<UrlPattern>,
    text: Glob,
    range: Option<RangeInclusive<f64>>,
}

impl Pattern {
    /// Compiles a pattern for a parameter of this kind; `None`: what it is shows in each call.
    pub(crate) fn parse(text: &str, kind: Option<Kind>) -> Result<Self, Unreadable> {
        if text.is_empty() {
            return Err(Unreadable::new("a pattern", text));
        }
        if text.len() > PERMISSION_PATTERN_BYTES {
            let found = format!("{} bytes", text.len());
            return Err(Unreadable {
                expected: "a pattern of at most 4096 bytes",
                found,
            });
        }
        let mut pattern = Self {
            command: None,
            path: None,
            url: None,
            text: Glob::parse(text)?,
            range: range(text)?.filter(|_| matches!(kind, None | Some(Kind::Text))),
        };
        match kind {
            Some(Kind::Command) => pattern.command = Some(CommandPattern::parse(text)?),
            Some(Kind::Path | Kind::Patch) => pattern.path = Some(PathPattern::parse(text)?),
            Some(Kind::Url) if !pattern.text.is_anything() => {
                pattern.url = Some(UrlPattern::parse(text)?);
            }
            Some(Kind::Text | Kind::Url) => {}
            None => {
                pattern.command = CommandPattern::parse(text).ok();
                pattern.path = PathPattern::parse(text).ok();
                pattern.url = UrlPattern::parse(text).ok();
            }
        }
        Ok(pattern)
    }

    /// What rules about commands are found by.
    pub(crate) fn command(&self) -> Option<&CommandPattern> {
        self.command.as_ref()
    }

    /// Whether it certainly covers a part of a call's parameter.
    pub(crate) fn covers(&self, view: &View<'_>, name: &str, value: &Value, part: Part) -> bool {
        match kind_of(view.call.tool, name) {
            Kind::Command => {
                let part = if view.is_split(name) {
                    part
                } else {
                    Part::Whole
                };
                let command = view.command(name);
                command
                    .zip(self.command.as_ref())
                    .is_some_and(|(text, pattern)| pattern.covers(text, part))
            }
            Kind::Path => {
                let path = value.as_str().zip(self.path.as_ref());
                path.is_some_and(|(path, pattern)| pattern.covers(view, path))
            }
            Kind::Patch => view.touched(name).zip(self.path.as_ref()).is_some_and(
                |(files, pattern)| match part {
                    Part::File(index) => pattern.covers(view, &files[index]),
                    _ => files.iter().all(|file| pattern.covers(view, file)),
                },
            ),
            Kind::Url => match (value.as_str(), &self.url) {
                (Some(url), Some(pattern)) => pattern.covers(url),
                (Some(_), None) => self.text.is_anything(),
                (None, _) => false,
            },
            Kind::Text => self.covers_value(value),
        }
    }

    fn covers_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.text.matches(text),
            Value::Number(number) => {
                let in_range = || {
                    self.range
                        .as_ref()
                        .zip(number.as_f64())
                        .is_some_and(|(range, number)| range.contains(&number))
                };
                self.text.is_anything() || self.is_exactly(&number.to_string()) || in_range()
            }
            other => self.is_exactly(&canonical(other)),
        }
    }

    fn is_exactly(&self, text: &str) -> bool {
        self.text.literal() == Some(text)
    }

    /// Whether it meets a call's parameter, in any reading of it.
    pub(crate) fn meets(&self, view: &View<'_>, name: &str, value: &Value) -> Hit {
        match kind_of(view.call.tool, name) {
            Kind::Command => match (view.command(name), &self.command) {
                (Some(command), Some(pattern)) => {
                    let doubt = match command.runs().doubt {
                        Some(_) => Hit::Maybe,
                        None => Hit::No,
                    };
                    pattern.meets(command).max(doubt)
                }
                _ => Hit::Maybe,
            },
            Kind::Path => match (value.as_str(), &self.path) {
                (Some(path), Some(pattern)) => pattern.meets(view, path),
                _ => Hit::Maybe,
            },
            Kind::Patch => match (view.touched(name), &self.path) {
                (Some(files), Some(pattern)) => {
                    let hits = files.iter().map(|file| pattern.meets(view, file));
                    hits.max().unwrap_or(Hit::Maybe)
                }
                _ => Hit::Maybe,
            },
            Kind::Url => match (value.as_str(), &self.url) {
                (Some(url), Some(pattern)) => pattern.meets(url),
                (Some(_), None) if self.text.is_anything() => Hit::Yes,
                _ => Hit::Maybe,
            },
            Kind::Text => {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => canonical(other),
                };
                if self.covers_value(value) || self.text.matches_widely(&text) {
                    Hit::Yes
                } else {
                    Hit::No
                }
            }
        }
    }
}

/// Reads `1..10`, both included; other text is no range.
fn range(text: &str) -> Result<Option<RangeInclusive<f64>>, Unreadable> {
    let Some((low, high)) = text.split_once("..") else {
        return Ok(None);
    };
    match (low.parse::<f64>(), high.parse::<f64>()) {
        (Ok(low), Ok(high)) if low <= high => Ok(Some(low..=high)),
        (Ok(_), Ok(_)) => Err(Unreadable::new(
            "a range from the smaller to the larger number",
            text,
        )),
        _ => Ok(None),
    }
}

/// JSON in its one spelling: members by name, no blanks.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let members = members.iter().map(|(name, value)| {
                format!("{}:{}", Value::from(name.as_str()), canonical(value))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}
