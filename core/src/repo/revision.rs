//! The syntax of revisions: parses user input into commits and paths.
//!
//! ```text
//! revision = start step* [":" path]
//! start    = "HEAD" | "@" | full ref | tag | session "/" branch | branch of HEAD's session
//!          | session | remote "/" session ["/" branch] | remote "/" branch of HEAD's session
//!          | id | at least 4 digits of an id | "turn:" number | "prompt:" number
//!          | what the caller finds a session by
//! step     = "~" [n]           n first parents back
//!          | "^" [n]           the n-th parent
//!          | "^{turn:" n "}"   turn n on the first-parent line
//!          | "^{prompt:" n "}" the turn of prompt n on that line; -1 is the last one
//!          | "^{commit}"       what a tag names
//!          | "@{" n "}"        the ref's n-th value back, by operations
//!          | "@{" time "}"     the ref's value at that time
//! "@{-" n "}" alone is the branch HEAD was at n switches ago.
//! range    = [revision] ".." [revision]      what the right side has and the left has not
//! ```
//!
//! A start is tried in the order above, so a branch named like an id wins over the id.

use super::{BranchName, HEAD, IsPrompt, Repository, remote_branch_ref, tag_ref};
use crate::context::Selection;
use crate::context::sections::MAIN_MESSAGES;
use crate::error::{Error, ErrorKind, Result};
use crate::object::{IdPrefix, Kind, ObjectId, ObjectSource, RefValue};

/// The maximum number of candidates listed for an ambiguous abbreviation.
const MAX_CANDIDATES: usize = 8;

/// Returns the remote-tracking refs that `text` may name: a remote with a branch of HEAD's session,
/// a session, or a session and a branch.
fn remote_candidates(text: &str, head: Option<&BranchName>) -> Vec<String> {
    let Some((remote, rest)) = text.split_once('/') else { return Vec::new() };
    let of_session = head.and_then(|head| BranchName::new(head.session(), rest).ok());
    let branches = [rest.parse().ok(), of_session];
    let branches = branches.into_iter().flatten();
    branches.filter_map(|branch| remote_branch_ref(remote, &branch).ok()).collect()
}

/// The commit that a revision names, and the ref it was named by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The commit.
    pub commit: ObjectId,
    /// The path after the colon.
    pub path: Option<String>,
    /// The named branch, if the revision is the tip of a branch.
    pub branch: Option<BranchName>,
}

/// The snapshot that a revision names, for commands that accept no entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotRevision {
    /// The commit.
    pub commit: ObjectId,
    /// The named branch, if the revision is the tip of a branch.
    pub branch: Option<BranchName>,
}

impl Revision {
    /// Returns the snapshot; `text` is the revision, for errors.
    ///
    /// # Errors
    /// `InvalidInput` when it names an entry of the snapshot.
    pub fn into_snapshot(self, text: &str) -> Result<SnapshotRevision> {
        match self.path {
            None => Ok(SnapshotRevision { commit: self.commit, branch: self.branch }),
            Some(_) => Err(Error::invalid(format!("'{text}' names an entry: expected a snapshot"))),
        }
    }
}

/// The commits of a range: reachable from `include` and not from `exclude`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The commit at which a walk begins.
    pub include: Vec<ObjectId>,
    /// The commit that is excluded with all its ancestors.
    pub exclude: Vec<ObjectId>,
}

/// Parses a time in `@{...}` into microseconds since the Unix epoch; `None` for other text.
pub type ParseTime<'r> = &'r dyn Fn(&str) -> Option<i64>;

/// Finds the session for a word that is neither a name nor an id, for example by its title, and
/// returns its branch.
pub type FindSession<'r> = &'r dyn Fn(&str) -> Result<Option<BranchName>>;

/// Resolves revisions against a repository.
#[expect(missing_debug_implementations, reason = "it holds the caller's function")]
pub struct Resolver<'r> {
    repo: &'r Repository,
    parse_time: Option<ParseTime<'r>>,
    is_prompt: Option<IsPrompt<'r>>,
    find_session: Option<FindSession<'r>>,
}

