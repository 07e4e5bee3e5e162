//! Which tool calls may run without a question, which must be asked about, and which may not run.
//!
//! A pure library: a call, the policies that apply to it and the grants that were given go in, a [`Verdict`] comes
//! out. It knows no clock, network or environment, and the file system only through [`Files`].
//!
//! The order is deny, explicit ask, grants, allow (the allowlist, then what may run once), and ask where nothing
//! matched. What is not understood means ask. A rule that allows is read narrowly, one that refuses or asks widely;
//! docs/permissions-rules.md says what a pattern covers.

mod call;
mod command;
mod decide;
mod fault;
mod files;
mod glob;
mod kinds;
mod known;
mod patch;
mod path;
mod pattern;
mod policy;
mod rule;
pub mod shell;
mod suggest;
mod url;
mod verdict;

pub use call::Call;
pub use decide::decide;
pub use fault::RuleFault;
pub use files::{Files, NoFiles, RealFiles};
pub use known::KnownFiles;
pub use policy::Policy;
pub use rule::Rule;
pub use suggest::suggestions;
pub use verdict::{Source, Used, Verdict};
