//! Plays long sessions under policies, and compares each plan with the final size of the store.
//!
//! A turn adds a message of new text, and changes one of thirty files and a note. The conversation
//! is compacted when it is long. So every context is large, and a turn adds about its text to the
//! disk. [`play`] commits the turns of such a session, collects, and inspects the result.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{FileMode, MessageEntry, Role};
use turntree::maintenance::{Policy, Purpose, Scope, Thin, collect, set_policy};
use turntree::object::{Kind, ObjectId, ObjectSink};
use turntree::repo::{BranchName, NewPin, Repository};
use turntree::store::{Durability, NewStore, OpenOptions, RealIo, Tier};

use crate::sim::Random;
use crate::{commit_turn, stamp};

/// Files in the workspace of the session.
const FILES: usize = 30;

/// Turns of each side branch.
const BRANCH_TURNS: u64 = 5;

/// Seconds between two turns.
const PACE: i64 = 20;

/// A long session under a policy.
#[derive(Debug, Clone)]
pub struct BoundedCase {
    /// The name.
    pub name: &'static str,
    /// The turns on the main branch.
    pub turns: u64,
    /// The approximate bytes of new text in a turn.
    pub text_bytes: usize,
    /// The most messages in the conversation. When it is longer, half of them are removed.
    pub window: u64,
    /// The policy.
    pub policy: Option<Policy>,
    /// The number of pins, spread evenly over the turns.
    pub pins: u64,
    /// The number of side branches, spread evenly over the turns.
    pub branches: u64,
}

/// The state after the last collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// Bytes of all files before the last collection.
    pub bytes_before: u64,
    /// Bytes of all files after the last collection.
    pub bytes: u64,
    /// The turns of the main branch whose content is kept.
    pub kept: BTreeSet<u64>,
    /// The number of such turns on side branches.
    pub beside: u64,
    /// The lines of the plan.
    pub said: Vec<String>,
    /// The size that the plan predicted, if there is a budget.
    pub said_bytes: Option<u64>,
}

/// How a store is packed before the last collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// Not packed.
    Written,
    /// Automatic steps ran, as in an agent's host.
    Steps,
    /// Packed into a tier.
    Packed(Tier),
}

impl BoundedCase {
    /// A session of `turns` turns without a policy.
    #[must_use]
    pub fn new(name: &'static str, turns: u64, text_bytes: usize) -> Self {
        Self { name, turns, text_bytes, window: 120, policy: None, pins: 0, branches: 0 }
    }

    /// This session with a policy, pins and side branches.
    #[must_use]
    pub fn with(self, policy: Policy, pins: u64, branches: u64) -> Self {
        Self { policy: Some(policy), pins, branches, ..self }
    }

    /// The turns of the main branch that are pinned.
    #[must_use]
    pub fn pinned(&self) -> BTreeSet<u64> {
        (0..self.pins).map(|n| (2 * n + 1) * self.turns / (2 * self.pins)).collect()
    }

    /// The turns of the main branch where side branches begin.
    #[must_use]
    pub fn branch_points(&self) -> BTreeSet<u64> {
        (1..=self.branches).map(|n| n * self.turns / (self.branches + 1)).collect()
    }

    /// The turns of the main branch that the rules of the policy keep, with pins and branch points,
    /// if no operation protects any.
    #[must_use]
    pub fn promised(&self) -> BTreeSet<u64> {
        let (pins, points) = (self.pinned(), self.branch_points());
        let Some(policy) = &self.policy else { return (1..=self.turns).collect() };
        let newest = |tip: u64, n: u64| {
            let counted = (1..=tip).rev().filter(|turn| !pins.contains(turn));
            let n = usize::try_from(n).expect("few turns");
            counted.take(n).collect::<Vec<u64>>()
        };
        let mut kept = BTreeSet::from([self.turns]);
        if let Some(last) = policy.keep_last {
            kept.extend(newest(self.turns, last));
            let before_fork = last.saturating_sub(BRANCH_TURNS);
            kept.extend(points.iter().flat_map(|point| newest(*point, before_fork)));
        }
        for thin in &policy.thin {
            if let Thin::Every(k) = thin {
                kept.extend((1..=self.turns).filter(|turn| turn.is_multiple_of(*k)));
            }
        }
        kept.extend(pins.iter().chain(&points));
        kept
    }
}

