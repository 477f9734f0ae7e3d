//! Two users on one disk: the maker of folders and bundles, and the user who receives them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use turntree::context::export_messages;
use turntree::repo::{BranchName, Repository};

use super::rule::{Found, Remotes};
use crate::open_store;
use crate::proof::processes::PATIENCE;

/// How often processes are polled.
const PAUSE: Duration = Duration::from_millis(5);

/// The directory of a store, and the file in it that points to another store.
pub(super) const STORE: &str = ".turntree";
const ELSEWHERE: &str = "elsewhere";

/// The maker's session that names a directory of the user.
pub(super) const GIFT: &str = "gift";

/// The content of a directory that the user received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No store: the user's own store is used.
    Bare,
    /// A directory in which a store may be created.
    Empty,
    /// The user created the store.
    Own,
    /// The user created the store, with a remote of theirs that is pushed to automatically.
    Pushing,
    /// A copy of the maker's store, with a remote of the maker.
    Copied { auto: bool },
    /// A copied store with a folder for keys, like an encrypted store.
    Keyed,
    /// A copy of a store without remotes.
    Plain,
    /// A clone in which git tracks the store.
    Tracked,
    /// A clone in which git tracks the directory where a store would be created.
    TrackedPlace,
    /// A link to the store next to it, which has a remote.
    LinkedInside,
    /// A link to an empty folder of the user.
    LinkedOut,
    /// A file points to a store of the maker.
    Pointer,
    /// A file points to a path without a store.
    PointerToNothing,
}

pub(super) const KINDS: [Kind; 14] = [
    Kind::Bare,
    Kind::Empty,
    Kind::Own,
    Kind::Pushing,
    Kind::Copied { auto: true },
    Kind::Copied { auto: false },
    Kind::Keyed,
    Kind::Plain,
    Kind::Tracked,
    Kind::TrackedPlace,
    Kind::LinkedInside,
    Kind::LinkedOut,
    Kind::Pointer,
    Kind::PointerToNothing,
];

/// A directory of the user.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    pub(super) kind: Kind,
    /// Git tracks the store in it.
    pub(super) tracked: bool,
}

/// The metadata of a file that any write changes.
type Stamp = (u64, u64, i64, i64, i64, i64);

pub(super) struct World {
    _folder: tempfile::TempDir,
    pub(super) root: PathBuf,
    program: PathBuf,
    /// The last number that was used.
    number: u64,
}

impl World {
    pub(super) fn new(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("a whole path");
        let world = Self { _folder: folder, root, program: program.to_owned(), number: 0 };
        for name in ["maker", "user", "drop", "backup", "transcripts", "user/scratch"] {
            fs::create_dir_all(world.root.join(name)).expect("a folder");
        }
        let victim = world.victim();
        fs::create_dir_all(&victim).expect("a folder");
        // The maker captures the directory on another machine with the same names.
        for name in ["one", "two"] {
            fs::write(victim.join("evil"), name).expect("a file");
            world.make_turn("maker", GIFT, &["--workspace", &victim.to_string_lossy()]);
        }
        world.make_turn("maker", GIFT, &["--append-message", "user=hello"]);
        world.made("maker", &["bundle", "create", GIFT, "-o", "../gift.bundle"]);
        fs::remove_file(victim.join("evil")).expect("it goes away");
        fs::write(victim.join("mine"), "mine").expect("a file");
        world
    }

    /// The directory in the maker's sessions.
    pub(super) fn victim(&self) -> PathBuf {
        self.root.join("user/.config/autostart")
    }

    /// The user's data directory, with their own store.
    pub(super) fn own(&self) -> PathBuf {
        self.root.join("user/.local/share/turntree")
    }

    /// A new number.
    pub(super) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A new path below the root with this prefix.
    pub(super) fn new_path(&mut self, beginning: &str) -> PathBuf {
        let number = self.number();
        self.root.join(format!("{beginning}{number}"))
    }

    /// A program in a directory, run by the user whose home is the folder `home`.
    pub(super) fn command(&self, program: &Path, home: &str, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.root.join(home)).env("TURNTREE_ACTOR", home);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([
            ("TURNTREE_MAINTENANCE", "off"),
            ("TURNTREE_HOOK_PATIENCE", "30s"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ]);
        command.env("GIT_CONFIG_SYSTEM", "/dev/null");
        command
    }

    /// Runs turntree as the user, with this input.
    pub(super) fn run(&self, dir: &Path, words: &[&str], input: &str) -> Output {
        let mut command = self.command(&self.program, "user", dir);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        // A command that reads no input may have ended.
        let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    }

