//! `bisect`: the first bad turn is the one that a look at every turn finds, with few answers, each tree
//! of files tested once, and nothing left behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use proptest::prelude::*;
use turntree::context::{Builder, FileMode};
use turntree::object::ObjectId;
use turntree::repo::{Bisect, BisectStatus, BisectVerdict, BranchName, Repository, SnapshotDraft};
use turntree_tests::{Sandbox, stamp};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const SIGINT: i32 = 2;

/// A session whose turns have these contents of one file. A turn without a file gets a note
/// instead.
fn session(sandbox: &Sandbox, contents: &[(Option<u32>, u32)]) -> Vec<ObjectId> {
    let repo: &Repository = &sandbox.repo;
    let branch = BranchName::main("s").unwrap();
    let turn = |(file, note): &(Option<u32>, u32)| {
        let (mut change, mut builder) = (repo.begin(), Builder::new());
        if let Some(file) = file {
            let text = file.to_string().into();
            builder.set_file(&mut change, "src/n", Some((FileMode::Regular, text))).unwrap();
        }
        builder.set_entry(&mut change, "scratchpad", "n", Some(note.to_string().into())).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let id = change.snapshot(&branch, SnapshotDraft::new(tree, "turn", &stamp(1))).unwrap();
        change.switch(&branch);
        change.commit(&stamp(1), "turn").unwrap();
        id
    };
    contents.iter().map(turn).collect()
}

/// Answers until the search asks for no more turns. Returns the final status and the turns asked
/// for.
fn answer(
    repo: &Repository,
    search: &mut Bisect,
    verdict: impl Fn(u64) -> BisectVerdict,
) -> (BisectStatus, Vec<u64>) {
    let mut asked = Vec::new();
    loop {
        match search.outlook(repo).unwrap() {
            BisectStatus::Next { turn, .. } => {
                asked.push(turn.commit.turn);
                search.mark(repo, &turn.id, verdict(turn.commit.turn)).unwrap();
            }
            other => return (other, asked),
        }
    }
}

