//! The plan of a checkout: for each file of a context, its path and what applying would do.
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

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::context::sections::{FILES, SOURCE, conversation_agent, is_transcript_section};
use crate::context::{Context, FileEntry, FileMode, Section, Selection, Shape, text_key};
use crate::error::{Error, Result};
use crate::object::ObjectSource;
use crate::tree::{List, Map};
use crate::workspace::disk::content::Content;
use crate::workspace::disk::folder::{EntryKind, Folder, FolderEntry};
use crate::workspace::disk::layout::{entry_path, section_path};
use crate::workspace::disk::target::TargetDir;

/// The files of a checkout, ordered by path.
#[derive(Debug, Clone)]
pub struct FilesPlan {
    /// The directory.
    pub target: PathBuf,
    /// Every file of the context.
    pub files: Vec<PlannedFile>,
    pub(in crate::workspace) context: Context,
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// The path relative to the directory.
    pub path: PathBuf,
    /// The action on this file.
    pub action: FileAction,
    /// The mode and content to write.
    pub mode: FileMode,
    pub(in crate::workspace) content: Content,
    /// Bytes of the content, if known without reading it.
    pub(in crate::workspace) size: Option<u64>,
    /// The entry on disk now.
    pub(in crate::workspace) found: Option<FolderEntry>,
}

/// The action of a checkout on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAction {
    /// The file is missing and would be written.
    Create,
    /// Another file or a link exists and would be overwritten, which must be allowed.
    Overwrite,
    /// The file is already up to date.
    Keep,
}

/// Plans to write `context` into `target`, which need not exist. `only` limits it to sections and
/// path prefixes (`files`, `agents/main`, `files/src`); empty means everything.
///
/// Reads every file that would be overwritten; writes nothing.
///
/// # Errors
/// `NotFound` if nothing matches `only`; `InvalidInput` if two entries map to one file, a path goes
/// through a link or a file or into a store, or a directory, pipe, socket or device is in the way
/// of a file; `LimitExceeded` for a key that is too long for a path.
pub fn plan_checkout(
    source: &dyn ObjectSource,
    context: &Context,
    target: &Path,
    only: &[String],
) -> Result<FilesPlan> {
    let mut wanted = BTreeMap::new();
    let selection = Selection::below(only);
    for (name, section) in context.sections(source)? {
        if selection.reaches(&name) {
            add_section(source, &name, &section, &selection, &mut wanted)?;
        }
    }
    if wanted.is_empty() && !only.is_empty() {
        let only = only.join(", ");
        return Err(Error::not_found(format!("nothing in this snapshot is under {only}")));
    }
    refuse_files_as_folders(wanted.keys())?;
    let mut looking =
        FilePlanner { source, context, target: TargetDir::open(target)?, folder: None };
    let mut files = Vec::with_capacity(wanted.len());
    for (path, WantedFile { mode, content, size }) in wanted {
        let (action, found) = looking
            .plan_file(&path, mode, &content)
            .map_err(|error| error.at(target.join(&path).display()))?;
        files.push(PlannedFile { path, action, mode, content, size, found });
    }
    refuse_names_of_one_file(&files)?;
    Ok(FilesPlan { target: target.to_owned(), files, context: context.clone() })
}

type WantedFiles = BTreeMap<PathBuf, WantedFile>;

/// A file of a context.
struct WantedFile {
    mode: FileMode,
    content: Content,
    /// Bytes of the content, if known.
    size: Option<u64>,
}

impl WantedFile {
    /// A file that is not executable, of unknown size.
    const fn regular(content: Content) -> Self {
        Self { mode: FileMode::Regular, content, size: None }
    }
}

fn add_section(
    source: &dyn ObjectSource,
    name: &str,
    section: &Section,
    selection: &Selection,
    wanted: &mut WantedFiles,
) -> Result<()> {
    if let Some(agent) = conversation_agent(name) {
        let content = Content::Messages(agent.to_owned());
        let path = section_path(name)?.with_extension("jsonl");
        return add(wanted, path, WantedFile::regular(content));
    }
    match section.shape {
        _ if is_transcript_section(name) => {
            wanted.insert(PathBuf::from(SOURCE), WantedFile::regular(Content::Transcript));
            Ok(())
        }
        Shape::Blob => {
            add(wanted, section_path(name)?, WantedFile::regular(Content::Blob(section.id)))
        }
        Shape::List => {
            let list = List::open(source, &section.id)?;
            for (index, item) in (0_u64..).zip(list.iter(source, 0..list.len())) {
                let path = entry_path(name, &format!("{index:06}"))?;
                add(wanted, path, WantedFile::regular(Content::Blob(item?.link.id)))?;
            }
            Ok(())
        }
        Shape::Map => {
            for entry in Map::open(source, &section.id)?.iter(source) {
                let (key, item) = entry?;
                let key = text_key(&key)?;
                if !selection.has(name, &key) {
                    continue;
                }
                let content = Content::Blob(item.link.id);
                let file = match name {
                    FILES => {
                        let FileEntry { mode, size, .. } = FileEntry::from_item(&item)?;
                        WantedFile { mode, content, size: Some(size) }
                    }
                    _ => WantedFile::regular(content),
                };
                add(wanted, entry_path(name, &key)?, file)?;
            }
            Ok(())
        }
    }
}

