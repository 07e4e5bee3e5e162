//! Child processes: what they are given, how they end, and that nothing of them stays.
//!
//! A child gets an environment that was put together by name ([`ChildEnvironment`]), leads a process group of its own, and is
//! stopped with grace: standard input closed, then asked (SIGTERM), then killed. On Linux that reaches processes that
//! left the group, too (`family.rs` says how). Dropping a [`Child`] kills it, and after a program that was killed itself another process
//! ends them (`orphans.rs`).

mod command;
mod environment;
#[cfg(target_os = "linux")]
mod family;
#[cfg(not(target_os = "linux"))]
mod family_elsewhere;
mod orphans;
mod process;
mod restart;
mod tail;

pub use command::{ChildCommand, SpawnError};
pub use environment::{ChildEnvironment, TOKEN_VARIABLE, Withheld};
#[cfg(not(target_os = "linux"))]
use family_elsewhere as family;
pub use orphans::{reap_orphans, set_orphan_reaper};
pub use process::{Child, Exit, StopGrace};
pub use restart::{RestartPolicy, Restarts};
pub use tail::StderrTail;

/// The variable by which the processes of a child are known; its value is different for each child.
pub const MARK_VARIABLE: &str = "RELAY_CHILD";
