//! Looks at every file of a directory, on all processors: its name, its stat, and nothing else.
//!
//! A folder is opened below the handle of the folder that it is in, so no link is followed,
//! whatever others do meanwhile. What its files are is compared with what is known as they come, so
//! a folder in which nothing changed leaves two numbers behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::Scope;
use rustix::fs::FileType;

use super::baseline::{Baseline, BaselineFile};
use super::options::{CaptureOptions, CaptureProgress};
use super::reach::{Ignored, Reach};
use super::report::{IGNORED, LeftBeside, NOT_A_FILE, NOT_UTF8, SkippedFile, TOO_LONG};
use super::rules::{GIT_RULES, MAX_RULES_BYTES, OWN_RULES, RuleTexts, Rules, Tracked, Verdict};
use super::sides::Side;
use crate::object::ObjectId;
use crate::tree::MAX_KEY_BYTES;
use crate::workspace::disk::folder::{EntryKind, Folder};
use crate::workspace::disk::stat::Stat;
use crate::workspace::disk::target::OF_A_STORE;
use crate::workspace::disk::temp_file;
use crate::workspace::git::{DOT_GIT, Repositories};

/// Names that are never captured, whatever they are.
const NEVER: [&str; 2] = [DOT_GIT, ".turntree"];

/// Folders that are held open for the folders in them. Others are opened again from the top.
const MAX_OPEN: usize = 256;

/// Stands in a table for rules that are not known.
pub(in crate::workspace) const UNKNOWN_RULES: ObjectId = ObjectId::from_bytes([0; 32]);

pub(in crate::workspace) const TIME_IS_UP: &str = "the time was up before it was looked at";

/// The files of a directory that differ from the baseline.
#[derive(Debug, Default)]
pub(in crate::workspace) struct ScanResult {
    /// By prefix: empty, or with a slash at its end.
    pub(in crate::workspace) folders: BTreeMap<String, SeenFolder>,
    /// Prefixes of folders that were not looked into. What is known below them stays.
    pub(in crate::workspace) closed: Vec<String>,
    pub(in crate::workspace) skipped: Vec<SkippedFile>,
    /// Files that are as they were, and their bytes.
    pub(in crate::workspace) same_files: u64,
    pub(in crate::workspace) same_bytes: u64,
    /// True when the time was up.
    pub(in crate::workspace) unfinished: bool,
    /// Paths that a side ignores or did not take along.
    pub(in crate::workspace) beside: BTreeMap<PathBuf, LeftBeside>,
    /// What is wrong with files of git.
    pub(in crate::workspace) warnings: Vec<String>,
}

/// What a scan goes by.
#[derive(Debug, Clone, Copy)]
pub(in crate::workspace) struct ScanInput<'a> {
    pub(in crate::workspace) dir: &'a Path,
    /// The same directory, open.
    pub(in crate::workspace) root: &'a Folder,
    pub(in crate::workspace) known: &'a Baseline<'a>,
    pub(in crate::workspace) options: &'a CaptureOptions<'a>,
    /// States whose rules count too.
    pub(in crate::workspace) sides: &'a [Side],
}

/// A folder that was looked into.
#[derive(Debug)]
pub(in crate::workspace) struct SeenFolder {
    pub(in crate::workspace) rules: ObjectId,
    /// Its files, by name; nothing when they are those that the table has.
    pub(in crate::workspace) files: Option<Vec<SeenFile>>,
    /// Names of files that were known and are not there any more.
    pub(in crate::workspace) gone: Vec<String>,
}

/// A file that was seen, or is known and could not be looked at.
#[derive(Debug)]
pub(in crate::workspace) struct SeenFile {
    pub(in crate::workspace) name: String,
    pub(in crate::workspace) stat: Option<Stat>,
    pub(in crate::workspace) fate: FileFate,
}

/// The decision about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum FileFate {
    /// Its last known content stays.
    Keep,
    /// It is read: it is new, changed, or nobody knows.
    Read,
    /// It is not in the section.
    Drop,
}

/// A folder to look into.
struct FolderTask {
    /// Its path, empty or with a slash at its end.
    prefix: String,
    /// The open folder that it is in, if that is still held.
    parent: Option<Arc<FoundNames>>,
    /// How far the rules of the directory reach into it: those of its parent.
    disk: Reach,
    /// The same of each side.
    sides: Vec<Reach>,
    /// The folders that it lies in.
    above: Arc<ParentFolders>,
}

