//! Detects if an agent goes in circles, from its last turns. The result is advice and changes
//! nothing.
//!
//! The plain sign is a tool that is called repeatedly with equal arguments. Content-addressed files
//! give better signs at no cost: a tree of files that existed some turns ago, a file that swings
//! between contents or whose size goes up and down, and a single file that the same tool changes
//! with different arguments each time, with only reads of it in between.
//!
//! | verdict | means |
//! |---|---|
//! | none | no sign |
//! | progress | repeated calls, or calls for the same file, and each one had a new result |
//! | suspected | a sign, and its effect on the files is unknown or varies |
//! | confirmed | a sign, and the files are unchanged |
//!
//! A loop begins no earlier than the newest prompt: repetitions that a person asks for are not a
//! loop of the agent. The content of the files before the prompt counts as a content to return to.
//! The suggested rollback target is the last turn before the damage: the turn before the prompt, if
//! no other turn has changed a file since.
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

pub use read::read_steps;

use turntree::object::ObjectId;

/// Number of successive equal calls that is a sign.
pub const SPIRAL_WINDOW: usize = 3;

/// Number of turns to examine.
pub const SPIRAL_TURNS: usize = 50;

/// Number of turns in which a file may swing.
const SWING_TURNS: usize = 10;

/// Number of turns after which a single return to an earlier tree is a sign.
const RETURN_TURNS: usize = 5;

/// Number of returns of a file to an earlier content that is a sign.
const SWINGS: usize = 2;

/// Number of edits of a file whose sizes are compared.
const SIZED_EDITS: usize = 12;

/// Number of successive edits that each revert at least half of the size change of the previous
/// edit before that is a sign. Normal work adds more than it removes.
const SIZE_SWINGS: usize = 4;

/// Maximum number of edits before the first swing that still count as its start.
const FEW_EDITS: usize = 2;

/// The relevant data of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpiralStep {
    /// The number of the turn.
    pub turn: u64,
    /// The called tool. `None` without a call.
    pub tool: Option<String>,
    /// The digest of the arguments.
    pub arguments: Option<String>,
    /// The digest of the artifact. `None` if unknown.
    pub artifact: Option<String>,
    /// The file that the call is about.
    pub path: Option<String>,
    /// The root of all files after the turn. `None` if files are not stored.
    pub files: Option<ObjectId>,
    /// The files that the turn changed, with their new content. `None` for a deleted file.
    pub changed: BTreeMap<String, Option<ObjectId>>,
    /// The sizes of the changed files in bytes, as far as known.
    pub sizes: BTreeMap<String, u64>,
    /// True if the turn begins with a prompt of a person.
    pub is_prompt: bool,
}

/// The result for the last turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpiralReport {
    /// The verdict.
    pub verdict: SpiralVerdict,
    /// The newest successive equal calls, if there are enough.
    pub streak: Option<Streak>,
    /// The signs in the files.
    pub signs: Vec<Sign>,
    /// The last turn before the damage, as a rollback target. `None` without a sign, or if the
    /// damage began with the first turn.
    pub rollback_to: Option<u64>,
}

/// The turns since the newest prompt, and the turns before it.
#[derive(Clone, Copy)]
struct RecentTurns<'s> {
    before: &'s [SpiralStep],
    steps: &'s [SpiralStep],
}

impl<'s> RecentTurns<'s> {
    fn of(steps: &'s [SpiralStep]) -> Self {
        let begin = steps.iter().rposition(|step| step.is_prompt).unwrap_or_default();
        let (before, steps) = steps.split_at(begin);
        Self { before, steps }
    }

    /// Returns a property of a file from the newest turn before the prompt that has it.
    fn last<T>(self, of: impl Fn(&SpiralStep) -> Option<T>) -> Option<T> {
        self.before.iter().rev().find_map(of)
    }
}

/// The verdict on the last turns. Ordered by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpiralVerdict {
    /// No sign.
    None,
    /// Equal calls, each with a change.
    Progress,
    /// Probably a loop.
    Suspected,
    /// A loop.
    Confirmed,
}

impl SpiralVerdict {
    /// Returns the name in records. The name of progress follows other implementations.
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

/// Successive equal calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streak {
    /// The tool.
    pub tool: String,
    /// The tool and the digest of its arguments.
    pub signature: String,
    /// The turns, oldest first.
    pub turns: Vec<u64>,
    /// The verdict on these calls alone.
    pub verdict: SpiralVerdict,
}

/// A sign in the content of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    /// The kind.
    pub kind: SignKind,
    /// The file, if the sign concerns a single file.
    pub path: Option<String>,
    /// The turns of the sign, oldest first.
    pub turns: Vec<u64>,
    /// The verdict on this sign alone.
    pub verdict: SpiralVerdict,
}

/// Kinds of signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignKind {
    /// All files returned to an earlier state, with a different state in between.
    SameTree,
    /// A file swings between contents.
    Oscillation,
    /// The same tool changes one file with different arguments, with only reads of it in between.
    SameFile,
}

impl SignKind {
    /// Returns the name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameTree => "same-tree",
            Self::Oscillation => "oscillation",
            Self::SameFile => "same-file",
        }
    }
}

/// Judges turns, oldest first. `window` is the number of successive equal calls that is a sign, at
/// least 2. Examines the newest [`SPIRAL_TURNS`].
#[must_use]
pub fn find_spiral(steps: &[SpiralStep], window: usize) -> SpiralReport {
    let steps = steps.get(steps.len().saturating_sub(SPIRAL_TURNS)..).unwrap_or(steps);
    let (window, newest) = (window.max(2), RecentTurns::of(steps));
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
    let rollback_to = first.and_then(|first| last_undamaged_turn(newest.steps, *first));
    SpiralReport { verdict, streak, signs, rollback_to }
}

