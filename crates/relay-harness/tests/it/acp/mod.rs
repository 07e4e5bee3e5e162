//! The ACP host against the agent that plays scripts.

mod hostile;
mod leaks;
mod permissions;
mod services;
mod sessions;
mod support;
mod turns;
