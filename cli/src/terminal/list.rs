//! A list that is read in parts: its rows, the chosen row and the first visible row.

use std::collections::HashSet;

use super::content::{Question, Row};

/// The rows of a list that were read.
#[derive(Debug, Default)]
pub(super) struct List {
    rows: Vec<Row>,
    chosen: usize,
    /// The first visible row.
    top: usize,
    /// The question for the next rows.
    more: Option<Question>,
    /// Set while the user wants the last row, however many rows must be read for it.
    goes_to_end: bool,
    /// Set once an answer has arrived.
    is_read: bool,
    /// Set when the last question failed: it is not repeated automatically.
    has_failed: bool,
}

/// Where new rows go in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// Replaces the first rows.
    First,
    /// Appends to the last row.
    Behind,
}

impl List {
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The chosen row.
    pub(super) fn row(&self) -> Option<&Row> {
        self.rows.get(self.chosen)
    }

    /// The index of the chosen row, from 0.
    pub(super) const fn chosen(&self) -> usize {
        self.chosen
    }

    /// The index of the first visible row, from 0.
    pub(super) const fn top(&self) -> usize {
        self.top
    }

    /// Returns true if there are rows that were not read yet.
    pub(super) const fn has_more(&self) -> bool {
        self.more.is_some()
    }

    /// Returns true if an answer has arrived, even an empty one.
    pub(super) const fn is_read(&self) -> bool {
        self.is_read
    }

    /// Adds the rows of an answer. If the first row was chosen, the first row stays chosen, even if
    /// it is new; otherwise the same row stays chosen.
    pub(super) fn fill(&mut self, rows: Vec<Row>, more: Option<Question>, filling: Filling) {
        let key = self.row().filter(|_| self.chosen > 0).map(|row| row.key.clone());
        match filling {
            Filling::Behind => {
                self.rows.extend(rows);
                self.more = more;
            }
            Filling::First => self.begin_with(rows, more),
        }
        (self.is_read, self.has_failed) = (true, false);
        let last = self.rows.len().saturating_sub(1);
        let found = key.and_then(|key| self.rows.iter().position(|row| row.key == key));
        let at = found.unwrap_or_else(|| self.chosen.min(last));
        // Keeps the distance between the first visible row and the chosen row.
        self.top = (self.top + at).saturating_sub(self.chosen);
        self.chosen = if self.goes_to_end { last } else { at };
        self.goes_to_end &= self.more.is_some();
    }

    /// Replaces the first rows, and keeps the rows after them.
    fn begin_with(&mut self, mut rows: Vec<Row>, more: Option<Question>) {
        let is_last = |row: &Row| rows.last().is_some_and(|last| last.key == row.key);
        match self.rows.iter().position(is_last) {
            // The rows after them, and the question for the next, are already known.
            Some(at) if more.is_some() => {
                let keys: HashSet<String> = rows.iter().map(|row| row.key.clone()).collect();
                let rest = self.rows.drain(at + 1..).filter(|row| !keys.contains(&row.key));
                rows.extend(rest);
                self.rows = rows;
            }
            _ => {
                self.rows = rows;
                self.more = more;
            }
        }
    }

    /// Records that a question failed.
    pub(super) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Moves the choice by so many rows down, or up if negative.
    pub(super) fn go_by(&mut self, rows: isize) {
        self.goes_to_end = false;
        let last = self.rows.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(rows).min(last);
    }

    /// Chooses the first row.
    pub(super) fn go_to_begin(&mut self) {
        self.goes_to_end = false;
        self.chosen = 0;
    }

    /// Chooses the last row, and reads on until the last row of all.
    pub(super) fn go_to_end(&mut self) {
        self.chosen = self.rows.len().saturating_sub(1);
        self.goes_to_end = self.more.is_some();
    }

    /// Scrolls so that the chosen row is visible, on a screen with room for `height` rows.
    pub(super) fn settle(&mut self, height: usize) {
        let height = height.max(1);
        let least = (self.chosen + 1).saturating_sub(height);
        self.top = self.top.clamp(least, self.chosen.max(least));
        // Leaves no empty rows at the bottom while there are rows above.
        self.top = self.top.min(self.rows.len().saturating_sub(height));
    }

    /// The question for the next rows, once the choice is near the end.
    pub(super) fn wants(&self, height: usize) -> Option<&Question> {
        let is_near = self.goes_to_end || self.chosen + 2 * height >= self.rows.len();
        self.more.as_ref().filter(|_| is_near && !self.has_failed)
    }
}

#[cfg(test)]
mod tests {
    use turntree::repo::BranchName;

    use super::super::text::Tone;
    use super::*;

    fn rows(keys: std::ops::Range<u32>) -> Vec<Row> {
        let row = |key: u32| Row {
            key: key.to_string(),
            cells: Vec::new(),
            tone: Tone::Plain,
            session: None,
            branch: None,
            span: None,
            operation: None,
            pin: None,
            details: Vec::new(),
            speaks: false,
        };
        keys.map(row).collect()
    }

    fn more() -> Option<Question> {
        let branch = BranchName::main("s").unwrap();
        Some(Question::Turns { branch, from: None, every_turn: false })
    }

    fn key(list: &List) -> &str {
        &list.row().unwrap().key
    }

    #[test]
    fn who_reads_stays_where_they_are_and_who_is_at_the_newest_follows() {
        let mut list = List::default();
        list.fill(rows(10..20), more(), Filling::First);
        list.fill(rows(9..19), more(), Filling::First);
        assert_eq!(key(&list), "9");
        list.go_by(3);
        list.settle(4);
        assert_eq!((key(&list), list.top()), ("12", 0));
        list.fill(rows(7..17), more(), Filling::First);
        assert_eq!((key(&list), list.top()), ("12", 2));
        // The rows after the reread ones are kept.
        assert_eq!(list.rows().len(), 13);
        list.fill(rows(0..2), None, Filling::First);
        assert_eq!(key(&list), "1");
    }

    #[test]
    fn the_end_is_the_last_row_of_all_and_is_read_for() {
        let mut list = List::default();
        list.fill(rows(0..10), more(), Filling::First);
        assert!(list.wants(3).is_none());
        list.go_to_end();
        assert!(list.wants(3).is_some());
        list.fill(rows(10..20), more(), Filling::Behind);
        assert_eq!(key(&list), "19");
        list.fill(rows(20..30), None, Filling::Behind);
        assert_eq!(key(&list), "29");
        assert!(list.wants(3).is_none());
        list.settle(3);
        assert_eq!(list.top(), 27);
        list.go_by(-5);
        list.settle(3);
        assert_eq!((key(&list), list.top()), ("24", 24));
    }

    #[test]
    fn an_empty_list_has_nothing_to_choose() {
        let mut list = List::default();
        list.go_by(1);
        list.go_to_end();
        list.settle(5);
        assert_eq!(list.row(), None);
        assert!(!list.is_read());
        list.fill(Vec::new(), None, Filling::First);
        assert!(list.is_read());
        list.settle(0);
        assert_eq!(list.top(), 0);
    }
}
