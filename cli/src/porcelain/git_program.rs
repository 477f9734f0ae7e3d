//! The program git: how it is asked, and its worktrees.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use turntree::{Error, ErrorKind, Result};

use super::broad_directory::expect_narrow;

/// The time between two looks at git at work.
const STEP: Duration = Duration::from_millis(2);

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

/// All that git answers; none when it fails.
pub(super) fn lines(dir: &Path, words: &[&str]) -> Option<String> {
    let Output { status, stdout, .. } = git(dir).args(words).output().ok()?;
    String::from_utf8(stdout).ok().filter(|_| status.success())
}

/// The paths that git answers, each with a NUL behind it; none when it fails, and when it takes longer than
/// `time`.
pub(super) fn paths(dir: &Path, words: &[&str], time: Duration) -> Option<Vec<PathBuf>> {
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
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect();
    (is_done && status.success()).then_some(paths)
}

/// Runs git, and says what it says when it fails.
pub(super) fn run<'a>(dir: &Path, words: impl Iterator<Item = &'a OsStr>) -> Result<()> {
    let output = git(dir).args(words).output().map_err(|error| Error::io("start git", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(SHOWN).collect();
    Err(Error::new(ErrorKind::InvalidInput, format!("git failed: {said}")))
}