/// The ten policies of the audit at its sizes. `scale` divides the number of turns: 1 plays all.
/// Policies with a budget have rules and a size that a test of this scale can reach.
#[must_use]
pub fn ten_policies(scale: u64) -> Vec<BoundedCase> {
    let (short, long, window) = (1000 / scale, 10_000 / scale, 600 / scale);
    let last = 100 / scale;
    let keep = |n| Policy { keep_last: Some(n), strict: true, ..Policy::default() };
    let budget = |bytes: u64| Policy {
        budget_bytes: Some(bytes / scale),
        strict: true,
        ..Policy::default()
    };
    let case = |name, turns, bytes| BoundedCase { window, ..BoundedCase::new(name, turns, bytes) };
    vec![
        case("none", short, 3200),
        case("none, ten times as long", long, 3200),
        case("keep-last 100", short, 3200).with(keep(last), 2, 2),
        case("keep-last 100, ten times as long", long, 3200).with(keep(last), 3, 2),
        case("keep-last 50, thin every:50", short, 3200).with(
            Policy { thin: vec![Thin::Every(50)], ..keep(50 / scale) },
            0,
            0,
        ),
        case("budget 1 MB", short, 3200).with(budget(1_000_000), 0, 0),
        case("budget 3 MB, ten times as long", long, 3200).with(budget(3_000_000), 0, 0),
        case("keep-last 100, budget 100 kB, 20 pins", short, 3200).with(
            Policy { keep_last: Some(last), ..budget(100_000) },
            20,
            0,
        ),
        case("budget 5 MB, 0.4 MB a turn", 300 / scale, 400_000).with(
            Policy { strict: true, ..budget(5_000_000) },
            0,
            0,
        ),
        case("keep-last 100, a page of 5 KB", short, 200).with(keep(last), 2, 0),
    ]
}

/// Commits the turns of a session to a new store, collects, and inspects the result.
///
/// # Panics
/// If any call fails.
#[must_use]
pub fn play(dir: &Path, case: &BoundedCase, before: Before) -> Bounded {
    let repo = Session::new(dir, case).run(before);
    let now = stamp(end(case));
    match before {
        Before::Packed(tier) => {
            collect(&repo, Purpose::Repack(tier), &now, &mut |_| {}).expect("a pack");
        }
        Before::Written | Before::Steps => {}
    }
    let bytes_before = repo.summary().expect("its sizes").file_bytes;
    let (mut said, mut said_bytes) = (Vec::new(), None);
    collect(&repo, Purpose::Gc, &now, &mut |plan| {
        said.extend(plan.retention.sessions.iter().map(ToString::to_string));
        said.extend(plan.retention.notes.iter().cloned());
        said_bytes = plan.retention.sessions.iter().find_map(|session| session.bytes);
    })
    .expect("a collection");
    let bytes = repo.summary().expect("its sizes").file_bytes;
    let tip = repo.tip(&main()).expect("a branch");
    let on_main = turns_with_content(&repo, &tip);
    let kept = on_main.iter().map(|(turn, _)| *turn).collect();
    let others = repo.branches().into_iter().filter(|(branch, _)| *branch != main());
    let others: BTreeSet<_> = others.flat_map(|(_, tip)| turns_with_content(&repo, &tip)).collect();
    let beside = others.difference(&on_main).count() as u64;
    Bounded { bytes_before, bytes, kept, beside, said, said_bytes }
}

/// The second after the last turn.
fn end(case: &BoundedCase) -> i64 {
    (i64::try_from(case.turns).expect("few turns") + 1) * PACE
}

