//! A context laid out as files: first a plan that names every file, then the writing.
//!
//! ```text
//! agents/<name>/messages.jsonl     the conversation, one record a line
//! agents/<name>/system-prompt      a section that is one blob
//! agents/<name>/state/<key>        a map: one file a key
//! scratchpad/<key>  memory/<key>   likewise
//! reasoning/000000                 a list: one file an item
//! files/<path>                     the workspace
//! source                           the transcript, byte for byte
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::layout::{entry_path, section_path};
use crate::context::{Context, FileEntry, FileMode, Section, Shape, text_key};
use crate::error::{Error, Result};
use crate::exchange::{export_messages, export_source};
use crate::object::{Kind, ObjectId, ObjectSource};
use crate::tree::{List, Map};

/// What restoring would do, file by file, in order of paths.
#[derive(Debug, Clone)]
pub struct RestorePlan {
    /// The directory.
    pub target: PathBuf,
    /// Every file of the context.
    pub files: Vec<PlannedFile>,
    context: Context,
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Path below the directory.
    pub path: PathBuf,
    /// What would be done.
    pub action: Action,
    /// What the file is.
    pub mode: FileMode,
    content: Content,
}

/// What would be done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is not there and would be written.
    Create,
    /// Something else is there: it would be overwritten, which must be allowed.
    Overwrite,
    /// It is there just so.
    Keep,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files written.
    pub written: u64,
    /// Files that were there just so.
    pub kept: u64,
    /// Bytes written.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Blob(ObjectId),
    Messages(String),
    Source,
}

/// Plans to lay out `context` in `target`, which need not exist. `only` limits it to sections and
/// paths that begin so (`files`, `agents/main`, `files/src`); empty means everything.
///
/// Reads every file that would be overwritten; writes nothing.
///
/// # Errors
/// `NotFound` when nothing is under `only`; `InvalidInput` when two entries would be one file, or a
/// path leads through a link or a file.
pub fn plan(
    source: &dyn ObjectSource,
    context: &Context,
    target: &Path,
    only: &[String],
) -> Result<RestorePlan> {
    let mut wanted = BTreeMap::new();
    for (name, section) in context.sections(source)? {
        if selects_below(only, &name) {
            add_section(source, &name, &section, only, &mut wanted)?;
        }
    }
    if wanted.is_empty() && !only.is_empty() {
        let only = only.join(", ");
        return Err(Error::not_found(format!("nothing in this snapshot is under {only}")));
    }
    refuse_clashes(wanted.keys())?;
    let mut files = Vec::with_capacity(wanted.len());
    for (path, (mode, content)) in wanted {
        let mut file = PlannedFile { path, action: Action::Create, mode, content };
        file.action = file.look(source, context, target)?;
        files.push(file);
    }
    Ok(RestorePlan { target: target.to_owned(), files, context: context.clone() })
}

impl RestorePlan {
    /// Does it. Each file is written under a temporary name and renamed, so that a file is there
    /// whole or not at all.
    ///
    /// # Errors
    /// `InvalidInput` when files would be overwritten and `overwrite` is false: nothing is written
    /// then. `Io`, naming the path, when a file cannot be written.
    pub fn apply(&self, source: &dyn ObjectSource, overwrite: bool) -> Result<Restored> {
        let in_the_way: Vec<String> = self
            .files
            .iter()
            .filter(|file| file.action == Action::Overwrite)
            .map(|file| file.path.display().to_string())
            .collect();
        if let (Some(first), false) = (in_the_way.first(), overwrite) {
            let count = in_the_way.len();
            return Err(Error::invalid(format!(
                "{}: {count} files differ from the snapshot, the first is {first}: nothing was written",
                self.target.display()
            )));
        }
        let mut restored = Restored::default();
        for file in &self.files {
            if file.action == Action::Keep {
                restored.kept += 1;
                continue;
            }
            restored.bytes += file.write(source, &self.context, &self.target)?;
            restored.written += 1;
        }
        Ok(restored)
    }
}

