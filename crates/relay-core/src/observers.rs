//! Observers: credentials that only look, and how far.
//!
//! An observer can do nothing but read. One that is limited to channels reads what is in those channels;
//! one that is limited to events reads these and nothing else.

use relay_protocol::api::Page;
use relay_protocol::api::workspace::{
    CreateObserverToken, ObserverScope, ObserverToken, ObserverTokenCreated,
};
use relay_protocol::event::TokenKind;
use relay_protocol::ids::TokenId;
use relay_protocol::limits::{NAME_CHARS, SCOPE_PATTERNS};
use relay_protocol::names::fold;
use relay_protocol::problem::Problem;
use relay_protocol::selector::Selector;

use crate::caller::{Caller, make_token};
use crate::channels::without_hash;
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Result};
use crate::store::{NewObserver, Revocation};

impl Engine {
    /// Makes a credential that only looks.
    pub async fn create_observer(
        &self,
        caller: &Caller,
        body: CreateObserverToken,
    ) -> Result<ObserverTokenCreated> {
        let workspace_no = caller.require_workspace_key()?.no;
        within(
            "name",
            NAME_CHARS,
            body.name.as_deref().map_or(0, |name| name.chars().count()),
        )?;
        let scope = body.scope.unwrap_or_default();
        check_scope(&scope)?;
        let (token, stored) =
            make_token(TokenKind::Observer, &*self.environment.random, self.now());
        let observer = self
            .store
            .create_observer(NewObserver {
                workspace_no,
                token: stored,
                name: body.name,
                scope,
            })
            .await?;
        Ok(ObserverTokenCreated { token, observer })
    }

    /// All credentials that only look, without their secrets.
    pub async fn observers(&self, caller: &Caller, page: PageQuery) -> Result<Page<ObserverToken>> {
        let workspace_no = caller.require_workspace_key()?.no;
        self.store.observers(workspace_no, page.request()?).await
    }

    /// Takes a credential back; it stops working at once.
    pub async fn revoke_observer(&self, caller: &Caller, token: TokenId) -> Result<()> {
        let workspace_no = caller.require_workspace_key()?.no;
        self.store
            .revoke_observer(Revocation {
                workspace_no,
                token,
                at: self.now(),
            })
            .await
    }
}

fn check_scope(scope: &ObserverScope) -> Result<()> {
    for (path, patterns) in [
        ("scope.channels", &scope.channels),
        ("scope.events", &scope.events),
    ] {
        let patterns = patterns.as_deref().unwrap_or_default();
        within(path, SCOPE_PATTERNS, patterns.len())?;
        for pattern in patterns {
            within(path, NAME_CHARS + 2, pattern.chars().count())?;
        }
    }
    for pattern in scope.events.as_deref().unwrap_or_default() {
        Selector::parse(pattern).map_err(|error| Error::Refused(Box::new(Problem::from(error))))?;
    }
    Ok(())
}

/// The refusal of what a limited observer asks for.
pub(crate) const fn limited() -> Error {
    Error::Forbidden {
        needs: "a credential whose scope covers this",
    }
}

/// Whether an observer sees records of every kind.
pub(crate) const fn sees_records(scope: &ObserverScope) -> bool {
    scope.channels.is_none() && scope.events.is_none()
}

/// Whether an observer sees the records of a channel.
pub(crate) fn sees_channel(scope: &ObserverScope, channel: &str) -> bool {
    scope.events.is_none() && covers_channel(scope, channel)
}

/// Whether a channel is one of those that an observer is limited to.
pub(crate) fn covers_channel(scope: &ObserverScope, channel: &str) -> bool {
    let Some(patterns) = &scope.channels else {
        return true;
    };
    let name = fold(without_hash(channel));
    patterns
        .iter()
        .any(|pattern| is_like(&fold(without_hash(pattern)), &name))
}

/// A name, or a beginning of one with `*` after it.
fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_matched_by_name_or_beginning() {
        let cases = [
            (None, "ops", true),
            (Some(vec![]), "ops", false),
            (Some(vec!["ops"]), "ops", true),
            (Some(vec!["#Ops"]), "oPS", true),
            (Some(vec!["ops"]), "ops-2", false),
            (Some(vec!["team-*"]), "team-a", true),
            (Some(vec!["team-*"]), "teams", false),
            (Some(vec!["*"]), "anything", true),
            (Some(vec!["a", "b"]), "#b", true),
        ];
        for (channels, name, expected) in cases {
            let scope = ObserverScope {
                channels: channels
                    .map(|names: Vec<&str>| names.into_iter().map(str::to_owned).collect()),
                ..ObserverScope::default()
            };
            assert_eq!(covers_channel(&scope, name), expected, "{scope:?} {name}");
            assert_eq!(sees_channel(&scope, name), expected, "{scope:?} {name}");
        }
    }

    #[test]
    fn one_limited_to_events_sees_no_records() {
        let scope = ObserverScope {
            events: Some(vec!["message.*".to_owned()]),
            ..ObserverScope::default()
        };
        assert!(!sees_records(&scope));
        assert!(!sees_channel(&scope, "ops"));
        assert!(covers_channel(&scope, "ops"));
        assert!(sees_records(&ObserverScope::default()));
    }
}
