//! The ACP host against the agent that plays scripts.

mod brokered;
mod contents;
mod direct;
mod hostile;
mod leaks;
pub(crate) mod permissions;
mod relay;
mod services;
mod sessions;
pub(crate) mod support;
mod turns;
pub(crate) mod world;