/// A folder, and those that it lies in: a mount may lead back into one of them.
struct ParentFolders {
    identity: (u64, u64),
    above: Option<Arc<ParentFolders>>,
}

impl ParentFolders {
    fn holds(&self, identity: (u64, u64)) -> bool {
        let levels = std::iter::successors(Some(self), |level| level.above.as_deref());
        levels.into_iter().any(|level| level.identity == identity)
    }
}

/// A folder held open, counted.
struct FoundNames {
    folder: Folder,
    open: Arc<AtomicUsize>,
}

impl Drop for FoundNames {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state that all threads share.
struct FolderWalk<'a> {
    dir: &'a Path,
    root: &'a Folder,
    known: &'a Baseline<'a>,
    options: &'a CaptureOptions<'a>,
    sides: &'a [Side],
    repositories: Repositories<'a>,
    known_folders: OnceLock<BTreeSet<&'a str>>,
    /// Folders that are never entered.
    never: Vec<(u64, u64)>,
    open: Arc<AtomicUsize>,
    is_over: AtomicBool,
    looked_at: AtomicU64,
    found: Mutex<ScanResult>,
}

/// Looks at everything in the directory that no rules leave out.
pub(in crate::workspace) fn scan(input: &ScanInput<'_>) -> ScanResult {
    let ScanInput { dir, root, known, options, sides } = *input;
    let never = options.never.iter().filter_map(|path| {
        let stat = Folder::open(path).and_then(|folder| folder.own_stat()).ok()?;
        Some(Stat::from(&stat).identity())
    });
    let walk = FolderWalk {
        dir,
        root,
        known,
        options,
        sides,
        repositories: Repositories::new(options.git),
        known_folders: OnceLock::new(),
        never: never.collect(),
        open: Arc::default(),
        is_over: AtomicBool::new(false),
        looked_at: AtomicU64::new(0),
        found: Mutex::default(),
    };
    // No folder has this identity: inode 0 is none.
    let above = Arc::new(ParentFolders { identity: (0, 0), above: None });
    let disk = Reach { rules: Rules::around(dir, &walk.repositories), ignored: None };
    let top = |side: &Side| {
        let ignored = Ignored { verdict: Verdict::IgnoredByOwn, folder: "".into() };
        let ignored = side.skips("").then_some(ignored);
        Reach { rules: Arc::clone(&disk.rules), ignored }
    };
    let sides = sides.iter().map(top).collect();
    let top = FolderTask { prefix: String::new(), parent: None, disk, sides, above };
    rayon::scope(|scope| walk.look_into(scope, top));
    let mut found = walk.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.unfinished = walk.is_over.into_inner();
    found.warnings = walk.repositories.into_warnings();
    found
}

