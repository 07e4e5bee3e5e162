//! One turn: from a prompt until the model has said all, or something ended it.

use std::collections::{HashSet, VecDeque};

use relay_sdk::{ChatDecided, ChatEvent, Chats, NewChat};
use serde_json::Value;

use super::asking::{Answer, Asker, Pressed, Question};
use super::history::History;
use super::telling;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::output::{Flow, Output, one_line};
use crate::platform::{StopSignal, Wish};
use crate::words::Told;

/// What the server says to a chat without a model where it has no default.
const NO_MODEL: &str = "model and messages are required";

/// Why a call is denied that nobody can be asked about.
const NOBODY: &str = "nobody could be asked: there is no terminal";

/// How a turn ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The model has said all.
    Final,
    /// Somebody cancelled it.
    Cancelled,
    /// A refusal ended it.
    Stopped,
    /// Something else; why.
    Other(String),
}

/// A turn that goes on.
pub(super) struct Turn<'a> {
    output: &'a Output,
    chat: relay_sdk::Chat,
    /// Whether the chat goes on while the connection is broken.
    is_held: bool,
    flow: Flow,
    shown: Option<Question>,
    waiting: VecDeque<Question>,
    /// All that was asked: some of it comes again after a break.
    asked: HashSet<String>,
    /// What was decided here.
    own: HashSet<String>,
    /// Rules that were allowed for always.
    granted: Vec<String>,
    is_cancelled: bool,
    error: Option<String>,
    ending: Option<Ending>,
}

/// What happens next.
enum Next {
    Event(Option<ChatEvent>),
    Pressed(Pressed),
    Stop(Wish),
}

impl<'a> Turn<'a> {
    pub(super) async fn begin(chats: &Chats, new: &NewChat, output: &'a Output) -> Outcome<Self> {
        Ok(Self {
            output,
            chat: chats.begin(new).await.map_err(refused)?,
            is_held: new.hold.is_some(),
            flow: Flow::default(),
            shown: None,
            waiting: VecDeque::new(),
            asked: HashSet::new(),
            own: HashSet::new(),
            granted: Vec::new(),
            is_cancelled: false,
            error: None,
            ending: None,
        })
    }

    /// Goes on to its end. What ends it here ends it on the server, too.
    pub(super) async fn run(
        &mut self,
        mut asker: Option<&mut Asker>,
        history: &mut History,
        stop: &mut StopSignal,
    ) -> Outcome<Ending> {
        let done = self.go_on(&mut asker, history, stop).await;
        if let Some(asker) = asker {
            asker.dismiss();
        }
        history.settle();
        if let Err(failure) = &done
            && failure.exit() != Exit::ServerAway
        {
            let _ = self.chat.cancel().await;
        }
        done?;
        self.flow.end(self.output)?;
        Ok(match (self.ending.take(), self.error.take()) {
            (_, Some(error)) => Ending::Other(error),
            (Some(ending), None) => ending,
            (None, None) => Ending::Other("the chat ended without saying how".to_owned()),
        })
    }

    async fn go_on(
        &mut self,
        asker: &mut Option<&mut Asker>,
        history: &mut History,
        stop: &mut StopSignal,
    ) -> Outcome {
        loop {
            self.show_next(asker)?;
            let next = tokio::select! {
                event = self.chat.next() => Next::Event(event?),
                pressed = pressed(asker), if self.shown.is_some() => Next::Pressed(pressed),
                wish = stop.next() => Next::Stop(wish),
            };
            match next {
                Next::Event(None) => return Ok(()),
                Next::Event(Some(event)) => {
                    history.take(&event.data);
                    self.hear(&event.data, asker).await?;
                }
                Next::Pressed(Pressed::Writes(text)) => self.output.write(text)?,
                Next::Pressed(Pressed::Decided(answer)) => {
                    let Some(question) = self.shown.take() else {
                        continue;
                    };
                    dismiss(asker);
                    self.decide(question, &answer).await?;
                }
                Next::Stop(wish) => self.stop(wish, asker).await?,
            }
        }
    }

    /// Puts the next question before somebody's eyes.
    fn show_next(&mut self, asker: &mut Option<&mut Asker>) -> Outcome {
        let Some(asker) = asker.as_deref_mut().filter(|_| self.shown.is_none()) else {
            return Ok(());
        };
        let Some(question) = self.waiting.pop_front() else {
            return Ok(());
        };
        let card = asker.show(&question);
        self.shown = Some(question);
        self.line(&card)
    }

