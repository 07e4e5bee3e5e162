//! `relay run` as a program sees it: a line for each step.

use std::ffi::OsString;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;

use super::{Desk, Running};

/// An agent that runs, told line by line for programs.
pub(crate) struct Runs {
    pub(crate) running: Running,
    input: Option<ChildStdin>,
    /// What was told of and not asked for.
    pub(crate) seen: Vec<Value>,
}

impl Runs {
    pub(crate) fn start(desk: &Desk, arguments: &[&str]) -> Self {
        Self::start_with(desk, &[], arguments)
    }

    /// The same with something in the environment.
    pub(crate) fn start_with(
        desk: &Desk,
        variables: &[(&str, OsString)],
        arguments: &[&str],
    ) -> Self {
        let arguments = [&["run"][..], arguments, &["--json"]].concat();
        let (running, input) = desk.start_fed(variables, &arguments);
        Self {
            running,
            input: Some(input),
            seen: Vec::new(),
        }
    }

    /// Starts one and waits until it is on the relay.
    pub(crate) async fn attached(desk: &Desk, arguments: &[&str]) -> Self {
        let mut runs = Self::start(desk, arguments);
        runs.until("attached").await;
        runs
    }

    /// Types a line.
    pub(crate) async fn enter(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    /// Waits for the next step of this type, unless it was passed over.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        let passed = self.seen.iter().position(|step| step["type"] == kind);
        if let Some(passed) = passed {
            return self.seen.remove(passed);
        }
        self.find(kind, |step| step["type"] == kind).await
    }

    /// Waits for a step that comes from now on.
    pub(crate) async fn find(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = match self.running.try_line().await {
                Some(line) => line,
                None => panic!("{what} did not come: {:#?}", self.seen),
            };
            let step: Value = serde_json::from_str(&line).unwrap();
            if wanted(&step) {
                return step;
            }
            self.seen.push(step);
        }
    }

    /// Waits until the agent has said this.
    pub(crate) async fn says(&mut self, text: &str) {
        self.find(text, |step| {
            step["event"]["text"]
                .as_str()
                .is_some_and(|said| said.contains(text))
        })
        .await;
    }

    pub(crate) async fn status(&mut self, status: &str) {
        self.find(status, |step| {
            step["type"] == "status" && step["status"] == status
        })
        .await;
    }

    /// Ends it as a service manager does; its code and its error.
    pub(crate) async fn end(mut self) -> (i32, String) {
        self.running.terminate();
        self.until("released").await;
        self.running.end().await
    }
}
