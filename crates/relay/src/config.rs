//! Settings and where they come from: flags, the environment, a file, the defaults, in this order.
//!
//! The defaults are a document as well (`config.default.toml`), and the only list of what can be set: a key
//! that it does not have is refused, and its values say of which type a setting is. By hand, because the
//! libraries for this lose where a value came from, or lower-case and split names. Agents of one's own and
//! providers are the exception (`named.rs`): their names are the user's.

mod agents;
mod named;
mod providers;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use relay_harness::acp::catalogue::Catalogue;
use relay_harness::child::MARK_VARIABLE;
use relay_outbound::AllowList;
use relay_protocol::limits::PERMISSION_EXPIRES_MAX_MS;
use relay_protocol::suggest::nearest;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::de::DeTable;
use toml::{Table, Value};

use self::named::Named;
pub(crate) use self::providers::{ProviderConfig, ProviderKind};

/// All settings with their defaults, as users read them.
pub(crate) const DEFAULTS: &str = include_str!("../config.default.toml");

/// Before the name of a setting in the environment.
const PREFIX: &str = "RELAY_";

/// Variables of this prefix that are no settings: what commands read, what Relay gives to programs that it starts, and
/// what builds and tests of Relay read.
const NO_SETTINGS: &[&str] = &[
    "RELAY_URL",
    "RELAY_TOKEN",
    "RELAY_AS",
    "RELAY_DATA",
    "RELAY_SESSION",
    "RELAY_WEBHOOK_SECRET",
    MARK_VARIABLE,
    "RELAY_COMMIT",
    "RELAY_BUILD_COMMIT",
    "RELAY_SEED",
    "RELAY_SKIPPED",
    "RELAY_UPDATE_SCHEMA",
    "RELAY_FUZZ_KNOWN",
];

/// Beginnings of variables that are no settings: those of tests, and those that container systems make for a service
/// that is called `relay`.
const NO_SETTING_PREFIXES: &[&str] = &["RELAY_TEST_", "RELAY_SIM_", "RELAY_SERVICE_", "RELAY_PORT"];

/// Settings that are of no use when they are 0.
const AT_LEAST_ONE: &[&str] = &[
    "server.connections",
    "server.header_timeout_s",
    "server.body_timeout_s",
    "server.ping_every_s",
    "server.collect_garbage_s",
    "limits.requests_at_once",
    "limits.failed_authentications_at_once",
    "permissions.expires_after_s",
    "chat.max_iterations",
];

/// All settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) server: ServerSettings,
    pub(crate) limits: LimitSettings,
    pub(crate) outbound: OutboundSettings,
    pub(crate) permissions: PermissionSettings,
    pub(crate) chat: ChatSettings,
    pub(crate) retention: RetentionSettings,
    pub(crate) search: SearchSettings,
    pub(crate) log: LogSettings,
    /// The agents that can be started by name.
    #[serde(skip, default = "Catalogue::built_in")]
    pub(crate) agents: Catalogue,
    /// Who has models, by name.
    #[serde(skip)]
    pub(crate) providers: Vec<(String, ProviderConfig)>,
}

/// How chats are treated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChatSettings {
    pub(crate) agent: String,
    pub(crate) default_model: String,
    pub(crate) directory: PathBuf,
    pub(crate) anonymous: bool,
    pub(crate) tools_for_others: bool,
    pub(crate) max_iterations: u32,
}

/// How the server listens.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    pub(crate) listen: String,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) connections: usize,
    pub(crate) drain_s: u64,
    pub(crate) header_timeout_s: u64,
    pub(crate) body_timeout_s: u64,
    pub(crate) ping_every_s: u64,
    pub(crate) silence_s: u64,
    pub(crate) collect_garbage_s: u64,
}

/// How often things may happen.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitSettings {
    pub(crate) requests_per_second: u32,
    pub(crate) requests_at_once: u32,
    pub(crate) failed_authentications_per_second: u32,
    pub(crate) failed_authentications_at_once: u32,
}

