//! Draws a state into cells.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use turntree::object::Time;

use super::content::{Cell, Column, Row};
use super::layout::Layout;
use super::screen::{Body, ListBody, TextBody};
use super::state::State;
use super::text::{Line, Tone, wrapped};
use crate::view::clock;
use crate::view::render::{columns_of, cut, one_line, padded};

/// Columns between two columns of a list.
const GAP: usize = 2;

/// Width reserved for the keys of a list.
const FOR_KEYS: usize = 80;

/// Draws a state on an empty screen of its size; `has_colour` permits colours.
pub(super) fn draw(state: &State, has_colour: bool) -> Buffer {
    let (columns, rows) = state.size();
    let mut canvas = Canvas { cells: Buffer::empty(Rect::new(0, 0, columns, rows)), has_colour };
    let layout = Layout::of(columns, rows);
    canvas.header(state, layout.header);
    if let Some(screen) = state.screens().last() {
        match &screen.body {
            Body::List(body) => canvas.list(body, &layout, state.now),
            Body::Text(text) => canvas.text(text, layout.body),
        }
    }
    canvas.footer(state, layout.footer);
    canvas.cells
}

/// Cells, and whether colours may be used in them.
struct Canvas {
    cells: Buffer,
    has_colour: bool,
}

impl Canvas {
    fn style(&self, tone: Tone) -> Style {
        let colour = |colour| if self.has_colour { Style::new().fg(colour) } else { Style::new() };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            Tone::Name => colour(Color::Cyan),
            Tone::Id => colour(Color::Yellow),
            Tone::Added => colour(Color::Green),
            Tone::Removed => colour(Color::Red),
        }
    }

    /// Writes a line of text into the row `row` of a part of the screen.
    fn put(&mut self, part: Rect, row: usize, text: &str, style: Style) {
        let (line, width) = (row_of(part, row), usize::from(part.width));
        if !line.is_empty() {
            self.cells.set_stringn(line.x, line.y, cut(text, width), width, style);
        }
    }

    /// Draws the titles of the open screens, and the position in the last one.
    fn header(&mut self, state: &State, part: Rect) {
        let width = usize::from(part.width);
        let place = match state.screens().last().map(|screen| &screen.body) {
            _ if state.is_waiting() => "reading".to_owned(),
            Some(Body::List(body)) if !body.list.rows().is_empty() => {
                let (at, all) = (body.list.chosen() + 1, body.list.rows().len());
                format!("{at} of {all}{}", if body.list.has_more() { "+" } else { "" })
            }
            Some(Body::Text(text)) if text.shown.len() > usize::from(state.size().1) => {
                format!("line {} of {}", text.top + 1, text.shown.len())
            }
            _ => String::new(),
        };
        let titles: Vec<&str> = state.screens().iter().map(|it| it.title.as_str()).collect();
        // A long path of titles keeps its end.
        let left = width.saturating_sub(columns_of(&place) + GAP);
        let mut title = format!("turntree  {}", titles.join(" > "));
        let mut first = 0;
        while columns_of(&title) > left && first + 1 < titles.len() {
            first += 1;
            let last = titles.get(first..).unwrap_or_default();
            title = format!("turntree  … > {}", last.join(" > "));
        }
        let title = one_line(&title, left);
        let line = format!("{}{place}", padded(&title, width.saturating_sub(columns_of(&place))));
        let style = Style::new().add_modifier(Modifier::REVERSED);
        self.cells.set_style(part, style);
        self.put(part, 0, &line, style);
    }

    /// Draws the line being typed, the last message, or the most important keys.
    fn footer(&mut self, state: &State, part: Rect) {
        if let Some(input) = &state.input {
            let (label, width) = (input.label(), usize::from(part.width));
            // Shows the end of a long line, where the user types.
            let room = width.saturating_sub(columns_of(&label) + 1).max(1);
            let mut shown = one_line(&input.text, usize::MAX);
            if input.text.ends_with(' ') {
                shown.push(' ');
            }
            while columns_of(&shown) > room && !shown.is_empty() {
                shown.remove(0);
            }
            let line = format!("{} {shown}█", one_line(&label, width / 2 + room));
            self.put(part, 0, &line, Style::new());
            return;
        }
        if let Some(Line { tone, text }) = &state.notice {
            let style = self.style(*tone);
            self.put(part, 0, text, style);
            return;
        }
        let is_narrow = usize::from(part.width) < FOR_KEYS;
        let keys = match state.screens().last().map(|screen| &screen.body) {
            Some(Body::Text(TextBody { act: Some(_), .. })) => "y does it  escape leaves it",
            Some(Body::Text(_)) => "escape back  d changes  f fork  r resume  ? keys  q ends",
            _ if is_narrow => "enter opens  / search  ? keys  q ends",
            _ => "enter opens  / search  b strategies  d changes  f fork  r resume  u undo  ? keys",
        };
        let style = self.style(Tone::Faint);
        self.put(part, 0, keys, style);
    }

    fn text(&mut self, text: &TextBody, part: Rect) {
        let lines = text.shown.iter().skip(text.top).take(usize::from(part.height));
        for (row, line) in lines.enumerate() {
            let style = self.style(line.tone);
            self.put(part, row, &line.text, style);
        }
    }

    fn list(&mut self, body: &ListBody, layout: &Layout, now: Time) {
        let Layout { headings, list: part, preview, .. } = *layout;
        let rows: Vec<(usize, &Row)> = (body.list.rows().iter().enumerate())
            .skip(body.list.top())
            .take(layout.list_rows())
            .collect();
        if rows.is_empty() {
            let note = match (&body.note, body.list.is_read()) {
                (Some(note), _) => note.as_str(),
                (None, true) => "nothing is here",
                (None, false) => "",
            };
            let note = wrapped(&[Line::new(Tone::Faint, note)], usize::from(part.width).max(2));
            self.lines(&note, part);
            return;
        }
        let shown: Vec<&Row> = rows.iter().map(|(_, row)| *row).collect();
        let columns = Columns::of(body.kind.columns(), &shown, usize::from(part.width), now);
        if let Some(part) = headings {
            let style = self.style(Tone::Faint);
            self.put(part, 0, &columns.headings(), style);
        }
        for (at, (number, row)) in rows.iter().enumerate() {
            let mut style = self.style(row.tone);
            if *number == body.list.chosen() {
                style = style.add_modifier(Modifier::REVERSED);
                self.cells.set_style(row_of(part, at), style);
            }
            self.put(part, at, &columns.line(row, now), style);
        }
        let Some(preview) = preview else { return };
        if preview.y > part.y {
            let line = Rect { y: preview.y.saturating_sub(1), height: 1, ..preview };
            let style = self.style(Tone::Faint);
            self.put(line, 0, &"─".repeat(usize::from(line.width)), style);
        }
        let lines = body.preview();
        // Wraps only lines that can be visible.
        let lines = lines.get(..usize::from(preview.height)).unwrap_or(&lines);
        self.lines(&wrapped(lines, usize::from(preview.width).max(2)), preview);
    }

    fn lines(&mut self, lines: &[Line], part: Rect) {
        for (row, line) in lines.iter().take(usize::from(part.height)).enumerate() {
            let style = self.style(line.tone);
            self.put(part, row, &line.text, style);
        }
    }
}

