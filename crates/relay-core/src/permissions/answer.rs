//! What an answer means for a request: checked against what was asked and offered, before anything is written. Pure.

use relay_protocol::limits::GRANT_EXPIRES_MAX_MS;
use relay_protocol::permission::{
    GrantEffect, GrantScope, PermissionOptionKind, ResolvePermission, RuleSuggestion, ToolParams,
};
use relay_protocol::problem::{ErrorCode, Problem};

use super::invalid;
use crate::error::{Error, Result};
use crate::store::PermissionRow;

/// An answer that fits its request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) approved: bool,
    pub(crate) reason: Option<String>,
    pub(crate) option_id: Option<String>,
    pub(crate) updated_params: Option<ToolParams>,
    pub(crate) stop: bool,
    pub(crate) guidance: Option<String>,
    pub(crate) granting: Option<Granting>,
}

/// A standing decision that comes of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granting {
    pub(crate) rule: String,
    /// Whether the request offered it.
    pub(crate) was_offered: bool,
    pub(crate) effect: GrantEffect,
    pub(crate) scope: GrantScope,
    pub(crate) turn_id: Option<String>,
    pub(crate) expires_in_ms: Option<u64>,
}

/// Reads an answer.
pub(crate) fn read(row: &PermissionRow, body: &ResolvePermission) -> Result<Answer> {
    if let Some(hash) = body.args_hash.as_ref().filter(|hash| **hash != row.hash) {
        return Err(other_call(row, hash));
    }
    let kind = chosen(row, body)?;
    check_strength(body)?;
    let asks_always = match kind {
        Some(kind) => is_lasting(kind),
        // `always` on a refusal means nothing: what lasts has to be chosen.
        None => body.always == Some(true) && body.approved,
    };
    let granting = asks_always.then(|| granting(row, body)).transpose()?;
    check_grant_fields(body, asks_always)?;
    Ok(Answer {
        approved: body.approved,
        reason: body.reason.clone(),
        option_id: body.option_id.clone(),
        updated_params: body.updated_params.clone(),
        stop: body.stop == Some(true),
        guidance: body.guidance.clone(),
        granting: granting.flatten(),
    })
}

/// The option that was chosen, which has to agree with the rest of the answer.
fn chosen(row: &PermissionRow, body: &ResolvePermission) -> Result<Option<PermissionOptionKind>> {
    let Some(id) = &body.option_id else {
        return Ok(None);
    };
    let options = &row.body.options;
    let Some(option) = options.iter().find(|option| option.option_id == *id) else {
        let known: Vec<_> = options.iter().map(|it| it.option_id.as_str()).collect();
        return Err(invalid(
            "optionId",
            &format!("one of {}", known.join(", ")),
            &format!("{id:?}"),
        ));
    };
    let allows = is_allowing(option.kind);
    if allows != body.approved {
        let expected = format!("{allows}, as {:?} says", option.option_id);
        return Err(invalid("approved", &expected, &body.approved.to_string()));
    }
    if body
        .always
        .is_some_and(|always| always != is_lasting(option.kind))
    {
        let expected = format!("nothing, or what {:?} says", option.option_id);
        return Err(invalid("always", &expected, "the opposite"));
    }
    Ok(Some(option.kind))
}

const fn is_allowing(kind: PermissionOptionKind) -> bool {
    use PermissionOptionKind::{AllowAlways, AllowOnce};
    matches!(kind, AllowOnce | AllowAlways)
}

const fn is_lasting(kind: PermissionOptionKind) -> bool {
    use PermissionOptionKind::{AllowAlways, RejectAlways};
    matches!(kind, AllowAlways | RejectAlways)
}

/// What goes with an approval only, and what with a refusal only.
fn check_strength(body: &ResolvePermission) -> Result<()> {
    if body.approved && body.stop == Some(true) {
        return Err(invalid("stop", "a refusal", "an approval"));
    }
    if body.approved && body.guidance.is_some() {
        return Err(invalid("guidance", "a refusal", "an approval"));
    }
    if body
        .guidance
        .as_ref()
        .is_some_and(|text| text.trim().is_empty())
    {
        return Err(invalid("guidance", "text", "nothing"));
    }
    if !body.approved && body.updated_params.is_some() {
        return Err(invalid("updatedParams", "an approval", "a refusal"));
    }
    if body.updated_params.is_some() && body.always == Some(true) {
        let what = "parameters that were asked about";
        return Err(invalid("always", what, "others"));
    }
    Ok(())
}

fn check_grant_fields(body: &ResolvePermission, asks_always: bool) -> Result<()> {
    let given = [
        ("rule", body.rule.is_some()),
        ("scope", body.scope.is_some()),
        ("grantExpiresInMs", body.grant_expires_in_ms.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given && !asks_always) {
        Some((path, _)) => Err(invalid(path, "an answer that lasts", "one for this call")),
        None => Ok(()),
    }
}

/// The standing decision; none when no rule can be offered, so that the answer is for this call alone.
fn granting(row: &PermissionRow, body: &ResolvePermission) -> Result<Option<Granting>> {
    if let Some(millis) = body.grant_expires_in_ms
        && !(1..=GRANT_EXPIRES_MAX_MS).contains(&millis)
    {
        let expected = format!("1 to {GRANT_EXPIRES_MAX_MS}");
        return Err(invalid("grantExpiresInMs", &expected, &millis.to_string()));
    }
    let offered = |text: &str| -> Option<&RuleSuggestion> {
        row.body.suggestions.iter().find(|offer| offer.rule == text)
    };
    let (rule, offer) = match &body.rule {
        Some(rule) => (rule.clone(), offered(rule)),
        None => match row.body.suggestions.first() {
            Some(offer) => (offer.rule.clone(), Some(offer)),
            None => return Ok(None),
        },
    };
    if offer.is_none() && row.body.masked {
        return Err(invalid(
            "rule",
            "one of the rules that were offered, because the call holds a secret",
            &format!("{rule:?}"),
        ));
    }
    let usual = match row.session {
        Some(_) => GrantScope::Session,
        None => GrantScope::Agent,
    };
    let scope = body
        .scope
        .or(offer.map(|offer| offer.scope))
        .unwrap_or(usual);
    let turn_id = row
        .body
        .turn_id
        .clone()
        .filter(|_| scope == GrantScope::Turn);
    match scope {
        GrantScope::Session if row.session.is_none() => {
            return Err(invalid("scope", "a request of a session", "one without"));
        }
        GrantScope::Turn if turn_id.is_none() => {
            return Err(invalid(
                "scope",
                "a request that names its turn",
                "one without",
            ));
        }
        _ => {}
    }
    Ok(Some(Granting {
        rule,
        was_offered: offer.is_some(),
        effect: match body.approved {
            true => GrantEffect::Allow,
            false => GrantEffect::Deny,
        },
        scope,
        turn_id,
        expires_in_ms: body.grant_expires_in_ms,
    }))
}

fn other_call(row: &PermissionRow, found: &str) -> Error {
    Error::Refused(Box::new(Problem {
        path: Some("argsHash".to_owned()),
        expected: Some(row.hash.clone()),
        found: Some(found.to_owned()),
        ..Problem::new(
            ErrorCode::PermissionNotGranted,
            "the answer is about another call than this request; look at it again",
        )
    }))
}