/// The kinds of refs to look a name up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefKinds {
    All,
    /// Branches only: a tag or a remote branch may have the same name.
    Branches,
}

/// The state of a resolution: the commit, and the ref it was named by, for `@{...}`.
struct RevisionCursor {
    commit: ObjectId,
    name: Option<String>,
}

impl<'r> Resolver<'r> {
    /// Creates a resolver without times, prompts and sessions.
    #[must_use]
    pub fn new(repo: &'r Repository) -> Self {
        Self { repo, parse_time: None, is_prompt: None, find_session: None }
    }

    /// Parses times in `@{...}` with `parse`.
    #[must_use]
    pub fn with_times(mut self, parse: ParseTime<'r>) -> Self {
        self.parse_time = Some(parse);
        self
    }

    /// Tells prompts from other messages of the user with `is_prompt`.
    #[must_use]
    pub fn with_prompts(mut self, is_prompt: IsPrompt<'r>) -> Self {
        self.is_prompt = Some(is_prompt);
        self
    }

    /// Calls `find` for a start that names nothing else.
    #[must_use]
    pub fn with_sessions(mut self, find: FindSession<'r>) -> Self {
        self.find_session = Some(find);
        self
    }

    /// Resolves `text`.
    ///
    /// # Errors
    /// `InvalidInput` for bad syntax, `NotFound` when nothing has that name, `Ambiguous` when an
    /// abbreviated id fits several objects. Each names `text`.
    pub fn resolve(&self, text: &str) -> Result<Revision> {
        let (revision, path) = split_path(text);
        let (start, mut steps) = split_start(revision);
        let mut at = self.start(start, &mut steps).map_err(|error| add_revision(error, text))?;
        while !steps.is_empty() {
            (at, steps) = self.step(&at, steps).map_err(|error| add_revision(error, text))?;
        }
        let commit = self.repo.peel(&at.commit).map_err(|error| add_revision(error, text))?;
        let branch = at.name.as_deref().and_then(BranchName::from_full);
        Ok(Revision { commit, path: path.map(str::to_owned), branch })
    }

    /// Resolves `text` to a snapshot.
    ///
    /// # Errors
    /// Errors of [`Resolver::resolve`], and `InvalidInput` for the path of an entry.
    pub fn resolve_snapshot(&self, text: &str) -> Result<SnapshotRevision> {
        self.resolve(text)?.into_snapshot(text)
    }

    /// Resolves a range, or the history of one revision. An empty side means HEAD.
    ///
    /// # Errors
    /// Errors of [`Resolver::resolve_snapshot`].
    pub fn resolve_range(&self, text: &str) -> Result<Range> {
        let side = |side: &str| {
            let side = if side.is_empty() { HEAD } else { side };
            Ok::<_, Error>(self.resolve_snapshot(side)?.commit)
        };
        match split_range(text) {
            None => Ok(Range { include: vec![side(text)?], exclude: vec![] }),
            Some((left, right)) => {
                Ok(Range { include: vec![side(right)?], exclude: vec![side(left)?] })
            }
        }
    }

    /// Returns the branch that `text` names for commands that act on branches: `session/branch`, a
    /// branch of HEAD's session, a session, or `@{-n}`.
    ///
    /// # Errors
    /// `NotFound` when there is no such branch.
    pub fn branch(&self, text: &str) -> Result<BranchName> {
        let full = self.ref_name(text, RefKinds::Branches)?;
        let found = match full.as_deref() {
            Some(HEAD) => Some(self.repo.head()?.branch),
            Some(full) => BranchName::from_full(full),
            None => self.found_session(text)?,
        };
        found.ok_or_else(|| Error::not_found(format!("there is no branch '{text}'")))
    }

