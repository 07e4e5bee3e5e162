//! The integration tests of the engine: one binary, one module per subject.

mod vfs;
mod vfs_selftest;
