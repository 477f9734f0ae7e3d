//! The transcript of a context: pieces copied from other transcripts, then its own pieces.
//!
//! A client that forks a session copies the records of the other one, often with a new time or
//! session name in each. Such a beginning is not stored again: it is encoded as edits to pieces of
//! *bases*, which are the pieces of other transcripts.
//!
//! ```text
//! source-base-0    list of pieces      of the session that was forked
//! source-copied    list of chunks      "piece 5 of base 0 with this time, piece 6 of base 0 with ..."
//! source           list of pieces      what the transcript has behind its copies
//! ```
//!
//! [`Transcript`] reads all of them as one sequence of pieces, [`CopyWriter`] makes the first two.

mod edits;
mod members;
mod timestamp;
mod writer;

use std::ops::Range;

use bytes::Bytes;

use self::edits::{Step, apply_edits};
pub use self::members::without_values;
pub use self::writer::CopyWriter;
use super::entry::blob_item;
use super::{Builder, Context, SourceEntry, SourceKind};
use crate::context::sections::{SOURCE, SOURCE_BASE, SOURCE_COPIED, is_transcript_section};
use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource};
use crate::tree::{Item, List, diff_lists};

/// Pieces that are read together before a write.
const PIECES_AT_ONCE: usize = 64;

/// Most bases of a transcript.
const MAX_BASES: usize = 64;

/// The section of a base.
fn base_section(number: usize) -> String {
    format!("{SOURCE_BASE}{number}")
}

/// A transcript: pieces in the order of its file.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    copied: Vec<Chunk>,
    bases: Vec<List>,
    own: List,
}

/// Steps that are stored together.
#[derive(Debug, Clone)]
struct Chunk {
    blob: ObjectId,
    /// The pieces that its steps make.
    pieces: Range<u64>,
}

impl Chunk {
    fn item(&self) -> Item {
        let pieces = self.pieces.end - self.pieces.start;
        chunk_item(self.blob, u16::try_from(pieces).unwrap_or(u16::MAX))
    }
}

/// A piece of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptPiece {
    /// Its kind.
    pub kind: SourceKind,
    /// The separator after it.
    pub suffix: Bytes,
    content: PieceContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PieceContent {
    Stored(ObjectId),
    Made(Bytes),
}

impl TranscriptPiece {
    /// Its bytes, without the separator.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when they are lost.
    pub fn bytes(&self, source: &dyn ObjectSource) -> Result<Bytes> {
        match &self.content {
            PieceContent::Stored(blob) => source.read_as(Kind::Blob, blob),
            PieceContent::Made(bytes) => Ok(bytes.clone()),
        }
    }

    /// The entry of its own that it has in `source`, or would have there. A copy is no object.
    #[must_use]
    pub fn entry(&self) -> SourceEntry {
        let blob = match &self.content {
            PieceContent::Stored(blob) => *blob,
            PieceContent::Made(bytes) => ObjectId::of(Kind::Blob, bytes),
        };
        SourceEntry { blob, kind: self.kind, suffix: self.suffix.clone() }
    }

    fn stored(entry: SourceEntry) -> Self {
        let SourceEntry { blob, kind, suffix } = entry;
        Self { kind, suffix, content: PieceContent::Stored(blob) }
    }
}

impl Transcript {
    /// Opens the transcript of `context`; an empty one if there is none. Reads a root for each
    /// section and the list of chunks, one for 4,096 copies.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when they are lost, `InvalidInput` when a section has another shape.
    pub fn open(source: &dyn ObjectSource, context: &Context) -> Result<Self> {
        let own = context.list(source, SOURCE)?;
        let list = context.list(source, SOURCE_COPIED)?;
        let (mut copied, mut at) = (Vec::new(), 0_u64);
        for item in list.iter(source, 0..list.len()) {
            let item = item?;
            let pieces = pieces_of(&item).and_then(|pieces| at.checked_add(pieces));
            let end = pieces.ok_or_else(|| Error::malformed(item.link.id, "a chunk of copies"))?;
            copied.push(Chunk { blob: item.link.id, pieces: at..end });
            at = end;
        }
        let mut bases = Vec::new();
        while !copied.is_empty() && bases.len() < MAX_BASES {
            let name = base_section(bases.len());
            if context.section(source, &name)?.is_none() {
                break;
            }
            bases.push(context.list(source, &name)?);
        }
        Ok(Self { copied, bases, own })
    }

    /// A transcript with pieces of its own alone.
    #[must_use]
    pub fn of(own: List) -> Self {
        Self { own, ..Self::default() }
    }

