//! `relay mcp install`: tells an MCP client to start the server, in the file that it reads.
//!
//! No token is written: the entry says which agent it is, and the program finds the agent's kept token when it is started.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::clients::{Client, Scope};
use super::edit::{self, Unchangeable};
use crate::contact::{Actor, Contact, GlobalArguments, in_runtime};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;

pub(super) const EXAMPLES: &str = "\
Examples:
  relay mcp install claude-code --as bob             for you, everywhere
  relay mcp install vscode --as bob --project        for this directory
  relay mcp install codex --as bob --print           look at it first
  relay mcp install codex --uninstall

What else is in the file stays as it is. No token is written: the entry says which agent it is, and its token is the one that \
`relay agent register` has kept.";

#[derive(Args)]
pub(crate) struct InstallArguments {
    /// The client
    client: Client,
    /// Write into the configuration of the current directory, not into your own
    #[arg(long)]
    project: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    print: bool,
    /// Take it out again
    #[arg(long, conflicts_with = "print")]
    uninstall: bool,
}

pub(super) fn run(
    arguments: &InstallArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let scope = match arguments.project {
        true => Scope::Project,
        false => Scope::User,
    };
    let client = arguments.client;
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let file = client.file(scope, variable).ok_or_else(|| {
        Failure::usage("expected a home directory in the environment, found none")
            .next("with --project it goes into the current directory")
    })?;
    let program = program(scope)?;
    let told = match (arguments.uninstall, &globals.as_agent) {
        (true, _) => Vec::new(),
        (false, Some(agent)) => {
            // The client would start it in vain.
            in_runtime(async { Contact::find(globals, Actor::Chosen).await.map(drop) })?;
            told(agent, globals.data.as_deref(), scope)?
        }
        (false, None) => {
            return Err(Failure::usage("expected an agent to act as, found none")
                .next("say with --as NAME which agent the client is"));
        }
    };
    let entry = client.entry(&program, &told);
    if arguments.print {
        let text = edit::with("", &entry).map_err(|why| refused(&file, &why))?;
        output.hint(&format!("for {}:", file.display()));
        return output.write(&text);
    }
    let before = read(&file)?;
    let after = match arguments.uninstall {
        true => edit::without(&before, &entry),
        false => edit::with(&before, &entry),
    };
    let after = after.map_err(|why| refused(&file, &why))?;
    let changed = after != before;
    if changed {
        write(&file, &after)?;
    }
    let shown = json!({ "file": file, "changed": changed });
    let place = file.display();
    output.show(&shown, |_| match (arguments.uninstall, changed) {
        (false, true) => format!("written to {place}; restart the client"),
        (true, true) => format!("taken out of {place}"),
        (false, false) => format!("{place} has it already"),
        (true, false) => format!("{place} does not have it"),
    })
}

/// What the client starts. In a file that others read it is found by its name; the client of one user may be started
/// where nobody looks for programs.
fn program(scope: Scope) -> Outcome<String> {
    if scope == Scope::Project {
        return Ok("relay".to_owned());
    }
    let program = std::env::current_exe().context("this program can't be found")?;
    Ok(program.display().to_string())
}

fn told(agent: &str, data: Option<&Path>, scope: Scope) -> Outcome<Vec<String>> {
    let agent = agent.trim_start_matches('@');
    let mut told = ["mcp", "--as", agent].map(str::to_owned).to_vec();
    // Where others keep their data is not for this user to say.
    if let (Some(data), Scope::User) = (data, scope) {
        let data = std::path::absolute(data).context("the data directory can't be found")?;
        told.extend(["--data".to_owned(), data.display().to_string()]);
    }
    Ok(told)
}

fn read(file: &Path) -> Outcome<String> {
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => Ok(read.with_context(|| format!("{} can't be read", file.display()))?),
    }
}

/// Writes all or nothing, with the rights that the file had, also where it is a link.
fn write(file: &Path, text: &str) -> Outcome {
    let write = || -> std::io::Result<()> {
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let rights = match std::fs::metadata(&file) {
            Ok(there) => there.permissions(),
            Err(_) => std::fs::File::create(&file)?.metadata()?.permissions(),
        };
        let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
        fresh.write_all(text.as_bytes())?;
        fresh.as_file().set_permissions(rights)?;
        fresh.as_file().sync_all()?;
        fresh.persist(&file)?;
        Ok(())
    };
    let written = write().with_context(|| format!("{} can't be written", file.display()));
    Ok(written?)
}

fn refused(file: &Path, Unchangeable(why): &Unchangeable) -> Failure {
    let message = format!("{} is left as it is: {why}", file.display());
    Failure::new(Exit::Conflict, "unchangeable", message)
        .next("--print shows what to put there by hand")
}
