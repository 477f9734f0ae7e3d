//! Originals: transcripts of agents that the store has byte for byte, and their removal.
//!
//! A file that an agent still writes to is left alone. Every check is repeated right before a file
//! is removed. By then the file has another name: an agent that writes concurrently makes a new
//! file.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::export_source;
use turntree::object::{Kind, ObjectId};
use turntree::platform::{FileFacts, Folder, is_link_refusal};
use turntree::repo::{BranchName, Repository};
use turntree::store::RefTable;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{FoundSession, has_own_file};

use crate::porcelain::transfer::transcript_sources::is_open_for_writing;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 16;

/// Most branches of a session that are compared with its file.
const MAX_BRANCHES: usize = 16;

/// Prefix of the name of a file during its removal; 16 hex digits and the number of this process
/// follow.
const ASIDE: &str = ".turntree-reclaim-";

/// Hex digits of such a name.
const DIGITS: usize = 16;

/// The sessions of a store, to find the stored content of a file.
pub(super) struct Stored<'r> {
    repo: &'r Repository,
    seen: AdoptionCache,
    refs: Arc<RefTable>,
    /// The branches of each session, with their tips.
    branches: HashMap<String, Vec<(BranchName, ObjectId)>>,
}

/// A transcript that the store has byte for byte.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) found: FoundSession,
    /// The branch with its content.
    pub(super) branch: BranchName,
    /// Its commit with the bytes.
    tip: ObjectId,
    state: FileState,
}

/// Why a transcript stays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    /// An agent is in the session.
    Live,
    /// It was written to a short time ago.
    Recent,
    /// A process has it open for writing.
    Open,
    /// It is in a database, or in many files.
    Shared,
    /// The file is compressed, and the store has it uncompressed.
    Packed,
    /// It is no file of its own, for example a link.
    NoFile,
    /// It has another hard link.
    Linked,
    /// The store has no branch of the session.
    Unknown,
    /// The store has not each byte of it.
    Different,
    /// It changed since it was checked.
    Changed,
    /// The system refused.
    Failed(String),
}

/// Identifies a file and its last write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    identity: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
}

impl Obstacle {
    /// Returns the reason as text, for one file or several.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Live => "an agent is in the session".to_owned(),
            Self::Recent => "written to lately".to_owned(),
            Self::Open => "a process has it open for writing".to_owned(),
            Self::Shared => "in a database, or in many files".to_owned(),
            Self::Packed => "compressed".to_owned(),
            Self::NoFile => "no file of its own".to_owned(),
            Self::Linked => "has a further name".to_owned(),
            Self::Unknown => "not in the store".to_owned(),
            Self::Different => "not byte for byte in the store".to_owned(),
            Self::Changed => "changed meanwhile".to_owned(),
            Self::Failed(error) => error.clone(),
        }
    }
}

impl FileState {
    fn of(file: &File) -> io::Result<Self> {
        let FileFacts { identity, bytes, modified, .. } = FileFacts::of(file)?;
        Ok(Self { identity, bytes, modified })
    }
}

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Changed,
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl<'r> Stored<'r> {
    pub(super) fn new(repo: &'r Repository) -> Self {
        let mut branches: HashMap<String, Vec<(BranchName, ObjectId)>> = HashMap::new();
        for (branch, tip) in repo.branches() {
            branches.entry(branch.session().to_owned()).or_default().push((branch, tip));
        }
        Self { repo, seen: AdoptionCache::peek(repo), refs: repo.refs(), branches }
    }

    /// Looks whether the store has all of a session's file. Reads both.
    pub(super) fn original(&self, found: &FoundSession) -> Result<Original, Obstacle> {
        let state = FileState::of(&candidate(found)?)?;
        let known = self.seen.unchanged(&self.refs, &found.path, None);
        let mut tips = self.branches.get(&found.session).cloned().unwrap_or_default();
        // The most likely branch comes first.
        tips.sort_by_key(|(branch, _)| branch.branch() != "main");
        if let Some((branch, tip)) = known.and_then(|it| self.repo.tip(&it).map(|tip| (it, tip))) {
            tips.insert(0, (branch, tip));
        }
        if tips.is_empty() {
            return Err(Obstacle::Unknown);
        }
        for (branch, tip) in tips.into_iter().take(MAX_BRANCHES) {
            let (_, file) = open(&found.path)?;
            if is_same(self.repo, &tip, &file)? {
                if FileState::of(&file)? != state {
                    return Err(Obstacle::Changed);
                }
                return Ok(Original { found: found.clone(), branch, tip, state });
            }
        }
        Err(Obstacle::Different)
    }

    /// Checks a session that was imported a moment ago, by the adoption cache: reads nothing, since
    /// the whole file is compared before its removal. A file that was written to since it was found
    /// stays.
    pub(super) fn adopted(&self, found: &FoundSession) -> Result<Original, Obstacle> {
        let file = candidate(found)?;
        if file.metadata()?.modified()? != found.modified {
            return Err(Obstacle::Changed);
        }
        let known = self.seen.unchanged(&self.refs, &found.path, None);
        match known.and_then(|branch| self.repo.tip(&branch).map(|tip| (branch, tip))) {
            Some((branch, tip)) => {
                Ok(Original { found: found.clone(), branch, tip, state: FileState::of(&file)? })
            }
            None => self.original(found),
        }
    }
}