    /// Number of pieces.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.copied() + self.own.len()
    }

    /// Returns true if there is no piece.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of pieces at the beginning that are stored as copies.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied.last().map_or(0, |chunk| chunk.pieces.end)
    }

    /// Returns the pieces after the copies, as they are in the section `source`.
    #[must_use]
    pub fn own(&self) -> &List {
        &self.own
    }

    /// Returns, for each piece, the base that it copies and the piece of that base, by their
    /// numbers.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when a chunk is lost.
    pub fn places(&self, source: &dyn ObjectSource) -> Result<Vec<Option<(usize, u64)>>> {
        let mut places = Vec::new();
        for chunk in &self.copied {
            places.extend(steps(source, chunk)?.into_iter().map(|step| match step {
                Step::Take { base, at, .. } => Some((base, at)),
                Step::Whole { .. } => None,
            }));
        }
        Ok(places)
    }

    /// The lists that copies are from, by number.
    #[must_use]
    pub fn bases(&self) -> &[List] {
        &self.bases
    }

    /// Returns true if it begins with all pieces of `earlier`, stored in the same way. Reads what
    /// follows these, and no contents.
    pub(crate) fn continues(&self, source: &dyn ObjectSource, earlier: &Self) -> Result<bool> {
        let is_same = |(new, old): (&Chunk, &Chunk)| new.blob == old.blob;
        let has_same_copies = earlier.own.is_empty() || self.copied() == earlier.copied();
        Ok(has_same_copies
            && earlier.copied() <= self.copied()
            && self.copied.iter().zip(&earlier.copied).all(is_same)
            && earlier.bases.iter().zip(&self.bases).all(|(old, new)| old == new)
            && diff_lists(&earlier.own, &self.own, source)?
                .iter()
                .all(|change| change.old.start == earlier.own.len()))
    }

    /// Splits the first `pieces` into parts, for callers that write after reading each part. A part
    /// decodes its chunk again, and its copies are in memory.
    pub(crate) fn parts(pieces: u64) -> impl Iterator<Item = Range<u64>> {
        let starts = (0..pieces).step_by(PIECES_AT_ONCE);
        starts.map(move |start| start..pieces.min(start + PIECES_AT_ONCE as u64))
    }

    /// Returns the pieces of `range`, as far as they exist. Reads pieces of bases when it reaches
    /// their copies.
    pub fn pieces<'a>(
        &self,
        source: &'a dyn ObjectSource,
        range: Range<u64>,
    ) -> impl Iterator<Item = Result<TranscriptPiece>> + use<'a> {
        let copied = self.copied();
        let own = self
            .own
            .iter(source, range.start.saturating_sub(copied)..range.end.saturating_sub(copied));
        let own = own.map(|item| SourceEntry::from_item(&item?).map(TranscriptPiece::stored));
        let (all, bases) = (range.clone(), self.bases.clone());
        let chunks: Vec<Chunk> = self
            .copied
            .iter()
            .filter(|chunk| chunk.pieces.start < all.end && chunk.pieces.end > all.start)
            .cloned()
            .collect();
        let mut floors = vec![0; bases.len()];
        let copies = chunks
            .into_iter()
            .flat_map(move |chunk| expand_range(source, &chunk, &bases, &range, &mut floors));
        copies.chain(own)
    }
}

/// Returns the pieces of `range` that a chunk makes. `floors` has the first piece of each base that
/// may still follow: a base is read once from its beginning to its end, so an edit cannot multiply
/// it.
fn expand_range(
    source: &dyn ObjectSource,
    chunk: &Chunk,
    bases: &[List],
    range: &Range<u64>,
    floors: &mut [u64],
) -> Vec<Result<TranscriptPiece>> {
    let steps = match steps(source, chunk) {
        Ok(steps) => steps,
        // Each piece is reported as lost, so that later pieces keep their positions.
        Err(error) => {
            let lost = chunk.pieces.start.max(range.start)..chunk.pieces.end.min(range.end);
            let message = error.to_string();
            let again = move |_| Err(Error::new(error.kind(), message.clone()));
            return lost.map(again).collect();
        }
    };
    let wanted = (chunk.pieces.clone()).zip(steps).filter(|(at, _)| range.contains(at));
    wanted.map(|(_, step)| expand_step(source, chunk, step, bases, floors)).collect()
}

fn expand_step(
    source: &dyn ObjectSource,
    chunk: &Chunk,
    step: Step,
    bases: &[List],
    floors: &mut [u64],
) -> Result<TranscriptPiece> {
    let malformed = || Error::malformed(chunk.blob, "copies of existing pieces");
    let (base, at, edits) = match step {
        Step::Whole { kind, suffix, bytes } => {
            return Ok(TranscriptPiece { kind, suffix, content: PieceContent::Made(bytes) });
        }
        Step::Take { base, at, edits } => (base, at, edits),
    };
    let floor = floors.get_mut(base).filter(|floor| **floor <= at).ok_or_else(malformed)?;
    *floor = at.saturating_add(1);
    let list = bases.get(base).ok_or_else(malformed)?;
    let item = list.get(source, at)?.ok_or_else(malformed)?;
    let SourceEntry { blob, kind, suffix } = SourceEntry::from_item(&item)?;
    let content = match edits.is_empty() {
        true => PieceContent::Stored(blob),
        false => {
            let bytes = source.read_as(Kind::Blob, &blob)?;
            PieceContent::Made(apply_edits(&bytes, &edits).ok_or_else(malformed)?.into())
        }
    };
    Ok(TranscriptPiece { kind, suffix, content })
}

