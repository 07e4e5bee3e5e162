//! Log lines, on standard error.

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result};
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};

/// Begins to log. Called once.
pub(crate) fn begin(settings: &LogSettings) -> Result<()> {
    let filter = EnvFilter::try_new(&settings.filter)
        .with_context(|| format!("log.filter = {:?} can't be used", settings.filter))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        // It would say so where it could not write, and panic: a log on a full disk would end the server.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match settings.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}
