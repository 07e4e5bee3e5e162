//! A tool call before the eyes of somebody who decides about it: nothing of it may hide, and what deserves a second look
//! stands out.

use relay_protocol::permission::PermissionRecord;
use relay_rules::shell::{Mark, marks};
use serde_json::Value;

use crate::output::{Style, one_line, safe};

/// Parameters that hold shell text, by the names that tools have for them.
const COMMANDS: &[&str] = &["command", "cmd"];

/// The most important parameter of a call on one line: what a list shows.
pub(crate) fn summary(record: &PermissionRecord) -> String {
    let params = &record.params;
    let main = COMMANDS.iter().find_map(|name| params.get(*name));
    let shown = match main.or_else(|| params.values().next()) {
        Some(value) => plain(value),
        None => String::new(),
    };
    let text = one_line(&visible(&shown));
    match &record.title {
        Some(title) => format!("{} ({text})", one_line(title)),
        None => text,
    }
}

/// A parameter whole, with a command coloured.
pub(crate) fn value(style: &Style, name: &str, value: &Value) -> String {
    match value {
        Value::String(text) if COMMANDS.contains(&name) => shell_text(style, text),
        value => visible(&plain(value)),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Shell text, coloured by what its parts are.
pub(crate) fn shell_text(style: &Style, command: &str) -> String {
    let mut shown = String::new();
    let mut after = 0;
    for (range, mark) in marks(command) {
        let (Some(blank), Some(part)) =
            (command.get(after..range.start), command.get(range.clone()))
        else {
            continue;
        };
        after = range.end;
        shown.push_str(&visible(blank));
        // Each line by itself: a colour that goes on over a line end would colour what is written beside it.
        let lines = part
            .split('\n')
            .map(|line| painted(style, mark, &visible(line)));
        shown.push_str(&lines.collect::<Vec<_>>().join("\n"));
    }
    shown.push_str(&visible(command.get(after..).unwrap_or_default()));
    shown
}

fn painted(style: &Style, mark: Mark, text: &str) -> String {
    match mark {
        _ if text.is_empty() => String::new(),
        Mark::Program => style.strong(text),
        Mark::Argument => text.to_owned(),
        Mark::Operator => style.joint(text),
        Mark::Redirection => style.open(text),
        Mark::Danger => style.danger(text),
        Mark::Comment => style.faint(text),
    }
}

/// What in a call deserves a second look, for those who see no colours.
pub(crate) fn dangers(record: &PermissionRecord) -> Vec<String> {
    let commands = COMMANDS
        .iter()
        .filter_map(|name| record.params.get(*name)?.as_str());
    let mut found = Vec::new();
    for command in commands {
        let parts = marks(command)
            .into_iter()
            .filter(|(_, mark)| matches!(mark, Mark::Danger | Mark::Redirection));
        found.extend(
            parts
                .filter_map(|(range, _)| command.get(range))
                .map(|part| one_line(&visible(part))),
        );
    }
    found
}

/// Text in which nothing hides: what a terminal would not show, or obey, is written out.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let mut buffer = [0; 4];
        let alone: &str = c.encode_utf8(&mut buffer);
        if safe(alone) == alone {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hides_in_a_command() {
        let plain = Style::new(false);
        assert_eq!(shell_text(&plain, "git  status"), "git  status");
        assert_eq!(
            shell_text(&plain, "ls\u{202e}; rm\u{1b}[2K x"),
            "ls\\u{202e}; rm\\u{1b}[2K x"
        );
        assert_eq!(shell_text(&plain, "a\rb"), "a\\u{d}b");
        assert_eq!(
            shell_text(&plain, "echo 'größer 船'\nls"),
            "echo 'größer 船'\nls"
        );
    }

    #[test]
    fn dangers_stand_out_and_segments_are_told_apart() {
        let colored = shell_text(&Style::new(true), "ls -l && echo $(id) > out # done");
        let expected = [
            "\u{1b}[1mls\u{1b}[0m -l ",
            "\u{1b}[36m&&\u{1b}[0m ",
            "\u{1b}[1mecho\u{1b}[0m ",
            "\u{1b}[1m\u{1b}[31m$(id)\u{1b}[0m ",
            "\u{1b}[33m> out\u{1b}[0m ",
            "\u{1b}[2m# done\u{1b}[0m",
        ];
        assert_eq!(colored, expected.concat());
    }
}
