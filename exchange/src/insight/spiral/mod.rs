//! Tells if an agent goes in circles, by its last turns: advice, and never an act.
//!
//! A tool that is called again and again with the same arguments is the plain sign. That the store
//! knows files by their content gives better ones for nothing: a tree of files that was there some
//! turns ago, a file that swings between contents or whose size goes up and down, and one file that the same
//! tool works on with other arguments each time, looks at it in between included.
//!
//! | verdict | means |
//! |---|---|
//! | none | no sign |
//! | progress | the same call, or the same file, again and again, and each time something new came of it |
//! | suspected | a sign, and what it did to the files is not known or not the same |
//! | confirmed | a sign, and the files are what they were |
//!
//! A loop begins no earlier than the newest prompt: what a person asks for is no circle of the agent's. What
//! the files were before the prompt counts as a content to come back to. The turn to go back to is the last
//! one before the damage: that before the prompt, if nothing else has changed a file since.
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

/// Edits of one file whose sizes are compared.
const SIZED_EDITS: usize = 12;

/// Times in a row that an edit takes back half or more of what the one before it has added or taken, before
/// that is a sign: work that goes on adds more than it takes back.
const SIZE_SWINGS: usize = 4;

/// Edits before the first of these that count as its beginning.
const FEW_EDITS: usize = 2;

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
    /// The sizes of those of them that are there, in bytes; of others nothing is known.
    pub sizes: BTreeMap<String, u64>,
    /// Set when the turn begins with a prompt of a person.
    pub is_prompt: bool,
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
    /// The last turn before the damage, to go back to; `None` without a reason to go back, and when it began
    /// with the first turn.
    pub rollback_to: Option<u64>,
}

/// The newest turns: those since the newest prompt, with what was there before.
#[derive(Clone, Copy)]
struct Newest<'s> {
    before: &'s [SpiralStep],
    steps: &'s [SpiralStep],
}

impl<'s> Newest<'s> {
    fn of(steps: &'s [SpiralStep]) -> Self {
        let begin = steps.iter().rposition(|step| step.is_prompt).unwrap_or_default();
        let (before, steps) = steps.split_at(begin);
        Self { before, steps }
    }

    /// What `of` tells of a file in the newest turn before that changed it.
    fn last<T>(self, of: impl Fn(&SpiralStep) -> Option<T>) -> Option<T> {
        self.before.iter().rev().find_map(of)
    }
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
    let (window, newest) = (window.max(2), Newest::of(steps));
    let streak = streak(newest.steps, window);
    let mut signs: Vec<Sign> = same_tree(newest).into_iter().collect();
    signs.extend(oscillations(newest));
    signs.extend(same_file(newest.steps, window));
    let verdicts = signs.iter().map(|sign| sign.verdict);
    let verdict = verdicts.chain(streak.as_ref().map(|streak| streak.verdict)).max();
    let verdict = verdict.unwrap_or(SpiralVerdict::None);
    let is_bad = |of: SpiralVerdict| of >= SpiralVerdict::Suspected;
    let evidence = signs.iter().filter(|sign| is_bad(sign.verdict)).flat_map(|sign| &sign.turns);
    let streaks = streak.iter().filter(|streak| is_bad(streak.verdict));
    let first = evidence.chain(streaks.flat_map(|streak| &streak.turns)).min();
    let rollback_to = first.and_then(|first| before_damage(newest.steps, *first));
    SpiralReport { verdict, streak, signs, rollback_to }
}

