//! Tables whose names are the user's: `[agents.ID]`, `[providers.NAME]`. They are set in a file only.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::{Origin, settings};

/// Stands for a value that may be a key: `relay config show` is for everybody's eyes.
const NOT_SHOWN: &str = "(set)";

/// Things as a file has them, by the names that the user gave them.
pub(super) struct Named {
    table: &'static str,
    /// The setting of each whose values are not shown.
    hidden: &'static str,
    values: Table,
    origins: BTreeMap<String, Origin>,
}

impl Named {
    /// None so far.
    pub(super) fn new(table: &'static str, hidden: &'static str) -> Self {
        Self {
            table,
            hidden,
            values: Table::new(),
            origins: BTreeMap::new(),
        }
    }

    /// The table that they are in.
    pub(super) const fn table(&self) -> &'static str {
        self.table
    }

    /// Takes those of a file.
    pub(super) fn take(&mut self, found: Value, origin: impl Fn(&str) -> Origin) -> Result<()> {
        let table = self.table;
        let Value::Table(found) = found else {
            let origin = origin(table);
            bail!(
                "{origin}: {table} has to be of type table, such as [{table}.mine]; found {found}"
            );
        };
        for (key, _) in settings(&found) {
            let key = format!("{table}.{key}");
            self.origins.insert(key.clone(), origin(&key));
        }
        self.values.extend(found);
        Ok(())
    }

    /// Every setting with its value and where that came from.
    pub(super) fn listed(&self) -> Vec<(String, Value, Origin)> {
        let listed = settings(&self.values).into_iter();
        listed
            .map(|(key, value)| {
                let is_hidden = key.split('.').nth(1) == Some(self.hidden);
                let value = match is_hidden {
                    true => Value::String(NOT_SHOWN.to_owned()),
                    false => value.clone(),
                };
                let key = format!("{}.{key}", self.table);
                let origin = self.origin(&key);
                (key, value, origin)
            })
            .collect()
    }

    /// All of them. What is in them and should not be is refused, with the line that has it.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<Vec<(String, T)>> {
        let mut found = Vec::new();
        for (name, value) in self.values.clone() {
            let key = format!("{}.{name}", self.table);
            let read = serde_path_to_error::deserialize(value).map_err(|error| {
                let key = match error.path().to_string().as_str() {
                    "." => key.clone(),
                    below => format!("{key}.{below}"),
                };
                let why = error.inner().message();
                anyhow!("{}: {key}: {why}", self.origin(&key))
            })?;
            found.push((name, read));
        }
        Ok(found)
    }

    /// What is wrong with one of them, and where it is.
    pub(super) fn wrong(&self, name: &str, why: impl std::fmt::Display) -> anyhow::Error {
        let key = format!("{}.{name}", self.table);
        anyhow!("{}: {key}: {why}", self.origin(&key))
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
