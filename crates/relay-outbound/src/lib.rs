//! Calls to the outside: every HTTP request that Relay makes to a URL somebody else chose.
//!
//! [`Outbound`] is the address guard. It reads the URL strictly ([`Target`]), resolves the name once, checks
//! every address that came back ([`is_public`], [`AllowList`]), connects to one of those very addresses, follows no
//! redirect, and bounds how much it reads and how long it waits. Nothing is looked up a second time, so a
//! name that changes its address in between changes nothing. There is no other way out of this crate: no
//! proxy, no environment, no connection that is kept for another caller: a [`Line`] keeps some for its own.
//!
//! The guard knows nothing of webhooks, sessions or events; whoever calls decides what to send and how often.

mod address;
mod allow;
mod call;
mod error;
mod line;
mod resolve;
mod stream;
mod target;
mod tls;

pub use address::{forbidden_range, is_public};
pub use allow::{AllowList, InvalidEntry};
pub use call::{Answer, Limits, Outbound, Request};
pub use error::Error;
pub use line::Line;
pub use resolve::{Resolve, Resolving, SystemResolver};
pub use stream::Streaming;
pub use target::{Host, InvalidUrl, Target};
