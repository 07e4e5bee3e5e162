//! The rules that `always` would grant: the narrow one first, and nothing that its author would not expect.
//!
//! A command of one plain segment becomes its program, for programs with subcommands the subcommand, too; any other
//! command becomes itself. A path or a URL becomes itself. Other calls become all of their parameters.

use std::collections::BTreeMap;

use relay_protocol::permission::{GrantScope, RuleSuggestion};
use serde_json::Value;

use crate::call::{Call, CommandText, View};
use crate::files::Files;
use crate::glob::escape;
use crate::kinds::{Kind, kind_of, main_of};
use crate::path::resolved;
use crate::pattern::canonical;
use crate::rule::{Rule, text_of};
use crate::shell::Segment;
use crate::shell::programs::{has_subcommands, program};

/// The rules to offer for a call, the first choice first. Each covers the call, and can be read by [`Rule::parse`].
#[must_use]
pub fn suggestions(call: &Call<'_>, files: &dyn Files) -> Vec<RuleSuggestion> {
    let view = View::new(call, files);
    let main = main_of(call.tool, call.params);
    let offers = match main.map(|name| (name, kind_of(call.tool, name))) {
        Some((name, Kind::Command)) => view
            .command(name)
            .map_or_else(Vec::new, |command| for_command(&view, name, command)),
        Some((name, Kind::Path)) => for_paths(&view, name, call.params[name].as_str()),
        Some((name, Kind::Patch)) => for_paths(&view, name, view.touched(name).unwrap_or_default()),
        Some((name, Kind::Url)) => for_url(&view, name),
        _ => for_values(&view),
    };
    let covers =
        |offer: &RuleSuggestion| Rule::parse(&offer.rule).is_ok_and(|rule| rule.covers_all(&view));
    offers.into_iter().filter(covers).collect()
}

fn offer(view: &View<'_>, patterns: &[(&str, String)], covers: String) -> RuleSuggestion {
    let params: BTreeMap<String, String> = patterns
        .iter()
        .map(|(name, pattern)| ((*name).to_owned(), pattern.clone()))
        .collect();
    RuleSuggestion {
        rule: text_of(view.call.tool, &params),
        scope: GrantScope::Session,
        covers,
    }
}

fn for_command(view: &View<'_>, name: &str, command: &CommandText) -> Vec<RuleSuggestion> {
    if command.text.trim().is_empty() {
        return Vec::new();
    }
    let mut offers = Vec::new();
    if let Some(words) = general(command) {
        let pattern = words
            .iter()
            .map(|word| escape(word))
            .collect::<Vec<_>>()
            .join(" ");
        let shown = words.join(" ");
        let covers = format!(
            "`{shown}` with any arguments, such as `{}`",
            command.text.trim()
        );
        offers.push(offer(view, &[(name, format!("{pattern} **"))], covers));
    }
    let covers = "exactly this command".to_owned();
    offers.push(offer(view, &[(name, escape(&command.text))], covers));
    offers
}

/// The words that a wider rule would begin with.
fn general(command: &CommandText) -> Option<Vec<&str>> {
    let [segment] = &command.reading.segments[..] else {
        return None;
    };
    let plain = command.reading.understood()
        && command.concerns[0].is_none()
        && segment.redirections.is_empty();
    let name = segment.words.first()?.text.as_str();
    // Of programs about which something has to be known, too much would be promised.
    let simple = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c));
    if !plain || !simple || is_risky(name) {
        return None;
    }
    if has_subcommands(name) {
        let subcommand = first_operand(segment)?;
        return Some(vec![name, subcommand]);
    }
    Some(vec![name])
}

/// Whether all of what a program can do is more than anybody means who allows one call of it.
fn is_risky(name: &str) -> bool {
    const RISKY: &[&str] = &[
        "rm", "rmdir", "mv", "dd", "chmod", "chown", "chgrp", "kill", "killall", "pkill",
        "shutdown", "reboot", "halt", "mkfs", "mount", "umount", "ln", "install", "truncate",
        "shred", "tee", "cp", "sed", "awk", "gawk", "perl", "iptables", "nft", "useradd",
        "usermod", "passwd", "visudo",
    ];
    use crate::shell::programs::Nature;
    RISKY.contains(&name) || program(name).is_some_and(|row| row.nature != Nature::Plain)
}

/// The subcommand, where it is the first argument and plainly written.
fn first_operand(segment: &Segment) -> Option<&str> {
    let word = segment.words.get(1)?.text.as_str();
    let plain = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_:.".contains(c));
    plain.then_some(word)
}

/// The paths of a parameter.
trait Paths {
    fn all(&self) -> Vec<&str>;
}

impl Paths for Option<&str> {
    fn all(&self) -> Vec<&str> {
        self.iter().copied().collect()
    }
}

impl Paths for &[String] {
    fn all(&self) -> Vec<&str> {
        self.iter().map(String::as_str).collect()
    }
}

fn for_paths(view: &View<'_>, name: &str, paths: impl Paths) -> Vec<RuleSuggestion> {
    let resolve = |path: &str| match resolved(view, path).as_deref() {
        Some([path]) => path.to_str().map(str::to_owned),
        _ => None,
    };
    let paths: Option<Vec<String>> = paths.all().into_iter().map(resolve).collect();
    let Some(paths) = paths else {
        return Vec::new();
    };
    match &paths[..] {
        [] => Vec::new(),
        [path] => vec![offer(
            view,
            &[(name, escape(path))],
            format!("`{path}` alone"),
        )],
        _ => common_folder(&paths).map_or_else(Vec::new, |folder| {
            let covers = format!("every file below `{folder}`");
            vec![offer(
                view,
                &[(name, format!("{}/**", escape(&folder)))],
                covers,
            )]
        }),
    }
}

/// The folder that all paths are in, unless that is the root or just below it.
fn common_folder(paths: &[String]) -> Option<String> {
    let folder = |path: &String| {
        let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
        names.pop();
        names
    };
    let mut common = folder(paths.first()?);
    for path in paths {
        let names = folder(path);
        let same = common
            .iter()
            .zip(&names)
            .take_while(|(a, b)| a == b)
            .count();
        common.truncate(same);
    }
    (common.len() > 2).then(|| common.join("/"))
}

/// Patterns of URLs need no escapes: `?` begins the query, and one with a star is not understood.
fn for_url(view: &View<'_>, name: &str) -> Vec<RuleSuggestion> {
    let url = view.call.params[name].as_str();
    let offer = |url: &str| offer(view, &[(name, url.to_owned())], format!("`{url}` alone"));
    url.map(offer).into_iter().collect()
}

fn for_values(view: &View<'_>) -> Vec<RuleSuggestion> {
    let tool = view.call.tool;
    if view.call.params.is_empty() {
        return vec![offer(view, &[], format!("every call of {tool}"))];
    }
    let present = view
        .call
        .params
        .iter()
        .filter(|(_, value)| !value.is_null());
    let patterns: Vec<(&str, String)> = present
        .map(|(name, value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                other => canonical(other),
            };
            (name.as_str(), escape(&text))
        })
        .collect();
    if patterns.is_empty() {
        return Vec::new();
    }
    vec![offer(
        view,
        &patterns,
        format!("{tool} with exactly these parameters"),
    )]
}