fn add(wanted: &mut WantedFiles, path: PathBuf, file: WantedFile) -> Result<()> {
    if wanted.contains_key(&path) {
        return Err(Error::invalid(format!("two entries would be the file {}", path.display())));
    }
    wanted.insert(path, file);
    Ok(())
}

/// Refuses files that would also have to be folders. In path order, the content of a folder
/// directly follows it.
fn refuse_files_as_folders<'p>(paths: impl Iterator<Item = &'p PathBuf> + Clone) -> Result<()> {
    let mut neighbours = paths.clone().zip(paths.skip(1));
    match neighbours.find(|(file, next)| next.starts_with(file)) {
        Some((file, next)) => Err(clash_error(file, next)),
        None => Ok(()),
    }
}

/// Refuses two names that the file system maps to one entry, such as on a case-insensitive one. Two
/// hard links to one file are two entries.
fn refuse_names_of_one_file(files: &[PlannedFile]) -> Result<()> {
    let mut known: HashMap<_, &PlannedFile> = HashMap::new();
    for file in files {
        let Some(found) = &file.found else { continue };
        let Some(other) = known.insert(found.identity, file) else { continue };
        let folded = |file: &PlannedFile| file.path.to_string_lossy().to_lowercase();
        if found.names == 1 || folded(file) == folded(other) {
            return Err(clash_error(&other.path, &file.path));
        }
    }
    Ok(())
}

pub(super) fn clash_error(a: &Path, b: &Path) -> Error {
    let (a, b) = (a.display(), b.display());
    Error::invalid(format!(
        "{a} and {b} cannot both be files here: restore one of them with --only"
    ))
}

/// A planner that examines one file after another.
struct FilePlanner<'a> {
    source: &'a dyn ObjectSource,
    context: &'a Context,
    target: Option<TargetDir<'a>>,
    /// The folder examined last.
    folder: Option<(PathBuf, Option<Folder>)>,
}

impl FilePlanner<'_> {
    /// Returns the action for a file, and its current entry on disk.
    fn plan_file(
        &mut self,
        path: &Path,
        mode: FileMode,
        content: &Content,
    ) -> Result<(FileAction, Option<FolderEntry>)> {
        let (source, context) = (self.source, self.context);
        let (Some(folder), Some(name)) = (self.open_folder(path)?, path.file_name()) else {
            return Ok((FileAction::Create, None));
        };
        let failed = |error| Error::io("inspect it", error);
        let Some(found) = folder.find(name).map_err(failed)? else {
            return Ok((FileAction::Create, None));
        };
        let same = match (mode, found.kind) {
            (_, EntryKind::Folder) => {
                return Err(Error::invalid("expected a file or nothing, found a directory"));
            }
            (_, EntryKind::Special) => {
                let special = "expected a file or nothing, found a pipe, a socket or a device";
                return Err(Error::invalid(special));
            }
            (FileMode::Symlink, EntryKind::Link) => {
                folder.read_link(name).map_err(failed)? == content.bytes(source)?
            }
            (FileMode::Symlink, EntryKind::File) | (_, EntryKind::Link) => false,
            (FileMode::Regular | FileMode::Executable, EntryKind::File) => {
                found.agrees_on_executable(0o100, mode == FileMode::Executable)
                    && content.is_content_of(source, context, folder.read(name).map_err(failed)?)?
            }
        };
        Ok((if same { FileAction::Keep } else { FileAction::Overwrite }, Some(found)))
    }

    /// Returns the folder of `path`, if it exists.
    fn open_folder(&mut self, path: &Path) -> Result<Option<&Folder>> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if self.folder.as_ref().is_none_or(|(known, _)| known != parent) {
            let folder = match &self.target {
                Some(target) => target.enter(parent)?,
                None => None,
            };
            self.folder = Some((parent.to_owned(), folder));
        }
        Ok(self.folder.as_ref().and_then(|(_, folder)| folder.as_ref()))
    }
}
