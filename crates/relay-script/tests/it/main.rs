//! Tests of the scripted model: by itself, through the providers' streams, and as the model of real coding agents.

mod files;
mod handshake;
mod scripts;
mod streams;
mod support;
mod turns;
