//! The ACP host against the agent that plays scripts.

mod brokered;
mod direct;
mod hostile;
mod leaks;
mod permissions;
mod relay;
mod services;
mod sessions;
mod support;
mod turns;
mod world;
