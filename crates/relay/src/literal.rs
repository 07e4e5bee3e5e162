//! The words and ids of the wire as values of arguments: what is none of them is refused with what it should be.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use relay_protocol::agent::AgentType;
use relay_protocol::api::workspace::ObserverGrant;
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::permission::{GrantScope, PermissionState};
use relay_protocol::selector::Filter;
use relay_protocol::wire::UnknownLiteral;

pub(crate) fn modes() -> impl TypedValueParser<Value = DeliveryMode> {
    one_of(DeliveryMode::ALL.iter().map(|mode| mode.as_str()))
}

pub(crate) fn states() -> impl TypedValueParser<Value = DeliveryState> {
    one_of(DeliveryState::ALL.iter().map(|state| state.as_str()))
}

pub(crate) fn permission_states() -> impl TypedValueParser<Value = PermissionState> {
    one_of(PermissionState::ALL.iter().map(|state| state.as_str()))
}

pub(crate) fn scopes() -> impl TypedValueParser<Value = GrantScope> {
    one_of(GrantScope::ALL.iter().map(|scope| scope.as_str()))
}

pub(crate) fn agent_types() -> impl TypedValueParser<Value = AgentType> {
    one_of(AgentType::ALL.iter().map(|kind| kind.as_str()))
}

pub(crate) fn grants() -> impl TypedValueParser<Value = ObserverGrant> {
    one_of(ObserverGrant::ALL.iter().map(|grant| grant.as_str()))
}

/// Reads an id.
pub(crate) fn id<T: FromStr>(text: &str) -> Result<T, String> {
    let expected = "expected an id such as 01a1e393-83fa-718d-8000-010000000009";
    text.parse().map_err(|_| expected.to_owned())
}

/// Reads a filter.
pub(crate) fn filter(text: &str) -> Result<Filter, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a filter as JSON: {error}"))
}

fn one_of<T>(words: impl Iterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownLiteral> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word: String| word.parse::<T>())
}