/// The columns of a list that are shown, and their widths.
struct Columns {
    shown: Vec<(usize, &'static Column, usize)>,
}

impl Columns {
    /// Fits columns into `width`, by the visible rows.
    fn of(columns: &'static [Column], rows: &[&Row], width: usize, now: Time) -> Self {
        let mut shown: Vec<(usize, &Column, usize)> = Vec::new();
        let mut left = width;
        let Some((last, columns)) = columns.split_last() else { return Self { shown } };
        for (number, column) in columns.iter().enumerate() {
            let widths = rows.iter().map(|row| columns_of(&cell(row, number, now)));
            let widest = widths.max().unwrap_or(0).min(column.most);
            if column.from > width || widest == 0 {
                continue;
            }
            let wide = widest.max(columns_of(column.heading).min(column.most));
            left = left.saturating_sub(wide + GAP);
            shown.push((number, column, wide));
        }
        shown.push((columns.len(), last, left.max(1)));
        Self { shown }
    }

    fn headings(&self) -> String {
        self.join(|(_, column, wide)| (column.heading.to_owned(), *wide))
    }

    fn line(&self, row: &Row, now: Time) -> String {
        self.join(|(number, _, wide)| (one_line(&cell(row, *number, now), *wide), *wide))
    }

    fn join(&self, text: impl Fn(&(usize, &'static Column, usize)) -> (String, usize)) -> String {
        let cells = self.shown.iter().map(|column| {
            let (text, wide) = text(column);
            let room = wide.saturating_sub(columns_of(&text));
            let is_number = column.1.is_number;
            let (before, after) = if is_number { (room, 0) } else { (0, room) };
            format!("{:before$}{text}{:after$}", "", "")
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    }
}

/// The rectangle of a row of a part of the screen; empty if the part has fewer rows.
fn row_of(part: Rect, row: usize) -> Rect {
    let row = u16::try_from(row).unwrap_or(u16::MAX);
    let line = Rect { y: part.y.saturating_add(row), height: 1, ..part };
    if row < part.height { line } else { Rect::default() }
}

/// The text of a cell.
fn cell(row: &Row, number: usize, now: Time) -> String {
    match row.cells.get(number) {
        Some(Cell::Text(text)) => one_line(text, usize::MAX),
        Some(Cell::Age(time)) => clock::age(*time, now),
        None => String::new(),
    }
}
