//! A provider that plays a script: for tests, and for demonstrations without network or key.
//!
//! The script, and what it answers, are those of `relay-script`; a user message that begins with `script:` is one, too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use relay_script::{
    Clock, Gates, Part, Piece, Player, Refusal, Reply, Request, Role, Script, Stop, Ticks, Turn,
};
use serde_json::Value;

use super::conversation::{Content, Message, Said, instructions, words};
use super::error::{ErrorKind, ProviderError};
use super::provider::{Answer, ModelRequest, Provider, ProviderEvent, StopReason, Usage};
use super::retry::retry_after;

/// A script that answers.
#[derive(Clone, Debug)]
pub struct Scripted {
    player: Arc<Mutex<Player>>,
    gates: Gates,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

/// How many questions are remembered.
const MAX_ASKED: usize = 1000;

impl Scripted {
    /// Begins a script.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            player: Arc::new(Mutex::new(Player::new(script))),
            gates: Gates::default(),
            asked: Arc::default(),
        }
    }

    /// Lets answers go on that wait at this gate.
    pub fn open(&self, gate: &str) {
        self.gates.open(gate);
    }

    /// What was asked so far, oldest first.
    #[must_use]
    pub fn asked(&self) -> Vec<ModelRequest> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }

    fn note(&self, request: &ModelRequest) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() < MAX_ASKED {
            asked.push(request.clone());
        }
    }
}

impl Provider for Scripted {
    fn answer(&self, request: ModelRequest) -> Answer {
        self.note(&request);
        let turn = {
            let mut player = self.player.lock().unwrap_or_else(PoisonError::into_inner);
            player.next(&scripted(&request))
        };
        let steps = match turn {
            Turn::Reply(reply) => steps(reply),
            Turn::Refusal(refusal) => vec![Step::Fail(refused(&refusal))],
        };
        let saying = Saying {
            steps: steps.into_iter(),
            gates: self.gates.clone(),
            ticks: None,
        };
        unfold(saying, |mut saying| async move {
            let said = saying.next().await?;
            Some((said, saying))
        })
        .boxed()
    }
}

/// An answer that is being said.
struct Saying {
    steps: std::vec::IntoIter<Step>,
    gates: Gates,
    /// A clock that has not told all of its times.
    ticks: Option<Ticks>,
}

impl Saying {
    async fn next(&mut self) -> Option<Result<ProviderEvent, ProviderError>> {
        loop {
            if let Some(ticks) = &mut self.ticks {
                match ticks.next().await {
                    Some(time) => return Some(Ok(ProviderEvent::Text(time))),
                    None => self.ticks = None,
                }
            }
            match self.steps.next()? {
                Step::Say(event) => return Some(Ok(event)),
                Step::Fail(error) => {
                    self.steps = Vec::new().into_iter();
                    return Some(Err(error));
                }
                Step::Clock(clock) => self.ticks = Some(clock.start()),
                Step::Pause(time) => tokio::time::sleep(time).await,
                Step::Wait(gate) => self.gates.wait(&gate).await,
                Step::Hang => std::future::pending().await,
            }
        }
    }
}

enum Step {
    Say(ProviderEvent),
    Fail(ProviderError),
    Clock(Clock),
    Pause(Duration),
    Wait(String),
    Hang,
}

