//! Recomputes the checksums of changed files, as an attacker can.

use std::path::Path;

use turntree::object::{Checksum, Kind, ObjectId};
use turntree::store::Io;

use crate::sim::SimDisk;

const SUPERBLOCK_BYTES: usize = 96;
const SEGMENT_HEADER_BYTES: usize = 80;
const RECORD_HEADER_BYTES: usize = 120;
const PACK_HEADER_BYTES: usize = 128;
const PACK_FOOTER_BYTES: usize = 216;
const BUNDLE_FOOTER_BYTES: usize = 192;
const FRAME_HEADER_BYTES: usize = 120;
const FRAME_MAGIC: [u8; 8] = *b"\x89TTB\r\n\x1a\n";
const CHECKSUM_BYTES: usize = 32;
/// The mark after the last record once that is durable.
const SYNCED_MARK: [u8; 8] = *b"synced\0\0";

/// Recomputes the checksum of a superblock.
pub fn mend_superblock(file: &mut [u8]) {
    if let Some(block) = file.get_mut(..SUPERBLOCK_BYTES) {
        mend_end(block, "turntree v1 superblock");
    }
}

/// Recomputes the checksum of a manifest.
pub fn mend_manifest(file: &mut [u8]) {
    mend_end(file, "turntree v1 manifest");
}

/// Recomputes every checksum of a segment and the chain of records, as far as their lengths are
/// valid.
pub fn mend_segment(file: &mut [u8]) {
    let Some(header) = file.get_mut(..SEGMENT_HEADER_BYTES) else { return };
    mend_end(header, "turntree v1 segment header");
    let (mut at, mut previous) = (SEGMENT_HEADER_BYTES, [0; CHECKSUM_BYTES]);
    while let Some((next, trailer)) =
        file.get_mut(at..).and_then(|rest| mend_record(rest, previous))
    {
        at += next;
        previous = trailer;
    }
}

