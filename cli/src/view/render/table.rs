//! Tables: columns as wide as what is in them.

use std::io::{self, Write};

use crate::view::output::{FAINT, Palette};

/// Rows of text under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows. The first column is text, the others are numbers.
    pub(crate) fn new(heading: &[&str]) -> Self {
        let heading = heading.iter().map(|name| (*name).to_owned()).collect();
        Self { heading, rows: Vec::new() }
    }

    /// Adds a row with as many cells as the heading.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes heading and rows, and nothing when there are no rows.
    pub(crate) fn write(&self, paint: Palette, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widths: Vec<usize> = (0..self.heading.len()).map(|at| self.width(at)).collect();
        writeln!(out, "{}", paint.paint(FAINT, line(&self.heading, &widths)))?;
        for row in &self.rows {
            writeln!(out, "{}", line(row, &widths))?;
        }
        Ok(())
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().chain([&self.heading]).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let width = *width;
        line.push_str(&match at {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["name", "n"]);
        table.row(vec!["ä".into(), "1,000".into()]);
        table.row(vec!["longest".into(), "1".into()]);
        let mut out = Vec::new();
        table.write(Palette::default(), &mut out).unwrap();
        let lines = ["name         n", "ä        1,000", "longest      1", ""];
        assert_eq!(String::from_utf8(out).unwrap(), lines.join("\n"));
    }
}
