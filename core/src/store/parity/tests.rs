//! Tests parity against the damage that it promises to survive, and against hostile bytes.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;

use super::shape::{Shape, UnitPlace, UnitRole};
use super::unit::{HEADER_BYTES, MAGIC};
use super::*;
use crate::error::{Error, ErrorKind, Result};
use crate::store::io::{Io, ReadAt, RealIo};

/// Bytes in memory.
#[derive(Debug)]
struct Memory(Vec<u8>);

impl ReadAt for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// Returns incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(draw).take(bytes).collect()
}

/// Returns a content followed by its parity.
fn protected(content: &[u8], percent: u8) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = RealIo.create(&folder.path().join("file")).unwrap();
    file.write_at(content, 0).unwrap();
    let bytes = append_parity(&file, ParityShare::new(percent).unwrap()).unwrap();
    let whole = file.map().unwrap().bytes().to_vec();
    assert_eq!(whole.len() as u64, content.len() as u64 + bytes);
    whole
}

/// Restores the content of a damaged file.
fn restore_content(damaged: Vec<u8>) -> Result<Vec<u8>> {
    let file: Arc<dyn ReadAt> = Arc::new(Memory(damaged));
    let none = || Error::not_found("no parity");
    let parity = Parity::find_appended(&file)?.ok_or_else(none)?;
    let damage = parity.examine(&*file)?;
    let mended = parity.restore_content(file, &damage)?;
    let mut content = vec![0; usize::try_from(mended.size().unwrap()).unwrap()];
    assert_eq!(mended.read_at(&mut content, 0).unwrap(), content.len());
    // Reading in pieces gives the same bytes.
    for (at, piece) in content.chunks(777).enumerate() {
        let mut found = vec![0; piece.len()];
        mended.read_at(&mut found, (at * 777) as u64).unwrap();
        assert!(found == piece, "other bytes from {}", at * 777);
    }
    Ok(content)
}

fn shape(bytes: usize, percent: u8) -> Shape {
    Shape::choose(bytes as u64, ParityShare::new(percent).unwrap()).unwrap()
}

/// Returns the byte range of the unit at a position.
fn unit_range(shape: &Shape, position: usize) -> std::ops::Range<usize> {
    let unit = HEADER_BYTES + shape.shard_bytes as usize;
    let start = usize::try_from(shape.content_bytes).unwrap() + position * unit;
    start..start + unit
}

#[test]
fn a_run_of_lost_sectors_is_restored_wherever_it_lies() {
    let content = noise(150_000);
    let whole = protected(&content, 5);
    let shape = shape(content.len(), 5);
    // A run of this many whole shards, at any offset, touches one more.
    let run = (shape.recovery as usize - 1) * shape.shard_bytes as usize;
    assert!(run * 20 >= content.len() * 9 / 10, "{run}");
    for start in (0..whole.len()).step_by(509) {
        let mut damaged = whole.clone();
        let end = (start + run).min(whole.len());
        damaged[start..end].fill(0xA5);
        assert!(restore_content(damaged).unwrap() == content, "lost {start}..{end}");
    }
}

#[test]
fn a_torn_end_costs_nothing_while_its_parity_is_not_gone_whole() {
    let content = noise(60_000);
    let whole = protected(&content, 10);
    for left in (content.len() + 2_000..whole.len()).step_by(211) {
        assert!(restore_content(whole[..left].to_vec()).unwrap() == content, "torn at {left}");
    }
}

#[test]
fn more_damage_than_promised_is_an_error_and_never_other_bytes() {
    let content = noise(100_000);
    let whole = protected(&content, 5);
    let mut damaged = whole.clone();
    damaged[..20_000].fill(0);
    assert_eq!(restore_content(damaged).unwrap_err().kind(), ErrorKind::Corrupt);
    // Without parity, no parity is found.
    let kind = restore_content(content).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::NotFound);
}

#[test]
fn every_unit_has_a_place_of_its_own() {
    for (bytes, percent) in [(1, 1), (511, 5), (300_000, 7), (40 << 20, 5), (200 << 20, 100)] {
        let shape = shape(bytes, percent);
        let places: Vec<UnitPlace> = shape.places().collect();
        let of = |role| places.iter().filter(|place| place.role == role).count() as u64;
        assert_eq!(places.len() as u64, shape.units());
        assert_eq!(of(UnitRole::Table), shape.table_shards());
        assert_eq!(of(UnitRole::TableRecovery), shape.table_recovery());
        assert_eq!(of(UnitRole::Recovery), shape.recovery_units());
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), places.len());
        let groups = (0..shape.groups()).map(|group| shape.group_len(group)).sum::<u64>();
        assert_eq!(groups, shape.shards());
    }
}

