//! What a run found, as data; `text` writes it for people.

mod text;

use serde::{Serialize, Serializer};

use crate::figures::{median, range, ratios};
use crate::goals::{Goal, QUIET_CORES, Verdict};
use crate::options::Part;

/// Everything that a run found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The machine and what was on it.
    pub machine: Machine,
    /// What was measured, in the order in which it was.
    pub sections: Vec<Section>,
}

/// The machine and what was on it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its cores, which server and load share.
    pub cores: usize,
    /// What one 4 KiB write and sync takes, the median.
    pub sync_p50_us: f64,
    /// What it takes at the 99th percentile.
    pub sync_p99_us: f64,
    /// False when a sync is so fast that it can't reach a disk.
    pub durable: bool,
    /// Whether there was a Redis to compare with.
    pub redis: bool,
}

/// What one part found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Section {
    /// The part.
    pub part: Part,
    /// What was done.
    pub title: String,
    /// Cores that others used, for each round.
    pub others: Vec<f64>,
    /// What was measured.
    pub rows: Vec<Row>,
    /// How that compares.
    pub checks: Vec<Check>,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// One thing that was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// One figure, over the rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    /// What it says.
    pub column: Column,
    /// The middle of all rounds.
    pub median: f64,
    /// Each round.
    pub rounds: Vec<f64>,
}

/// What a figure says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit.
    pub label: &'static str,
    /// Digits after the point.
    pub decimals: usize,
    /// Whether the least and the greatest are of interest.
    pub with_range: bool,
}

impl Column {
    pub(crate) const RATE: Self = Self::ranged("/s", 0);
    pub(crate) const P50: Self = Self::of("p50 ms", 2);
    pub(crate) const P99: Self = Self::of("p99 ms", 2);
    /// For what takes fractions of a millisecond.
    pub(crate) const FINE_P50: Self = Self::ranged("p50 ms", 3);
    pub(crate) const FINE_P99: Self = Self::of("p99 ms", 3);
    pub(crate) const SERVER_CPU: Self = Self::of("server CPU us", 1);
    pub(crate) const LOAD_CPU: Self = Self::of("load CPU us", 1);

    /// A figure of which only the middle is shown.
    pub(crate) const fn of(label: &'static str, decimals: usize) -> Self {
        Self {
            label,
            decimals,
            with_range: false,
        }
    }

    /// A figure that is shown with its range.
    pub(crate) const fn ranged(label: &'static str, decimals: usize) -> Self {
        Self {
            label,
            decimals,
            with_range: true,
        }
    }
}

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label)
    }
}

/// A figure of one round.
pub(crate) type Measured = (Column, f64);

/// A figure beside what it should be.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What it is.
    pub name: String,
    /// Its unit: `x` for ratios.
    pub unit: &'static str,
    /// The middle of the quiet rounds; of all, when none was quiet.
    pub median: f64,
    /// The least of them.
    pub min: f64,
    /// The greatest of them.
    pub max: f64,
    /// What it should be, if there is a goal.
    pub goal: Option<Goal>,
    /// What became of the goal.
    #[serde(flatten)]
    pub verdict: Option<Verdict>,
}

