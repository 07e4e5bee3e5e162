//! A command that an agent wants to run through this side: what it is for those who decide, and how it is run.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::inbound::text;
use super::state::SessionState;
use super::terminal::{MAX_OUTPUT_BYTES, OUTPUT_BYTES};
use crate::acp::rpc::{INVALID_PARAMS, RpcError};

/// A command that the agent wants to run.
pub(super) struct Wanted {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(String, String)>,
    pub(super) limit: usize,
}

impl Wanted {
    pub(super) fn read(session: &SessionState, params: &Value) -> Result<Self, RpcError> {
        let cwd = match params["cwd"].as_str() {
            Some(cwd) => inside(session, Path::new(cwd))?,
            None => session.cwd.clone(),
        };
        let limit = params["outputByteLimit"].as_u64();
        let limit = limit.map_or(OUTPUT_BYTES, |limit| {
            usize::try_from(limit)
                .unwrap_or(usize::MAX)
                .min(MAX_OUTPUT_BYTES)
        });
        let args = params["args"].as_array().into_iter().flatten();
        let env = params["env"].as_array().into_iter().flatten();
        Ok(Self {
            command: text(params, "command")?,
            args: args
                .filter_map(|arg| arg.as_str().map(str::to_owned))
                .collect(),
            env: env
                .filter_map(|entry| {
                    let name = entry["name"].as_str()?;
                    Some((name.to_owned(), entry["value"].as_str()?.to_owned()))
                })
                .collect(),
            cwd,
            limit,
        })
    }

    /// Some agents send a whole line as the command.
    fn is_line(&self) -> bool {
        self.args.is_empty() && self.command.contains(char::is_whitespace)
    }

    /// The whole command as a shell reads it, for people and rules: with its variables, and words that stay words.
    pub(super) fn line(&self) -> String {
        let variables = self.env.iter();
        let variables = variables.map(|(name, value)| format!("{name}={}", quoted(value)));
        let command = match self.is_line() {
            true => self.command.clone(),
            false => quoted(&self.command),
        };
        let words = self.args.iter().map(|arg| quoted(arg));
        let parts = variables.chain([command]).chain(words);
        parts.collect::<Vec<_>>().join(" ")
    }

    /// A shell joins the two streams.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["-c".to_owned()];
        if self.is_line() {
            arguments.push(format!("exec 2>&1\n{}", self.command));
        } else {
            arguments.push("exec \"$0\" \"$@\" 2>&1".to_owned());
            arguments.push(self.command.clone());
            arguments.extend(self.args.iter().cloned());
        }
        arguments
    }
}

/// A word as shell text.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A directory of the session, resolved.
fn inside(session: &SessionState, path: &Path) -> Result<PathBuf, RpcError> {
    let refused = |why: &str| RpcError::new(INVALID_PARAMS, format!("{}: {why}", path.display()));
    let real = path
        .canonicalize()
        .map_err(|_| refused("no such directory"))?;
    let mut folders = std::iter::once(&session.cwd).chain(&session.directories);
    let known = folders.any(|folder| {
        let folder = folder.canonicalize();
        folder.is_ok_and(|folder| real.starts_with(folder))
    });
    match known {
        true => Ok(real),
        false => Err(refused("it is outside of the directories of the session")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_is_asked_about_is_what_runs() {
        let line = |command: &str, args: &[&str], env: &[(&str, &str)]| {
            let env = env.iter();
            let wanted = Wanted {
                command: command.to_owned(),
                args: args.iter().map(|&arg| arg.to_owned()).collect(),
                cwd: PathBuf::new(),
                env: env.map(|&(a, b)| (a.to_owned(), b.to_owned())).collect(),
                limit: 0,
            };
            wanted.line()
        };
        assert_eq!(line("git status && make", &[], &[]), "git status && make");
        assert_eq!(line("git", &["log", "-1"], &[]), "git log -1");
        // Words that would hide an option, end the command, or change what it does.
        let hidden = line("git", &["fetch", "'", "-x", "'"], &[]);
        assert_eq!(hidden, r"git fetch ''\''' -x ''\'''");
        assert_eq!(line("git", &["status; rm x"], &[]), "git 'status; rm x'");
        let pager = line("git", &["log"], &[("PAGER", "sh -c x")]);
        assert_eq!(pager, "PAGER='sh -c x' git log");
    }
}
