//! The language models that chats can be with: those of the configuration, the usual ones where the environment has a key for
//! them, and one that plays a script.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use relay_harness::llm::conversation::Api;
use relay_harness::llm::http::{HttpProvider, HttpSettings};
use relay_harness::llm::key::ApiKey;
use relay_harness::llm::models::Models;
use relay_harness::llm::provider::Provider;
use relay_harness::llm::scripted::Scripted;
use relay_script::Script;

use crate::config::{ProviderConfig, ProviderKind};

/// The providers that are there without being set: name, kind, the variable with their key, and models to begin with.
const USUAL: &[(&str, ProviderKind, &str)] = &[
    ("openai", ProviderKind::OpenaiResponses, "OPENAI_API_KEY"),
    ("anthropic", ProviderKind::Anthropic, "ANTHROPIC_API_KEY"),
];

/// The provider that is always there, and what it plays.
const SCRIPTED: (&str, &str, &str) = ("scripted", "demo", include_str!("models/demo.json"));

/// The models that a server offers, and why it lacks some.
#[derive(Debug)]
pub(crate) struct OfferedModels {
    /// Those that can be chatted with.
    pub(crate) models: Models,
    /// For each provider that is left out, a sentence for people.
    pub(crate) warnings: Vec<String>,
}

/// Names the providers of the configuration whose key is missing, each with what helps. `variable` is the environment.
pub(crate) fn missing_keys(
    configured: &[(String, ProviderConfig)],
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let configured = configured.iter();
    configured
        .filter_map(|(name, config)| missing_key(name, config, &variable))
        .collect()
}

/// Why a provider has to be left out.
fn missing_key(
    name: &str,
    config: &ProviderConfig,
    variable: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let variable_name = config.key_env.as_ref()?;
    let key = variable(variable_name).filter(|key| !key.is_empty());
    key.is_none().then(|| {
        format!(
            "providers.{name} is left out: the environment has no variable {variable_name} with its key; set it, and start the \
             server again"
        )
    })
}

/// Builds all models; a provider whose key is missing is left out. `variable` is the environment.
pub(crate) fn models(
    configured: &[(String, ProviderConfig)],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<OfferedModels> {
    let mut warnings = Vec::new();
    let mut models = Models::default();
    let (name, model, script) = SCRIPTED;
    let script: Script = script.parse().context("the script of the demonstration")?;
    models = models.with(name, Arc::new(Scripted::new(script)), [model.to_owned()]);
    for (name, kind, key_env) in USUAL {
        if let Some(key) = variable(key_env).filter(|key| !key.is_empty()) {
            let provider = by_http(*kind, None, &key).with_context(|| (*key_env).to_owned())?;
            models = models.with(*name, provider, []);
        }
    }
    for (name, config) in configured {
        if let Some(why) = missing_key(name, config, &variable) {
            warnings.push(why);
            continue;
        }
        let provider = provider(config, &variable).with_context(|| format!("providers.{name}"))?;
        let listed = match config.kind {
            ProviderKind::Script if config.models.is_empty() => vec!["script".to_owned()],
            _ => config.models.clone(),
        };
        models = models.with(name.clone(), provider, listed);
    }
    Ok(OfferedModels { models, warnings })
}

fn provider(
    config: &ProviderConfig,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Provider>> {
    if let Some(path) = &config.script {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{} can't be read", path.display()))?;
        let script: Script = text.parse().with_context(|| path.display().to_string())?;
        return Ok(Arc::new(Scripted::new(script)));
    }
    let key = match (&config.key, &config.key_env) {
        (Some(key), _) => key.clone(),
        (None, Some(name)) => variable(name).unwrap_or_default(),
        (None, None) => String::new(),
    };
    by_http(config.kind, config.base_url.clone(), &key)
}

fn by_http(kind: ProviderKind, base_url: Option<String>, key: &str) -> Result<Arc<dyn Provider>> {
    let api = match kind {
        ProviderKind::OpenaiResponses => Api::Responses,
        ProviderKind::Anthropic => Api::Anthropic,
        ProviderKind::Openai | ProviderKind::Script => Api::Chat,
    };
    let settings = HttpSettings {
        base_url,
        ..HttpSettings::new(api, ApiKey::new(key))
    };
    Ok(Arc::new(HttpProvider::new(settings)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    fn config(kind: ProviderKind) -> ProviderConfig {
        ProviderConfig {
            kind,
            base_url: None,
            key: None,
            key_env: None,
            models: Vec::new(),
            script: None,
        }
    }

    #[test]
    fn the_usual_ones_are_there_with_their_keys() {
        let names = |variable: fn(&str) -> Option<String>| {
            let models = models(&[], variable).unwrap().models;
            (models.names(), models.find("openai/gpt-9").is_ok())
        };
        assert_eq!(names(none), (vec!["scripted/demo".to_owned()], false));
        let with_key = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-x".to_owned());
        assert_eq!(names(with_key), (vec!["scripted/demo".to_owned()], true));
        let empty = |_: &str| Some(String::new());
        assert!(!names(empty).1);
    }

    #[test]
    fn those_of_the_configuration() {
        let local = ProviderConfig {
            base_url: Some("http://localhost:11434/v1".to_owned()),
            models: vec!["llama".to_owned()],
            ..config(ProviderKind::Openai)
        };
        let found = models(&[("local".to_owned(), local)], none).unwrap();
        assert_eq!(found.models.names(), ["local/llama", "scripted/demo"]);
        assert_eq!(found.warnings, [""; 0]);
        let wrong = ProviderConfig {
            base_url: Some("nonsense".to_owned()),
            ..config(ProviderKind::Openai)
        };
        let refused = models(&[("a".to_owned(), wrong)], none).unwrap_err();
        assert!(
            format!("{refused:#}").starts_with("providers.a: base_url: "),
            "{refused:#}"
        );
    }

    /// The server ended, after it had said that it was ready.
    #[test]
    fn a_provider_without_its_key_is_left_out() {
        let keyed = |name: &str| {
            let config = ProviderConfig {
                key_env: Some(name.to_owned()),
                models: vec!["m".to_owned()],
                ..config(ProviderKind::Anthropic)
            };
            (name.to_lowercase(), config)
        };
        let configured = ["THERE", "EMPTY", "MISSING"].map(keyed);
        let variable = |name: &str| match name {
            "THERE" => Some("key".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let found = models(&configured, variable).unwrap();
        assert_eq!(found.models.names(), ["scripted/demo", "there/m"]);
        let expected = ["empty", "missing"].map(|name| {
            format!(
                "providers.{name} is left out: the environment has no variable {} with its key; set it, and start the server again",
                name.to_uppercase()
            )
        });
        assert_eq!(found.warnings, expected);
        assert_eq!(missing_keys(&configured, variable), expected);
    }
}
