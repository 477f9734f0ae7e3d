//! Git commits that name a turn: finds the turn of a commit, and the commits of a turn.
//!
//! A commit names its turn in trailers, which `hook install git` adds to messages. They are the
//! same as in commits exported by [`turntree_exchange::git`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use turntree::Result;
use turntree::object::{Commit, ObjectId};

use super::program::{line, lines, run};

/// The trailer that names the snapshot.
const ID: &str = "Turntree-Id";

/// Maximum number of commits to search for those of a turn, newest first.
const MOST_COMMITS: &str = "20000";

/// Minimum length of an abbreviated commit id, as in git.
const MIN_DIGITS: usize = 7;

/// A git commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitCommit {
    /// Its id, abbreviated.
    pub(crate) id: String,
    /// The first line of its message.
    pub(crate) subject: String,
}

/// The hooks directory of the repository around `dir`; `None` without git.
pub(crate) fn hooks_folder(dir: &Path) -> Option<PathBuf> {
    line(dir, &["rev-parse", "--path-format=absolute", "--git-path", "hooks"]).map(PathBuf::from)
}

/// Adds trailers that name the snapshot `id` to a commit message, replacing existing ones. Git
/// edits the file.
pub(crate) fn name_turn(dir: &Path, message: &Path, id: &ObjectId, commit: &Commit) -> Result<()> {
    let trailers = [
        format!("Turntree-Session: {}", commit.session),
        format!("Turntree-Turn: {}", commit.turn),
        format!("{ID}: {id}"),
    ];
    let mut words: Vec<&OsStr> =
        ["interpret-trailers", "--in-place", "--if-exists", "replace"].map(OsStr::new).into();
    for trailer in &trailers {
        words.extend([OsStr::new("--trailer"), OsStr::new(trailer)]);
    }
    words.push(message.as_os_str());
    run(dir, words.into_iter())
}

/// The snapshot named by a commit of the repository around `dir`, if `word` is such a commit.
pub(crate) fn turn_of_commit(dir: &Path, word: &str) -> Option<ObjectId> {
    let is_id = word.len() >= MIN_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_id {
        return None;
    }
    let format = format!("--format=%(trailers:key={ID},valueonly)");
    let commit = format!("{word}^{{commit}}");
    let told = lines(dir, &["log", "-1", &format, &commit, "--"])?;
    told.lines().rfind(|line| !line.is_empty())?.parse().ok()
}

/// The commits of the repository around `dir` that name the snapshot `id`, newest first. Git
/// searches the messages of the newest 20,000 commits.
pub(crate) fn commits_of_turn(dir: &Path, id: &ObjectId) -> Vec<GitCommit> {
    let wanted = format!("--grep=^{ID}: {id}");
    let words = ["log", "--all", "--max-count", MOST_COMMITS, &wanted, "--format=%h %s", "--"];
    let told = lines(dir, &words).unwrap_or_default();
    let commits = told.lines().filter_map(|line| line.split_once(' '));
    commits
        .map(|(id, subject)| GitCommit { id: id.to_owned(), subject: subject.to_owned() })
        .collect()
}
