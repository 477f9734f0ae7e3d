//! Examines every file of a directory on all processors: only its name and its stat.
//!
//! A folder is opened below the handle of its parent, so no link is followed even if other
//! processes change the directory. Files are compared with the baseline as they are found, so an
//! unchanged folder adds only two numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::Scope;

use super::baseline::{Baseline, BaselineFile};
use super::options::{CaptureOptions, CaptureProgress};
use super::report::{IGNORED, NOT_A_FILE, NOT_UTF8, SkippedFile, TOO_LONG, UnchangedPath};
use super::rule_scope::{IgnoredFolder, RuleScope};
use super::rules::{GIT_RULES, MAX_RULES_BYTES, OWN_RULES, RuleTexts, Rules, TrackedPart, Verdict};
use super::sides::Side;
use crate::object::ObjectId;
use crate::platform::name_of_bytes;
use crate::tree::MAX_KEY_BYTES;
use crate::workspace::disk::folder::{EntryKind, Folder};
use crate::workspace::disk::stat::Stat;
use crate::workspace::disk::target::OF_A_STORE;
use crate::workspace::disk::temp_file;
use crate::workspace::git::{DOT_GIT, Repositories};

/// Names that are never captured.
const NEVER: [&str; 2] = [DOT_GIT, ".turntree"];

/// Maximum number of folders held open for their subfolders. Others are reopened from the top.
const MAX_OPEN: usize = 256;

/// Represents unknown rules in a table.
pub(in crate::workspace) const UNKNOWN_RULES: ObjectId = ObjectId::from_bytes([0; 32]);

pub(in crate::workspace) const TIME_IS_UP: &str = "the time budget ran out before it was examined";

/// The files of a directory that differ from the baseline.
#[derive(Debug, Default)]
pub(in crate::workspace) struct ScanResult {
    /// By prefix: empty, or with a trailing slash.
    pub(in crate::workspace) folders: BTreeMap<String, ScannedFolder>,
    /// Prefixes of folders that were not entered. Known files below them stay.
    pub(in crate::workspace) closed: Vec<String>,
    pub(in crate::workspace) skipped: Vec<SkippedFile>,
    /// Number of unchanged files, and their bytes.
    pub(in crate::workspace) same_files: u64,
    pub(in crate::workspace) same_bytes: u64,
    /// True if the deadline passed.
    pub(in crate::workspace) unfinished: bool,
    /// Paths that a side ignores or did not capture.
    pub(in crate::workspace) beside: BTreeMap<PathBuf, UnchangedPath>,
    /// Problems with files of git.
    pub(in crate::workspace) warnings: Vec<String>,
}

/// The input of a scan.
#[derive(Debug, Clone, Copy)]
pub(in crate::workspace) struct ScanInput<'a> {
    pub(in crate::workspace) dir: &'a Path,
    /// The same directory, open.
    pub(in crate::workspace) root: &'a Folder,
    pub(in crate::workspace) known: &'a Baseline<'a>,
    pub(in crate::workspace) options: &'a CaptureOptions<'a>,
    /// States whose rules also apply.
    pub(in crate::workspace) sides: &'a [Side],
}

/// A folder that was examined.
#[derive(Debug)]
pub(in crate::workspace) struct ScannedFolder {
    pub(in crate::workspace) rules: ObjectId,
    /// The files, by name; `None` if they equal those of the table.
    pub(in crate::workspace) files: Option<Vec<ScannedFile>>,
    /// Names of deleted files.
    pub(in crate::workspace) gone: Vec<String>,
}

/// A file that was found, or a known one that could not be examined.
#[derive(Debug)]
pub(in crate::workspace) struct ScannedFile {
    pub(in crate::workspace) name: String,
    pub(in crate::workspace) stat: Option<Stat>,
    pub(in crate::workspace) fate: FileFate,
}

/// The decision about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum FileFate {
    /// The last known content stays.
    Keep,
    /// The file is read: it is new, changed, or of unknown state.
    Read,
    /// The file is not in the section.
    Drop,
}

