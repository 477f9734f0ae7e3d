//! The layout of an enciphered file: stretches of content, with heads between them.
//!
//! ```text
//!  0     64          4096  4160           65536 65600            131072
//!  | head | content   | head | content     | head | content       | head | ...
//! ```
//!
//! All heads of a file are equal. Each contains the nonce and a mark, twice; the mark is eight
//! bytes derived from the key and the nonce. One intact head suffices, so no single sector of a
//! file can make the others unreadable, except in a file of less than 4 KiB.

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = 64;
/// The bytes of a head, as a distance in a file.
pub(super) const HEAD: u64 = HEAD_BYTES as u64;

/// The place of the second head; the third and all later ones are at multiples of [`STRIDE`].
const SECOND: u64 = 4096;
const STRIDE: u64 = 65_536;

/// Bytes of content after the first head, and after the first two.
const FIRST_ROOM: u64 = SECOND - HEAD;
const FRONT_ROOM: u64 = FIRST_ROOM + STRIDE - SECOND - HEAD;
const ROOM: u64 = STRIDE - HEAD;

/// A stretch of content between two heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The offset of its head in the file.
    pub(super) head: u64,
    /// The offset of its content.
    pub(super) start: u64,
    /// Bytes of content in it.
    pub(super) room: u64,
}

impl Extent {
    /// Returns the stretch that holds the content at `offset`.
    pub(super) fn at(offset: u64) -> Self {
        if offset < FIRST_ROOM {
            return Self { head: 0, start: 0, room: FIRST_ROOM };
        }
        let Some(behind) = offset.checked_sub(FRONT_ROOM) else {
            return Self { head: SECOND, start: FIRST_ROOM, room: FRONT_ROOM - FIRST_ROOM };
        };
        let number = behind / ROOM;
        let head = STRIDE.saturating_add(number.saturating_mul(STRIDE));
        Self { head, start: FRONT_ROOM + number * ROOM, room: ROOM }
    }

    /// Returns the offset in the file of the content at `offset`, which must be in this stretch.
    pub(super) fn place(&self, offset: u64) -> u64 {
        (offset - self.start).saturating_add(self.head).saturating_add(HEAD)
    }

    /// Returns the end of the stretch, as an offset in the content.
    pub(super) fn end(&self) -> u64 {
        self.start + self.room
    }
}

/// Returns the bytes of content in a file of `file` bytes.
pub(super) fn content_bytes(file: u64) -> u64 {
    let (head, start) = if file < SECOND {
        (0, 0)
    } else if file < STRIDE {
        (SECOND, FIRST_ROOM)
    } else {
        let number = file / STRIDE - 1;
        ((number + 1) * STRIDE, FRONT_ROOM + number * ROOM)
    };
    start + (file - head).saturating_sub(HEAD)
}

/// Returns the offsets of the heads in a file of `file` bytes, in ascending order.
pub(super) fn places(file: u64) -> impl Iterator<Item = u64> {
    let far = (1..=file / STRIDE).map(|number| number * STRIDE);
    [0, SECOND].into_iter().chain(far).take_while(move |place| place + HEAD <= file)
}

/// Returns true if a file that begins with these bytes has only zeros outside of its heads, after
/// `first` bytes of content (at most 4 KiB): no other content was ever written to it. Its heads may
/// be damaged.
pub(super) fn is_empty_after(file: &[u8], first: usize) -> bool {
    let far = (1..=file.len() as u64 / STRIDE).map(|number| number * STRIDE);
    let heads = [SECOND].into_iter().chain(far).chain([u64::MAX]);
    let mut from = HEAD_BYTES + first;
    heads.map(|head| usize::try_from(head).unwrap_or(usize::MAX).min(file.len())).all(|head| {
        let content = file.get(from..head).unwrap_or_default();
        from = head + HEAD_BYTES;
        content.iter().all(|byte| *byte == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_lies_between_heads_without_gaps() {
        let mut at = 0;
        let mut place = 0;
        for stretch in 0..5 {
            let found = Extent::at(at);
            assert_eq!((found.start, found.head), (at, place), "stretch {stretch}");
            assert_eq!(found, Extent::at(found.end() - 1));
            assert_eq!(found.place(at), place + HEAD);
            (at, place) = (found.end(), found.head + HEAD + found.room);
        }
        assert_eq!(place, 4 * STRIDE);
        assert_eq!(
            places(place + 64).collect::<Vec<_>>(),
            [0, 4096, 65536, 131_072, 196_608, 262_144]
        );
    }

    #[test]
    fn pieces_of_heads_and_what_a_file_begins_with_are_no_content() {
        let file = |bytes: usize, marks: &[usize]| {
            let mut file = vec![0; bytes];
            marks.iter().for_each(|at| file[*at] = 1);
            file
        };
        for (bytes, marks) in [(0, &[] as &[usize]), (30, &[2]), (5000, &[63, 4096, 4159])] {
            assert!(is_empty_after(&file(bytes, marks), 0), "{bytes} {marks:?}");
        }
        assert!(is_empty_after(&file(65_565, &[65_536, 65_564]), 0));
        for (bytes, mark) in [(70, 64), (5000, 4095), (5000, 4160), (65_700, 65_600)] {
            assert!(!is_empty_after(&file(bytes, &[mark]), 0), "{bytes} {mark}");
        }
        assert!(is_empty_after(&file(5000, &[64, 143]), 80));
        assert!(!is_empty_after(&file(5000, &[144]), 80));
    }

    #[test]
    fn the_size_of_a_file_tells_that_of_its_content() {
        for content in [0, 1, 4031, 4032, 4033, 65_407, 65_408, 65_409, 130_880, 130_881, 1 << 40] {
            let file = match content {
                0 => 0,
                _ => Extent::at(content - 1).place(content - 1) + 1,
            };
            assert_eq!(content_bytes(file), content, "{content} in {file}");
        }
        assert_eq!([1, 63, 64, 65].map(content_bytes), [0, 0, 0, 1]);
        assert_eq!([4096, 4100, 4160, 4161].map(content_bytes), [4032, 4032, 4032, 4033]);
    }
}
