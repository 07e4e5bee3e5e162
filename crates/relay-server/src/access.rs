//! Who asks. The engine is in here and comes out only together with a caller whose credential was checked,
//! so a handler that forgets to ask for one does not compile.
//!
//! To say who may call a route, its handler takes an [`Access`] of one of the kinds below; the route table
//! and the API's description read it from there.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use futures_util::future::BoxFuture;
use relay_core::environment::Environment;
use relay_core::{Caller, Engine, Error};
use relay_protocol::event::TokenKind;
use relay_protocol::problem::ErrorCode;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::guard::Home;
use crate::limiter::Limiter;
use crate::metrics::Metrics;
use crate::poll::Polls;
use crate::refusal::Refusal;
use crate::webhook::Calls;

/// What all requests share. It has no way to the engine but [`App::admit`].
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    engine: Arc<Engine>,
    environment: Environment,
    config: Config,
    home: Home,
    process_home: Home,
    calls: Arc<Calls>,
    metrics: Metrics,
    polls: Polls,
    by_token: Limiter<TokenHash>,
    failed: Limiter<IpAddr>,
    stopping: CancellationToken,
    cut_off: CancellationToken,
    tasks: TaskTracker,
}

/// What a token is known by where it must not be kept.
type TokenHash = [u8; 32];

impl App {
    pub(crate) fn new(engine: Arc<Engine>, config: Config, home: Home) -> Self {
        let (cut_off, tasks) = (CancellationToken::new(), TaskTracker::new());
        let environment = Environment::system();
        let calls = Calls {
            engine: Arc::downgrade(&engine),
            environment: environment.clone(),
            outbound: config.outbound.clone(),
            tasks: tasks.clone(),
            cut_off: cut_off.clone(),
        };
        Self(Arc::new(Shared {
            by_token: Limiter::new(config.per_token),
            failed: Limiter::new(config.failed_authentications),
            polls: Polls::new(config.silence),
            metrics: Metrics::default(),
            stopping: CancellationToken::new(),
            process_home: home.of_process(),
            calls: Arc::new(calls),
            cut_off,
            tasks,
            environment,
            engine,
            config,
            home,
        }))
    }

    /// Time and randomness for what is the server's own.
    pub(crate) fn environment(&self) -> &Environment {
        &self.0.environment
    }

    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    pub(crate) fn home(&self) -> &Home {
        &self.0.home
    }

    /// The same for connections of this process.
    pub(crate) fn process_home(&self) -> &Home {
        &self.0.process_home
    }

    /// How sessions are called that have webhooks.
    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.0.calls
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Cancelled once the server is told to stop.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// Cancelled once it has waited long enough for everything to end.
    pub(crate) fn cut_off(&self) -> &CancellationToken {
        &self.0.cut_off
    }

    /// Everything that has to end before the server has.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Whether requests can be served: the store answers.
    pub(crate) async fn is_ready(&self) -> bool {
        let answer = self.0.engine.authenticate("").await;
        !self.0.stopping.is_cancelled() && matches!(answer, Err(Error::Unauthorized))
    }

    /// Lets the holder of a token in whose kind is asked for.
    pub(crate) async fn admit<K: Kind>(
        &self,
        token: &str,
        from: IpAddr,
    ) -> Result<Access<K>, Refusal> {
        let hash: TokenHash = Sha256::digest(token.as_bytes()).into();
        let now = Instant::now();
        // Whoever was let in lately is not locked out by what others at the same address try.
        if !self.0.by_token.knows(&hash) {
            self.0
                .failed
                .has_any(&from, now)
                .map_err(too_many_failures)?;
        }
        let caller = match self.0.engine.authenticate(token).await {
            Ok(caller) => caller,
            Err(Error::Unauthorized) => return Err(self.failed(from, now)),
            Err(error) => return Err(error.into()),
        };
        self.0.by_token.take(hash, now).map_err(|wait| {
            self.0.metrics.rate_limited();
            Refusal::rate_limited("this token asks too often", wait)
        })?;
        let admitted = Admitted {
            app: self.clone(),
            caller,
            token: hash,
        };
        let access = Access {
            admitted: Arc::new(admitted),
            kind: PhantomData,
        };
        access.check_kind()
    }

    fn failed(&self, from: IpAddr, now: Instant) -> Refusal {
        self.0.metrics.failed_authentication();
        tracing::info!(peer = %from, "a token was not valid");
        match self.0.failed.take(from, now) {
            Ok(()) => Error::Unauthorized.into(),
            Err(wait) => too_many_failures(wait),
        }
    }

    /// Lets in whoever shows a token in the header.
    pub(crate) async fn admit_by_header<K: Kind>(
        &self,
        headers: &HeaderMap,
        from: IpAddr,
    ) -> Result<Access<K>, Refusal> {
        let token = bearer(headers)?.ok_or(Error::Unauthorized)?;
        self.admit(token, from).await
    }
}