    /// Resolves the start of a revision. `@{-n}` has an empty start, so it is read from the steps.
    fn start(&self, start: &str, steps: &mut &str) -> Result<RevisionCursor> {
        if let Some(turn) = start.strip_prefix("turn:") {
            let turn = parse_number(turn)?;
            let head = self.repo.read_ref(HEAD)?;
            return Ok(RevisionCursor { commit: self.repo.find_turn(&head, turn)?, name: None });
        }
        if let Some(number) = start.strip_prefix("prompt:") {
            let head = self.repo.read_ref(HEAD)?;
            return Ok(RevisionCursor { commit: self.prompt(&head, number)?, name: None });
        }
        let mut start = start;
        if start.is_empty() && steps.starts_with("@{-") {
            let end = steps.find('}').map_or(steps.len(), |end| end + 1);
            (start, *steps) = steps.split_at(end);
        }
        if let Some(name) = self.ref_name(start, RefKinds::All)? {
            let commit = self.repo.read_ref(&name)?;
            let name = if name == HEAD { self.repo.head()?.branch.full() } else { name };
            return Ok(RevisionCursor { commit, name: Some(name) });
        }
        let commit = match self.object(start) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let Some(branch) = self.found_session(start)? else { return Err(error) };
                let name = branch.full();
                return Ok(RevisionCursor { commit: self.repo.read_ref(&name)?, name: Some(name) });
            }
            found => found?,
        };
        Ok(RevisionCursor { commit, name: None })
    }

    /// Returns the branch for a word that finds a session, or for a word followed by `/branch`.
    fn found_session(&self, text: &str) -> Result<Option<BranchName>> {
        let Some(find) = self.find_session else { return Ok(None) };
        if let Some(found) = find(text)? {
            return Ok(Some(found));
        }
        let Some((session, branch)) = text.split_once('/') else { return Ok(None) };
        let Ok(Some(found)) = find(session) else { return Ok(None) };
        let named = BranchName::new(found.session(), branch).ok();
        Ok(named.filter(|branch| self.repo.tip(branch).is_some()))
    }

    /// Returns the full name of the ref of these kinds that `text` names, if there is one.
    fn ref_name(&self, text: &str, kinds: RefKinds) -> Result<Option<String>> {
        if text.is_empty() || text == "@" || text == HEAD {
            return Ok(Some(HEAD.to_owned()));
        }
        if let Some(n) = text.strip_prefix("@{-").and_then(|rest| rest.strip_suffix('}')) {
            let n = parse_number(n)?;
            let before = self.repo.head_before(usize::try_from(n).unwrap_or(usize::MAX))?;
            return before
                .map(Some)
                .ok_or_else(|| Error::not_found(format!("HEAD has not been switched {n} times")));
        }
        let refs = self.repo.refs();
        let head = self.repo.head_if_any()?.map(|head| head.branch);
        let is_any = kinds == RefKinds::All;
        let candidates = [
            Some(text.to_owned()).filter(|full| is_any || BranchName::from_full(full).is_some()),
            tag_ref(text).ok().filter(|_| is_any),
            text.contains('/').then(|| text.parse::<BranchName>().ok()).flatten().map(|b| b.full()),
            head.as_ref()
                .and_then(|head| BranchName::new(head.session(), text).ok())
                .map(|branch| branch.full()),
            BranchName::main(text).ok().map(|branch| branch.full()),
        ];
        let candidates = candidates.into_iter().flatten();
        let of_remotes = remote_candidates(text, head.as_ref()).into_iter().filter(|_| is_any);
        let candidates = candidates.chain(of_remotes);
        let named = candidates.into_iter().find(|name| refs.value(name).is_some());
        if named.is_some() || BranchName::main(text).is_err() {
            return Ok(named);
        }
        // The main branch of the session was renamed or deleted.
        Ok(self.repo.branch_of_session(text)?.map(|branch| branch.full()))
    }

    /// Resolves an id, full or abbreviated; commits and tags win over other kinds.
    fn object(&self, text: &str) -> Result<ObjectId> {
        if let Ok(id) = text.parse::<ObjectId>() {
            return Ok(id);
        }
        let unknown = || Error::not_found("no branch, tag, session or id has this name");
        let prefix: IdPrefix = text.parse().map_err(|_| unknown())?;
        let found = self.repo.store().find(&prefix, 1024);
        let commits: Vec<_> =
            found.iter().filter(|(_, kind)| matches!(kind, Kind::Commit | Kind::Tag)).collect();
        match commits[..] {
            [] => Err(unknown()),
            [(id, _)] => Ok(*id),
            _ => {
                let list: Vec<String> =
                    commits.iter().take(MAX_CANDIDATES).map(|(id, _)| id.short(16)).collect();
                let list = list.join(", ");
                Err(Error::new(
                    ErrorKind::Ambiguous,
                    format!("'{text}' is ambiguous: it matches {list}"),
                ))
            }
        }
    }

    /// Applies the first of `steps`, and returns the rest.
    fn step<'s>(&self, at: &RevisionCursor, steps: &'s str) -> Result<(RevisionCursor, &'s str)> {
        let moved = |commit| RevisionCursor { commit, name: None };
        if let Some(rest) = steps.strip_prefix('~') {
            let (n, rest) = take_number(rest)?;
            return Ok((moved(self.ancestor(&at.commit, n.unwrap_or(1))?), rest));
        }
        if let Some(rest) = steps.strip_prefix("^{") {
            let (inside, rest) = take_braced(rest)?;
            if let Some(number) = inside.strip_prefix("prompt:") {
                let from = self.repo.peel(&at.commit)?;
                return Ok((moved(self.prompt(&from, number)?), rest));
            }
            return match inside.strip_prefix("turn:") {
                Some(turn) => {
                    let from = self.repo.peel(&at.commit)?;
                    Ok((moved(self.repo.find_turn(&from, parse_number(turn)?)?), rest))
                }
                None if inside == "commit" => Ok((moved(self.repo.peel(&at.commit)?), rest)),
                None => Err(Error::invalid(format!(
                    "'^{{{inside}}}': expected turn:<n>, prompt:<n> or commit"
                ))),
            };
        }
        if let Some(rest) = steps.strip_prefix('^') {
            let (n, rest) = take_number(rest)?;
            return Ok((moved(self.parent(&at.commit, n.unwrap_or(1))?), rest));
        }
        if let Some(rest) = steps.strip_prefix("@{") {
            let (inside, rest) = take_braced(rest)?;
            return Ok((moved(self.earlier(at, inside)?), rest));
        }
        Err(Error::invalid(format!("'{steps}': expected ~, ^ or @{{...}}")))
    }

    fn prompt(&self, from: &ObjectId, number: &str) -> Result<ObjectId> {
        let expected =
            || Error::invalid("expected prompt:3, or prompt:-1 for the newest".to_owned());
        let number = number.parse().ok().filter(|number| *number != 0).ok_or_else(expected)?;
        let said = Selection::below(&[MAIN_MESSAGES.to_owned()]);
        self.repo.prompts(self.is_prompt)?.find(from, number, &said)
    }

    fn ancestor(&self, id: &ObjectId, n: u64) -> Result<ObjectId> {
        let mut at = self.repo.peel(id)?;
        for _ in 0..n {
            at = self.parent(&at, 1)?;
        }
        Ok(at)
    }

    fn parent(&self, id: &ObjectId, n: u64) -> Result<ObjectId> {
        let id = self.repo.peel(id)?;
        let Some(index) = n.checked_sub(1) else { return Ok(id) };
        let (commit, grafts) = (self.repo.commit(&id)?, self.repo.grafts()?);
        let parent = usize::try_from(index).ok().and_then(|index| commit.parents.get(index));
        if let Some(forgotten) = parent.filter(|parent| grafts.is_forgotten(parent)) {
            let message = format!("{} was dropped by retention long ago", forgotten.short(12));
            return Err(Error::new(ErrorKind::Expired, message));
        }
        parent.copied().ok_or_else(|| {
            let (id, turn) = (id.short(12), commit.turn);
            match commit.parents.len() {
                0 => Error::not_found(format!("{id} (turn {turn}) has nothing before it")),
                parents => Error::not_found(format!(
                    "{id} (turn {turn}) has {parents} parents: there is no parent {n}"
                )),
            }
        })
    }

    /// Returns an earlier value of the named ref.
    fn earlier(&self, at: &RevisionCursor, which: &str) -> Result<ObjectId> {
        let name = at
            .name
            .as_deref()
            .ok_or_else(|| Error::invalid(format!("'@{{{which}}}' follows the name of a ref")))?;
        let value = if let Ok(n) = parse_number(which) {
            self.repo.ref_before(name, usize::try_from(n).unwrap_or(usize::MAX))?
        } else {
            let micros = self.parse_time.and_then(|parse| parse(which));
            let micros = micros.ok_or_else(|| {
                Error::invalid(format!("'@{{{which}}}': expected a number or a time"))
            })?;
            self.repo.ref_at(name, micros)?
        };
        match value {
            Some(RefValue::Object(id)) if self.repo.store().contains(&id)? => Ok(id),
            _ => Err(Error::not_found(format!("{name} had no value at @{{{which}}}"))),
        }
    }
}

