//! `import` of a directory in which a framework stores its files.

use std::io::Write;
use std::path::Path;

use turntree::platform::canonical;
use turntree::{Error, ErrorKind};
use turntree_exchange::agents::session_name;
use turntree_exchange::formats::context_chef::{self, FolderReport};
use turntree_exchange::formats::ollm::{self, OllmReport};
use turntree_exchange::{FoldersOf, ImportOptions, StoredTree, read_tree};

use crate::porcelain::read::branches::{left_out, refuse_forgotten};
use crate::porcelain::transfer::import_report::{CONFLICT_HINT, print, warn_of_odd};
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::warn;
use crate::view::render::count;

/// The systems with such directories, and their formats.
const SYSTEMS: [(System, &[&str], FoldersOf); 2] = [
    (System::ContextChef, &["context-chef"], context_chef::folders_of),
    (System::Ollm, &["ollm-context", "ollm-mode", "ollm-intent"], ollm::folders_of),
];

#[derive(Debug, Clone, Copy)]
enum System {
    ContextChef,
    Ollm,
}

/// Imports the directory `path`, as `session` if given; with `again`, also forgotten sessions.
pub(super) fn import_folder(
    run: &mut Invocation,
    path: &Path,
    session: Option<&str>,
    mut options: ImportOptions,
    again: bool,
) -> Result<Answer> {
    let shown = path.display().to_string();
    let full = canonical(path).map_err(|error| Error::io(format!("open {shown}"), error))?;
    let (system, StoredTree { name, files, mut odd }) = gathered(&shown, &full, &options)?;
    let repo = run.open_or_create()?;
    match system {
        System::ContextChef => {
            if session.is_none() {
                options.session = session_name(&full);
            }
            refuse_forgotten(&repo, [&*options.session], again)?;
            let report = context_chef::import_folder(&repo, &name, &files, &options)
                .map_err(|error| error.at(&shown))
                .hint(ErrorKind::Conflict, CONFLICT_HINT)?;
            let FolderReport { report, payloads, memories, notes, odd: more } = report;
            odd.extend(more);
            warn_of_odd(&shown, &odd);
            let inside = json::ImportedFolder { payloads, memories, notes };
            print(&mut run.out, &report, Some(inside))?;
            if !run.out.json {
                let payloads = count(payloads, "payload");
                let entry = if memories == 1 { "entry" } else { "entries" };
                let notes = count(notes, "note");
                writeln!(run.out, "{payloads}, {memories} {entry} of memory, {notes}")?;
            }
        }
        System::Ollm => {
            refuse_forgotten(&repo, session, again)?;
            let report = ollm::import_folder(&repo, &name, &files, session, again, &options)
                .map_err(|error| error.at(&shown))
                .hint(ErrorKind::Conflict, CONFLICT_HINT)?;
            let OllmReport { branches, forgotten, odd: more } = report;
            odd.extend(more);
            warn_of_odd(&shown, &odd);
            if !forgotten.is_empty() {
                warn(&left_out(forgotten.len() as u64));
            }
            for branch in &branches {
                print(&mut run.out, branch, None)?;
            }
        }
    }
    Ok(Answer::Yes)
}

/// The files of the first system that has any there.
fn gathered(shown: &str, full: &Path, options: &ImportOptions) -> Result<(System, StoredTree)> {
    for (system, formats, folders_of) in SYSTEMS {
        if options.format.is_some_and(|format| !formats.contains(&format.name)) {
            continue;
        }
        let gathered = read_tree(full, folders_of)?;
        if !gathered.files.is_empty() {
            return Ok((system, gathered));
        }
    }
    let message = match options.format {
        Some(format) if !SYSTEMS.iter().any(|(_, formats, _)| formats.contains(&format.name)) => {
            format!("{shown} is a directory: expected a file of {}", format.name)
        }
        _ => format!(
            "{shown} is a directory without files of ContextChef or OLLM CLI: expected a transcript, or a directory with .context_vfs, .context_memory, or vfs, archive, memory and notes; or with .ollm, context-snapshots, snapshots or intent-snapshots"
        ),
    };
    let hint = "'turntree adopt DIR' imports all sessions of agents below a directory";
    Err(Failure::hinted(Error::invalid(message), hint))
}