/// Whom the server may call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutboundSettings {
    #[serde(deserialize_with = "allow_list")]
    pub(crate) allow: AllowList,
}

fn allow_list<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<AllowList, D::Error> {
    let entries = Vec::<String>::deserialize(from)?;
    AllowList::new(&entries).map_err(D::Error::custom)
}

/// How permission requests are treated.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PermissionSettings {
    pub(crate) expires_after_s: u64,
}

/// How long logs are kept, in days; 0: for ever.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionSettings {
    pub(crate) bulky_days: u32,
    pub(crate) all_days: u32,
}

/// How searches are prepared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchSettings {
    pub(crate) ahead: bool,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSettings {
    pub(crate) filter: String,
    pub(crate) format: LogFormat,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Settings in the making: the values, and where each came from.
pub(crate) struct Layers {
    values: Table,
    origins: BTreeMap<String, Origin>,
    agents: Named,
    providers: Named,
}

impl Layers {
    /// The defaults.
    pub(crate) fn defaults() -> Result<Self> {
        let values: Table = DEFAULTS.parse().context("config.default.toml")?;
        let origins = settings(&values)
            .into_iter()
            .map(|(key, _)| (key, Origin::Default))
            .collect();
        Ok(Self {
            values,
            origins,
            agents: Named::new(agents::TABLE, agents::HIDDEN),
            providers: Named::new(providers::TABLE, providers::HIDDEN),
        })
    }

    /// Puts a file's settings over what there is.
    pub(crate) fn file(&mut self, path: &Path, text: &str) -> Result<()> {
        let not_toml = || format!("{} is not TOML", path.display());
        let mut found: Table = text.parse().with_context(not_toml)?;
        let lines = lines(text).with_context(not_toml)?;
        let origin = |key: &str| Origin::File {
            path: path.to_owned(),
            line: lines.get(key).copied().unwrap_or(1),
        };
        for named in [&mut self.agents, &mut self.providers] {
            if let Some(found) = found.remove(named.table()) {
                named.take(found, origin)?;
            }
        }
        for (key, value) in settings(&found) {
            let origin = origin(&key);
            let set = self.set(&key, value.clone(), origin.clone());
            set.with_context(|| origin.to_string())?;
        }
        Ok(())
    }

    /// Puts the environment's settings over what there is. A name that is neither a setting nor known otherwise is
    /// refused: it is most likely a setting that is misspelt.
    pub(crate) fn environment(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<()> {
        let keys: Vec<String> = self.origins.keys().cloned().collect();
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        for key in keys {
            let name = environment_name(&key);
            if let Some(text) = variables.get(&name) {
                let value = self.read(&key, text);
                let set = value
                    .and_then(|value| self.set(&key, value, Origin::Environment(name.clone())));
                set.with_context(|| format!("{name}={text}"))?;
            }
        }
        match variables.keys().find(|name| !self.knows_variable(name)) {
            Some(name) => Err(self.unknown_variable(name)),
            None => Ok(()),
        }
    }

    /// Whether a variable is a setting, is read by something else of Relay, or is named by the settings.
    fn knows_variable(&self, name: &str) -> bool {
        !name.starts_with(PREFIX)
            || NO_SETTINGS.contains(&name)
            || NO_SETTING_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
            || self.origins.keys().any(|key| environment_name(key) == name)
            || self.names_variable(name)
    }

    /// Whether an agent or a provider is given this variable.
    fn names_variable(&self, name: &str) -> bool {
        let named = self
            .agents
            .listed()
            .into_iter()
            .chain(self.providers.listed());
        named.into_iter().any(|(key, value, _)| match value {
            Value::String(variable) => key.ends_with("key_env") && variable == name,
            Value::Array(variables) => {
                key.ends_with(".env_names")
                    && variables
                        .iter()
                        .any(|variable| variable.as_str() == Some(name))
            }
            _ => false,
        })
    }

    fn unknown_variable(&self, name: &str) -> anyhow::Error {
        let settings = self.origins.keys().map(|key| environment_name(key));
        let others = NO_SETTINGS.iter().map(|&name| name.to_owned());
        let known: Vec<String> = settings.chain(others).collect();
        let near = nearest(name, known.iter(), 3);
        let near = match near.is_empty() {
            true => String::new(),
            false => format!("; the nearest are {}", near.join(", ")),
        };
        anyhow::anyhow!("{name} is no setting of Relay and no variable that it reads{near}")
    }

    /// Puts a flag's value over what there is.
    pub(crate) fn flag(&mut self, name: &'static str, key: &str, text: &str) -> Result<()> {
        let value = self.read(key, text);
        let set = value.and_then(|value| self.set(key, value, Origin::Flag(name)));
        set.with_context(|| format!("{name} {text}"))
    }

    /// Every setting with its value and where that came from.
    pub(crate) fn listed(&self) -> Vec<(String, Value, Origin)> {
        let listed = settings(&self.values).into_iter();
        let listed = listed.map(|(key, value)| {
            let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
            (key, value.clone(), origin)
        });
        let named = self.agents.listed().into_iter();
        listed.chain(named).chain(self.providers.listed()).collect()
    }

    /// The settings, and where each came from.
    pub(crate) fn finish(self) -> Result<(Settings, BTreeMap<String, Origin>)> {
        let Self {
            values,
            origins,
            agents,
            providers,
        } = self;
        let mut settings: Settings = serde_path_to_error::deserialize(values).map_err(|error| {
            let key = error.path().to_string();
            // An item of a list came from where the list came from.
            let setting = key.split('[').next().unwrap_or_default();
            let origin = origins.get(setting).unwrap_or(&Origin::Default);
            anyhow::anyhow!("{origin}: {key}: {}", error.inner().message())
        })?;
        let ServerSettings {
            ping_every_s,
            silence_s,
            ..
        } = settings.server;
        if silence_s <= ping_every_s {
            let origin = &origins["server.silence_s"];
            bail!(
                "{origin}: server.silence_s has to be more than server.ping_every_s, which is \
                 {ping_every_s}; found {silence_s}"
            );
        }
        let expires_after_s = settings.permissions.expires_after_s;
        let most_s = PERMISSION_EXPIRES_MAX_MS / 1_000;
        if expires_after_s > most_s {
            let origin = &origins["permissions.expires_after_s"];
            bail!(
                "{origin}: permissions.expires_after_s has to be {most_s} or less; found {expires_after_s}"
            );
        }
        settings.agents = agents::catalogue(&agents)?;
        settings.providers = providers::read(&providers)?;
        Ok((settings, origins))
    }

    /// A value written as text, of the type that the setting has.
    fn read(&self, key: &str, text: &str) -> Result<Value> {
        let known = self.find(key)?;
        let value = match known {
            Value::String(_) => Value::String(text.to_owned()),
            Value::Array(_) => {
                let items = text.split(',').map(str::trim);
                let items = items.filter(|item| !item.is_empty());
                Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
            }
            Value::Integer(_) => Value::Integer(
                text.parse()
                    .with_context(|| format!("{key} has to be a whole number; found {text:?}"))?,
            ),
            Value::Boolean(_) => Value::Boolean(
                text.parse()
                    .with_context(|| format!("{key} has to be true or false; found {text:?}"))?,
            ),
            other => bail!("{key} can't be set by text: it is {}", other.type_str()),
        };
        Ok(value)
    }

    fn find(&self, key: &str) -> Result<&Value> {
        let mut value = None;
        let mut table = Some(&self.values);
        for part in key.split('.') {
            value = table.and_then(|table| table.get(part));
            table = value.and_then(Value::as_table);
        }
        value.ok_or_else(|| self.unknown(key))
    }

    fn set(&mut self, key: &str, value: Value, origin: Origin) -> Result<()> {
        let known = self.find(key)?;
        if known.type_str() != value.type_str() {
            bail!(
                "{key} has to be of type {}; found {value}, which is of type {}",
                known.type_str(),
                value.type_str()
            );
        }
        let least = i64::from(AT_LEAST_ONE.contains(&key));
        if value.as_integer().is_some_and(|number| number < least) {
            bail!("{key} has to be a whole number, {least} or greater; found {value}");
        }
        let mut table = &mut self.values;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                table.insert(part.to_owned(), value);
                break;
            }
            let inner = table.get_mut(part).and_then(Value::as_table_mut);
            let Some(inner) = inner else { break };
            table = inner;
        }
        self.origins.insert(key.to_owned(), origin);
        Ok(())
    }

    fn unknown(&self, key: &str) -> anyhow::Error {
        let near = nearest(key, self.origins.keys(), 3);
        match near.is_empty() {
            true => anyhow::anyhow!("there is no setting {key}"),
            false => anyhow::anyhow!(
                "there is no setting {key}; the nearest are {}",
                near.join(", ")
            ),
        }
    }
}

