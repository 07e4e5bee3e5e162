//! Changes a client's configuration so that only the server in it changes. Pure: text in, text out.
//!
//! Other members, their order, the indentation and, in TOML, comments stay. What can't be changed like that is
//! refused rather than written anew: JSON with comments, TOML that says the same in another way.

use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::clients::{Entry, NAME};

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unchangeable(pub(super) String);

/// The file with the server in it.
pub(super) fn with(text: &str, entry: &Entry) -> Result<String, Unchangeable> {
    match entry {
        Entry::Json(path, value) => in_json(text, path, Some(value)),
        Entry::Toml(servers, table) => in_toml(text, servers, Some(table)),
    }
}

/// The file without the server.
pub(super) fn without(text: &str, entry: &Entry) -> Result<String, Unchangeable> {
    match entry {
        Entry::Json(path, _) => in_json(text, path, None),
        Entry::Toml(servers, _) => in_toml(text, servers, None),
    }
}

fn in_json(text: &str, path: &[&str], value: Option<&Value>) -> Result<String, Unchangeable> {
    let mut root = match text.trim() {
        "" => Value::Object(Map::new()),
        _ => serde_json::from_str(text).map_err(|error| {
            Unchangeable(format!(
                "expected JSON without comments, found otherwise: {error}"
            ))
        })?,
    };
    let before = root.clone();
    put(&mut root, &in_use(&before, path), value)?;
    match root == before {
        true => Ok(text.to_owned()),
        false => Ok(written(&root, indentation(text))),
    }
}

/// OpenCode 2 has servers one level deeper; where they are like that already, ours goes there, too.
fn in_use<'a>(root: &Value, path: &[&'a str]) -> Vec<&'a str> {
    match path {
        ["mcp", name] if root["mcp"]["servers"].is_object() => vec!["mcp", "servers", name],
        path => path.to_vec(),
    }
}

/// Sets or removes what is at a path. What a server has beside what is set stays.
fn put(at: &mut Value, path: &[&str], value: Option<&Value>) -> Result<(), Unchangeable> {
    let found = at.to_string();
    let Value::Object(members) = at else {
        return Err(Unchangeable(format!(
            "expected an object, found {found:.40}"
        )));
    };
    match (path, value) {
        ([], Some(Value::Object(value))) => members.extend(value.clone()),
        ([], _) => {}
        ([last], None) => drop(members.shift_remove_entry(*last)),
        ([next, ..], None) if !members.contains_key(*next) => {}
        ([next, rest @ ..], value) => {
            let below = members.entry(*next).or_insert_with(|| Map::new().into());
            put(below, rest, value)?;
        }
    }
    Ok(())
}

/// What the first line that is indented is indented by.
fn indentation(text: &str) -> &str {
    let indent = |line: &'_ str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let line = text
        .lines()
        .find(|line| indent(line) > 0 && indent(line) < line.len());
    line.map_or("  ", |line| &line[..indent(line)])
}

fn written(root: &Value, indentation: &str) -> String {
    let mut bytes = Vec::new();
    let formatter = PrettyFormatter::with_indent(indentation.as_bytes());
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    // Writing a value into memory does not fail.
    let _ = root.serialize(&mut serializer);
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

fn in_toml(text: &str, servers: &str, set: Option<&toml::Table>) -> Result<String, Unchangeable> {
    let before = parsed(text)?;
    let mut wanted = before.clone();
    let is_there = wanted_toml(&mut wanted, servers, set);
    if wanted == before {
        return Ok(text.to_owned());
    }
    let header = format!("{servers}.{NAME}");
    let changed = match (is_there, set) {
        (true, Some(table)) => updated(text, &header, table),
        (true, None) => cut(text, &header),
        (false, Some(table)) => appended(text, &header, table),
        (false, None) => text.to_owned(),
    };
    match parsed(&changed) {
        Ok(found) if found == wanted => Ok(changed),
        _ => Err(Unchangeable(format!(
            "expected the server in a table [{header}], found it said in another way"
        ))),
    }
}

fn parsed(text: &str) -> Result<toml::Table, Unchangeable> {
    toml::from_str(text).map_err(|error| {
        let why = error.message();
        Unchangeable(format!("expected TOML, found otherwise: {why}"))
    })
}

/// What the file is to mean; whether the server was there.
fn wanted_toml(root: &mut toml::Table, servers: &str, set: Option<&toml::Table>) -> bool {
    let is_there = |root: &toml::Table| {
        let servers = root.get(servers).and_then(toml::Value::as_table);
        servers.is_some_and(|servers| servers.contains_key(NAME))
    };
    let was_there = is_there(root);
    let empty = || toml::Value::Table(toml::Table::new());
    match set {
        Some(table) => {
            let servers = root.entry(servers).or_insert_with(empty).as_table_mut();
            let server = servers.map(|servers| servers.entry(NAME).or_insert_with(empty));
            if let Some(server) = server.and_then(toml::Value::as_table_mut) {
                server.extend(table.clone());
            }
        }
        None => {
            let table = root.get_mut(servers).and_then(toml::Value::as_table_mut);
            if let Some(table) = table.filter(|table| table.contains_key(NAME)) {
                table.remove(NAME);
                // A table that was only above this one goes with it.
                if table.is_empty() {
                    root.remove(servers);
                }
            }
        }
    }
    was_there
}

fn lines_of(table: &toml::Table) -> String {
    let lines = table
        .iter()
        .map(|(key, value)| format!("{key} = {value}\n"));
    lines.collect()
}

fn appended(text: &str, header: &str, table: &toml::Table) -> String {
    let above = text.trim_end();
    let gap = if above.is_empty() { "" } else { "\n\n" };
    format!("{above}{gap}[{header}]\n{}", lines_of(table))
}

/// The same with other values in the server's table.
fn updated(text: &str, header: &str, table: &toml::Table) -> String {
    let mut changed = String::new();
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        if let Some(name) = header_of(line) {
            is_inside = name == header;
            changed.push_str(line);
            if is_inside {
                changed.push_str(&lines_of(table));
            }
            continue;
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        if !(is_inside && table.contains_key(key)) {
            changed.push_str(line);
        }
    }
    changed
}

/// The same without the server's table and those below it.
fn cut(text: &str, header: &str) -> String {
    let below = format!("{header}.");
    let mut is_inside = false;
    let mut left = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = header_of(line) {
            is_inside = name == header || name.starts_with(&below);
        }
        if !is_inside {
            left.push_str(line);
        }
    }
    let end = left.trim_end().len();
    left.truncate(end);
    if !left.is_empty() {
        left.push('\n');
    }
    left
}

