//! Tells the demo: lines for people with time to read them, or a line of JSON for each step.

use std::path::Path;
use std::time::Duration;

use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::ids::DeliveryId;
use serde::Serialize;

use crate::failure::Outcome;
use crate::output::{Output, Style, safe};

/// How long a line is left alone before the next one.
const BEAT: Duration = Duration::from_secs(1);

/// The longest name of an agent.
const NAMES: usize = "@demo-reviewer".len();

/// How much time readers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Readable,
    Fast,
}

/// A step of the demo.
#[derive(Debug, Serialize)]
#[serde(
    tag = "step",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum Told<'a> {
    Begin {
        url: &'a str,
        /// Where the demo's own server keeps its data.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Path>,
    },
    Agent {
        agent: &'a str,
        modes: &'a [DeliveryMode],
        queues: bool,
        text: &'a str,
    },
    Scene {
        number: usize,
        title: &'a str,
    },
    Say {
        text: &'a str,
        /// What people see before it.
        #[serde(skip)]
        indent: &'static str,
    },
    Sent {
        from: &'a str,
        to: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<DeliveryMode>,
        text: &'a str,
        delivery_id: DeliveryId,
    },
    /// Something happened to a delivery.
    Happened {
        delivery_id: DeliveryId,
        /// Where it stands now.
        state: DeliveryState,
        text: &'a str,
    },
    /// How a delivery ended, explained by the server.
    Delivery {
        number: usize,
        delivery_id: DeliveryId,
        from: &'a str,
        to: &'a str,
        state: DeliveryState,
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<DeliveryMode>,
        attempt: u32,
        story: &'a str,
    },
    End {
        delivered: usize,
        failed: usize,
    },
}

/// Tells it.
pub(super) struct Narrator<'a> {
    output: &'a Output,
    pace: Pace,
}

impl<'a> Narrator<'a> {
    pub(super) const fn new(output: &'a Output, pace: Pace) -> Self {
        Self { output, pace }
    }

    pub(super) const fn pace(&self) -> Pace {
        self.pace
    }

    /// Tells a step, and gives time to read it.
    pub(super) async fn tell(&self, told: &Told<'_>) -> Outcome {
        self.output.show(told, |style| words(style, told))?;
        self.pause(1).await;
        Ok(())
    }

    /// Explains something.
    pub(super) async fn say(&self, text: &str) -> Outcome {
        self.tell(&Told::Say { text, indent: "" }).await
    }

    /// The same, as the beginning of a new part.
    pub(super) async fn begin(&self, text: &str) -> Outcome {
        let indent = "\n";
        self.tell(&Told::Say { text, indent }).await
    }

    /// The same, within a scene.
    pub(super) async fn remark(&self, text: &str) -> Outcome {
        let indent = "   ";
        self.tell(&Told::Say { text, indent }).await
    }

    /// Something that can be typed, for people.
    pub(super) async fn hint(&self, text: &str, command: &str) -> Outcome {
        if self.output.is_json() {
            return Ok(());
        }
        let command = self.output.style().strong(command);
        self.output.line(&format!("{text} {command}"))?;
        self.pause(2).await;
        Ok(())
    }

    async fn pause(&self, beats: u32) {
        if self.pace == Pace::Readable {
            tokio::time::sleep(BEAT * beats).await;
        }
    }
}

/// Words in the colour of a state.
fn colored(style: &Style, state: DeliveryState, text: &str) -> String {
    match state {
        DeliveryState::Delivered => style.good(text),
        DeliveryState::Failed | DeliveryState::Cancelled => style.bad(text),
        _ => style.open(text),
    }
}

fn words(style: &Style, told: &Told<'_>) -> String {
    match told {
        Told::Begin { url, .. } => style.strong(&format!("A server runs at {url}")),
        Told::Agent { agent, text, .. } => {
            format!("  {}  {text}", style.strong(&format!("{agent:NAMES$}")))
        }
        Told::Scene { number, title } => {
            format!("\n{}", style.strong(&format!("{number}  {title}")))
        }
        Told::Say { text, indent } => format!("{indent}{text}"),
        Told::Sent {
            from,
            to,
            mode,
            text,
            ..
        } => {
            let mode = mode.map_or("no mode", |mode| mode.as_str());
            let way = style.strong(&format!("{from} -> {to}"));
            format!("   {way} {} \"{text}\"", style.faint(&format!("({mode})")))
        }
        Told::Happened { state, text, .. } => format!("   * {}", colored(style, *state, text)),
        Told::Delivery {
            number,
            from,
            to,
            state,
            story,
            ..
        } => {
            let title = style.strong(&format!("{number}  {from} -> {to}"));
            let story: Vec<String> = safe(story)
                .lines()
                .map(|line| format!("   {line}"))
                .collect();
            let state = colored(style, *state, state.as_str());
            format!("\n{title}  {state}\n{}", story.join("\n"))
        }
        Told::End { delivered, failed } => format!(
            "\n{}",
            style.strong(&format!(
                "{delivered} delivered, {failed} failed, each with its reason; none was lost."
            ))
        ),
    }
}
