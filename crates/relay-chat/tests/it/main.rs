//! Chats from the outside: what viewers see, what deciders may, what becomes of a chat that nobody looks at.
//!
//! `chats.rs` has chats whose events the test makes (`puppet.rs`); all others are chats with a scripted model over a real relay (`hall.rs`),
//! with tools that write down what they are called with, or the real ones (`tools.rs`). The cases of the contract are here:
//!
//! | Cases | Where |
//! |---|---|
//! | A1 to A9, A11 to A13 (bodies) | `requests.rs`; every shape in `src/request.rs` and `src/answer.rs` |
//! | A10 (models) | `chats.rs` |
//! | A14 (413), who is let in | `relay-server/tests/it/chat.rs` |
//! | B1 to B6 (events and fields) | `stream.rs`; the framing in `src/log.rs` |
//! | B7 to B9 (numbers, heartbeat, resync) | `chats.rs` |
//! | C1 to C20 (rules) | `matching.rs`; the matcher itself in `relay-rules` |
//! | D1 to D10, D18 to D20, D22 (answers) | `resolving.rs` |
//! | D11 to D17 (`always`) | `grants.rs` |
//! | E1 to E12 (turns and nested agents) | `nested.rs`; the loop itself in `relay-harness/tests/it/llm/` |
//! | F1, F2, F5 to F7, F11, F15, F16 | `lasting.rs` |
//! | F4 (`kill -9` between approval and start) | `relay/tests/it/permission_deaths.rs` |
//! | F6, a thousand times | `relay-sdk/tests/it/permission_faults.rs` |
//! | F9, F10 (grants) | `grants.rs` |
//! | F12 (nothing can be written) | `resolving.rs`; the store itself in `relay-core/tests/it/faults.rs` |
//! | F13 (own question) | `resolving.rs` |
//! | F14 (quorum) | nowhere: there are none |
//!
//! Messages that come into chats are in `messages.rs`. What is bounded, and that nothing is left behind, is in `bounds.rs`; chats with coding agents are in `agents.rs` and `agents_on_relay.rs`, where
//! `player.rs` plays the agent.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod agents;
mod agents_on_relay;
mod bounds;
mod chats;
mod grants;
mod hall;
mod lasting;
mod matching;
mod messages;
mod nested;
mod player;
mod puppet;
mod requests;
mod resolving;
mod stream;
mod tools;
