//! Exports stores to git repositories, which git itself checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::context::{Builder, Context, FileMode, MessageEntry, Role};
use turntree::object::{Kind, ObjectId, ObjectSink, Time};
use turntree::repo::{BranchName, LogEntry, Repository, Signature, SnapshotDraft};
use turntree::workspace::plan_checkout;
use turntree_exchange::git::{ExportSelection, GitExport, GitExportOptions, GitRefChange, export};
use turntree_tests::git::{Files, Git, files_in, is_installed};
use turntree_tests::random_history::{RandomHistory, steps};
use turntree_tests::{Sandbox, claude_code, new_store, open_store, recorded_sessions, stamp};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn export_all(repo: &Repository, dir: &Path) -> GitExport {
    export(repo, dir, &GitExportOptions::default(), &mut |_, _| {}).unwrap()
}

/// The git id of each ref.
fn ids(report: &GitExport) -> BTreeMap<&str, &str> {
    report.refs.iter().map(|found| (found.git_name.as_str(), found.git_id.as_str())).collect()
}

fn main_of(session: &str) -> BranchName {
    BranchName::main(session).unwrap()
}

/// Commits a turn of a session with a workspace.
fn record(
    repo: &Repository,
    branch: &BranchName,
    second: i64,
    message: &str,
    edit: impl FnOnce(&mut dyn ObjectSink, &mut Builder),
) -> ObjectId {
    let mut change = repo.begin();
    let mut builder = match change.tip(branch) {
        Some(tip) => {
            let tree = change.read_commit(&tip).unwrap().tree;
            Builder::from(Context::open(&change, &tree).unwrap())
        }
        None => Builder::new(),
    };
    edit(&mut change, &mut builder);
    let tree = builder.write(&mut change).unwrap();
    let time = Time { micros: second * 1_000_000 + 5, offset_minutes: -150 };
    let stamp = Signature { time, actor: "agent <1>".to_owned() };
    let mut snapshot = SnapshotDraft::new(tree, message, &stamp);
    snapshot.author.model = "model-1".to_owned();
    snapshot.metadata.insert("tokens".to_owned(), "812".to_owned());
    let id = change.snapshot(branch, snapshot).unwrap();
    change.commit(&stamp, "turn").unwrap();
    id
}

fn say(sink: &mut dyn ObjectSink, builder: &mut Builder, role: Role, text: &str) {
    let json = serde_json::json!({"role": role.name(), "content": text}).to_string();
    let blob = sink.write(Kind::Blob, json.into()).unwrap();
    builder.push_message(sink, "main", &MessageEntry::new(blob, role, "json")).unwrap();
}

fn put(sink: &mut dyn ObjectSink, builder: &mut Builder, path: &str, mode: FileMode, text: &str) {
    let file = (mode, Bytes::copy_from_slice(text.as_bytes()));
    builder.set_file(sink, path, Some(file)).unwrap();
}

/// A session with everything special in git: executables, links, odd names, files that become
/// folders.
fn session(repo: &Repository, turns: usize) {
    use FileMode::{Executable, Regular, Symlink};
    let branch = main_of("work");
    for turn in 0..turns {
        let second = 1_700_000_000 + i64::try_from(turn).unwrap();
        let message = format!("turn {turn}\nand more of it\n\nTurntree-Id: nonsense");
        record(repo, &branch, second, &message, |sink, builder| {
            say(sink, builder, Role::User, &format!("do {turn}"));
            say(sink, builder, Role::Assistant, &format!("did {turn}"));
            put(sink, builder, "src/main.rs", Regular, &format!("fn main() {{ {turn} }}\n"));
            put(sink, builder, &format!("deep/{}/{turn}.txt", turn % 3), Regular, "same\n");
            match turn % 6 {
                0 => {
                    put(sink, builder, "run", Executable, "#!/bin/sh\n");
                    put(sink, builder, "link", Symlink, "src/main.rs");
                    put(sink, builder, "a", Regular, "file\n");
                    put(sink, builder, "line\nend \"é\"", Regular, "");
                }
                1 => {
                    for path in [".git/config", "../up", "x/.GIT/hooks", "a%00b"] {
                        put(sink, builder, path, Regular, path);
                    }
                    let modules = "[submodule \"..\"]\n\tpath = ..\n";
                    put(sink, builder, "sub/.gitmodules", Regular, modules);
                    put(sink, builder, ".gitattributes", Regular, &"x".repeat(3000));
                    put(sink, builder, ".gitignore", Regular, "*.o\n");
                    put(sink, builder, "sub/.gitignore", Symlink, "../.gitignore");
                    put(sink, builder, "sub/.mailmap", Symlink, "nowhere");
                }
                2 => {
                    builder.set_file(sink, "a", None).unwrap();
                    put(sink, builder, "a/b", Regular, "folder\n");
                    put(sink, builder, "run", Regular, "#!/bin/sh\n");
                }
                3 => {
                    put(sink, builder, "link", Regular, "a file now\n");
                    builder.set_file(sink, "../up", None).unwrap();
                    builder.set_file(sink, "line\nend \"é\"", None).unwrap();
                }
                4 => {
                    builder.set_file(sink, "a/b", None).unwrap();
                    builder.set_entry(sink, "scratchpad", "todo", Some("rest".into())).unwrap();
                }
                _ => {
                    builder.set_entry(sink, "scratchpad", "todo", None).unwrap();
                    let messages = "agents/main/messages";
                    builder.splice(sink, messages, 1..2, Vec::new()).unwrap();
                }
            }
        });
    }
}

