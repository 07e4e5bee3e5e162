//! The models that can be asked for by name: `provider/model`, or only the model where one provider alone has it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::provider::Provider;

/// Providers with the models that each has.
#[derive(Clone, Debug, Default)]
pub struct Models {
    providers: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    provider: Arc<dyn Provider>,
    models: Vec<String>,
}

/// A model, ready to be asked.
#[derive(Clone, Debug)]
pub struct Model {
    /// Who has it.
    pub provider: Arc<dyn Provider>,
    /// What it is called there.
    pub name: String,
}

/// There is no such model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownModel {
    /// Nobody has it.
    #[error("there is no model {0:?}")]
    Unknown(String),
    /// Several have it.
    #[error("several providers have a model {name:?}: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// What could be meant.
        candidates: Vec<String>,
    },
}

impl Models {
    /// Adds a provider. One whose list of models is empty takes every name, after its own and a slash.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        provider: Arc<dyn Provider>,
        models: impl IntoIterator<Item = String>,
    ) -> Self {
        let models = models.into_iter().collect();
        let entry = Entry { provider, models };
        self.providers.insert(name.into(), entry);
        self
    }

    /// All models by their full names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let providers = self.providers.iter();
        let names = providers.flat_map(|(provider, entry)| {
            let models = entry.models.iter();
            models.map(move |model| format!("{provider}/{model}"))
        });
        names.collect()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// The model of this name.
    pub fn find(&self, name: &str) -> Result<Model, UnknownModel> {
        let unknown = || UnknownModel::Unknown(name.to_owned());
        if let Some((provider, model)) = name.split_once('/')
            && let Some(entry) = self.providers.get(provider)
            && !model.is_empty()
            && (entry.models.is_empty() || entry.has(model))
        {
            return Ok(entry.model(model));
        }
        // Names of models have slashes, too.
        let owners = self.providers.iter().filter(|(_, entry)| entry.has(name));
        let owners: Vec<_> = owners.collect();
        match owners.as_slice() {
            [] => Err(unknown()),
            [(_, entry)] => Ok(entry.model(name)),
            several => Err(UnknownModel::Ambiguous {
                name: name.to_owned(),
                candidates: several
                    .iter()
                    .map(|(provider, _)| format!("{provider}/{name}"))
                    .collect(),
            }),
        }
    }
}

impl Entry {
    fn has(&self, model: &str) -> bool {
        self.models.iter().any(|own| own == model)
    }

    fn model(&self, name: &str) -> Model {
        Model {
            provider: self.provider.clone(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use relay_script::Script;

    use super::*;
    use crate::llm::scripted::Scripted;

    #[test]
    fn models_by_name() {
        let provider = || Arc::new(Scripted::new(Script::saying("hi")));
        let list = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let models = Models::default()
            .with("one", provider(), list(&["big", "small"]))
            .with("two", provider(), list(&["big", "org/x"]))
            .with("any", provider(), list(&[]));
        assert_eq!(
            models.names(),
            ["one/big", "one/small", "two/big", "two/org/x"]
        );
        let table = [
            ("one/big", Some("big")),
            ("small", Some("small")),
            ("org/x", Some("org/x")),
            ("two/org/x", Some("org/x")),
            ("any/thing/at/all", Some("thing/at/all")),
            ("any/", None),
            ("big", None),
            ("one/org/x", None),
            ("none", None),
            ("", None),
        ];
        for (name, expected) in table {
            let found = models.find(name).ok().map(|model| model.name);
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        let several = models.find("big").unwrap_err().to_string();
        assert!(several.ends_with("one/big, two/big"), "{several}");
    }
}