/// The name of a setting in the environment.
fn environment_name(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// The line of each setting in a file, by its dotted name.
fn lines(text: &str) -> Result<BTreeMap<String, usize>, toml::de::Error> {
    fn walk(table: &DeTable<'_>, before: &str, text: &str, lines: &mut BTreeMap<String, usize>) {
        for (name, value) in table {
            let key = format!("{before}{}", name.get_ref());
            match value.get_ref().as_table() {
                Some(inner) => walk(inner, &format!("{key}."), text, lines),
                None => {
                    let above = text.get(..name.span().start).unwrap_or_default();
                    lines.insert(key, above.matches('\n').count() + 1);
                }
            }
        }
    }
    let table = DeTable::parse(text)?;
    let mut lines = BTreeMap::new();
    walk(table.get_ref(), "", text, &mut lines);
    Ok(lines)
}

/// All values of a table that are no tables, by their dotted names.
fn settings(table: &Table) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (name, value) in table {
        match value {
            Value::Table(inner) => {
                let inner = settings(inner).into_iter();
                found.extend(inner.map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => found.push((name.clone(), value)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(file: &str, environment: &[(&str, &str)]) -> Result<Layers> {
        let mut layers = Layers::defaults()?;
        layers.file(Path::new("relay.toml"), file)?;
        let variables = environment.iter();
        layers.environment(
            variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )?;
        Ok(layers)
    }

    fn refused(file: &str, environment: &[(&str, &str)]) -> String {
        let error = layers(file, environment)
            .and_then(Layers::finish)
            .unwrap_err();
        format!("{error:#}")
    }

    #[test]
    fn the_defaults_are_those_of_the_server() {
        let (settings, origins) = layers("", &[]).unwrap().finish().unwrap();
        let server = crate::commands::serve::server_config(&settings);
        assert_eq!(
            format!("{server:?}"),
            format!("{:?}", relay_server::Config::default())
        );
        assert!(origins.values().all(|origin| *origin == Origin::Default));
    }

    #[test]
    fn nearer_layers_win_and_say_so() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\nconnections = 5\ndrain_s = 1";
        let environment = [
            ("RELAY_SERVER_CONNECTIONS", "6"),
            ("RELAY_SERVER_DRAIN_S", "2"),
            ("RELAY_SERVER_ALLOWED_HOSTS", "one, two,"),
            ("RELAY_TOKEN", "not a setting"),
        ];
        let mut layers = layers(file, &environment).unwrap();
        layers.flag("--drain", "server.drain_s", "3").unwrap();
        let (settings, origins) = layers.finish().unwrap();
        assert_eq!(settings.server.listen, "127.0.0.1:1");
        assert_eq!(
            (settings.server.connections, settings.server.drain_s),
            (6, 3)
        );
        assert_eq!(settings.server.allowed_hosts, ["one", "two"]);
        let origin = |key: &str| origins[key].to_string();
        assert_eq!(origin("server.listen"), "relay.toml:2");
        assert_eq!(origin("server.connections"), "RELAY_SERVER_CONNECTIONS");
        assert_eq!(origin("server.drain_s"), "--drain");
        assert_eq!(origin("log.filter"), "default");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            (
                "[server]\n\nlisen = \"x\"",
                "relay.toml:3: there is no setting server.lisen; the nearest are server.listen",
            ),
            (
                "[server]\nlisten = 4000",
                "relay.toml:2: server.listen has to be of type string; found 4000, which is of type integer",
            ),
            (
                "server = 4000",
                "relay.toml:1: server has to be of type table; found 4000, which is of type integer",
            ),
            (
                "# Lines\n[log]\nformat = \"xml\"",
                "relay.toml:3: log.format: unknown variant `xml`, expected `text` or `json`",
            ),
            (
                "server.connections = -1",
                "relay.toml:1: server.connections has to be a whole number, 1 or greater; found -1",
            ),
            (
                "[server]\nping_every_s = 20\nsilence_s = 20",
                "relay.toml:3: server.silence_s has to be more than server.ping_every_s, which is 20; found 20",
            ),
            (
                "[limits]\nrequests_at_once = 5_000_000_000",
                "relay.toml:2: limits.requests_at_once: invalid value: integer `5000000000`, expected u32",
            ),
            (
                "[server]\nallowed_hosts = [1]",
                "relay.toml:2: server.allowed_hosts[0]: invalid type: integer `1`, expected a string",
            ),
            ("listen", "relay.toml is not TOML"),
        ];
        for (file, expected) in cases {
            let found = refused(file, &[]);
            assert!(found.starts_with(expected), "{file}: {found}");
        }
        let cases = [
            (
                "soon",
                "server.drain_s has to be a whole number; found \"soon\"",
            ),
            (
                "-1",
                "server.drain_s has to be a whole number, 0 or greater; found -1",
            ),
        ];
        let found = refused("", &[("RELAY_SERVR_LISTEN", "x")]);
        let expected = "RELAY_SERVR_LISTEN is no setting of Relay and no variable that it reads; the nearest are RELAY_SERVER_LISTEN";
        assert!(found.starts_with(expected), "{found}");
        for (value, expected) in cases {
            let found = refused("", &[("RELAY_SERVER_DRAIN_S", value)]);
            let expected = format!("RELAY_SERVER_DRAIN_S={value}: {expected}");
            assert!(found.starts_with(&expected), "{found}");
        }
    }

    /// Programs that Relay starts may start Relay: what they are given is no misspelt setting.
    #[test]
    fn variables_that_relay_knows_otherwise_are_no_settings() {
        let file = "[providers.mine]\nkind = \"openai\"\nkey_env = \"RELAY_MY_KEY\"\n\
                    [agents.mine]\ncommand = \"x\"\nenv_names = [\"RELAY_MY_REGION\"]";
        let mut known: Vec<(&str, &str)> = NO_SETTINGS.iter().map(|name| (*name, "x")).collect();
        known.extend([
            ("RELAY_TEST_DEPTH", "full"),
            ("RELAY_SIM_SEEDS", "300"),
            ("RELAY_SERVICE_HOST", "10.0.0.1"),
            ("RELAY_PORT_4000_TCP", "tcp://10.0.0.1:4000"),
            ("RELAY_MY_KEY", "x"),
            ("RELAY_MY_REGION", "x"),
            ("RELAYED", "x"),
        ]);
        layers(file, &known).unwrap();
        let refused = refused("", &[("RELAY_MY_KEY", "x")]);
        assert!(
            refused.starts_with("RELAY_MY_KEY is no setting"),
            "{refused}"
        );
    }
}