impl<'a> FolderWalk<'a> {
    fn look_into<'s>(&'s self, scope: &Scope<'s>, task: FolderTask) {
        if self.is_over.load(Ordering::Relaxed) || (self.options.over_budget)() {
            self.is_over.store(true, Ordering::Relaxed);
            return self.close(task.prefix, TIME_IS_UP.to_owned());
        }
        let listed = self.open(&task).and_then(|folder| {
            let identity = Stat::from(&folder.own_stat()?).identity();
            let names = folder.names()?;
            Ok((folder, identity, names))
        });
        match listed {
            Ok((_, identity, names)) if self.is_left_out(identity, &names) => {}
            Ok((_, identity, _)) if task.above.holds(identity) => {
                self.close(task.prefix, "it leads back to a folder that it lies in".to_owned());
            }
            Ok((folder, identity, names)) => match self.texts_of(&task, &folder, &names) {
                Ok(texts) => {
                    let above = ParentFolders { identity, above: Some(Arc::clone(&task.above)) };
                    let inside = FolderScan::new(self, task, &texts, Arc::new(above));
                    inside.look(scope, folder, names);
                }
                Err(reason) => self.close(task.prefix, reason),
            },
            // Gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.close(task.prefix, error.to_string()),
        }
    }

    /// Opens the folder of a task: below its parent, or name by name from the top.
    fn open(&self, task: &FolderTask) -> io::Result<Folder> {
        let path = Path::new(task.prefix.trim_end_matches('/'));
        match (&task.parent, path.file_name()) {
            (Some(parent), Some(name)) => parent.folder.enter(name),
            _ => self.root.descend(path),
        }
    }

    fn is_left_out(&self, identity: (u64, u64), names: &[(CString, FileType)]) -> bool {
        let has = |wanted: &str| names.iter().any(|(name, _)| name.as_bytes() == wanted.as_bytes());
        self.never.contains(&identity) || OF_A_STORE.iter().all(|name| has(name))
    }

    /// The rules in a folder. What may be left out and cannot be read is not captured on a guess.
    fn texts_of(
        &self,
        task: &FolderTask,
        folder: &Folder,
        names: &[(CString, FileType)],
    ) -> Result<RuleTexts, String> {
        let mut texts = RuleTexts::default();
        for (name, _) in names {
            let name = name.as_c_str();
            let failed = |error| format!("{}: {error}", name.to_string_lossy());
            if name.to_bytes() == GIT_RULES.as_bytes() {
                texts.git = read_rules(folder, name).map_err(failed)?;
            } else if name.to_bytes() == OWN_RULES.as_bytes() {
                texts.own = read_rules(folder, name).map_err(failed)?;
            } else if name.to_bytes() == DOT_GIT.as_bytes() {
                let git = self.repositories.of(&self.dir.join(&task.prefix));
                texts.repository = Some(Arc::new(git));
            }
        }
        Ok(texts)
    }

    /// Returns whether the baseline has a file below the folder, which ends with a slash.
    fn has_known_below(&self, folder: &str) -> bool {
        let folders = self.known_folders.get_or_init(|| self.known.folders());
        folders.range(folder..).next().is_some_and(|known| known.starts_with(folder))
    }

    /// Why a file is not captured, whatever the rules say.
    fn refusal(&self, stat: &Stat) -> Option<String> {
        let limit = self.options.max_file_bytes;
        match stat.file_mode() {
            None => Some(NOT_A_FILE.to_owned()),
            Some(_) if stat.size > limit => Some(too_large(limit)),
            Some(_) => None,
        }
    }

    /// Leaves a folder as it is known.
    fn close(&self, prefix: String, reason: String) {
        let path = PathBuf::from(prefix.trim_end_matches('/'));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.skipped.push(SkippedFile { path, reason });
        found.closed.push(prefix);
    }
}