/// A session with branches, merges by hand, and tags.
fn sample() -> Sandbox {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    session(repo, 14);
    let tip = repo.tip(&main_of("work")).unwrap();
    for name in ["plan", "plan/b"] {
        let branch = BranchName::new("work", name).unwrap();
        let mut change = repo.begin();
        change.move_branch(&branch, Some(tip));
        change.commit(&stamp(1), "fork").unwrap();
        record(repo, &branch, 1_700_001_000, name, |sink, builder| {
            put(sink, builder, "plan", FileMode::Regular, name);
        });
    }
    let mut change = repo.begin();
    change.tag("v1", &tip, "the first\nthat worked".to_owned(), &stamp(5)).unwrap();
    change.switch(&BranchName::new("work", "plan").unwrap());
    change.commit(&stamp(5), "tag").unwrap();
    sandbox.import("talk", claude_code(20).as_bytes()).unwrap();
    sandbox
}

fn every_turn(repo: &Repository) -> Vec<LogEntry> {
    let starts: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    repo.history(&starts, &[]).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The files of a restore without the conversations and the transcript, which an export writes
/// differently.
fn restored(repo: &Repository, id: &ObjectId, dir: &Path) -> Files {
    let context = repo.context(id).unwrap();
    plan_checkout(repo, &context, dir, &[]).unwrap().apply(repo, false).unwrap();
    let mut files = files_in(dir);
    fs::remove_dir_all(dir).unwrap();
    files.retain(|path, _| path != "source" && !path.ends_with("/messages.jsonl"));
    // git interprets files of its own names in any folder: names that it would refuse are encoded.
    let mut renamed = Files::new();
    for (path, file) in files {
        let is_link = path == "files/sub/.gitignore" || path == "files/sub/.mailmap";
        let refused = is_link || path.ends_with("/.gitmodules") || path == "files/.gitattributes";
        // A name that looks encoded is encoded again.
        let path = path.replace("a%00b", "a%2500b");
        let path = if refused {
            [".gitm", ".gita", ".giti", ".mail"]
                .iter()
                .fold(path, |path, name| path.replace(name, &format!("%2E{}", &name[1..])))
        } else {
            path
        };
        renamed.insert(path, file);
    }
    renamed
}

fn without_messages(mut files: Files) -> Files {
    files.retain(|path, _| !path.contains("/messages/"));
    files
}

#[test]
fn git_checkouts_equal_restores_at_every_turn() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let (dir, repo) = (sandbox.folder().join("out.git"), &sandbox.repo);
    let report = export_all(repo, &dir);
    let git = Git::at(&dir);
    git.fsck();
    let (commits, turns) = (git.by_snapshot(), every_turn(repo));
    assert_eq!((commits.len(), report.commits), (turns.len(), turns.len() as u64));
    let work = git.clone_to(&sandbox.folder().join("work"));
    for LogEntry { id, commit, parents } in turns {
        let name = &commits[&id.to_string()];
        let expected = restored(repo, &id, &sandbox.folder().join("restored"));
        if commit.session == "work" {
            work.run(&["checkout", "-q", "--force", name]);
            work.run(&["clean", "-q", "-ffdx"]);
            assert_eq!(without_messages(files_in(&work.dir)), expected, "{}", commit.message);
        }
        let files = git.files(name);
        let messages = files.keys().filter(|path| path.contains("/messages/")).count() as u64;
        let context = repo.context(&id).unwrap();
        assert_eq!(messages, context.message_count(repo).unwrap());
        assert_eq!(without_messages(files), expected, "{}", commit.message);
        let of_git = git.run(&["log", "-1", "--format=%P", name]);
        let of_git: Vec<&str> = of_git.split(' ').filter(|id| !id.is_empty()).collect();
        let parents: Vec<&String> = parents.iter().map(|id| &commits[&id.to_string()]).collect();
        assert_eq!(of_git, parents);
    }
}

