//! Tables: columns as wide as their content, and no wider than the screen.

use std::io::{self, Write};

use anstyle::Style;

use super::{columns_of, one_line};
use crate::view::output::{FAINT, Output, Palette, Width};

/// Spaces between two cells.
const GAP: usize = 2;

/// Minimum width of a title on a narrow screen.
const MIN_TITLE: usize = 20;

/// Minimum width of a name on a narrow screen.
const MIN_NAME: usize = 12;

/// Width of a name up to which it goes before the title. A longer one gets what titles leave.
const SHORT_NAME: usize = 24;

/// Rows of text, under a heading or without one.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A column: its heading, and how it shrinks on a narrow screen.
#[derive(Debug)]
pub(crate) struct Column {
    heading: String,
    is_number: bool,
    /// Minimum width, if the column may be cut.
    min: Option<usize>,
    /// Titles are cut before short names, and after long ones.
    is_title: bool,
    /// Columns of a higher rank are dropped first, columns of rank 0 never.
    rank: u8,
}

/// A cell: a text with its style.
#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Column {
    fn new(heading: &str) -> Self {
        let heading = heading.to_owned();
        Self { heading, is_number: false, min: None, is_title: false, rank: 0 }
    }

    /// A column of texts that are never cut, such as ids and times.
    pub(crate) fn text(heading: &str) -> Self {
        Self::new(heading)
    }

    /// A column of right-aligned numbers.
    pub(crate) fn number(heading: &str) -> Self {
        Self { is_number: true, ..Self::new(heading) }
    }

    /// A column of names, which are cut to [`SHORT_NAME`] for the sake of titles, and further if cutting
    /// titles is not enough.
    pub(crate) fn name(heading: &str) -> Self {
        Self { min: Some(MIN_NAME), ..Self::new(heading) }
    }

    /// A column of titles, which are cut once names are short.
    pub(crate) fn title(heading: &str) -> Self {
        Self { min: Some(MIN_TITLE), is_title: true, ..Self::new(heading) }
    }

    /// Sets the width that a narrow screen leaves to the column.
    pub(crate) fn at_least(self, min: usize) -> Self {
        Self { min: Some(min), ..self }
    }

    /// Sets the rank: on a narrow screen, columns of a higher rank are dropped first.
    pub(crate) fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

impl Cell {
    /// A text in `style`.
    pub(crate) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(Style::new(), text)
    }
}

impl Table {
    /// A table of these columns without rows. If all headings are empty, it has no heading line.
    pub(crate) fn of(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// A table with a column of names and columns of numbers; the last ones are dropped first.
    pub(crate) fn new(heading: &[&str]) -> Self {
        let column = |(rank, heading): (u8, &&str)| match rank {
            0 => Column::name(heading),
            _ => Column::number(heading).rank(rank),
        };
        Self::of((0..=u8::MAX).zip(heading).map(column).collect())
    }

    /// Adds a row with as many cells as there are columns.
    pub(crate) fn row<T: Into<Cell>>(&mut self, cells: Vec<T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Writes heading and rows; nothing if there are no rows.
    pub(crate) fn write(&self, out: &mut Output) -> io::Result<()> {
        self.write_to(out.paint, out.width, out)
    }

    fn write_to(&self, paint: Palette, width: Width, out: &mut dyn Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widths = self.widths(width);
        if self.columns.iter().any(|column| !column.heading.is_empty()) {
            let heading = |column: &Column| Cell::styled(FAINT, &*column.heading);
            let heading: Vec<Cell> = self.columns.iter().map(heading).collect();
            writeln!(out, "{}", self.line(&heading, &widths, paint))?;
        }
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths, paint))?;
        }
        Ok(())
    }

    /// The width of each column; `None` if it is dropped.
    fn widths(&self, width: Width) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> =
            (0..self.columns.len()).map(|at| self.widest(at)).collect();
        let Some(screen) = width.columns() else { return widths };
        loop {
            let least = |(column, widest): (&Column, &Option<usize>)| {
                widest.map(|widest| column.min.map_or(widest, |min| min.min(widest)))
            };
            let least: Vec<Option<usize>> = self.columns.iter().zip(&widths).map(least).collect();
            if taken(&least) > screen {
                let kept = self.columns.iter().zip(&widths).enumerate();
                let kept = kept.filter(|(_, (column, width))| column.rank > 0 && width.is_some());
                // Among columns of the same rank, drops the last.
                if let Some((at, _)) = kept.max_by_key(|(_, (column, _))| column.rank) {
                    if let Some(width) = widths.get_mut(at) {
                        *width = None;
                    }
                    continue;
                }
            }
            let mut spare = screen.saturating_sub(taken(&least));
            let mut fitted = least;
            // Titles tell rows apart, so only short names come before them.
            for (is_title, most) in [(false, SHORT_NAME), (true, usize::MAX), (false, usize::MAX)] {
                for ((column, fitted), widest) in self.columns.iter().zip(&mut fitted).zip(&widths)
                {
                    if let (Some(fitted), Some(widest)) = (fitted, widest)
                        && column.is_title == is_title
                    {
                        let more = (*widest).min(most).saturating_sub(*fitted).min(spare);
                        *fitted += more;
                        spare -= more;
                    }
                }
            }
            return fitted;
        }
    }

    /// The width of the widest cell of a column; `None` if all cells are empty.
    fn widest(&self, at: usize) -> Option<usize> {
        let heading = self.columns.get(at).map_or(0, |column| columns_of(&column.heading));
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let widest = cells.map(|cell| columns_of(&cell.text)).max().unwrap_or(0).max(heading);
        (widest > 0).then_some(widest)
    }

    fn line(&self, cells: &[Cell], widths: &[Option<usize>], paint: Palette) -> String {
        let (mut line, mut gap) = (String::new(), 0);
        for ((column, cell), width) in self.columns.iter().zip(cells).zip(widths) {
            let Some(width) = *width else { continue };
            let text = match columns_of(&cell.text) > width {
                true => one_line(&cell.text, width),
                false => cell.text.clone(),
            };
            let rest = width.saturating_sub(columns_of(&text));
            let (before, after) = if column.is_number { (rest, 0) } else { (0, rest) };
            gap += before;
            if !text.is_empty() {
                line.push_str(&" ".repeat(gap));
                line.push_str(&paint.paint(cell.style, &text).to_string());
                gap = 0;
            }
            gap += after + GAP;
        }
        line
    }
}

