//! The git hook: a line in a script, and the trailers that it adds to commit messages.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use turntree::platform::{private, script_permissions};
use turntree::repo::{BranchName, Repository};
use turntree::workspace::read_regular_text;
use turntree::{Error, ErrorKind};

use super::log;
use super::turn::kind_of;
use crate::porcelain::git::commits::{hooks_folder, name_turn};
use crate::program::invocation::{Invocation, has_own_branch, stamp};
use crate::program::live::{LiveSession, client_session, live_sessions};
use crate::view::error::{Failure, Result};

/// Largest script to read, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// The git hook that runs before the commit message is edited.
const SCRIPT: &str = "prepare-commit-msg";

/// The end of our line.
const MARK: &str = " # names the turn of turntree";

/// Shells whose scripts can contain the line.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];

/// A script before and after a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScriptPlan {
    pub(crate) path: PathBuf,
    /// `None` if it does not exist.
    pub(crate) before: Option<String>,
    /// `None` if it is deleted.
    pub(crate) after: Option<String>,
}

impl ScriptPlan {
    /// Plans to add a line that runs `command`, in the repository around `dir`; without a command,
    /// to remove the line.
    ///
    /// # Errors
    /// `InvalidInput` outside of a repository, and for a script that is not a shell
    /// script.
    pub(crate) fn new(dir: &Path, command: Option<&str>) -> Result<Self> {
        let Some(folder) = hooks_folder(dir) else {
            let message = format!("{} is not in a git repository", dir.display());
            return Err(Error::invalid(message).into());
        };
        let path = folder.join(SCRIPT);
        let before = match read_regular_text(&path, MAX_SCRIPT_BYTES) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(Error::io(format!("read {}", path.display()), error).into());
            }
        };
        let after = edited(before.as_deref(), command).ok_or_else(|| {
            let message = format!("{} is not a shell script", path.display());
            let hint = "call 'turntree hook git-message' in it with the first argument of the hook";
            Failure::hinted(Error::invalid(message), hint)
        })?;
        Ok(Self { path, before, after })
    }

    /// Returns true if there is nothing to do.
    pub(crate) fn is_done(&self) -> bool {
        self.before == self.after
    }

    /// Replaces the script atomically through a temporary file, or deletes it.
    pub(crate) fn apply(&self) -> turntree::Result<()> {
        let path = &self.path;
        let failed = |error| Error::io(format!("write {}", path.display()), error);
        let Some(after) = &self.after else {
            return fs::remove_file(path).map_err(failed);
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let permissions = script_permissions(fs::metadata(path).ok().as_ref());
        let new = path.with_extension("turntree-new");
        let mut options = OpenOptions::new();
        let options = private(options.write(true).create_new(true));
        let mut file = options.open(&new).map_err(failed)?;
        file.write_all(after.as_bytes())
            .and_then(|()| permissions.map_or(Ok(()), |bits| file.set_permissions(bits)))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, path))
            .inspect_err(|_| drop(fs::remove_file(&new)))
            .map_err(failed)
    }
}

/// Returns the script with the line for `command`, or without the line; `None` if it is not a shell
/// script. All other bytes stay the same.
fn edited(before: Option<&str>, command: Option<&str>) -> Option<Option<String>> {
    let line = command.map(|command| format!("{command} git-message \"$1\" || :{MARK}\n"));
    let Some(before) = before else {
        return Some(line.map(|line| format!("#!/bin/sh\n{line}")));
    };
    let mut others: Vec<&str> =
        before.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(MARK)).collect();
    let Some(line) = line else {
        let is_ours =
            others == ["#!/bin/sh\n"] && others.len() < before.split_inclusive('\n').count();
        return Some((!is_ours).then(|| others.concat()));
    };
    let first = others.first().copied().unwrap_or_default();
    let interpreter = first.trim_end().rsplit(['/', ' ']).next().unwrap_or_default();
    if !first.starts_with("#!") || !SHELLS.contains(&interpreter) || !first.ends_with('\n') {
        return None;
    }
    // After a line that ends the script it would never run.
    others.insert(1, &line);
    Some(Some(others.concat()))
}

/// Returns true if the repository around `dir` has the line.
pub(crate) fn has_script(dir: &Path) -> bool {
    let script = hooks_folder(dir)
        .and_then(|folder| read_regular_text(&folder.join(SCRIPT), MAX_SCRIPT_BYTES).ok());
    script.is_some_and(|script| script.lines().any(|line| line.ends_with(MARK)))
}

/// Adds the turn to the message of a commit made while an agent works. Never fails: an error of the
/// store must not stop a commit.
pub(crate) fn take_message(run: &mut Invocation, message: &Path) {
    let named = name(run, message);
    if let (Err(Failure::Library { error, .. }), Ok(dir)) = (named, run.store_dir()) {
        log::note(&dir, "git", SCRIPT, "name the turn", &kind_of(&error));
    }
}

fn name(run: &mut Invocation, message: &Path) -> Result<()> {
    if run.would_create()? {
        return Ok(());
    }
    let repo = run.open()?;
    let Some(branch) = at_work(&repo)? else { return Ok(()) };
    let Some(tip) = repo.tip(&branch) else { return Ok(()) };
    let here =
        std::env::current_dir().map_err(|error| Error::io("find the working directory", error))?;
    name_turn(&here, message, &tip, &repo.commit(&tip)?)?;
    Ok(())
}

/// The branch of the agent that works here: its agreed branch, the branch of its session, or the
/// branch of this place if hooks have added turns to it lately.
fn at_work(repo: &Repository) -> Result<Option<BranchName>> {
    let head = match repo.head() {
        Ok(head) => head.branch,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if has_own_branch() {
        return Ok(Some(head));
    }
    if let Some(id) = client_session() {
        return Ok(match LiveSession::find(repo, &id) {
            LiveSession::Known(session) if session == head.session() => Some(head),
            LiveSession::Known(session) => repo.branch_of_session(&session)?,
            LiveSession::New(_) => None,
        });
    }
    let live = live_sessions(repo, stamp()?.time)?;
    Ok(live.contains(head.session()).then_some(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(before: Option<&str>) -> Option<String> {
        edited(before, Some("'/opt/turntree' hook")).unwrap()
    }

    #[test]
    fn a_script_gets_one_line_and_keeps_all_others() {
        let line = "'/opt/turntree' hook git-message \"$1\" || : # names the turn of turntree\n";
        assert_eq!(with(None).unwrap(), format!("#!/bin/sh\n{line}"));
        let own = "#!/usr/bin/env bash\nset -e\n./lint\nexit 0\n";
        let both = with(Some(own)).unwrap();
        assert_eq!(both, format!("#!/usr/bin/env bash\n{line}set -e\n./lint\nexit 0\n"));
        assert_eq!(with(Some(&both)), Some(both.clone()), "once is enough");
        assert_eq!(edited(Some(&both), None), Some(Some(own.to_owned())));
        assert_eq!(edited(with(None).as_deref(), None), Some(None), "a script of ours goes");
        assert_eq!(edited(Some("#!/bin/sh\n"), None), Some(Some("#!/bin/sh\n".to_owned())));
        assert_eq!(edited(None, None), Some(None));
    }

    #[test]
    fn a_script_of_no_shell_is_refused() {
        for script in ["#!/usr/bin/env python3\n", "echo no interpreter\n", "", "#!/bin/sh"] {
            assert_eq!(edited(Some(script), Some("turntree hook")), None, "{script}");
        }
    }
}