#[test]
fn git_exports_have_branches_tags_and_facts() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let dir = sandbox.folder().join("out.git");
    export_all(&sandbox.repo, &dir);
    let git = Git::at(&dir);
    let names: Vec<String> = git.refs().into_keys().collect();
    let expected = ["heads/talk/main", "heads/work/main", "heads/work/plan", "heads/work/plan%2Fb"];
    let expected: Vec<String> =
        expected.into_iter().chain(["tags/v1"]).map(|name| format!("refs/{name}")).collect();
    assert_eq!(names, expected);
    assert_eq!(git.run(&["symbolic-ref", "HEAD"]), "refs/heads/work/plan");
    assert_eq!(git.run(&["cat-file", "-t", "v1"]), "tag");
    assert_eq!(
        git.run(&["tag", "-l", "--format=%(contents:subject)", "v1"]),
        "the first that worked"
    );
    assert_eq!(git.run(&["rev-parse", "v1^{commit}"]), git.run(&["rev-parse", "work/main"]));
    let format = "--format=%an|%cn|%at|%ad|%s|%b|%(trailers:key=Turntree-Turn,valueonly)";
    let shown = git.run(&["log", "-1", "--date=iso", format, "work/main"]);
    assert!(
        shown.starts_with(
            "agent 1|turntree|1700000013|2023-11-14 19:43:33 -0230|turn 13|and more of it\n\nTurntree-Id: nonsense\n\nTurntree-Id: "
        ),
        "{shown}"
    );
    assert!(shown.ends_with("\n|14"), "{shown}");
    for line in
        ["Turntree-Session: work\n", "Turntree-Model: model-1\n", "Turntree-Meta: tokens=812\n"]
    {
        assert!(shown.contains(line), "{shown}");
    }
    let diff = git.run(&["show", "--format=", "--stat=120", "--summary", "work/main~9"]);
    assert!(diff.contains("agents/main/messages/0000/000008-user.md"), "{diff}");
    let message = git.run(&["show", "work/main:agents/main/messages/0000/000000-user.md"]);
    assert_eq!(message, "**user**\n\n> do 0");
}

#[test]
fn git_commits_are_deterministic_and_independent_of_steps() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let dir = |name: &str| sandbox.folder().join(name);
    for turns in [1, 6, 13] {
        // The same turns in a new store each time.
        let one = Sandbox::new();
        session(&one.repo, turns);
        let report = export_all(&one.repo, &dir("again.git"));
        assert_eq!(export_all(&one.repo, &dir("again.git")).objects, 0);
        let other = Sandbox::new();
        session(&other.repo, turns);
        let whole = export_all(&other.repo, &dir(&format!("{turns}.git")));
        assert_eq!(ids(&report), ids(&whole));
        assert!(turns == 1 || report.commits < whole.commits);
    }
    Git::at(&dir("again.git")).fsck();
}

