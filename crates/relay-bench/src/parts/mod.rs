//! What is measured, one file for each part.

mod actions;
mod broadcast;
mod crowd;
mod fanout;
mod grown;
mod growth;
mod idle;
mod latency;
mod mcp;
mod permissions;
mod pipelined;
mod recovery;
mod search;
mod send;
mod settled;
mod silent;
mod webhooks;

use anyhow::Result;

use crate::bench::Bench;
use crate::options::Part;
use crate::report::Section;

/// Measures one part.
pub(crate) async fn run(bench: &Bench<'_>, part: Part) -> Result<Section> {
    match part {
        Part::Send => send::run(bench).await,
        Part::Search => search::run(bench).await,
        Part::Pipelined => pipelined::run(bench).await,
        Part::Settled => settled::run(bench).await,
        Part::Silent => silent::run(bench).await,
        Part::Latency => latency::run(bench).await,
        Part::Fanout => fanout::run(bench).await,
        Part::Broadcast => broadcast::run(bench).await,
        Part::Idle => idle::run(bench).await,
        Part::Actions => actions::run(bench).await,
        Part::Webhooks => webhooks::run(bench).await,
        Part::Permissions => permissions::run(bench).await,
        Part::Recovery => recovery::run(bench).await,
        Part::Mcp => mcp::run(bench).await,
        Part::Growth => growth::run(bench).await,
    }
}
