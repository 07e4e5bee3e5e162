//! Reads a script's JSON; the format is described in `script.rs`.
//!
//! Shorthands are told apart by hand, because errors have to name the place and what was expected there. Everything with
//! fields is closed: an unknown field is an error.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Clock;
use crate::script::{Action, Choice, Condition, Draft, DraftPiece, Rule, Script, ScriptError};
use crate::turn::{Failure, Piece, Refusal, Stop, Usage};

/// How often one piece of text may be repeated.
const MAX_TIMES: u32 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptShape {
    turns: Vec<Value>,
    otherwise: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct TurnShape {
    when: Option<Condition>,
    times: Option<u32>,
    reply: Option<Value>,
    usage: Option<UsageShape>,
    stop: Option<String>,
    cut_at: Option<usize>,
    refuse: Option<RefusalShape>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UsageShape {
    input: u64,
    cached: u64,
    output: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusalShape {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct PieceShape {
    text: Option<String>,
    times: Option<u32>,
    every_ms: Option<u64>,
    clock: Option<u32>,
    reasoning: Option<String>,
    tool: Option<String>,
    arguments: Option<Value>,
    id: Option<String>,
    call: Option<Vec<ChoiceShape>>,
    delay_ms: Option<u64>,
    wait: Option<String>,
    error: Option<FailureShape>,
    cut: Option<bool>,
    hang: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChoiceShape {
    tool: String,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureShape {
    kind: Option<String>,
    message: Option<String>,
}

/// Reads a whole script.
pub(crate) fn script(value: Value) -> Result<Script, ScriptError> {
    let shape = match value {
        Value::Array(turns) => ScriptShape {
            turns,
            otherwise: None,
        },
        other => fields(other, "top", "a list of turns or {\"turns\": […]}")?,
    };
    let rules = shape.turns.into_iter().enumerate();
    let rules = rules.map(|(at, value)| turn(value, &format!("turns[{at}]")));
    let otherwise = shape.otherwise.map(|value| turn(value, "otherwise"));
    Ok(Script {
        rules: rules.collect::<Result<_, _>>()?,
        otherwise: otherwise.transpose()?.map(|rule| rule.action),
    })
}

fn turn(value: Value, place: &str) -> Result<Rule, ScriptError> {
    let shape = match value {
        Value::String(_) | Value::Array(_) => TurnShape {
            reply: Some(value),
            ..TurnShape::default()
        },
        other => fields(other, place, "words, a list of pieces or an object")?,
    };
    let action = match (shape.reply, shape.refuse) {
        (Some(reply), None) => Action::Reply(Draft {
            pieces: pieces(reply, &format!("{place}.reply"))?,
            usage: shape.usage.map(usage),
            stop: shape.stop.map(stop),
            cut_at: shape.cut_at,
        }),
        (None, Some(shape)) => Action::Refuse(refusal(shape, place)?),
        _ => return Err(wrong(place, "expected either `reply` or `refuse`")),
    };
    // Without a condition a turn is one step of a sequence.
    let times = shape.times.or(shape.when.is_none().then_some(1));
    Ok(Rule {
        when: shape.when,
        times,
        action,
    })
}

fn usage(shape: UsageShape) -> Usage {
    Usage {
        input: shape.input,
        cached: shape.cached,
        output: shape.output,
    }
}

fn stop(word: String) -> Stop {
    match word.as_str() {
        "end" => Stop::End,
        "tools" => Stop::Tools,
        "length" => Stop::Length,
        "refusal" => Stop::Refusal,
        "missing" => Stop::Missing,
        _ => Stop::Other(word),
    }
}

fn refusal(shape: RefusalShape, place: &str) -> Result<Refusal, ScriptError> {
    let status = http::StatusCode::from_u16(shape.status);
    if !status.is_ok_and(|status| status.is_client_error() || status.is_server_error()) {
        let problem = format!("expected a status from 400 to 599, found {}", shape.status);
        return Err(wrong(&format!("{place}.refuse.status"), &problem));
    }
    let message = format!("refused with {} by the script", shape.status);
    let body = shape.body.unwrap_or_else(
        || serde_json::json!({ "error": { "type": "api_error", "message": message } }),
    );
    Ok(Refusal {
        status: shape.status,
        headers: shape.headers.into_iter().collect(),
        body,
    })
}

fn pieces(value: Value, place: &str) -> Result<Vec<DraftPiece>, ScriptError> {
    match value {
        Value::String(words) => Ok(vec![DraftPiece::Plain(Piece::Text(words))]),
        Value::Array(values) => {
            let mut all = Vec::new();
            for (at, value) in values.into_iter().enumerate() {
                piece(value, &format!("{place}[{at}]"), &mut all)?;
            }
            Ok(all)
        }
        _ => Err(wrong(place, "expected words or a list of pieces")),
    }
}

fn piece(value: Value, place: &str, all: &mut Vec<DraftPiece>) -> Result<(), ScriptError> {
    let shape: PieceShape = match value {
        Value::String(words) => {
            all.push(DraftPiece::Plain(Piece::Text(words)));
            return Ok(());
        }
        other => fields(other, place, "words or an object")?,
    };
    check(&shape, place)?;
    if let Some(words) = shape.text {
        let pause = shape.every_ms.map(Duration::from_millis);
        repeat(&words, shape.times.unwrap_or(1), pause, all);
        return Ok(());
    }
    let plain = if let Some(times) = shape.clock {
        let every = Duration::from_millis(shape.every_ms.unwrap_or(0));
        Piece::Clock(Clock { times, every })
    } else if let Some(words) = shape.reasoning {
        Piece::Reasoning(words)
    } else if let Some(ms) = shape.delay_ms {
        Piece::Pause(Duration::from_millis(ms))
    } else if let Some(gate) = shape.wait {
        Piece::Wait(gate)
    } else if let Some(failure) = shape.error {
        Piece::Fail(Failure {
            kind: failure.kind.unwrap_or_else(|| "api_error".to_owned()),
            message: failure.message.unwrap_or_else(|| "scripted".to_owned()),
        })
    } else if shape.cut == Some(true) {
        Piece::Cut
    } else if shape.hang == Some(true) {
        Piece::Hang
    } else {
        all.push(call(shape, place)?);
        return Ok(());
    };
    all.push(DraftPiece::Plain(plain));
    Ok(())
}

/// A piece is one thing, and has only the fields that belong to it.
fn check(shape: &PieceShape, place: &str) -> Result<(), ScriptError> {
    let kinds = [
        shape.text.is_some(),
        shape.clock.is_some(),
        shape.reasoning.is_some(),
        shape.tool.is_some(),
        shape.call.is_some(),
        shape.delay_ms.is_some(),
        shape.wait.is_some(),
        shape.error.is_some(),
        shape.cut.is_some(),
        shape.hang.is_some(),
    ];
    if kinds.iter().filter(|there| **there).count() != 1 {
        let problem = "expected exactly one of `text`, `clock`, `reasoning`, `tool`, `call`, `delayMs`, \
                       `wait`, `error`, `cut`, `hang`";
        return Err(wrong(place, problem));
    }
    if shape.cut == Some(false) || shape.hang == Some(false) {
        return Err(wrong(place, "`cut` and `hang` are only `true`"));
    }
    if shape.text.is_none() && shape.times.is_some() {
        return Err(wrong(place, "`times` belongs to `text`"));
    }
    if shape.text.is_none() && shape.clock.is_none() && shape.every_ms.is_some() {
        return Err(wrong(place, "`everyMs` belongs to `text` and `clock`"));
    }
    if shape.tool.is_none() && shape.arguments.is_some() {
        return Err(wrong(place, "`arguments` belong to `tool`"));
    }
    let times = shape.times.max(shape.clock);
    if times.is_some_and(|times| times > MAX_TIMES) {
        return Err(wrong(place, &format!("`times` is at most {MAX_TIMES}")));
    }
    Ok(())
}

fn repeat(words: &str, times: u32, pause: Option<Duration>, all: &mut Vec<DraftPiece>) {
    for count in 0..times {
        if let Some(pause) = pause.filter(|_| count > 0) {
            all.push(DraftPiece::Plain(Piece::Pause(pause)));
        }
        all.push(DraftPiece::Plain(Piece::Text(words.to_owned())));
    }
}

fn call(shape: PieceShape, place: &str) -> Result<DraftPiece, ScriptError> {
    let must_be_offered = shape.call.is_some();
    let choices = match (shape.tool, shape.call) {
        (Some(tool), _) => vec![ChoiceShape {
            tool,
            arguments: shape.arguments,
        }],
        (None, Some(choices)) if !choices.is_empty() => choices,
        _ => return Err(wrong(place, "expected a tool to call")),
    };
    Ok(DraftPiece::Call {
        id: shape.id,
        choices: choices.into_iter().map(choice).collect(),
        must_be_offered,
    })
}

fn choice(shape: ChoiceShape) -> Choice {
    let arguments = match shape.arguments {
        None => "{}".to_owned(),
        // Raw, so that a script can also say what is no JSON.
        Some(Value::String(raw)) => raw,
        Some(value) => value.to_string(),
    };
    Choice {
        tool: shape.tool,
        arguments,
    }
}

fn fields<T: DeserializeOwned>(
    value: Value,
    place: &str,
    expected: &str,
) -> Result<T, ScriptError> {
    if !value.is_object() {
        return Err(wrong(place, &format!("expected {expected}")));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let inside = error.path().to_string();
        let place = match inside.as_str() {
            "." => place.to_owned(),
            inside => format!("{place}.{inside}"),
        };
        wrong(&place, &error.inner().to_string())
    })
}

fn wrong(place: &str, problem: &str) -> ScriptError {
    ScriptError {
        place: place.to_owned(),
        problem: problem.to_owned(),
    }
}
