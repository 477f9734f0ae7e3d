//! Runs git to check the repositories that turntree writes and reads.
//!
//! git runs without the settings of the user and the system, with a fixed author and time.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The mode and the content of each file, as in git.
pub type Files = BTreeMap<String, (String, Vec<u8>)>;

/// A repository.
#[derive(Debug, Clone)]
pub struct Git {
    /// The directory.
    pub dir: PathBuf,
}

/// True if git is installed. Prints that the test is skipped if not.
#[must_use]
pub fn is_installed() -> bool {
    let found = Command::new("git").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        eprintln!("skipped: git is not installed");
    }
    found
}

impl Git {
    /// The repository in `dir`.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// A new repository with a working tree, whose branch is `main`.
    #[must_use]
    pub fn init(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        let git = Self::at(dir);
        git.run(&["init", "-q", "-b", "main"]);
        git
    }

    /// A clone in `dir`.
    #[must_use]
    pub fn clone_to(&self, dir: &Path) -> Self {
        let (from, to) = (self.dir.to_str().unwrap(), dir.to_str().unwrap());
        self.run(&["clone", "-q", "--no-local", from, to]);
        Self::at(dir)
    }

    /// Runs a command and returns its output.
    ///
    /// # Panics
    /// If git fails.
    pub fn run(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.bytes(arguments, b"")).unwrap().trim_end().to_owned()
    }

    /// Runs a command with `input` and returns its output.
    ///
    /// # Panics
    /// If git fails.
    pub fn bytes(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let output = self.try_bytes(arguments, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        output.stdout
    }

    /// Runs a command with `input` and returns its status and output.
    ///
    /// # Panics
    /// If git cannot be started.
    #[must_use]
    pub fn try_bytes(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(&self.dir).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
            git.env(name, "/dev/null");
        }
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "Ada")
                .env(format!("GIT_{who}_EMAIL"), "ada@example");
            git.env(format!("GIT_{who}_DATE"), "1700000000 +0130");
        }
        git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = git.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        // A command may end before it has read its input.
        let _ = writer.join().unwrap();
        output
    }

    /// Fails if `git fsck --strict` reports anything.
    ///
    /// # Panics
    /// If it does.
    pub fn fsck(&self) {
        let output = self.try_bytes(&["fsck", "--strict", "--full", "--no-dangling"], b"");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && said.is_empty(), "git fsck: {said}");
    }

    /// Makes a tag whose target is its own id: the object file has the id in the tag. git never
    /// makes such a tag. Returns its id.
    ///
    /// # Panics
    /// If the tag cannot be written.
    #[must_use]
    pub fn tag_that_leads_to_itself(&self) -> String {
        let wanted = "12".repeat(20);
        let tag = format!("object {wanted}\ntype tag\ntag loop\n\nround and round\n");
        let hash = ["hash-object", "-t", "tag", "-w", "--stdin", "--literally"];
        let id = String::from_utf8(self.bytes(&hash, tag.as_bytes())).unwrap();
        let objects = PathBuf::from(self.run(&["rev-parse", "--git-path", "objects"]));
        let place = |id: &str| self.dir.join(&objects).join(&id[..2]).join(&id[2..]);
        fs::create_dir_all(place(&wanted).parent().unwrap()).unwrap();
        fs::rename(place(id.trim()), place(&wanted)).unwrap();
        wanted
    }

    /// Every ref and its object.
    #[must_use]
    pub fn refs(&self) -> BTreeMap<String, String> {
        let listed = self.run(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let pair = |line: &str| {
            let (name, id) = line.split_once(' ').unwrap();
            (name.to_owned(), id.to_owned())
        };
        listed.lines().map(pair).collect()
    }

    /// Every commit reachable from refs, by the snapshot in its trailer.
    #[must_use]
    pub fn by_snapshot(&self) -> BTreeMap<String, String> {
        let format = "--format=%H %(trailers:key=Turntree-Id,valueonly,separator=%x20)";
        let listed = self.run(&["log", "--all", format]);
        let pair = |line: &str| {
            let (commit, snapshot) = line.split_once(' ').unwrap();
            (snapshot.to_owned(), commit.to_owned())
        };
        listed.lines().map(pair).collect()
    }

    /// The files of a revision with their git modes.
    #[must_use]
    pub fn files(&self, revision: &str) -> Files {
        let listed = self.bytes(&["ls-tree", "-r", "-z", revision], b"");
        let mut entries = Vec::new();
        let mut wanted = String::new();
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let line = String::from_utf8(line.to_vec()).unwrap();
            let (about, path) = line.split_once('\t').unwrap();
            let mut about = about.split(' ');
            let (mode, id) = (about.next().unwrap().to_owned(), about.nth(1).unwrap());
            if mode != "160000" {
                wanted.push_str(&format!("{id}\n"));
                entries.push((path.to_owned(), mode));
            }
        }
        let output = self.bytes(&["cat-file", "--batch=%(objectsize)"], wanted.as_bytes());
        let mut rest = output.as_slice();
        let mut files = Files::new();
        for (path, mode) in entries {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            let size: usize = std::str::from_utf8(&rest[..end]).unwrap().parse().unwrap();
            files.insert(path, (mode, rest[end + 1..end + 1 + size].to_vec()));
            rest = &rest[end + 2 + size..];
        }
        files
    }
}

/// The files in a directory as git would store them, without `.git`.
///
/// # Panics
/// If the files cannot be read.
#[must_use]
pub fn files_in(dir: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, found) = (entry.path(), entry.path().symlink_metadata().unwrap());
            let relative = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            if found.is_dir() {
                if relative != ".git" {
                    folders.push(path);
                }
            } else if found.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                let target = target.into_os_string().into_encoded_bytes();
                files.insert(relative, ("120000".to_owned(), target));
            } else {
                let mode = if found.mode() & 0o100 == 0 { "100644" } else { "100755" };
                files.insert(relative, (mode.to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    files
}
