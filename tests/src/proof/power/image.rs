//! The bytes of a disk, and those that remain after a power cut.
//!
//! A disk may keep writes in its cache until it must flush. So after a cut it has all writes up to
//! the last flush, and any part of the later ones: any of the writes, and any of the sectors of
//! each.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::device::Event;
use crate::sim::Random;

const PAGE: usize = 4096;

/// The units that disks write atomically: old disks, and current ones.
const SECTORS: [usize; 2] = [512, PAGE];

/// The bytes of a disk, most of which are zeros. A clone costs as much as a list of its pages.
#[derive(Debug, Clone)]
pub struct Image {
    bytes: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    /// Reads an image from a file.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut image = Self { bytes: file.metadata()?.len(), pages: BTreeMap::new() };
        let mut page = [0; PAGE];
        for number in 0..image.bytes / PAGE as u64 {
            file.read_exact_at(&mut page, number * PAGE as u64)?;
            if page != [0; PAGE] {
                image.pages.insert(number, Arc::new(page));
            }
        }
        Ok(image)
    }

    /// Writes the image to a new file, with holes for zeros.
    ///
    /// # Errors
    /// Errors of writing the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.bytes)?;
        for (number, page) in &self.pages {
            file.write_all_at(&**page, number * PAGE as u64)?;
        }
        Ok(())
    }

    /// The length.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes at `offset`, with zeros after the end of the image.
    #[must_use]
    pub fn get(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (number, within, part) in parts(offset, length) {
            if let Some(page) = self.pages.get(&number) {
                bytes[part].copy_from_slice(&page[within]);
            }
        }
        bytes
    }

    /// Changes the bytes at `offset`.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        for (number, within, part) in parts(offset, bytes.len()) {
            let page = self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[within].copy_from_slice(&bytes[part]);
        }
    }
}

/// The pages of a range: the number, the range in the page, and the range in the whole.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = usize::try_from(at % PAGE as u64).expect("less than a page");
        let part = (length - done).min(PAGE - within);
        let item = (at / PAGE as u64, within..within + part, done..done + part);
        done += part;
        (part > 0).then_some(item)
    })
}

/// A power cut: its time, and the unflushed data that the disk kept.
#[derive(Debug, Clone, Hash)]
pub struct Cut {
    /// Events before it.
    pub moment: usize,
    /// The number of events up to the last flush before it, all of which are kept.
    pub flushed: usize,
    /// The kept parts of later writes.
    kept: Vec<(usize, Range<usize>)>,
}

impl Cut {
    /// Draws the kept data at a moment: nothing, everything, some of the writes, or some of their
    /// sectors.
    #[must_use]
    pub fn draw(events: &[Event], moment: usize, random: &mut Random) -> Self {
        let before = &events[..moment];
        let flushed = before.iter().rposition(|event| matches!(event, Event::Flush));
        let flushed = flushed.map_or(0, |at| at + 1);
        let (torn, sector) = (random.below(2) == 0, SECTORS[random.below(SECTORS.len())]);
        let of_four = random.below(5);
        let mut kept = Vec::new();
        for (number, event) in before.iter().enumerate().skip(flushed) {
            let Event::Write { bytes, .. } = event else { continue };
            let step = if torn { sector } else { bytes.len() };
            for start in (0..bytes.len()).step_by(step) {
                if random.below(4) < of_four {
                    kept.push((number, start..(start + step).min(bytes.len())));
                }
            }
        }
        Self { moment, flushed, kept }
    }

    /// Distinguishes this image from others of the same recording.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.flushed, &self.kept).hash(&mut hasher);
        hasher.finish()
    }

    /// Adds the kept data to an image of the last flush.
    pub fn apply(&self, events: &[Event], image: &mut Image) {
        for (number, range) in &self.kept {
            if let Some(Event::Write { offset, bytes }) = events.get(*number) {
                image.put(offset + range.start as u64, &bytes[range.clone()]);
            }
        }
    }
}
