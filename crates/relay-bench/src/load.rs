//! Load: clients that ask one thing after the other for a while, and what that came to.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::figures::Latencies;
use crate::machine::{Process, this_process, threads_cpu};
use crate::report::{Column, Measured};

/// Something that asks.
pub(crate) trait Client: Send + 'static {
    /// Asks for one thing or, where several are under way, for as many as were answered; adds how long each
    /// answer took.
    fn turn(&mut self, took: &mut Vec<Duration>) -> impl Future<Output = Result<()>> + Send;

    /// Waits for what is under way.
    fn finish(&mut self, _took: &mut Vec<Duration>) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

/// What one round of load came to.
pub(crate) struct Load {
    pub(crate) operations: usize,
    pub(crate) wall: Duration,
    pub(crate) latencies: Latencies,
    server_cpu: Duration,
    load_cpu: Duration,
}

impl Load {
    /// Lets the clients ask for a while. `server` is who answers.
    pub(crate) async fn of<C: Client>(
        server: &Process,
        clients: &mut Vec<C>,
        length: Duration,
    ) -> Result<Self> {
        let load = this_process();
        let all = |_: &str| true;
        let before = (threads_cpu(server, all), threads_cpu(&load, all));
        let begun = Instant::now();
        let until = begun + length;
        let mut tasks = JoinSet::new();
        for client in clients.drain(..) {
            tasks.spawn(ask_until(client, until));
        }
        let mut latencies = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let (client, took) = ended??;
            latencies.extend(took);
            clients.push(client);
        }
        let wall = begun.elapsed();
        let load_cpu = threads_cpu(&load, all).saturating_sub(before.1);
        come_to_rest(server).await;
        Ok(Self {
            operations: latencies.len(),
            wall,
            latencies: Latencies::new(latencies),
            server_cpu: threads_cpu(server, all).saturating_sub(before.0),
            load_cpu,
        })
    }

    /// The usual figures.
    pub(crate) fn figures(&self) -> Vec<Measured> {
        let operations = self.operations as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / operations;
        let percentile = |percent| self.latencies.percentile(percent).as_secs_f64() * 1e3;
        vec![
            (Column::RATE, operations / self.wall.as_secs_f64()),
            (Column::P50, percentile(50.0)),
            (Column::P99, percentile(99.0)),
            (Column::SERVER_CPU, each(self.server_cpu)),
            (Column::LOAD_CPU, each(self.load_cpu)),
        ]
    }
}

/// Waits until a server has done what it put off, such as indexing, so that it does not disturb what is
/// measured next and is counted where it belongs.
pub(crate) async fn come_to_rest(server: &Process) {
    const GLANCE: Duration = Duration::from_millis(50);
    const PATIENCE: Duration = Duration::from_secs(30);
    let begun = Instant::now();
    let mut before = threads_cpu(server, |_| true);
    while begun.elapsed() < PATIENCE {
        tokio::time::sleep(GLANCE).await;
        let now = threads_cpu(server, |_| true);
        if now.saturating_sub(before) < GLANCE / 50 {
            return;
        }
        before = now;
    }
}

async fn ask_until<C: Client>(mut client: C, until: Instant) -> Result<(C, Vec<Duration>)> {
    let mut took = Vec::new();
    // At least once, however busy the machine is: nothing can be said about no operations.
    loop {
        client.turn(&mut took).await?;
        if Instant::now() >= until {
            break;
        }
    }
    client.finish(&mut took).await?;
    Ok((client, took))
}
