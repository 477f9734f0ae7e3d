//! A session as its list stores it: the state from which the row follows, and what the list shows.
//!
//! ```text
//! row    [state, facts, basis], three byte strings, each canonical CBOR
//! state  name, labels ref, number of the newest branch, [branch, tip, turn, time, offset] of each
//! facts  what a list shows, fields that filters read come first
//! basis  contexts that the facts were read from, [tip, first prompt, prompts] of known lines, the open
//!        conflicts of each branch plus one, 0 where they were not counted
//! ```
//!
//! A view reads only the fields that it is asked for, so a list of many sessions makes no copies of
//! those that it does not show.

use bytes::Bytes;
use turntree::error::{Error, Result};
use turntree::object::{ID_BYTES, ObjectId, ObjectSource, Reader, RefValue, Time, Writer};
use turntree::repo::{BranchName, KnownTip, NewestBranch, Repository, SessionLabels};

use super::lines::LinePrompts;
use super::{Origin, SessionSummary};

/// The name of a row in errors.
const WHAT: &str = "a row of the list of sessions";

/// The largest number of branches, directories and labels of a row.
const MAX_ITEMS: u64 = 1 << 16;

/// The lines that a row remembers.
const MAX_LINES: usize = 8;

/// Separates texts in one field: neither a path nor a label contains it.
const SEPARATOR: char = '\0';

/// The tip of a branch, with the facts of its commit that order lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BranchTip {
    pub(super) branch: BranchName,
    pub(super) tip: ObjectId,
    pub(super) turn: u64,
    pub(super) time: Time,
}

impl BranchTip {
    pub(super) fn as_newest(&self) -> NewestBranch {
        NewestBranch { branch: self.branch.clone(), tip: self.tip, time: self.time }
    }
}

/// The state that determines the row of a session within one epoch.
#[derive(Debug, Clone)]
pub(super) struct SessionState {
    pub(super) name: String,
    pub(super) labels: Option<RefValue>,
    /// In order of names.
    pub(super) branches: Vec<BranchTip>,
    /// The number of the branch that represents the session.
    pub(super) newest: usize,
}

/// The objects that a row was computed from, besides the refs in its state.
#[derive(Debug, Default)]
pub(super) struct RowBasis {
    /// The contexts that were read.
    pub(super) contexts: Vec<ObjectId>,
    /// The known lines among the branches, by tip.
    pub(super) lines: Vec<(ObjectId, LinePrompts)>,
    /// The open conflicts of each branch of the state, if they were counted.
    pub(super) conflicts: Vec<Option<u64>>,
}

/// A stored row.
#[derive(Debug, Clone)]
pub(super) struct StoredRow {
    bytes: Bytes,
    pub(super) time: Time,
    pub(super) is_only_begun: bool,
}

/// The refs of a session, borrowed from the table of refs.
#[derive(Debug)]
pub(super) struct SessionRefs<'r> {
    /// The names of the branches within the session, with their tips.
    pub(super) branches: Vec<(&'r str, ObjectId)>,
    pub(super) labels: Option<&'r RefValue>,
}

/// A session in a list: a view that reads the fields that it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct SessionRow<'a> {
    row: &'a StoredRow,
}

impl StoredRow {
    /// Encodes a session.
    pub(super) fn new(state: &SessionState, summary: &SessionSummary, basis: &RowBasis) -> Self {
        let mut writer = Writer::new();
        writer.array(3).bytes(&state_bytes(state)).bytes(&facts_bytes(summary));
        writer.bytes(&basis_bytes(basis));
        let bytes = Bytes::from(writer.finish());
        Self { bytes, time: summary.time, is_only_begun: summary.is_only_begun }
    }

    /// Reads a row if it is the current row of `name` with these refs.
    pub(super) fn matching(bytes: Bytes, name: &str, refs: &SessionRefs<'_>) -> Option<Self> {
        let found = read_current(&bytes, name, refs).ok()??;
        let (time, is_only_begun) = found;
        Some(Self { bytes, time, is_only_begun })
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(super) const fn view(&self) -> SessionRow<'_> {
        SessionRow { row: self }
    }
}

/// Returns the name of the session of a row.
pub(super) fn name_of(row: &[u8]) -> Result<&str> {
    let (state, ..) = parts(row)?;
    Reader::new(WHAT, state).text()
}

/// Returns the state of a row.
pub(super) fn state_of(row: &[u8]) -> Result<SessionState> {
    let name = name_of(row)?;
    let mut branches = Vec::new();
    let (labels, newest) = read_branches(row, |branch, tip, turn, time| {
        let branch = BranchName::new(name, branch)?;
        branches.push(BranchTip { branch, tip, turn, time });
        Ok(())
    })?;
    Ok(SessionState { name: name.to_owned(), labels, branches, newest })
}