/// The name of a table, if a line begins one.
fn header_of(line: &str) -> Option<String> {
    let inside = line.trim_start().strip_prefix('[')?;
    let (name, _) = inside.split_once(']')?;
    Some(name.replace([' ', '"', '\''], ""))
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use super::super::clients::Client;
    use super::*;

    fn entry(client: Client) -> Entry {
        client.entry("relay", &["mcp", "--as", "bob"].map(str::to_owned))
    }

    /// A file, with the server, and after it was taken out again.
    fn check(client: Client, before: &str, with_it: &str, after: &str) {
        let entry = entry(client);
        let installed = with(before, &entry).unwrap();
        assert_eq!(installed, with_it);
        assert_eq!(with(&installed, &entry).unwrap(), with_it, "twice is once");
        assert_eq!(without(&installed, &entry).unwrap(), after);
    }

    #[test]
    fn json_keeps_what_is_there() {
        check(
            Client::Cursor,
            "",
            "{\n  \"mcpServers\": {\n    \"relay\": {\n      \"command\": \"relay\",\n      \"args\": [\n        \"mcp\",\n        \
             \"--as\",\n        \"bob\"\n      ]\n    }\n  }\n}\n",
            "{\n  \"mcpServers\": {}\n}\n",
        );
        check(
            Client::VsCode,
            "{\n\t\"zebra\": 1,\n\t\"servers\": {\n\t\t\"a\": {}\n\t},\n\t\"apple\": 1.50\n}",
            "{\n\t\"zebra\": 1,\n\t\"servers\": {\n\t\t\"a\": {},\n\t\t\"relay\": {\n\t\t\t\"type\": \"stdio\",\n\t\t\t\
             \"command\": \"relay\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\",\n\t\t\t\t\"--as\",\n\t\t\t\t\"bob\"\n\t\t\t]\n\t\t}\
             \n\t},\n\t\"apple\": 1.5\n}\n",
            "{\n\t\"zebra\": 1,\n\t\"servers\": {\n\t\t\"a\": {}\n\t},\n\t\"apple\": 1.5\n}\n",
        );
    }

    #[test]
    fn what_a_server_has_beside_stays() {
        let before = r#"{ "mcpServers": { "relay": { "command": "old", "timeout": 5 } } }"#;
        let after: Value =
            serde_json::from_str(&with(before, &entry(Client::Gemini)).unwrap()).unwrap();
        let server = &after["mcpServers"]["relay"];
        assert_eq!(server["timeout"], 5);
        assert_eq!(server["command"], "relay");
    }

    #[test]
    fn opencode_has_servers_in_one_of_two_places() {
        let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
        let entry = entry(Client::Opencode);
        let first = parse(&with("{}", &entry).unwrap());
        assert_eq!(first["mcp"]["relay"]["command"][0], "relay");
        let second = with(r#"{ "mcp": { "servers": {} } }"#, &entry).unwrap();
        assert_eq!(parse(&second)["mcp"]["servers"]["relay"]["type"], "local");
        let gone = parse(&without(&second, &entry).unwrap());
        assert_eq!(gone["mcp"], serde_json::json!({ "servers": {} }));
    }

    #[test]
    fn toml_keeps_comments_and_order() {
        let ours =
            "[mcp_servers.relay]\nargs = [\"mcp\", \"--as\", \"bob\"]\ncommand = \"relay\"\n";
        check(Client::Codex, "", ours, "");
        let before = "# mine\nmodel = \"x\" # good\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        check(Client::Codex, before, &format!("{before}\n{ours}"), before);
        let old = "[mcp_servers.relay]\ncommand = \"old\"\n# slow\nstartup_timeout_sec = 20\n\n\
                   [mcp_servers.relay.env]\nA = \"b\"\n\n[tui]\nx = 1\n";
        let new = "[mcp_servers.relay]\nargs = [\"mcp\", \"--as\", \"bob\"]\ncommand = \"relay\"\n# slow\n\
                   startup_timeout_sec = 20\n\n[mcp_servers.relay.env]\nA = \"b\"\n\n[tui]\nx = 1\n";
        check(Client::Codex, old, new, "[tui]\nx = 1\n");
    }

    #[test]
    fn what_would_be_lost_is_not_changed() {
        for (client, text) in [
            (Client::Gemini, "{ \"a\": 1 } // mine"),
            (Client::Gemini, "[]"),
            (Client::Gemini, "{ \"mcpServers\": 7 }"),
            (Client::Codex, "a = "),
            (
                Client::Codex,
                "mcp_servers = { relay = { command = \"x\" } }\n",
            ),
            (Client::Codex, "mcp_servers = {}\n"),
            (
                Client::Codex,
                "[mcp_servers.relay]\nargs = [\n  \"x\",\n]\n",
            ),
        ] {
            assert!(with(text, &entry(client)).is_err(), "{text}");
        }
    }
}
