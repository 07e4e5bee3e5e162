//! `relay bench`: what this machine makes of Relay, beside what it makes of others.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use relay_bench::{Options, Part, Progress, ServerCommand, Sizes, Stopped, run as measure};

use crate::failure::{Failure, Outcome};
use crate::moment::parse_duration;
use crate::output::{Output, ProgressLine};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay bench --quick                  a first impression, in about two minutes
  relay bench                          everything, in about half an hour; leave the machine alone meanwhile
  relay bench settled idle --wait 10s  two parts; each round waits up to 10 s for a quiet machine
  relay bench --json > report.json

The server is a process of its own over a temporary directory; your data is not touched. What it is compared with runs in
the same rounds. Comparisons with Redis are left out where there is no redis-server; scripts/install-redis installs it.";

/// What `relay bench` can be told.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// The parts to measure: send, search, pipelined, settled, silent, latency, fanout, broadcast, idle, actions, webhooks,
    /// permissions, mcp, recovery, growth
    /// [default: all]
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
    /// Less of everything
    #[arg(long)]
    quick: bool,
    /// How many rounds, in which everything that is compared takes its turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: Option<u16>,
    /// How long each round may wait for others to leave the machine alone
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    wait: Duration,
    /// Where to keep data meanwhile: on the disk that counts [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The program that Redis is
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    redis: PathBuf,
}

pub(crate) fn run(arguments: &BenchArguments, output: &Output) -> Outcome {
    let options = arguments.options()?;
    let parts = options.parts.len();
    let mut line = ProgressLine::new();
    let mut done = 0;
    let mut told = Ok(());
    let report = measure(&options, &mut |progress| match progress {
        Progress::Machine(machine) if !output.is_json() => {
            told = output.line(&machine.to_string());
        }
        Progress::Begins(part) => show(&mut line, done, parts, part, None),
        Progress::Round(part, round) => show(&mut line, done, parts, part, Some(round)),
        Progress::Ended(section) => {
            done += 1;
            line.clear();
            if !output.is_json() && told.is_ok() {
                told = output.write(&format!("\n{section}"));
            }
        }
        Progress::Machine(_) => {}
    });
    line.clear();
    let report = report.map_err(|error| match error.is::<Stopped>() {
        true => Failure::interrupted(error.to_string()),
        false => error.into(),
    })?;
    told?;
    match output.is_json() {
        true => output.json_line(&report),
        false => Ok(()),
    }
}

fn show(line: &mut ProgressLine, done: usize, parts: usize, part: Part, round: Option<usize>) {
    let round = round.map_or(String::new(), |round| format!(", round {round}"));
    line.show(done, parts, &format!("measuring {part}"), &round);
}

impl BenchArguments {
    fn options(&self) -> Outcome<Options> {
        let mut sizes = match self.quick {
            true => Sizes::quick(),
            false => Sizes::full(),
        };
        if let Some(rounds) = self.rounds {
            sizes.rounds = usize::from(rounds);
        }
        let parts = match self.parts.is_empty() {
            true => Part::ALL.to_vec(),
            false => self.parts.clone(),
        };
        let program = std::env::current_exe().context("this program can't be found")?;
        Ok(Options {
            parts,
            sizes,
            server: ServerCommand {
                program: program.clone(),
                arguments: vec!["serve".into()],
            },
            mcp: ServerCommand {
                program,
                arguments: vec!["mcp".into()],
            },
            redis: self.redis.clone(),
            directory: self.directory.clone().unwrap_or_else(std::env::temp_dir),
            wait_for_quiet: self.wait,
        })
    }
}