turntree_properties::properties! {
    cases = 24;

    #[test]
    fn bisect_finds_the_first_bad_turn_with_few_answers(
        turns in 2..40_u32, skipped in prop::collection::btree_set(2..40_u64, 0..8), durable: bool,
    ) {
        let sandbox = Sandbox::new();
        let contents: Vec<_> = (0..turns).map(|n| (Some(n), n)).collect();
        let ids = session(&sandbox, &contents);
        let repo = &sandbox.repo;
        for first_bad in 2..=u64::from(turns) {
            let mut search = Bisect::new("s");
            search.mark(repo, ids.last().unwrap(), BisectVerdict::Bad).unwrap();
            search.mark(repo, &ids[0], BisectVerdict::Good).unwrap();
            let skips = |turn: u64| skipped.contains(&turn) && turn != u64::from(turns);
            let verdict = |turn: u64| match turn {
                turn if skips(turn) => BisectVerdict::Skip,
                turn if turn >= first_bad => BisectVerdict::Bad,
                _ => BisectVerdict::Good,
            };
            if durable && first_bad % 7 == 0 {
                // Another process does half of the search.
                if let BisectStatus::Next { turn, .. } = search.outlook(repo).unwrap() {
                    search.mark(repo, &turn.id, verdict(turn.commit.turn)).unwrap();
                }
                let mut change = repo.begin();
                change.set_bisect(&search).unwrap();
                change.commit(&stamp(2), "bisect").unwrap();
                let again = sandbox.reopened().bisect("s").unwrap().unwrap();
                prop_assert_eq!(&again, &search);
                search = again;
            }
            let (outlook, asked) = answer(repo, &mut search, verdict);
            let distinct: BTreeSet<u64> = asked.iter().copied().collect();
            prop_assert_eq!(distinct.len(), asked.len(), "asked twice");
            let skips_asked = asked.iter().filter(|turn| skips(**turn)).count();
            let bound = (turns - 1).next_power_of_two().ilog2() as usize + skips_asked;
            prop_assert!(asked.len() <= bound, "{} answers for {} turns", asked.len(), turns);
            match outlook {
                BisectStatus::Found(found) => prop_assert_eq!(found.commit.turn, first_bad),
                BisectStatus::Stuck(among) => {
                    let among: Vec<u64> = among.iter().map(|turn| turn.commit.turn).collect();
                    let (last, before) = among.split_last().unwrap();
                    prop_assert!(among.contains(&first_bad) && verdict(*last) == BisectVerdict::Bad);
                    prop_assert!(before.iter().all(|turn| skips(*turn)));
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

#[test]
fn contradictory_bisect_answers_are_rejected() {
    let sandbox = Sandbox::new();
    let ids = session(&sandbox, &[(None, 1), (None, 2), (None, 3), (None, 4), (None, 5)]);
    let repo = &sandbox.repo;
    let mut side = repo.begin();
    let branch = BranchName::new("s", "side").unwrap();
    side.move_branch(&branch, Some(ids[1]));
    let tree = repo.commit(&ids[2]).unwrap().tree;
    let other = side.snapshot(&branch, SnapshotDraft::new(tree, "side", &stamp(2))).unwrap();
    side.commit(&stamp(2), "side").unwrap();

    let mut search = Bisect::new("s");
    let waiting = |bad, good| BisectStatus::Waiting { bad, good };
    assert_eq!(search.outlook(repo).unwrap(), waiting(false, false));
    search.mark(repo, &ids[3], BisectVerdict::Bad).unwrap();
    assert_eq!(search.outlook(repo).unwrap(), waiting(true, false));
    for (id, verdict) in [
        (ids[3], BisectVerdict::Good),
        (ids[4], BisectVerdict::Good),
        (other, BisectVerdict::Good),
        (ids[4], BisectVerdict::Bad),
        (other, BisectVerdict::Bad),
        (ids[4], BisectVerdict::Skip),
        (ids[3], BisectVerdict::Skip),
    ] {
        let error = search.mark(repo, &id, verdict).unwrap_err();
        assert_eq!(error.kind(), turntree::ErrorKind::InvalidInput, "{verdict}");
    }
    search.mark(repo, &ids[1], BisectVerdict::Good).unwrap();
    assert!(search.mark(repo, &ids[0], BisectVerdict::Bad).is_err());
    search.mark(repo, &ids[2], BisectVerdict::Skip).unwrap();
    assert!(
        matches!(search.outlook(repo).unwrap(), BisectStatus::Stuck(among) if among.len() == 2)
    );
    search.mark(repo, &ids[2], BisectVerdict::Bad).unwrap();
    assert!(
        matches!(search.outlook(repo).unwrap(), BisectStatus::Found(turn) if turn.id == ids[2])
    );
}

/// Runs the program with a folder for temporary files, and checks that each run leaves it empty.
struct Shell<'s> {
    sandbox: &'s Sandbox,
    temporary: PathBuf,
}

impl<'s> Shell<'s> {
    fn new(sandbox: &'s Sandbox) -> Self {
        let temporary = sandbox.folder().join("temporary");
        fs::create_dir(&temporary).unwrap();
        Self { sandbox, temporary }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.sandbox.folder());
        command.env("TURNTREE_STORE", self.sandbox.store_dir()).env("TMPDIR", &self.temporary);
        command.env("TURNTREE_MAINTENANCE", "off").env("PROGRAM", PROGRAM);
        command.env("TESTED", self.sandbox.folder().join("tested"));
        let output = command.output().unwrap();
        assert_eq!(
            fs::read_dir(&self.temporary).unwrap().count(),
            0,
            "{arguments:?} left something"
        );
        output
    }

    fn record(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The arguments of each run of the command, one word each.
    fn tested(&self) -> Vec<String> {
        let tested = fs::read_to_string(self.sandbox.folder().join("tested")).unwrap_or_default();
        tested.lines().map(str::to_owned).collect()
    }
}

#[test]
fn bisect_run_equals_a_linear_search_and_tests_each_tree_once() {
    // Bad from 30 on. Many turns change only a note, and one tree appears again.
    let files = [1, 1, 5, 1, 9, 9, 12, 30, 30, 30, 31, 40, 40, 41, 50, 50];
    for first_bad in [9, 12, 30, 31, 40, 50] {
        let sandbox = Sandbox::new();
        let contents: Vec<_> = (0..).zip(files).map(|(note, file)| (Some(file), note)).collect();
        session(&sandbox, &contents);
        let shell = Shell::new(&sandbox);
        shell.record(&["--json", "bisect", "start", "s", "turn:1"]);
        let script =
            format!("cat src/n >> $TESTED; echo >> $TESTED; test $(cat src/n) -lt {first_bad}");
        let record = shell.record(&["--json", "bisect", "run", "sh", "-c", &script]);
        let expected = files.iter().position(|file| *file >= first_bad).unwrap() + 1;
        assert_eq!(record["state"], "found");
        assert_eq!(record["turn"]["turn"], expected, "{record}");
        let tested = shell.tested();
        let distinct: BTreeSet<&String> = tested.iter().collect();
        assert_eq!(distinct.len(), tested.len(), "tested twice: {tested:?}");
        let known = ["1".to_owned(), "50".to_owned()];
        assert!(tested.iter().all(|tree| !known.contains(tree)), "{tested:?}");
        assert!(tested.len() <= 4, "{tested:?}");
    }
}

#[test]
fn stopped_bisect_runs_resume_and_interrupted_ones_clean_up() {
    let sandbox = Sandbox::new();
    let contents: Vec<_> = (0..30).map(|n| (Some(n), n)).collect();
    session(&sandbox, &contents);
    let shell = Shell::new(&sandbox);
    shell.record(&["--json", "bisect", "start", "s", "turn:1"]);
    let count = "echo x >> $TESTED; test $(cat src/n) -lt 21";
    let stop = format!("test $(wc -l < $TESTED || echo 0) -ge 2 && exit 200; {count}");
    let stopped = shell.run(&["bisect", "run", "sh", "-c", &stop]);
    let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(2), "{said}");
    assert!(said.contains("gave no answer"), "{said}");
    // The command interrupts the bisect process, and waits to be killed by it.
    let endless = "kill -INT $PPID; exec tail -f /dev/null";
    let interrupted = shell.run(&["bisect", "run", "sh", "-c", endless]);
    assert_eq!(interrupted.status.signal(), Some(SIGINT), "{interrupted:?}");
    let record = shell.record(&["--json", "bisect", "run", "sh", "-c", count]);
    assert_eq!(record["turn"]["turn"], 22, "{record}");
    assert!(shell.tested().len() <= 5, "{:?}", shell.tested());
    let log = shell.run(&["bisect", "log"]);
    assert!(String::from_utf8(log.stdout).unwrap().lines().count() >= 7);
    assert!(shell.run(&["bisect", "reset"]).status.success());
    assert_eq!(shell.run(&["bisect", "log"]).status.code(), Some(6));
}

#[test]
fn bisect_run_tests_whole_contexts_of_turns_without_files() {
    let sandbox = Sandbox::new();
    let contents: Vec<_> = (1..=12).map(|n| (None, n)).collect();
    session(&sandbox, &contents);
    let shell = Shell::new(&sandbox);
    shell.record(&["--json", "bisect", "start", "s", "turn:1"]);
    let script =
        "test $($PROGRAM cat $TURNTREE_REV:scratchpad/n) -lt 8 && test $TURNTREE_TURN -lt 8";
    let record = shell.record(&["--json", "bisect", "run", "sh", "-c", script]);
    assert_eq!(record["turn"]["turn"], 8, "{record}");
    // With the same files in every turn, turns differ only by their whole contexts.
    let other = Sandbox::new();
    let contents: Vec<_> = (1..=12).map(|n| (Some(7), n)).collect();
    session(&other, &contents);
    let shell = Shell::new(&other);
    shell.record(&["--json", "bisect", "start", "s", "turn:1"]);
    let refused = shell.run(&["bisect", "run", "sh", "-c", script]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let record = shell.record(&["--json", "bisect", "run", "--whole", "sh", "-c", script]);
    assert_eq!(record["turn"]["turn"], 8, "{record}");
    let missing = shell.run(&["bisect", "start", "s", "turn:2"]);
    assert!(missing.status.success());
    assert_eq!(shell.run(&["bisect", "run", "--whole", "no-such-command"]).status.code(), Some(2));
}