/// Opens a session's file, if it may be removed.
pub(super) fn candidate(found: &FoundSession) -> Result<File, Obstacle> {
    if !has_own_file(found) {
        return Err(Obstacle::Shared);
    }
    if found.path.extension().is_some_and(|end| end == "zst") {
        return Err(Obstacle::Packed);
    }
    let (_, file) = open(&found.path)?;
    check(&file)?;
    Ok(file)
}

impl Original {
    /// Removes the file, if all is still as it was; `written` are the files that were open for writing
    /// a moment ago.
    pub(super) fn remove(
        &self,
        repo: &Repository,
        written: &HashSet<(u64, u64)>,
    ) -> Result<(), Obstacle> {
        let (folder, file) = open(&self.found.path)?;
        check(&file)?;
        if FileState::of(&file)? != self.state {
            return Err(Obstacle::Changed);
        }
        if written.contains(&self.state.identity) {
            return Err(Obstacle::Open);
        }
        if !is_same(repo, &self.tip, &file)? {
            return Err(Obstacle::Different);
        }
        let name = self.found.path.file_name().unwrap_or_default();
        let aside = aside(&self.found.path);
        folder.publish(name, &aside)?;
        let is_it =
            is_named(&folder, &aside, &self.state) && !is_open_for_writing(self.state.identity);
        if !is_it {
            return Err(match folder.publish(&aside, name) {
                Ok(()) => Obstacle::Changed,
                // Another process has created a new file of its name.
                Err(error) => {
                    let aside = aside.display();
                    Obstacle::Failed(format!("changed meanwhile, and now called {aside}: {error}"))
                }
            });
        }
        folder.remove(&aside)?;
        // A file that reappears after a crash is no loss.
        let _ = folder.sync();
        Ok(())
    }
}

/// Opens a file and its folder; a link is refused.
fn open(path: &Path) -> Result<(Folder, File), Obstacle> {
    let (parent, name) = (path.parent(), path.file_name());
    let (Some(parent), Some(name)) = (parent, name) else { return Err(Obstacle::NoFile) };
    let folder = Folder::open(parent)?;
    // It is not followed if it is a link, and a pipe does not wait for its other end.
    match folder.read(name) {
        Ok(file) => Ok((folder, file)),
        Err(error) if is_link_refusal(&error) => Err(Obstacle::NoFile),
        Err(error) => Err(error.into()),
    }
}

/// Checks that a file may be removed.
fn check(file: &File) -> Result<(), Obstacle> {
    match (file.metadata()?.is_file(), FileFacts::of(file)?.links) {
        (true, 1) => Ok(()),
        (true, _) => Err(Obstacle::Linked),
        (false, _) => Err(Obstacle::NoFile),
    }
}

/// Returns whether a name in a folder still is that file.
fn is_named(folder: &Folder, name: &OsStr, state: &FileState) -> bool {
    let found = folder.read(name).and_then(|file| FileState::of(&file));
    found.is_ok_and(|found| found == *state)
}

