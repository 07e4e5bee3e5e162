//! What a message carries: its text, from the command or from standard input, and files.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use relay_protocol::ids::AttachmentId;
use relay_sdk::Relay;

use crate::failure::{Failure, Outcome};

/// The words of the command, or what standard input has to say.
pub(super) fn text(words: &[String]) -> Outcome<String> {
    let is_piped = || !std::io::stdin().is_terminal();
    match words {
        [] if !is_piped() => Err(Failure::usage("expected a text, found none")
            .next("write it after the recipient, or pipe it in: echo hello | relay send bob")),
        [] => from_stdin(),
        [dash] if dash == "-" => from_stdin(),
        words => Ok(words.join(" ")),
    }
}

fn from_stdin() -> Outcome<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input can't be read as text")?;
    // The line end belongs to the pipe, not to the message.
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// Uploads files for a message to refer to.
pub(super) async fn upload(files: &[PathBuf], relay: &Relay) -> Outcome<Vec<AttachmentId>> {
    let mut uploaded = Vec::new();
    for file in files {
        let data =
            std::fs::read(file).with_context(|| format!("{} can't be read", file.display()))?;
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| "attachment".to_owned());
        let stored = relay.upload(media_type(file, &data), &name, data).await?;
        uploaded.push(stored.attachment_id);
    }
    Ok(uploaded)
}

/// What kind of content a file has: by its name, else by whether it is text.
fn media_type(file: &Path, data: &[u8]) -> &'static str {
    let extension = file
        .extension()
        .map(|text| text.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("json") => "application/json",
        Some("md" | "markdown") => "text/markdown",
        Some("html" | "htm") => "text/html",
        Some("csv") => "text/csv",
        // What is neither is refused by the server, which says what it takes.
        _ if std::str::from_utf8(data).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}
