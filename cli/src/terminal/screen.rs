//! A screen: a list with a preview of the chosen row, or a text that may ask for a confirmation.

use turntree::repo::BranchName;

use super::acts::Change;
use super::content::{Answer, ListKind, Question, Row, Span};
use super::list::{Filling, List};
use super::text::{Line, Tone, wrapped};

/// An action that needs a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Begins a branch at the last of these turns.
    Fork { at: Span, name: String },
    /// Makes a change, if its plan still reads as `shown`.
    Change { change: Change, shown: Vec<Line> },
    /// Ends the interface and resumes from the last of these turns in an agent.
    Resume { at: Span },
}

/// A screen.
#[derive(Debug)]
pub(super) struct Screen {
    /// Identifies the screen of an answer; the screen may be closed by then.
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) body: Body,
    /// The question that the screen waits for.
    pub(super) waits_for: Option<Question>,
    /// Set when the store has changed since the rows were read.
    pub(super) is_stale: bool,
}

#[derive(Debug)]
pub(super) enum Body {
    List(ListBody),
    Text(TextBody),
}

/// A list, and the preview next to it.
#[derive(Debug)]
pub(super) struct ListBody {
    pub(super) kind: ListKind,
    pub(super) list: List,
    /// Shown if the list has no row.
    pub(super) note: Option<String>,
    /// The last preview that was asked for, and its text once it was read.
    pub(super) said: Option<(Question, Option<Vec<Line>>)>,
}

/// A text.
#[derive(Debug, Default)]
pub(super) struct TextBody {
    lines: Vec<Line>,
    /// The lines, wrapped for `columns`.
    pub(super) shown: Vec<Line>,
    columns: usize,
    pub(super) top: usize,
    /// The turns of the text.
    pub(super) span: Option<Span>,
    /// The action that `y` confirms.
    pub(super) act: Option<Act>,
}

impl Screen {
    /// A list that is not read yet.
    pub(super) fn list(id: u64, title: String, kind: ListKind) -> Self {
        let list = ListBody { kind, list: List::default(), note: None, said: None };
        Self { id, title, body: Body::List(list), waits_for: None, is_stale: true }
    }

    /// A text.
    pub(super) fn text(id: u64, title: String, text: TextBody) -> Self {
        Self { id, title, body: Body::Text(text), waits_for: None, is_stale: false }
    }

    /// The turns that keys act on.
    pub(super) fn span(&self) -> Option<&Span> {
        match &self.body {
            Body::List(body) => body.list.row()?.span.as_ref(),
            Body::Text(text) => text.span.as_ref(),
        }
    }

    /// The row that keys act on.
    pub(super) fn row(&self) -> Option<&Row> {
        match &self.body {
            Body::List(body) => body.list.row(),
            Body::Text(_) => None,
        }
    }

    /// The branch that keys act on.
    pub(super) fn branch(&self) -> Option<&BranchName> {
        let of_row = self.row().and_then(|row| row.branch.as_ref());
        of_row.or(match &self.body {
            Body::List(ListBody { kind: ListKind::Turns { branch, .. }, .. }) => Some(branch),
            _ => None,
        })
    }

    /// The session that keys act on.
    pub(super) fn session(&self) -> Option<&str> {
        let of_row = self.row().and_then(|row| row.session.as_deref());
        of_row.or_else(|| Some(self.span()?.session.as_str())).or(match &self.body {
            Body::List(ListBody { kind: ListKind::Turns { branch, .. }, .. }) => {
                Some(branch.session())
            }
            Body::List(ListBody { kind: ListKind::Branches { session }, .. }) => Some(session),
            _ => None,
        })
    }

    /// Shows the answer to a question of this screen; ignores an answer to an older question.
    pub(super) fn take(&mut self, question: &Question, answer: Answer) {
        let is_awaited = self.waits_for.as_ref() == Some(question);
        self.waits_for.take_if(|_| is_awaited);
        match (&mut self.body, answer) {
            (Body::List(body), Answer::Rows { rows, more, note }) if is_awaited => {
                let filling = if question.goes_on() { Filling::Behind } else { Filling::First };
                body.note = note;
                body.list.fill(rows, more, filling);
            }
            (Body::List(body), Answer::Text(lines)) => body.take_said(question, lines),
            (Body::Text(text), Answer::Text(lines)) => text.set(lines),
            (Body::List(_) | Body::Text(_), Answer::Rows { .. }) => {}
        }
    }

    /// Shows that a question failed.
    pub(super) fn fail(&mut self, question: &Question, why: &str) {
        let is_awaited = self.waits_for.as_ref() == Some(question);
        self.waits_for.take_if(|_| is_awaited);
        match &mut self.body {
            Body::Text(text) => text.set(vec![Line::new(Tone::Removed, why)]),
            Body::List(body) if is_awaited => {
                body.list.fail();
                body.note = Some(why.to_owned());
            }
            Body::List(body) => body.take_said(question, vec![Line::new(Tone::Removed, why)]),
        }
    }
}

impl ListBody {
    /// Keeps a preview text, if it answers the last question for a preview.
    fn take_said(&mut self, question: &Question, lines: Vec<Line>) {
        if let Some((asked, answer)) = &mut self.said
            && asked == question
        {
            *answer = Some(lines);
        }
    }

    /// The preview of the chosen row: its details, and its text once it was read.
    pub(super) fn preview(&self) -> Vec<Line> {
        let Some(row) = self.list.row() else { return Vec::new() };
        let mut lines = row.details.clone();
        if let (Some((asked, Some(answer))), Some(said)) = (&self.said, row.said())
            && *asked == said
        {
            if !lines.is_empty() {
                lines.push(Line::empty());
            }
            lines.extend(answer.iter().cloned());
        }
        lines
    }
}

impl TextBody {
    /// A text with known lines.
    pub(super) fn of(lines: Vec<Line>) -> Self {
        Self { lines, ..Self::default() }
    }

    /// A text about turns that is not read yet.
    pub(super) fn about(span: Option<Span>) -> Self {
        Self { span, ..Self::default() }
    }

    /// A plan that waits for a confirmation.
    pub(super) fn asking(lines: Vec<Line>, act: Act) -> Self {
        Self { lines, act: Some(act), ..Self::default() }
    }

    fn set(&mut self, lines: Vec<Line>) {
        self.lines = lines;
        self.columns = 0;
    }

    /// Wraps the text for so many columns, and moves its top up so that no rows stay empty.
    pub(super) fn settle(&mut self, columns: usize, rows: usize) {
        if self.columns != columns || self.shown.is_empty() {
            self.shown = wrapped(&self.lines, columns);
            self.columns = columns;
        }
        self.top = self.top.min(self.shown.len().saturating_sub(rows));
    }

    pub(super) fn go_by(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows);
    }
}
