//! Agents that a configuration file adds to those that come with Relay: `[agents.ID]` and its settings.
//!
//! What can be said about an agent is [`AgentConfig`]; whatever is not in there is refused, with the line that has it.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use relay_harness::acp::catalogue::{AgentConfig, Catalogue, CatalogueError};
use toml::{Table, Value};

use super::{Origin, settings};

/// The table that agents are in.
pub(super) const TABLE: &str = "agents";

/// Stands for the value of a variable: it may be a key, and `relay config show` is for everybody's eyes.
const NOT_SHOWN: &str = "(set)";

/// Agents as a file has them.
#[derive(Default)]
pub(super) struct FileAgents {
    values: Table,
    origins: BTreeMap<String, Origin>,
}

impl FileAgents {
    /// Takes the agents of a file.
    pub(super) fn take(&mut self, agents: Value, origin: impl Fn(&str) -> Origin) -> Result<()> {
        let Value::Table(agents) = agents else {
            let origin = origin(TABLE);
            bail!(
                "{origin}: {TABLE} has to be of type table, such as [agents.mine]; found {agents}"
            );
        };
        for (key, _) in settings(&agents) {
            let key = format!("{TABLE}.{key}");
            self.origins.insert(key.clone(), origin(&key));
        }
        for (id, agent) in agents {
            self.values.insert(id, agent);
        }
        Ok(())
    }

    /// Every setting with its value and where that came from.
    pub(super) fn listed(&self) -> Vec<(String, Value, Origin)> {
        let listed = settings(&self.values).into_iter();
        listed
            .map(|(key, value)| {
                let is_variable = key.split('.').nth(1) == Some("env");
                let value = match is_variable {
                    true => Value::String(NOT_SHOWN.to_owned()),
                    false => value.clone(),
                };
                let key = format!("{TABLE}.{key}");
                let origin = self.origin(&key);
                (key, value, origin)
            })
            .collect()
    }

    /// These agents and those that come with Relay.
    pub(super) fn catalogue(self) -> Result<Catalogue> {
        let mut agents = Vec::new();
        for (id, value) in self.values.clone() {
            let key = format!("{TABLE}.{id}");
            let agent: AgentConfig = serde_path_to_error::deserialize(value).map_err(|error| {
                let key = match error.path().to_string().as_str() {
                    "." => key.clone(),
                    below => format!("{key}.{below}"),
                };
                let why = error.inner().message();
                anyhow!("{}: {key}: {why}", self.origin(&key))
            })?;
            agents.push((id, agent));
        }
        Catalogue::with_configured(agents).map_err(|error| {
            let id = match &error {
                CatalogueError::Unknown { id, .. } => id,
                CatalogueError::BuiltIn(id)
                | CatalogueError::ReplacesNothing(id)
                | CatalogueError::InvalidId(id)
                | CatalogueError::NoCommand(id) => id,
            };
            let key = format!("{TABLE}.{id}");
            anyhow!("{}: {key}: {error}", self.origin(&key))
        })
    }

    /// Where a setting came from: its own place, or the first of what is below it.
    fn origin(&self, key: &str) -> Origin {
        let own = self.origins.get(key.split('[').next().unwrap_or_default());
        let below = || {
            let before = format!("{key}.");
            let below = self.origins.iter();
            let mut below = below.filter(|(name, _)| name.starts_with(&before));
            below.next().map(|(_, origin)| origin)
        };
        own.or_else(below).cloned().unwrap_or(Origin::Default)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Layers;
    use super::*;

    fn layers(file: &str) -> Result<Layers> {
        let mut layers = Layers::defaults()?;
        layers.file(Path::new("relay.toml"), file)?;
        Ok(layers)
    }

    #[test]
    fn an_agent_of_ones_own_is_in_the_catalogue_beside_the_others() {
        let file = "[agents.mine]\ncommand = \"my-agent\"\nargs = [\"--acp\"]\nenv_names = [\"MY_KEY\"]\n\
                    mid_turn = \"queue\"\ntitle = \"Mine\"\n[agents.mine.env]\nSECRET = \"x\"\n[agents.mine.quirks]\n\
                    no_client_files = true\n[server]\ndrain_s = 3";
        let listed = layers(file).unwrap().listed();
        let shown = |key: &str| {
            let (_, value, origin) = listed.iter().find(|(name, _, _)| name == key).unwrap();
            format!("{value} {origin}")
        };
        assert_eq!(shown("agents.mine.command"), "\"my-agent\" relay.toml:2");
        assert_eq!(shown("agents.mine.env.SECRET"), "\"(set)\" relay.toml:8");
        let (settings, _) = layers(file).unwrap().finish().unwrap();
        assert_eq!(settings.server.drain_s, 3);
        let mine = settings.agents.get("mine").unwrap();
        assert_eq!((mine.title.as_str(), mine.built_in), ("Mine", false));
        assert!(mine.quirks.no_client_files);
        assert!(settings.agents.get("claude").unwrap().built_in);
    }

    #[test]
    fn what_is_wrong_with_an_agent_is_named() {
        let cases = [
            (
                "[agents.mine]\ncommand = \"x\"\ncomand = \"x\"",
                "relay.toml:3: agents.mine.comand: unknown field `comand`, expected one of `command`, ",
            ),
            (
                "[agents.mine]\ntitle = \"x\"",
                "relay.toml:2: agents.mine: missing field `command`",
            ),
            (
                "[agents.mine]\ncommand = \"x\"\nmid_turn = \"shout\"",
                "relay.toml:3: agents.mine.mid_turn: unknown variant `shout`, expected one of `steer`, ",
            ),
            (
                "[agents.mine]\ncommand = \"x\"\nargs = [\"a\", 1]",
                "relay.toml:3: agents.mine.args[1]: invalid type: integer `1`, expected a string",
            ),
            (
                "[agents.claude]\ncommand = \"x\"",
                "relay.toml:2: agents.claude: the agent `claude` comes with Relay; choose another id, or say \
                 `replaces_built_in = true`",
            ),
            (
                "[agents.Mine]\ncommand = \"x\"",
                "relay.toml:2: agents.Mine: `Mine`: expected 1 to 64 of a-z, 0-9 and -",
            ),
            (
                "[agents.mine]\ncommand = \"\"",
                "relay.toml:2: agents.mine: the agent `mine` has no command",
            ),
            (
                "agents = 5",
                "relay.toml:1: agents has to be of type table, such as [agents.mine]; found 5",
            ),
        ];
        for (file, expected) in cases {
            let error = layers(file).and_then(Layers::finish).unwrap_err();
            let found = format!("{error:#}");
            assert!(found.starts_with(expected), "{file}: {found}");
        }
    }
}
