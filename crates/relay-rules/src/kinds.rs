//! Which parameter of which tool is what.
//!
//! To add a tool, add a row. For tools that have none, the name of a parameter says what it is.

use relay_protocol::permission::ToolParams;

/// How a parameter is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Shell text.
    Command,
    /// The path of a file.
    Path,
    /// A URL.
    Url,
    /// A patch, of which the touched files count.
    Patch,
    /// Anything else: text, numbers, values.
    Text,
}

/// Tools, their main parameter, and what it is.
const TOOLS: &[(&str, &str, Kind)] = &[
    // Relay's own.
    ("bash", "command", Kind::Command),
    ("read", "path", Kind::Path),
    ("write", "path", Kind::Path),
    ("patch", "patch", Kind::Patch),
    ("agent", "task", Kind::Text),
    // Those of agents that Relay hosts.
    ("Bash", "command", Kind::Command),
    ("BashOutput", "bash_id", Kind::Text),
    ("Shell", "command", Kind::Command),
    ("shell", "command", Kind::Command),
    ("exec", "command", Kind::Command),
    ("exec_command", "cmd", Kind::Command),
    ("execute", "command", Kind::Command),
    ("local_shell", "command", Kind::Command),
    ("run_shell_command", "command", Kind::Command),
    ("run_terminal_cmd", "command", Kind::Command),
    ("execute_command", "command", Kind::Command),
    ("run_in_terminal", "command", Kind::Command),
    ("terminal", "command", Kind::Command),
    ("Read", "file_path", Kind::Path),
    ("Write", "file_path", Kind::Path),
    ("Edit", "file_path", Kind::Path),
    ("MultiEdit", "file_path", Kind::Path),
    ("NotebookEdit", "notebook_path", Kind::Path),
    ("read_file", "path", Kind::Path),
    ("write_file", "file_path", Kind::Path),
    ("edit", "filePath", Kind::Path),
    ("replace", "file_path", Kind::Path),
    ("LS", "path", Kind::Path),
    ("list_directory", "path", Kind::Path),
    ("apply_patch", "input", Kind::Patch),
    ("Glob", "pattern", Kind::Text),
    ("Grep", "pattern", Kind::Text),
    ("WebFetch", "url", Kind::Url),
    ("webfetch", "url", Kind::Url),
    ("web_fetch", "url", Kind::Url),
    ("fetch", "url", Kind::Url),
    ("WebSearch", "query", Kind::Text),
    ("Task", "prompt", Kind::Text),
];

/// What parameters with these names are, in the order in which one is taken for the main one.
const NAMES: &[(&str, Kind)] = &[
    ("command", Kind::Command),
    ("cmd", Kind::Command),
    ("script", Kind::Command),
    ("path", Kind::Path),
    ("file_path", Kind::Path),
    ("filePath", Kind::Path),
    ("file", Kind::Path),
    ("filename", Kind::Path),
    ("absolute_path", Kind::Path),
    ("notebook_path", Kind::Path),
    ("directory", Kind::Path),
    ("dir", Kind::Path),
    ("cwd", Kind::Path),
    ("url", Kind::Url),
    ("uri", Kind::Url),
];

/// The main parameter of a tool, where the tool is known.
pub(crate) fn known_main(tool: &str) -> Option<(&'static str, Kind)> {
    let found = TOOLS.iter().find(|(name, ..)| *name == tool)?;
    Some((found.1, found.2))
}

/// What a parameter is.
pub(crate) fn kind_of(tool: &str, parameter: &str) -> Kind {
    match known_main(tool) {
        Some((main, kind)) if main == parameter => kind,
        _ => {
            let named = NAMES.iter().find(|(name, _)| *name == parameter);
            named.map_or_else(|| kind_by_sound(parameter), |(_, kind)| *kind)
        }
    }
}

/// What a parameter probably is. The kinds are stricter than text, so a wrong guess asks.
fn kind_by_sound(parameter: &str) -> Kind {
    let name = parameter.to_ascii_lowercase();
    if name.contains("command") || name.contains("cmd") || name.contains("shell") {
        Kind::Command
    } else if name.ends_with("profile") {
        Kind::Text
    } else if ["path", "file", "filename", "directory", "folder", "dir"]
        .iter()
        .any(|end| name.ends_with(end))
    {
        Kind::Path
    } else if name.ends_with("url") || name.ends_with("uri") {
        Kind::Url
    } else {
        Kind::Text
    }
}

/// The main parameter of a call: by the tool, by a known name, or the only one there is.
pub(crate) fn main_of<'a>(tool: &str, params: &'a ToolParams) -> Option<&'a str> {
    if let Some((main, _)) = known_main(tool) {
        return params.get_key_value(main).map(|(name, _)| name.as_str());
    }
    let named = NAMES
        .iter()
        .find_map(|(name, _)| params.get_key_value(*name));
    let only = || params.iter().next().filter(|_| params.len() == 1);
    named.or_else(only).map(|(name, _)| name.as_str())
}
