//! The commands, one module each, or one for a group that is about one thing.
//!
//! To add a command: a module here with its arguments (their help is what users read) and a function that runs
//! it, a variant in `main.rs`, a test on its real output in `tests/it/`, a line in `docs/cli.md`.

pub(crate) mod acp;
pub(crate) mod action;
pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod channel;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod delivery;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod grant;
pub(crate) mod inbox;
pub(crate) mod listen;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod permission;
pub(crate) mod policy;
pub(crate) mod react;
pub(crate) mod readers;
pub(crate) mod reply;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod token;
pub(crate) mod up;
pub(crate) mod webhook;