fn steps(reply: Reply) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut calls = 0;
    for piece in reply.pieces {
        match piece {
            Piece::Text(text) => steps.push(Step::Say(ProviderEvent::Text(text))),
            Piece::Reasoning(text) => {
                steps.push(Step::Say(ProviderEvent::Reasoning(text)));
                steps.push(Step::Say(ProviderEvent::ReasoningEnd(None)));
            }
            Piece::ToolCall(made) => {
                let call = calls;
                calls += 1;
                let (id, name, text) = (made.id, made.name, made.arguments);
                steps.push(Step::Say(ProviderEvent::CallBegin { call, id, name }));
                steps.push(Step::Say(ProviderEvent::CallArguments { call, text }));
                steps.push(Step::Say(ProviderEvent::CallEnd { call }));
            }
            Piece::Clock(clock) => steps.push(Step::Clock(clock)),
            Piece::Pause(time) => steps.push(Step::Pause(time)),
            Piece::Wait(gate) => steps.push(Step::Wait(gate)),
            Piece::Hang => steps.push(Step::Hang),
            Piece::Fail(failure) => {
                // People see it as the script has it.
                let error = ProviderError::new(ErrorKind::Reported, failure.message);
                steps.push(Step::Fail(error));
                return steps;
            }
            Piece::Cut => {
                let error = ProviderError::new(ErrorKind::Unreachable, "the stream was cut");
                steps.push(Step::Fail(error));
                return steps;
            }
        }
    }
    steps.push(Step::Say(ProviderEvent::Usage(Usage {
        input: reply.usage.input,
        output: reply.usage.output,
        cache_read: reply.usage.cached,
        cache_creation: 0,
    })));
    // Without a reason the stream just ends, and whoever reads it has to notice.
    if let Some(reason) = reason(reply.stop) {
        steps.push(Step::Say(ProviderEvent::Stop(reason)));
    }
    steps
}

fn reason(stop: Stop) -> Option<StopReason> {
    match stop {
        Stop::End => Some(StopReason::End),
        Stop::Tools => Some(StopReason::Tools),
        Stop::Length => Some(StopReason::Length),
        Stop::Refusal => Some(StopReason::Refusal),
        Stop::Missing => None,
        Stop::Other(word) => Some(StopReason::Other(word)),
    }
}

fn refused(refusal: &Refusal) -> ProviderError {
    let kind = match refusal.status {
        429 | 500.. => ErrorKind::Busy,
        _ => ErrorKind::Refused,
    };
    let message = refusal.body["error"]["message"].as_str();
    let text = match (message, &refusal.body) {
        (Some(message), _) => message.to_owned(),
        (None, Value::String(text)) => text.clone(),
        (None, body) => body.to_string(),
    };
    let wait = refusal.headers.iter().find_map(|(name, value)| {
        let is_it = name.eq_ignore_ascii_case("retry-after");
        is_it.then(|| retry_after(value, jiff::Timestamp::now()))?
    });
    ProviderError {
        status: Some(refusal.status),
        retry_after: wait,
        ..ProviderError::said(
            kind,
            &format!("the script answered {}", refusal.status),
            &text,
        )
    }
}

/// The question as a script understands it.
fn scripted(request: &ModelRequest) -> Request {
    let messages = request.messages.iter().filter_map(message);
    let tools = request.tools.iter().map(|tool| relay_script::Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        schema: tool.schema.clone(),
    });
    Request {
        model: request.model.clone(),
        system: instructions(&request.messages),
        messages: messages.collect(),
        tools: tools.collect(),
    }
}

fn message(message: &Message) -> Option<relay_script::Message> {
    let (role, parts) = match message {
        Message::System(_) => return None,
        Message::User(content) => (Role::User, content.iter().map(shown).collect()),
        Message::Assistant(said) => (Role::Assistant, said.iter().map(part).collect()),
        Message::Tool(result) => {
            let answer = Part::ToolResult {
                id: result.call_id.clone(),
                text: words(&result.content),
            };
            (Role::Tool, vec![answer])
        }
    };
    Some(relay_script::Message { role, parts })
}

fn shown(content: &Content) -> Part {
    match content {
        Content::Text(text) => Part::Text(text.clone()),
        Content::Image(media) | Content::Document(media) => {
            Part::Attachment(media.media_type.clone())
        }
    }
}

fn part(said: &Said) -> Part {
    match said {
        Said::Text(text) => Part::Text(text.clone()),
        Said::Reasoning { text, .. } => Part::Reasoning(text.clone()),
        Said::ToolCall(call) => Part::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.shown(),
        },
    }
}
