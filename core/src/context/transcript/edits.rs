//! Encodes the steps of a copied beginning: pieces of another transcript, and the replacements in
//! them.
//!
//! A chunk keeps each kind of number in a column of its own, so that copies which differ in the
//! same fields compress to next to nothing. Specified in `format-spec/context.md`.

use std::collections::HashMap;

use bytes::Bytes;

use super::timestamp;
use crate::context::SourceKind;
use crate::object::{push_varint, take_varint, unzigzag, zigzag};

/// Most steps of a chunk.
pub(super) const MAX_STEPS: usize = 4096;

/// Bytes of texts after which a chunk is full.
const FULL_BYTES: usize = 256 << 10;

/// The first byte of a chunk.
const VERSION: u8 = 1;

/// Columns of a chunk, in their order.
const COLUMNS: usize = 7;
const CODES: usize = 0;
const PLACES: usize = 1;
const COUNTS: usize = 2;
const GAPS: usize = 3;
const REMOVED: usize = 4;
const KINDS: usize = 5;
const VALUES: usize = 6;

/// Codes of steps.
const NEXT: u8 = 0;
const AT: u8 = 1;
const WHOLE: u8 = 2;

/// The kind of a text that is in the table; a time with `n` fractional digits of the second is kind
/// `n + 1`.
const TEXT: u64 = 0;

/// A replacement in a piece: `removed` bytes from `at` on make room for `text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) at: usize,
    pub(super) removed: usize,
    pub(super) text: Bytes,
}

/// One piece of a copied beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The piece `at` of a base, with edits in rising order that do not overlap.
    Take { base: usize, at: u64, edits: Vec<Edit> },
    /// A piece that no base has.
    Whole { kind: SourceKind, suffix: Bytes, bytes: Bytes },
}

/// A piece with its edits made; `None` when they do not fit it.
pub(super) fn apply_edits(piece: &[u8], edits: &[Edit]) -> Option<Vec<u8>> {
    let mut made = Vec::with_capacity(piece.len());
    let mut from = 0;
    for edit in edits {
        made.extend_from_slice(piece.get(from..edit.at)?);
        made.extend_from_slice(&edit.text);
        from = edit.at.checked_add(edit.removed)?;
    }
    made.extend_from_slice(piece.get(from..)?);
    Some(made)
}

/// The last time of each precision, from which the next one is a delta.
type Times = [i64; timestamp::MAX_DIGITS + 1];

/// Steps in the making of a chunk.
#[derive(Debug, Default)]
pub(super) struct ChunkWriter {
    steps: usize,
    columns: [Vec<u8>; COLUMNS],
    texts: Vec<Bytes>,
    numbers: HashMap<Bytes, u64>,
    text_bytes: usize,
    /// The piece of a base that follows the last one.
    next: Option<(usize, u64)>,
    times: Times,
}

