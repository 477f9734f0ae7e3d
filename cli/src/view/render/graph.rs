//! The commit graph of a log: which commit continues which, in columns of lines.
//!
//! Commits come children first. Every column waits for one commit, the next one on its line. A
//! commit takes the leftmost column that waits for it, and the other waiting columns join it there.
//! Its first parent continues in its column, and each further parent gets a new column.

/// Draws commits one after another.
#[derive(Debug)]
pub(crate) struct Graph<T> {
    columns: Vec<Option<T>>,
}

/// The graph lines to the left of a commit's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GraphRow {
    /// The line above the commit, where columns join its own.
    pub(crate) joins: Option<String>,
    /// The line of the commit.
    pub(crate) node: String,
    /// The line below, where the columns of further parents begin.
    pub(crate) forks: Option<String>,
    /// Every further line, up to the next commit.
    pub(crate) rest: String,
}

/// How a column meets the line that a commit draws to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meeting {
    /// It ends there.
    Ends,
    /// It begins there.
    Begins,
    /// It existed and continues.
    GoesOn,
}

impl<T: Copy + Eq> Graph<T> {
    /// An empty graph.
    pub(crate) fn new() -> Self {
        Self { columns: Vec::new() }
    }

    /// Draws the commit `id`.
    pub(crate) fn add(&mut self, id: T, parents: &[T]) -> GraphRow {
        let mut waiting = self.waiting_for(id);
        let column = if waiting.is_empty() { self.free(0) } else { waiting.remove(0) };
        self.set(column, Some(id));
        let ends: Vec<_> = waiting.iter().map(|at| (*at, Meeting::Ends)).collect();
        let joins = self.connect(column, &ends);
        for at in waiting {
            self.set(at, None);
        }
        let node = self.line(|at| (at == column).then_some('●'));

        self.set(column, parents.first().copied());
        let mut meetings = Vec::new();
        for parent in parents.iter().skip(1) {
            match self.waiting_for(*parent).into_iter().find(|at| *at != column) {
                Some(at) => meetings.push((at, Meeting::GoesOn)),
                None => {
                    let at = self.free(column + 1);
                    self.set(at, Some(*parent));
                    meetings.push((at, Meeting::Begins));
                }
            }
        }
        let forks = self.connect(column, &meetings);
        while self.columns.last().is_some_and(Option::is_none) {
            self.columns.pop();
        }
        GraphRow { joins, node, forks, rest: self.line(|_| None) }
    }

    fn waiting_for(&self, id: T) -> Vec<usize> {
        let waits = |(at, column): (usize, &Option<T>)| (*column == Some(id)).then_some(at);
        self.columns.iter().enumerate().filter_map(waits).collect()
    }

    /// The first column from `from` on that waits for no commit.
    fn free(&self, from: usize) -> usize {
        let free = self.columns.iter().skip(from).position(Option::is_none);
        free.map_or(self.columns.len().max(from), |at| from + at)
    }

    fn set(&mut self, at: usize, value: Option<T>) {
        if at >= self.columns.len() {
            self.columns.resize(at + 1, None);
        }
        if let Some(column) = self.columns.get_mut(at) {
            *column = value;
        }
    }

    /// A line of columns, with characters of `instead` replacing some of them.
    fn line(&self, instead: impl Fn(usize) -> Option<char>) -> String {
        let mut line = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            line.push(instead(at).unwrap_or(if column.is_some() { '│' } else { ' ' }));
            line.push(' ');
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// The line that connects `column` with others.
    fn connect(&self, column: usize, meetings: &[(usize, Meeting)]) -> Option<String> {
        let ends = || meetings.iter().map(|(at, _)| *at);
        let (first, last) = (ends().min()?.min(column), ends().max()?.max(column));
        let mut line = String::new();
        for (at, waits) in self.columns.iter().enumerate() {
            let meeting = meetings.iter().find(|(met, _)| *met == at).map(|(_, meeting)| *meeting);
            let (left, right) = (at > first && at <= last, at >= first && at < last);
            line.push(match meeting {
                _ if at == column => corner(true, true, left, right),
                Some(meeting) => {
                    corner(meeting != Meeting::Begins, meeting != Meeting::Ends, left, right)
                }
                None if waits.is_some() => '│',
                None if left && right => '─',
                None => ' ',
            });
            line.push(if right { '─' } else { ' ' });
        }
        line.truncate(line.trim_end().len());
        Some(line)
    }
}

/// The character with lines in these directions.
fn corner(up: bool, down: bool, left: bool, right: bool) -> char {
    match (up, down, left, right) {
        (true, true, true, true) => '┼',
        (true, true, false, true) => '├',
        (true, true, true, false) => '┤',
        (true, false, true, true) => '┴',
        (true, false, true, false) => '╯',
        (true, false, false, true) => '╰',
        (false, true, true, true) => '┬',
        (false, true, true, false) => '╮',
        (false, true, false, true) => '╭',
        _ => '│',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws commits written as `child:parents`.
    fn draw(commits: &str) -> String {
        let mut graph = Graph::new();
        let mut drawn = String::new();
        for commit in commits.split(' ') {
            let mut letters = commit.chars().filter(|c| *c != ':');
            let id = letters.next().unwrap();
            let row = graph.add(id, &letters.collect::<Vec<_>>());
            for line in
                [row.joins, Some(format!("{} {id}", row.node)), row.forks].into_iter().flatten()
            {
                drawn.push_str(&line);
                drawn.push('\n');
            }
        }
        drawn
    }

    #[test]
    fn a_line_is_a_line() {
        assert_eq!(draw("c:b b:a a:"), "● c\n● b\n● a\n");
    }

    #[test]
    fn branches_join_where_they_began() {
        assert_eq!(
            draw("e:c d:b c:b b:a a:"),
            "\
● e
│ ● d
● │ c
├─╯
● b
● a
"
        );
    }

    #[test]
    fn a_merge_shows_both_sides() {
        assert_eq!(
            draw("d:bc c:a b:a a:"),
            "\
● d
├─╮
│ ● c
● │ b
├─╯
● a
"
        );
    }

    #[test]
    fn three_strategies_and_one_merge_stay_apart() {
        assert_eq!(
            draw("g:ef f:a e:a d:a a:"),
            "\
● g
├─╮
│ ● f
● │ e
│ │ ● d
├─┴─╯
● a
"
        );
    }

    #[test]
    fn a_merge_with_a_known_line_crosses_those_between() {
        assert_eq!(
            draw("x:a y:b z:cx x:a"),
            "\
● x
│ ● y
│ │ ● z
│ │ ├─╮
│ │ │ ● x
"
        );
        assert_eq!(
            draw("p:a q:b r:ca c: b: a:"),
            "\
● p
│ ● q
│ │ ● r
├─│─┤
│ │ ● c
│ ● b
● a
"
        );
    }

    #[test]
    fn unrelated_histories_stand_beside_each_other() {
        assert_eq!(
            draw("b:a d:c a: c:"),
            "\
● b
│ ● d
● │ a
  ● c
"
        );
    }
}
