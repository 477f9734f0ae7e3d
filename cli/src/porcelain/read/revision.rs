//! Resolves names that users type: revisions, objects, branches.

use turntree::context::PathTarget;
use turntree::object::{IdPrefix, ObjectId};
use turntree::repo::{
    BranchName, HEAD, MAIN_BRANCH, Range, Repository, Resolver, Revision, SnapshotRevision,
    split_path, split_range,
};
use turntree::{Error, ErrorKind};
use turntree_exchange::{find_session, is_prompt};

use super::paths::{Paths, path_in, with_similar};
use crate::porcelain::git::commits::turn_of_commit;
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Failure, Hint, Result};
use crate::view::moment::parse_moment;
use crate::view::short_names::ShortNames;

/// Resolves the revision of a snapshot. Also accepts times in `@{...}`, the beginnings of session
/// names and titles, and git commits that name their turn.
///
/// # Errors
/// `InvalidInput` for the path of an entry; use [`resolve_entry`] for these.
pub(crate) fn resolve(repo: &Repository, revision: &str) -> Result<SnapshotRevision> {
    let (alone, _) = split_path(revision);
    let hint = Advice::new(
        format!("the snapshot is '{alone}'; 'turntree show {revision}' shows the entry"),
        format!("the snapshot is {alone}; show shows an entry"),
    );
    resolve_snapshot(repo, revision, hint)
}

/// [`resolve`] for callers with another option for a part of a snapshot, which `hint` names.
pub(crate) fn resolve_snapshot(
    repo: &Repository,
    revision: &str,
    hint: impl Into<Advice>,
) -> Result<SnapshotRevision> {
    let found = resolve_any(repo, revision)?;
    found.into_snapshot(revision).hint(ErrorKind::InvalidInput, hint)
}

/// Resolves a revision like [`resolve`], with the path of an entry if it has one. `files/` may be
/// omitted if the context has nothing else at the path. Does not check that the entry exists.
pub(crate) fn resolve_entry(repo: &Repository, revision: &str) -> Result<Revision> {
    with_files(repo, resolve_any(repo, revision)?)
}

/// [`resolve_entry`] with whole names only, for words that may have another meaning.
pub(crate) fn resolve_whole_entry(repo: &Repository, revision: &str) -> Result<Revision> {
    with_files(repo, resolve_whole(repo, revision)?)
}

/// The path of an entry, folder or section, which must exist.
///
/// # Errors
/// `NotFound`, naming it, if the snapshot does not have it.
pub(crate) fn path_there(repo: &Repository, revision: &Revision) -> Result<Option<String>> {
    let Some(path) = &revision.path else { return Ok(None) };
    if path.trim_matches('/').is_empty() {
        let hint = "'turntree ls REV' lists the content of a snapshot";
        let message = "there is no path after the colon of the revision";
        return Err(Failure::hinted(Error::invalid(message), hint));
    }
    let found = repo.context(&revision.commit)?.lookup(repo, path);
    with_similar(repo, &revision.commit, path, found.map_err(Failure::from))?;
    Ok(Some(path.clone()))
}

/// The snapshot to restore, and its parts: `only`, and the entry that the revision names.
pub(crate) fn snapshot_and_parts(
    repo: &Repository,
    revision: &str,
    only: &[String],
) -> Result<(ObjectId, Vec<String>)> {
    let found = resolve_entry(repo, revision)?;
    let path = path_there(repo, &found)?;
    let tip = repo.head_if_any()?.and_then(|head| head.commit);
    let snapshots: Vec<ObjectId> = [found.commit].into_iter().chain(tip).collect();
    let only = Paths::of(repo, &snapshots).parts(only)?;
    Ok((found.commit, path.into_iter().chain(only).collect()))
}

/// Adds `files/` to the path of a file where it was omitted.
fn with_files(repo: &Repository, mut revision: Revision) -> Result<Revision> {
    if let Some(path) = revision.path.as_mut().filter(|path| !path.is_empty()) {
        *path = path_in(repo, &revision.commit, path)?;
    }
    Ok(revision)
}

