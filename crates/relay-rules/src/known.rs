//! Where the paths of calls lead, found out beforehand: for whoever decides where waiting for a file system is no
//! choice.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::call::{Call, View};
use crate::files::Files;
use crate::kinds::{Kind, kind_of};
use crate::path::PathPattern;

/// What was found out about paths; of all others it can't tell.
#[derive(Clone, Debug, Default)]
pub struct KnownFiles(HashMap<PathBuf, Option<PathBuf>>);

impl KnownFiles {
    /// Finds out where every path of a call leads.
    #[must_use]
    pub fn of(call: &Call<'_>, files: &dyn Files) -> Self {
        let looking = Looking {
            files,
            found: RefCell::default(),
        };
        let view = View::new(call, &looking);
        // Whatever the rules are, they ask for the same: one pattern of each kind finds it out.
        let patterns = ["/**", "**"].map(PathPattern::parse);
        for pattern in patterns.iter().flatten() {
            for (name, value) in call.params {
                let paths = match kind_of(call.tool, name) {
                    Kind::Path => value.as_str().into_iter().map(str::to_owned).collect(),
                    Kind::Patch => view.touched(name).unwrap_or_default().to_vec(),
                    _ => Vec::new(),
                };
                for path in paths {
                    pattern.covers(&view, &path);
                    pattern.meets(&view, &path);
                }
            }
        }
        drop(view);
        Self(looking.found.into_inner())
    }

    /// Takes over what somebody else found out.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Files for KnownFiles {
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        self.0.get(path).cloned().flatten()
    }
}

struct Looking<'a> {
    files: &'a dyn Files,
    found: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
}

impl Files for Looking<'_> {
    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let mut found = self.found.borrow_mut();
        let known = found.entry(path.to_owned());
        known.or_insert_with(|| self.files.resolve(path)).clone()
    }
}

#[cfg(test)]
mod tests {
    use relay_protocol::permission::{Permissions, RuleDecision};
    use serde_json::json;

    use super::*;
    use crate::{Policy, RealFiles, decide, suggestions};

    /// Rules of every kind decide by what was found out as they do by the files themselves.
    #[test]
    fn what_was_found_out_is_all_that_the_rules_ask_for() {
        let folder = std::env::current_dir().unwrap();
        let calls = [
            ("read", json!({ "path": "src/lib.rs" })),
            ("read", json!({ "path": "src/../src/lib.rs" })),
            ("read", json!({ "path": "/etc/../etc/hosts" })),
            (
                "patch",
                json!({ "patch": "*** Begin Patch\n*** Add File: src/a/b.rs\n+x\n*** End Patch" }),
            ),
            ("other", json!({ "path": "src", "file": "/etc/hosts" })),
        ];
        let policies = [
            json!({ "allowlist": ["read:src/**", "patch:src/**"] }),
            json!({ "allowlist": ["read", "patch", "other"], "deny": ["read:/etc/**", "patch:/etc/*"] }),
            json!({ "allowlist": [{ "tool": "other", "params": { "file": "/etc/*", "path": "src" } }] }),
        ];
        let mut allowed = 0;
        for (tool, params) in &calls {
            let call = Call {
                tool,
                params: params.as_object().unwrap(),
                tool_call_id: None,
                cwd: Some(&folder),
            };
            let known = KnownFiles::of(&call, &RealFiles);
            for policy in &policies {
                let permissions: Permissions = serde_json::from_value(policy.clone()).unwrap();
                let policy = Policy::compile(&permissions).unwrap();
                let by_files = decide(&call, &[&policy], &[], &RealFiles);
                assert_eq!(by_files, decide(&call, &[&policy], &[], &known), "{call:?}");
                allowed += usize::from(by_files.decision == RuleDecision::Allow);
            }
            assert_eq!(suggestions(&call, &RealFiles), suggestions(&call, &known));
        }
        assert!(allowed > 4, "{allowed}");
    }
}
