//! The program git: how it is asked, and its worktrees.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use turntree::{Error, ErrorKind, Result};

use super::broad_directory::expect_narrow;
use crate::program::linked_worktree::read;

/// The time between two looks at git at work.
const STEP: Duration = Duration::from_millis(2);

/// The longest that an answer of git is waited for.
const MOST_TIME: Duration = Duration::from_secs(20);

/// What makes a directory the top of a working tree.
const DOT_GIT: &str = ".git";

/// Files of a repository that git opens at most commands.
const FILES: [&str; 9] = [
    "config",
    "config.worktree",
    "index",
    "packed-refs",
    "shallow",
    "info/exclude",
    "info/grafts",
    "info/attributes",
    "objects/info/alternates",
];

/// Longest message of git that is shown, in characters.
const SHOWN: usize = 300;

/// Digits of a commit that is named.
const DIGITS: usize = 10;

/// A directory in a repository of git that has a commit.
#[derive(Debug, Clone)]
pub(crate) struct GitProject {
    /// The top of its worktree.
    pub(crate) top: PathBuf,
    /// The directory below that.
    pub(crate) prefix: PathBuf,
}

impl GitProject {
    /// The repository around a directory; none without git, without a commit, and where the repository
    /// is the home directory.
    pub(crate) fn around(dir: &Path) -> Option<Self> {
        let top = line(dir, &["rev-parse", "--show-toplevel"])?;
        let top = PathBuf::from(top).canonicalize().ok()?;
        expect_narrow(&top, false).ok()?;
        line(dir, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        let prefix = dir.canonicalize().ok()?.strip_prefix(&top).ok()?.to_owned();
        Some(Self { top, prefix })
    }

    /// Makes a worktree at the commit of HEAD, on no branch of git.
    pub(crate) fn add_worktree(&self, dir: &Path) -> Result<()> {
        let dir = dir.as_os_str();
        let words = ["worktree", "add", "--quiet", "--detach"].map(AsRef::as_ref);
        run(&self.top, words.into_iter().chain([dir, "HEAD".as_ref()]))
    }

    /// Removes a worktree with all that is in it.
    pub(crate) fn remove_worktree(&self, dir: &Path) -> Result<()> {
        let words = ["worktree", "remove", "--force"].map(AsRef::as_ref);
        // Not from inside of it, if it is the one that this was found by.
        let from = common_dir(dir).unwrap_or_else(|| self.top.clone());
        run(&from, words.into_iter().chain([dir.as_os_str()]))
    }
}

/// The commit that a worktree is at, if it goes with the worktree.
pub(crate) fn commits_on_no_branch(top: &Path) -> Option<String> {
    let words = ["rev-list", "-n", "1", "HEAD", "--not", "--branches", "--tags", "--remotes"];
    let commit = line(top, &words)?;
    Some(commit.chars().take(DIGITS).collect())
}

/// The directory that all worktrees of a repository share.
fn common_dir(dir: &Path) -> Option<PathBuf> {
    line(dir, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).map(PathBuf::from)
}

fn git(dir: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).stdin(Stdio::null());
    // Those of a hook of git name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"] {
        git.env_remove(name);
    }
    git
}

/// The one line that git answers; none when it fails or says nothing.
pub(super) fn line(dir: &Path, words: &[&str]) -> Option<String> {
    let text = lines(dir, words)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    (!text.is_empty()).then(|| text.to_owned())
}

/// All that git answers; none when it fails, and when it takes longer than [`MOST_TIME`].
pub(super) fn lines(dir: &Path, words: &[&str]) -> Option<String> {
    String::from_utf8(answer(dir, words, MOST_TIME)?).ok()
}

/// The paths that git answers, each with a NUL behind it; none when it fails, and when it takes longer than
/// `time`.
pub(super) fn paths(dir: &Path, words: &[&str], time: Duration) -> Option<Vec<PathBuf>> {
    let bytes = answer(dir, words, time)?;
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
}

/// What git answers; none when it fails, and when it takes longer than `time`.
fn answer(dir: &Path, words: &[&str], time: Duration) -> Option<Vec<u8>> {
    if waits(dir) {
        return None;
    }
    let until = Instant::now() + time;
    let mut command = git(dir);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    // Read beside: git waits once the pipe is full.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    while !reader.is_finished() && Instant::now() < until {
        std::thread::sleep(STEP);
    }
    let is_done = reader.is_finished();
    if !is_done {
        let _ = child.kill();
    }
    let bytes = reader.join().ok()?.ok()?;
    let status = child.wait().ok()?;
    (is_done && status.success()).then_some(bytes)
}

/// Returns whether git would wait for a pipe, or read a device, in the repository around `dir`: such a
/// repository was made for that. Git itself opens whatever has the name of a file.
fn waits(dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else { return false };
    let Some(top) = dir.ancestors().find(|dir| dir.join(DOT_GIT).exists()) else { return false };
    let dot_git = top.join(DOT_GIT);
    let is_no_file = |path: PathBuf| fs::metadata(path).is_ok_and(|found| !found.is_file());
    let git = match fs::metadata(&dot_git) {
        Ok(found) if found.is_dir() => dot_git,
        _ => match read(&dot_git) {
            None => return true,
            Some(text) => top.join(text.trim_end().trim_start_matches("gitdir:").trim_start()),
        },
    };
    if is_no_file(git.join("commondir")) || is_no_file(git.join("HEAD")) {
        return true;
    }
    let common = read(&git.join("commondir")).map(|to| git.join(to.trim_end()));
    let common = common.unwrap_or_else(|| git.clone());
    let head = read(&git.join("HEAD")).unwrap_or_default();
    let tip = head.trim_end().strip_prefix("ref: ").filter(|name| !name.contains(".."));
    let files = FILES.iter().copied().chain(tip);
    files.into_iter().any(|name| is_no_file(git.join(name)) || is_no_file(common.join(name)))
}

/// Runs git, and says what it says when it fails.
pub(super) fn run<'a>(dir: &Path, words: impl Iterator<Item = &'a OsStr>) -> Result<()> {
    if waits(dir) {
        let message = format!("{}: a file of its repository is a pipe or device", dir.display());
        return Err(Error::invalid(message));
    }
    let output = git(dir).args(words).output().map_err(|error| Error::io("start git", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(SHOWN).collect();
    Err(Error::new(ErrorKind::InvalidInput, format!("git failed: {said}")))
}