impl Section {
    pub(crate) fn new(part: Part, title: impl Into<String>) -> Self {
        Self {
            part,
            title: title.into(),
            others: Vec::new(),
            rows: Vec::new(),
            checks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds what a round found about one thing.
    pub(crate) fn add(&mut self, name: &str, measured: &[Measured]) {
        let known = self.rows.iter().position(|row| row.name == name);
        let at = known.unwrap_or_else(|| {
            self.rows.push(Row {
                name: name.to_owned(),
                figures: Vec::new(),
            });
            self.rows.len() - 1
        });
        for (column, value) in measured {
            self.rows[at].add(*column, *value);
        }
    }

    /// What the rounds found about one thing.
    pub(crate) fn series(&self, name: &str, column: Column) -> &[f64] {
        let row = self.rows.iter().find(|row| row.name == name);
        let figure = row.and_then(|row| row.figure(column));
        figure.map_or(&[], |figure| &figure.rounds)
    }

    /// Compares two things, round by round, if both were measured.
    pub(crate) fn compare(
        &mut self,
        name: &str,
        column: Column,
        (of, to): (&str, &str),
        goal: Option<Goal>,
    ) {
        let ratios = ratios(self.series(of, column), self.series(to, column));
        self.check(name, "x", &ratios, goal);
    }

    /// Notes values of the rounds beside their goal.
    pub(crate) fn check(
        &mut self,
        name: &str,
        unit: &'static str,
        rounds: &[f64],
        goal: Option<Goal>,
    ) {
        if rounds.is_empty() {
            return;
        }
        let quiet = self.quiet(rounds);
        let values = if quiet.is_empty() { rounds } else { &quiet };
        let check = Check::of(name, unit, values);
        self.checks.push(check.judged(goal, !quiet.is_empty()));
    }

    /// Notes values that do not depend on how busy the machine is, such as memory.
    pub(crate) fn check_steady(
        &mut self,
        name: &str,
        unit: &'static str,
        rounds: &[f64],
        goal: Option<Goal>,
    ) {
        self.checks
            .push(Check::of(name, unit, rounds).judged(goal, true));
    }

    /// The values of quiet rounds.
    fn quiet(&self, rounds: &[f64]) -> Vec<f64> {
        let both = rounds.iter().zip(&self.others);
        let quiet = both.filter(|(_, others)| **others < QUIET_CORES);
        quiet.map(|(value, _)| *value).collect()
    }
}

impl Check {
    fn of(name: &str, unit: &'static str, values: &[f64]) -> Self {
        let (min, max) = range(values);
        Self {
            name: name.to_owned(),
            unit,
            median: median(values),
            min,
            max,
            goal: None,
            verdict: None,
        }
    }

    fn judged(self, goal: Option<Goal>, is_quiet: bool) -> Self {
        let verdict = goal.map(|goal| goal.judge(self.median, is_quiet));
        Self {
            goal,
            verdict,
            ..self
        }
    }
}

impl Row {
    fn figure(&self, column: Column) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.column == column)
    }

    fn add(&mut self, column: Column, value: f64) {
        let known = self.figures.iter().position(|it| it.column == column);
        let at = known.unwrap_or_else(|| {
            self.figures.push(Figure {
                column,
                median: value,
                rounds: Vec::new(),
            });
            self.figures.len() - 1
        });
        let figure = &mut self.figures[at];
        figure.rounds.push(value);
        figure.median = median(&figure.rounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(others: &[f64]) -> Section {
        let mut section = Section::new(Part::Send, "sends");
        for (round, others) in others.iter().enumerate() {
            let rate = (round + 1) as f64;
            section.add("ours", &[(Column::RATE, rate * 2.0), (Column::P50, 1.0)]);
            section.add("theirs", &[(Column::RATE, 4.0)]);
            section.others.push(*others);
        }
        section
    }

    #[test]
    fn only_quiet_rounds_count() {
        let mut section = section(&[0.0, 1.0, 0.1]);
        let goal = Some(Goal::AtLeast(1.0));
        section.compare("to theirs", Column::RATE, ("ours", "theirs"), goal);
        let check = &section.checks[0];
        assert_eq!((check.median, check.min, check.max), (1.5, 0.5, 1.5));
        assert_eq!(check.verdict, Some(Verdict::Met));
        assert_eq!(section.rows[0].figures[0].median, 4.0);
    }

    #[test]
    fn without_quiet_rounds_nothing_is_judged() {
        let mut section = section(&[0.5, 1.0, 0.3]);
        let goal = Some(Goal::AtLeast(1.0));
        section.compare("to theirs", Column::RATE, ("ours", "theirs"), goal);
        let check = &section.checks[0];
        assert_eq!((check.median, check.min, check.max), (1.0, 0.5, 1.5));
        assert_eq!(check.verdict, Some(Verdict::Unjudged));
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        let mut section = section(&[0.0]);
        section.compare("to none", Column::RATE, ("ours", "nobody"), None);
        section.compare("to none", Column::P99, ("ours", "theirs"), None);
        assert!(section.checks.is_empty());
    }
}
