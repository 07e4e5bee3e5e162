//! What happens in a chat, in words: the model's text as it is, everything else shortly, on lines. Pure.

use relay_protocol::permission::{PermissionDecider, PermissionState};
use serde_json::Value;

use crate::output::{Style, one_line, safe};
use crate::words::{self, Told};

/// Most lines of a result that are shown, and most characters of each.
const SHOWN_LINES: usize = 5;
const SHOWN_CHARACTERS: usize = 160;

/// What is told of an event; often nothing.
pub(super) fn tell(style: &Style, event: &Value) -> Option<Told> {
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    let is_nested = event.get("parentId").is_some();
    let line = match text("type") {
        // What nested agents say is for the one that asked them.
        "text" if !is_nested => return Some(Told::Text(safe(text("content")))),
        "reasoning" if !is_nested => return Some(Told::Thought(safe(text("content")))),
        "tool_call" => {
            let call = called(text("name"), &event["input"]);
            format!("{} {call}", style.faint("tool"))
        }
        "tool_result" => result(style, &event["output"])?,
        "message" => message(style, event),
        "warning" => style.open(&one_line(text("message"))),
        // That of the outermost run is told as its end.
        "error" if is_nested => style.bad(&one_line(text("message"))),
        "resync_required" => style.open("some of what happened meanwhile is not kept any more"),
        _ => return None,
    };
    Some(Told::Line(indented(&line, is_nested)))
}

/// A message that has come into the chat: who sent it, and how it begins.
fn message(style: &Style, event: &Value) -> String {
    let from = &event["from"];
    let name = from["handle"].as_str().or_else(|| from["name"].as_str());
    let channel = event["channel"]["name"].as_str();
    let place = channel.map_or_else(String::new, |channel| format!(" in #{}", one_line(channel)));
    let files = event["attachments"].as_array().map_or(0, Vec::len);
    let files = match u64::try_from(files).unwrap_or(u64::MAX) {
        0 => String::new(),
        files => format!(" ({})", words::counted(files, "attachment", "attachments")),
    };
    format!(
        "{} {}{place}: {}{files}",
        style.faint("message from"),
        one_line(name.unwrap_or("relay")),
        cut(&one_line(event["text"].as_str().unwrap_or_default())),
    )
}

/// A call on one line: the tool, and the first thing that it is called with.
pub(super) fn called(tool: &str, params: &Value) -> String {
    let first = params.as_object().and_then(|params| params.values().next());
    let first = params.get("command").or(first);
    let first = match first {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => return one_line(tool),
    };
    format!("{}: {}", one_line(tool), cut(&one_line(&first)))
}

/// Who has decided about a call elsewhere, and what.
pub(super) fn resolved(style: &Style, event: &Value) -> String {
    let state: Option<PermissionState> = serde_json::from_value(event["decision"].clone()).ok();
    let by: Option<PermissionDecider> = serde_json::from_value(event["by"].clone()).ok();
    let state = state.map_or_else(String::new, |state| words::colored_state(style, state));
    let via = event["via"].as_str().map(one_line);
    match (via.as_deref(), by) {
        (Some(via @ ("grant" | "rule")), _) => format!("{state} by a {via}"),
        (Some(via), Some(by)) => format!("{state} by {} via {via}", words::decider(Some(&by))),
        (None, Some(by)) => format!("{state} by {}", words::decider(Some(&by))),
        (_, None) => state,
    }
}

/// The first lines of a result, or why there is none.
fn result(style: &Style, output: &Value) -> Option<String> {
    if let Some(error) = output.get("error") {
        let error = error
            .as_str()
            .map_or_else(|| error.to_string(), str::to_owned);
        return Some(format!("  {}", style.bad(&cut(&one_line(&error)))));
    }
    if let Some(status) = output["status"].as_str() {
        let reason = output["reason"].as_str();
        let reason = reason.map_or_else(String::new, |why| format!(": {}", one_line(why)));
        return Some(format!("  {}{reason}", style.bad(&one_line(status))));
    }
    let context = safe(output["context"].as_str()?);
    let lines: Vec<&str> = context
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let mut shown: Vec<String> = lines
        .iter()
        .take(SHOWN_LINES)
        .map(|line| style.faint(&format!("  {}", cut(line))))
        .collect();
    let more = lines.len().saturating_sub(SHOWN_LINES);
    if more > 0 {
        let more = words::counted(
            u64::try_from(more).unwrap_or(u64::MAX),
            "more line",
            "more lines",
        );
        shown.push(style.faint(&format!("  … {more}")));
    }
    (!shown.is_empty()).then(|| shown.join("\n"))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What nested agents do stands further in.
fn indented(lines: &str, is_nested: bool) -> String {
    match is_nested {
        true => {
            let lines = lines.lines().map(|line| format!("  {line}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        false => lines.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(event: &Value) -> String {
        match tell(&Style::new(false), event) {
            Some(Told::Line(line)) => line,
            told => panic!("no line: {told:?}"),
        }
    }

    #[test]
    fn calls_and_results_are_told_shortly() {
        let call =
            json!({ "type": "tool_call", "name": "bash", "input": { "command": "ls\u{1b}[2J" } });
        assert!(line(&call).starts_with("tool bash: ls"), "{}", line(&call));
        assert!(!line(&call).contains('\u{1b}'));
        let context: String = (0..9).map(|number| format!("{number}\n")).collect();
        let long = json!({ "type": "tool_result", "output": { "context": context } });
        assert_eq!(line(&long), "  0\n  1\n  2\n  3\n  4\n  … 4 more lines");
        let denied =
            json!({ "type": "tool_result", "output": { "status": "denied", "reason": "no" } });
        assert_eq!(line(&denied), "  denied: no");
        let message = json!({ "type": "message", "from": { "handle": "@ada" }, "channel": { "name": "ops" },
            "text": "look\nhere", "attachments": [{}] });
        assert_eq!(
            line(&message),
            "message from @ada in #ops: look here (1 attachment)"
        );
        let nested =
            json!({ "type": "tool_result", "parentId": "r/c", "output": { "error": "gone" } });
        assert_eq!(line(&nested), "    gone");
    }

    #[test]
    fn decisions_of_others_are_named() {
        let style = Style::new(false);
        let by = json!({ "decision": "approved", "by": { "kind": "workspace" }, "via": "cli" });
        assert_eq!(resolved(&style, &by), "approved by the workspace via cli");
        let grant = json!({ "decision": "approved", "by": { "kind": "policy" }, "via": "grant" });
        assert_eq!(resolved(&style, &grant), "approved by a grant");
        assert_eq!(
            resolved(&style, &json!({ "decision": "expired" })),
            "expired"
        );
    }
}
