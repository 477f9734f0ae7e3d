//! Copied beginnings: pieces are read back as written, and hostile chunks are refused.

use super::*;
use crate::context::{Builder, export_source, salvage_source};
use crate::object::Memory;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn record(number: usize, time: usize, session: &str) -> Bytes {
    let words = "word ".repeat(20 + number % 7);
    bytes(&format!(
        "{{\"timestamp\":\"2026-08-03T10:00:{time:02}.000Z\",\"session\":\"{session}\",\"payload\":\"{words}{number}\"}}"
    ))
}

fn piece(record: Bytes) -> (SourceKind, Bytes, Bytes) {
    (SourceKind::Record, Bytes::from_static(b"\n"), record)
}

/// Returns a context whose transcript is `records`.
fn origin(objects: &mut Memory, records: &[Bytes]) -> Context {
    let mut builder = Builder::new();
    for record in records {
        let blob = objects.write(Kind::Blob, record.clone()).unwrap();
        let entry = SourceEntry { blob, kind: SourceKind::Record, suffix: bytes("\n") };
        builder.push(objects, SOURCE, entry.to_item().unwrap()).unwrap();
    }
    open(objects, &mut builder)
}

fn open(objects: &mut Memory, builder: &mut Builder) -> Context {
    let tree = builder.write(objects).unwrap();
    Context::open(objects, &tree).unwrap()
}

