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

/// All models. `variable` is the environment.
pub(crate) fn models(
    configured: &[(String, ProviderConfig)],
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Models> {
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
        let provider = provider(config, &variable).with_context(|| format!("providers.{name}"))?;
        let listed = match config.kind {
            ProviderKind::Script if config.models.is_empty() => vec!["script".to_owned()],
            _ => config.models.clone(),
        };
        models = models.with(name.clone(), provider, listed);
    }
    Ok(models)
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
        (None, Some(name)) => variable(name)
            .with_context(|| format!("key_env: the environment has no variable {name}"))?,
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
            let models = models(&[], variable).unwrap();
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
        assert_eq!(found.names(), ["local/llama", "scripted/demo"]);
        let missing = ProviderConfig {
            key_env: Some("NOT_THERE".to_owned()),
            ..config(ProviderKind::Anthropic)
        };
        let refused = models(&[("a".to_owned(), missing)], none).unwrap_err();
        let refused = format!("{refused:#}");
        assert_eq!(
            refused,
            "providers.a: key_env: the environment has no variable NOT_THERE"
        );
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
}
