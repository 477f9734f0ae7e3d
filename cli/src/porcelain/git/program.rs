//! Runs git: queries, and worktrees.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use turntree::platform::{canonical, name_of_bytes};
use turntree::{Error, ErrorKind, Result};

use crate::porcelain::broad_directory::expect_narrow;
use crate::program::linked_worktree::read;

/// The interval between two checks of a running git.
const STEP: Duration = Duration::from_millis(2);

/// The time limit of a git query.
const MOST_TIME: Duration = Duration::from_secs(20);

/// The entry that marks the top of a working tree.
const DOT_GIT: &str = ".git";

/// Repository files that git opens in most commands.
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

/// Maximum characters of a git message to show.
const SHOWN: usize = 300;

/// Digits of an abbreviated commit id.
const DIGITS: usize = 10;

/// A directory in a git repository that has a commit.
#[derive(Debug, Clone)]
pub(crate) struct GitProject {
    /// The top of its worktree.
    pub(crate) top: PathBuf,
    /// The directory relative to the top.
    pub(crate) prefix: PathBuf,
}

impl GitProject {
    /// The repository around a directory; `None` without git, without a commit, and if the
    /// repository is the home directory.
    pub(crate) fn around(dir: &Path) -> Option<Self> {
        let top = line(dir, &["rev-parse", "--show-toplevel"])?;
        let top = canonical(&PathBuf::from(top)).ok()?;
        expect_narrow(&top, false).ok()?;
        line(dir, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        let prefix = canonical(dir).ok()?.strip_prefix(&top).ok()?.to_owned();
        Some(Self { top, prefix })
    }

    /// Creates a worktree at HEAD's commit, detached.
    pub(crate) fn add_worktree(&self, dir: &Path) -> Result<()> {
        let dir = dir.as_os_str();
        let words = ["worktree", "add", "--quiet", "--detach"].map(AsRef::as_ref);
        run(&self.top, words.into_iter().chain([dir, "HEAD".as_ref()]))
    }

    /// Removes a worktree with all of its content.
    pub(crate) fn remove_worktree(&self, dir: &Path) -> Result<()> {
        let words = ["worktree", "remove", "--force"].map(AsRef::as_ref);
        // Runs git outside of the worktree, in case `self.top` is the worktree to remove.
        let from = common_dir(dir).unwrap_or_else(|| self.top.clone());
        run(&from, words.into_iter().chain([dir.as_os_str()]))
    }
}

/// The commit of a worktree, if it is on no branch and would be lost with the worktree.
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
    // The variables of a git hook name another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"] {
        git.env_remove(name);
    }
    git
}

/// Runs git and returns its one line of output; `None` if it fails or prints nothing.
pub(in crate::porcelain) fn line(dir: &Path, words: &[&str]) -> Option<String> {
    let text = lines(dir, words)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Runs git and returns its output; `None` if it fails or takes longer than [`MOST_TIME`].
pub(in crate::porcelain) fn lines(dir: &Path, words: &[&str]) -> Option<String> {
    String::from_utf8(answer(dir, words, MOST_TIME)?).ok()
}

/// Runs git and returns the paths that it prints, each terminated by NUL; `None` if it fails or
/// takes longer than `time`.
pub(in crate::porcelain) fn paths(
    dir: &Path,
    words: &[&str],
    time: Duration,
) -> Option<Vec<PathBuf>> {
    let bytes = answer(dir, words, time)?;
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Some(names.map(|name| PathBuf::from(&*name_of_bytes(name))).collect())
}

/// Runs git and returns its output; `None` if it fails or takes longer than `time`.
fn answer(dir: &Path, words: &[&str], time: Duration) -> Option<Vec<u8>> {
    if waits(dir) {
        return None;
    }
    let until = Instant::now() + time;
    let mut command = git(dir);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    // Reads in another thread, because git blocks once the pipe is full.
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

/// Returns true if git would block on a pipe or read a device in the repository around `dir`: such
/// a repository is an attack. Git itself opens files of any type.
fn waits(dir: &Path) -> bool {
    let Ok(dir) = canonical(dir) else { return false };
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

/// Runs git, and returns its message if it fails.
pub(in crate::porcelain) fn run<'a>(
    dir: &Path,
    words: impl Iterator<Item = &'a OsStr>,
) -> Result<()> {
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
