//! A script: rules, each with a condition and the turn that is played when it holds.
//!
//! # The format
//!
//! JSON: `{"turns": [turn, …], "otherwise": turn}`, or only the list of turns. A turn is
//!
//! - `"words"`: the model says this;
//! - `[piece, …]`: the pieces of a reply;
//! - `{"when"?, "times"?, "reply": "words" or [piece, …], "usage"?: {"input"?, "cached"?, "output"?}, "stop"?, "cutAt"?: bytes}`;
//! - `{"when"?, "times"?, "refuse": {"status", "headers"?: {name: value}, "body"?}}`: an HTTP error.
//!
//! The turns are tried in order, and the first that fits is played. One without `when` fits once, so a plain list is played
//! from start to end; one with `when` fits whenever its condition holds. `times` changes that number. If none fits,
//! `otherwise` is played, and if there is none the request is refused with 400: a script that does not know what to say is
//! an error of the script.
//!
//! A condition `when` is `{"user"?, "result"?, "said"?, "system"?, "model"?, "offers"?, "tools"?}`, and all that is given must
//! hold: what the user said last / what a tool answered contains this and the model has not spoken since, the conversation
//! anywhere / the instructions / the model's name contain this, this tool is offered, any tool is offered (`true`) or none.
//! Agents ask more than they are told to (for titles, summaries, warm-ups), and this is how such requests are told apart.
//!
//! A piece is
//!
//! - `"words"` or `{"text": "words", "times"?, "everyMs"?}`: text, as often as wanted, with pauses between;
//! - `{"clock": times, "everyMs"?}`: the time in nanoseconds as text, so often, to measure how late it comes; nothing where the answer
//!   is not a stream;
//! - `{"reasoning": "words"}`;
//! - `{"tool": name, "arguments": {…} or "raw text", "id"?}`: a tool call, whether or not the tool is offered;
//! - `{"call": [{"tool", "arguments"}, …], "id"?}`: the first of these that is offered; a name may begin or end with `*`.
//!   If none is, the request is refused with 400;
//! - `{"delayMs": n}`, `{"wait": "gate"}`: nothing for a while, or until the gate is opened;
//! - `{"error": {"kind"?, "message"?}}`: an error in mid-stream; `{"cut": true}`: the stream breaks off; `{"hang": true}`: it
//!   neither goes on nor ends.
//!
//! `stop` is `end`, `tools`, `length`, `refusal`, `missing` or a provider's own word; by default it is `tools` if any are
//! called. Usage that is not given is estimated from the lengths.

use std::str::FromStr;

use crate::format;
use crate::turn::{Refusal, Stop, Usage};
use crate::{Message, Request};

/// What a model says, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    pub(crate) rules: Vec<Rule>,
    pub(crate) otherwise: Option<Action>,
}

/// One entry of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(crate) when: Option<Condition>,
    pub(crate) times: Option<u32>,
    pub(crate) action: Action,
}

/// When a rule fits. What is absent always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What the user said last contains this, and the model has not spoken since.
    pub user: Option<String>,
    /// What a tool answered contains this, and the model has not spoken since.
    pub result: Option<String>,
    /// The conversation contains this anywhere.
    pub said: Option<String>,
    /// The instructions contain this.
    pub system: Option<String>,
    /// The model's name contains this.
    pub model: Option<String>,
    /// This tool is offered; the name may begin or end with `*`.
    pub offers: Option<String>,
    /// Any tool is offered, or none.
    pub tools: Option<bool>,
}

/// What a rule plays, before it is fitted to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Reply(Draft),
    Refuse(Refusal),
}

/// A reply whose tools are not chosen yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) pieces: Vec<DraftPiece>,
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: Option<Stop>,
    pub(crate) cut_at: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DraftPiece {
    Plain(crate::Piece),
    Call {
        id: Option<String>,
        choices: Vec<Choice>,
        must_be_offered: bool,
    },
}

/// A tool that may be called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("script, {place}: {problem}")]
pub struct ScriptError {
    /// The place, such as `turns[2].reply[0]`.
    pub place: String,
    /// What was expected and found.
    pub problem: String,
}

impl Script {
    /// A script that always says the same.
    pub fn saying(words: &str) -> Self {
        Self {
            rules: Vec::new(),
            otherwise: Some(Action::Reply(Draft {
                pieces: vec![DraftPiece::Plain(crate::Piece::Text(words.to_owned()))],
                ..Draft::default()
            })),
        }
    }

    /// Reads a script that is already JSON.
    ///
    /// # Errors
    ///
    /// Something is not as described at the top of this file; the error says where.
    pub fn from_value(value: serde_json::Value) -> Result<Self, ScriptError> {
        format::script(value)
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let value = serde_json::from_str(text).map_err(|error| ScriptError {
            place: format!("line {}", error.line()),
            problem: format!("expected JSON: {error}"),
        })?;
        Self::from_value(value)
    }
}

impl Condition {
    /// Whether this request is meant.
    pub fn holds(&self, request: &Request) -> bool {
        let among = |wanted: &Option<String>, words: &str| {
            wanted.as_ref().is_none_or(|wanted| words.contains(wanted))
        };
        let within = |wanted: &Option<String>, message: &Message| {
            wanted
                .as_ref()
                .is_none_or(|wanted| message.words().contains(wanted))
        };
        (self.user.is_none()
            || request
                .fresh_user()
                .is_some_and(|said| within(&self.user, said)))
            && (self.result.is_none()
                || request
                    .fresh_results()
                    .any(|result| within(&self.result, result)))
            && self.said.as_ref().is_none_or(|words| request.says(words))
            && among(&self.system, &request.system)
            && among(&self.model, &request.model)
            && self
                .offers
                .as_ref()
                .is_none_or(|name| offered(request, name).is_some())
            && self.tools.is_none_or(|any| request.tools.is_empty() != any)
    }
}

/// The name of the first offered tool that fits; the wanted name may begin or end with `*`.
pub(crate) fn offered<'a>(request: &'a Request, wanted: &str) -> Option<&'a str> {
    let open_start = wanted.starts_with('*');
    let open_end = wanted.len() > 1 && wanted.ends_with('*');
    let middle = wanted.trim_matches('*');
    let names = request.tools.iter().map(|tool| tool.name.as_str());
    names.into_iter().find(|name| match (open_start, open_end) {
        (false, false) => *name == wanted,
        (true, false) => name.ends_with(middle),
        (false, true) => name.starts_with(middle),
        (true, true) => name.contains(middle),
    })
}
