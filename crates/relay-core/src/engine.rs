//! The engine: checks a request, then makes one store call.
//!
//! The operations are in files by what users call them: `workspaces`, `agents`, `channels`, `messages`,
//! `reading`, `attachments`, `sessions`, `deliveries`, `actions`,
//! `permissions`, `webhooks`, `ingest`, `events`, `audit`.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use relay_protocol::limits::{PAGE_ITEMS, PAGE_ITEMS_DEFAULT, PERMISSION_EXPIRES_MS};
use relay_protocol::redact::Redactor;
use relay_protocol::time::Timestamp;
use relay_rules::{Files, NoFiles};
use tokio::sync::watch;

use crate::actions::Validators;
use crate::caller::{Caller, hash_token};
use crate::callers::{Callers, CredentialWatch, Validity};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::permissions::SharedFiles;
use crate::runner::Runner;
use crate::store::chain::Hash;
use crate::store::{PageRequest, Store, WorkspaceRow};

/// Everything that can be asked of Relay, in one process.
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) environment: Environment,
    pub(crate) redactor: Redactor,
    pub(crate) runner: Arc<Runner>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) validators: Validators,
    /// Says where the paths of tool calls lead.
    pub(crate) files: SharedFiles,
    /// How long a permission request waits when nobody says otherwise.
    pub(crate) permissions_expire_ms: u64,
    /// Counts the changes of webhooks, for whoever calls them.
    pub(crate) webhook_changes: watch::Sender<u64>,
    /// The newest known state of each workspace, so that a send need not read its policy.
    workspaces: RwLock<HashMap<u32, Arc<WorkspaceRow>>>,
}

