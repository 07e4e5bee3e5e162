//! Chooses the turn that answers a request.
//!
//! A player remembers how often each rule was played, and nothing else. A script inside a message needs no memory at all: what
//! was played of it can be read from the conversation.

use std::str::FromStr as _;

use serde_json::json;

use crate::clock::CHARACTERS;
use crate::script::{Action, Choice, Condition, Draft, DraftPiece, Script, ScriptError, offered};
use crate::turn::{Piece, Refusal, Reply, Stop, ToolCall, Turn, Usage};
use crate::{Message, Part, Request, Role};

/// A user message that starts with this is a script.
const INLINE: &str = "script:";

/// How many bytes of text are counted as a token.
const BYTES_PER_TOKEN: usize = 4;

/// A script that is being played.
#[derive(Clone, Debug)]
pub struct Player {
    script: Script,
    played: Vec<u32>,
}

impl Player {
    /// Begins a script.
    pub fn new(script: Script) -> Self {
        let played = vec![0; script.rules.len()];
        Self { script, played }
    }

    /// What the model answers. The script in the user's last message goes before this player's own.
    pub fn next(&mut self, request: &Request) -> Turn {
        match inline_script(request) {
            Some(Ok((script, place))) => Self::new(script).catch_up(request, place),
            Some(Err(error)) => refuse(&error.to_string()),
            None => self.play(request),
        }
    }

    /// Plays again what was played since the message at this place, and then the turn that is wanted.
    fn catch_up(mut self, request: &Request, place: usize) -> Turn {
        for (at, message) in request.messages.iter().enumerate().skip(place) {
            if message.role == Role::Assistant {
                let before = Request {
                    messages: request.messages[..at].to_vec(),
                    ..request.clone()
                };
                self.play(&before);
            }
        }
        self.play(request)
    }

    fn play(&mut self, request: &Request) -> Turn {
        let rules = self.script.rules.iter().zip(&mut self.played);
        for (rule, played) in rules {
            let left = rule.times.is_none_or(|times| *played < times);
            if left && holds(rule.when.as_ref(), request) {
                *played += 1;
                return fit(&rule.action, request);
            }
        }
        match &self.script.otherwise {
            Some(action) => fit(action, request),
            None => refuse("the script has no turn for this request"),
        }
    }
}

fn holds(when: Option<&Condition>, request: &Request) -> bool {
    when.is_none_or(|condition| condition.holds(request))
}

/// The script in the user's last message, if there is one, and the place of that message.
pub fn inline_script(request: &Request) -> Option<Result<(Script, usize), ScriptError>> {
    let mut messages = request.messages.iter();
    let place = messages.rposition(|message| message.role == Role::User)?;
    // Agents put texts of their own around what the user said, each a part.
    let script = request.messages[place]
        .parts
        .iter()
        .find_map(|part| match part {
            Part::Text(text) => text.trim_start().strip_prefix(INLINE),
            _ => None,
        })?;
    Some(Script::from_str(script).map(|script| (script, place)))
}

fn fit(action: &Action, request: &Request) -> Turn {
    match action {
        Action::Reply(draft) => match fit_reply(draft, request) {
            Ok(reply) => Turn::Reply(reply),
            Err(refused) => refused,
        },
        Action::Refuse(refusal) => Turn::Refusal(refusal.clone()),
    }
}

fn fit_reply(draft: &Draft, request: &Request) -> Result<Reply, Turn> {
    let mut calls = request.calls();
    let mut pieces = Vec::with_capacity(draft.pieces.len());
    for piece in &draft.pieces {
        pieces.push(match piece {
            DraftPiece::Plain(piece) => piece.clone(),
            DraftPiece::Call {
                id,
                choices,
                must_be_offered,
            } => {
                calls += 1;
                let (name, arguments) = choose(choices, *must_be_offered, request)?;
                // Counted over the conversation: two calls of one conversation may not have the same id.
                let id = id.clone().unwrap_or_else(|| format!("call_{calls}"));
                Piece::ToolCall(ToolCall {
                    id,
                    name,
                    arguments,
                })
            }
        });
    }
    let mut reply = Reply {
        pieces,
        cut_at: draft.cut_at,
        ..Reply::default()
    };
    let default_stop = match reply.calls().next() {
        Some(_) => Stop::Tools,
        None => Stop::End,
    };
    reply.stop = draft.stop.clone().unwrap_or(default_stop);
    reply.usage = draft.usage.unwrap_or_else(|| estimate(request, &reply));
    Ok(reply)
}

fn choose(
    choices: &[Choice],
    must_be_offered: bool,
    request: &Request,
) -> Result<(String, String), Turn> {
    for choice in choices {
        if !must_be_offered {
            return Ok((choice.tool.clone(), choice.arguments.clone()));
        }
        if let Some(name) = offered(request, &choice.tool) {
            return Ok((name.to_owned(), choice.arguments.clone()));
        }
    }
    let wanted = choices.iter().map(|choice| choice.tool.as_str());
    let there = request.tools.iter().map(|tool| tool.name.as_str());
    Err(refuse(&format!(
        "the script calls one of [{}], the request offers [{}]",
        wanted.collect::<Vec<_>>().join(", "),
        there.collect::<Vec<_>>().join(", ")
    )))
}

fn refuse(message: &str) -> Turn {
    Turn::Refusal(Refusal {
        status: 400,
        headers: Vec::new(),
        body: json!({ "error": { "type": "invalid_request_error", "message": message } }),
    })
}

fn estimate(request: &Request, reply: &Reply) -> Usage {
    let asked = request.messages.iter().map(message_bytes).sum::<usize>();
    let said = reply.pieces.iter().map(|piece| match piece {
        Piece::Text(text) | Piece::Reasoning(text) => text.len(),
        Piece::ToolCall(call) => call.name.len() + call.arguments.len(),
        Piece::Clock(clock) => clock.times as usize * CHARACTERS,
        _ => 0,
    });
    Usage {
        input: tokens(request.system.len() + asked),
        cached: 0,
        output: tokens(said.sum()),
    }
}

fn message_bytes(message: &Message) -> usize {
    let bytes = message.parts.iter().map(|part| match part {
        Part::Text(text) | Part::Reasoning(text) | Part::ToolResult { text, .. } => text.len(),
        Part::ToolCall { name, .. } => name.len(),
        Part::Attachment(_) => 0,
    });
    bytes.sum()
}

fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN).max(1) as u64
}