fn main() -> BranchName {
    BranchName::main("long").expect("a name")
}

/// The ancestors of a tip whose content is kept.
fn turns_with_content(repo: &Repository, tip: &ObjectId) -> BTreeSet<(u64, ObjectId)> {
    let mut turns = BTreeSet::new();
    for entry in repo.history(&[*tip], &[]).expect("history") {
        let entry = entry.expect("a commit");
        match repo.context(&entry.id).and_then(|context| context.message_count(repo)) {
            Ok(_) => _ = turns.insert((entry.commit.turn, entry.id)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Expired, "{error}"),
        }
    }
    turns
}

struct Session<'a> {
    case: &'a BoundedCase,
    repo: Repository,
    random: Random,
}

impl<'a> Session<'a> {
    fn new(dir: &Path, case: &'a BoundedCase) -> Self {
        let mut options = OpenOptions::new([3; 16]);
        // The test does not depend on durability.
        options.durability = Durability::None;
        let new = NewStore { id: [7; 16] };
        let repo = Repository::init(Arc::new(RealIo), dir, &new, options).expect("a new store");
        Self { case, repo, random: Random(1) }
    }

    fn run(mut self, before: Before) -> Repository {
        if let Some(policy) = &self.case.policy {
            let mut change = self.repo.begin();
            set_policy(&mut change, Scope::Default, policy).expect("a policy");
            change.commit(&stamp(0), "retention set").expect("a commit");
        }
        let (pins, points) = (self.case.pinned(), self.case.branch_points());
        for turn in 1..=self.case.turns {
            let second = i64::try_from(turn).expect("few turns") * PACE;
            let id = self.turn(&main(), second);
            let mut change = self.repo.begin();
            if pins.contains(&turn) {
                change.pin(&id, NewPin::default(), &stamp(second)).expect("a pin");
                change.commit(&stamp(second), "pin").expect("a commit");
            } else if points.contains(&turn) {
                let branch = BranchName::new("long", &format!("from-{turn}")).expect("a name");
                change.move_branch(&branch, Some(id));
                change.commit(&stamp(second), "fork").expect("a commit");
                for step in 1..=BRANCH_TURNS {
                    let step = i64::try_from(step).expect("few turns");
                    self.turn(&branch, second + step);
                }
            }
            let is_due = turn.is_multiple_of((self.case.turns / 5).max(1));
            if before == Before::Steps && is_due {
                collect(&self.repo, Purpose::Step, &stamp(second), &mut |_| {}).expect("a step");
            }
        }
        self.repo
    }

    fn turn(&mut self, branch: &BranchName, second: i64) -> ObjectId {
        let (case, random) = (self.case, &mut self.random);
        let record = format!("{{\"at\":{second},\"text\":\"{}\"}}", text(random, case.text_bytes));
        let file = format!("src/{}.rs", random.below(FILES));
        let edit = text(random, 200);
        let section = "agents/main/messages";
        commit_turn(&self.repo, branch, "turn", &stamp(second), |context, change| {
            let blob = change.write(Kind::Blob, record.into()).expect("a blob");
            let entry = MessageEntry::new(blob, Role::User, "json");
            context.push_message(change, "main", &entry).expect("a message");
            if context.list_len(change, section).expect("a list") > case.window {
                let half = case.window / 2;
                context.splice(change, section, 0..half, Vec::new()).expect("a compaction");
            }
            let file = (&file, Some((FileMode::Regular, edit.into())));
            context.set_file(change, file.0, file.1).expect("a file");
            let note = Some(format!("at {second}").into());
            context.set_entry(change, "scratchpad", "clock", note).expect("a note");
        })
    }
}

/// Random words that compress about as well as those of an agent.
fn text(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 10);
    while text.len() < bytes {
        text.push_str(["parse", "value", "error", "index", "token"][random.below(5)]);
        text.push_str(&random.below(5000).to_string());
        text.push(' ');
    }
    text
}