fn exported(objects: &Memory, context: &Context) -> String {
    let mut out = Vec::new();
    export_source(objects, context, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn text(records: &[Bytes]) -> String {
    records.iter().map(|record| String::from_utf8(record.to_vec()).unwrap() + "\n").collect()
}

/// Returns a fork of `origin` with a line of its own, then copies of the origin's records from
/// `from` on, then another line of its own.
fn fork(objects: &mut Memory, origin: &Context, from: usize, all: &[Bytes]) -> Context {
    let list = Transcript::open(objects, origin).unwrap().own().clone();
    let mut copies = CopyWriter::default();
    let (first, rest) = all.split_first().unwrap();
    let (kind, suffix, line) = piece(first.clone());
    copies.whole(objects, (kind, &suffix, &line)).unwrap();
    let (last, copied) = rest.split_last().unwrap();
    for (at, record) in (from as u64..).zip(copied) {
        let (kind, suffix, record) = piece(record.clone());
        copies.copy(objects, (&list, at), (kind, &suffix, &record)).unwrap();
    }
    let mut builder = Builder::new();
    copies.finish(objects, &mut builder).unwrap();
    let blob = objects.write(Kind::Blob, last.clone()).unwrap();
    let entry = SourceEntry { blob, kind: SourceKind::Record, suffix: bytes("\n") };
    builder.push(objects, SOURCE, entry.to_item().unwrap()).unwrap();
    open(objects, &mut builder)
}

#[test]
fn a_fork_comes_back_byte_for_byte_and_costs_its_differences() {
    let mut objects = Memory::new();
    let records: Vec<Bytes> = (0..10_000).map(|it| record(it, it % 60, "a")).collect();
    let origin = origin(&mut objects, &records);
    let mut copies = vec![bytes("{\"type\":\"meta\"}")];
    copies.extend((100..9_000).map(|it| record(it, (it + 7) % 60, "b")));
    copies.push(record(1, 1, "b"));
    let before = objects.len();
    let context = fork(&mut objects, &origin, 100, &copies);
    assert_eq!(exported(&objects, &context), text(&copies));
    assert_eq!(exported(&objects, &origin), text(&records));
    assert!(objects.len() - before < 20, "{} new objects", objects.len() - before);

    let transcript = Transcript::open(&objects, &context).unwrap();
    assert_eq!((transcript.len(), transcript.copied()), (8_902, 8_901));
    assert_eq!(transcript.bases().len(), 1);
    assert_eq!(transcript.bases()[0].len(), 9_000, "no more is kept than copies need");
    let places = transcript.places(&objects).unwrap();
    assert_eq!((places[0], places[1], places[8_900]), (None, Some((0, 100)), Some((0, 8_999))));
    for range in [0..3, 4_094..4_099, 8_899..8_902, 8_901..9_999, 7..7_usize] {
        let there: Vec<Bytes> = transcript
            .pieces(&objects, range.start as u64..range.end as u64)
            .map(|piece| piece.unwrap().bytes(&objects).unwrap())
            .collect();
        let end = range.end.min(copies.len());
        assert_eq!(there, copies[range.start..end], "{range:?}");
    }
}

#[test]
fn pieces_that_are_no_copies_or_out_of_order_are_kept_whole() {
    let mut objects = Memory::new();
    let records: Vec<Bytes> = (0..4).map(|it| record(it, it, "a")).collect();
    let origin = origin(&mut objects, &records);
    let list = Transcript::open(&objects, &origin).unwrap().own().clone();
    let mut copies = CopyWriter::default();
    let pieces = [
        (2, piece(record(2, 9, "b"))),
        (1, piece(record(1, 9, "b"))),
        (3, piece(record(8, 9, "b"))),
        (3, (SourceKind::Glue, bytes("\n"), record(3, 9, "b"))),
        (3, (SourceKind::Record, bytes(",\n"), record(3, 9, "b"))),
        (9, piece(record(3, 9, "b"))),
        (3, piece(record(3, 9, "b"))),
    ];
    for (at, (kind, suffix, bytes)) in &pieces {
        copies.copy(&mut objects, (&list, *at), (*kind, suffix, bytes)).unwrap();
    }
    let mut builder = Builder::new();
    copies.finish(&mut objects, &mut builder).unwrap();
    let context = open(&mut objects, &mut builder);
    let transcript = Transcript::open(&objects, &context).unwrap();
    let places = transcript.places(&objects).unwrap();
    assert_eq!(places, [Some((0, 2)), None, None, None, None, None, Some((0, 3))]);
    for (found, (_, (kind, suffix, bytes))) in transcript.pieces(&objects, 0..9).zip(&pieces) {
        let found = found.unwrap();
        assert_eq!((found.kind, &found.suffix), (*kind, suffix));
        assert_eq!(found.bytes(&objects).unwrap(), *bytes);
        assert_eq!(found.entry().blob, ObjectId::of(Kind::Blob, bytes));
    }
}

#[test]
fn a_transcript_is_cleared_and_carried_with_its_bases() {
    let mut objects = Memory::new();
    let records: Vec<Bytes> = (0..4).map(|it| record(it, it, "a")).collect();
    let origin = origin(&mut objects, &records);
    let all = [&[bytes("{}")], &records[..]].concat();
    let forked = fork(&mut objects, &origin, 0, &all);
    let mut builder = Builder::from(origin.clone());
    builder.set_transcript_as_in(&mut objects, &forked).unwrap();
    let carried = open(&mut objects, &mut builder);
    assert_eq!(exported(&objects, &carried), text(&all));
    builder.set_transcript_as_in(&mut objects, &origin).unwrap();
    let back = open(&mut objects, &mut builder);
    assert_eq!(back.sections(&objects).unwrap().into_keys().collect::<Vec<_>>(), [SOURCE]);
    let mut builder = Builder::from(forked);
    builder.clear_transcript(&mut objects).unwrap();
    let empty = open(&mut objects, &mut builder);
    assert!(Transcript::open(&objects, &empty).unwrap().is_empty());
    assert!(empty.sections(&objects).unwrap().is_empty());
}

/// Returns a context whose copies are `steps` of a chunk that declares `pieces` pieces.
fn hostile(objects: &mut Memory, origin: &Context, steps: &[Step], pieces: u16) -> Context {
    let mut chunk = edits::ChunkWriter::default();
    steps.iter().for_each(|step| chunk.push(step));
    let blob = objects.write(Kind::Blob, chunk.finish()).unwrap();
    let mut builder = Builder::new();
    let list = Transcript::open(objects, origin).unwrap().own().clone();
    builder.set_list_root(&base_section(0), list);
    builder.push(objects, SOURCE_COPIED, chunk_item(blob, pieces)).unwrap();
    open(objects, &mut builder)
}

#[test]
fn hostile_copies_are_corrupt_and_never_larger_than_their_bases() {
    let mut objects = Memory::new();
    let records: Vec<Bytes> = (0..4).map(|it| record(it, it, "a")).collect();
    let origin = origin(&mut objects, &records);
    let take = |base, at, edits| Step::Take { base, at, edits };
    let far = edits::Edit { at: 1 << 40, removed: 0, text: Bytes::new() };
    for (steps, pieces) in [
        (vec![take(0, 1, vec![]), take(0, 1, vec![])], 2),
        (vec![take(0, 2, vec![]), take(0, 1, vec![])], 2),
        (vec![take(0, 4, vec![])], 1),
        (vec![take(1, 0, vec![])], 1),
        (vec![take(0, 0, vec![far])], 1),
        (vec![take(0, 0, vec![])], 2),
        (vec![], 7),
    ] {
        let context = hostile(&mut objects, &origin, &steps, pieces);
        let mut out = Vec::new();
        let error = export_source(&objects, &context, &mut out).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt, "{steps:?}");
        let salvaged = salvage_source(&objects, &context, &mut Vec::new()).unwrap();
        assert!(salvaged.whole < pieces.into(), "{steps:?}");
    }
}