fn resolve_any(repo: &Repository, revision: &str) -> Result<Revision> {
    // A title may contain characters of the revision syntax.
    if revision.contains([':', '~', '^'])
        && resolve_whole(repo, revision).is_err()
        && let Some(session) = find_session(repo, revision)?
    {
        return resolve_whole(repo, &session);
    }
    let found =
        with_hint(repo, &|resolver| resolver.resolve(revision), &|| hint_for(repo, revision));
    if let Err(failure) = &found
        && failure.is_not_found()
        && let Ok(id) = of_git_commit(revision)
    {
        return resolve_whole(repo, &id);
    }
    found
}

/// The id of the snapshot named by a git commit of the repository around the working directory.
pub(crate) fn of_git_commit(word: &str) -> Result<String> {
    let here = std::env::current_dir().ok();
    let id = here.and_then(|here| turn_of_commit(&here, word));
    Ok(id.map(|id| id.to_string()).ok_or_else(|| {
        Error::not_found(format!("git has no commit '{word}' here that names a turn"))
    })?)
}

/// Resolves a revision with whole names only.
fn resolve_whole(repo: &Repository, revision: &str) -> Result<Revision> {
    let now = clock::now()?;
    let parse = |text: &str| parse_moment(text, now);
    let resolver = Resolver::new(repo).with_times(&parse).with_prompts(&is_prompt);
    hinted(resolver.resolve(revision), &|| hint_for(repo, revision))
}

