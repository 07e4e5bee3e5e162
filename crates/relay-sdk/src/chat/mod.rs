//! Chats: one is begun with all that was said so far, its events are read, and what it asks is decided.
//!
//! What the events are is in the server's documentation of chats; they are passed on as they come.

mod stream;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use relay_protocol::chat::ModelList;
use relay_protocol::permission::{PermissionResponse, Permissions};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

pub use self::stream::{Chat, ChatEvent};
use crate::client::{Client, part};
use crate::error::{Error, Result};
use crate::http::{Call, Http};

/// A chat that is to begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewChat {
    /// The model; none: the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A coding agent instead of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// All that was said so far, in the form of the server's documentation.
    pub messages: Vec<Value>,
    /// Rules beside those of the workspace; none: everything is asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// How long it goes on while nobody looks, in whole seconds; none: it is cancelled at once. A chat that is held is picked up
    /// again when the connection breaks.
    #[serde(
        rename = "onDisconnect",
        skip_serializing_if = "Option::is_none",
        serialize_with = "hold"
    )]
    pub hold: Option<Duration>,
}

impl NewChat {
    /// One thing that is said.
    #[must_use]
    pub fn saying(text: &str) -> Self {
        Self {
            messages: vec![json!({ "role": "user", "content": text })],
            ..Self::default()
        }
    }

    /// With this model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }
}

fn hold<S: Serializer>(hold: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds = hold.unwrap_or_default().as_secs().max(1);
    json!({ "hold": seconds }).serialize(serializer)
}

/// What became of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatDecided {
    /// It counts.
    Taken,
    /// It was decided before, or the chat is over; the events say how.
    TooLate,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resolve<'a> {
    session_id: &'a str,
    response: &'a PermissionResponse,
}

impl Client {
    /// Chats with models and coding agents, for owners and people.
    #[must_use]
    pub fn chats(&self) -> Chats {
        Chats {
            http: self.shared_http(),
        }
    }
}

/// Chats of a server.
#[derive(Clone)]
pub struct Chats {
    http: Arc<Http>,
}

impl Chats {
    /// The models that can be chatted with.
    pub async fn models(&self) -> Result<ModelList> {
        self.http.json(Call::get("/models").about_chats()).await
    }

    /// Begins a chat. Dropping it ends it, unless it is held.
    pub async fn begin(&self, new: &NewChat) -> Result<Chat> {
        Chat::begin(self.clone(), new).await
    }

    /// Looks at a chat again, after the event with this number; 0 is before the first.
    pub async fn look(&self, session_id: &str, seen: u64) -> Result<Chat> {
        Chat::look(self.clone(), session_id, seen).await
    }

    /// Decides about a call of a chat. An error is a decision that can't be: the question waits on.
    pub async fn resolve(
        &self,
        session_id: &str,
        relay_id: &str,
        answer: &PermissionResponse,
    ) -> Result<ChatDecided> {
        let body = Resolve {
            session_id,
            response: answer,
        };
        let call = Call::post(format!("/chat/relay/{}", part(relay_id)), &body);
        match self.http.done(call.about_chats()).await {
            Ok(()) => Ok(ChatDecided::Taken),
            Err(error) if is_not_found(&error) => Ok(ChatDecided::TooLate),
            Err(error) => Err(error),
        }
    }

    /// Cancels a chat. One that is over needs no cancelling.
    pub async fn cancel(&self, session_id: &str) -> Result<()> {
        let call = Call::delete(format!("/chat/{}", part(session_id)));
        match self.http.done(call.about_chats().repeatable()).await {
            Err(error) if is_not_found(&error) => Ok(()),
            done => done,
        }
    }
}

fn is_not_found(error: &Error) -> bool {
    let status = error.problem().map(|problem| problem.status);
    status == Some(StatusCode::NOT_FOUND.as_u16())
}
