//! Rewinds in a workspace that other processes change, that has unmanaged files, and that refuses
//! writes, and rewinds that are killed: no file is lost or partial, and the same command again
//! finishes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use turntree::ErrorKind;
use turntree::context::{Builder, FileMode, Selection};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, SnapshotDraft};
use turntree::workspace::{
    CaptureOptions, ChangeKind, PreparedRewind, RewindRequest, capture, prepare_rewind,
    workspace_metadata,
};
use turntree_tests::{Sandbox, stamp};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn branch() -> BranchName {
    BranchName::main("s").unwrap()
}

/// A store, a workspace, and a canary next to them.
struct Place {
    sandbox: Sandbox,
    dir: PathBuf,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Self {
        let sandbox = Sandbox::new();
        let dir = sandbox.folder().join("work");
        fs::create_dir(&dir).unwrap();
        fs::create_dir(sandbox.folder().join("outside")).unwrap();
        fs::write(sandbox.folder().join("outside/canary"), "alive").unwrap();
        let place = Self { sandbox, dir };
        files.iter().for_each(|(path, text)| place.write(path, text));
        place
    }

    fn write(&self, path: &str, text: &str) {
        let full = self.dir.join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(path)).ok()
    }

    /// Commits a snapshot of the workspace, and of files that no workspace could contain.
    fn snapshot(&self, others: &[(&str, FileMode, &str)]) -> ObjectId {
        let mut change = self.sandbox.repo.begin();
        let parent = change.tip(&branch()).map(|tip| self.sandbox.repo.context(&tip).unwrap());
        let parent = parent.unwrap_or_default();
        let mut builder = Builder::from(parent.clone());
        capture(&mut change, &parent, &mut builder, &self.dir, &CaptureOptions::default()).unwrap();
        for (key, mode, text) in others {
            let file = Some((*mode, (*text).to_owned().into()));
            builder.set_file(&mut change, key, file).unwrap();
        }
        let mut draft = SnapshotDraft::new(builder.write(&mut change).unwrap(), "x", &stamp(1));
        draft.metadata.extend([workspace_metadata(&self.dir)]);
        let id = change.snapshot(&branch(), draft).unwrap();
        change.commit(&stamp(1), "snapshot").unwrap();
        id
    }

    fn prepare(&self, from: ObjectId, options: &CaptureOptions<'_>) -> PreparedRewind<'_> {
        let restore = RewindRequest {
            branch: branch(),
            from,
            only: Selection::default(),
            workspace: Some(self.dir.clone()),
            is_rollback: false,
            keep_lessons: false,
            audit: false,
            message: "back".into(),
        };
        prepare_rewind(&self.sandbox.repo, &restore, options, &stamp(2)).unwrap()
    }

    /// Plans, runs `strike`, and applies. Returns the paths that failed with their errors.
    fn raced(&self, from: ObjectId, strike: impl FnOnce()) -> Vec<(String, ErrorKind)> {
        let prepared = self.prepare(from, &CaptureOptions::default());
        strike();
        let done = prepared.apply(&stamp(3), "back").unwrap();
        let failed = done.arranged.unwrap().failed;
        failed.into_iter().map(|(path, error)| (path.display().to_string(), error.kind())).collect()
    }
}

/// The changes of a plan by path, and the paths that it skips.
fn planned(
    prepared: &PreparedRewind<'_>,
) -> (BTreeMap<String, ChangeKind>, BTreeMap<String, String>) {
    let files = prepared.plan().files.as_ref().unwrap();
    let name = |path: &Path| path.to_string_lossy().into_owned();
    let changes = files.files.iter().map(|file| (name(&file.path), file.kind)).collect();
    let left = files.left.iter().map(|left| (name(&left.path), left.reason.clone())).collect();
    (changes, left)
}

