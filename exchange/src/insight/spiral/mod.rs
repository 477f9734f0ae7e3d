//! Tells if an agent goes in circles, by its last turns: advice, and never an act.
//!
//! A tool that is called again and again with the same arguments is the plain sign. That the store
//! knows files by their content gives better ones for nothing: a tree of files that was there some
//! turns ago, a file that swings between contents, and one file that the same tool works on with
//! other arguments each time, looks at it in between included.
//!
//! | verdict | means |
//! |---|---|
//! | none | no sign |
//! | progress | the same call, or the same file, again and again, and each time something new came of it |
//! | suspected | a sign, and what it did to the files is not known or not the same |
//! | confirmed | a sign, and the files are what they were |
//!
//! The streak of equal calls follows the reference behaviour proposed for open-codesign: the newest
//! three or more turns with one signature, confirmed when all of them left the same artifact.
//!
//! ```
//! use turntree_exchange::{SpiralStep, SpiralVerdict, find_spiral};
//!
//! let step = |turn| SpiralStep {
//!     turn,
//!     tool: Some("edit".into()),
//!     arguments: Some("{\"path\":\"a.rs\"}".into()),
//!     artifact: Some("the same".into()),
//!     ..SpiralStep::default()
//! };
//! let found = find_spiral(&[step(4), step(5), step(6)], 3);
//! assert_eq!(found.verdict, SpiralVerdict::Confirmed);
//! assert_eq!(found.rollback_to, Some(3));
//! ```

mod read;

use std::collections::{BTreeMap, BTreeSet};

pub use read::steps;

use turntree::object::ObjectId;

/// Equal calls in a row that are a sign.
pub const SPIRAL_WINDOW: usize = 3;

/// Turns that are looked at.
pub const SPIRAL_TURNS: usize = 50;

/// Turns in which a file may swing.
const SWING_TURNS: usize = 10;

/// Turns after which a tree that comes back once is a sign.
const RETURN_TURNS: usize = 5;

/// Times that a file comes back to an earlier content before that is a sign.
const SWINGS: usize = 2;

/// The step of a turn, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpiralStep {
    /// The turn.
    pub turn: u64,
    /// The tool that was called; `None` when none was.
    pub tool: Option<String>,
    /// The digest of its arguments: equal for equal ones.
    pub arguments: Option<String>,
    /// The digest of its artifact: equal for equal content. `None` when that is not known.
    pub artifact: Option<String>,
    /// The file that it was called for.
    pub path: Option<String>,
    /// The root of all files after the turn; `None` where files are not kept.
    pub files: Option<ObjectId>,
    /// Files that the turn changed, and what they are since; `None` for one that it deleted.
    pub changed: BTreeMap<String, Option<ObjectId>>,
}

/// The judgement of the last turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiralReport {
    /// The verdict.
    pub verdict: SpiralVerdict,
    /// The newest equal calls in a row, when there are enough of them.
    pub streak: Option<Streak>,
    /// The signs in the files.
    pub signs: Vec<Sign>,
    /// The turn before all of that, to go back to; `None` without a reason to go back, and when it began
    /// with the first turn.
    pub rollback_to: Option<u64>,
}

/// The verdict on the last turns. Ordered by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpiralVerdict {
    /// No sign.
    None,
    /// Equal calls, each of which changed something.
    Progress,
    /// Probably a circle.
    Suspected,
    /// A circle.
    Confirmed,
}

impl SpiralVerdict {
    /// The name in records; that of progress is the one that others use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Progress => "false_positive_progress",
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
        }
    }
}

/// Equal calls in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streak {
    /// The tool.
    pub tool: String,
    /// The tool and what stands for its arguments.
    pub signature: String,
    /// The turns, oldest first.
    pub turns: Vec<u64>,
    /// The verdict on them alone.
    pub verdict: SpiralVerdict,
}

/// A sign in the content of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    /// The kind.
    pub kind: SignKind,
    /// The file that it is about, if it is about one.
    pub path: Option<String>,
    /// The turns that show it, oldest first.
    pub turns: Vec<u64>,
    /// The verdict on it alone.
    pub verdict: SpiralVerdict,
}

/// Kinds of signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignKind {
    /// All files are what they were some turns ago, after something else.
    SameTree,
    /// A file swings between contents.
    Oscillation,
    /// The same tool with other arguments on one file, and nothing else in between but looks at it.
    SameFile,
}

impl SignKind {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameTree => "same-tree",
            Self::Oscillation => "oscillation",
            Self::SameFile => "same-file",
        }
    }
}