#[test]
fn a_share_is_a_percentage_and_an_empty_file_has_nothing_to_protect() {
    assert_eq!(ParityShare::new(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(ParityShare::new(101).unwrap_err().kind(), ErrorKind::InvalidInput);
    let folder = tempfile::tempdir().unwrap();
    let file = RealIo.create(&folder.path().join("file")).unwrap();
    let error = append_parity(&file, ParityShare::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn several_groups_share_a_run_of_lost_sectors() {
    let content = noise(40 << 20);
    let whole = protected(&content, 1);
    let shape = shape(content.len(), 1);
    assert_eq!(shape.groups(), 2);
    let run = 2 * shape.recovery as usize * shape.shard_bytes as usize;
    let mut damaged = whole.clone();
    damaged[8_192..8_192 + run].fill(0);
    assert!(restore_content(damaged).unwrap() == content);
    let mut damaged = whole;
    damaged[8_192..=8_192 + run].fill(0);
    assert_eq!(restore_content(damaged).unwrap_err().kind(), ErrorKind::Corrupt);
}

turntree_properties::properties! {
    cases = 48;

    /// Restores any lost shards, up to the number of intact recovery shards.
    #[test]
    fn any_shards_within_the_promise_are_restored(
        bytes in 1_usize..80_000,
        percent in 1_u8..40,
        picks in prop::collection::vec(any::<Index>(), 0..60),
        from_parity in any::<bool>(),
    ) {
        let content = noise(bytes);
        let mut damaged = protected(&content, percent);
        let shape = shape(bytes, percent);
        let recovery = shape.recovery as usize;
        let places: Vec<UnitPlace> = shape.places().collect();
        let lost_units = if from_parity { recovery / 2 } else { 0 };
        let recovery_at = (0..places.len()).filter(|at| places[*at].role == UnitRole::Recovery);
        for position in recovery_at.take(lost_units) {
            let middle = unit_range(&shape, position).start + HEADER_BYTES;
            damaged[middle] ^= 1;
        }
        let shards = usize::try_from(shape.shards()).unwrap();
        let lost: HashSet<usize> = picks.iter().map(|pick| pick.index(shards)).collect();
        for shard in lost.into_iter().take(recovery - lost_units) {
            let (offset, len) = shape.shard(shard as u64);
            let offset = usize::try_from(offset).unwrap();
            damaged[offset + len / 2] ^= 0x40;
        }
        prop_assert!(restore_content(damaged).unwrap() == content);
    }

    /// Reads the table after any half of its units is lost.
    #[test]
    fn the_table_is_read_from_any_half_of_its_units(picks in prop::collection::vec(any::<Index>(), 0..40)) {
        let content = noise(220_000);
        let mut damaged = protected(&content, 5);
        let shape = shape(content.len(), 5);
        let places: Vec<UnitPlace> = shape.places().collect();
        let of_table: Vec<usize> =
            (0..places.len()).filter(|at| places[*at].role != UnitRole::Recovery).collect();
        let lost: HashSet<usize> = picks.iter().map(|pick| *pick.get(&of_table)).collect();
        for position in lost.into_iter().take(of_table.len() / 2) {
            damaged[unit_range(&shape, position)].fill(0);
        }
        damaged[1_000] ^= 1;
        prop_assert!(restore_content(damaged).unwrap() == content);
    }

    /// Hostile bytes give a result or an error, and take little memory.
    #[test]
    fn hostile_bytes_are_no_parity(
        start in prop::collection::vec(any::<u8>(), 0..2_000),
        headers in prop::collection::vec((any::<Index>(), prop::collection::vec(any::<u8>(), 0..80)), 0..20),
    ) {
        let mut bytes = start;
        bytes.resize(bytes.len().max(600), 0);
        for (at, rest) in headers {
            let at = at.index(bytes.len());
            let unit: Vec<u8> = MAGIC.iter().chain(&1_u32.to_le_bytes()).chain(&rest).copied().collect();
            let end = (at + unit.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&unit[..end - at]);
        }
        prop_assert!(restore_content(bytes).is_err());
    }

    /// Valid units of another file's shape are damage, not a panic.
    #[test]
    fn units_of_other_files_restore_nothing(cut in any::<Index>(), bytes in 600_usize..9_000) {
        let (one, other) = (protected(&noise(bytes), 20), protected(&noise(7_777), 20));
        let at = cut.index(one.len());
        let joined: Vec<u8> = one[..at].iter().chain(&other[7_777..]).copied().collect();
        let _ = restore_content(joined);
    }
}

/// A file on a disk that fails to read some of its bytes.
#[derive(Debug)]
struct Refusing(Memory, Vec<std::ops::Range<u64>>);

impl ReadAt for Refusing {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = offset + buffer.len() as u64;
        match self.1.iter().any(|refused| refused.start < end && offset < refused.end) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.0.read_at(buffer, offset),
        }
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

#[test]
fn sectors_that_the_disk_refuses_are_restored() {
    let content = noise(100_000);
    let whole = protected(&content, 5);
    let (first, last) = (51_200..53_248, whole.len() as u64 - 512..whole.len() as u64);
    let file = Refusing(Memory(whole), vec![first.clone(), last]);
    let protected = Protected::open(Arc::new(file)).unwrap();
    let damage = protected.damage().unwrap();
    assert_eq!((damage.damaged.len(), damage.can_restore), (4, true), "{damage:?}");
    let mut found = vec![0; content.len()];
    assert_eq!(protected.content().read_at(&mut found, 0).unwrap(), content.len());
    assert_eq!(found, content);
    // Without parity, reading a refused sector is an error.
    let bare = Refusing(Memory(content), vec![first]);
    let bare = Protected::open(Arc::new(bare)).unwrap().content();
    assert!(bare.read_at(&mut found, 0).is_err());
}