    /// Waits for the background processes of hook events. Does nothing if the system has no list of
    /// processes.
    pub(super) fn wait_for_hooks(&self) {
        let root = self.root.as_os_str().as_encoded_bytes();
        let program = self.program.canonicalize().expect("the program");
        let is_at_work = |entry: fs::DirEntry| {
            let is_program = fs::read_link(entry.path().join("exe")).ok() == Some(program.clone());
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let has = |part: &[u8]| words.windows(part.len()).any(|window| window == part);
            // A process that is just starting has no command line yet.
            is_program && (words.is_empty() || (has(b"--background") && has(root)))
        };
        let began = Instant::now();
        while fs::read_dir("/proc").into_iter().flatten().flatten().any(is_at_work) {
            assert!(began.elapsed() < PATIENCE, "a hook runs longer than {PATIENCE:?}");
            thread::sleep(PAUSE);
        }
    }

    /// Runs turntree as the maker, in a directory below the root.
    pub(super) fn made(&self, dir: &str, words: &[&str]) {
        let mut command = self.command(&self.program, "maker", &self.root.join(dir));
        let done = command.args(words).output().expect("it starts");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn make_turn(&self, dir: &str, session: &str, more: &[&str]) {
        let words = ["snapshot", "-m", "theirs", "--session", session];
        self.made(dir, &[&words[..], more].concat());
    }

    fn shell(&self, dir: &Path, script: &str) {
        let mut command = self.command(Path::new("sh"), "maker", dir);
        let done = command.args(["-ec", script]).output().expect("a shell");
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Makes a store of the maker in the folder `dir`, with or without a remote.
    pub(super) fn make_store(&mut self, dir: &Path, remote: Option<bool>) {
        let name = dir.strip_prefix(&self.root).expect("a folder below the root").to_owned();
        let name = name.to_str().expect("a name");
        self.made(name, &["init"]);
        self.made(name, &["bundle", "unbundle", &self.gift()]);
        if let Some(auto) = remote {
            let bucket = self.new_path("drop/bucket-");
            self.made(name, &["remote", "add", "origin", &bucket.to_string_lossy()]);
            self.made(name, &["push", "--all"]);
            if auto {
                self.made(name, &["remote", "set", "origin", "--auto"]);
            }
        }
    }

    pub(super) fn gift(&self) -> String {
        self.root.join("gift.bundle").display().to_string()
    }

    /// Makes a new directory of the user with the content of this kind.
    pub(super) fn make_place(&mut self, kind: Kind) -> Place {
        let dir = self.new_path("user/p");
        let (store, sub) = (dir.join(STORE), dir.join("sub"));
        fs::create_dir_all(&sub).expect("a folder");
        fs::write(dir.join("file"), "1").expect("a file");
        let own = |words: &[&str]| {
            let done = self.run(&dir, words, "");
            assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        };
        let mut tracked = false;
        match kind {
            Kind::Bare => {}
            Kind::Empty => fs::create_dir(&store).expect("a folder"),
            Kind::Own => own(&["init"]),
            Kind::Pushing => {
                let name = dir.file_name().expect("a name").to_string_lossy();
                let backup = self.root.join("backup").join(&*name);
                own(&["init"]);
                own(&["remote", "add", "origin", &backup.to_string_lossy()]);
                own(&["remote", "set", "origin", "--auto"]);
            }
            Kind::Copied { auto } => self.copy_of_made(&dir, Some(auto)),
            Kind::Keyed => {
                self.copy_of_made(&dir, Some(false));
                fs::create_dir(store.join("keys")).expect("a folder");
                fs::write(store.join("keys/own.age"), "of others").expect("a file");
            }
            Kind::Plain => self.copy_of_made(&dir, None),
            Kind::Tracked => {
                self.copy_of_made(&dir, None);
                fs::remove_file(store.join(".gitignore")).expect("it goes away");
                tracked = true;
            }
            Kind::TrackedPlace => {
                fs::create_dir(&store).expect("a folder");
                fs::write(store.join(".gitignore"), "#\n").expect("a file");
                tracked = true;
            }
            Kind::LinkedInside => {
                self.copy_of_made(&dir, Some(false));
                fs::rename(&store, dir.join(".turntree-data")).expect("it is renamed");
                symlink(".turntree-data", &store).expect("a link");
            }
            Kind::LinkedOut => {
                let folder = self.new_path("user/public-");
                fs::create_dir(&folder).expect("a folder");
                symlink(folder, &store).expect("a link");
            }
            Kind::Pointer | Kind::PointerToNothing => {
                let theirs = self.new_path("drop/theirs-");
                fs::create_dir(&theirs).expect("a folder");
                if kind == Kind::Pointer {
                    self.make_store(&theirs, None);
                }
                fs::create_dir(&store).expect("a folder");
                let named = theirs.join(STORE);
                fs::write(store.join(ELSEWHERE), named.as_os_str().as_encoded_bytes())
                    .expect("a file");
            }
        }
        if tracked {
            let commit = "git init -q --template=; git add -f .; \
                          git -c user.name=m -c user.email=m@m commit -qm nice";
            self.shell(&dir, commit);
        }
        Place { dir, kind, tracked }
    }

    /// Puts a copy of a new store of the maker into a directory.
    pub(super) fn copy_of_made(&mut self, dir: &Path, remote: Option<bool>) {
        let made = self.new_path("maker/made-");
        fs::create_dir(&made).expect("a folder");
        self.make_store(&made, remote);
        self.copy(&made.join(STORE), &dir.join(STORE));
    }

    /// Copies a directory like an archive: links stay links.
    pub(super) fn copy(&self, from: &Path, to: &Path) {
        let mut command = self.command(Path::new("cp"), "maker", &self.root);
        let done = command.arg("-a").args([from, to]).status().expect("cp starts");
        assert!(done.success(), "{} is copied", from.display());
    }

    /// Finds the store of a place. `None` if the user's own store is used.
    pub(super) fn look_at(&self, place: &Place) -> Option<Found> {
        let store = place.dir.join(STORE);
        let link = fs::symlink_metadata(&store).ok()?;
        let named = fs::read(store.join(ELSEWHERE)).ok();
        let named = named.map(|bytes| PathBuf::from(String::from_utf8(bytes).expect("a path")));
        let path = store.canonicalize().expect("a whole path");
        let pointer = named.is_some().then(|| path.clone());
        let led = link.is_symlink() && !path.starts_with(&place.dir);
        let path = named.unwrap_or(path);
        let repo = path.join("superblock").exists().then(|| open_store(&path, 9));
        let remotes = repo.as_ref().map(remotes).unwrap_or_default();
        let store = repo.map(|repo| repo.store_id());
        Some(Found { path, store, remotes, tracked: place.tracked, led, pointer })
    }

    /// Every file except transcripts, which steps write, with its stamp.
    pub(super) fn look(&self) -> BTreeMap<PathBuf, Stamp> {
        let (mut found, mut left) = (BTreeMap::new(), vec![self.root.clone()]);
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).expect("a folder").map(|entry| entry.expect("a name")) {
                let path = entry.path();
                let data = fs::symlink_metadata(&path).expect("it is there");
                if data.is_dir() {
                    found.insert(path.clone(), (data.ino(), 0, 0, 0, 0, 0));
                    left.push(path);
                    continue;
                }
                let times = (data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
                let stamp = (data.ino(), data.size(), times.0, times.1, times.2, times.3);
                found.insert(path, stamp);
            }
        }
        found
    }

    /// Writes the transcript of a session with one prompt. Returns the event of its end.
    pub(super) fn transcript(
        &self,
        dir: &Path,
        session: &str,
        prompt: &str,
        event: &str,
    ) -> String {
        let path = self.root.join(format!("transcripts/{session}.jsonl"));
        let line = serde_json::json!({"type": "user", "uuid": "1", "parentUuid": null,
            "sessionId": session, "timestamp": "2026-01-01T00:00:00Z", "cwd": dir,
            "message": {"role": "user", "content": prompt}});
        fs::write(&path, format!("{line}\n")).expect("a transcript");
        let event = serde_json::json!({"hook_event_name": event, "session_id": session,
            "transcript_path": path, "cwd": dir, "prompt": prompt});
        event.to_string()
    }

    /// A path relative to the root, for messages.
    pub(super) fn shown<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// The remotes of a store.
fn remotes(repo: &Repository) -> Remotes {
    let remotes = repo.remotes().expect("remotes").into_iter();
    remotes.map(|(name, remote)| (name, (remote.url, remote.id, remote.auto))).collect()
}

/// Returns whether a message in the main branch of a session has these words.
pub(super) fn says(store: &Path, session: &str, words: &str) -> bool {
    if !store.join("superblock").exists() {
        return false;
    }
    let repo = open_store(store, 8);
    let branch = BranchName::main(session).expect("a name");
    let Some(tip) = repo.tip(&branch) else { return false };
    let (mut out, context) = (Vec::new(), repo.context(&tip).expect("a context"));
    export_messages(&repo, &context, "main", &|_| true, &mut out).expect("messages");
    String::from_utf8_lossy(&out).contains(words)
}