/// Calls `each` with name, tip, turn and time of each branch of a row. Returns the labels ref and the
/// number of the newest branch.
fn read_branches<'a>(
    row: &'a [u8],
    mut each: impl FnMut(&'a str, ObjectId, u64, Time) -> Result<()>,
) -> Result<(Option<RefValue>, usize)> {
    let (state, ..) = parts(row)?;
    let mut reader = Reader::new(WHAT, state);
    reader.text()?;
    let labels = match reader.bytes()? {
        [] => None,
        id => Some(RefValue::Object(id_of(id)?)),
    };
    let newest = usize::try_from(reader.uint()?).unwrap_or(usize::MAX);
    for _ in 0..reader.array_up_to(MAX_ITEMS)? {
        let (branch, tip) = (reader.text()?, id_of(reader.bytes()?)?);
        let (turn, time) = (reader.uint()?, time(&mut reader)?);
        each(branch, tip, turn, time)?;
    }
    Ok((labels, newest))
}

/// Returns the number of open conflicts of the branches of a row that were counted, by tip.
pub(super) fn conflicts_of(row: &[u8]) -> Result<Vec<(ObjectId, u64)>> {
    let (_, _, basis) = parts(row)?;
    let counted = read_basis(basis)?.conflicts;
    let tips = state_of(row)?.branches.into_iter().map(|branch| branch.tip);
    Ok(tips.zip(counted).filter_map(|(tip, number)| Some((tip, number?))).collect())
}

/// Returns the known lines of a row.
pub(super) fn lines_of(row: &[u8]) -> Result<Vec<(ObjectId, LinePrompts)>> {
    let (_, _, basis) = parts(row)?;
    Ok(read_basis(basis)?.lines)
}