/// Splits `A..B` into its sides; `None` for a single revision. Dots in the path of an entry do not
/// make a range.
#[must_use]
pub fn split_range(text: &str) -> Option<(&str, &str)> {
    let at = split_path(text).0.find("..")?;
    Some((text.get(..at)?, text.get(at + 2..)?))
}

/// Splits the path off a revision, at the first colon outside of `turn:`, `prompt:` and braces.
#[must_use]
pub fn split_path(text: &str) -> (&str, Option<&str>) {
    let from = ["turn:", "prompt:"].into_iter().find(|start| text.starts_with(start));
    let from = from.map_or(0, str::len);
    let mut depth = 0_u32;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < from) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => {
                let (revision, path) = text.split_at(at);
                return (revision, path.strip_prefix(':'));
            }
            _ => {}
        }
    }
    (text, None)
}

/// Splits the start from its steps.
fn split_start(revision: &str) -> (&str, &str) {
    let end = revision
        .char_indices()
        .find(|(at, c)| {
            matches!(c, '~' | '^') || revision.get(*at..).is_some_and(|rest| rest.starts_with("@{"))
        })
        .map_or(revision.len(), |(at, _)| at);
    revision.split_at(end)
}

fn take_number(text: &str) -> Result<(Option<u64>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits {
        "" => Ok((None, rest)),
        digits => Ok((Some(parse_number(digits)?), rest)),
    }
}

