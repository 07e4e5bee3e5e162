//! A report for people: one table for each part, then how it compares.

use std::fmt;

use super::{Check, Column, Machine, Report, Row, Section};
use crate::figures::{median, range};
use crate::goals::Goal;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.machine)?;
        for section in &self.sections {
            write!(f, "\n{section}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} cores, shared by server and load; one 4 KiB write + sync: p50 {:.0} us, p99 {:.0} us",
            self.cores, self.sync_p50_us, self.sync_p99_us
        )?;
        if !self.durable {
            writeln!(
                f,
                "NOT DURABLE HERE: a sync this fast does not reach a disk, so no figure of a send is one"
            )?;
        }
        if !self.redis {
            writeln!(
                f,
                "redis-server NOT FOUND: apt-get install redis-server; ratios to it are left out"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = range(&self.others);
        writeln!(
            f,
            "{}: {}; {} rounds, others used {:.2} cores ({least:.2}-{most:.2})\n",
            self.part,
            self.title,
            self.others.len(),
            median(&self.others)
        )?;
        self.write_rows(f)?;
        for check in &self.checks {
            writeln!(f, "{check}")?;
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

impl Section {
    /// The columns of all rows, in the order in which they first come.
    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for figure in self.rows.iter().flat_map(|row| &row.figures) {
            if !columns.contains(&figure.column) {
                columns.push(figure.column);
            }
        }
        columns
    }

    fn write_rows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        write!(f, "| what |")?;
        for column in &columns {
            write!(f, " {} |", column.label)?;
            if column.with_range {
                write!(f, " min-max |")?;
            }
        }
        let cells = columns.len() + columns.iter().filter(|it| it.with_range).count();
        writeln!(f, "\n|---|{}", "---|".repeat(cells))?;
        for row in &self.rows {
            row.write(f, &columns)?;
        }
        writeln!(f)
    }
}

impl Row {
    fn write(&self, f: &mut fmt::Formatter<'_>, columns: &[Column]) -> fmt::Result {
        write!(f, "| {} |", self.name)?;
        for column in columns {
            let figure = self.figure(*column);
            let number = |value| number(value, column.decimals);
            match figure {
                Some(figure) => write!(f, " {} |", number(figure.median))?,
                None => write!(f, " |")?,
            }
            if column.with_range {
                match figure.map(|figure| range(&figure.rounds)) {
                    Some((least, most)) => write!(f, " {}-{} |", number(least), number(most))?,
                    None => write!(f, " |")?,
                }
            }
        }
        writeln!(f)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            unit,
            median,
            min,
            max,
            ..
        } = self;
        let space = if *unit == "x" { "" } else { " " };
        write!(f, "- {name}: {median:.2}{space}{unit} ({min:.2}-{max:.2})")?;
        let (how, goal) = match self.goal {
            None => return Ok(()),
            Some(Goal::AtLeast(goal)) => ("at least", goal),
            Some(Goal::AtMost(goal)) => ("at most", goal),
        };
        write!(f, "; goal {how} {goal:.2}{space}{unit}")?;
        match self.verdict {
            Some(verdict) => write!(f, ": {verdict}"),
            None => Ok(()),
        }
    }
}

/// A number with commas between thousands.
fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = match plain.split_once('.') {
        Some((whole, rest)) => (whole, format!(".{rest}")),
        None => (plain.as_str(), String::new()),
    };
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left % 3 == 0 && digit.is_ascii_digit() && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Part;

    #[test]
    fn numbers_are_grouped() {
        let cases = [
            (0.0, 0, "0"),
            (999.4, 0, "999"),
            (1_000.0, 0, "1,000"),
            (1_234_567.891, 2, "1,234,567.89"),
            (-123_456.0, 0, "-123,456"),
            (0.125, 3, "0.125"),
        ];
        for (value, decimals, expected) in cases {
            assert_eq!(number(value, decimals), expected);
        }
    }

    #[test]
    fn a_report_reads_like_this() {
        let mut section = Section::new(Part::Send, "durable sends");
        for (round, others) in [0.0, 0.05, 0.01].into_iter().enumerate() {
            let rate = 12_000.0 + round as f64 * 1_000.0;
            section.add("Relay", &[(Column::RATE, rate), (Column::P50, 2.0)]);
            section.add("Redis", &[(Column::RATE, 20_000.0)]);
            section.others.push(others);
        }
        let goal = Some(Goal::AtLeast(0.6));
        section.compare("Relay to Redis", Column::RATE, ("Relay", "Redis"), goal);
        section.check("resident", "KiB", &[20.0, 21.0, 22.0], None);
        section.notes.push("Nothing was lost.".to_owned());
        let report = Report {
            machine: Machine {
                cores: 2,
                sync_p50_us: 12.0,
                sync_p99_us: 31.0,
                durable: false,
                redis: false,
            },
            sections: vec![section],
        };
        let expected = "\
2 cores, shared by server and load; one 4 KiB write + sync: p50 12 us, p99 31 us
NOT DURABLE HERE: a sync this fast does not reach a disk, so no figure of a send is one
redis-server NOT FOUND: apt-get install redis-server; ratios to it are left out

send: durable sends; 3 rounds, others used 0.01 cores (0.00-0.05)

| what | /s | min-max | p50 ms |
|---|---|---|---|
| Relay | 13,000 | 12,000-14,000 | 2.00 |
| Redis | 20,000 | 20,000-20,000 | |

- Relay to Redis: 0.65x (0.60-0.70); goal at least 0.60x: met
- resident: 21.00 KiB (20.00-22.00)
Nothing was lost.
";
        assert_eq!(report.to_string(), expected);
    }
}
