//! What `relay doctor` prints: a line for each check as it ends, or one object for programs.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::finding::{Finding, Layer, Verdict};
use crate::data::DataDirectory;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::output::{Output, Style, one_line};
use crate::words::counted;

/// The columns before what was found.
const WIDTHS: (usize, usize, usize) = (7, 11, 16);

/// A check that was made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    name: String,
    layer: Layer,
    outcome: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    took_ms: f64,
}

/// All checks, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    /// Nothing failed.
    ok: bool,
    took_ms: f64,
    checks: &'a [Check],
}

/// Collects checks and shows them.
pub(super) struct Report<'a> {
    output: &'a Output,
    begun: Instant,
    checks: Vec<Check>,
}

impl<'a> Report<'a> {
    pub(super) fn new(output: &'a Output) -> Self {
        Self {
            output,
            begun: Instant::now(),
            checks: Vec::new(),
        }
    }

    /// When the next check begins.
    pub(super) fn begin(&self) -> Instant {
        Instant::now()
    }

    /// Says what is looked at.
    pub(super) fn heading(&self, data: &DataDirectory) -> Outcome {
        let title = format!(
            "relay {} looks at {}",
            env!("CARGO_PKG_VERSION"),
            data.path().display()
        );
        self.remark(&self.output.style().strong(&title))
    }

    /// A line between the checks, for people.
    pub(super) fn remark(&self, text: &str) -> Outcome {
        match self.output.is_json() {
            true => Ok(()),
            false => self.output.line(text),
        }
    }

    /// Makes a check that needs nothing but its function.
    pub(super) fn check(
        &mut self,
        name: &str,
        layer: Layer,
        look: impl FnOnce() -> Finding,
    ) -> Outcome {
        let begun = self.begin();
        let finding = look();
        self.add(name, layer, begun, finding)
    }

    /// Leaves a check out.
    pub(super) fn skip(&mut self, name: &str, layer: Layer, why: &str) -> Outcome {
        self.check(name, layer, || Finding::skipped(why))
    }

    /// Adds a check that was made.
    pub(super) fn add(
        &mut self,
        name: &str,
        layer: Layer,
        begun: Instant,
        finding: Finding,
    ) -> Outcome {
        let check = Check {
            name: name.to_owned(),
            layer,
            outcome: finding.verdict,
            detail: one_line(&finding.detail),
            next: finding.next.map(|next| one_line(&next)),
            took_ms: tenths(begun.elapsed()),
        };
        if !self.output.is_json() {
            self.output.line(&line(self.output.style(), &check))?;
        }
        self.checks.push(check);
        Ok(())
    }

    /// Tells of agents that could not be released.
    pub(super) fn left_behind(&mut self, agents: &[String]) -> Outcome {
        let Some(first) = agents.first() else {
            return Ok(());
        };
        let finding = Finding::warning(
            format!("{} could not be released", agents.join(" and ")),
            hints::command(&format!("agent release {first}")),
        );
        self.add("clearing up", Layer::Session, self.begin(), finding)
    }

    /// Shows the whole, and judges it.
    pub(super) fn finish(&self) -> Outcome {
        let took = self.begun.elapsed();
        let verdict = self.verdict();
        if self.output.is_json() {
            self.output.json_line(&Whole {
                ok: verdict.is_ok(),
                took_ms: tenths(took),
                checks: &self.checks,
            })?;
        } else if verdict.is_ok() {
            self.all_is_well(took)?;
        }
        verdict
    }

    /// Which layers broke, and what to do first.
    fn verdict(&self) -> Outcome {
        let failed: Vec<&Check> = self.with(Verdict::Failed).collect();
        let Some(first) = failed.first() else {
            return Ok(());
        };
        let message = format!(
            "{} of {} failed; {}: {}",
            failed.len(),
            counted(self.checks.len() as u64, "check", "checks"),
            layers_that_broke(&failed),
            first.detail
        );
        let failure = Failure::new(Exit::Failed, "unwell", message);
        Err(match &first.next {
            Some(next) => failure.next(next),
            None => failure,
        })
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(move |check| check.outcome == verdict)
    }

    fn all_is_well(&self, took: Duration) -> Outcome {
        let style = self.output.style();
        let seconds = took.as_secs_f64();
        let checks = counted(self.checks.len() as u64, "check", "checks");
        let warnings = self.with(Verdict::Warning).count() as u64;
        let text = match warnings {
            0 => style.good(&format!("All is well: {checks} in {seconds:.1} s.")),
            _ => style.open(&format!(
                "Everything works, with {}: {checks} in {seconds:.1} s.",
                counted(warnings, "warning", "warnings")
            )),
        };
        self.remark(&text)
    }
}

/// The layers of what failed, each once, from the bottom up.
fn layers_that_broke(failed: &[&Check]) -> String {
    let mut layers: Vec<&str> = Vec::new();
    for check in failed {
        let layer = check.layer.word();
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    match layers.as_slice() {
        [one] => format!("the layer that broke is {one}"),
        several => format!("the layers that broke are {}", several.join(", ")),
    }
}

fn tenths(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

fn line(style: &Style, check: &Check) -> String {
    let (verdicts, layers, names) = WIDTHS;
    let word = format!("{:verdicts$}", check.outcome.word());
    let word = match check.outcome {
        Verdict::Ok => style.good(&word),
        Verdict::Warning => style.open(&word),
        Verdict::Failed => style.bad(&word),
        Verdict::Skipped => style.faint(&word),
    };
    let layer = style.faint(&format!("{:layers$}", check.layer.word()));
    let name = format!("{:names$}", check.name);
    let mut line = format!("{word}  {layer}  {name}  {}", check.detail);
    if let Some(next) = &check.next {
        let indent = " ".repeat(verdicts + 2);
        line.push_str(&format!("\n{indent}{} {next}", style.strong("next:")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::ColorChoice;

    #[test]
    fn a_failure_names_the_layers_that_broke_and_what_to_do_first() {
        let output = Output::new(true, ColorChoice::Never);
        let mut report = Report::new(&output);
        let finding = |next| Finding::failed("it broke", next);
        report
            .check("a", Layer::Files, || Finding::ok("fine"))
            .unwrap();
        assert!(report.verdict().is_ok());
        report
            .check("b", Layer::Disk, || finding("make room"))
            .unwrap();
        report
            .check("c", Layer::Delivery, || finding("wait"))
            .unwrap();
        let failure = report.verdict().unwrap_err();
        assert_eq!(
            failure.message(),
            "2 of 3 checks failed; the layers that broke are disk, delivery: it broke"
        );
        assert_eq!(failure.advice(), Some("make room"));
        assert_eq!(failure.exit(), Exit::Failed);
    }

    #[test]
    fn a_line_has_its_columns_and_what_to_do_below() {
        let check = Check {
            name: "disk space".to_owned(),
            layer: Layer::Disk,
            outcome: Verdict::Failed,
            detail: "nothing left".to_owned(),
            next: Some("make room".to_owned()),
            took_ms: 0.1,
        };
        assert_eq!(
            line(&Style::new(false), &check),
            "failed   disk         disk space        nothing left\n         next: make room"
        );
    }
}
