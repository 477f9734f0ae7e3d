//! Writes a copied beginning: each piece is stored as its difference from a piece of a base.

use bytes::Bytes;

use super::edits::{ChunkWriter, MAX_STEPS, Step};
use super::members::edits_between;
use super::{MAX_BASES, base_section, chunk_item};
use crate::context::sections::SOURCE_COPIED;
use crate::context::{Builder, SourceEntry, SourceKind};
use crate::error::Result;
use crate::object::{Kind, ObjectSink, ObjectSource};
use crate::tree::{Item, List};

/// A copied beginning in the making.
#[derive(Debug, Default)]
pub struct CopyWriter {
    bases: Vec<Base>,
    chunk: ChunkWriter,
    items: Vec<Item>,
    pieces: u64,
}

#[derive(Debug)]
struct Base {
    list: List,
    /// The first piece that may still be copied.
    next: u64,
}

impl CopyWriter {
    /// Number of pieces so far.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Adds a piece that is a copy of the piece `at` of `base`, apart from some of its values. A
    /// piece that differs otherwise, or comes out of order, is stored whole: either way it is read
    /// back exactly.
    ///
    /// # Errors
    /// As of reading the piece of the base and of the sink.
    pub fn copy(
        &mut self,
        sink: &mut dyn ObjectSink,
        (base, at): (&List, u64),
        (kind, suffix, bytes): (SourceKind, &Bytes, &Bytes),
    ) -> Result<()> {
        let taken = self.edits(sink, (base, at), (kind, suffix, bytes))?;
        let whole = || Step::Whole { kind, suffix: suffix.clone(), bytes: bytes.clone() };
        self.push(sink, &taken.unwrap_or_else(whole))
    }

    /// Adds a piece that no base has.
    ///
    /// # Errors
    /// As of the sink.
    pub fn whole(
        &mut self,
        sink: &mut dyn ObjectSink,
        (kind, suffix, bytes): (SourceKind, &Bytes, &Bytes),
    ) -> Result<()> {
        self.push(sink, &Step::Whole { kind, suffix: suffix.clone(), bytes: bytes.clone() })
    }

    /// Writes the beginning to `builder`, before the pieces in its `source`. Of each base it keeps
    /// only the pieces that copies need.
    ///
    /// # Errors
    /// As of the sink.
    pub fn finish(mut self, sink: &mut dyn ObjectSink, builder: &mut Builder) -> Result<()> {
        builder.clear_copies(sink)?;
        self.end_chunk(sink)?;
        if self.items.is_empty() {
            return Ok(());
        }
        for (number, Base { mut list, next }) in self.bases.into_iter().enumerate() {
            list.splice(sink, next..list.len(), Vec::new())?;
            builder.set_list_root(&base_section(number), list);
        }
        builder.set_list(sink, SOURCE_COPIED, self.items)
    }

    /// Returns the step that copies a piece from a base; `None` when the piece must be stored
    /// whole.
    fn edits(
        &mut self,
        source: &dyn ObjectSource,
        (list, at): (&List, u64),
        (kind, suffix, bytes): (SourceKind, &Bytes, &Bytes),
    ) -> Result<Option<Step>> {
        let Some(item) = list.get(source, at)? else { return Ok(None) };
        let entry = SourceEntry::from_item(&item)?;
        if entry.kind != kind || entry.suffix != *suffix {
            return Ok(None);
        }
        let known = self.bases.iter().position(|base| base.list == *list);
        if known.is_none() && self.bases.len() >= MAX_BASES {
            return Ok(None);
        }
        if known.and_then(|known| self.bases.get(known)).is_some_and(|base| base.next > at) {
            return Ok(None);
        }
        let there = source.read_as(Kind::Blob, &entry.blob)?;
        let Some(edits) = edits_between(&there, bytes) else { return Ok(None) };
        let base = known.unwrap_or(self.bases.len());
        if known.is_none() {
            self.bases.push(Base { list: list.clone(), next: 0 });
        }
        if let Some(base) = self.bases.get_mut(base) {
            base.next = at + 1;
        }
        Ok(Some(Step::Take { base, at, edits }))
    }

    fn push(&mut self, sink: &mut dyn ObjectSink, step: &Step) -> Result<()> {
        self.chunk.push(step);
        self.pieces += 1;
        if self.chunk.is_full() { self.end_chunk(sink) } else { Ok(()) }
    }

    fn end_chunk(&mut self, sink: &mut dyn ObjectSink) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let pieces = u16::try_from(self.chunk.steps().min(MAX_STEPS)).unwrap_or(u16::MAX);
        let blob = sink.write(Kind::Blob, self.chunk.finish())?;
        self.items.push(chunk_item(blob, pieces));
        Ok(())
    }
}
