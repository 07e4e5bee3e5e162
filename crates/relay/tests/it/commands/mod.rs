//! Every command on its real output, against a real server.

mod acp;
mod actions;
mod administration;
mod agents;
mod asking;
mod audit;
mod backups;
mod bench;
mod channels;
mod chatting;
mod deliveries;
mod demo;
mod disk;
mod doctor;
mod erasing;
mod errors;
mod hints;
mod listening;
mod mcp;
mod messages;
pub(crate) mod permissions;
mod running;
mod sending;
mod sessions;
mod shell;
mod starting;
mod webhook;