impl ChunkWriter {
    pub(super) fn is_empty(&self) -> bool {
        self.steps == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.steps >= MAX_STEPS || self.text_bytes >= FULL_BYTES
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn push(&mut self, step: &Step) {
        self.steps += 1;
        match step {
            Step::Take { base, at, edits } => {
                if self.next == Some((*base, *at)) {
                    self.column(CODES).push(NEXT);
                } else {
                    self.column(CODES).push(AT);
                    push_varint(self.column(PLACES), *base as u64);
                    push_varint(self.column(PLACES), *at);
                }
                self.next = Some((*base, at.saturating_add(1)));
                push_varint(self.column(COUNTS), edits.len() as u64);
                let mut from = 0;
                for edit in edits {
                    push_varint(self.column(GAPS), edit.at.saturating_sub(from) as u64);
                    push_varint(self.column(REMOVED), edit.removed as u64);
                    self.text(&edit.text);
                    from = edit.at.saturating_add(edit.removed);
                }
            }
            Step::Whole { kind, suffix, bytes } => {
                self.column(CODES).push(WHOLE);
                self.column(PLACES).push(*kind as u8);
                self.text(suffix);
                self.text(bytes);
            }
        }
    }

    /// The chunk; the writer is empty afterwards.
    pub(super) fn finish(&mut self) -> Bytes {
        let Self { steps, columns, texts, .. } = std::mem::take(self);
        let mut out = vec![VERSION];
        push_varint(&mut out, steps as u64);
        for column in columns {
            push_varint(&mut out, column.len() as u64);
            out.extend_from_slice(&column);
        }
        push_varint(&mut out, texts.len() as u64);
        for text in &texts {
            push_varint(&mut out, text.len() as u64);
        }
        for text in &texts {
            out.extend_from_slice(text);
        }
        out.into()
    }

    #[expect(clippy::indexing_slicing, reason = "columns have constant numbers")]
    fn column(&mut self, number: usize) -> &mut Vec<u8> {
        &mut self.columns[number]
    }

    fn text(&mut self, text: &Bytes) {
        let time = timestamp::read(text).and_then(|(time, digits)| {
            let last = self.times.get_mut(digits)?;
            let past = time.checked_sub(*last)?;
            *last = time;
            Some((digits, past))
        });
        if let Some((digits, past)) = time {
            push_varint(self.column(KINDS), digits as u64 + 1);
            push_varint(self.column(VALUES), zigzag(past));
            return;
        }
        let next = self.texts.len() as u64;
        let number = *self.numbers.entry(text.clone()).or_insert(next);
        if number == next {
            self.text_bytes += text.len();
            self.texts.push(text.clone());
        }
        push_varint(self.column(KINDS), TEXT);
        push_varint(self.column(VALUES), number);
    }
}

/// Returns the steps of a chunk; `None` for invalid bytes.
pub(super) fn read(chunk: &Bytes) -> Option<Vec<Step>> {
    let (&VERSION, mut rest) = chunk.split_first()? else { return None };
    let steps =
        usize::try_from(take_varint(&mut rest)?).ok().filter(|steps| *steps <= MAX_STEPS)?;
    let mut columns = [&[][..]; COLUMNS];
    for column in &mut columns {
        let len = usize::try_from(take_varint(&mut rest)?).ok()?;
        (*column, rest) = rest.split_at_checked(len)?;
    }
    let count =
        usize::try_from(take_varint(&mut rest)?).ok().filter(|count| *count <= rest.len())?;
    let mut lens = Vec::with_capacity(count);
    for _ in 0..count {
        lens.push(usize::try_from(take_varint(&mut rest)?).ok()?);
    }
    let mut texts = Vec::with_capacity(count);
    for len in lens {
        let (text, behind) = rest.split_at_checked(len)?;
        texts.push(chunk.slice_ref(text));
        rest = behind;
    }
    let [codes, mut places, mut counts, gaps, removed, kinds, values] = columns;
    let mut reader = TextReader { kinds, values, texts, times: Times::default() };
    let (mut gaps, mut removed) = (gaps, removed);
    if codes.len() != steps || !rest.is_empty() {
        return None;
    }
    let mut next: Option<(usize, u64)> = None;
    let mut read = Vec::with_capacity(steps);
    for code in codes {
        if *code == WHOLE {
            let (kind, behind) = places.split_first()?;
            places = behind;
            let kind = SourceKind::from_code(*kind)?;
            read.push(Step::Whole { kind, suffix: reader.text()?, bytes: reader.text()? });
            continue;
        }
        let (base, at) = match *code {
            NEXT => next?,
            AT => (usize::try_from(take_varint(&mut places)?).ok()?, take_varint(&mut places)?),
            _ => return None,
        };
        next = Some((base, at.checked_add(1)?));
        let mut edits = Vec::new();
        let mut from = 0_usize;
        for _ in 0..take_varint(&mut counts)? {
            let at = from.checked_add(usize::try_from(take_varint(&mut gaps)?).ok()?)?;
            let removed = usize::try_from(take_varint(&mut removed)?).ok()?;
            edits.push(Edit { at, removed, text: reader.text()? });
            from = at.checked_add(removed)?;
        }
        read.push(Step::Take { base, at, edits });
    }
    let is_used = [places, counts, gaps, removed, reader.kinds, reader.values];
    is_used.iter().all(|column| column.is_empty()).then_some(read)
}

/// Texts in the order in which steps use them.
struct TextReader<'a> {
    kinds: &'a [u8],
    values: &'a [u8],
    texts: Vec<Bytes>,
    times: Times,
}

