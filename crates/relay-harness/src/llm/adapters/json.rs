//! What the streams have in common: JSON in events, errors in several shapes, reasons that may be empty.

use serde_json::Value;

use crate::llm::error::{ErrorKind, ProviderError};

/// Words in a provider's error that say that it may work later.
const BUSY: &[&str] = &[
    "overloaded",
    "rate_limit",
    "server_error",
    "api_error",
    "unavailable",
];

/// The JSON object of an event.
pub(super) fn object(data: &str) -> Result<Value, ProviderError> {
    match serde_json::from_str(data) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(ProviderError::broken(
            "the stream has an event that is no JSON object",
        )),
        Err(error) if error.is_eof() => Err(ProviderError::broken(
            "the stream has an event that breaks off in the middle of its JSON",
        )),
        Err(error) => Err(ProviderError::broken(format!(
            "the stream has an event that is no JSON: {error}"
        ))),
    }
}

/// The error that a provider reports: an object with a message, or only words.
pub(super) fn reported(error: &Value) -> ProviderError {
    let word = |key: &str| match &error[key] {
        Value::String(word) => word.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    let names = [word("type"), word("code")];
    let is_busy = names.iter().any(|name| {
        let status = name.parse::<u16>().unwrap_or_default();
        status == 429 || status >= 500 || BUSY.iter().any(|busy| name.contains(busy))
    });
    let kind = match is_busy {
        true => ErrorKind::Busy,
        false => ErrorKind::Reported,
    };
    let message = match error.as_str() {
        Some(words) => words.to_owned(),
        None => word("message"),
    };
    let name = names.into_iter().find(|name| !name.is_empty());
    let text = match name {
        Some(name) if message.is_empty() => name,
        Some(name) if name != "error" => format!("{message} ({name})"),
        _ => message,
    };
    ProviderError::said(kind, "the provider reported an error", &text)
}

/// A text that is there and not empty.
pub(super) fn some_text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// A number of tokens.
pub(super) fn tokens(value: &Value) -> Option<u64> {
    value.as_u64()
}