impl PlannedFile {
    /// What is there now, and so what would be done.
    fn look(&self, source: &dyn ObjectSource, context: &Context, target: &Path) -> Result<Action> {
        refuse_detours(target, &self.path)?;
        let path = target.join(&self.path);
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Action::Create),
            Err(error) => return Err(Error::io(format!("look at {}", path.display()), error)),
        };
        if found.is_dir() {
            return Err(Error::invalid(format!("{} is a directory, not a file", path.display())));
        }
        let same = match (self.mode, found.is_symlink()) {
            (FileMode::Symlink, true) => {
                let link = fs::read_link(&path)
                    .map_err(|error| Error::io(format!("read {}", path.display()), error))?;
                link.as_os_str().as_encoded_bytes() == self.bytes(source)?
            }
            (FileMode::Symlink, false) | (_, true) => false,
            (FileMode::Regular | FileMode::Executable, false) => {
                let file = fs::File::open(&path)
                    .map_err(|error| Error::io(format!("open {}", path.display()), error))?;
                let mut comparing = Comparing { file: io::BufReader::new(file), same: true };
                self.write_content(source, context, &mut comparing)?;
                comparing.ends_here()?
            }
        };
        Ok(if same { Action::Keep } else { Action::Overwrite })
    }

    fn write(&self, source: &dyn ObjectSource, context: &Context, target: &Path) -> Result<u64> {
        refuse_detours(target, &self.path)?;
        let path = target.join(&self.path);
        let failed = |error| Error::io(format!("write {}", path.display()), error);
        let folder = path.parent().unwrap_or(target);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".turntree-part");
        let part = folder.join(name);
        // A restore that was killed may have left one.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let written = match self.mode {
            FileMode::Symlink => self.write_link(source, &part),
            FileMode::Regular | FileMode::Executable => self.write_file(source, context, &part),
        };
        let renamed = written.and_then(|bytes| {
            fs::rename(&part, &path).map_err(failed)?;
            Ok(bytes)
        });
        if renamed.is_err() {
            // The first error is the one to report; what is left is named so that it can be found.
            let _ = fs::remove_file(&part);
        }
        renamed
    }

    fn write_file(&self, source: &dyn ObjectSource, context: &Context, part: &Path) -> Result<u64> {
        let failed = |error| Error::io(format!("write {}", part.display()), error);
        let file =
            fs::OpenOptions::new().write(true).create_new(true).open(part).map_err(failed)?;
        let mut out = BufWriter::new(&file);
        let bytes = self.write_content(source, context, &mut out)?;
        out.flush().map_err(failed)?;
        drop(out);
        make_executable(&file, self.mode).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        Ok(bytes)
    }

    fn write_link(&self, source: &dyn ObjectSource, part: &Path) -> Result<u64> {
        let target = self.bytes(source)?;
        make_link(&target, part)
            .map_err(|error| Error::io(format!("link {}", part.display()), error))?;
        Ok(target.len() as u64)
    }

    fn write_content(
        &self,
        source: &dyn ObjectSource,
        context: &Context,
        out: &mut dyn Write,
    ) -> Result<u64> {
        let mut counted = Counting { out, bytes: 0 };
        match &self.content {
            Content::Blob(_) => counted
                .write_all(&self.bytes(source)?)
                .map_err(|error| Error::io(format!("write {}", self.path.display()), error))?,
            Content::Messages(agent) => {
                export_messages(source, context, agent, &mut counted)?;
            }
            Content::Source => {
                export_source(source, context, &mut counted)?;
            }
        }
        Ok(counted.bytes)
    }

    fn bytes(&self, source: &dyn ObjectSource) -> Result<Bytes> {
        match &self.content {
            Content::Blob(id) => source.read_as(Kind::Blob, id),
            Content::Messages(_) | Content::Source => Ok(Bytes::new()),
        }
    }
}

type Wanted = BTreeMap<PathBuf, (FileMode, Content)>;

fn add_section(
    source: &dyn ObjectSource,
    name: &str,
    section: &Section,
    only: &[String],
    wanted: &mut Wanted,
) -> Result<()> {
    let agent = name.strip_prefix("agents/").and_then(|rest| rest.strip_suffix("/messages"));
    if let Some(agent) = agent {
        let content = Content::Messages(agent.to_owned());
        let path = section_path(name)?.with_extension("jsonl");
        return add(wanted, path, FileMode::Regular, content);
    }
    match section.shape {
        _ if name == "source" => {
            add(wanted, PathBuf::from(name), FileMode::Regular, Content::Source)
        }
        Shape::Blob => {
            add(wanted, section_path(name)?, FileMode::Regular, Content::Blob(section.id))
        }
        Shape::List => {
            let list = List::open(source, &section.id)?;
            for (index, item) in (0_u64..).zip(list.iter(source, 0..list.len())) {
                let path = entry_path(name, &format!("{index:06}"))?;
                add(wanted, path, FileMode::Regular, Content::Blob(item?.link.id))?;
            }
            Ok(())
        }
        Shape::Map => {
            for entry in Map::open(source, &section.id)?.iter(source) {
                let (key, item) = entry?;
                let key = text_key(&key)?;
                if !selects(only, name, &key) {
                    continue;
                }
                let mode = match name {
                    "files" => FileEntry::from_item(&item)?.mode,
                    _ => FileMode::Regular,
                };
                add(wanted, entry_path(name, &key)?, mode, Content::Blob(item.link.id))?;
            }
            Ok(())
        }
    }
}