impl Engine {
    /// An engine over a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, environment: Environment) -> Self {
        let callers = Arc::<Callers>::default();
        Self {
            runner: Arc::new(Runner::new(
                store.clone(),
                environment.clone(),
                callers.clone(),
            )),
            callers,
            validators: Validators::default(),
            files: Arc::new(NoFiles),
            permissions_expire_ms: PERMISSION_EXPIRES_MS,
            webhook_changes: watch::Sender::new(0),
            store,
            environment,
            redactor: Redactor::new(),
            workspaces: RwLock::default(),
        }
    }

    /// Lets rules about paths look at files. Without it they allow nothing, because nobody can say where a path leads.
    #[must_use]
    pub fn with_files(mut self, files: Arc<dyn Files + Send + Sync>) -> Self {
        self.files = files;
        self
    }

    /// Lets permission requests wait for another time than a day, when nobody says how long.
    #[must_use]
    pub const fn with_permissions_expiring(mut self, after: Duration) -> Self {
        self.permissions_expire_ms = after.as_millis() as u64;
        self
    }

    /// Begins to deliver: learns what a former process has left. Called once, before [`Engine::step`].
    pub async fn start(&self) -> Result<()> {
        self.runner.begin().await
    }

    /// Delivers everything that is due now; says how long nothing will be, unless something happens.
    pub fn step(&self) -> Option<Duration> {
        let text = self.store_due_text();
        let wait = self.runner.step();
        [text, wait].into_iter().flatten().min()
    }

    /// Starts, and delivers until the future is dropped. `sleep` waits for as long as it is told.
    pub async fn run<S: Future<Output = ()>>(&self, sleep: impl Fn(Duration) -> S) -> Result<()> {
        self.start().await?;
        match self.keep_delivering(sleep).await {}
    }

    /// Delivers until the future is dropped, for whoever has called [`Engine::start`].
    pub async fn keep_delivering<S: Future<Output = ()>>(
        &self,
        sleep: impl Fn(Duration) -> S,
    ) -> Infallible {
        loop {
            match self.step() {
                None => self.runner.stirred().await,
                Some(wait) => {
                    let stirred = pin!(self.runner.stirred());
                    let slept = pin!(sleep(wait));
                    either(stirred, slept).await;
                }
            }
        }
    }

    /// Whom a credential stands for.
    pub async fn authenticate(&self, token: &str) -> Result<Caller> {
        self.authenticate_hash(hash_token(token)).await
    }

    /// Whom a credential stands for, by the SHA-256 of its token: for those who ask again later, and have
    /// not kept the token meanwhile.
    pub async fn authenticate_hash(&self, hash: Hash) -> Result<Caller> {
        let (caller, _) = self.look_up(hash).await?;
        Ok(caller)
    }

    /// Watches a credential from now on, by the SHA-256 of its token.
    #[must_use]
    pub fn watch_credential(&self, hash: Hash) -> CredentialWatch {
        self.callers.watch(hash)
    }

    /// Waits until a credential has ended: until it is revoked, or the time is over for which a replaced one goes on. `sleep`
    /// waits for as long as it is told.
    pub async fn credential_ended<S: Future<Output = ()>>(
        &self,
        watch: &CredentialWatch,
        sleep: impl Fn(Duration) -> S,
    ) {
        // What changed before the watch began is in the store. One that can't be read cuts nobody off.
        // On the heap, like the sleep below: every connection keeps this future, and most need neither for long.
        match Box::pin(self.look_up(watch.hash())).await {
            Ok((_, Some(until))) => watch.limit(until),
            Err(Error::Unauthorized) => return,
            Ok((_, None)) | Err(_) => {}
        }
        let mut changes = watch.changes();
        loop {
            let validity = *changes.borrow_and_update();
            let left = match validity {
                Validity::Open => None,
                Validity::Until(until) => {
                    let left = until.as_millis() - self.now().as_millis();
                    match u64::try_from(left) {
                        Ok(left @ 1..) => Some(Duration::from_millis(left)),
                        _ => return,
                    }
                }
                Validity::Over => return,
            };
            let changed = pin!(async {
                // The watch keeps what sends the changes.
                let _ = changes.changed().await;
            });
            match left {
                None => changed.await,
                Some(left) => either(changed, Box::pin(sleep(left)).as_mut()).await,
            }
        }
    }

    /// Whom a credential stands for, and until when.
    async fn look_up(&self, hash: Hash) -> Result<(Caller, Option<Timestamp>)> {
        let mono = self.environment.clock.monotonic();
        let since = match self.callers.find(&hash, self.now(), mono) {
            Ok(found) => return Ok(found),
            Err(since) => since,
        };
        let credential = self.store.credential(hash).await?;
        let credential = credential.ok_or(Error::Unauthorized)?;
        let valid_until = credential.valid_until;
        let caller = Caller::from_credential(credential, self.now())?;
        self.callers.note(since, hash, &caller, valid_until, mono);
        Ok((caller, valid_until))
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.clock.now()
    }

    /// Random bits for an id.
    pub(crate) fn bits(&self) -> u128 {
        self.environment.random.bits()
    }

    /// A caller's workspace in its newest state.
    pub(crate) fn current(&self, caller: &Caller) -> Result<Arc<WorkspaceRow>> {
        Ok(self.newest(caller.workspace()?))
    }

    /// The newest state of a workspace.
    pub(crate) fn newest(&self, known: &Arc<WorkspaceRow>) -> Arc<WorkspaceRow> {
        let newest = self
            .workspaces
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        newest.get(&known.no).unwrap_or(known).clone()
    }

    /// Remembers a workspace's newest state.
    pub(crate) fn note(&self, workspace: &Arc<WorkspaceRow>) {
        let mut newest = self
            .workspaces
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let known = newest
            .entry(workspace.no)
            .or_insert_with(|| workspace.clone());
        // Answers may come in another order than the changes were made.
        if known.policy.version <= workspace.policy.version {
            *known = workspace.clone();
        }
    }
}

impl Drop for Engine {
    /// Hands the store the text that sessions have reported and that is held.
    fn drop(&mut self) {
        self.stop_holding_text();
    }
}

/// Waits for the first of two.
async fn either(a: Pin<&mut impl Future<Output = ()>>, b: Pin<&mut impl Future<Output = ()>>) {
    let (mut a, mut b) = (a, b);
    std::future::poll_fn(|context| {
        if a.as_mut().poll(context).is_ready() || b.as_mut().poll(context).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, Default)]
pub struct PageQuery {
    /// The `nextCursor` of an earlier page.
    pub cursor: Option<String>,
    /// Most items; absent: 50.
    pub limit: Option<u32>,
}

impl PageQuery {
    /// The request to the store, if the limit is one that can be had.
    pub(crate) fn request(self) -> Result<PageRequest> {
        let limit = self
            .limit
            .map_or(PAGE_ITEMS_DEFAULT, |limit| limit as usize);
        if limit == 0 || limit > PAGE_ITEMS {
            return Err(Error::Invalid {
                path: "limit",
                expected: format!("1 to {PAGE_ITEMS}"),
                found: limit.to_string(),
            });
        }
        Ok(PageRequest {
            cursor: self.cursor,
            limit,
        })
    }
}

/// Checks a size.
pub(crate) fn within(what: &'static str, most: usize, found: usize) -> Result<()> {
    if found <= most {
        Ok(())
    } else {
        Err(Error::LimitExceeded { what, most, found })
    }
}
