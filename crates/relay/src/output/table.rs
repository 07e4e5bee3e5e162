//! Columns that line up.

use super::Style;
use super::width::columns;

/// Between two columns.
const GAP: &str = "  ";

/// Rows of text under headings.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table, or a sentence where there is nothing to show.
    pub(crate) fn text(&self, style: &Style, if_empty: &str) -> String {
        if self.rows.is_empty() {
            return if_empty.to_owned();
        }
        let headings: Vec<String> = self.headings.iter().map(|&text| text.to_owned()).collect();
        let widths: Vec<usize> = (0..headings.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&headings]);
                let widths = cells
                    .filter_map(|row| row.get(column))
                    .map(|cell| columns(cell));
                widths.max().unwrap_or(0)
            })
            .collect();
        let mut lines = vec![style.faint(&line(&headings, &widths))];
        lines.extend(self.rows.iter().map(|row| line(row, &widths)));
        lines.join("\n")
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&padded(cell, *width));
        line.push_str(GAP);
    }
    line.trim_end().to_owned()
}

/// Names and their values, one a line.
pub(crate) fn fields(style: &Style, fields: &[(&str, String)]) -> String {
    let widest = fields
        .iter()
        .map(|(name, _)| columns(name))
        .max()
        .unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        let name = style.faint(&padded(name, widest));
        format!("{name}{GAP}{value}")
    };
    fields.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn padded(text: &str, to: usize) -> String {
    format!("{text}{}", " ".repeat(to.saturating_sub(columns(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_their_colour() {
        let mut table = Table::new(&["name", "state"]);
        table.row([Style::new(true).good("ada"), "ok".to_owned()]);
        table.row(["christine".to_owned(), String::new()]);
        let text = table.text(&Style::new(false), "nobody");
        let plain = text.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, "name       state\nada        ok\nchristine");
        let none = Table::new(&["name"]).text(&Style::new(false), "nobody");
        assert_eq!(none, "nobody");
    }
}
