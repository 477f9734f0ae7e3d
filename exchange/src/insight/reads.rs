//! Finds files that an agent must read again, because their digests changed since it read them.
//!
//! A framework records the SHA-256 of each file that an agent reads, and allows edits only while
//! the file has this digest. A recorded path is absolute or relative to the workspace. A path
//! inside of the recorded working directory is resolved in this workspace.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use turntree::context::sections::READS;
use turntree::context::{Context, agent_section};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};
use turntree::workspace::open_regular;

use crate::import::turns::{ROOT, fact};

/// Bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

/// Extensions of documents that agents read as converted text, which has a different digest.
const CONVERTED: [&str; 9] = ["pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "odt", "rtf"];

/// The result of checking all files that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadCheck {
    /// The number of checked files.
    pub checked: u64,
    /// The files to read again, by agent and path.
    pub stale: Vec<StaleFile>,
}

/// A file that must be read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleFile {
    /// The agent that read the file.
    pub agent: String,
    /// The recorded path.
    pub path: String,
    /// The reason.
    pub reason: StaleReason,
}

/// The reason why a file must be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleReason {
    /// Its content changed.
    Changed,
    /// It is missing, or is not a regular file.
    Missing,
    /// It is unreadable.
    Unreadable,
    /// The agent read a converted text, so a change cannot be detected.
    Converted,
}

impl StaleReason {
    /// Returns the name in JSON and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Unreadable => "unreadable",
            Self::Converted => "converted",
        }
    }
}

/// Checks every file that `agent`, or any agent, read. Cost: reads all of these files once.
///
/// # Errors
/// The errors of reading the context. Errors of a file become its reason.
pub fn check_reads(
    source: &dyn ObjectSource,
    context: &Context,
    workspace: &Path,
    agent: Option<&str>,
) -> Result<ReadCheck> {
    let cwd = match fact(source, context, ROOT)? {
        Some(root) => Some(root),
        None => fact(source, context, "cwd")?,
    };
    let cwd = cwd.map(PathBuf::from);
    let mut reads = ReadCheck::default();
    for name in context.agents(source)? {
        if agent.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let map = context.map(source, &agent_section(&name, READS)?)?;
        for entry in map.iter(source) {
            let (path, item) = entry?;
            let path = String::from_utf8_lossy(&path).into_owned();
            let digest = source.read_as(Kind::Blob, &item.link.id)?;
            reads.checked += 1;
            let place = place_of(&path, workspace, cwd.as_deref());
            if let Some(reason) = check(&place, &digest) {
                reads.stale.push(StaleFile { agent: name.clone(), path, reason });
            }
        }
    }
    Ok(reads)
}

/// Returns the current path of a recorded path.
fn place_of(path: &str, workspace: &Path, cwd: Option<&Path>) -> PathBuf {
    let inside = cwd.filter(|cwd| cwd.is_absolute());
    match inside.and_then(|cwd| Path::new(path).strip_prefix(cwd).ok()) {
        Some(relative) => workspace.join(relative),
        // Joining an absolute path replaces the workspace.
        None => workspace.join(path),
    }
}

fn check(place: &Path, digest: &[u8]) -> Option<StaleReason> {
    // Check the type first: opening a pipe would block until a writer opens it.
    match place.metadata() {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Some(StaleReason::Missing),
        Err(error) => return Some(reason_of(&error)),
    }
    let found = match digest_of(place) {
        Ok(found) => found,
        Err(error) => return Some(reason_of(&error)),
    };
    if found.as_bytes().eq_ignore_ascii_case(digest) {
        return None;
    }
    let extension = place.extension().map(|name| name.to_string_lossy().to_lowercase());
    let is_converted = extension.is_some_and(|name| CONVERTED.contains(&name.as_str()));
    Some(if is_converted { StaleReason::Converted } else { StaleReason::Changed })
}

fn reason_of(error: &io::Error) -> StaleReason {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StaleReason::Missing,
        _ => StaleReason::Unreadable,
    }
}

/// Returns the SHA-256 of a file in lowercase hex.
fn digest_of(place: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (open_regular(place)?, Sha256::new());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(format!("{:x}", hash.finalize())),
            Ok(length) => hash.update(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use turntree::context::Builder;
    use turntree::object::Memory;

    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn stale(recorded: &[(&str, &str)], workspace: &Path, cwd: Option<&str>) -> Vec<String> {
        let (mut objects, mut builder) = (Memory::new(), Builder::new());
        for (path, digest) in recorded {
            let digest = Some((*digest).to_owned().into());
            builder.set_entry(&mut objects, "agents/lead/reads", path, digest).unwrap();
        }
        if let Some(cwd) = cwd {
            let cwd = Some(cwd.to_owned().into());
            builder.set_entry(&mut objects, "meta", "cwd", cwd).unwrap();
        }
        let tree = builder.write(&mut objects).unwrap();
        let context = Context::open(&objects, &tree).unwrap();
        let reads = check_reads(&objects, &context, workspace, None).unwrap();
        assert_eq!(reads.checked, recorded.len() as u64);
        assert_eq!(check_reads(&objects, &context, workspace, Some("x")).unwrap().checked, 0);
        reads.stale.iter().map(|stale| format!("{} {}", stale.path, stale.reason.name())).collect()
    }

    #[test]
    fn changed_or_missing_files_must_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for (name, content) in [("same", ""), ("other", "x"), ("paper.pdf", "x")] {
            std::fs::write(root.join(name), content).unwrap();
        }
        std::fs::create_dir(root.join("folder")).unwrap();
        let upper = EMPTY.to_uppercase();
        let recorded = [
            ("folder", EMPTY),
            ("missing", EMPTY),
            ("other", EMPTY),
            ("paper.pdf", EMPTY),
            ("same", upper.as_str()),
            ("same/below", EMPTY),
        ];
        let expected = [
            "folder missing",
            "missing missing",
            "other changed",
            "paper.pdf converted",
            "same/below missing",
        ];
        assert_eq!(stale(&recorded, root, None), expected);
    }

    #[test]
    fn paths_of_another_directory_are_mapped_to_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("same"), "").unwrap();
        let absolute = folder.path().join("same").display().to_string();
        let recorded = [("/srv/app/same", EMPTY), (absolute.as_str(), EMPTY)];
        assert_eq!(stale(&recorded[..1], folder.path(), None), ["/srv/app/same missing"]);
        assert!(stale(&recorded, folder.path(), Some("/srv/app")).is_empty());
    }
}
