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

/// Imports a transcript. A transcript compressed with zstd is stored decompressed.
/// Memory: the largest record, and a few MiB; 8 MiB more to decompress.
///
/// # Errors
/// `Io` for a compressed file that is damaged or expands beyond the limit; `InvalidInput` for an
/// empty file or an unknown format, naming the formats that were tried; `LimitExceeded` for a
/// record over the limit, and for an input without another record for 2^18 pieces or 1 GiB, naming
/// the line; `Conflict` when another process moved the branch concurrently. After an error the
/// store is unchanged.
pub fn import(
    repo: &Repository,
    input: impl BufRead,
    options: &ImportOptions,
) -> Result<ImportReport> {
    import_from(repo, input, options, None)
}

/// Imports as [`import`] does, with a working directory that the caller knows from elsewhere. It
/// applies to formats that do not record one.
///
/// # Errors
/// As of [`import`].
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

/// Imports as [`import_from`] does, sharing `origins` with other transcripts.
///
/// # Errors
/// As of [`import`].
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

/// Imports the new records of a transcript; returns `None` if the transcript is empty so far.
///
/// With the `notes` of the last call the cost is that of the new bytes, otherwise that of an
/// import. Several processes may follow one file at the same time: each finds records that another
/// process imported, and skips them.
///
/// # Errors
/// As of [`import`]: after a `Conflict` with another process that moved the branch, the caller can
/// retry after [`Store::refresh`](turntree::store::Store::refresh). After an error the store is
/// unchanged.
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

/// Imports new records as [`follow`] does, sharing `origins` with other transcripts.
///
/// # Errors
/// As of [`follow`].
pub(crate) fn follow_beside(
    repo: &Repository,
    input: impl Read + Seek,
    notes: Option<&[u8]>,
    options: FollowOptions<'_>,
    origins: &Arc<Origins>,
) -> Result<Option<FollowReport>> {
    follow::follow(repo, input, notes, options, detect, origins)
}
