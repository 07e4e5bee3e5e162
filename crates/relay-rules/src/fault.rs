//! Why a rule was refused.

/// A rule that can't be read, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct RuleFault {
    /// The field, such as `permissions.allowlist[2].params.command`.
    pub path: String,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl RuleFault {
    pub(crate) fn new(
        path: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// The same, further inside.
    pub(crate) fn below(mut self, parent: &str) -> Self {
        self.path = match &*self.path {
            "" => parent.to_owned(),
            path => format!("{parent}.{path}"),
        };
        self
    }
}

/// What a pattern should be and is not; where it stands is added by whoever knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) expected: &'static str,
    pub(crate) found: String,
}

impl Unreadable {
    pub(crate) fn new(expected: &'static str, found: &str) -> Self {
        let shown: String = found.chars().take(80).collect();
        Self {
            expected,
            found: format!("`{shown}`"),
        }
    }

    pub(crate) fn at(self, path: &str) -> RuleFault {
        RuleFault::new(path, self.expected, self.found)
    }
}
