//! One question to a model, whatever the provider: asked again where that may help, and held to the rules.
//!
//! It is asked again only as long as nothing of an answer was handed on: a second answer would be said after the beginning of the
//! first.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use tokio::time::Instant;

use super::error::ProviderError;
use super::guard::Guard;
use super::limits::AnswerLimits;
use super::provider::{Answer, ModelRequest, Provider, ProviderEvent};
use super::retry::RetryPolicy;

/// Asks a model. The last event is [`ProviderEvent::Stop`] or an error. Dropped, it ends the call.
pub fn ask(provider: Arc<dyn Provider>, request: ModelRequest, retry: RetryPolicy) -> Answer {
    let limits = provider.limits();
    let asking = Asking {
        provider,
        request,
        deadline: Instant::now() + limits.total,
        limits,
        retry,
        attempt: 0,
        answer: None,
        guard: Guard::new(limits),
        has_begun: false,
        has_ended: false,
    };
    unfold(asking, |mut asking| async move {
        let event = asking.next().await?;
        Some((event, asking))
    })
    .boxed()
}

struct Asking {
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    limits: AnswerLimits,
    retry: RetryPolicy,
    deadline: Instant,
    attempt: u32,
    answer: Option<Answer>,
    guard: Guard,
    /// Something of the answer was handed on.
    has_begun: bool,
    has_ended: bool,
}

impl Asking {
    async fn next(&mut self) -> Option<Result<ProviderEvent, ProviderError>> {
        while !self.has_ended {
            let error = match self.read().await {
                Ok(event) => return Some(Ok(event)),
                Err(error) => error,
            };
            // Closes the connection, whatever comes now.
            self.answer = None;
            match self.wait(&error) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }

    async fn read(&mut self) -> Result<ProviderEvent, ProviderError> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            empty => {
                self.attempt += 1;
                self.guard = Guard::new(self.limits);
                empty.insert(self.provider.answer(self.request.clone()))
            }
        };
        let next = tokio::time::timeout_at(self.deadline, answer.next()).await;
        let next = next.map_err(|_| {
            let seconds = self.limits.total.as_secs();
            ProviderError::limit(format!("the answer took longer than {seconds} s"))
        })?;
        let Some(event) = next else {
            self.guard.end()?;
            return Err(ProviderError::broken("the answer ended twice"));
        };
        let event = event?;
        self.guard.pass(&event)?;
        self.has_begun = true;
        self.has_ended = matches!(event, ProviderEvent::Stop(_));
        Ok(event)
    }

    fn wait(&self, error: &ProviderError) -> Option<Duration> {
        if self.has_begun {
            return None;
        }
        let mut jitter = [0];
        // Without randomness all wait equally long.
        let _ = getrandom::fill(&mut jitter);
        let wait = self.retry.wait(self.attempt, error, jitter[0])?;
        tracing::info!(
            attempt = self.attempt,
            wait_ms = wait.as_millis(),
            status = error.status,
            kind = ?error.kind,
            "a model is asked again"
        );
        Some(wait)
    }
}
