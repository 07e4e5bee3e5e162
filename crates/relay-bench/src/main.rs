//! `relay-bench [--quick] [--rounds N] [--wait SECONDS] [--json] [--server PROGRAM] [--directory DIR] [PART]...`
//!
//! For the time being: the command line of Relay will have this as `relay bench`. The server is the program
//! `relay` beside this one, unless another is named.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use relay_bench::{Options, Part, Progress, Report, ServerCommand, Sizes, run};

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let Asked { options, as_json } = read_arguments(std::env::args().skip(1))?;
    let report: Report = run(&options, &mut |progress| match progress {
        Progress::Machine(machine) if !as_json => println!("{machine}"),
        Progress::Ended(section) if !as_json => println!("{section}"),
        Progress::Begins(part) => eprintln!("measuring {part} ..."),
        _ => {}
    })?;
    if as_json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

struct Asked {
    options: Options,
    as_json: bool,
}

fn read_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Asked> {
    let mut as_json = false;
    let mut options = Options {
        parts: Vec::new(),
        sizes: Sizes::full(),
        server: ServerCommand {
            program: relay_beside()?,
            arguments: vec!["serve".into()],
        },
        redis: PathBuf::from("redis-server"),
        directory: std::env::temp_dir(),
        wait_for_quiet: Duration::ZERO,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .with_context(|| format!("{argument} what?"))
        };
        match argument.as_str() {
            "--quick" => options.sizes = Sizes::quick(),
            "--rounds" => options.sizes.rounds = value()?.parse()?,
            "--wait" => options.wait_for_quiet = Duration::from_secs(value()?.parse()?),
            "--json" => as_json = true,
            "--server" => options.server.program = value()?.into(),
            "--directory" => options.directory = value()?.into(),
            part if !part.starts_with('-') => options.parts.push(part.parse()?),
            other => bail!("there is no option {other}"),
        }
    }
    if options.parts.is_empty() {
        options.parts = Part::ALL.to_vec();
    }
    Ok(Asked { options, as_json })
}

/// The program `relay` in the directory of this one.
fn relay_beside() -> Result<PathBuf> {
    let this = std::env::current_exe().context("this program can't be found")?;
    Ok(this.with_file_name("relay"))
}
