//! Which file each MCP client reads, and in what form it wants a server there.
//!
//! To add a client: a variant, and its line in each of the functions. `docs/mcp.md` lists them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::platform::{HOME, SETTINGS_PLACES};

/// The name of the server in every configuration.
pub(super) const NAME: &str = "relay";

/// An MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
}

/// For whom the server is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// For the user, everywhere.
    User,
    /// For whoever works on what is in the current directory.
    Project,
}

/// What a configuration says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry {
    /// JSON: the members on the way to the server, and what it has to have.
    Json(Vec<&'static str>, Value),
    /// TOML: the table of servers, and what the server's own has to have.
    Toml(&'static str, toml::Table),
}

impl Client {
    /// The file; none when nothing says where the user's files are.
    pub(super) fn file(
        self,
        scope: Scope,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let home = || absolute(HOME);
        let config =
            || absolute("XDG_CONFIG_HOME").or_else(|| home().map(|home| home.join(".config")));
        Some(match (self, scope) {
            (Self::ClaudeCode, Scope::Project) => ".mcp.json".into(),
            (Self::ClaudeCode, Scope::User) => absolute("CLAUDE_CONFIG_DIR")
                .or_else(home)?
                .join(".claude.json"),
            (Self::Codex, Scope::Project) => ".codex/config.toml".into(),
            (Self::Codex, Scope::User) => {
                let folder = absolute("CODEX_HOME");
                let folder = folder.or_else(|| home().map(|home| home.join(".codex")))?;
                folder.join("config.toml")
            }
            (Self::Gemini, Scope::Project) => ".gemini/settings.json".into(),
            (Self::Gemini, Scope::User) => home()?.join(".gemini/settings.json"),
            (Self::Opencode, Scope::Project) => json_or_jsonc("opencode.json".into()),
            (Self::Opencode, Scope::User) => {
                json_or_jsonc(config()?.join("opencode/opencode.json"))
            }
            (Self::Cursor, Scope::Project) => ".cursor/mcp.json".into(),
            (Self::Cursor, Scope::User) => home()?.join(".cursor/mcp.json"),
            (Self::VsCode, Scope::Project) => ".vscode/mcp.json".into(),
            (Self::VsCode, Scope::User) => {
                let mut places = SETTINGS_PLACES.iter();
                let place = places.find_map(|(name, below)| Some(absolute(name)?.join(below)))?;
                place.join("Code/User/mcp.json")
            }
        })
    }

    /// What is to be in the file, for a program and its arguments.
    pub(super) fn entry(self, program: &str, arguments: &[String]) -> Entry {
        let plain = json!({ "command": program, "args": arguments });
        let typed = json!({ "type": "stdio", "command": program, "args": arguments });
        match self {
            Self::ClaudeCode => Entry::Json(vec!["mcpServers", NAME], typed),
            Self::Gemini | Self::Cursor => Entry::Json(vec!["mcpServers", NAME], plain),
            Self::VsCode => Entry::Json(vec!["servers", NAME], typed),
            Self::Opencode => {
                let command: Vec<&str> = [program]
                    .into_iter()
                    .chain(arguments.iter().map(String::as_str))
                    .collect();
                let entry = json!({ "type": "local", "command": command, "enabled": true });
                Entry::Json(vec!["mcp", NAME], entry)
            }
            Self::Codex => {
                let mut table = toml::Table::new();
                table.insert("command".to_owned(), program.into());
                table.insert("args".to_owned(), arguments.to_vec().into());
                Entry::Toml("mcp_servers", table)
            }
        }
    }
}

/// OpenCode reads either; the one that is there is the one that is used.
fn json_or_jsonc(json: PathBuf) -> PathBuf {
    let jsonc = json.with_extension("jsonc");
    let is_there = |path: &Path| path.exists();
    match is_there(&jsonc) && !is_there(&json) {
        true => jsonc,
        false => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_its_files() {
        let shown = |client: Client, scope, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, path)| PathBuf::from(path))
            };
            let file = client.file(scope, variable);
            file.map(|file| file.display().to_string())
        };
        let home = (HOME, "/home/me");
        for (client, user, project) in [
            (Client::ClaudeCode, ".claude.json", ".mcp.json"),
            (Client::Codex, ".codex/config.toml", ".codex/config.toml"),
            (
                Client::Gemini,
                ".gemini/settings.json",
                ".gemini/settings.json",
            ),
            (
                Client::Opencode,
                ".config/opencode/opencode.json",
                "opencode.json",
            ),
            (Client::Cursor, ".cursor/mcp.json", ".cursor/mcp.json"),
        ] {
            let user = format!("/home/me/{user}");
            assert_eq!(shown(client, Scope::User, &[home]), Some(user));
            assert_eq!(shown(client, Scope::Project, &[]).as_deref(), Some(project));
            assert_eq!(shown(client, Scope::User, &[]), None);
            assert_eq!(
                shown(client, Scope::User, &[(HOME, "me")]),
                None,
                "not absolute"
            );
        }
        for (client, variable, expected) in [
            (
                Client::ClaudeCode,
                "CLAUDE_CONFIG_DIR",
                "/else/.claude.json",
            ),
            (Client::Codex, "CODEX_HOME", "/else/config.toml"),
            (
                Client::Opencode,
                "XDG_CONFIG_HOME",
                "/else/opencode/opencode.json",
            ),
        ] {
            let found = shown(client, Scope::User, &[home, (variable, "/else")]);
            assert_eq!(found.as_deref(), Some(expected));
        }
    }
}
