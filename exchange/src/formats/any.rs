//! Imports a file of whichever format it is.

use std::io::{BufRead, Cursor, Read};

use turntree::error::{Error, Result};
use turntree::repo::Repository;

use super::detect::detect;
use crate::import::transcript::import_transcript;
use crate::import::whole_document::{import_document, read_all};
use crate::model::report::{ImportOptions, ImportReport};
use crate::text::unpack::unpacked;

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
    let (head, input) = unpacked(Box::new(input))?;
    if head.is_empty() {
        return Err(Error::invalid("the file is empty: expected a transcript"));
    }
    let format = match options.format {
        Some(format) => format,
        None => detect(&head)?,
    };
    let input = Box::new(Cursor::new(head).chain(input));
    if let Some(import) = format.archive {
        return import(repo, read_all(input)?, options);
    }
    if format.whole.is_some() {
        return import_document(repo, format, input, options);
    }
    import_transcript(repo, format, input, options)
}
