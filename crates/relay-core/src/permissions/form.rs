//! The form of questions and answers: sizes, names, what excludes each other. Pure.

use std::path::Path;

use relay_protocol::limits::{
    CALL_ID_BYTES, PERMISSION_CWD_BYTES, PERMISSION_EXPIRES_MAX_MS, PERMISSION_OPTIONS,
    PERMISSION_PARAMS_BYTES, PERMISSION_TITLE_BYTES, PERMISSION_VIA_BYTES, REASON_BYTES,
    TEXT_BYTES, TOOL_NAME_BYTES,
};
use relay_protocol::permission::{AskPermission, PermissionOption, ResolvePermission, ToolParams};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::redact::Redactor;
use serde_json::Value;

use super::invalid;
use crate::engine::within;
use crate::error::{Error, Result};

/// Checks a question.
pub(super) fn check_ask(body: &AskPermission) -> Result<()> {
    check_call(&body.tool, &body.params)?;
    let texts = [
        ("toolCallId", &body.tool_call_id, CALL_ID_BYTES),
        ("turnId", &body.turn_id, CALL_ID_BYTES),
        ("title", &body.title, PERMISSION_TITLE_BYTES),
        ("cwd", &body.cwd, PERMISSION_CWD_BYTES),
    ];
    for (what, text, most) in texts {
        within(what, most, text.as_ref().map_or(0, String::len))?;
    }
    if let Some(cwd) = body
        .cwd
        .as_deref()
        .filter(|cwd| !Path::new(cwd).is_absolute())
    {
        return Err(invalid("cwd", "an absolute path", cwd));
    }
    if let Some(expires) = body
        .expires_in_ms
        .filter(|it| !(1..=PERMISSION_EXPIRES_MAX_MS).contains(it))
    {
        let expected = format!("1 to {PERMISSION_EXPIRES_MAX_MS}");
        return Err(invalid("expiresInMs", &expected, &expires.to_string()));
    }
    body.options.as_deref().map_or(Ok(()), check_options)
}

fn check_options(options: &[PermissionOption]) -> Result<()> {
    within("options", PERMISSION_OPTIONS, options.len())?;
    if options.is_empty() {
        return Err(invalid("options", "at least one answer", "none"));
    }
    for (at, option) in options.iter().enumerate() {
        within("options.optionId", CALL_ID_BYTES, option.option_id.len())?;
        within("options.name", PERMISSION_TITLE_BYTES, option.name.len())?;
        let before = &options[..at];
        if before
            .iter()
            .any(|other| other.option_id == option.option_id)
        {
            return Err(invalid("options", "each optionId once", &option.option_id));
        }
    }
    Ok(())
}

/// Checks the call that a question is about.
pub(super) fn check_call(tool: &str, params: &ToolParams) -> Result<()> {
    within("tool", TOOL_NAME_BYTES, tool.len())?;
    if tool.is_empty() || tool.chars().any(char::is_control) {
        return Err(invalid("tool", "the name of a tool", &format!("{tool:?}")));
    }
    let params = serde_json::to_string(params).map_or(0, |text| text.len());
    within("params", PERMISSION_PARAMS_BYTES, params)
}

/// Checks an answer by itself, whatever request it is for.
pub(super) fn check_answer(redactor: &Redactor, body: &ResolvePermission) -> Result<()> {
    let texts = [
        ("reason", &body.reason, REASON_BYTES),
        ("guidance", &body.guidance, TEXT_BYTES),
        ("via", &body.via, PERMISSION_VIA_BYTES),
        ("policy", &body.policy, PERMISSION_VIA_BYTES),
        ("responseId", &body.response_id, CALL_ID_BYTES),
    ];
    for (what, text, most) in texts {
        within(what, most, text.as_ref().map_or(0, String::len))?;
    }
    let Some(params) = &body.updated_params else {
        return Ok(());
    };
    let mut updated = Value::Object(params.clone());
    within(
        "updatedParams",
        PERMISSION_PARAMS_BYTES,
        updated.to_string().len(),
    )?;
    // They are kept until the call runs, and secrets are not.
    match redactor.redact_json(&mut updated) {
        false => Ok(()),
        true => Err(Error::Refused(Box::new(Problem {
            path: Some("updatedParams".to_owned()),
            ..Problem::new(
                ErrorCode::SecretRefused,
                "updatedParams hold a secret, or the mark that stands for one; approve the call as it was asked, or deny it",
            )
        }))),
    }
}