    async fn hear(&mut self, event: &Value, asker: &mut Option<&mut Asker>) -> Outcome {
        if self.output.is_json() {
            self.output.json_line(event)?;
        } else if let Some(told) = self.tell(event) {
            self.flow.write(self.output, &told)?;
        }
        let is_outermost = event.get("parentId").is_none();
        match event["type"].as_str().unwrap_or_default() {
            "relay" => self.asks(event, asker.is_some()).await,
            "relay_resolved" => self.resolved(event, asker),
            "error" if is_outermost => {
                self.error = event["message"].as_str().map(one_line);
                Ok(())
            }
            "harness_end" if is_outermost => {
                self.ending = Some(ending(event["reason"].as_str().unwrap_or_default()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is told of an event. Once all is cancelled, it need not be said of every call.
    fn tell(&self, event: &Value) -> Option<Told> {
        let is_known = self.is_cancelled && event["type"] == "tool_result";
        match is_known {
            true => None,
            false => telling::tell(self.output.style(), event),
        }
    }

    /// Somebody has to decide; where nobody is, that is a no.
    async fn asks(&mut self, event: &Value, has_asker: bool) -> Outcome {
        let question = Question::of(event);
        if !self.asked.insert(question.id.clone()) {
            return Ok(());
        }
        if has_asker {
            self.waiting.push_back(question);
            return Ok(());
        }
        let call = telling::called(&question.tool, &question.params);
        let allows = match &question.rule {
            Some((rule, _)) => format!("; --allow '{}' allows it", one_line(rule)),
            None => String::new(),
        };
        self.flow.end(self.output)?;
        self.output.note(&format!(
            "denied {call}: there is no terminal to ask at{allows}"
        ));
        self.decide(question, &nobody()).await
    }

    async fn decide(&mut self, question: Question, answer: &Answer) -> Outcome {
        self.own.insert(question.id.clone());
        let body = question.answer(answer);
        let decided = self.chat.resolve(&question.id, &body).await;
        let decided = match decided.map_err(Failure::from) {
            // The chat is held: once the stream is back the question is asked again.
            Err(failure) if failure.exit() == Exit::ServerAway && self.is_held => {
                self.asked.remove(&question.id);
                Ok(ChatDecided::TooLate)
            }
            Err(failure) if failure.exit() == Exit::ServerAway => return Err(failure),
            decided => decided,
        };
        match decided {
            // It is told already.
            Ok(ChatDecided::Taken) if *answer == nobody() => Ok(()),
            Ok(ChatDecided::Taken) => {
                if let (Answer::Always, Some((rule, _))) = (answer, question.rule) {
                    self.granted.push(rule);
                }
                self.line(&answer.told(self.output.style()))
            }
            // The stream tells who was faster.
            Ok(ChatDecided::TooLate) => {
                self.own.remove(&question.id);
                Ok(())
            }
            // It can't be; the question waits on.
            Err(failure) => {
                self.own.remove(&question.id);
                self.line(&self.output.style().bad(&one_line(failure.message())))?;
                self.waiting.push_front(question);
                Ok(())
            }
        }
    }

    /// A question is over. Whose decision it was is told where it was not made here.
    fn resolved(&mut self, event: &Value, asker: &mut Option<&mut Asker>) -> Outcome {
        let id = event["relayId"].as_str().unwrap_or_default();
        self.waiting.retain(|question| question.id != id);
        if self.shown.take_if(|question| question.id == id).is_some() {
            dismiss(asker);
        }
        match self.own.contains(id) || self.is_cancelled {
            true => Ok(()),
            false => self.line(&telling::resolved(self.output.style(), event)),
        }
    }

    /// What was allowed for always in this turn. The server's grant ends with it: to the server the next one is another chat.
    pub(super) fn granted(self) -> Vec<String> {
        self.granted
    }

    /// The first Ctrl-C cancels the turn, and its end is waited for; the second does not wait.
    async fn stop(&mut self, wish: Wish, asker: &mut Option<&mut Asker>) -> Outcome {
        if self.is_cancelled || wish == Wish::End {
            return Err(Failure::interrupted("stopped; the chat was cancelled"));
        }
        self.is_cancelled = true;
        self.shown = None;
        self.waiting.clear();
        dismiss(asker);
        self.flow.end(self.output)?;
        self.output.note("cancelling; Ctrl-C again ends");
        Ok(self.chat.cancel().await?)
    }

    /// A line for people.
    fn line(&mut self, text: &str) -> Outcome {
        match self.output.is_json() {
            true => Ok(()),
            false => self.flow.write(self.output, &Told::Line(text.to_owned())),
        }
    }
}

/// Why a chat did not begin.
fn refused(error: relay_sdk::Error) -> Failure {
    let problem = error.problem();
    match problem.is_some_and(|problem| problem.detail == NO_MODEL) {
        true => no_default_model(),
        false => error.into(),
    }
}

/// Nobody has said with which model to talk.
pub(super) fn no_default_model() -> Failure {
    let models = hints::command("chat --models");
    Failure::usage("this server has no default model").next(format!(
        "say one with --model; `{models}` shows them, and chat.default_model sets one"
    ))
}

/// The answer where nobody can be asked.
fn nobody() -> Answer {
    Answer::Deny(Some(NOBODY.to_owned()))
}

async fn pressed(asker: &mut Option<&mut Asker>) -> Pressed {
    match asker {
        Some(asker) => asker.answer().await,
        None => std::future::pending().await,
    }
}

fn dismiss(asker: &mut Option<&mut Asker>) {
    if let Some(asker) = asker {
        asker.dismiss();
    }
}

/// What the reason of an end means.
fn ending(reason: &str) -> Ending {
    match reason {
        "final" => Ending::Final,
        "cancelled" => Ending::Cancelled,
        "stopped" => Ending::Stopped,
        "length" => Ending::Other("the answer is as long as the model's may be".to_owned()),
        "refusal" => Ending::Other("the model refuses to answer".to_owned()),
        "max_iterations" => {
            Ending::Other("the model was asked as often as it may be in one turn".to_owned())
        }
        reason => Ending::Other(format!("the chat ended: {}", one_line(reason))),
    }
}