turntree_properties::properties! {
    cases = 12;

    #[test]
    fn incremental_git_exports_equal_full_exports(steps in steps(), cut: prop::sample::Index) {
        if !is_installed() {
            return Ok(());
        }
        let before = RandomHistory::new(&steps[..=cut.index(steps.len())]);
        let history = RandomHistory::new(&steps);
        let folder = history.sandbox.folder();
        export_all(&before.sandbox.repo, &folder.join("bits.git"));
        let bits = export_all(&history.sandbox.repo, &folder.join("bits.git"));
        let whole = export_all(&history.sandbox.repo, &folder.join("whole.git"));
        prop_assert_eq!(ids(&bits), ids(&whole));
        let git = Git::at(&folder.join("bits.git"));
        git.fsck();
        let commits = git.by_snapshot();
        for tip in history.tips.values() {
            for at in history.reachable(&[*tip]) {
                let turn = &history.turns[at];
                let files = git.files(&commits[&turn.id.to_string()]);
                let text = |(_, bytes): &(String, Vec<u8>)| String::from_utf8(bytes.clone()).unwrap();
                let below = |folder: &str| -> BTreeMap<String, String> {
                    let inside = files.iter().filter_map(|(path, file)| {
                        Some((path.strip_prefix(folder)?.to_owned(), text(file)))
                    });
                    inside.collect()
                };
                prop_assert_eq!(&below("files/"), &turn.content.files);
                prop_assert_eq!(&below("scratchpad/"), &turn.content.notes);
                let said: Vec<String> = below("agents/main/messages/").into_values().collect();
                let expected = turn.content.messages.iter().map(|text| match text.as_str() {
                    "" => "**user**\n".to_owned(),
                    text => format!("**user**\n\n> {}\n", text.replace('\n', "\n> ")),
                });
                prop_assert_eq!(said, expected.collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn killed_git_exports_can_be_repeated() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let whole = export_all(&sandbox.repo, &sandbox.folder().join("whole.git"));
    let mut kills = 0;
    // The system kills a process that writes a file longer than its limit.
    for blocks in [0, 1, 2, 3, 5, 8, 12, 16, 20, 26, 32, 40] {
        let dir = sandbox.folder().join(format!("killed-{blocks}.git"));
        let line = format!("ulimit -f {blocks}; exec \"$0\" git export \"$1\"");
        let ended = Command::new("sh")
            .args(["-c", &line, PROGRAM, dir.to_str().unwrap()])
            .env("TURNTREE_STORE", sandbox.store_dir())
            .env("TURNTREE_MAINTENANCE", "off")
            .output()
            .unwrap();
        kills += usize::from(!ended.status.success());
        assert_eq!(export_all(&sandbox.repo, &dir).refs, whole.refs);
        Git::at(&dir).fsck();
        let left = fs::read_dir(dir.join("objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().path().extension().map(ToOwned::to_owned));
        let left: BTreeSet<_> = left.flatten().collect();
        assert!(left.iter().all(|found| found == "pack" || found == "idx"), "{blocks}: {left:?}");
    }
    assert!(kills > 5, "{kills}");
}

#[test]
fn git_exports_do_not_overwrite_foreign_repositories_or_refs() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let refused = |dir: &Path| {
        let options = GitExportOptions::default();
        export(&sandbox.repo, dir, &options, &mut |_, _| {}).unwrap_err()
    };
    let foreign = Git::init(&sandbox.folder().join("foreign"));
    let before = files_in(&foreign.dir.join(".git"));
    for dir in [foreign.dir.clone(), foreign.dir.join(".git"), sandbox.folder().to_owned()] {
        let error = refused(&dir);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("nothing was written"), "{error}");
    }
    assert_eq!(refused(&sandbox.store_dir().join("git")).kind(), ErrorKind::InvalidInput);
    assert_eq!(files_in(&foreign.dir.join(".git")), before);

    let dir = sandbox.folder().join("out.git");
    export_all(&sandbox.repo, &dir);
    let git = Git::at(&dir);
    let (tree, tip) =
        (git.run(&["rev-parse", "work/main^{tree}"]), git.run(&["rev-parse", "work/main"]));
    let own = git.run(&["commit-tree", &tree, "-p", &tip, "-m", "of another tool"]);
    git.run(&["update-ref", "refs/heads/mine", &own]);
    assert_eq!(export_all(&sandbox.repo, &dir).commits, 0);
    assert_eq!(git.run(&["rev-parse", "mine"]), own, "an export leaves other branches alone");
    git.run(&["update-ref", "refs/heads/work/main", &own]);
    let error = refused(&dir);
    assert!(error.to_string().contains("refs/heads/work/main is at"), "{error}");
    assert_eq!(git.run(&["rev-parse", "work/main"]), own);
}

#[test]
fn git_exports_without_commits_report_ref_changes() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let (repo, dir) = (&sandbox.repo, sandbox.folder().join("out.git"));
    let made = |report: &GitExport| {
        let is_made =
            |found: &&turntree_exchange::git::GitRef| found.change == GitRefChange::Created;
        report.refs.iter().filter(is_made).count()
    };
    let first = export_all(repo, &dir);
    assert_eq!(made(&first), first.refs.len());
    assert_eq!(first.head.as_deref(), Some("refs/heads/work/plan"));
    let again = export_all(repo, &dir);
    assert!(again.refs.iter().all(|found| found.change == GitRefChange::Unchanged), "{again:?}");
    assert_eq!((again.deleted.len(), again.head), (0, None));
    assert_eq!((again.objects, again.bytes), (0, 0), "a tag is written once");

    let mut change = repo.begin();
    change.switch(&main_of("work"));
    change.tag("v2", &repo.tip(&main_of("work")).unwrap(), "more".into(), &stamp(9)).unwrap();
    change.commit(&stamp(9), "tag").unwrap();
    let tagged = export_all(repo, &dir);
    assert_eq!((tagged.commits, made(&tagged)), (0, 1));
    assert_eq!(tagged.head.as_deref(), Some("refs/heads/work/main"));
}

#[test]
fn cyclic_tags_do_not_stop_a_git_export() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let dir = sandbox.folder().join("out.git");
    export_all(&sandbox.repo, &dir);
    let git = Git::at(&dir);
    let loop_id = git.tag_that_leads_to_itself();
    fs::write(dir.join("refs/tags/loop"), format!("{loop_id}\n")).unwrap();
    assert_eq!(export_all(&sandbox.repo, &dir).commits, 0);
}

#[test]
fn git_exports_move_rewound_branches_and_delete_conflicting_names() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, dir) = (&sandbox.repo, sandbox.folder().join("out.git"));
    session(repo, 5);
    let (main, deep) = (main_of("work"), BranchName::new("work", "x/deep").unwrap());
    let tip = repo.tip(&main).unwrap();
    let mut change = repo.begin();
    change.move_branch(&deep, Some(tip));
    change.commit(&stamp(1), "fork").unwrap();
    export_all(repo, &dir);
    let older = repo.find_turn(&tip, 2).unwrap();
    let mut change = repo.begin();
    change.move_branch(&main, Some(older));
    change.move_branch(&BranchName::new("work", "x").unwrap(), Some(older));
    change.commit(&stamp(1), "rewind").unwrap();
    let report = export_all(repo, &dir);
    assert_eq!(report.commits, 0);
    let said: Vec<_> = report.refs.iter().map(|it| (it.git_name.as_str(), it.change)).collect();
    let expected = [
        ("refs/heads/work/main", GitRefChange::Moved),
        ("refs/heads/work/x", GitRefChange::Created),
        ("refs/heads/work/x%2Fdeep", GitRefChange::Created),
    ];
    assert_eq!(said, expected);
    assert_eq!(
        (&report.deleted[..], report.head),
        (&["refs/heads/work/x/deep".to_owned()][..], None)
    );
    let git = Git::at(&dir);
    git.fsck();
    let names: Vec<String> = git.refs().into_keys().collect();
    assert_eq!(names, ["refs/heads/work/main", "refs/heads/work/x", "refs/heads/work/x%2Fdeep"]);
    assert_eq!(git.run(&["rev-list", "--count", "work/main"]), "2");
}