/// The last turn before the damage that began with the turn `first`: where nothing has changed a file
/// between the prompt and that, the turn before the prompt.
fn before_damage(steps: &[SpiralStep], first: u64) -> Option<u64> {
    let prompt = steps.first().filter(|step| step.is_prompt);
    let is_untouched = steps.iter().all(|step| step.turn >= first || step.changed.is_empty());
    let before_prompt = prompt.filter(|_| is_untouched).map(|prompt| prompt.turn);
    let begins = [before_prompt, Some(first)].into_iter().flatten();
    begins.filter_map(|turn| turn.checked_sub(1)).find(|turn| *turn > 0)
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
fn same_tree(newest: Newest<'_>) -> Option<Sign> {
    let tree = newest.steps.last()?.files?;
    let is_newest = |step: &SpiralStep| step.files == Some(tree);
    let known = newest.before.last().into_iter().chain(newest.steps);
    let known: Vec<&SpiralStep> = known.collect();
    let first = known.iter().position(|step| is_newest(step))?;
    let evidence: Vec<&SpiralStep> = known.get(first..)?.to_vec();
    let returns =
        evidence.windows(2).filter(|pair| matches!(pair, [a, b] if !is_newest(a) && is_newest(b)));
    let verdict = match returns.count() {
        0 => return None,
        1 if evidence.len() < RETURN_TURNS => return None,
        1 => SpiralVerdict::Suspected,
        _ => SpiralVerdict::Confirmed,
    };
    let since = newest.steps.first().map_or(0, |step| step.turn);
    let mut turns = turns(&evidence);
    turns.retain(|turn| *turn >= since);
    Some(Sign { kind: SignKind::SameTree, path: None, turns, verdict })
}

/// Files that came back to an earlier content more than once, or whose size went up and down.
fn oscillations(newest: Newest<'_>) -> Vec<Sign> {
    let steps = newest.steps;
    let recent = steps.get(steps.len().saturating_sub(SWING_TURNS)..).unwrap_or(steps);
    let mut signs = Vec::new();
    for path in recent.iter().flat_map(|step| step.changed.keys()).collect::<BTreeSet<_>>() {
        let edits = |steps: &'_ [SpiralStep]| -> Vec<usize> {
            let edits = steps.iter().enumerate();
            edits.filter(|(_, step)| step.changed.contains_key(path)).map(|(at, _)| at).collect()
        };
        let at = edits(recent);
        let evidence: Vec<&SpiralStep> = at.iter().filter_map(|at| recent.get(*at)).collect();
        let first = newest.last(|step| step.changed.get(path).copied());
        let versions = evidence.iter().filter_map(|step| step.changed.get(path).copied());
        let versions: Vec<Option<ObjectId>> = first.into_iter().chain(versions).collect();
        let contents: BTreeSet<_> = versions.iter().collect();
        // Edits before the first content that comes back are none of the loop.
        let comes_back = |version: &Option<ObjectId>| {
            versions.iter().filter(|other| *other == version).count() > 1
        };
        let begin = versions.iter().position(comes_back).unwrap_or_default();
        let begin = begin.saturating_sub(usize::from(first.is_some()));
        let evidence = match versions.len() - contents.len() >= SWINGS {
            true => evidence.get(begin..).map(<[_]>::to_vec),
            false => size_swings(newest, path),
        };
        signs.extend(evidence.map(|evidence| Sign {
            kind: SignKind::Oscillation,
            path: Some(path.clone()),
            turns: turns(&evidence),
            verdict: SpiralVerdict::Confirmed,
        }));
    }
    signs
}

