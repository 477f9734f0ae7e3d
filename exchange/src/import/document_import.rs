//! Imports documents that hold a whole state. Each file is one turn and replaces the previous
//! state.
//!
//! A transcript grows at its end and is read piece by piece. A snapshot of a framework holds the
//! whole state, so it is read and validated completely before the import writes anything. Its bytes
//! still become pieces of the `source` section, split at the messages, so the source and the
//! messages share their blobs.

use std::io::BufRead;

use bytes::Bytes;
use turntree::context::sections::{META, SOURCE};
use turntree::context::{Builder, Context};
use turntree::error::{Error, Result};
use turntree::object::{Author, Memory, ObjectId, Trigger};
use turntree::repo::{BranchName, Repository, Signature, SnapshotDraft, Transaction};

use super::finish::finish_import;
use super::redact::redact_document;
use super::source::{pieces, sources_of, write_source};
use crate::model::format::{DocumentFacts, DocumentReader, Format, FormatReader, ImportOptions};
use crate::model::report::{BASE, ImportReport};
use crate::text::document::MAX_RECORD_BYTES;
use crate::text::unpack::read_error;

/// Imports a document as one commit on the requested branch, or else on the main branch of the
/// session. A document that is not part of the conversation goes to the main branch of its own
/// session, whose name adds a suffix.
///
/// # Errors
/// `InvalidInput` with the position of an error in the document, `LimitExceeded` for a document
/// over [`MAX_RECORD_BYTES`]. The store is then unchanged.
pub(crate) fn import_document(
    repo: &Repository,
    format: &'static Format,
    input: impl BufRead,
    options: &ImportOptions,
) -> Result<ImportReport> {
    let document = ValidatedDocument::new(format, read_all(input)?)?.redact(repo)?;
    let asked = options.branch.clone().filter(|_| document.facts.session_suffix.is_empty());
    let branch = asked.map_or_else(|| document.branch(&options.session), Ok)?;
    let mut change = repo.begin();
    let known = document.find_commit(repo, change.tip(&branch))?;
    let (head, turns, messages) = match known {
        Some(tip) => (tip, 0, 0),
        None => (document.add(&mut change, &branch, &options.stamp)?, 1, document.facts.messages),
    };
    let report = ImportReport {
        turns,
        messages,
        input_bytes: document.bytes.len() as u64,
        notes: document.facts.notes,
        ..ImportReport::unchanged(branch, head, format.name)
    };
    let reason = format!("import {}", options.session);
    finish_import(repo, change, options, &reason, known.is_none(), report)
}

/// A validated document that is on no branch yet.
pub(crate) struct ValidatedDocument {
    format: &'static Format,
    read: DocumentReader,
    bytes: Bytes,
    /// The facts of the document besides its sections.
    pub(crate) facts: DocumentFacts,
    /// The root of the section that holds its bytes.
    pub(crate) source: ObjectId,
}

impl ValidatedDocument {
    /// Reads and validates a document without a store.
    ///
    /// # Errors
    /// `InvalidInput` with the position of an error in the document.
    pub(crate) fn new(format: &'static Format, bytes: Bytes) -> Result<Self> {
        let FormatReader::Document(read) = format.reader else {
            let message = format!("{} is not a format of documents", format.name);
            return Err(Error::invalid(message));
        };
        let (mut sink, mut builder) = (Memory::new(), Builder::new());
        let facts = read(&mut sink, &mut builder, &bytes)?;
        write_source(&mut sink, &mut builder, &bytes, &facts.records)?;
        let tree = builder.write(&mut sink)?;
        let source = Context::open(&sink, &tree)?.section(&sink, SOURCE)?;
        let source = source.ok_or_else(|| Error::invalid("the document is empty"))?.id;
        Ok(Self { format, read, bytes, facts, source })
    }

    /// Returns the document with redacted and masked pieces replaced.
    ///
    /// # Errors
    /// The errors of [`ValidatedDocument::new`], and of reading a replacement.
    fn redact(self, repo: &Repository) -> Result<Self> {
        let pieces = pieces(self.bytes.len(), &self.facts.records).into_iter();
        let redacted = redact_document(repo, &self.bytes, pieces.map(|(_, range)| range))?;
        match redacted {
            Some(bytes) => Self::new(self.format, bytes),
            None => Ok(self),
        }
    }

    /// Returns the branch for the document in `session`.
    ///
    /// # Errors
    /// `InvalidInput` for a name that no session can have.
    pub(crate) fn branch(&self, session: &str) -> Result<BranchName> {
        BranchName::main(&format!("{session}{}", self.facts.session_suffix))
    }

    /// Commits the document on top of `branch`.
    ///
    /// # Errors
    /// The errors of a transaction.
    pub(crate) fn add(
        &self,
        change: &mut Transaction<'_>,
        branch: &BranchName,
        stamp: &Signature,
    ) -> Result<ObjectId> {
        let parent = match change.tip(branch) {
            Some(tip) => Context::open(change, &change.read_commit(&tip)?.tree)?,
            None => Context::default(),
        };
        let mut builder = Builder::from(parent);
        (self.read)(change, &mut builder, &self.bytes)?;
        write_source(change, &mut builder, &self.bytes, &self.facts.records)?;
        let name = Bytes::from_static(self.format.name.as_bytes());
        builder.set_entry(change, META, "format", Some(name))?;
        builder.set_entry(change, META, BASE, None)?;
        let facts = &self.facts;
        let snapshot = SnapshotDraft {
            tree: builder.write(change)?,
            author: Author { agent: self.format.name.to_owned(), model: facts.model.clone() },
            time: facts.time.unwrap_or(stamp.time),
            trigger: facts.trigger.unwrap_or(Trigger::Turn),
            message: facts.title.clone(),
            metadata: facts.metadata.clone(),
        };
        change.snapshot(branch, snapshot)
    }

    /// Returns the tip if a commit on its line has this document.
    fn find_commit(&self, repo: &Repository, tip: Option<ObjectId>) -> Result<Option<ObjectId>> {
        let known = tip.map(|tip| sources_of(repo, &tip)).transpose()?.unwrap_or_default();
        Ok(tip.filter(|_| known.contains(&self.source)))
    }
}

/// Reads a whole document.
///
/// # Errors
/// `LimitExceeded` for more than [`MAX_RECORD_BYTES`].
pub(crate) fn read_all(input: impl BufRead) -> Result<Bytes> {
    let mut bytes = Vec::new();
    let mut input = input.take(MAX_RECORD_BYTES as u64 + 1);
    std::io::Read::read_to_end(&mut input, &mut bytes)
        .map_err(|error| read_error("read the document", error))?;
    if bytes.len() > MAX_RECORD_BYTES {
        let (limit, found) = (MAX_RECORD_BYTES as u64, bytes.len() as u64);
        return Err(Error::limit("bytes of the document", limit, found));
    }
    Ok(bytes.into())
}