#[test]
fn git_exports_select_sessions_and_names() {
    if !is_installed() {
        return;
    }
    let sandbox = sample();
    let refs = |name: &str, selection: ExportSelection| {
        let options = GitExportOptions { selection, source: false };
        export(&sandbox.repo, &sandbox.folder().join(name), &options, &mut |_, _| {}).map(
            |report| report.refs.into_iter().map(|found| found.name).collect::<Vec<_>>().join(" "),
        )
    };
    let talk = ExportSelection::Session("talk".to_owned());
    assert_eq!(refs("1.git", talk).unwrap(), "refs/heads/talk/main");
    let names = ExportSelection::Names(vec!["v1".to_owned(), "work/plan/b".to_owned()]);
    assert_eq!(refs("2.git", names).unwrap(), "refs/heads/work/plan/b refs/tags/v1");
    let unknown = ExportSelection::Names(vec!["HEAD~1".to_owned()]);
    assert_eq!(refs("3.git", unknown).unwrap_err().kind(), ErrorKind::NotFound);
    let missing = ExportSelection::Session("missing".to_owned());
    assert_eq!(refs("4.git", missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!sandbox.folder().join("4.git").exists());
    assert!(refs("1.git", ExportSelection::All).is_ok(), "the rest can follow");
    assert_eq!(Git::at(&sandbox.folder().join("1.git")).refs().len(), 5);
}

#[test]
fn git_exports_include_transcripts_only_on_request() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let transcript = claude_code(9);
    sandbox.import("talk", transcript.as_bytes()).unwrap();
    let dir = sandbox.folder().join("out.git");
    let options = |source| GitExportOptions { source, ..GitExportOptions::default() };
    export(&sandbox.repo, &dir, &options(true), &mut |_, _| {}).unwrap();
    let files = Git::at(&dir).files("talk/main");
    let pieces = files.iter().filter(|(path, _)| path.starts_with("source/"));
    let lines: Vec<&[u8]> = pieces.map(|(_, (_, bytes))| bytes.as_slice()).collect();
    assert_eq!(lines.concat(), transcript.replace('\n', "").as_bytes());
    let error = export(&sandbox.repo, &dir, &options(false), &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("exported with --source"), "{error}");
}

