//! A run: the machine first, then each part.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::figures::Latencies;
use crate::goals::QUIET_CORES;
use crate::machine::{self, Others, Process};
use crate::options::{Options, Part};
use crate::parts;
use crate::platform::{allow_many_files, terminated};
use crate::redis::{Instance, StartError};
use crate::report::{Machine, Report, Section};
use crate::server::Server;

/// Synced writes that are measured at the beginning.
const SYNCED_WRITES: u64 = 300;

/// How long the machine is looked at before a round.
const GLANCE: Duration = Duration::from_millis(500);

/// What is told while a run goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The machine was looked at.
    Machine(&'a Machine),
    /// A part begins.
    Begins(Part),
    /// A round of it begins, the first with 1.
    Round(Part, usize),
    /// A part has ended.
    Ended(&'a Section),
}

/// Somebody stopped the run. What it had started has ended.
#[derive(Clone, Copy, Debug)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped before the end")
    }
}

impl std::error::Error for Stopped {}

/// Measures what the options say; [`Stopped`] if it was not let to its end.
pub fn run(options: &Options, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    allow_many_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("load")
        .enable_all()
        .build()
        .context("no threads to run on")?;
    runtime.block_on(async {
        // What was started ends with this future.
        tokio::select! {
            report = run_parts(options, tell) => report,
            stopped = told_to_stop() => stopped.and_then(|()| Err(Stopped.into())),
        }
    })
}

/// Waits for Ctrl-C, or for what service managers send.
async fn told_to_stop() -> Result<()> {
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        terminated = terminated() => terminated?,
    }
    Ok(())
}

async fn run_parts(options: &Options, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let bench = Bench {
        options,
        tell: RefCell::new(tell),
        at: Cell::new((Part::ALL[0], 0)),
    };
    let machine = look_at_machine(&bench).await?;
    bench.tell(Progress::Machine(&machine));
    let mut sections = Vec::new();
    for part in &options.parts {
        bench.at.set((*part, 0));
        bench.tell(Progress::Begins(*part));
        let section = parts::run(&bench, *part).await;
        let mut section = section.with_context(|| format!("{part} could not be measured"))?;
        if !machine.durable {
            section.notes.push("Not durable here.".to_owned());
        }
        bench.tell(Progress::Ended(&section));
        sections.push(section);
    }
    Ok(Report { machine, sections })
}

async fn look_at_machine(bench: &Bench<'_>) -> Result<Machine> {
    let directory = bench.directory();
    let writes = machine::synced_writes(directory, SYNCED_WRITES)
        .with_context(|| format!("nothing can be written to {}", directory.display()))?;
    let writes = Latencies::new(writes);
    let p50 = writes.percentile(50.0);
    Ok(Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        sync_p50_us: p50.as_secs_f64() * 1e6,
        sync_p99_us: writes.percentile(99.0).as_secs_f64() * 1e6,
        durable: p50 >= machine::DURABLE,
        redis: bench.redis().await?.is_some(),
    })
}

/// What all parts need.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    tell: RefCell<&'a mut dyn FnMut(Progress<'_>)>,
    /// The part that is measured, and how many of its rounds have begun.
    at: Cell<(Part, usize)>,
}

impl Bench<'_> {
    fn tell(&self, progress: Progress<'_>) {
        (self.tell.borrow_mut())(progress);
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// Starts a server with nothing in it.
    pub(crate) async fn server(&self) -> Result<Server> {
        self.server_with("").await
    }

    /// The same, with settings of its own.
    pub(crate) async fn server_with(&self, settings: &str) -> Result<Server> {
        Server::start(&self.options.server, self.directory(), settings).await
    }

    /// Waits for a quiet machine, if that was asked for; then watches what others do while this process and
    /// those named work.
    pub(crate) async fn begin_round<'p>(
        &self,
        ours: impl IntoIterator<Item = &'p Process>,
    ) -> Others {
        let (part, rounds) = self.at.get();
        self.at.set((part, rounds + 1));
        self.tell(Progress::Round(part, rounds + 1));
        let mut all = vec![machine::this_process()];
        all.extend(ours.into_iter().cloned());
        let begun = Instant::now();
        while begun.elapsed() < self.options.wait_for_quiet {
            let others = Others::watch(all.clone());
            tokio::time::sleep(GLANCE).await;
            if others.cores() < QUIET_CORES {
                break;
            }
        }
        Others::watch(all)
    }

    /// Starts a Redis with nothing in it, if there is one.
    pub(crate) async fn redis(&self) -> Result<Option<Instance>> {
        match Instance::start(&self.options.redis, self.directory()).await {
            Ok(instance) => Ok(Some(instance)),
            Err(StartError::Missing) => Ok(None),
            Err(StartError::Failed(error)) => Err(error),
        }
    }
}