/// The steps of a chunk.
fn steps(source: &dyn ObjectSource, chunk: &Chunk) -> Result<Vec<Step>> {
    let bytes = source.read_as(Kind::Blob, &chunk.blob)?;
    let steps = edits::read(&bytes).filter(|steps| {
        let pieces = chunk.pieces.end - chunk.pieces.start;
        steps.len() as u64 == pieces
    });
    steps.ok_or_else(|| Error::malformed(chunk.blob, "a chunk of copies"))
}

/// The item of a chunk.
fn chunk_item(blob: ObjectId, pieces: u16) -> Item {
    blob_item(blob, pieces.to_le_bytes().to_vec())
}

/// Returns the number of pieces of a chunk, from its item.
fn pieces_of(item: &Item) -> Option<u64> {
    let bytes: [u8; 2] = item.meta.as_ref().try_into().ok()?;
    Some(u64::from(u16::from_le_bytes(bytes)))
}

impl Builder {
    /// Sets the transcript to that of `other`.
    ///
    /// # Errors
    /// As of reading `other` and of the sink.
    pub fn set_transcript_as_in(
        &mut self,
        sink: &mut dyn ObjectSink,
        other: &Context,
    ) -> Result<()> {
        let mut names = self.sections_of_copies(sink)?;
        names.extend(other.sections(sink)?.into_keys().filter(|name| is_transcript_section(name)));
        names.push(SOURCE.to_owned());
        names.iter().try_for_each(|name| self.set_as_in(sink, name, other))
    }

    /// Sets the transcript to the first `pieces` of another transcript. Copies stay copies, unless some of
    /// them are cut off: then the remaining ones become pieces of its own.
    ///
    /// # Errors
    /// As of reading `transcript` and of the sink.
    pub fn set_transcript(
        &mut self,
        sink: &mut dyn ObjectSink,
        transcript: &Transcript,
        pieces: u64,
    ) -> Result<()> {
        self.clear_transcript(sink)?;
        let Some(own) = pieces.checked_sub(transcript.copied()) else {
            return self.set_own_pieces(sink, transcript, pieces);
        };
        let mut list = transcript.own.clone();
        list.splice(sink, own.min(list.len())..list.len(), Vec::new())?;
        self.set_list_root(SOURCE, list);
        if transcript.copied.is_empty() {
            return Ok(());
        }
        for (number, base) in transcript.bases.iter().enumerate() {
            self.set_list_root(&base_section(number), base.clone());
        }
        self.set_list(sink, SOURCE_COPIED, transcript.copied.iter().map(Chunk::item).collect())
    }

    /// Makes the first `pieces` of a transcript pieces of its own.
    fn set_own_pieces(
        &mut self,
        sink: &mut dyn ObjectSink,
        transcript: &Transcript,
        pieces: u64,
    ) -> Result<()> {
        for range in Transcript::parts(pieces) {
            let part = transcript.pieces(sink, range).collect::<Result<Vec<_>>>()?;
            for piece in part {
                if let PieceContent::Made(bytes) = &piece.content {
                    sink.write(Kind::Blob, bytes.clone())?;
                }
                self.push(sink, SOURCE, piece.entry().to_item()?)?;
            }
        }
        Ok(())
    }

    /// Turns copies into own pieces, so that any piece of the transcript can be replaced.
    ///
    /// # Errors
    /// As of reading the copies and of the sink.
    pub fn expand_copies(&mut self, sink: &mut dyn ObjectSink) -> Result<()> {
        let tree = self.write(sink)?;
        let transcript = Transcript::open(sink, &Context::open(sink, &tree)?)?;
        if transcript.copied.is_empty() {
            return Ok(());
        }
        self.clear_transcript(sink)?;
        self.set_own_pieces(sink, &transcript, transcript.len())
    }

    /// Returns the number of pieces that are stored as copies, including the pending changes.
    ///
    /// # Errors
    /// `NotFound` or `Corrupt` when their list is lost.
    pub fn copied_pieces(&mut self, source: &dyn ObjectSource) -> Result<u64> {
        let list = self.pending_list(source, SOURCE_COPIED)?;
        let mut pieces = 0;
        for item in list.iter(source, 0..list.len()) {
            pieces += pieces_of(&item?).unwrap_or(0);
        }
        Ok(pieces)
    }

    /// Drops the transcript.
    ///
    /// # Errors
    /// As of the sink.
    pub fn clear_transcript(&mut self, sink: &mut dyn ObjectSink) -> Result<()> {
        self.clear_copies(sink)?;
        self.clear(sink, SOURCE)
    }

    /// Drops the copied pieces of the transcript, and leaves its own.
    ///
    /// # Errors
    /// As of the sink.
    pub fn clear_copies(&mut self, sink: &mut dyn ObjectSink) -> Result<()> {
        let names = self.sections_of_copies(sink)?;
        names.iter().try_for_each(|name| self.clear(sink, name))
    }

    fn sections_of_copies(&self, source: &dyn ObjectSource) -> Result<Vec<String>> {
        let names = self.context.sections(source)?.into_keys();
        Ok(names.filter(|name| name != SOURCE && is_transcript_section(name)).collect())
    }
}

#[cfg(test)]
mod tests;
