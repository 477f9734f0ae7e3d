//! Imports or follows a file of whichever format it is.

use std::io::{BufRead, Cursor, Read, Seek};
use std::sync::Arc;

use turntree::error::{Error, Result};
use turntree::repo::Repository;

use super::detect::detect;
use crate::import::document_import::{import_document, read_all};
use crate::import::follow::{self, FollowOptions, FollowReport};
use crate::import::fork::Origins;
use crate::import::transcript::import_transcript;
use crate::model::format::{FormatReader, ImportOptions, RecordFormat};
use crate::model::report::ImportReport;
use crate::text::unpack::decompress;

/// Imports a transcript, also one that is compressed with zstd: what is stored is what it unpacks to.
/// Memory: the largest record, and a few MiB; 8 MiB more to unpack it.
///
/// # Errors
/// `Io` for a compressed one that is damaged or grows beyond measure; `InvalidInput` for an empty file
/// or an unknown format, naming what was looked for; `LimitExceeded` for a record over the limit, and
/// for an input without another record for 2^18 pieces or 1 GiB, naming the line; `Conflict` when
/// another process moved the branch meanwhile. The store is then as it was.
pub fn import(
    repo: &Repository,
    input: impl BufRead,
    options: &ImportOptions,
) -> Result<ImportReport> {
    import_from(repo, input, options, None)
}

/// Imports as [`import`] does a transcript whose working directory is known from somewhere else. It
/// counts for formats that do not say it themselves.
///
/// # Errors
/// Those of [`import`].
pub fn import_from(
    repo: &Repository,
    input: impl BufRead,
    options: &ImportOptions,
    directory: Option<&str>,
) -> Result<ImportReport> {
    let origins = Arc::default();
    let report = import_beside(repo, input, options, directory, &origins)?;
    origins.save(repo);
    Ok(report)
}

/// Imports as [`import_from`] does, beside others with the same `origins`.
///
/// # Errors
/// Those of [`import`].
pub(crate) fn import_beside(
    repo: &Repository,
    input: impl BufRead,
    options: &ImportOptions,
    directory: Option<&str>,
    origins: &Arc<Origins>,
) -> Result<ImportReport> {
    let (head, input) = decompress(Box::new(input))?;
    if head.is_empty() {
        return Err(Error::invalid("the file is empty: expected a transcript"));
    }
    let format = match options.format {
        Some(format) => format,
        None => detect(&head)?,
    };
    let input = Box::new(Cursor::new(head).chain(input));
    match format.reader {
        FormatReader::Archive(import) => import(repo, read_all(input)?, options),
        FormatReader::Document(_) => import_document(repo, format, input, options),
        FormatReader::Records(_) => {
            let format = RecordFormat::of(format)?;
            import_transcript(repo, format, input, options, directory, origins)
        }
    }
}

/// Takes in what is new in a transcript; `None` when there is nothing in it yet.
///
/// With `notes` of the last time it costs the new bytes, and otherwise an import. Several processes
/// may follow one file at once: what the one took in, the other finds known.
///
/// # Errors
/// As of [`import`]: `Conflict` when another process moved the branch meanwhile, and it can be tried
/// again after [`Store::refresh`](turntree::store::Store::refresh). The store is then as it was.
pub fn follow(
    repo: &Repository,
    input: impl Read + Seek,
    notes: Option<&[u8]>,
    options: FollowOptions<'_>,
) -> Result<Option<FollowReport>> {
    let origins = Arc::default();
    let followed = follow_beside(repo, input, notes, options, &origins)?;
    origins.save(repo);
    Ok(followed)
}

/// Takes in what is new as [`follow`] does, beside others with the same `origins`.
///
/// # Errors
/// Those of [`follow`].
pub(crate) fn follow_beside(
    repo: &Repository,
    input: impl Read + Seek,
    notes: Option<&[u8]>,
    options: FollowOptions<'_>,
    origins: &Arc<Origins>,
) -> Result<Option<FollowReport>> {
    follow::follow(repo, input, notes, options, detect, origins)
}
