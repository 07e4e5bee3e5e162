//! Agents that a configuration file adds to those that come with Relay: `[agents.ID]` and its settings.
//!
//! What can be said about an agent is [`AgentConfig`]; whatever is not in there is refused, with the line that has it.

use anyhow::Result;
use relay_harness::acp::catalogue::{AgentConfig, Catalogue, CatalogueError};

use super::named::Named;

/// The table that agents are in.
pub(super) const TABLE: &str = "agents";

/// Variables may hold keys.
pub(super) const HIDDEN: &str = "env";

/// The agents of a file and those that come with Relay.
pub(super) fn catalogue(agents: &Named) -> Result<Catalogue> {
    Catalogue::with_configured(agents.read::<AgentConfig>()?).map_err(|error| {
        let id = match &error {
            CatalogueError::Unknown { id, .. } => id,
            CatalogueError::BuiltIn(id)
            | CatalogueError::ReplacesNothing(id)
            | CatalogueError::InvalidId(id)
            | CatalogueError::NoCommand(id) => id,
        };
        agents.wrong(id, &error)
    })
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