/// Judges turns, oldest first; `window` is the number of equal calls in a row that are a sign, at
/// least 2. Looks at the newest [`SPIRAL_TURNS`].
#[must_use]
pub fn find_spiral(steps: &[SpiralStep], window: usize) -> SpiralReport {
    let steps = steps.get(steps.len().saturating_sub(SPIRAL_TURNS)..).unwrap_or(steps);
    let window = window.max(2);
    let streak = streak(steps, window);
    let mut signs: Vec<Sign> = same_tree(steps).into_iter().collect();
    signs.extend(oscillations(steps));
    signs.extend(same_file(steps, window));
    let verdicts = signs.iter().map(|sign| sign.verdict);
    let verdict = verdicts.chain(streak.as_ref().map(|streak| streak.verdict)).max();
    let verdict = verdict.unwrap_or(SpiralVerdict::None);
    let is_bad = |of: SpiralVerdict| of >= SpiralVerdict::Suspected;
    let evidence = signs.iter().filter(|sign| is_bad(sign.verdict)).flat_map(|sign| &sign.turns);
    let streaks = streak.iter().filter(|streak| is_bad(streak.verdict));
    let first = evidence.chain(streaks.flat_map(|streak| &streak.turns)).min();
    let rollback_to = first.and_then(|first| first.checked_sub(1)).filter(|turn| *turn > 0);
    SpiralReport { verdict, streak, signs, rollback_to }
}

/// The newest turns with one signature.
fn streak(steps: &[SpiralStep], window: usize) -> Option<Streak> {
    let newest = steps.last()?;
    let (tool, arguments) = (newest.tool.clone()?, newest.arguments.clone()?);
    let is_equal =
        |step: &&SpiralStep| step.tool == newest.tool && step.arguments == newest.arguments;
    let mut equal: Vec<&SpiralStep> = steps.iter().rev().take_while(is_equal).collect();
    equal.reverse();
    if equal.len() < window {
        return None;
    }
    let made: Option<BTreeSet<&String>> = equal.iter().map(|step| step.artifact.as_ref()).collect();
    let verdict = match made {
        Some(made) if made.len() == 1 => SpiralVerdict::Confirmed,
        Some(made) if made.len() == equal.len() => SpiralVerdict::Progress,
        Some(_) | None => SpiralVerdict::Suspected,
    };
    let signature = format!("{tool}:{arguments}");
    Some(Streak { tool, signature, turns: turns(&equal), verdict })
}

/// The newest tree, when it was there before and another one in between: more than once, or after
/// several turns. To try something and take it back at once is no circle.
fn same_tree(steps: &[SpiralStep]) -> Option<Sign> {
    let newest = steps.last()?.files?;
    let is_newest = |step: &SpiralStep| step.files == Some(newest);
    let first = steps.iter().position(is_newest)?;
    let evidence: Vec<&SpiralStep> = steps.get(first..)?.iter().collect();
    let returns =
        evidence.windows(2).filter(|pair| matches!(pair, [a, b] if !is_newest(a) && is_newest(b)));
    let verdict = match returns.count() {
        0 => return None,
        1 if evidence.len() < RETURN_TURNS => return None,
        1 => SpiralVerdict::Suspected,
        _ => SpiralVerdict::Confirmed,
    };
    Some(Sign { kind: SignKind::SameTree, path: None, turns: turns(&evidence), verdict })
}

/// Files that came back to an earlier content more than once.
fn oscillations(steps: &[SpiralStep]) -> Vec<Sign> {
    let recent = steps.get(steps.len().saturating_sub(SWING_TURNS)..).unwrap_or(steps);
    let mut contents: BTreeMap<&String, Vec<(&SpiralStep, Option<ObjectId>)>> = BTreeMap::new();
    for step in recent {
        for (path, content) in &step.changed {
            contents.entry(path).or_default().push((step, *content));
        }
    }
    let mut signs = Vec::new();
    for (path, versions) in contents {
        let contents: BTreeSet<_> = versions.iter().map(|(_, content)| content).collect();
        let returns = versions.len() - contents.len();
        if returns >= SWINGS {
            let evidence: Vec<&SpiralStep> = versions.iter().map(|(step, _)| *step).collect();
            let (kind, path) = (SignKind::Oscillation, Some(path.clone()));
            signs.push(Sign {
                kind,
                path,
                turns: turns(&evidence),
                verdict: SpiralVerdict::Confirmed,
            });
        }
    }
    signs
}

/// The newest turns, when all of them are about one file and one tool tried it in several ways.
fn same_file(steps: &[SpiralStep], window: usize) -> Option<Sign> {
    let path = steps.last()?.path.as_ref()?;
    let mut about: Vec<&SpiralStep> =
        steps.iter().rev().take_while(|step| step.path.as_ref() == Some(path)).collect();
    about.reverse();
    let mut ways: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for step in &about {
        if let (Some(tool), Some(arguments)) = (&step.tool, &step.arguments) {
            ways.entry(tool).or_default().insert(arguments);
        }
    }
    ways.values().find(|ways| ways.len() >= window)?;
    let ends = about.first().zip(about.last());
    let unmoved =
        ends.is_some_and(|(first, last)| first.files.is_some() && first.files == last.files);
    let verdict = match unmoved {
        true => SpiralVerdict::Confirmed,
        false if is_each_new(&about, path) => SpiralVerdict::Progress,
        false => SpiralVerdict::Suspected,
    };
    let (kind, path) = (SignKind::SameFile, Some(path.clone()));
    Some(Sign { kind, path, turns: turns(&about), verdict })
}

