//! Providers of language models: `[providers.NAME]`. Beside those of a file there are the usual ones, where the environment has a
//! key for them, and a scripted one.

use std::path::PathBuf;

use anyhow::Result;
use serde::Deserialize;

use super::named::Named;

/// The table that providers are in.
pub(super) const TABLE: &str = "providers";

/// A key that is written into the file.
pub(super) const HIDDEN: &str = "key";

/// Someone who has models.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderConfig {
    /// How it is asked.
    pub(crate) kind: ProviderKind,
    /// The URL below which it is; absent: that of whoever invented the kind.
    #[serde(default)]
    pub(crate) base_url: Option<String>,
    /// Its key; absent: none, or that of `key_env`.
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// The variable that has its key; `api_key_env` is the same.
    #[serde(default, alias = "api_key_env")]
    pub(crate) key_env: Option<String>,
    /// Its models; absent: any.
    #[serde(default)]
    pub(crate) models: Vec<String>,
    /// What a scripted one plays.
    #[serde(default)]
    pub(crate) script: Option<PathBuf>,
}

/// How a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProviderKind {
    /// OpenAI's Chat Completions, which many others speak.
    Openai,
    /// OpenAI's Responses.
    OpenaiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// A script of one's own; `scripted` is the same.
    #[serde(alias = "scripted")]
    Script,
}

/// The providers of a file.
pub(super) fn read(providers: &Named) -> Result<Vec<(String, ProviderConfig)>> {
    let found: Vec<(String, ProviderConfig)> = providers.read()?;
    for (name, provider) in &found {
        if name.is_empty() || name.contains('/') {
            return Err(providers.wrong(
                name,
                "a name has no slash, because models are called NAME/MODEL",
            ));
        }
        let why = match (provider.kind, &provider.script) {
            (ProviderKind::Script, None) => "a scripted provider needs `script`, a file",
            (ProviderKind::Script, Some(_)) => continue,
            (_, Some(_)) => "`script` is for providers of the kind \"script\"",
            (_, None) if provider.key.is_some() && provider.key_env.is_some() => {
                "`key` or `key_env`, not both"
            }
            (_, None) => continue,
        };
        return Err(providers.wrong(name, why));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Layers;
    use super::*;

    fn providers(file: &str) -> Result<Vec<(String, ProviderConfig)>> {
        let mut layers = Layers::defaults()?;
        layers.file(Path::new("relay.toml"), file)?;
        Ok(layers.finish()?.0.providers)
    }

    #[test]
    fn providers_of_a_file() {
        let file = "[providers.local]\nkind = \"openai\"\nbase_url = \"http://localhost:11434/v1\"\n\
                    [providers.demo]\nkind = \"script\"\nscript = \"demo.json\"";
        let found = providers(file).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["demo", "local"]);
        assert_eq!(found[1].1.kind, ProviderKind::Openai);
    }

    #[test]
    fn the_names_of_other_documents_are_accepted() {
        let file = "[providers.a]\nkind = \"anthropic\"\napi_key_env = \"A_KEY\"\n\
                    [providers.b]\nkind = \"scripted\"\nscript = \"b.json\"";
        let found = providers(file).unwrap();
        assert_eq!(found[0].1.key_env.as_deref(), Some("A_KEY"));
        assert_eq!(found[1].1.kind, ProviderKind::Script);
        let both = "[providers.a]\nkind = \"openai\"\nkey_env = \"A\"\napi_key_env = \"B\"";
        let error = format!("{:#}", providers(both).unwrap_err());
        assert!(error.contains("duplicate field"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let table = [
            (
                "[providers.a]\nkind = \"openia\"",
                "relay.toml:2: providers.a.kind: unknown variant",
            ),
            (
                "[providers.a]\nkind = \"openai\"\nkeys = 1",
                "relay.toml:3: providers.a.keys: unknown field",
            ),
            (
                "[providers.a]\nkind = \"script\"",
                "relay.toml:2: providers.a: a scripted provider needs",
            ),
            (
                "[providers.a]\nkind = \"openai\"\nscript = \"x\"",
                "relay.toml:2: providers.a: `script` is for",
            ),
            (
                "[providers.a]\nkind = \"openai\"\nkey = \"k\"\nkey_env = \"K\"",
                "relay.toml:3: providers.a: `key` or `key_env`",
            ),
            (
                "[providers.\"a/b\"]\nkind = \"openai\"",
                "relay.toml:2: providers.a/b: a name has no slash",
            ),
            (
                "providers = 1",
                "relay.toml:1: providers has to be of type table",
            ),
        ];
        for (file, expected) in table {
            let found = format!("{:#}", providers(file).unwrap_err());
            assert!(found.starts_with(expected), "{file}: {found}");
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let mut layers = Layers::defaults().unwrap();
        let file = "[providers.a]\nkind = \"openai\"\nkey = \"sk-secret\"";
        layers.file(Path::new("relay.toml"), file).unwrap();
        let listed = layers.listed();
        let key = listed.iter().find(|(key, ..)| key == "providers.a.key");
        assert_eq!(key.unwrap().1.as_str(), Some("(set)"));
    }
}