/// A folder to examine.
struct FolderTask {
    /// The path, empty or with a trailing slash.
    prefix: String,
    /// The open parent folder, if it is still held.
    parent: Option<Arc<OpenFolderNames>>,
    /// The scope of the directory's rules, inherited from the parent.
    disk: RuleScope,
    /// The scope of each side's rules.
    sides: Vec<RuleScope>,
    /// The ancestors of the folder.
    above: Arc<ParentFolders>,
}

/// A folder and its ancestors, to detect mounts that create a cycle.
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
struct OpenFolderNames {
    folder: Folder,
    open: Arc<AtomicUsize>,
}

impl Drop for OpenFolderNames {
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

/// Examines everything in the directory that no rule ignores.
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
    // No folder has this identity: inode 0 does not exist.
    let above = Arc::new(ParentFolders { identity: (0, 0), above: None });
    let disk = RuleScope { rules: Rules::around(dir, &walk.repositories), ignored: None };
    let top = |side: &Side| {
        let ignored = IgnoredFolder { verdict: Verdict::IgnoredByOwn, folder: "".into() };
        let ignored = side.has_skipped("").then_some(ignored);
        RuleScope { rules: Arc::clone(&disk.rules), ignored }
    };
    let sides = sides.iter().map(top).collect();
    let top = FolderTask { prefix: String::new(), parent: None, disk, sides, above };
    rayon::scope(|scope| walk.scan_folder(scope, top));
    let mut found = walk.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.unfinished = walk.is_over.into_inner();
    found.warnings = walk.repositories.into_warnings();
    found
}

impl<'a> FolderWalk<'a> {
    fn scan_folder<'s>(&'s self, scope: &Scope<'s>, task: FolderTask) {
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
            Ok((_, identity, names)) if self.is_excluded(identity, &names) => {}
            Ok((_, identity, _)) if task.above.holds(identity) => {
                self.close(task.prefix, "it points to one of its parent folders".to_owned());
            }
            Ok((folder, identity, names)) => match self.texts_of(&task, &folder, &names) {
                Ok(texts) => {
                    let above = ParentFolders { identity, above: Some(Arc::clone(&task.above)) };
                    let inside = FolderScan::new(self, task, &texts, Arc::new(above));
                    inside.look(scope, folder, names);
                }
                Err(reason) => self.close(task.prefix, reason),
            },
            // Deleted since it was listed.
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

    fn is_excluded(&self, identity: (u64, u64), names: &[(CString, bool)]) -> bool {
        let has = |wanted: &str| names.iter().any(|(name, _)| name.as_bytes() == wanted.as_bytes());
        self.never.contains(&identity) || OF_A_STORE.iter().all(|name| has(name))
    }