fn take_braced(text: &str) -> Result<(&str, &str)> {
    text.split_once('}')
        .ok_or_else(|| Error::invalid(format!("'{{{text}': expected a closing brace")))
}

fn parse_number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::invalid(format!("'{text}': expected a number")))
}

/// Adds the revision to an error.
fn add_revision(error: Error, text: &str) -> Error {
    error.at(format_args!("revision '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_in_a_path_make_no_range() {
        for (text, sides) in [
            ("a..b", Some(("a", "b"))),
            ("..", Some(("", ""))),
            ("a..b:files/x", Some(("a", "b:files/x"))),
            ("turn:1..turn:3", Some(("turn:1", "turn:3"))),
            ("HEAD:files/a..b", None),
            ("HEAD~3", None),
        ] {
            assert_eq!(split_range(text), sides, "{text}");
        }
    }

    #[test]
    fn text_splits_into_start_steps_and_path() {
        for (text, start, steps, path) in [
            ("HEAD", "HEAD", "", None),
            ("s/main~3^2:files/a:b", "s/main", "~3^2", Some("files/a:b")),
            ("turn:42:files", "turn:42", "", Some("files")),
            ("turn:42", "turn:42", "", None),
            ("prompt:-1~2:files", "prompt:-1", "~2", Some("files")),
            ("s^{prompt:3}", "s", "^{prompt:3}", None),
            ("s^{turn:3}", "s", "^{turn:3}", None),
            ("s@{2026-11-20 10:00}:meta", "s", "@{2026-11-20 10:00}", Some("meta")),
            ("@{-1}", "", "@{-1}", None),
            (":files", "", "", Some("files")),
        ] {
            let (revision, found) = split_path(text);
            assert_eq!((split_start(revision), found), ((start, steps), path), "{text}");
        }
    }
}
