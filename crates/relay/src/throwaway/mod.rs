//! What tours of Relay need and nobody keeps: agents that are played, and a server in a temporary directory.
//!
//! The agents are real ones, with sessions over the socket like anybody's; the server is the one that `relay serve`
//! runs. Both are gone when the tour is over, also when somebody stops it half-way.

mod player;
mod server;
mod stage;
mod watch;

pub(crate) use player::{Answer, Part, Player, Surfaced};
pub(crate) use stage::Stage;
pub(crate) use watch::{DeliveryWatch, Noted, Step};

use crate::failure::{Exit, Failure, Outcome};

/// Threads for the server and those who talk to it.
const THREADS: usize = 2;

/// Goes on a tour, to its end.
pub(crate) fn tour(tour: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, "failed", error.to_string()))?;
    runtime.block_on(tour)
}