/// The total width of columns of these widths.
fn taken(widths: &[Option<usize>]) -> usize {
    let kept = widths.iter().flatten();
    kept.clone().sum::<usize>() + kept.count().saturating_sub(1) * GAP
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(table: &Table, width: Width) -> String {
        let mut out = Vec::new();
        table.write_to(Palette::default(), width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["name", "n"]);
        table.row(vec!["ä", "1,000"]);
        table.row(vec!["longest", "1"]);
        let lines = ["name         n", "ä        1,000", "longest      1", ""];
        assert_eq!(shown(&table, Width::UNLIMITED), lines.join("\n"));
    }

    #[test]
    fn characters_of_two_columns_keep_the_columns_straight() {
        let mut table = Table::of(vec![Column::name(""), Column::number("")]);
        table.row(vec!["修复解析器", "1"]);
        table.row(vec!["🎉", "2"]);
        table.row(vec!["plain text", "3"]);
        assert_eq!(shown(&table, Width::of(80)), "修复解析器  1\n🎉          2\nplain text  3\n");
    }

    #[test]
    fn a_narrow_screen_cuts_long_names_then_the_title_then_all_names_then_drops_columns() {
        let columns = vec![
            Column::name("branch"),
            Column::number("turns").rank(1),
            Column::text("age").rank(2),
            Column::title("title"),
        ];
        let mut table = Table::of(columns);
        table.row(vec![
            "a-branch-with-a-long-name",
            "12",
            "2 days ago",
            "a title that needs all of forty columns.",
        ]);
        let row = |width| shown(&table, width).lines().nth(1).unwrap().to_owned();
        let whole = "a-branch-with-a-long-name     12  2 days ago  a title that needs all of forty columns.";
        assert_eq!(row(Width::UNLIMITED), whole);
        assert_eq!(row(Width::of(86)), whole);
        for (width, cut) in [
            (70, "a-branch-with-a-long-na…     12  2 days ago  a title that needs all o…"),
            (60, "a-branch-with-a-lo…     12  2 days ago  a title that needs …"),
            (45, "a-branch-with-a…     12  a title that needs …"),
            (36, "a-branch-with…  a title that needs …"),
        ] {
            assert_eq!(row(Width::of(width)), cut);
        }
        for width in 34..100 {
            let widest = shown(&table, Width::of(width)).lines().map(columns_of).max().unwrap();
            assert!(widest <= width, "{widest} in {width}");
        }
    }

    #[test]
    fn one_long_name_takes_no_room_from_the_titles_of_others() {
        let mut table = Table::of(vec![Column::name("session"), Column::title("title")]);
        table.row(vec!["a-name-that-is-".repeat(6), "short".to_owned()]);
        table.row(vec!["b".to_owned(), "a title by which people know it, ".repeat(3)]);
        let shown = shown(&table, Width::of(100));
        let titles: Vec<&str> = shown.lines().map(|line| line.get(26..).unwrap_or("")).collect();
        assert!(titles.get(2).is_some_and(|title| columns_of(title) == 74), "{shown}");
    }
}
