//! Tables that fit a terminal of `WIDTH` columns, as all commands print them.
//!
//! Columns without anything in them are left out. A table that is still too wide becomes several, below each other, each with the
//! first column; cells are never wrapped. `--wide` prints one table with all columns.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::words;

/// Columns of the terminal that tables are made for. It is fixed, so that pages show what commands print.
const WIDTH: usize = 80;
/// Whether `--wide` was given.
static WIDE: AtomicBool = AtomicBool::new(false);

/// Makes all tables as wide as they are.
pub fn print_wide() {
    // Relaxed: it is set before the first table is made.
    WIDE.store(true, Ordering::Relaxed);
}

/// A table. Names stand to the left, numbers to the right.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// How many columns stand in each part.
    repeated: usize,
}

struct Column {
    title: String,
    is_left: bool,
    /// Whether zeros are nothing.
    is_amount: bool,
    /// Whether a part begins here, if there are several.
    begins: bool,
    /// Whether numbers above zero are shown in red.
    is_bad: bool,
}

impl Table {
    /// With these columns and no row yet.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        let column = |(index, title): (usize, T)| Column {
            title: title.into(),
            is_left: index == 0,
            is_amount: false,
            begins: false,
            is_bad: false,
        };
        Self { columns: header.into_iter().enumerate().map(column).collect(), rows: Vec::new(), repeated: 1 }
    }

    /// With the cells of these columns to the left.
    pub fn left(mut self, titles: &[&str]) -> Self {
        self.each(titles, |column| column.is_left = true);
        self
    }

    /// Without these columns if there are zeros only.
    pub fn amounts(mut self, titles: &[&str]) -> Self {
        self.each(titles, |column| column.is_amount = true);
        self
    }

    /// With a new part at each of these columns, if it does not fit otherwise.
    pub fn parts(mut self, titles: &[&str]) -> Self {
        self.each(titles, |column| column.begins = true);
        self
    }

    /// With red numbers in these columns, unless they are zero.
    pub fn bad(mut self, titles: &[&str]) -> Self {
        self.each(titles, |column| column.is_bad = true);
        self
    }

    /// With the first `count` columns in all parts.
    pub fn repeat(mut self, count: usize) -> Self {
        self.repeated = count;
        self
    }

    fn each(&mut self, titles: &[&str], set: impl Fn(&mut Column)) {
        self.columns.iter_mut().filter(|column| titles.contains(&column.title.as_str())).for_each(set);
    }

    /// Adds a row, with a cell for each column.
    pub fn add_row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let row: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// As text that fits `width`, or as one table if that is `None`.
    fn text(&self, width: Option<usize>) -> String {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = width else { return self.draw(&all, &(0..self.rows.len()).collect::<Vec<_>>()) };
        let says = |row: &[String], column: usize| {
            !(is_nothing(&row[column]) || self.columns[column].is_amount && is_zero(&row[column]))
        };
        let columns: Vec<usize> = all
            .into_iter()
            .filter(|column| *column < self.repeated || self.rows.iter().any(|row| says(row, *column)))
            .collect();
        let parts = self.divide(&columns, width);
        let is_told = |row: &[String], part: &[usize]| part[self.repeated..].iter().any(|column| says(row, *column));
        let mut told = BTreeSet::new();
        let mut texts = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let is_last = number + 1 == parts.len();
            let shown: Vec<usize> = (0..self.rows.len())
                .filter(|row| {
                    let is_alone = is_last && !told.contains(row);
                    parts.len() == 1 || is_told(&self.rows[*row], part) || is_alone
                })
                .collect();
            told.extend(shown.iter().copied());
            texts.push(self.draw(part, &shown));
        }
        texts.join("\n")
    }

    /// Spreads columns over parts that fit.
    fn divide(&self, columns: &[usize], width: usize) -> Vec<Vec<usize>> {
        if self.width(columns) <= width || columns.len() <= self.repeated + 1 {
            return vec![columns.to_vec()];
        }
        let (first, rest) = columns.split_at(self.repeated);
        let mut parts = vec![first.to_vec()];
        for column in rest {
            let part = parts.last_mut().expect("there is a first part");
            let longer = [&part[..], &[*column]].concat();
            // A part may begin with a column that is left out.
            let from = part.last().map_or(0, |last| last + 1);
            let is_begin = self.columns[from..=*column].iter().any(|column| column.begins);
            let begins = is_begin || self.width(&longer) > width;
            if part.len() > self.repeated && begins { parts.push([first, &[*column]].concat()) } else { *part = longer }
        }
        parts
    }

    fn width(&self, columns: &[usize]) -> usize {
        let cell = |column: &usize| {
            let cells = self.rows.iter().map(|row| &row[*column]);
            cells.chain([&self.columns[*column].title]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        columns.iter().map(cell).sum::<usize>() + 2 * columns.len().saturating_sub(1)
    }

    fn draw(&self, columns: &[usize], rows: &[usize]) -> String {
        let width = |column: usize| {
            let cells = rows.iter().map(|row| &self.rows[*row][column]);
            cells.chain([&self.columns[column].title]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = columns.iter().map(|column| width(*column)).collect();
        let line = |cell: &dyn Fn(usize) -> (String, bool)| {
            let padded = columns.iter().zip(&widths).map(|(column, width)| {
                let (text, is_bad) = cell(*column);
                let text =
                    if self.columns[*column].is_left { format!("{text:<width$}") } else { format!("{text:>width$}") };
                if is_bad { words::red_in_a_table(&text) } else { text }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let rule = |what: &str| what.repeat(widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1));
        let mut lines = vec![rule("─"), line(&|column| (self.columns[column].title.clone(), false)), rule("═")];
        lines.extend(rows.iter().map(|row| {
            line(&|column| {
                let cell = &self.rows[*row][column];
                (cell.clone(), self.columns[column].is_bad && !is_nothing(cell) && !is_zero(cell))
            })
        }));
        lines.push(rule("─"));
        lines.join("\n")
    }
}

fn is_nothing(cell: &str) -> bool {
    cell.is_empty() || cell == "-"
}

fn is_zero(cell: &str) -> bool {
    !cell.is_empty() && cell.trim_matches(['0', '.']).is_empty()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = (!WIDE.load(Ordering::Relaxed)).then_some(WIDTH);
        f.write_str(&self.text(width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(table: &Table, width: usize) -> Vec<String> {
        table.text(Some(width)).lines().map(str::to_owned).collect()
    }

    fn jobs() -> Table {
        let mut table = Table::new(["task", "jobs", "missed", "CPU ms"]).amounts(&["missed"]).parts(&["CPU ms"]);
        table.add_row(["camera", "90", "0", "1.5"]);
        table.add_row(["hog", "-", "0", "12.25"]);
        table
    }

    #[test]
    fn a_column_of_zeros_is_left_out_and_numbers_stand_to_the_right() {
        let wanted = [
            "────────────────────",
            "task    jobs  CPU ms",
            "════════════════════",
            "camera    90     1.5",
            "hog        -   12.25",
        ];
        assert_eq!(lines(&jobs(), 80)[..5], wanted);
        let mut table = jobs();
        table.add_row(["late", "1", "1", "-"]);
        assert_eq!(lines(&table, 80)[1], "task    jobs  missed  CPU ms");
    }

    #[test]
    fn what_does_not_fit_becomes_two_tables_each_without_the_rows_it_says_nothing_of() {
        let wanted = ["task    jobs", "camera    90", "task    CPU ms", "camera     1.5", "hog      12.25"];
        let is_text = |line: &String| !line.starts_with(['─', '═']);
        assert_eq!(lines(&jobs(), 15).into_iter().filter(is_text).collect::<Vec<_>>(), wanted);
        let mut table = jobs();
        table.add_row(["idle", "-", "0", "-"]);
        assert_eq!(lines(&table, 15).iter().filter(|line| line.starts_with("idle")).count(), 1);
    }

    #[test]
    fn a_part_begins_behind_a_column_that_is_left_out() {
        let mut table =
            Table::new(["task", "response", "operations", "first"]).amounts(&["operations"]).parts(&["operations"]);
        table.add_row(["track", "10100", "0", "ee by detect"]);
        let lines = lines(&table, 20);
        assert_eq!((lines[1].as_str(), lines[6].as_str()), ("task   response", "task          first"));
    }

    #[test]
    fn every_column_that_says_something_is_in_a_table_that_fits() {
        let titles: Vec<String> = (0..40).map(|number| format!("column {number}")).collect();
        let mut table = Table::new(titles.clone()).repeat(2);
        table.add_row((0..40).map(|number| format!("cell {number}")));
        let text = table.text(Some(WIDTH));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(titles.iter().all(|title| text.contains(title)));
        assert!(text.lines().filter(|line| line.starts_with("column")).all(|line| line.contains("column 1  ")));
        assert_eq!(table.text(None).lines().count(), 5);
    }
}