#[test]
fn unmanaged_files_are_kept_and_reported() {
    let place = Place::new(&[
        ("plain", "1"),
        ("ignored", "1"),
        ("large", "1"),
        ("pipe", "1"),
        ("linked", "1"),
        ("folder", "1"),
        ("way/down", "1"),
    ]);
    let first = place.snapshot(&[]);
    fs::remove_file(place.dir.join("pipe")).unwrap();
    fs::remove_file(place.dir.join("linked")).unwrap();
    fs::remove_file(place.dir.join("folder")).unwrap();
    fs::remove_dir_all(place.dir.join("way")).unwrap();
    place.write(".gitignore", "ignored\nfolder/ignored\nbuild/\n");
    place.write("plain", "2");
    place.write("ignored", "mine");
    place.write("large", &"large ".repeat(100));
    place.write("folder/ignored", "mine");
    place.write("build/out", "mine");
    place.write(".git/config", "git's");
    let _pipe = UnixListener::bind(place.dir.join("pipe")).unwrap();
    symlink("../outside/canary", place.dir.join("linked")).unwrap();
    symlink("../outside", place.dir.join("way")).unwrap();

    let options = CaptureOptions { max_file_bytes: 100, ..CaptureOptions::default() };
    let prepared = place.prepare(first, &options);
    let (changes, left) = planned(&prepared);
    assert_eq!(
        changes,
        BTreeMap::from([
            (".gitignore".into(), ChangeKind::Delete),
            ("linked".into(), ChangeKind::Overwrite),
            ("plain".into(), ChangeKind::Overwrite),
            ("way".into(), ChangeKind::Delete),
            ("way/down".into(), ChangeKind::Create),
        ])
    );
    assert_eq!(left.keys().collect::<Vec<_>>(), ["folder", "ignored", "large", "pipe"], "{left:?}");
    assert!(left["ignored"].contains("ignores it") && left["large"].contains("limit"), "{left:?}");
    assert!(left["folder"].contains("files to keep") && left["pipe"].contains("neither"));

    let done = prepared.apply(&stamp(3), "back").unwrap().arranged.unwrap();
    assert!(done.failed.is_empty(), "{:?}", done.failed);
    assert_eq!((place.read("plain").unwrap(), place.read("way/down").unwrap()), two("1"));
    assert!(fs::symlink_metadata(place.dir.join("way")).unwrap().is_dir());
    for path in ["ignored", "folder/ignored", "build/out"] {
        assert_eq!(place.read(path).unwrap(), "mine");
    }
    assert_eq!(place.read(".git/config").unwrap(), "git's");
    let outside = place.sandbox.folder().join("outside");
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), "alive");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
}

fn two(text: &str) -> (String, String) {
    (text.to_owned(), text.to_owned())
}

#[test]
fn escaping_git_and_store_paths_are_not_written() {
    let place = Place::new(&[("plain", "1")]);
    let evil = [
        ("../outside/canary", FileMode::Regular, "evil"),
        ("/tmp/evil", FileMode::Regular, "evil"),
        (".git/hooks/pre-commit", FileMode::Executable, "evil"),
        ("sub/.GIT/config", FileMode::Regular, "evil"),
        (".turntree/superblock", FileMode::Regular, "evil"),
        ("a/./b", FileMode::Regular, "evil"),
        ("link", FileMode::Symlink, "../outside"),
        ("link/canary", FileMode::Regular, "evil"),
        ("good", FileMode::Regular, "good"),
    ];
    let first = place.snapshot(&evil);
    let prepared = place.prepare(first, &CaptureOptions::default());
    let (changes, left) = planned(&prepared);
    assert_eq!(left.len(), 6, "{left:?}");
    assert!(changes.contains_key("good") && changes.contains_key("link"), "{changes:?}");
    let done = prepared.apply(&stamp(3), "back").unwrap().arranged.unwrap();
    let failed: Vec<&PathBuf> = done.failed.iter().map(|(path, _)| path).collect();
    assert_eq!(failed, [Path::new("link/canary")]);
    assert_eq!(place.read("good").unwrap(), "good");
    let outside = place.sandbox.folder().join("outside/canary");
    assert_eq!(fs::read_to_string(outside).unwrap(), "alive");
    assert!(!place.dir.join(".git").exists() && !place.dir.join("sub").exists());
}