/// The rules in a file; nothing when it is no regular file.
fn read_rules(folder: &Folder, name: &CStr) -> io::Result<Vec<u8>> {
    if Stat::from(&folder.stat(name)?).kind() != EntryKind::File {
        return Ok(Vec::new());
    }
    let mut text = Vec::new();
    let file = folder.read(OsStr::from_bytes(name.to_bytes()))?;
    file.take(MAX_RULES_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_RULES_BYTES {
        let message = format!("rules of more than {MAX_RULES_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(text)
}

/// A folder that is being looked into.
struct FolderScan<'s, 'a> {
    walk: &'s FolderWalk<'a>,
    prefix: String,
    disk: Reach,
    sides: Vec<Reach>,
    above: Arc<ParentFolders>,
}

/// What becomes of a name.
enum NameFate {
    /// It is captured; `by_index` when a rule ignores it and git tracks it all the same.
    Take { by_index: bool },
    /// It is a folder to look into, with this reach of rules.
    Enter { disk: Reach, sides: Vec<Reach> },
    /// It is left out.
    Leave,
    /// The same; `folder` is the ignored one that it is in. A side would include it, so what comes of
    /// that side must not take it for new.
    LeaveUncovered { folder: Option<Arc<str>> },
    /// The rules of a side ignore it, or this folder that it is in.
    LeaveBeside { folder: Option<Arc<str>>, reason: &'static str },
}

impl<'s, 'a> FolderScan<'s, 'a> {
    fn new(
        walk: &'s FolderWalk<'a>,
        task: FolderTask,
        texts: &RuleTexts,
        above: Arc<ParentFolders>,
    ) -> Self {
        let FolderTask { prefix, disk, sides, .. } = task;
        let below = |reach: &Reach, texts: &RuleTexts| Reach {
            rules: reach.rules.below(prefix.len(), texts),
            ignored: reach.ignored.clone(),
        };
        let of_side = |(reach, side): (&Reach, &Side)| {
            let (mut texts, found) = (texts.clone(), side.texts(&prefix));
            texts.git = found.map(|it| it.git.clone()).unwrap_or_default();
            texts.own = found.map(|it| it.own.clone()).unwrap_or_default();
            let mut here = below(reach, &texts);
            if found.is_some_and(|found| found.is_unreadable) && here.ignored.is_none() {
                let folder = prefix.trim_end_matches('/').into();
                here.ignored = Some(Ignored { verdict: Verdict::IgnoredByGit, folder });
            }
            here
        };
        let sides = sides.iter().zip(walk.sides).map(of_side).collect();
        let disk = below(&disk, texts);
        Self { walk, prefix, disk, sides, above }
    }

    fn look(self, scope: &Scope<'s>, folder: Folder, mut names: Vec<(CString, FileType)>) {
        names.sort_unstable_by(|(before, _), (after, _)| before.cmp(after));
        let known = self.walk.known.folder(&self.prefix);
        let block = self.walk.known.block(&self.prefix);
        let mut digest = self.disk.rules.digest();
        // By the same rules what was known was captured before, and it is not asked again. The table
        // names no rules where a file was captured for being tracked: git may have let it go.
        let is_judged = block.is_some_and(|(_, block)| block.rules == digest)
            && self.disk.ignored.is_none()
            && self.sides.iter().all(|reach| reach.is_as(&self.disk))
            && self.walk.sides.iter().all(Side::skips_nothing);
        let mut files = BaselineFiles { known: &known, ..BaselineFiles::default() };
        let (mut folders, mut beside) = (Vec::new(), Vec::new());
        let mut path = self.prefix.clone().into_bytes();
        for (name, kind) in &names {
            let bytes = name.as_bytes();
            if is_never(bytes) {
                continue;
            }
            let stat = match look_at(&folder, name, *kind) {
                Ok(found) => found,
                // Gone since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    files.skip(&self.prefix, bytes, error.to_string());
                    continue;
                }
            };
            let is_folder = stat.is_none();
            let before = if is_folder { None } else { files.known_as(bytes) };
            let mut into = None;
            if !(is_judged && before.is_some()) {
                path.truncate(self.prefix.len());
                path.extend_from_slice(bytes);
                match self.judge(&path, is_folder, before.is_some()) {
                    NameFate::Take { by_index } => {
                        if by_index {
                            digest = UNKNOWN_RULES;
                        }
                    }
                    NameFate::Enter { disk, sides } => into = Some((disk, sides)),
                    NameFate::Leave => {
                        files.leave_out(before);
                        continue;
                    }
                    NameFate::LeaveUncovered { folder } => {
                        beside.push(left_beside(&path, folder.as_deref(), IGNORED));
                        files.leave_out(before);
                        continue;
                    }
                    // The report names each file that the capture cannot read.
                    NameFate::LeaveBeside { .. }
                        if stat.is_some_and(|stat| self.walk.refusal(&stat).is_some()) => {}
                    NameFate::LeaveBeside { folder, reason } => {
                        beside.push(left_beside(&path, folder.as_deref(), reason));
                        files.keep(before);
                        continue;
                    }
                }
            }
            let is_long = self.prefix.len() + bytes.len() + usize::from(is_folder) > MAX_KEY_BYTES;
            match (std::str::from_utf8(bytes), stat) {
                (Err(_), _) => files.skip(&self.prefix, bytes, NOT_UTF8.to_owned()),
                (Ok(_), _) if is_long => files.skip(&self.prefix, bytes, TOO_LONG.to_owned()),
                (Ok(name), None) => {
                    folders.extend(into.map(|into| (format!("{}{name}/", self.prefix), into)));
                }
                (Ok(name), Some(stat)) => files.add(&self.prefix, name, stat, before, self.walk),
            }
        }
        files.end();
        self.walk.looked_at.fetch_add(files.same_files + files.differing, Ordering::Relaxed);
        let looked_at = self.walk.looked_at.load(Ordering::Relaxed);
        (self.walk.options.progress)(CaptureProgress::Looked(looked_at));
        self.spawn(scope, folder, folders);
        let is_of_rules = block.is_some_and(|(_, block)| block.rules == digest);
        let is_same = (is_of_rules || known.is_empty()) && files.is_as_known();
        self.report(files, digest, beside, is_same);
    }

    /// Decides what becomes of a path, by the rules of the directory and then by those of each side.
    /// What any of them ignores stays as it is on disk: this is the one place that says so.
    fn judge(&self, path: &[u8], is_folder: bool, is_known: bool) -> NameFate {
        let tracked = OnceLock::new();
        let tracks = |verdict| match verdict {
            Verdict::IgnoredByGit => *tracked
                .get_or_init(|| self.disk.rules.tracks(path, is_folder, &self.walk.repositories)),
            _ => Tracked::No,
        };
        let text = String::from_utf8_lossy(path);
        let mut verdict = self.disk.verdict(path, is_folder);
        let by_index = verdict != Verdict::Included;
        match (verdict, tracks(verdict)) {
            (Verdict::Included, _) | (_, Tracked::Below) => {}
            (_, Tracked::Itself) => verdict = Verdict::Included,
            (_, Tracked::No) => {
                let includes = |(reach, side): (&Reach, &Side)| {
                    let verdict = reach.verdict(path, is_folder);
                    let is_included =
                        verdict == Verdict::Included || tracks(verdict) != Tracked::No;
                    is_included && !reach.is_as(&self.disk) && !side.skips(&text)
                };
                let folder = self.disk.ignored.as_ref().map(|it| Arc::clone(&it.folder));
                return match self.sides.iter().zip(self.walk.sides).any(includes) {
                    true => NameFate::LeaveUncovered { folder },
                    false => NameFate::Leave,
                };
            }
        }
        let mut sides = Vec::new();
        for (reach, side) in self.sides.iter().zip(self.walk.sides) {
            let mut verdict = match (side.skips(&text), reach.is_as(&self.disk)) {
                (true, _) => Verdict::IgnoredByOwn,
                (false, true) => verdict,
                (false, false) => reach.verdict(path, is_folder),
            };
            let folder = || format!("{text}/");
            let is_taken = match (verdict, tracks(verdict)) {
                (Verdict::Included, _) | (_, Tracked::Below) => true,
                (_, Tracked::Itself) => {
                    verdict = Verdict::Included;
                    true
                }
                (_, Tracked::No) if !is_folder => side.took(&text, is_known),
                (_, Tracked::No) => {
                    side.has_more_below(&folder()) || self.walk.has_known_below(&folder())
                }
            };
            if !is_taken {
                let folder = reach.ignored.as_ref().map(|ignored| Arc::clone(&ignored.folder));
                return NameFate::LeaveBeside { folder, reason: side.reason };
            }
            if is_folder {
                sides.push(reach.inside(&text, verdict));
            }
        }
        if !is_folder {
            return NameFate::Take { by_index };
        }
        NameFate::Enter { disk: self.disk.inside(&text, verdict), sides }
    }

    fn spawn(
        &self,
        scope: &Scope<'s>,
        folder: Folder,
        folders: Vec<(String, (Reach, Vec<Reach>))>,
    ) {
        let walk = self.walk;
        let is_held = walk.open.fetch_add(1, Ordering::Relaxed) < MAX_OPEN;
        let held = FoundNames { folder, open: Arc::clone(&walk.open) };
        let parent = if is_held { Some(Arc::new(held)) } else { None };
        for (prefix, (disk, sides)) in folders {
            let (parent, above) = (parent.clone(), Arc::clone(&self.above));
            let task = FolderTask { prefix, parent, disk, sides, above };
            scope.spawn(move |scope| walk.look_into(scope, task));
        }
    }

    fn report(
        self,
        mut files: BaselineFiles<'_>,
        rules: ObjectId,
        beside: Vec<(PathBuf, LeftBeside)>,
        is_same: bool,
    ) {
        let mut found = self.walk.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.same_files += files.same_files;
        found.same_bytes += files.same_bytes;
        found.skipped.append(&mut files.skipped);
        found.beside.extend(beside);
        let files_here = if is_same { None } else { Some(files.seen()) };
        found
            .folders
            .insert(self.prefix, SeenFolder { rules, files: files_here, gone: files.gone });
    }
}

/// A path that stays for the sake of a rule, perhaps with a folder that it is in.
fn left_beside(path: &[u8], folder: Option<&str>, reason: &'static str) -> (PathBuf, LeftBeside) {
    let whole = |path: &[u8]| PathBuf::from(OsStr::from_bytes(path));
    let shown = whole(folder.map_or(path, str::as_bytes));
    (whole(path), LeftBeside { shown, reason })
}

fn is_never(name: &[u8]) -> bool {
    NEVER.iter().any(|never| name == never.as_bytes())
        || name.starts_with(temp_file::PREFIX.as_bytes())
}

/// The stat of `name`; nothing when it is a folder.
fn look_at(folder: &Folder, name: &CStr, kind: FileType) -> io::Result<Option<Stat>> {
    if kind == FileType::Directory {
        return Ok(None);
    }
    let stat = Stat::from(&folder.stat(name)?);
    Ok((stat.kind() != EntryKind::Folder).then_some(stat))
}

/// The files of a folder as they are found, beside those that are known there.
#[derive(Default)]
struct BaselineFiles<'k> {
    known: &'k [BaselineFile<'k>],
    /// The number of files of the baseline that were passed.
    passed: usize,
    /// Stats and fates of the files that are not left out, in order.
    seen: Vec<(FoundName<'k>, Option<Stat>, FileFate)>,
    gone: Vec<String>,
    skipped: Vec<SkippedFile>,
    same_files: u64,
    same_bytes: u64,
    differing: u64,
}

/// A name that is known, or a new one.
enum FoundName<'k> {
    Baseline(&'k str),
    New(String),
}

impl<'k> BaselineFiles<'k> {
    /// Returns the file `name` of the baseline. Names come in order; files that were passed over
    /// are deleted ones.
    fn known_as(&mut self, name: &[u8]) -> Option<BaselineFile<'k>> {
        while let Some(known) = self.known.get(self.passed) {
            match known.name.as_bytes().cmp(name) {
                std::cmp::Ordering::Less => self.gone.push(known.name.to_owned()),
                std::cmp::Ordering::Equal => {
                    self.passed += 1;
                    return Some(*known);
                }
                std::cmp::Ordering::Greater => return None,
            }
            self.passed += 1;
        }
        None
    }

    fn leave_out(&mut self, before: Option<BaselineFile<'k>>) {
        self.gone.extend(before.map(|known| known.name.to_owned()));
    }

    fn add(
        &mut self,
        prefix: &str,
        name: &str,
        stat: Stat,
        before: Option<BaselineFile<'k>>,
        walk: &FolderWalk<'_>,
    ) {
        if let Some(reason) = walk.refusal(&stat) {
            self.keep(before);
            self.skipped
                .push(SkippedFile { path: PathBuf::from(format!("{prefix}{name}")), reason });
            return;
        }
        match before {
            Some(known) if known.stat == Some(stat) => {
                self.same_files += 1;
                self.same_bytes += stat.size;
                self.seen.push((FoundName::Baseline(known.name), Some(stat), FileFate::Keep));
            }
            before => {
                self.differing += 1;
                let name = before.map_or_else(
                    || FoundName::New(name.to_owned()),
                    |k| FoundName::Baseline(k.name),
                );
                self.seen.push((name, Some(stat), FileFate::Read));
            }
        }
    }

    /// Skips a name, and keeps what is known under it.
    fn skip(&mut self, prefix: &str, name: &[u8], reason: String) {
        let before = self.known_as(name);
        self.keep(before);
        let path = Path::new(prefix).join(OsStr::from_bytes(name));
        self.skipped.push(SkippedFile { path, reason });
    }

    fn keep(&mut self, before: Option<BaselineFile<'k>>) {
        if let Some(known) = before {
            self.seen.push((FoundName::Baseline(known.name), None, FileFate::Keep));
        }
    }

    /// The remaining files of the baseline are deleted ones.
    fn end(&mut self) {
        let rest = self.known.get(self.passed..).unwrap_or_default();
        self.gone.extend(rest.iter().map(|known| known.name.to_owned()));
        self.passed = self.known.len();
    }

    /// Returns whether every file has its stat of the baseline, and none is missing.
    fn is_as_known(&self) -> bool {
        self.same_files == self.known.len() as u64 && self.seen.len() == self.known.len()
    }

    fn seen(&mut self) -> Vec<SeenFile> {
        let name = |name| match name {
            FoundName::Baseline(name) => name.to_owned(),
            FoundName::New(name) => name,
        };
        let seen = std::mem::take(&mut self.seen).into_iter();
        seen.map(|(found, stat, fate)| SeenFile { name: name(found), stat, fate }).collect()
    }
}

/// Why a file is left out that has more bytes than `limit`.
pub(in crate::workspace) fn too_large(limit: u64) -> String {
    format!("it has more bytes than the limit of {limit}")
}
