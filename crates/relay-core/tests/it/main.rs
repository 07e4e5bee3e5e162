//! The integration tests of the engine: one binary, one module per subject.

mod search;
mod vfs;
mod vfs_selftest;