/// Returns true if everything still exists that the row was read from.
pub(super) fn is_founded(repo: &Repository, row: &[u8]) -> Result<bool> {
    let (_, _, basis) = parts(row)?;
    let RowBasis { contexts, lines, .. } = read_basis(basis)?;
    let firsts = lines.iter().filter_map(|(_, line)| line.first);
    for id in contexts.into_iter().chain(firsts) {
        if !repo.contains(&id)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn parts(row: &[u8]) -> Result<(&[u8], &[u8], &[u8])> {
    let mut reader = Reader::new(WHAT, row);
    reader.array(3)?;
    Ok((reader.bytes()?, reader.bytes()?, reader.bytes()?))
}

fn state_bytes(state: &SessionState) -> Vec<u8> {
    let labels: &[u8] = match &state.labels {
        Some(RefValue::Object(id)) => id.as_bytes(),
        // A symbolic ref cannot be read, and matches no row.
        None | Some(RefValue::Symbolic(_)) => &[],
    };
    let mut writer = Writer::new();
    writer.text(&state.name).bytes(labels).uint(state.newest as u64);
    writer.array(state.branches.len());
    for BranchTip { branch, tip, turn, time } in &state.branches {
        writer.text(branch.branch()).bytes(tip.as_bytes()).uint(*turn);
        writer.int(time.micros).int(time.offset_minutes.into());
    }
    writer.finish()
}

fn facts_bytes(summary: &SessionSummary) -> Vec<u8> {
    let SessionSummary { origin, labels, .. } = summary;
    let mut writer = Writer::new();
    writer.uint(summary.is_only_begun.into()).uint(summary.conflicts);
    option(&mut writer, origin.client_id.as_deref());
    writer.text(&joined(&origin.directories));
    writer.text(&summary.agent);
    writer.text(&joined(&labels.labels));
    for text in [&labels.title, &origin.title, &summary.first_prompt] {
        option(&mut writer, text.as_deref());
    }
    writer.text(&summary.model);
    option(&mut writer, origin.git_branch.as_deref());
    option(&mut writer, origin.git_remote.as_deref());
    writer.uint(summary.prompts).uint(summary.turns);
    for number in [summary.files, summary.tokens] {
        match number {
            None => writer.array(0),
            Some(number) => writer.array(1).uint(number),
        };
    }
    writer.finish()
}

fn basis_bytes(basis: &RowBasis) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.array(basis.contexts.len());
    for id in &basis.contexts {
        writer.bytes(id.as_bytes());
    }
    let lines = basis.lines.iter().take(MAX_LINES);
    writer.array(lines.len());
    for (tip, line) in lines {
        let first = line.first.as_ref().map_or(&[][..], |first| first.as_bytes());
        writer.bytes(tip.as_bytes()).bytes(first).uint(line.count);
    }
    writer.array(basis.conflicts.len());
    for number in &basis.conflicts {
        writer.uint(number.map_or(0, |number| number.saturating_add(1)));
    }
    writer.finish()
}

fn read_basis(basis: &[u8]) -> Result<RowBasis> {
    let mut reader = Reader::new(WHAT, basis);
    let mut found = RowBasis::default();
    for _ in 0..reader.array_up_to(MAX_ITEMS)? {
        found.contexts.push(id_of(reader.bytes()?)?);
    }
    for _ in 0..reader.array_up_to(MAX_ITEMS)? {
        let tip = id_of(reader.bytes()?)?;
        let first = match reader.bytes()? {
            [] => None,
            first => Some(id_of(first)?),
        };
        found.lines.push((tip, LinePrompts { first, count: reader.uint()? }));
    }
    for _ in 0..reader.array_up_to(MAX_ITEMS)? {
        found.conflicts.push(reader.uint()?.checked_sub(1));
    }
    Ok(found)
}

/// Returns the time of the newest branch, and whether the session is only begun, if the row has
/// this name and these refs.
fn read_current(row: &[u8], name: &str, refs: &SessionRefs<'_>) -> Result<Option<(Time, bool)>> {
    let (state, facts, _) = parts(row)?;
    let mut reader = Reader::new(WHAT, state);
    if reader.text()? != name {
        return Ok(None);
    }
    let labels = reader.bytes()?;
    let has_labels = match refs.labels {
        None => labels.is_empty(),
        Some(RefValue::Object(id)) => labels == id.as_bytes(),
        Some(RefValue::Symbolic(_)) => false,
    };
    let newest = reader.uint()?;
    if !has_labels || reader.array_up_to(MAX_ITEMS)? != refs.branches.len() as u64 {
        return Ok(None);
    }
    let mut of_newest = None;
    for (number, (branch, tip)) in refs.branches.iter().enumerate() {
        if reader.text()? != *branch || reader.bytes()? != tip.as_bytes() {
            return Ok(None);
        }
        reader.uint()?;
        let time = time(&mut reader)?;
        if number as u64 == newest {
            of_newest = Some(time);
        }
    }
    let is_only_begun = Reader::new(WHAT, facts).uint()? == 1;
    Ok(of_newest.map(|time| (time, is_only_begun)))
}

fn option(writer: &mut Writer, text: Option<&str>) {
    match text {
        None => writer.array(0),
        Some(text) => writer.array(1).text(text),
    };
}

fn optional<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>> {
    match reader.array_up_to(1)? {
        0 => Ok(None),
        _ => reader.text().map(Some),
    }
}

fn number(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    match reader.array_up_to(1)? {
        0 => Ok(None),
        _ => reader.uint().map(Some),
    }
}

fn time(reader: &mut Reader<'_>) -> Result<Time> {
    let micros = reader.int()?;
    let offset_minutes = i16::try_from(reader.int()?).unwrap_or_default();
    Ok(Time { micros, offset_minutes })
}

fn id_of(bytes: &[u8]) -> Result<ObjectId> {
    let id: [u8; ID_BYTES] =
        bytes.try_into().map_err(|_| Error::malformed(WHAT, "an id of 32 bytes"))?;
    Ok(ObjectId::from_bytes(id))
}

fn joined<'t>(texts: impl IntoIterator<Item = &'t String>) -> String {
    let texts = texts.into_iter().map(String::as_str).filter(|text| !text.contains(SEPARATOR));
    texts.collect::<Vec<_>>().join("\0")
}

fn split(texts: &str) -> impl Iterator<Item = &str> {
    texts.split(SEPARATOR).filter(|text| !text.is_empty())
}