/// Returns the last turn before the damage that began with the turn `first`. If no turn between the
/// prompt and `first` changed a file, that is the turn before the prompt.
fn last_undamaged_turn(steps: &[SpiralStep], first: u64) -> Option<u64> {
    let prompt = steps.first().filter(|step| step.is_prompt);
    let is_untouched = steps.iter().all(|step| step.turn >= first || step.changed.is_empty());
    let before_prompt = prompt.filter(|_| is_untouched).map(|prompt| prompt.turn);
    let begins = [before_prompt, Some(first)].into_iter().flatten();
    begins.filter_map(|turn| turn.checked_sub(1)).find(|turn| *turn > 0)
}

/// Returns the newest turns with one signature.
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
    let contents: Option<BTreeSet<&String>> =
        equal.iter().map(|step| step.artifact.as_ref()).collect();
    let verdict = match contents {
        Some(contents) if contents.len() == 1 => SpiralVerdict::Confirmed,
        Some(contents) if contents.len() == equal.len() => SpiralVerdict::Progress,
        Some(_) | None => SpiralVerdict::Suspected,
    };
    let signature = format!("{tool}:{arguments}");
    Some(Streak { tool, signature, turns: turns(&equal), verdict })
}

/// Returns a sign if the newest tree existed before, with another tree in between, and it returned
/// more than once or after several turns. A change that is reverted immediately is not a sign.
fn same_tree(newest: RecentTurns<'_>) -> Option<Sign> {
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

/// Returns the files that returned to an earlier content more than once, or whose size went up and
/// down.
fn oscillations(newest: RecentTurns<'_>) -> Vec<Sign> {
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
        // Edits before the first recurring content are not part of the loop.
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

/// Returns the newest edits of a file, if each reverts at least half of the size change of the
/// previous edit.
fn size_swings<'s>(newest: RecentTurns<'s>, path: &String) -> Option<Vec<&'s SpiralStep>> {
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
    // The size change `at` ends at the edit `at`, or at the next edit if there is no first size.
    let from = (since + 1).saturating_sub(has_first);
    let from = if from <= FEW_EDITS { 0 } else { from };
    (swings >= SIZE_SWINGS).then(|| edits.split_off(from.min(edits.len())))
}

/// Returns a sign if the newest turns are all about one file and a tool tried different arguments
/// on it.
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

/// Returns true if every step left the file with a different content, which is steady work.
fn is_each_new(steps: &[&SpiralStep], path: &String) -> bool {
    let contents = steps.iter().map(|step| step.changed.get(path).copied().flatten());
    contents.collect::<Option<BTreeSet<_>>>().is_some_and(|contents| contents.len() == steps.len())
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

    /// Returns a turn that calls `tool` for `a.rs` and leaves the files as `content`.
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
    fn continued_work_is_not_a_spiral() {
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
    fn alternating_edits_and_reads_of_one_file_are_detected() {
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
    fn steady_writes_to_one_file_count_as_progress() {
        let steps: Vec<SpiralStep> =
            (1..=8).map(|turn| step(turn, "write", &turn.to_string(), &turn.to_string())).collect();
        let found = find_spiral(&steps, SPIRAL_WINDOW);
        assert_eq!((found.verdict, found.rollback_to), (SpiralVerdict::Progress, None));
        // A step without a change makes it a sign again.
        let mut steps = steps;
        steps[6].changed.clear();
        assert_eq!(find_spiral(&steps, SPIRAL_WINDOW).verdict, SpiralVerdict::Suspected);
    }

    /// Returns edits of one file after a prompt, with new content each time and these sizes.
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
    fn oscillating_file_sizes_are_a_spiral_and_growth_is_not() {
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
    fn loops_begin_after_the_newest_prompt() {
        let prompt = |turn| SpiralStep { turn, is_prompt: true, ..SpiralStep::default() };
        let edit = |turn: u64, content: &str| SpiralStep {
            path: None,
            ..step(turn, "edit", &turn.to_string(), content)
        };
        // A person asks for each change.
        let asked: Vec<SpiralStep> = (0..5)
            .flat_map(|at| {
                [prompt(2 * at + 1), edit(2 * at + 2, if at % 2 == 0 { "a" } else { "b" })]
            })
            .collect();
        assert_eq!(find_spiral(&asked, SPIRAL_WINDOW).verdict, SpiralVerdict::None);
        // The agent swings on its own, starting from the good content before the prompt.
        let mut steps = vec![prompt(1), edit(2, "good"), edit(3, "good"), prompt(4)];
        steps.extend((5..=8).map(|turn| edit(turn, if turn % 2 == 1 { "bad" } else { "good" })));
        let found = find_spiral(&steps, SPIRAL_WINDOW);
        assert_eq!((found.verdict, found.rollback_to), (SpiralVerdict::Confirmed, Some(3)));
        assert!(found.signs.iter().flat_map(|sign| &sign.turns).all(|turn| *turn > 3), "{found:?}");
        // The rollback keeps the good edit after the prompt.
        let mut steps = vec![prompt(1), edit(2, "good"), prompt(3), edit(4, "better")];
        steps.extend((5..=9).map(|turn| edit(turn, if turn % 2 == 1 { "x" } else { "y" })));
        assert_eq!(find_spiral(&steps, SPIRAL_WINDOW).rollback_to, Some(4));
    }

    #[test]
    fn files_returning_to_an_earlier_state_are_a_spiral() {
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
