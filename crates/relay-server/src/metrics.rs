//! Numbers for Prometheus. They name routes and outcomes, never agents, channels or workspaces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Upper ends of the histogram's buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];

/// What the server counts.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<RequestKey, Requests>>,
    connections: Arc<AtomicI64>,
    refused_connections: AtomicU64,
    sockets: Arc<AtomicI64>,
    streams: Arc<AtomicI64>,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
    events_out: AtomicU64,
    lagged: AtomicU64,
    failed_authentications: AtomicU64,
    rate_limited: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RequestKey {
    route: &'static str,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Copy, Default)]
struct Requests {
    count: u64,
    seconds: f64,
    buckets: [u64; BUCKETS.len()],
}

/// What goes up and comes down again when this is dropped.
pub(crate) struct Open(Arc<AtomicI64>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn open(gauge: &Arc<AtomicI64>) -> Open {
    gauge.fetch_add(1, Ordering::Relaxed);
    Open(gauge.clone())
}

fn more(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Metrics {
    pub(crate) fn request(
        &self,
        route: &'static str,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        let key = RequestKey {
            route,
            method,
            status,
        };
        let took = took.as_secs_f64();
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = all.entry(key).or_default();
        requests.count += 1;
        requests.seconds += took;
        for (bucket, end) in requests.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(took <= end);
        }
    }

    pub(crate) fn connection(&self) -> Open {
        open(&self.connections)
    }

    pub(crate) fn socket(&self) -> Open {
        open(&self.sockets)
    }

    pub(crate) fn stream(&self) -> Open {
        open(&self.streams)
    }

    pub(crate) fn refused_connection(&self) {
        more(&self.refused_connections);
    }

    pub(crate) fn frame_in(&self) {
        more(&self.frames_in);
    }

    pub(crate) fn frame_out(&self) {
        more(&self.frames_out);
    }

    pub(crate) fn event_out(&self) {
        more(&self.events_out);
    }

    pub(crate) fn lagged(&self) {
        more(&self.lagged);
    }

    pub(crate) fn failed_authentication(&self) {
        more(&self.failed_authentications);
    }

    pub(crate) fn rate_limited(&self) {
        more(&self.rate_limited);
    }

    /// All of it in the text form of Prometheus.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        self.write_requests(&mut text);
        let gauges = [
            ("relay_connections", "Open connections.", &self.connections),
            ("relay_sockets", "Open sockets.", &self.sockets),
            (
                "relay_event_streams",
                "Open streams of events.",
                &self.streams,
            ),
        ];
        for (name, help, value) in gauges {
            let value = value.load(Ordering::Relaxed);
            family(&mut text, name, help, "gauge", &value.to_string());
        }
        let counters = [
            (
                "relay_connections_refused_total",
                "Connections beyond the limit.",
                &self.refused_connections,
            ),
            (
                "relay_frames_received_total",
                "Frames of clients.",
                &self.frames_in,
            ),
            (
                "relay_frames_sent_total",
                "Frames to clients.",
                &self.frames_out,
            ),
            (
                "relay_events_sent_total",
                "Events to subscribers, over sockets and streams.",
                &self.events_out,
            ),
            (
                "relay_subscribers_lagged_total",
                "How often a subscriber had to go on from the log.",
                &self.lagged,
            ),
            (
                "relay_failed_authentications_total",
                "Tokens that were not valid.",
                &self.failed_authentications,
            ),
            (
                "relay_rate_limited_total",
                "Requests of tokens that asked too often.",
                &self.rate_limited,
            ),
        ];
        for (name, help, value) in counters {
            let value = value.load(Ordering::Relaxed);
            family(&mut text, name, help, "counter", &value.to_string());
        }
        text
    }

    fn write_requests(&self, text: &mut String) {
        const NAME: &str = "relay_http_request_seconds";
        let requests = self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let _ = writeln!(text, "# HELP {NAME} How long requests took.");
        let _ = writeln!(text, "# TYPE {NAME} histogram");
        for (key, requests) in requests {
            let RequestKey {
                route,
                method,
                status,
            } = key;
            let labels = format!("route=\"{route}\",method=\"{method}\",status=\"{status}\"");
            for (count, end) in requests.buckets.iter().zip(BUCKETS) {
                let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"{end}\"}} {count}");
            }
            let Requests { count, seconds, .. } = requests;
            let _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{NAME}_sum{{{labels}}} {seconds}");
            let _ = writeln!(text, "{NAME}_count{{{labels}}} {count}");
        }
    }
}

fn family(text: &mut String, name: &str, help: &str, kind: &str, value: &str) {
    let _ = write!(
        text,
        "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
    );
}
