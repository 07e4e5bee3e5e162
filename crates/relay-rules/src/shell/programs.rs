//! What is known of programs: which of them run others, and by which options.
//!
//! The rows are in `programs/table.rs`; this is how they are found and what they mean.

mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use table::TABLE;

/// What a program does with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Its own work, unless an option of the row says otherwise.
    Plain,
    /// Runs the command that follows: after options, of which `values` take the next word, and so many operands.
    Wrapper {
        values: &'static str,
        operands: usize,
    },
    /// Runs its operands, joined, as shell text.
    ShellText {
        values: &'static str,
        operands: usize,
    },
    /// A shell.
    Shell,
    /// Runs a file of code, or code in its arguments or from its input.
    Interpreter,
    /// Changes what later words mean, or runs what nobody sees here.
    Opaque,
}

/// One row.
pub(crate) struct Program {
    names: &'static str,
    pub(crate) nature: Nature,
    /// Letters of short options that run, load or write something.
    pub(crate) short: &'static str,
    /// Long options that do, and how other words that do look: `=x`, `-x`, `x*` or `*x*`.
    pub(crate) long: &'static str,
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static Program>> = LazyLock::new(|| {
    let rows = TABLE.iter();
    rows.flat_map(|row| row.names.split('|').map(move |name| (name, row)))
        .collect()
});

/// The last part of a program's path.
pub(crate) fn base_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// The row of a program; `python3.12` is `python`.
pub(crate) fn program(name: &str) -> Option<&'static Program> {
    let name = base_name(name);
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let found = BY_NAME.get(name).or_else(|| BY_NAME.get(unversioned));
    found.copied()
}

/// The row of a program's subcommand.
pub(crate) fn subcommand(name: &str, subcommand: &str) -> Option<&'static Program> {
    BY_NAME
        .get(&*format!("{} {subcommand}", base_name(name)))
        .copied()
}

/// Programs whose first operand says what they do, so that a rule for all of them would say little.
pub(crate) fn has_subcommands(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "git",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "cargo",
        "rustup",
        "docker",
        "podman",
        "kubectl",
        "helm",
        "go",
        "pip",
        "pip3",
        "uv",
        "poetry",
        "apt",
        "apt-get",
        "brew",
        "dnf",
        "yum",
        "pacman",
        "snap",
        "systemctl",
        "journalctl",
        "gh",
        "glab",
        "make",
        "just",
        "terraform",
        "tofu",
        "aws",
        "gcloud",
        "az",
        "dotnet",
        "mvn",
        "gradle",
        "bundle",
        "gem",
        "rails",
        "composer",
        "flutter",
        "dart",
        "mix",
        "rebar3",
        "stack",
        "cabal",
        "nix",
        "hg",
        "svn",
        "jj",
        "fly",
        "vercel",
        "netlify",
        "wrangler",
        "supabase",
        "heroku",
        "conda",
        "mamba",
        "ip",
        "tmux",
        "launchctl",
        "openssl",
        "zig",
        "deno",
    ];
    NAMES.contains(&name)
}

impl Program {
    /// Whether an argument of it runs, loads or writes something.
    pub(crate) fn minds(&self, argument: &str) -> bool {
        if let Some(option) = argument.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or(option);
            // Most programs take the beginning of a long option for all of it.
            if !name.is_empty() && self.long.split(' ').any(|long| long.starts_with(name)) {
                return true;
            }
        } else if let Some(letters) = argument.strip_prefix('-')
            && letters.chars().any(|letter| self.short.contains(letter))
        {
            return true;
        }
        let mut forms = self.long.split(' ');
        forms.any(|form| looks_like(form, argument))
    }
}

/// Whether a word has one of the forms; a bare name is that of a long option, which has been looked at.
fn looks_like(form: &str, word: &str) -> bool {
    match (form.strip_prefix('*'), form.strip_suffix('*')) {
        (Some(rest), Some(_)) => word.contains(rest.trim_end_matches('*')),
        (Some(end), None) => word.ends_with(end),
        (None, Some(start)) => word.starts_with(start),
        (None, None) => match form.strip_prefix('=') {
            Some(exact) => word == exact,
            None => form.starts_with('-') && word == form,
        },
    }
}
