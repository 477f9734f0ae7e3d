//! The help sheet of keys.

use super::text::{Line, Tone, lines};

const KEYS: [(&str, &str); 19] = [
    ("enter", "opens a session, a strategy, a prompt, a hit"),
    ("escape", "goes back"),
    ("j k, arrows", "down and up; space, page up, page down, g and G go further"),
    ("/", "searches everything: words, \"phrases\", wor*"),
    ("b", "strategies: the branches of the session"),
    ("t", "every turn instead of prompts, and back"),
    ("d", "the changes of the turn"),
    ("f", "forks: begins a branch at the turn"),
    ("m", "merges the strategy into the branch that you name: a plan first"),
    ("p, P", "pins the turn, or takes off the chosen pin: a plan first; all pins"),
    ("r", "resumes: shows the command and its files; r or enter runs it"),
    ("u", "undoes your newest operation, in the log the chosen one: a plan first"),
    ("o", "the log of operations"),
    ("y", "says yes to a plan"),
    ("?", "this sheet"),
    ("ctrl-l", "redraws the screen"),
    ("ctrl-u", "clears the input line"),
    ("ctrl-z", "stops the program until 'fg'"),
    ("q, ctrl-c", "ends"),
];

/// Width of the names of keys.
const NAMES: usize = 12;

/// The lines of the help sheet.
pub(super) fn lines_of_keys() -> Vec<Line> {
    let mut sheet = Vec::new();
    for (keys, what) in KEYS {
        sheet.extend(lines(Tone::Plain, "", &format!("{keys:<NAMES$} {what}")));
    }
    sheet.push(Line::empty());
    let watching = "New commits appear automatically. A selection on the first row of a list \
        stays on the first row.";
    sheet.extend(lines(Tone::Faint, "", watching));
    sheet
}
