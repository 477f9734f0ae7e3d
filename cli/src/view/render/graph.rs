//! The commit graph of a log: which commit continues which, in columns of lines.
//!
//! Commits come children first. Every column waits for one commit, the next one on its line. A
//! commit takes the leftmost column that waits for it, and the other waiting columns join it there.
//! Its first parent continues in its column, and each further parent gets a new column.
//!
//! The number of columns is limited. In a graph of more branches than columns, a line joins the
//! column that waits for the same commit at once, and not only above that commit: any number of
//! branches that begin at one turn need two columns. A line for which no column is free is folded:
//! its commits are not drawn until a column is free or one waits for them.

use std::collections::HashSet;
use std::hash::Hash;

/// Draws commits one after another.
#[derive(Debug)]
pub(crate) struct Graph<T> {
    columns: Vec<Option<T>>,
    /// The largest number of columns.
    most: usize,
    /// True if lines join as soon as they wait for the same commit.
    joins_at_once: bool,
    /// The commits for which folded lines wait.
    folded: HashSet<T>,
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
    /// The line below that, where the commit's line joins one that waits for the same commit.
    pub(crate) ends: Option<String>,
    /// The number of parents whose lines are folded.
    pub(crate) folded_parents: usize,
}

/// A commit in a graph.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// It has a column.
    Row(GraphRow),
    /// It is folded.
    Folded {
        /// True if it begins a line.
        is_tip: bool,
    },
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

impl<T: Copy + Eq + Hash> Graph<T> {
    /// An empty graph of `tips` lines, with at most `most` columns.
    pub(crate) fn new(tips: usize, most: usize) -> Self {
        let joins_at_once = tips > most;
        Self { columns: Vec::new(), most, joins_at_once, folded: HashSet::new() }
    }

    /// Draws the commit `id`.
    pub(crate) fn add(&mut self, id: T, parents: &[T]) -> Drawn {
        let mut waiting = self.waiting_for(id);
        let free = self.free(0);
        if waiting.is_empty() && free >= self.most {
            self.folded.extend(parents);
            return Drawn::Folded { is_tip: !self.folded.remove(&id) };
        }
        self.folded.remove(&id);
        let column = if waiting.is_empty() { free } else { waiting.remove(0) };
        self.set(column, Some(id));
        let ends: Vec<_> = waiting.iter().map(|at| (*at, Meeting::Ends)).collect();
        let joins = self.connect(column, &ends);
        for at in waiting {
            self.set(at, None);
        }
        let node = self.line(|at| (at == column).then_some('●'));

        self.set(column, parents.first().copied());
        let (mut meetings, mut folded_parents) = (Vec::new(), 0);
        for parent in parents.iter().skip(1) {
            let free = self.free(column + 1);
            match self.waiting_for(*parent).into_iter().find(|at| *at != column) {
                Some(at) => meetings.push((at, Meeting::GoesOn)),
                None if free >= self.most => {
                    self.folded.insert(*parent);
                    folded_parents += 1;
                }
                None => {
                    self.set(free, Some(*parent));
                    meetings.push((free, Meeting::Begins));
                }
            }
        }
        let forks = self.connect(column, &meetings);
        let first = parents.first().filter(|_| self.joins_at_once);
        let same =
            first.and_then(|first| self.waiting_for(*first).into_iter().find(|at| *at != column));
        let ends = same.and_then(|same| self.connect(same, &[(column, Meeting::Ends)]));
        if ends.is_some() {
            self.set(column, None);
        }
        while self.columns.last().is_some_and(Option::is_none) {
            self.columns.pop();
        }
        Drawn::Row(GraphRow { joins, node, forks, ends, folded_parents })
    }

    /// Returns the columns next to a note on folded commits.
    pub(crate) fn folded_line(&self) -> String {
        self.line(|_| None)
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
        draw_in(usize::MAX, commits)
    }

    /// Draws commits in at most `most` columns.
    fn draw_in(most: usize, commits: &str) -> String {
        let commits = commits.split(' ').map(|commit| {
            let mut letters = commit.chars().filter(|c| *c != ':');
            (letters.next().unwrap(), letters.collect::<Vec<_>>())
        });
        let commits: Vec<(char, Vec<char>)> = commits.collect();
        let is_tip = |id: char| !commits.iter().any(|(_, parents)| parents.contains(&id));
        let tips = commits.iter().filter(|(id, _)| is_tip(*id)).count();
        let mut graph = Graph::new(tips, most);
        let mut drawn = String::new();
        for (id, parents) in &commits {
            let lines = match graph.add(*id, parents) {
                Drawn::Row(GraphRow { joins, node, forks, ends, folded_parents }) => {
                    let folded = "+".repeat(folded_parents);
                    vec![joins, Some(format!("{node} {id}{folded}")), forks, ends]
                }
                Drawn::Folded { is_tip } => {
                    let word = if is_tip { "tip" } else { "turn" };
                    vec![Some(format!("{} {word} {id}", graph.folded_line()))]
                }
            };
            for line in lines.into_iter().flatten() {
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

    #[test]
    fn many_branches_of_one_turn_need_two_columns() {
        assert_eq!(
            draw_in(2, "x:w w:a y:a z:a a:"),
            "\
● x
● w
│ ● y
├─╯
│ ● z
├─╯
● a
"
        );
    }

    #[test]
    fn lines_without_a_free_column_are_folded_until_there_is_one() {
        assert_eq!(
            draw_in(2, "p:a q:b r:c s:r a: b: c:"),
            "\
● p
│ ● q
│ │ tip r
│ │ tip s
● │ a
  ● b
● c
"
        );
        assert_eq!(
            draw_in(2, "p:ab q:c a: b: c:"),
            "\
● p
├─╮
│ │ tip q
● │ a
  ● b
● c
"
        );
        assert_eq!(
            draw_in(1, "p:ab a:b b:"),
            "\
● p+
● a
● b
"
        );
    }

    /// The commits of `branches` branches of 3 turns. Branch `n` begins at turn `n` of a line if
    /// `is_spread`, otherwise all begin at one turn.
    fn wide(branches: u32, is_spread: bool) -> Vec<(u32, Vec<u32>)> {
        let mut commits = Vec::new();
        for branch in 0..branches {
            let start = if is_spread { branches - branch } else { 0 };
            let first = 1_000_000 + 10 * branch;
            commits.push((first, vec![first + 1]));
            commits.push((first + 1, vec![first + 2]));
            commits.push((first + 2, vec![start]));
        }
        let line = (0..=branches).rev();
        commits.extend(line.map(|turn| (turn, turn.checked_sub(1).into_iter().collect())));
        commits
    }

    #[test]
    fn graphs_grow_with_their_commits_and_every_line_ends_at_its_parent() {
        for is_spread in [false, true] {
            let mut sizes = Vec::new();
            for branches in [500, 5000] {
                let mut graph = Graph::new(branches as usize, 64);
                let (mut bytes, mut folded) = (0, 0);
                for (id, parents) in wide(branches, is_spread) {
                    match graph.add(id, &parents) {
                        Drawn::Folded { .. } => folded += 1,
                        Drawn::Row(row) => {
                            let lines = [row.joins, Some(row.node), row.forks, row.ends];
                            bytes += lines.iter().flatten().map(String::len).sum::<usize>();
                        }
                    }
                    assert!(graph.columns.len() <= 64);
                }
                assert!(graph.columns.is_empty() && graph.folded.is_empty());
                assert_eq!(folded > 0, is_spread);
                sizes.push(bytes);
            }
            assert!(sizes[1] < 12 * sizes[0], "{sizes:?}");
        }
    }
}
