//! The connections to the relay that chats share.
//!
//! A chat is a session of the relay. A connection of its own for each would be most of what a chat costs: two pairs of buffers, a
//! handshake, and the question who one is, before the model is asked.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;

/// How a token becomes a client.
type Connect<C> = Box<dyn Fn(String) -> BoxFuture<'static, relay_sdk::Result<C>> + Send + Sync>;

/// Most chats that share a connection. The server takes four times as many sessions on one; more connections let more cores work.
const CHATS_PER_CONNECTION: usize = 256;

/// Connections, by the token that they are for.
pub(crate) struct Clients<C> {
    connect: Connect<C>,
    shared: Mutex<Vec<Shared<C>>>,
    /// Held by whoever connects, so that those who come at the same moment share what it makes.
    connecting: tokio::sync::Mutex<()>,
}

struct Shared<C> {
    token: String,
    client: Arc<C>,
}

/// A place on a connection, for as long as it is kept.
pub(crate) struct Lease<C>(Arc<C>);

impl<C> Deref for Lease<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C> Clients<C> {
    pub(crate) fn new(connect: Connect<C>) -> Self {
        Self {
            connect,
            shared: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// A place on a connection: one that has room, or a new one.
    pub(crate) async fn lease(&self, token: &str) -> relay_sdk::Result<Lease<C>> {
        if let Some(lease) = self.free(token) {
            return Ok(lease);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(lease) = self.free(token) {
            return Ok(lease);
        }
        let client = Arc::new((self.connect)(token.to_owned()).await?);
        let mut shared = self.shared();
        // Also those of tokens that were replaced.
        shared.retain(Shared::is_used);
        shared.push(Shared {
            token: token.to_owned(),
            client: client.clone(),
        });
        Ok(Lease(client))
    }

    fn free(&self, token: &str) -> Option<Lease<C>> {
        let shared = self.shared();
        let mut own = shared.iter().filter(|one| one.token == token);
        let free = own.find(|one| one.leases() < CHATS_PER_CONNECTION)?;
        Some(Lease(free.client.clone()))
    }

    fn shared(&self) -> MutexGuard<'_, Vec<Shared<C>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Shared<C> {
    /// How many have a place on it. All places are given while the list is locked, so no more are.
    fn leases(&self) -> usize {
        Arc::strong_count(&self.client) - 1
    }

    fn is_used(&self) -> bool {
        self.leases() > 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    use super::*;

    /// Connections to nobody, and how many were made.
    fn clients() -> (Clients<()>, Arc<AtomicUsize>) {
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let connect: Connect<()> = Box::new(move |_| {
            let count = count.clone();
            async move {
                tokio::task::yield_now().await;
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            .boxed()
        });
        (Clients::new(connect), made)
    }

    #[tokio::test]
    async fn chats_share_connections_and_a_full_one_is_not_shared() {
        let (clients, made) = clients();
        let lease = || async { clients.lease("one").await.unwrap() };
        let mut leases = join_all((0..CHATS_PER_CONNECTION).map(|_| lease())).await;
        assert_eq!(made.load(Ordering::Relaxed), 1);
        leases.push(lease().await);
        assert_eq!(made.load(Ordering::Relaxed), 2);
        // A place that is given back is given again.
        leases.remove(0);
        leases.push(lease().await);
        assert_eq!(made.load(Ordering::Relaxed), 2);
        // Another token shares nothing, and what nobody uses any more is given up then.
        leases.clear();
        let other = clients.lease("two").await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 3);
        assert_eq!(clients.shared().len(), 1);
        drop(other);
    }
}
