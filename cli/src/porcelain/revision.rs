//! Names that people type: revisions, objects, branches.

use turntree::context::PathTarget;
use turntree::object::{IdPrefix, ObjectId};
use turntree::repo::{BranchName, Repository, Resolver, Revision};
use turntree::{Error, ErrorKind};
use turntree_exchange::{find_session, is_prompt};

use super::git_commits::turn_of_commit;
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Hint, Result};

/// Resolves a revision, with times in `@{...}`, with sessions by the beginning of their names and
/// titles, and with commits of git that name their turn.
pub(crate) fn resolve(repo: &Repository, revision: &str) -> Result<Revision> {
    // A title may have characters that mean something in a revision.
    if revision.contains([':', '~', '^'])
        && resolve_whole(repo, revision).is_err()
        && let Some(session) = find_session(repo, revision)?
    {
        return resolve_whole(repo, &session);
    }
    let found = with_hint(repo, &|resolver| resolver.resolve(revision), hint_for(repo, revision));
    if let Err(failure) = &found
        && failure.is_not_found()
        && let Ok(id) = of_git_commit(revision)
    {
        return resolve_whole(repo, &id);
    }
    found
}

/// The id of the snapshot that a commit of the repository of git around the working directory names.
pub(crate) fn of_git_commit(word: &str) -> Result<String> {
    let here = std::env::current_dir().ok();
    let id = here.and_then(|here| turn_of_commit(&here, word));
    Ok(id.map(|id| id.to_string()).ok_or_else(|| {
        Error::not_found(format!("git has no commit '{word}' here that names a turn"))
    })?)
}

/// [`resolve`] by whole names alone, for words that may mean something else.
pub(crate) fn resolve_whole(repo: &Repository, revision: &str) -> Result<Revision> {
    let now = clock::now()?;
    let parse = |text: &str| clock::parse_moment(text, now);
    let resolver = Resolver::new(repo).with_times(&parse).with_prompts(&is_prompt);
    resolver.resolve(revision).hint(ErrorKind::NotFound, hint_for(repo, revision))
}

/// Advice on a word that names nothing, by what it looks like.
fn hint_for(repo: &Repository, word: &str) -> Advice {
    let for_commands = match word {
        _ if word.contains("prompt:") => prompts_there(repo, word),
        _ if let Some((name, time)) = word.split_once("@{")
            && time.contains(':') =>
        {
            let time = time.trim_end_matches('}');
            // An import may have brought in turns that are older than the branch itself.
            format!(
                "@{time_of} is where a branch was in this store; 'turntree log {name} --until {time} \
                 -n 1' has the newest turn taken by then",
                time_of = "{TIME}"
            )
        }
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
        _ => NAMES.to_owned(),
    };
    Advice::new(for_commands, FOR_CALLS)
}

/// Advice on a prompt that is not there.
fn prompts_there(repo: &Repository, word: &str) -> String {
    let branch = match word.split_once("^{prompt:") {
        Some((session, _)) => format!(" {session}"),
        None => repo.head().map_or_else(|_| String::new(), |head| format!(" {}", head.branch)),
    };
    format!("'turntree outline{branch}' lists its prompts, prompt:-1 is the newest")
}

const NAMES: &str = "'turntree sessions' and 'turntree branch' list names, 'turntree log' ids";

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

/// Runs `ask` on a resolver that understands times, and finds sessions.
pub(crate) fn with_resolver<T>(
    repo: &Repository,
    ask: impl Fn(&Resolver<'_>) -> turntree::Result<T>,
) -> Result<T> {
    with_hint(repo, &ask, Advice::new(NAMES, FOR_CALLS))
}

/// The branch that a whole name names, for what deletes or renames it.
pub(crate) fn branch_by_whole_name(repo: &Repository, name: &str) -> Result<BranchName> {
    Resolver::new(repo).branch(name).hint(ErrorKind::NotFound, Advice::new(NAMES, FOR_CALLS))
}

fn with_hint<T>(
    repo: &Repository,
    ask: &dyn Fn(&Resolver<'_>) -> turntree::Result<T>,
    hint: Advice,
) -> Result<T> {
    let now = clock::now()?;
    let parse = |text: &str| clock::parse_moment(text, now);
    let find = |text: &str| match find_session(repo, text)? {
        Some(session) => repo.branch_of_session(&session),
        None => Ok(None),
    };
    let resolver = Resolver::new(repo).with_times(&parse).with_prompts(&is_prompt);
    let answer = ask(&resolver.with_sessions(&find));
    answer.hint(ErrorKind::NotFound, hint)
}

/// The branch that `--session` and `--branch` name, which need not be there; HEAD says what they leave
/// open.
pub(crate) fn branch_of(
    repo: &Repository,
    session: Option<&str>,
    branch: Option<&str>,
) -> Result<BranchName> {
    Ok(match (session, branch) {
        (None, None) => repo.head()?.branch,
        (Some(session), None) => {
            repo.branch_of_session(session)?.map_or_else(|| BranchName::main(session), Ok)?
        }
        (Some(session), Some(branch)) => BranchName::new(session, branch)?,
        (None, Some(branch)) => BranchName::new(repo.head()?.branch.session(), branch)?,
    })
}

/// [`branch_of`], of a session that is there by the beginning of its name or title too.
pub(crate) fn known_branch_of(
    repo: &Repository,
    session: Option<&str>,
    branch: Option<&str>,
) -> Result<BranchName> {
    let named = match session {
        Some(session) => Some(find_session(repo, session)?.unwrap_or_else(|| session.to_owned())),
        None => None,
    };
    branch_of(repo, named.as_deref(), branch)
}
