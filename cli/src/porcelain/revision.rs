//! Names that people type: revisions, objects, branches.

use turntree::context::PathTarget;
use turntree::object::{IdPrefix, ObjectId};
use turntree::repo::{BranchName, Repository, Resolver, Revision};
use turntree::{Error, ErrorKind};
use turntree_exchange::is_prompt;

use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Hint, Result};

/// Resolves a revision, with times in `@{...}`.
pub(crate) fn resolve(repo: &Repository, revision: &str) -> Result<Revision> {
    with_hint(repo, |resolver| resolver.resolve(revision), hint_for(revision))
}

/// Advice on a word that names nothing, by what it looks like.
fn hint_for(word: &str) -> Advice {
    let for_commands = match word {
        _ if word.len() < 4 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("ids need at least 4 digits; turn:{word} is a turn of HEAD's branch")
        }
        _ if word.contains(['~', '^']) || word.contains("turn:") => {
            "'turntree log' counts the turns of a branch".to_owned()
        }
        _ if word.contains(':') => "'turntree ls REV' lists what a snapshot has".to_owned(),
        _ if word.contains(['/', '.']) => {
            "a file of the newest snapshot is HEAD:files/...: 'turntree ls HEAD:files' lists them, \
             'turntree branch' the names"
                .to_owned()
        }
        _ => "'turntree branch' lists names, 'turntree log' lists ids".to_owned(),
    };
    Advice::new(for_commands, FOR_CALLS)
}

const FOR_CALLS: &str =
    "branch lists the branches, log the snapshots; all = true those of every session";

/// The object that a name stands for: what is at the path of a revision, a commit or tag, or any
/// object by its id or the beginning of it.
pub(crate) fn object(repo: &Repository, name: &str) -> Result<ObjectId> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let resolved = resolve(repo, name);
    let prefix: turntree::Result<IdPrefix> = name.parse();
    match (resolved, prefix) {
        (Ok(Revision { commit, path: None, .. }), _) => Ok(commit),
        (Ok(Revision { commit, path: Some(path), .. }), _) => {
            match repo.context(&commit)?.lookup(repo.store(), &path)? {
                PathTarget::Entry(item) => Ok(item.link.id),
                PathTarget::Section(section) => Ok(section.id),
                PathTarget::Folder => Err(Error::invalid(format!("'{path}' is no object")).into()),
            }
        }
        (Err(failure), Ok(prefix)) => match repo.store().find(&prefix, 2).as_slice() {
            [] => Err(failure),
            [(id, _)] => Ok(*id),
            _ => {
                let several = format!("'{name}' is ambiguous: several ids begin with it");
                Err(Error::new(ErrorKind::Ambiguous, several).into())
            }
        },
        (Err(failure), Err(_)) => Err(failure),
    }
}

/// Runs `ask` on a resolver that understands times.
pub(crate) fn with_resolver<T>(
    repo: &Repository,
    ask: impl FnOnce(&Resolver<'_>) -> turntree::Result<T>,
) -> Result<T> {
    with_hint(
        repo,
        ask,
        Advice::new("'turntree branch' lists names, 'turntree log' lists ids", FOR_CALLS),
    )
}

fn with_hint<T>(
    repo: &Repository,
    ask: impl FnOnce(&Resolver<'_>) -> turntree::Result<T>,
    hint: Advice,
) -> Result<T> {
    let now = clock::now()?;
    let parse = |text: &str| clock::parse_moment(text, now);
    let answer = ask(&Resolver::new(repo).with_times(&parse).with_prompts(&is_prompt));
    answer.hint(ErrorKind::NotFound, hint)
}

/// The branch that `--session` and `--branch` name; HEAD says what they leave open.
pub(crate) fn branch_of(
    repo: &Repository,
    session: Option<&str>,
    branch: Option<&str>,
) -> Result<BranchName> {
    Ok(match (session, branch) {
        (None, None) => repo.head()?.branch,
        (Some(session), None) => BranchName::main(session)?,
        (Some(session), Some(branch)) => BranchName::new(session, branch)?,
        (None, Some(branch)) => BranchName::new(repo.head()?.branch.session(), branch)?,
    })
}
