//! Tests of crafted packs: all checksums are good, and anything else may be wrong.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;

use super::damage::{crafted, file, small};
use super::round_trip::{STORE, Sample, open};
use crate::object::{Checksum, verify};
use crate::store::pack::format::layout::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, IdsInfo, frames_checksum, ids_checksum, stored_checksum,
    table_checksum,
};
use crate::store::pack::*;

/// A change of a pack: bytes that replace other bytes.
#[derive(Debug, Clone)]
struct Tampering {
    at: Index,
    old: usize,
    new: Vec<u8>,
}

fn change() -> impl Strategy<Value = Tampering> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(&[0, 1, 127, 128, 254, 255][..])];
    let new = prop::collection::vec(byte, 1..5);
    (any::<Index>(), new, 0..8_usize).prop_map(|(at, new, shape)| {
        // Mostly of the same length, so that later bytes keep their offset.
        let old = if shape < 6 { new.len() } else { shape - 6 };
        Tampering { at, old, new }
    })
}

/// Corrects all checksums, as far as the lengths allow; returns the name of the pack.
pub(super) fn mend(pack: &mut [u8]) -> Option<PackId> {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().map(|w| u32::from_le_bytes(*w));
    let put = |bytes: &mut [u8], at: usize, digest: Digest| {
        bytes.get_mut(at..at + 32).map(|room| room.copy_from_slice(&digest))
    };
    let sum = |context: &str, bytes: &[u8]| Checksum::new(context).update(bytes).finish();
    let footer = pack.len().checked_sub(FOOTER_BYTES)?;
    let [objects, gone, slots] = [word(pack, 48)?, word(pack, 52)?, word(pack, 56)?];
    let ids = IdsInfo { objects, gone, slots, checksum: [0; 32] };
    objects.checked_add(gone)?;
    let mut at = ids.end().filter(|end| *end <= footer)?;
    let checksum = ids_checksum([&pack[HEADER_BYTES..at]]);
    put(pack, 64, checksum)?;
    put(pack, footer + 56, checksum)?;
    let header = sum("turntree v1 pack header", &pack[..96]);
    put(pack, 96, header)?;
    put(pack, footer + 120, header)?;
    let mut frames = frames_checksum();
    while pack.get(at..footer)?.starts_with(&FRAME_MAGIC) {
        let stored_bytes = word(pack, at + 48)? as usize;
        let Some(stored) =
            pack[at..footer].get(FRAME_HEADER_BYTES..).and_then(|b| b.get(..stored_bytes))
        else {
            break;
        };
        let checksum = stored_checksum(stored);
        put(pack, at + 56, checksum)?;
        let checksum = sum("turntree v1 pack frame header", &pack[at..at + 88]);
        put(pack, at + 88, checksum)?;
        frames.update(&checksum);
        at += FRAME_HEADER_BYTES + stored_bytes;
    }
    put(pack, footer + 152, frames.finish())?;
    let table = u64::from_le_bytes(*pack.get(footer + 48..)?.first_chunk()?);
    let table = pack.get(usize::try_from(table).ok()?..footer).map(table_checksum);
    put(pack, footer + 88, table.unwrap_or_default())?;
    let name = sum("turntree v1 pack footer", &pack[footer..footer + 184]);
    put(pack, footer + 184, name)?;
    Some(PackId(name))
}

/// The small pack with its ids listed, and without them.
static SMALL: LazyLock<[(Sample, Vec<u8>, PackId); 2]> =
    LazyLock::new(|| [small(true), without_ids(small(true).0)]);

/// Writes the pack of a sample without listing its ids.
pub(super) fn without_ids(sample: Sample) -> (Sample, Vec<u8>, PackId) {
    let dir = tempfile::tempdir().unwrap();
    let written = sample.write_as(dir.path(), Tier::Hot, false).unwrap();
    sample.assert_in(&open(dir.path(), written.id).unwrap());
    let bytes = std::fs::read(dir.path().join(written.id.file_name())).unwrap();
    (sample, bytes, written.id)
}

turntree_properties::properties! {
    cases = 1000;

    #[test]
    fn whatever_a_pack_says_no_wrong_byte_passes(
        changes in prop::collection::vec(change(), 1..4),
        form in 0..2_usize,
    ) {
        let (sample, mut bytes) = (&SMALL[form].0, SMALL[form].1.clone());
        for Tampering { at, old, new } in changes {
            let at = at.index(bytes.len());
            bytes.splice(at..(at + old).min(bytes.len()), new);
        }
        let Some(id) = mend(&mut bytes) else { return Ok(()) };
        let file = file(bytes);
        let cache = BlockCache::new(1 << 16);
        if let Ok(pack) = Pack::open(&file, id, STORE) {
            for item in &sample.items {
                let listed = pack.starting_with(&item.id.short(6).parse().unwrap());
                prop_assert!(listed.count() <= 2);
                if let Some(PackLookup::Object { ordinal, kind }) = pack.find(&item.id)
                    && let Ok(bytes) = pack.read(ordinal, &cache)
                    && verify(kind, &bytes, &item.id).is_ok()
                {
                    prop_assert_eq!(kind, item.kind);
                }
            }
            for ordinal in 0..pack.len().min(20) {
                let _ = (pack.id_at(ordinal), pack.block_of(ordinal), pack.stored_share(ordinal, &cache));
            }
            let _ = (pack.tombstones().count(), pack.verify_frames());
        }
        if let Ok(rebuilt) = RecoveredObjects::read_frames(&file, id, STORE, &cache) {
            let _ = (rebuilt.tombstones().count(), rebuilt.findings());
            for (ordinal, id, kind) in rebuilt.objects() {
                verify(kind, &rebuilt.read(ordinal, &cache).unwrap(), &id).unwrap();
            }
        }
    }

    #[test]
    fn any_block_is_read_or_refused(
        raw in prop::collection::vec(prop_oneof![0..16_u8, any::<u8>()], 1..80),
        objects in 1..6_u32,
    ) {
        prop_assume!(raw.len() >= objects as usize);
        let (bytes, id) = crafted(&raw, objects, |_| {});
        let (file, cache) = (file(bytes), BlockCache::new(1 << 16));
        let pack = Pack::open(&file, id, STORE).unwrap();
        let read = |ordinal| pack.read(ordinal, &cache).ok();
        let rebuilt = RecoveredObjects::read_frames(&file, id, STORE, &cache).unwrap();
        prop_assert_eq!(rebuilt.objects().count(), (0..objects).filter_map(read).count());
    }
}