fn too_many_failures(wait: Duration) -> Refusal {
    Refusal::rate_limited("too many tokens from this address were not valid", wait)
}

/// The token of the header `Authorization: Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let token = value
        .to_str()
        .ok()
        .filter(|_| values.next().is_none())
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty());
    match token {
        Some(token) => Ok(Some(token)),
        None => Err(Refusal::new(
            ErrorCode::Unauthorized,
            "Authorization: expected one header of the form `Bearer TOKEN`",
        )),
    }
}

/// Somebody whose credential is valid and of the kind that is needed.
pub(crate) struct Access<K> {
    admitted: Arc<Admitted>,
    kind: PhantomData<K>,
}

struct Admitted {
    app: App,
    caller: Caller,
    token: TokenHash,
}

impl<K> Clone for Access<K> {
    fn clone(&self) -> Self {
        Self {
            admitted: self.admitted.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> Access<K> {
    /// The engine, for whoever was let in.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.admitted.app.0.engine
    }

    /// Who was let in.
    pub(crate) fn caller(&self) -> &Caller {
        &self.admitted.caller
    }

    /// What all requests share.
    pub(crate) fn app(&self) -> &App {
        &self.admitted.app
    }

    /// The sessions that ask for their deliveries.
    pub(crate) fn polls(&self) -> &Polls {
        &self.admitted.app.0.polls
    }

    /// Waits until the credential has ended. It is watched from the moment of the call, also while nobody polls.
    pub(crate) fn ended(&self) -> BoxFuture<'static, ()> {
        let engine = self.engine().clone();
        let watch = engine.watch_credential(self.admitted.token);
        Box::pin(async move { engine.credential_ended(&watch, tokio::time::sleep).await })
    }

    /// Waits for something that may take long; refused when the credential ends first.
    pub(crate) async fn while_valid<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
        tokio::select! {
            biased;
            () = self.ended() => Err(Error::Unauthorized.into()),
            done = work => Ok(done),
        }
    }

    /// Whether the credential still is what it was. In doubt it is: a store that can't be read at the
    /// moment is no reason to cut anybody off.
    pub(crate) async fn is_still_valid(&self) -> bool {
        let found = self.engine().authenticate_hash(self.admitted.token).await;
        !matches!(found, Err(Error::Unauthorized))
    }

    /// Counts one more thing that is asked with this token; says how long to wait if that is too many.
    pub(crate) fn count(&self) -> Result<(), Duration> {
        let Admitted { app, token, .. } = &*self.admitted;
        app.0.by_token.take(*token, Instant::now())
    }
}

impl<K: Kind> Access<K> {
    fn check_kind(self) -> Result<Self, Refusal> {
        let found = self.caller().kind();
        if K::KINDS.contains(&found) {
            return Ok(self);
        }
        let detail = format!("expected {}, found {}", needs(K::KINDS), name(found));
        Err(Refusal::new(ErrorCode::Forbidden, detail))
    }
}

/// A choice of credentials.
pub(crate) trait Kind: Send + Sync + 'static {
    /// Those that are accepted.
    const KINDS: &'static [TokenKind];
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident)|+;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Kind for $name {
            const KINDS: &'static [TokenKind] = &[$(TokenKind::$kind),+];
        }
    )+};
}

kinds! {
    /// The server's admin key.
    Admin: Admin;
    /// A workspace's key.
    Owner: Workspace;
    /// An agent's token.
    Agent: Agent;
    /// Everybody who takes part in a workspace.
    Participant: Workspace | Agent;
    /// Everybody who may read in a workspace.
    Reader: Workspace | Agent | Observer;
    /// An inbound webhook's token.
    Inbound: Webhook;
    /// Everybody.
    Anyone: Admin | Workspace | Agent | Observer;
}

/// What people call a kind of credential.
pub(crate) const fn name(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Admin => "the server's admin key",
        TokenKind::Workspace => "a workspace key",
        TokenKind::Agent => "an agent token",
        TokenKind::Observer => "an observer token",
        TokenKind::Webhook => "an inbound webhook's token",
    }
}

/// The credentials that would do, in words.
pub(crate) fn needs(kinds: &[TokenKind]) -> String {
    let names: Vec<&str> = kinds.iter().copied().map(name).collect();
    names.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_headers() {
        let cases = [
            (vec![], Ok(None)),
            (vec!["Bearer at_x"], Ok(Some("at_x"))),
            (vec!["bearer  at_x "], Ok(Some("at_x"))),
            (vec!["Basic eDp5"], Err(())),
            (vec!["Bearer"], Err(())),
            (vec!["Bearer "], Err(())),
            (vec!["at_x"], Err(())),
            (vec!["Bearer a", "Bearer b"], Err(())),
        ];
        for (values, expected) in cases {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            let found = bearer(&headers).map_err(|_| ());
            assert_eq!(found, expected, "{values:?}");
        }
    }
}