/// The newest edits of a file, when each takes back half or more of what the one before it has added or
/// taken: it gets larger and smaller, and nowhere.
fn size_swings<'s>(newest: Newest<'s>, path: &String) -> Option<Vec<&'s SpiralStep>> {
    let edits = newest.steps.iter().rev().filter(|step| step.changed.contains_key(path));
    let mut edits: Vec<&SpiralStep> = edits.take(SIZED_EDITS).collect();
    edits.reverse();
    let first = newest.last(|step| step.sizes.get(path).copied());
    let sizes = edits.iter().map(|step| step.sizes.get(path).copied());
    let sizes: Vec<u64> = first.map(Some).into_iter().chain(sizes).collect::<Option<_>>()?;
    let has_first = usize::from(first.is_some());
    let (mut swings, mut since) = (0, 0);
    let steps: Vec<i128> = sizes
        .windows(2)
        .filter_map(|pair| Some(i128::from(*pair.last()?) - i128::from(*pair.first()?)))
        .collect();
    for (at, pair) in steps.windows(2).enumerate() {
        let &[before, now] = pair else { continue };
        let is_swing = before.signum() * now.signum() < 0 && now.abs() * 2 >= before.abs();
        if !is_swing {
            (swings, since) = (0, at + 1);
            continue;
        }
        swings += 1;
    }
    // The step `at` leads to the size behind it, which is that of the edit `at`, or the next one.
    let from = (since + 1).saturating_sub(has_first);
    let from = if from <= FEW_EDITS { 0 } else { from };
    (swings >= SIZE_SWINGS).then(|| edits.split_off(from.min(edits.len())))
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
            ..SpiralStep::default()
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

    /// Edits of one file with new content each time, after a prompt, which leave it with these sizes.
    fn sized(sizes: &[u64]) -> Vec<SpiralStep> {
        let edit = |(turn, size): (u64, &u64)| SpiralStep {
            sizes: BTreeMap::from([("a.rs".into(), *size)]),
            ..step(turn, "edit", &turn.to_string(), &turn.to_string())
        };
        let first = SpiralStep { is_prompt: true, ..edit((3, &sizes[0])) };
        let edits = (5..).zip(&sizes[1..]).map(edit);
        let prompt = SpiralStep { turn: 4, is_prompt: true, ..SpiralStep::default() };
        [first, prompt].into_iter().chain(edits).collect()
    }

    #[test]
    fn a_file_whose_size_goes_up_and_down_is_a_circle_and_one_that_grows_is_none() {
        let found = find_spiral(&sized(&[280, 291, 409, 285, 403, 279, 397]), SPIRAL_WINDOW);
        assert_eq!(found.verdict, SpiralVerdict::Confirmed, "{found:?}");
        assert_eq!(found.rollback_to, Some(3), "before the prompt");
        for steady in [
            &[100, 200, 300, 400, 500, 600, 700, 800][..],
            &[100, 400, 380, 700, 690, 990, 960, 1400, 1380],
            &[1000, 900, 950, 600, 620, 300, 310, 100],
            &[100, 300, 120, 340, 420, 250, 600, 610],
        ] {
            let found = find_spiral(&sized(steady), SPIRAL_WINDOW);
            assert!(found.verdict < SpiralVerdict::Confirmed, "{steady:?}: {found:?}");
        }
    }

    #[test]
    fn a_loop_begins_no_earlier_than_the_newest_prompt() {
        let prompt = |turn| SpiralStep { turn, is_prompt: true, ..SpiralStep::default() };
        let edit = |turn: u64, content: &str| SpiralStep {
            path: None,
            ..step(turn, "edit", &turn.to_string(), content)
        };
        // A person has it changed to and fro.
        let asked: Vec<SpiralStep> = (0..5)
            .flat_map(|at| {
                [prompt(2 * at + 1), edit(2 * at + 2, if at % 2 == 0 { "a" } else { "b" })]
            })
            .collect();
        assert_eq!(find_spiral(&asked, SPIRAL_WINDOW).verdict, SpiralVerdict::None);
        // The agent does so by itself, from what was good before the prompt.
        let mut steps = vec![prompt(1), edit(2, "good"), edit(3, "good"), prompt(4)];
        steps.extend((5..=8).map(|turn| edit(turn, if turn % 2 == 1 { "bad" } else { "good" })));
        let found = find_spiral(&steps, SPIRAL_WINDOW);
        assert_eq!((found.verdict, found.rollback_to), (SpiralVerdict::Confirmed, Some(3)));
        assert!(found.signs.iter().flat_map(|sign| &sign.turns).all(|turn| *turn > 3), "{found:?}");
        // What came of the prompt before the damage stays.
        let mut steps = vec![prompt(1), edit(2, "good"), prompt(3), edit(4, "better")];
        steps.extend((5..=9).map(|turn| edit(turn, if turn % 2 == 1 { "x" } else { "y" })));
        assert_eq!(find_spiral(&steps, SPIRAL_WINDOW).rollback_to, Some(4));
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