/// Recomputes every checksum of a pack, as far as its numbers are valid. Returns its new name
/// without the extension, or `None` if a number points past the end of the file.
#[must_use]
pub fn mend_pack(pack: &mut [u8]) -> Option<String> {
    let footer = pack.len().checked_sub(PACK_FOOTER_BYTES)?;
    let (objects, gone, slots) = (word(pack, 48)?, word(pack, 52)?, word(pack, 56)?);
    // A pack without slots lists no ids.
    let (objects, gone) = if slots == 0 { (0, 0) } else { (objects, gone) };
    let all = objects.checked_add(gone)?;
    let slot_bits = slots.checked_mul((usize::BITS - all.leading_zeros()) as usize)?;
    let ids_bytes = all.checked_mul(32)?.checked_add(gone.checked_mul(2)?)?;
    let frames = ids_bytes.checked_add(slot_bits.div_ceil(8))?.checked_add(PACK_HEADER_BYTES)?;
    let ids = checksum("turntree v1 pack ids", pack.get(PACK_HEADER_BYTES..frames)?);
    put(pack, 64, ids)?;
    put(pack, footer.checked_add(56)?, ids)?;
    mend_end(pack.get_mut(..PACK_HEADER_BYTES)?, "turntree v1 pack header");
    let header: [u8; CHECKSUM_BYTES] = pack.get(96..128)?.try_into().ok()?;
    put(pack, footer + 120, header)?;
    let mut sums = Checksum::new("turntree v1 pack frames");
    let mut at = frames;
    while pack.get(at..footer)?.starts_with(&FRAME_MAGIC) {
        let stored_at = at + FRAME_HEADER_BYTES;
        let end = stored_at.checked_add(word(pack, at + 48)?)?;
        let Some(stored) = pack.get(..footer).and_then(|pack| pack.get(stored_at..end)) else {
            break;
        };
        let stored = checksum("turntree v1 pack frame", stored);
        put(pack, at + 56, stored)?;
        mend_end(pack.get_mut(at..stored_at)?, "turntree v1 pack frame header");
        sums.update(pack.get(at + 88..stored_at)?);
        at = end;
    }
    put(pack, footer + 152, sums.finish())?;
    let table =
        usize::try_from(u64::from_le_bytes(*pack.get(footer + 48..)?.first_chunk()?)).ok()?;
    if let Some(table) = pack.get(table..footer) {
        let table = checksum("turntree v1 pack table", table);
        put(pack, footer + 88, table)?;
    }
    mend_end(pack.get_mut(footer..)?, "turntree v1 pack footer");
    let name = pack.get(pack.len() - CHECKSUM_BYTES..)?;
    Some(name.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Recomputes every checksum of a bundle and the salt of its frames, as far as its numbers are
/// valid. Returns `None` if a number points past the end of the file.
#[must_use]
pub fn mend_bundle(bundle: &mut [u8]) -> Option<()> {
    let footer = bundle.len().checked_sub(BUNDLE_FOOTER_BYTES)?;
    let (text, table) = (long(bundle, footer + 32)?, long(bundle, footer + 48)?);
    let outside = word(bundle, footer + 16)?.checked_mul(34)?;
    let operations = word(bundle, footer + 28)?;
    let mut at = text.checked_add(outside)?.checked_add(operations)?;
    let front = checksum("turntree v1 bundle front", bundle.get(..at)?);
    put(bundle, footer + 64, front)?;
    let mut sums = Checksum::new("turntree v1 pack frames");
    while bundle.get(at..footer)?.starts_with(&FRAME_MAGIC) {
        let stored_at = at + FRAME_HEADER_BYTES;
        let end = stored_at.checked_add(word(bundle, at + 48)?)?;
        let Some(stored) = bundle.get(..footer).and_then(|it| it.get(stored_at..end)) else {
            break;
        };
        let stored = checksum("turntree v1 pack frame", stored);
        bundle.get_mut(at + 8..at + 24)?.copy_from_slice(&front[..16]);
        put(bundle, at + 56, stored)?;
        mend_end(bundle.get_mut(at..stored_at)?, "turntree v1 pack frame header");
        sums.update(bundle.get(at + 88..stored_at)?);
        at = end;
    }
    put(bundle, footer + 128, sums.finish())?;
    if let Some(table) = bundle.get(table..footer) {
        let table = checksum("turntree v1 pack table", table);
        put(bundle, footer + 96, table)?;
    }
    mend_end(bundle.get_mut(footer..)?, "turntree v1 bundle footer");
    Some(())
}

/// Replaces a pack by a changed one, under the name of its new content, and lists that in the
/// manifests. If its numbers point past the end of the file, replaces only the bytes.
///
/// # Panics
/// If the file does not exist.
pub fn replace_pack(disk: &SimDisk, path: &Path, mut bytes: Vec<u8>) {
    let Some(name) = mend_pack(&mut bytes) else {
        return disk.damage(path, bytes);
    };
    let old = path.file_stem().and_then(|stem| stem.to_str()).map(digits).unwrap_or_default();
    for (manifest, mut content) in disk.files() {
        let is_manifest = manifest.to_string_lossy().contains("/manifest-");
        let listed = content.windows(CHECKSUM_BYTES).position(|window| window == old);
        if let Some(at) = listed.filter(|_| is_manifest) {
            content[at..at + CHECKSUM_BYTES].copy_from_slice(&digits(&name));
            mend_manifest(&mut content);
            disk.damage(&manifest, content);
        }
    }
    let new = path.with_file_name(format!("{name}.pack"));
    if new == path {
        disk.damage(path, bytes);
    } else {
        disk.create(&new).unwrap();
        disk.damage(&new, bytes);
        disk.remove(path).unwrap();
    }
}

fn digits(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Recomputes the checksums of the record at the beginning of `bytes`. Returns its length and its
/// trailer.
fn mend_record(
    bytes: &mut [u8],
    previous: [u8; CHECKSUM_BYTES],
) -> Option<(usize, [u8; CHECKSUM_BYTES])> {
    let header = bytes.get_mut(..RECORD_HEADER_BYTES)?;
    if header.starts_with(&SYNCED_MARK) || header.iter().all(|byte| *byte == 0) {
        return None;
    }
    header[56..88].copy_from_slice(&previous);
    mend_end(header, "turntree v1 record header");
    let length = |at: usize| usize::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let (directory, payload) = (length(40), length(48));
    let payload_at = RECORD_HEADER_BYTES.checked_add(directory)?;
    if directory > 0 {
        mend_end(bytes.get_mut(..payload_at)?, "turntree v1 batch directory");
    }
    let trailer_at = payload_at.checked_add(payload)?.checked_next_multiple_of(8)?;
    let end = trailer_at.checked_add(CHECKSUM_BYTES)?;
    mend_end(bytes.get_mut(..end)?, "turntree v1 record trailer");
    Some((end, bytes[trailer_at..end].try_into().ok()?))
}

/// Recomputes the checksum of an `.ids` file from its name and the id of the store.
///
/// # Panics
/// If `name` is not the name of an `.ids` file.
pub fn mend_ids(file: &mut [u8], store: [u8; 16], name: &str) {
    let pack: ObjectId = name.strip_suffix(".ids").unwrap().parse().unwrap();
    let Some(end) = file.len().checked_sub(CHECKSUM_BYTES) else { return };
    let (content, sum) = file.split_at_mut(end);
    let mut good = Checksum::new("turntree v1 derived ids");
    sum.copy_from_slice(&good.update(&store).update(pack.as_bytes()).update(content).finish());
}

/// A derived file with these parts and valid checksums, for a pack, by its name, of a store.
///
/// # Panics
/// If `name` is not the name of a derived file, or a part cannot be compressed.
#[must_use]
pub fn derived_file(parts: &[Vec<u8>], store: [u8; 16], name: &str) -> Vec<u8> {
    let pack: ObjectId = name.strip_suffix(".changes").unwrap().parse().unwrap();
    let mut file = b"\x89TTD\r\n\x1a\n\x01\0\0\0".to_vec();
    file.extend_from_slice(&u32::try_from(parts.len()).unwrap().to_le_bytes());
    let frames: Vec<Vec<u8>> =
        parts.iter().map(|part| zstd::bulk::compress(part, 3).unwrap()).collect();
    for (part, frame) in parts.iter().zip(&frames) {
        file.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_le_bytes());
        file.extend_from_slice(&u32::try_from(part.len()).unwrap().to_le_bytes());
    }
    file.extend(frames.concat());
    let mut sum = Checksum::new("turntree v1 derived file");
    let sum = sum.update(&store).update(pack.as_bytes()).update(&file).finish();
    file.extend_from_slice(&sum);
    file
}

/// The raw bytes of the parts of an intact derived file.
///
/// # Panics
/// If the file is not intact.
#[must_use]
pub fn derived_parts(file: &[u8]) -> Vec<Vec<u8>> {
    let count = word(file, 12).unwrap();
    let mut start = 16 + 8 * count;
    let part = |number: usize| {
        let (stored, raw) =
            (word(file, 16 + 8 * number).unwrap(), word(file, 20 + 8 * number).unwrap());
        let frame = &file[start..start + stored];
        start += stored;
        zstd::bulk::decompress(frame, raw).unwrap()
    };
    (0..count).map(part).collect()
}

/// A derived file whose parts have this raw content one after the other, cut where those of `good`
/// are. The last part has the rest. Its checksums are valid.
///
/// # Panics
/// If `good` is not intact, or the name is not that of a derived file.
#[must_use]
pub fn forged_derived(good: &[u8], mut raw: &[u8], store: [u8; 16], name: &str) -> Vec<u8> {
    let lengths: Vec<usize> = derived_parts(good).iter().map(Vec::len).collect();
    let last = lengths.len().saturating_sub(1);
    let parts = lengths.into_iter().enumerate().map(|(number, len)| {
        let len = if number == last { raw.len() } else { len.min(raw.len()) };
        let (part, rest) = raw.split_at(len);
        raw = rest;
        part.to_vec()
    });
    derived_file(&parts.collect::<Vec<_>>(), store, name)
}

/// The stored bytes of the frames with nodes in a pack.
#[must_use]
pub fn node_frames(pack: &[u8]) -> Vec<std::ops::Range<usize>> {
    let starts = pack.windows(FRAME_MAGIC.len()).enumerate();
    let starts = starts.filter(|(_, part)| *part == FRAME_MAGIC).map(|(at, _)| at);
    let of_nodes = starts.filter(|at| pack.get(at + 28) == Some(&Kind::Node.code()));
    let frame = |at: usize| {
        let start = at + FRAME_HEADER_BYTES;
        Some(start..start + word(pack, at + 48)?)
    };
    of_nodes.filter_map(frame).collect()
}

/// Replaces the checksum at the end by that of all bytes before it.
fn mend_end(bytes: &mut [u8], context: &str) {
    let Some(end) = bytes.len().checked_sub(CHECKSUM_BYTES) else { return };
    let (content, sum) = bytes.split_at_mut(end);
    sum.copy_from_slice(&checksum(context, content));
}

fn checksum(context: &str, bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    Checksum::new(context).update(bytes).finish()
}

fn put(bytes: &mut [u8], at: usize, digest: [u8; CHECKSUM_BYTES]) -> Option<()> {
    bytes.get_mut(at..)?.get_mut(..CHECKSUM_BYTES).map(|room| room.copy_from_slice(&digest))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    usize::try_from(word).ok()
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let word = u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    usize::try_from(word).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn a_whole_file_is_as_it_was() {
        let sample = Sample::small(6);
        for (path, bytes) in sample.disk.files() {
            let mut mended = bytes.clone();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match name.rsplit_once('.') {
                Some((stem, "pack")) => assert_eq!(mend_pack(&mut mended).as_deref(), Some(stem)),
                Some((_, "seg")) => mend_segment(&mut mended),
                _ if name.starts_with("manifest-") => mend_manifest(&mut mended),
                _ if name == "superblock" => mend_superblock(&mut mended),
                _ => {}
            }
            assert!(mended == bytes, "{name}");
        }
    }
}