/// The advice for a word that resolves to nothing, by its form.
fn hint_for(repo: &Repository, word: &str) -> Advice {
    let for_commands = match word {
        _ if word.contains("prompt:") => prompts_there(repo, word),
        _ if let Some((name, time)) = word.split_once("@{")
            && time.contains(':') =>
        {
            let time = time.trim_end_matches('}');
            // An import may have added turns that are older than the branch itself.
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
        _ if word.contains(':') => "'turntree ls REV' lists the content of a snapshot".to_owned(),
        _ if word.contains(['/', '.']) => {
            let similar = Paths::of_head(repo).similar(word);
            let similar = similar.map(|similar| format!("{similar}; ")).unwrap_or_default();
            format!(
                "{similar}a file of the newest snapshot is HEAD:files/...: 'turntree ls HEAD:files' \
                 lists them, 'turntree branch' the names"
            )
        }
        _ => names_there(repo, word),
    };
    Advice::new(for_commands, FOR_CALLS)
}

/// The advice for a name that HEAD's session does not have: branches of that name in other sessions
/// come first.
fn names_there(repo: &Repository, word: &str) -> String {
    let names = ShortNames::new(repo.refs());
    let branches = repo.branches();
    let alike = branches.iter().filter(|(branch, _)| branch.branch() == word);
    let alike: Vec<String> =
        alike.take(MAX_ALIKE).map(|(branch, _)| names.branch(branch)).collect();
    match alike.as_slice() {
        [] => NAMES.to_owned(),
        alike => format!("in other sessions there is {}; {NAMES}", alike.join(", ")),
    }
}

/// The advice for a missing prompt.
fn prompts_there(repo: &Repository, word: &str) -> String {
    let branch = match word.split_once("^{prompt:") {
        Some((session, _)) => format!(" {session}"),
        None => repo.head().map_or_else(|_| String::new(), |head| format!(" {}", head.branch)),
    };
    format!("'turntree outline{branch}' lists its prompts, prompt:-1 is the newest")
}

/// Most branches of the same name that advice lists.
const MAX_ALIKE: usize = 3;

const NAMES: &str = "'turntree sessions' and 'turntree branch' list names, 'turntree log' ids";

const FOR_CALLS: &str =
    "branch lists the branches, log the snapshots; all = true those of every session";

/// The object of a name: the entry at the path of a revision, a commit or tag, or any object by its
/// id or the beginning of it.
pub(crate) fn object(repo: &Repository, name: &str) -> Result<ObjectId> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let resolved = resolve_entry(repo, name);
    let prefix: turntree::Result<IdPrefix> = name.parse();
    match (resolved, prefix) {
        (Ok(Revision { commit, path: None, .. }), _) => Ok(commit),
        (Ok(Revision { commit, path: Some(path), .. }), _) => {
            let found = repo.context(&commit)?.lookup(repo, &path);
            match with_similar(repo, &commit, &path, found.map_err(Failure::from))? {
                PathTarget::Entry(item) => Ok(item.link.id),
                PathTarget::Section(section) => Ok(section.id),
                PathTarget::Folder => {
                    Err(Error::invalid(format!("'{path}' is not an object")).into())
                }
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
    with_hint(repo, &ask, &|| Advice::new(NAMES, FOR_CALLS))
}

/// The branch of a whole name, for commands that delete or rename it.
pub(crate) fn branch_by_whole_name(repo: &Repository, name: &str) -> Result<BranchName> {
    let hint = || Advice::new(names_there(repo, name), FOR_CALLS);
    hinted(Resolver::new(repo).branch(name), &hint)
}

fn with_hint<T>(
    repo: &Repository,
    ask: &dyn Fn(&Resolver<'_>) -> turntree::Result<T>,
    hint: &dyn Fn() -> Advice,
) -> Result<T> {
    let now = clock::now()?;
    let parse = |text: &str| parse_moment(text, now);
    let find = |text: &str| match find_session(repo, text)? {
        Some(session) => repo.branch_of_session(&session),
        None => Ok(None),
    };
    let resolver = Resolver::new(repo).with_times(&parse).with_prompts(&is_prompt);
    hinted(ask(&resolver.with_sessions(&find)), hint)
}

/// Adds the advice to the error of a missing name. Only then is it looked for.
fn hinted<T>(answer: turntree::Result<T>, hint: &dyn Fn() -> Advice) -> Result<T> {
    answer.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::hinted(error, hint()),
        _ => error.into(),
    })
}

/// The commits of a range, or the history of one revision. `hint` is the advice for an entry where
/// a snapshot is expected.
pub(crate) fn resolve_range(repo: &Repository, text: &str, hint: &Advice) -> Result<Range> {
    let side = |side: &str| {
        let side = if side.is_empty() { HEAD } else { side };
        Ok::<_, Failure>(resolve_snapshot(repo, side, hint.clone())?.commit)
    };
    let Some((left, right)) = split_range(text) else {
        return Ok(Range { include: vec![side(text)?], exclude: Vec::new() });
    };
    Ok(Range { include: vec![side(right)?], exclude: vec![side(left)?] })
}

/// The branch that `--session` and `--branch` name; it need not exist. HEAD supplies missing parts.
/// A branch may be named with its session.
pub(crate) fn branch_of(
    repo: &Repository,
    session: Option<&str>,
    branch: Option<&str>,
) -> Result<BranchName> {
    let Some(branch) = branch else {
        let Some(session) = session else { return Ok(repo.head()?.branch) };
        return Ok(match repo.branch_of_session(session)? {
            Some(branch) => branch,
            None => repo.branch_of_word(Some(session), MAIN_BRANCH)?,
        });
    };
    let advice = Advice::new(
        "SESSION/BRANCH names a branch of another session: leave --session out",
        "session/branch names a branch of another session: leave session out",
    );
    let hint = session.map(|_| advice);
    let found = repo.branch_of_word(session, branch);
    Ok(match hint {
        Some(hint) => found.hint(ErrorKind::InvalidInput, hint)?,
        None => found?,
    })
}

/// [`branch_of`], but the session must exist, and may be named by the beginning of its name or
/// title.
pub(crate) fn known_branch_of(
    repo: &Repository,
    session: Option<&str>,
    branch: Option<&str>,
) -> Result<BranchName> {
    let named = |session: &str| {
        Ok::<_, Failure>(find_session(repo, session)?.unwrap_or_else(|| session.to_owned()))
    };
    let session = session.map(named).transpose()?;
    if session.is_none()
        && let Some(word) = branch
        && word.contains('/')
        && let Ok(branch) = with_resolver(repo, |resolver| resolver.branch(word))
    {
        return Ok(branch);
    }
    branch_of(repo, session.as_deref(), branch)
}
