//! What clients of chats are told beside the stream of events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to `GET /models`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelList {
    /// Their names, `provider/model`.
    pub models: Vec<String>,
    /// The one that is taken when none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_model: Option<String>,
    /// Why models are missing that the server was set up with, in sentences for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ModelList {
    /// One that is not in the list is no default.
    #[must_use]
    pub fn new(models: Vec<String>, default_model: Option<String>) -> Self {
        Self {
            default_model: default_model.filter(|name| models.contains(name)),
            warnings: Vec::new(),
            models,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_default_is_one_of_the_models() {
        let list = |default: &str| ModelList::new(vec!["a".to_owned()], Some(default.to_owned()));
        assert_eq!(
            json!(list("a")),
            json!({ "models": ["a"], "defaultModel": "a" })
        );
        assert_eq!(json!(list("b")), json!({ "models": ["a"] }));
    }
}