/// Returns whether every step made of the file what it was at none of the others: steady work.
fn is_each_new(steps: &[&SpiralStep], path: &String) -> bool {
    let made = steps.iter().map(|step| step.changed.get(path).copied().flatten());
    made.collect::<Option<BTreeSet<_>>>().is_some_and(|made| made.len() == steps.len())
}

fn turns(steps: &[&SpiralStep]) -> Vec<u64> {
    steps.iter().map(|step| step.turn).collect()
}

#[cfg(test)]
mod tests {
    use turntree::object::Kind;

    use super::*;

    fn id(text: &str) -> ObjectId {
        ObjectId::of(Kind::Blob, text.as_bytes())
    }

    /// A turn that calls `tool` for `a.rs` and leaves the files as `content`.
    fn step(turn: u64, tool: &str, arguments: &str, content: &str) -> SpiralStep {
        SpiralStep {
            turn,
            tool: Some(tool.into()),
            arguments: Some(arguments.into()),
            artifact: Some(content.into()),
            path: Some("a.rs".into()),
            files: Some(id(content)),
            changed: BTreeMap::from([("a.rs".into(), Some(id(content)))]),
        }
    }

    #[test]
    fn work_that_goes_on_is_no_spiral() {
        let steps: Vec<SpiralStep> = (1..20)
            .map(|turn| SpiralStep {
                path: Some(format!("{turn}.rs")),
                changed: BTreeMap::from([(format!("{turn}.rs"), Some(id("x")))]),
                ..step(turn, "edit", &turn.to_string(), &turn.to_string())
            })
            .collect();
        for end in 0..steps.len() {
            let found = find_spiral(&steps[..end], SPIRAL_WINDOW);
            assert_eq!((found.verdict, found.rollback_to), (SpiralVerdict::None, None), "{end}");
        }
    }

    #[test]
    fn edits_and_looks_that_alternate_on_one_file_are_seen() {
        let steps: Vec<SpiralStep> = (41..=48)
            .map(|turn| match turn % 2 {
                1 => step(turn, "edit", &turn.to_string(), &turn.to_string()),
                _ => {
                    let looked = step(turn, "view", "a.rs", &(turn - 1).to_string());
                    SpiralStep { changed: BTreeMap::new(), ..looked }
                }
            })
            .collect();
        let found = find_spiral(&steps, SPIRAL_WINDOW);
        assert_eq!(found.verdict, SpiralVerdict::Suspected);
        let [sign] = &*found.signs else { panic!("{found:?}") };
        assert_eq!((sign.kind, sign.path.as_deref()), (SignKind::SameFile, Some("a.rs")));
        assert_eq!(sign.turns, (41..=48).collect::<Vec<_>>());
        assert_eq!(found.rollback_to, Some(40));
    }

    #[test]
    fn steady_writes_to_one_file_are_progress() {
        let steps: Vec<SpiralStep> =
            (1..=8).map(|turn| step(turn, "write", &turn.to_string(), &turn.to_string())).collect();
        let found = find_spiral(&steps, SPIRAL_WINDOW);
        assert_eq!((found.verdict, found.rollback_to), (SpiralVerdict::Progress, None));
        // One that changes nothing among them is a sign again.
        let mut steps = steps;
        steps[6].changed.clear();
        assert_eq!(find_spiral(&steps, SPIRAL_WINDOW).verdict, SpiralVerdict::Suspected);
    }

    #[test]
    fn files_that_come_back_are_a_circle() {
        let steps: Vec<SpiralStep> = (1..=5)
            .map(|turn| {
                let content = if turn % 2 == 0 { "b" } else { "a" };
                SpiralStep { path: None, ..step(turn, "edit", &turn.to_string(), content) }
            })
            .collect();
        let found = find_spiral(&steps, SPIRAL_WINDOW);
        let kinds: Vec<SignKind> = found.signs.iter().map(|sign| sign.kind).collect();
        assert_eq!(kinds, [SignKind::SameTree, SignKind::Oscillation]);
        assert_eq!((found.verdict, found.rollback_to), (SpiralVerdict::Confirmed, None));
        assert_eq!(found.signs[0].turns, [1, 2, 3, 4, 5]);
        assert_eq!(
            find_spiral(&steps[..3], SPIRAL_WINDOW).verdict,
            SpiralVerdict::None,
            "tried once"
        );
    }
}
