//! Measures a Relay server over the wire, beside baselines at equal durability in the same run.
//!
//! [`run`] starts the server as a process of its own, loads it from this one, and returns a [`Report`]:
//! ratios to their goals, percentiles, processor time for each operation, and how busy others kept the
//! machine meanwhile. Everything that is compared is measured in turns within each round.
//!
//! It knows the server by its protocol only, as any client does. It reads no arguments, no environment, and
//! prints nothing. To add something to measure: a name in [`Part`], a file in `parts/`, a line in
//! `parts/mod.rs`.

mod bench;
mod figures;
#[cfg(test)]
mod figures_test;
mod goals;
mod load;
mod machine;
mod options;
mod parts;
mod plain;
mod platform;
mod redis;
mod report;
mod rows;
mod server;
mod session;
mod sink;
mod text;
mod wire;
mod world;

pub use bench::{Progress, Stopped, run};
pub use goals::{Goal, QUIET_CORES, Verdict};
pub use options::{Options, Part, Sizes, UnknownPart};
pub use report::{Check, Column, Figure, Machine, Report, Row, Section};
pub use server::ServerCommand;