fn aside(path: &Path) -> OsString {
    let id = ObjectId::of(Kind::Blob, path.as_os_str().as_encoded_bytes());
    format!("{ASIDE}{}-{}", id.short(DIGITS), std::process::id()).into()
}

/// Returns whether the source of a commit is the file, each byte of both.
fn is_same(repo: &Repository, tip: &ObjectId, file: &File) -> Result<bool, Obstacle> {
    let input = BufReader::with_capacity(READ_BYTES, file);
    let mut comparison = Comparison { input, differs: false };
    let exported = repo
        .context(tip)
        .and_then(|context| export_source(repo, &context, &mut comparison).map(drop));
    match exported {
        Ok(()) => Ok(comparison.input.read(&mut [0])? == 0),
        Err(_) if comparison.differs => Ok(false),
        Err(error) => match error.kind() {
            // The snapshot was not imported from a file, or some of its content was elided or
            // redacted.
            ErrorKind::NotFound | ErrorKind::Expired | ErrorKind::Redacted => Ok(false),
            _ => Err(Obstacle::Failed(error.to_string())),
        },
    }
}

/// Accepts bytes as long as they are equal to those of a file.
struct Comparison<R> {
    input: R,
    differs: bool,
}

impl<R: Read> Write for Comparison<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut there = vec![0; bytes.len().min(READ_BYTES)];
        let wanted = bytes.get(..there.len()).unwrap_or_default();
        match self.input.read_exact(&mut there) {
            Ok(()) if there == wanted => Ok(there.len()),
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => {
                self.differs = true;
                Err(io::Error::other("the file has been replaced"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, FileTimes, OpenOptions};
    use std::path::PathBuf;

    use turntree::local::create_repository;
    use turntree_exchange::agents::{AdoptOptions, SessionPlace, adopt, find};

    use super::*;
    use crate::porcelain::transfer::transcript_sources::all_open_for_writing;
    use crate::program::invocation::stamp;

    const TRANSCRIPT: &str = concat!(
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"hello"}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"good day"}]}}"#,
        "\n",
    );

    /// A machine with one transcript, which was adopted.
    struct Machine {
        folder: tempfile::TempDir,
        repo: Repository,
        found: FoundSession,
    }

    impl Machine {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("sessions/s.jsonl");
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(&path, TRANSCRIPT).unwrap();
            let repo = create_repository(&folder.path().join("store")).unwrap();
            let place = SessionPlace { agent: String::new(), path };
            let found = find(&[place]).sessions.remove(0);
            let adoption = Arc::default();
            let stamp = stamp().unwrap();
            let options =
                AdoptOptions { stamp, adoption, is_live: false, head: None, passed: &|_| {} };
            let mut seen = AdoptionCache::open(&repo);
            adopt(&repo, vec![found.clone()], &options, &mut seen).unwrap();
            Self { folder, repo, found }
        }

        fn look(&self) -> Result<Original, Obstacle> {
            Stored::new(&self.repo).original(&self.found)
        }

        /// Returns the names next to the transcript, and its own.
        fn names(&self) -> Vec<PathBuf> {
            let listed = fs::read_dir(self.folder.path().join("sessions")).unwrap();
            let mut names: Vec<_> = listed.map(|it| it.unwrap().file_name().into()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn one_that_the_store_has_goes_and_nothing_else() {
        let machine = Machine::new();
        let original = machine.look().unwrap();
        assert_eq!(original.branch.to_string(), "s/main");
        fs::write(machine.folder.path().join("sessions/other.jsonl"), TRANSCRIPT).unwrap();
        original.remove(&machine.repo, &HashSet::new()).unwrap();
        assert_eq!(machine.names(), [PathBuf::from("other.jsonl")]);
        assert_eq!(original.remove(&machine.repo, &HashSet::new()), Err(Obstacle::Changed));
    }

    #[test]
    fn one_that_is_another_than_in_the_store_does_not_go() {
        let machine = Machine::new();
        let longer = format!("{TRANSCRIPT}{{}}\n");
        let shorter = TRANSCRIPT.split_inclusive('\n').next().unwrap();
        for text in [&longer, shorter, &TRANSCRIPT.replace("good", "best"), ""] {
            fs::write(&machine.found.path, text).unwrap();
            assert_eq!(machine.look().unwrap_err(), Obstacle::Different, "{text}");
        }
        let unknown = FoundSession { session: "x".to_owned(), ..machine.found.clone() };
        let looked = Stored::new(&machine.repo).original(&unknown);
        assert_eq!(looked.unwrap_err(), Obstacle::Unknown);
        let of_database = FoundSession { entry: Some("x".to_owned()), ..unknown };
        let looked = Stored::new(&machine.repo).original(&of_database);
        assert_eq!(looked.unwrap_err(), Obstacle::Shared);
    }

    #[test]
    fn one_that_changes_after_the_plan_stays() {
        let after = |change: &dyn Fn(&Path), expected: Obstacle| {
            let machine = Machine::new();
            let (original, path) = (machine.look().unwrap(), &machine.found.path);
            change(path);
            let (names, bytes) = (machine.names(), fs::read(path).ok());
            assert_eq!(original.remove(&machine.repo, &HashSet::new()), Err(expected));
            assert_eq!((machine.names(), fs::read(path).ok()), (names, bytes));
        };
        let append = |path: &Path| {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(b"{}\n").unwrap();
        };
        after(&append, Obstacle::Changed);
        // A file of the same size and time.
        let other_words = |path: &Path| {
            let time = fs::metadata(path).unwrap().modified().unwrap();
            fs::write(path, TRANSCRIPT.replace("good", "best")).unwrap();
            let file = OpenOptions::new().append(true).open(path).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        };
        after(&other_words, Obstacle::Different);
        let another_file = |path: &Path| {
            let time = fs::metadata(path).unwrap().modified().unwrap();
            let part = path.with_extension("part");
            fs::write(&part, TRANSCRIPT).unwrap();
            let file = OpenOptions::new().append(true).open(&part).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
            fs::rename(part, path).unwrap();
        };
        after(&another_file, Obstacle::Changed);
        let link = |path: &Path| {
            let kept = path.with_extension("kept");
            fs::rename(path, &kept).unwrap();
            std::os::unix::fs::symlink(kept, path).unwrap();
        };
        after(&link, Obstacle::NoFile);
        let further_name = |path: &Path| fs::hard_link(path, path.with_extension("kept")).unwrap();
        after(&further_name, Obstacle::Linked);
        after(&|path: &Path| fs::remove_file(path).unwrap(), Obstacle::Changed);
        let folder = |path: &Path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        };
        after(&folder, Obstacle::NoFile);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_that_a_process_has_open_for_writing_stays() {
        let machine = Machine::new();
        let original = machine.look().unwrap();
        let names = machine.names();
        let writer = OpenOptions::new().append(true).open(&machine.found.path).unwrap();
        let written = all_open_for_writing();
        assert_eq!(original.remove(&machine.repo, &written), Err(Obstacle::Open));
        // One that begins in between.
        assert_eq!(original.remove(&machine.repo, &HashSet::new()), Err(Obstacle::Changed));
        assert_eq!(machine.names(), names);
        drop(writer);
        original.remove(&machine.repo, &HashSet::new()).unwrap();
    }

    #[test]
    fn one_of_which_the_store_has_lost_a_part_stays() {
        let machine = Machine::new();
        let original = machine.look().unwrap();
        let mut files = vec![machine.folder.path().join("store")];
        let mut damaged = 0;
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(fs::read_dir(path).unwrap().map(|it| it.unwrap().path()));
            } else if let Ok(bytes) = fs::read(&path)
                && let Some(at) = bytes.windows(8).position(|it| it == b"good day")
            {
                let mut bytes = bytes;
                bytes[at] ^= 1;
                fs::write(path, bytes).unwrap();
                damaged += 1;
            }
        }
        assert!(damaged > 0);
        let repo = turntree::local::open_repository(&machine.folder.path().join("store"));
        let refused = repo.map(|repo| original.remove(&repo, &HashSet::new()));
        let is_refused =
            matches!(refused, Err(_) | Ok(Err(Obstacle::Different | Obstacle::Failed(_))));
        assert!(is_refused, "{refused:?}");
        assert!(machine.found.path.exists());
    }
}