    /// Returns the rules in a folder. An unreadable rule file is an error, so that nothing is
    /// captured on a guess.
    fn texts_of(
        &self,
        task: &FolderTask,
        folder: &Folder,
        names: &[(CString, bool)],
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

    /// Returns true if the baseline has a file below the folder, which ends with a slash.
    fn has_known_below(&self, folder: &str) -> bool {
        let folders = self.known_folders.get_or_init(|| self.known.folders());
        folders.range(folder..).next().is_some_and(|known| known.starts_with(folder))
    }

    /// Returns the reason why a file cannot be captured, whatever the rules.
    fn refusal(&self, stat: &Stat) -> Option<String> {
        let limit = self.options.max_file_bytes;
        match stat.file_mode() {
            None => Some(NOT_A_FILE.to_owned()),
            Some(_) if stat.size > limit => Some(too_large(limit)),
            Some(_) => None,
        }
    }

    /// Skips a folder and keeps its last known files.
    fn close(&self, prefix: String, reason: String) {
        let path = PathBuf::from(prefix.trim_end_matches('/'));
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.skipped.push(SkippedFile { path, reason });
        found.closed.push(prefix);
    }
}

/// Reads a rule file; empty if it is not a regular file.
fn read_rules(folder: &Folder, name: &CStr) -> io::Result<Vec<u8>> {
    if Stat::from(&folder.stat(name)?).kind() != EntryKind::File {
        return Ok(Vec::new());
    }
    let mut text = Vec::new();
    let file = folder.read(&name_of_bytes(name.to_bytes()))?;
    file.take(MAX_RULES_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_RULES_BYTES {
        let message = format!("rules of more than {MAX_RULES_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(text)
}

/// A folder that is being examined.
struct FolderScan<'s, 'a> {
    walk: &'s FolderWalk<'a>,
    prefix: String,
    disk: RuleScope,
    sides: Vec<RuleScope>,
    above: Arc<ParentFolders>,
}

/// The decision about a name.
enum NameFate {
    /// It is captured; `by_index` if a rule ignores it but git tracks it.
    Take { by_index: bool },
    /// It is a folder to enter, with these scopes of rules.
    Enter { disk: RuleScope, sides: Vec<RuleScope> },
    /// It is ignored.
    Leave,
    /// It is ignored, possibly with the ignored `folder` that contains it, but a side would include
    /// it. So changes from that side must not treat it as new.
    LeaveUncovered { folder: Option<Arc<str>> },
    /// The rules of a side ignore it, or the `folder` that contains it.
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
        let below = |reach: &RuleScope, texts: &RuleTexts| RuleScope {
            rules: reach.rules.below(prefix.len(), texts),
            ignored: reach.ignored.clone(),
        };
        let of_side = |(reach, side): (&RuleScope, &Side)| {
            let (mut texts, found) = (texts.clone(), side.texts(&prefix));
            texts.git = found.map(|it| it.git.clone()).unwrap_or_default();
            texts.own = found.map(|it| it.own.clone()).unwrap_or_default();
            let mut here = below(reach, &texts);
            if found.is_some_and(|found| found.is_unreadable) && here.ignored.is_none() {
                let folder = prefix.trim_end_matches('/').into();
                here.ignored = Some(IgnoredFolder { verdict: Verdict::IgnoredByGit, folder });
            }
            here
        };
        let sides = sides.iter().zip(walk.sides).map(of_side).collect();
        let disk = below(&disk, texts);
        Self { walk, prefix, disk, sides, above }
    }

    fn look(self, scope: &Scope<'s>, folder: Folder, mut names: Vec<(CString, bool)>) {
        names.sort_unstable_by(|(before, _), (after, _)| before.cmp(after));
        let known = self.walk.known.folder(&self.prefix);
        let block = self.walk.known.block(&self.prefix);
        let mut digest = self.disk.rules.digest();
        // With the same rules, known files need no new verdict. The table records no rules for a
        // folder with a file captured only because git tracked it, since git may have untracked it.
        let is_judged = block.is_some_and(|(_, block)| block.rules == digest)
            && self.disk.ignored.is_none()
            && self.sides.iter().all(|reach| reach.has_same_verdicts(&self.disk))
            && self.walk.sides.iter().all(Side::skips_nothing);
        let mut files = BaselineFiles { known: &known, ..BaselineFiles::default() };
        let (mut folders, mut beside) = (Vec::new(), Vec::new());
        let mut path = self.prefix.clone().into_bytes();
        for (name, is_folder) in &names {
            let bytes = name.as_bytes();
            if is_never_captured(bytes) {
                continue;
            }
            let stat = match stat_of(&folder, name, *is_folder) {
                Ok(found) => found,
                // Deleted since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    files.skip(&self.prefix, bytes, error.to_string());
                    continue;
                }
            };
            let is_folder = stat.is_none();
            let before = if is_folder { None } else { files.take_baseline(bytes) };
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
                        files.exclude(before);
                        continue;
                    }
                    NameFate::LeaveUncovered { folder } => {
                        beside.push(unchanged_path(&path, folder.as_deref(), IGNORED));
                        files.exclude(before);
                        continue;
                    }
                    // The report names each file that the capture cannot read.
                    NameFate::LeaveBeside { .. }
                        if stat.is_some_and(|stat| self.walk.refusal(&stat).is_some()) => {}
                    NameFate::LeaveBeside { folder, reason } => {
                        beside.push(unchanged_path(&path, folder.as_deref(), reason));
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
        let is_same = (is_of_rules || known.is_empty()) && files.is_unchanged();
        self.report(files, digest, beside, is_same);
    }

    /// Decides about a path, by the rules of the directory and then by those of each side. A path
    /// that any of them ignores stays unchanged on disk. Only this function implements that rule.
    fn judge(&self, path: &[u8], is_folder: bool, is_known: bool) -> NameFate {
        let tracked = OnceLock::new();
        let tracks = |verdict| match verdict {
            Verdict::IgnoredByGit => *tracked.get_or_init(|| {
                self.disk.rules.tracked_part(path, is_folder, &self.walk.repositories)
            }),
            _ => TrackedPart::No,
        };
        let text = String::from_utf8_lossy(path);
        let mut verdict = self.disk.verdict(path, is_folder);
        let by_index = verdict != Verdict::Included;
        match (verdict, tracks(verdict)) {
            (Verdict::Included, _) | (_, TrackedPart::Below) => {}
            (_, TrackedPart::Itself) => verdict = Verdict::Included,
            (_, TrackedPart::No) => {
                let includes = |(reach, side): (&RuleScope, &Side)| {
                    let verdict = reach.verdict(path, is_folder);
                    let is_included =
                        verdict == Verdict::Included || tracks(verdict) != TrackedPart::No;
                    is_included && !reach.has_same_verdicts(&self.disk) && !side.has_skipped(&text)
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
            let mut verdict = match (side.has_skipped(&text), reach.has_same_verdicts(&self.disk)) {
                (true, _) => Verdict::IgnoredByOwn,
                (false, true) => verdict,
                (false, false) => reach.verdict(path, is_folder),
            };
            let folder = || format!("{text}/");
            let is_taken = match (verdict, tracks(verdict)) {
                (Verdict::Included, _) | (_, TrackedPart::Below) => true,
                (_, TrackedPart::Itself) => {
                    verdict = Verdict::Included;
                    true
                }
                (_, TrackedPart::No) if !is_folder => side.has_captured(&text, is_known),
                (_, TrackedPart::No) => {
                    side.has_new_file_below(&folder()) || self.walk.has_known_below(&folder())
                }
            };
            if !is_taken {
                let folder = reach.ignored.as_ref().map(|ignored| Arc::clone(&ignored.folder));
                return NameFate::LeaveBeside { folder, reason: side.reason };
            }
            if is_folder {
                sides.push(reach.subfolder_scope(&text, verdict));
            }
        }
        if !is_folder {
            return NameFate::Take { by_index };
        }
        NameFate::Enter { disk: self.disk.subfolder_scope(&text, verdict), sides }
    }

    fn spawn(
        &self,
        scope: &Scope<'s>,
        folder: Folder,
        folders: Vec<(String, (RuleScope, Vec<RuleScope>))>,
    ) {
        let walk = self.walk;
        let is_held = walk.open.fetch_add(1, Ordering::Relaxed) < MAX_OPEN;
        let held = OpenFolderNames { folder, open: Arc::clone(&walk.open) };
        let parent = if is_held { Some(Arc::new(held)) } else { None };
        for (prefix, (disk, sides)) in folders {
            let (parent, above) = (parent.clone(), Arc::clone(&self.above));
            let task = FolderTask { prefix, parent, disk, sides, above };
            scope.spawn(move |scope| walk.scan_folder(scope, task));
        }
    }

    fn report(
        self,
        mut files: BaselineFiles<'_>,
        rules: ObjectId,
        beside: Vec<(PathBuf, UnchangedPath)>,
        is_same: bool,
    ) {
        let mut found = self.walk.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.same_files += files.same_files;
        found.same_bytes += files.same_bytes;
        found.skipped.append(&mut files.skipped);
        found.beside.extend(beside);
        let files_here = if is_same { None } else { Some(files.take_files()) };
        found
            .folders
            .insert(self.prefix, ScannedFolder { rules, files: files_here, gone: files.gone });
    }
}

/// Returns a path that stays because of a rule, with the ignored folder that contains it, if any.
fn unchanged_path(
    path: &[u8],
    folder: Option<&str>,
    reason: &'static str,
) -> (PathBuf, UnchangedPath) {
    let whole = |path: &[u8]| PathBuf::from(&*name_of_bytes(path));
    let shown = whole(folder.map_or(path, str::as_bytes));
    (whole(path), UnchangedPath { shown, reason })
}

fn is_never_captured(name: &[u8]) -> bool {
    NEVER.iter().any(|never| name == never.as_bytes())
        || name.starts_with(temp_file::PREFIX.as_bytes())
}

/// Returns the stat of `name`; `None` if it is a folder.
fn stat_of(folder: &Folder, name: &CStr, is_folder: bool) -> io::Result<Option<Stat>> {
    if is_folder {
        return Ok(None);
    }
    let stat = Stat::from(&folder.stat(name)?);
    Ok((stat.kind() != EntryKind::Folder).then_some(stat))
}

/// The found files of a folder, compared with its known files.
#[derive(Default)]
struct BaselineFiles<'k> {
    known: &'k [BaselineFile<'k>],
    /// Number of files of the baseline that were passed.
    passed: usize,
    /// Stats and fates of the files that are not ignored, in order.
    seen: Vec<(FolderName<'k>, Option<Stat>, FileFate)>,
    gone: Vec<String>,
    skipped: Vec<SkippedFile>,
    same_files: u64,
    same_bytes: u64,
    differing: u64,
}

/// A known or a new name.
enum FolderName<'k> {
    Baseline(&'k str),
    New(String),
}

impl<'k> BaselineFiles<'k> {
    /// Returns the file `name` of the baseline. Names come in order; skipped files of the baseline
    /// were deleted.
    fn take_baseline(&mut self, name: &[u8]) -> Option<BaselineFile<'k>> {
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

    fn exclude(&mut self, before: Option<BaselineFile<'k>>) {
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
                self.seen.push((FolderName::Baseline(known.name), Some(stat), FileFate::Keep));
            }
            before => {
                self.differing += 1;
                let name = before.map_or_else(
                    || FolderName::New(name.to_owned()),
                    |k| FolderName::Baseline(k.name),
                );
                self.seen.push((name, Some(stat), FileFate::Read));
            }
        }
    }

    /// Skips a name, and keeps its last known file.
    fn skip(&mut self, prefix: &str, name: &[u8], reason: String) {
        let before = self.take_baseline(name);
        self.keep(before);
        let path = Path::new(prefix).join(name_of_bytes(name));
        self.skipped.push(SkippedFile { path, reason });
    }

    fn keep(&mut self, before: Option<BaselineFile<'k>>) {
        if let Some(known) = before {
            self.seen.push((FolderName::Baseline(known.name), None, FileFate::Keep));
        }
    }

    /// Marks the remaining files of the baseline as deleted.
    fn end(&mut self) {
        let rest = self.known.get(self.passed..).unwrap_or_default();
        self.gone.extend(rest.iter().map(|known| known.name.to_owned()));
        self.passed = self.known.len();
    }

    /// Returns true if every file has its baseline stat, and none is missing.
    fn is_unchanged(&self) -> bool {
        self.same_files == self.known.len() as u64 && self.seen.len() == self.known.len()
    }

    fn take_files(&mut self) -> Vec<ScannedFile> {
        let name = |name| match name {
            FolderName::Baseline(name) => name.to_owned(),
            FolderName::New(name) => name,
        };
        let seen = std::mem::take(&mut self.seen).into_iter();
        seen.map(|(found, stat, fate)| ScannedFile { name: name(found), stat, fate }).collect()
    }
}

/// Returns the reason for skipping a file larger than `limit`.
pub(in crate::workspace) fn too_large(limit: u64) -> String {
    format!("it is larger than the limit of {limit} bytes")
}