impl TextReader<'_> {
    fn text(&mut self) -> Option<Bytes> {
        let kind = take_varint(&mut self.kinds)?;
        let value = take_varint(&mut self.values)?;
        if kind == TEXT {
            return self.texts.get(usize::try_from(value).ok()?).cloned();
        }
        let digits = usize::try_from(kind - 1).ok()?;
        let last = self.times.get_mut(digits)?;
        *last = last.checked_add(unzigzag(value))?;
        timestamp::format_time(*last, digits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn edit(at: usize, removed: usize, with: &str) -> Edit {
        Edit { at, removed, text: text(with) }
    }

    fn steps() -> Vec<Step> {
        let time = |number| format!("\"2026-08-03T10:00:{number:02}.125Z\"");
        let take = |base, at, edits| Step::Take { base, at, edits };
        let whole = |bytes| Step::Whole { kind: SourceKind::Glue, suffix: text("\n"), bytes };
        vec![
            whole(text("{\"type\":\"meta\"}")),
            take(0, 5, vec![edit(13, 26, &time(0))]),
            take(0, 6, vec![edit(13, 26, &time(1)), edit(50, 3, "\"s\"")]),
            take(1, 0, vec![]),
            take(1, 9, vec![edit(13, 26, &time(0)), edit(50, 3, "\"s\""), edit(53, 0, "")]),
            whole(Bytes::new()),
        ]
    }

    fn chunk(steps: &[Step]) -> Bytes {
        let mut writer = ChunkWriter::default();
        steps.iter().for_each(|step| writer.push(step));
        writer.finish()
    }

    #[test]
    fn steps_come_back_from_a_chunk() {
        assert_eq!(read(&chunk(&steps())).unwrap(), steps());
        assert_eq!(read(&chunk(&[])).unwrap(), []);
    }

    #[test]
    fn a_copy_with_a_new_time_takes_a_few_bytes_of_columns_that_repeat() {
        let mut writer = ChunkWriter::default();
        for at in 0..1000 {
            let time = format!("\"2026-08-03T10:{:02}:{:02}.000Z\"", at / 60, at % 60);
            writer.push(&Step::Take { base: 0, at, edits: vec![edit(13, 26, &time)] });
        }
        let chunk = writer.finish();
        assert!(chunk.len() < 8_100, "{} bytes", chunk.len());
        let different: std::collections::HashSet<u8> = chunk.iter().copied().collect();
        assert!(different.len() < 24, "{different:?}");
    }

    #[test]
    fn no_prefix_and_no_changed_byte_is_read_as_more_than_it_has() {
        let chunk = chunk(&steps());
        for end in 0..chunk.len() {
            assert_eq!(read(&chunk.slice(..end)), None, "cut at {end}");
        }
        for at in 0..chunk.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = chunk.to_vec();
                bytes[at] ^= flip;
                // Any result is fine: reading must only not panic.
                let _ = read(&bytes.into());
            }
        }
    }

    #[test]
    fn edits_outside_of_their_piece_are_refused() {
        let piece = b"{\"a\":1}";
        assert_eq!(apply_edits(piece, &[edit(5, 1, "27")]).unwrap(), b"{\"a\":27}");
        assert_eq!(apply_edits(piece, &[edit(7, 1, "")]), None);
        assert_eq!(apply_edits(piece, &[edit(5, usize::MAX, "")]), None);
        assert_eq!(apply_edits(piece, &[edit(5, 1, ""), edit(4, 1, "")]), None);
    }
}
