//! Local agents: the processes they run in, and how they are spoken to.
//!
//! [`child`] starts programs with a cleared environment and leaves none of their processes behind. This crate reads
//! no environment by itself and prints nothing: what a child may have comes in as a parameter.

pub mod acp;
#[cfg(unix)]
mod beneath;
#[cfg(not(unix))]
mod beneath_elsewhere;
pub mod child;
mod guidance;
pub mod llm;
mod surfacing;

#[cfg(not(unix))]
use beneath_elsewhere as beneath;
