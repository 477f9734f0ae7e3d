//! Content of screens: questions to the store, and rows and lines as answers.

use turntree::object::{ObjectId, Time};
use turntree::repo::BranchName;

use super::text::{Line, Tone};

/// Turns of a branch: those after `base` up to `until`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) session: String,
    /// The snapshot before the first turn; `None` when the first turn begins the history.
    pub(super) base: Option<ObjectId>,
    pub(super) until: ObjectId,
    /// The number of the last turn.
    pub(super) turn: u64,
}

/// A question of a screen to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// The newest sessions.
    Sessions { most: usize },
    /// The prompts of a branch, or all of its turns, newest first, from a snapshot or the tip on.
    Turns { branch: BranchName, from: Option<ObjectId>, every_turn: bool },
    /// The messages of turns.
    Said(Span),
    /// The changes of turns.
    Changes(Span),
    /// The branches of a session.
    Branches { session: String },
    /// Hits of a search for words, best first.
    Search { words: String },
    /// Operations, newest first: those before a number, or all.
    Operations { before: Option<u64> },
    /// Pins, newest first.
    Pins,
}

impl Question {
    /// Returns true if the answer continues existing rows.
    pub(super) const fn goes_on(&self) -> bool {
        matches!(self, Self::Turns { from: Some(_), .. } | Self::Operations { before: Some(_) })
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// The rows of a list, and the question for its next rows.
    Rows { rows: Vec<Row>, more: Option<Question>, note: Option<String> },
    /// A text.
    Text(Vec<Line>),
}

/// A cell of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Text(String),
    /// A time, shown as an age.
    Age(Time),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Identifies the row when the list is read again.
    pub(super) key: String,
    /// A cell for each column of the list, the title last.
    pub(super) cells: Vec<Cell>,
    pub(super) tone: Tone,
    /// The session of the row.
    pub(super) session: Option<String>,
    /// The branch of the row.
    pub(super) branch: Option<BranchName>,
    /// The turns of the row.
    pub(super) span: Option<Span>,
    /// The number of the row's operation.
    pub(super) operation: Option<u64>,
    /// The name of the row's pin.
    pub(super) pin: Option<String>,
    /// Lines shown in the preview without another question.
    pub(super) details: Vec<Line>,
    /// True when the preview also shows the messages of its turns.
    pub(super) speaks: bool,
}

impl Row {
    /// The question whose answer the preview shows below the details.
    pub(super) fn said(&self) -> Option<Question> {
        self.span.clone().filter(|_| self.speaks).map(Question::Said)
    }
}

/// The kind of list that a screen shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListKind {
    Sessions,
    Turns { branch: BranchName, every_turn: bool },
    Branches { session: String },
    Hits { words: String },
    Operations,
    Pins,
}

impl ListKind {
    /// The question for the first rows, at most `most` of sessions.
    pub(super) fn question(&self, most: usize) -> Question {
        match self {
            Self::Sessions => Question::Sessions { most },
            Self::Turns { branch, every_turn } => {
                Question::Turns { branch: branch.clone(), from: None, every_turn: *every_turn }
            }
            Self::Branches { session } => Question::Branches { session: session.clone() },
            Self::Hits { words } => Question::Search { words: words.clone() },
            Self::Operations => Question::Operations { before: None },
            Self::Pins => Question::Pins,
        }
    }

    /// The columns.
    pub(super) const fn columns(&self) -> &'static [Column] {
        match self {
            Self::Sessions => &SESSIONS,
            Self::Turns { .. } => &TURNS,
            Self::Branches { .. } => &BRANCHES,
            Self::Hits { .. } => &HITS,
            Self::Operations => &OPERATIONS,
            Self::Pins => &PINS,
        }
    }
}

/// A column of a list.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) is_number: bool,
    /// Width of the screen from which the column is shown.
    pub(super) from: usize,
    /// Maximum width; the last column takes the remaining width.
    pub(super) most: usize,
}

const fn column(heading: &'static str, from: usize, most: usize) -> Column {
    Column { heading, is_number: false, from, most }
}

const fn number(heading: &'static str, from: usize) -> Column {
    Column { heading, is_number: true, from, most: 8 }
}

const SESSIONS: [Column; 6] = [
    column("", 0, 1),
    column("age", 0, 10),
    column("agent", 60, 14),
    column("project", 60, 20),
    number("prompts", 50),
    column("title", 0, 0),
];
const TURNS: [Column; 5] = [
    number("", 0),
    column("age", 0, 10),
    column("time", 70, 16),
    number("turns", 60),
    column("", 0, 0),
];
const BRANCHES: [Column; 5] = [
    column("branch", 0, 30),
    column("age", 0, 10),
    number("turn", 40),
    number("own", 50),
    column("newest", 0, 0),
];
const HITS: [Column; 5] = [
    column("session", 60, 24),
    number("turn", 0),
    column("age", 0, 10),
    column("", 60, 10),
    column("", 0, 0),
];
const OPERATIONS: [Column; 4] =
    [number("", 0), column("age", 0, 10), column("actor", 60, 16), column("", 0, 0)];
const PINS: [Column; 5] = [
    column("pin", 0, 24),
    column("age", 0, 10),
    column("session", 60, 20),
    number("turn", 40),
    column("reason", 0, 0),
];
