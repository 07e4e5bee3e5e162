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