#[test]
fn git_exports_skip_expired_turns_and_keep_exported_ones() {
    if !is_installed() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (folder, store) = (place.path(), place.path().join("store"));
    let repo = new_store(&store);
    // The content of the newest 20 operations is kept for undo.
    session(&repo, 60);
    let before = export_all(&repo, &folder.join("before.git"));
    // A segment with an open writer is not collected.
    drop(repo);
    let turntree = |arguments: &[&str]| {
        let ended = Command::new(PROGRAM)
            .args(arguments)
            .env("TURNTREE_STORE", &store)
            .env("TURNTREE_NOW", "2040-01-01T00:00:00Z")
            .env("TURNTREE_MAINTENANCE", "off")
            .output()
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    };
    turntree(&["retention", "set", "--keep-last", "4", "work"]);
    turntree(&["gc"]);
    let repo = open_store(&store, 2);
    record(&repo, &main_of("work"), 1_700_009_000, "after", |sink, builder| {
        put(sink, builder, "src/main.rs", FileMode::Regular, "after\n");
    });
    let after = export_all(&repo, &folder.join("before.git"));
    assert_eq!((before.commits, after.commits, after.expired), (60, 1, 0));
    let fresh = export_all(&repo, &folder.join("fresh.git"));
    assert!(fresh.expired >= 30 && fresh.commits + fresh.expired == 61, "{fresh:?}");
    for (name, commits) in [("before.git", 61), ("fresh.git", fresh.commits)] {
        let git = Git::at(&folder.join(name));
        git.fsck();
        assert_eq!(git.run(&["rev-list", "--count", "work/main"]), commits.to_string());
        let tip = repo.tip(&main_of("work")).unwrap();
        let expected = restored(&repo, &tip, &folder.join("restored"));
        assert_eq!(without_messages(git.files("work/main")), expected);
    }
}

#[test]
fn recorded_sessions_export_to_valid_git_repositories() {
    if !is_installed() {
        return;
    }
    let files: Vec<PathBuf> = recorded_sessions()
        .into_iter()
        .filter(|path| path.parent().is_some_and(|folder| folder.ends_with("claude-code")))
        .collect();
    if files.is_empty() {
        eprintln!("skipped: no recorded sessions beside the project, nor in TURNTREE_SESSIONS");
        return;
    }
    let sandbox = Sandbox::new();
    for (number, file) in files.iter().enumerate() {
        sandbox.import(&format!("s{number}"), &fs::read(file).unwrap()).unwrap();
    }
    let (repo, dir) = (&sandbox.repo, sandbox.folder().join("out.git"));
    export_all(repo, &dir);
    assert_eq!(export_all(repo, &dir).objects, 0);
    let git = Git::at(&dir);
    git.fsck();
    let (commits, turns) = (git.by_snapshot(), every_turn(repo));
    assert_eq!(commits.len(), turns.len());
    for LogEntry { id, commit, .. } in turns.iter().step_by(23) {
        let files = git.files(&commits[&id.to_string()]);
        let context = repo.context(id).unwrap();
        let messages = files.keys().filter(|path| path.contains("/messages/")).count() as u64;
        assert_eq!(messages, context.message_count(repo).unwrap(), "{}", commit.message);
        let expected = restored(repo, id, &sandbox.folder().join("restored"));
        assert_eq!(without_messages(files), expected, "{}", commit.message);
    }
}