#[test]
fn concurrently_changed_files_are_kept_and_others_restored() {
    let place = Place::new(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let first = place.snapshot(&[]);
    for path in ["a", "b", "new", "d/new"] {
        place.write(path, "2");
    }
    fs::remove_file(place.dir.join("c")).unwrap();
    let failed = place.raced(first, || {
        place.write("a", "another user's");
        place.write("new", "another user's");
        place.write("c", "another user's");
    });
    let expected = ["new", "a", "c"].map(|path| (path.to_owned(), ErrorKind::Conflict));
    assert_eq!(failed, expected);
    for path in ["a", "new", "c"] {
        assert_eq!(place.read(path).unwrap(), "another user's");
    }
    assert_eq!((place.read("b").as_deref(), place.dir.join("d").exists()), (Some("1"), false));

    // The same rewind again finishes, and saves the other process's changes.
    assert_eq!(place.raced(first, || {}), []);
    assert_eq!((place.read("a").unwrap(), place.read("c").unwrap()), two("1"));
    assert_eq!(place.read("new"), None);
    let kept = place.sandbox.repo.read_ref("refs/before/s/main").unwrap();
    let context = place.sandbox.repo.context(&kept).unwrap();
    let files = context.map(&place.sandbox.repo, "files").unwrap();
    let item = files.get(&place.sandbox.repo, b"a").unwrap().unwrap();
    let blob = turntree::object::ObjectSource::read(&place.sandbox.repo, &item.link.id);
    assert_eq!(blob.unwrap().unwrap().bytes, "another user's");
}

#[test]
fn folders_replaced_by_links_are_not_written_through() {
    let place = Place::new(&[("d/canary", "1"), ("plain", "1")]);
    let first = place.snapshot(&[]);
    place.write("d/canary", "2");
    place.write("plain", "2");
    let failed = place.raced(first, || {
        fs::rename(place.dir.join("d"), place.dir.join("away")).unwrap();
        symlink("../outside", place.dir.join("d")).unwrap();
    });
    assert_eq!(failed[0].0, "d/canary");
    let outside = place.sandbox.folder().join("outside/canary");
    assert_eq!(fs::read_to_string(outside).unwrap(), "alive");
    assert_eq!(place.read("plain").unwrap(), "1");
}

#[test]
fn files_known_only_from_a_transcript_cause_no_deletions() {
    let place = Place::new(&[("mine", "mine")]);
    let mut change = place.sandbox.repo.begin();
    let mut builder = Builder::new();
    builder.set_file(&mut change, "told", Some((FileMode::Regular, "told".into()))).unwrap();
    let draft = SnapshotDraft::new(builder.write(&mut change).unwrap(), "told", &stamp(1));
    let told = change.snapshot(&branch(), draft).unwrap();
    change.commit(&stamp(1), "import").unwrap();
    let prepared = place.prepare(told, &CaptureOptions::default());
    assert!(!prepared.plan().files.as_ref().unwrap().deletes);
    prepared.apply(&stamp(2), "back").unwrap();
    assert_eq!(
        (place.read("mine").as_deref(), place.read("told").as_deref()),
        (Some("mine"), Some("told"))
    );
}

/// The files of the workspace of a program that is killed: at the first turn, and now.
const FIRST: [(&str, &str); 6] = [
    ("changed", "1"),
    ("d/changed", "1"),
    ("folder", "1"),
    ("gone", "1"),
    ("long/way/gone", "1"),
    ("same", "1"),
];
const NOW: [(&str, &str); 6] = [
    ("changed", "2"),
    ("d/changed", "2"),
    ("d/new", "2"),
    ("folder/new", "2"),
    ("new/new", "2"),
    ("same", "1"),
];

/// The program with its own store and workspace.
struct Shell {
    root: tempfile::TempDir,
}

impl Shell {
    /// A workspace at the second turn, with `changed` edited since.
    fn new() -> Self {
        let shell = Self { root: tempfile::tempdir().unwrap() };
        shell.fill(&FIRST);
        shell.expect(&["snapshot", "-m", "first", "--workspace", "work"], 0);
        shell.fill(&NOW);
        fs::write(shell.work().join("changed"), "1 and more").unwrap();
        shell.expect(&["snapshot", "-m", "second", "--workspace", "work"], 0);
        fs::write(shell.work().join("changed"), "2").unwrap();
        shell
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn fill(&self, files: &[(&str, &str)]) {
        let _ = fs::remove_dir_all(self.work());
        for (path, text) in files {
            let full = self.work().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, text).unwrap();
        }
    }

    fn files(&self) -> BTreeMap<String, String> {
        let (mut found, mut left) = (BTreeMap::new(), vec![self.work()]);
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                let name = path.strip_prefix(self.work()).unwrap().to_string_lossy().into_owned();
                match path.is_dir() {
                    true => left.push(path),
                    false if name.contains(".turntree-part-") => {}
                    false => drop(found.insert(name, fs::read_to_string(&path).unwrap())),
                }
            }
        }
        found
    }

    /// Checks that each file has its old or its new content.
    fn check_whole(&self) {
        let of = |files: &[(&str, &str)], path: &str| {
            files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
        };
        for (path, text) in self.files() {
            let known = [of(&FIRST, &path), of(&NOW, &path)];
            assert!(known.contains(&Some(text.clone())), "{path}: {text:?}");
        }
        self.expect(&["fsck"], 0);
    }

    fn is(&self, files: &[(&str, &str)]) -> bool {
        let all = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        self.files() == all.collect()
    }

    fn command(&self, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.root.path()).env_clear();
        command
            .env("HOME", self.root.path().join("home"))
            .env("TURNTREE_STORE", self.root.path().join("store"))
            .envs([("TURNTREE_ACTOR", "me"), ("TURNTREE_MAINTENANCE", "off"), ("TZ", "UTC")])
            // `strace` counts the calls of each thread on its own.
            .env("RAYON_NUM_THREADS", "1");
        command.output().unwrap()
    }

    #[track_caller]
    fn expect(&self, words: &[&str], exit: i32) -> Output {
        let output = self.command(PROGRAM, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {said}");
        output
    }

    /// Runs the program under strace, which injects a fault into its n-th call of a kind.
    fn inject(&self, call: &str, what: &str, n: usize, words: &[&str]) -> Output {
        let inject = format!("inject={call}:{what}:when={n}");
        let trace = format!("trace={call}");
        let strace = ["-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject, PROGRAM];
        self.command("/usr/bin/strace", &[&strace[..], words].concat())
    }

    fn tip(&self) -> String {
        let output = self.expect(&["log", "-n", "1", "--json"], 0);
        String::from_utf8(output.stdout).unwrap()
    }
}

/// True if strace is installed and may trace.
fn may_inject() -> bool {
    let output = Command::new("/usr/bin/strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    let may = output.is_ok_and(|output| output.status.success());
    if !may {
        eprintln!("skipped: there is no strace, or it may not trace");
    }
    may
}

/// The calls in which the process is killed or fails: writes and renames of files.
const CALLS: [&str; 6] =
    ["renameat,renameat2", "unlinkat", "fsync", "mkdirat", "write", "fdatasync"];

#[test]
fn killed_rollbacks_are_finished_by_a_restore() {
    if !may_inject() {
        return;
    }
    let mut killed = 0;
    for call in CALLS {
        for n in 1.. {
            let shell = Shell::new();
            let ended = shell.inject(call, "signal=SIGKILL", n, &["rollback"]);
            let was_killed = ended.status.signal().is_some() || ended.status.code() == Some(137);
            shell.check_whole();
            if shell.tip().contains("\"trigger\":\"rollback\"") {
                shell.expect(&["restore", "HEAD"], 0);
            } else {
                assert!(shell.is(&NOW), "nothing is touched before the operation is durable");
                shell.expect(&["rollback"], 0);
            }
            assert!(shell.is(&FIRST), "{call} {n}: {:?}", shell.files());
            if !was_killed {
                break;
            }
            killed += 1;
        }
    }
    assert!(killed > 20, "{killed}");
}

#[test]
fn killed_undos_are_finished_by_the_next() {
    if !may_inject() {
        return;
    }
    for call in CALLS {
        for n in 1.. {
            let shell = Shell::new();
            shell.expect(&["rollback"], 0);
            let ended = shell.inject(call, "signal=SIGKILL", n, &["undo"]);
            let was_killed = ended.status.signal().is_some() || ended.status.code() == Some(137);
            shell.check_whole();
            if was_killed && !shell.is(&NOW) {
                shell.expect(&["undo"], 0);
            }
            assert!(shell.is(&NOW), "{call} {n}: {:?}", shell.files());
            assert!(shell.tip().contains("second"));
            // A redo of the undo is complete too.
            shell.expect(&["redo"], 0);
            assert!(shell.is(&FIRST), "{call} {n}: {:?}", shell.files());
            if !was_killed {
                break;
            }
        }
    }
}

#[test]
fn system_errors_are_reported_and_a_retry_finishes() {
    if !may_inject() {
        return;
    }
    for (call, what) in [
        ("fsync", "error=ENOSPC"),
        ("renameat,renameat2", "error=EIO"),
        ("unlinkat", "error=EROFS"),
        ("mkdirat", "error=EACCES"),
    ] {
        let shell = Shell::new();
        let restore = ["restore", "HEAD~1"];
        let ended = shell.inject(call, what, 1, &restore);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(70), "{call}: {said}");
        assert!(said.contains("files were not restored"), "{call}: {said}");
        shell.check_whole();
        shell.expect(&["restore", "HEAD"], 0);
        assert!(shell.is(&FIRST), "{call}: {:?}", shell.files());
    }
}

#[test]
fn unwritable_directories_keep_their_files_and_others_are_restored() {
    let shell = Shell::new();
    let closed = shell.work().join("d");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(closed.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write anywhere");
        return;
    }
    shell.expect(&["rollback"], 70);
    assert_eq!(shell.files()["d/changed"], "2");
    assert_eq!(shell.files()["changed"], "1");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    shell.expect(&["restore", "HEAD"], 0);
    assert!(shell.is(&FIRST));
}