fn add(wanted: &mut Wanted, path: PathBuf, mode: FileMode, content: Content) -> Result<()> {
    if wanted.contains_key(&path) {
        return Err(Error::invalid(format!("two entries would be the file {}", path.display())));
    }
    wanted.insert(path, (mode, content));
    Ok(())
}

/// Whether anything in `section` may be wanted.
fn selects_below(only: &[String], section: &str) -> bool {
    let related = |path: &String| {
        let path = path.trim_end_matches('/');
        is_under(section, path) || is_under(path, section)
    };
    only.is_empty() || only.iter().any(related)
}

/// Whether the entry `key` of `section` is wanted.
fn selects(only: &[String], section: &str, key: &str) -> bool {
    let full = format!("{section}/{key}");
    only.is_empty() || only.iter().any(|path| is_under(&full, path.trim_end_matches('/')))
}

fn is_under(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Refuses files that would also have to be folders, and names that some file systems cannot tell
/// apart.
fn refuse_clashes<'p>(paths: impl Iterator<Item = &'p PathBuf> + Clone) -> Result<()> {
    let mut folded: BTreeMap<String, &PathBuf> = BTreeMap::new();
    for path in paths.clone() {
        let key = path.to_string_lossy().to_lowercase();
        if let Some(other) = folded.insert(key, path) {
            return Err(clash(other, path));
        }
    }
    for path in paths {
        for folder in path.ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
            if let Some(file) = folded.get(&folder.to_string_lossy().to_lowercase()) {
                return Err(clash(file, path));
            }
        }
    }
    Ok(())
}

fn clash(a: &Path, b: &Path) -> Error {
    let (a, b) = (a.display(), b.display());
    Error::invalid(format!(
        "{a} and {b} cannot both be files here: restore one of them with --only"
    ))
}

/// Refuses a path that leads through anything but real directories.
fn refuse_detours(target: &Path, path: &Path) -> Result<()> {
    let mut folder = target.to_owned();
    let parents = path.parent().into_iter().flat_map(Path::components);
    for component in std::iter::once(None).chain(parents.map(Some)) {
        folder.extend(component);
        match fs::symlink_metadata(&folder) {
            // The directory itself may be named through a link: that was the user's choice.
            Ok(found) if found.is_dir() || (component.is_none() && folder.is_dir()) => {}
            Ok(_) => {
                let folder = folder.display();
                return Err(Error::invalid(format!(
                    "{folder} is not a directory: nothing is written through it"
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io(format!("look at {}", folder.display()), error)),
        }
    }
    Ok(())
}

/// Counts what passes through.
struct Counting<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Compares what is written with a file, without holding either in memory.
struct Comparing<R> {
    file: R,
    same: bool,
}

impl<R: Read> Comparing<R> {
    fn ends_here(mut self) -> Result<bool> {
        let mut byte = [0];
        let read = self.file.read(&mut byte).map_err(|error| Error::io("compare", error))?;
        Ok(self.same && read == 0)
    }
}

impl<R: Read> Write for Comparing<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.same {
            let mut found = vec![0; bytes.len()];
            self.same = match self.file.read_exact(&mut found) {
                Ok(()) => found == bytes,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                Err(error) => return Err(error),
            };
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn make_executable(file: &fs::File, mode: FileMode) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if mode == FileMode::Executable {
        let mut permissions = file.metadata()?.permissions();
        permissions.set_mode(permissions.mode() | 0o111);
        file.set_permissions(permissions)?;
    }
    Ok(())
}

#[cfg(unix)]
fn make_link(target: &[u8], link: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(target), link)
}