impl<'a> SessionRow<'a> {
    /// Returns the name of the session.
    #[must_use]
    pub fn name(&self) -> &'a str {
        name_of(&self.row.bytes).unwrap_or_default()
    }

    /// Returns the time of its newest snapshot.
    #[must_use]
    pub const fn time(&self) -> Time {
        self.row.time
    }

    /// Returns the tips of its branches.
    #[must_use]
    pub fn tips(&self) -> Vec<KnownTip> {
        let mut tips = Vec::new();
        let read = read_branches(&self.row.bytes, |_, id, turn, time| {
            tips.push(KnownTip { id, turn, time });
            Ok(())
        });
        read.map(|_| tips).unwrap_or_default()
    }

    /// Returns true if a client was started without a prompt, see
    /// [`SessionSummary::is_only_begun`].
    #[must_use]
    pub const fn is_only_begun(&self) -> bool {
        self.row.is_only_begun
    }

    /// Returns the number of open conflicts, like [`SessionSummary::conflicts`].
    #[must_use]
    pub fn conflicts(&self) -> u64 {
        let found = parts(&self.row.bytes).and_then(|(_, facts, _)| {
            let mut reader = Reader::new(WHAT, facts);
            reader.uint()?;
            reader.uint()
        });
        found.unwrap_or_default()
    }

    /// Returns the id at the client.
    #[must_use]
    pub fn client_id(&self) -> Option<&'a str> {
        self.facts(optional).ok().flatten()
    }

    /// Returns the directories, like [`super::Origin::directories`].
    pub fn directories(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let found = self.facts(|reader| {
            optional(reader)?;
            reader.text()
        });
        split(found.unwrap_or_default())
    }

    /// Returns the client or format of the session.
    #[must_use]
    pub fn agent(&self) -> &'a str {
        self.sorted_by().map(|(agent, _)| agent).unwrap_or_default()
    }

    /// Returns the labels that users gave the session.
    pub fn labels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        split(self.sorted_by().map(|(_, labels)| labels).unwrap_or_default())
    }

    /// Returns the title, like [`SessionSummary::title`].
    #[must_use]
    pub fn title(&self) -> Option<&'a str> {
        let found = self.facts(|reader| {
            optional(reader)?;
            for _ in 0..3 {
                reader.text()?;
            }
            let titles = [optional(reader)?, optional(reader)?, optional(reader)?];
            Ok(titles.into_iter().flatten().next())
        });
        found.ok().flatten()
    }

    /// Returns what a search for words looks at, one text a line: title, name, agent, model, git
    /// branch, directories and labels.
    #[must_use]
    pub fn text(&self) -> String {
        let Some(session) = self.summary() else { return self.name().to_owned() };
        let SessionSummary { origin, labels, .. } = &session;
        let title = session.title().map_or("", |(title, _)| title);
        let mut texts = vec![title, &session.name, &session.agent, &session.model];
        texts.extend(origin.git_branch.as_deref());
        texts.extend(origin.directories.iter().map(String::as_str));
        texts.extend(labels.labels.iter().map(String::as_str));
        texts.join("\n")
    }

    /// Returns all of it; `None` if the row is not one of this version.
    #[must_use]
    pub fn summary(&self) -> Option<SessionSummary> {
        self.read_summary().ok().flatten()
    }

    pub(super) const fn stored(&self) -> &'a StoredRow {
        self.row
    }

    /// The agent and the labels.
    fn sorted_by(&self) -> Result<(&'a str, &'a str)> {
        self.facts(|reader| {
            optional(reader)?;
            reader.text()?;
            Ok((reader.text()?, reader.text()?))
        })
    }

    /// Reads fields of the facts, from the id at the client on.
    fn facts<T>(&self, read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
        let (_, facts, _) = parts(&self.row.bytes)?;
        let mut reader = Reader::new(WHAT, facts);
        reader.uint()?;
        reader.uint()?;
        read(&mut reader)
    }

    fn read_summary(&self) -> Result<Option<SessionSummary>> {
        let mut state = state_of(&self.row.bytes)?;
        let branches = state.branches.len() as u64;
        if state.newest >= state.branches.len() {
            return Ok(None);
        }
        let BranchTip { branch, tip, time, .. } = state.branches.swap_remove(state.newest);
        let text = |text: Option<&str>| text.map(str::to_owned);
        let (_, facts, _) = parts(&self.row.bytes)?;
        let mut reader = Reader::new(WHAT, facts);
        let is_only_begun = reader.uint()? == 1;
        let conflicts = reader.uint()?;
        let client_id = text(optional(&mut reader)?);
        let directories = split(reader.text()?).map(str::to_owned).collect();
        let agent = reader.text()?.to_owned();
        let labels = split(reader.text()?).map(str::to_owned).collect();
        let labels = SessionLabels { title: text(optional(&mut reader)?), labels };
        let title = text(optional(&mut reader)?);
        let first_prompt = text(optional(&mut reader)?);
        let model = reader.text()?.to_owned();
        let (git_branch, git_remote) = (text(optional(&mut reader)?), text(optional(&mut reader)?));
        let (prompts, turns) = (reader.uint()?, reader.uint()?);
        let (files, tokens) = (number(&mut reader)?, number(&mut reader)?);
        reader.finish()?;
        let origin = Origin { directories, git_branch, git_remote, title, client_id };
        Ok(Some(SessionSummary {
            name: state.name,
            branch,
            tip,
            time,
            agent,
            model,
            origin,
            labels,
            first_prompt,
            prompts,
            turns,
            files,
            tokens,
            branches,
            conflicts,
            is_only_begun,
        }))
    }
}
