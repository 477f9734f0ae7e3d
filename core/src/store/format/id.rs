//! The random names of stores and segments.

use std::fmt;

/// The identity of a store. Never changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct StoreId(pub(in crate::store) [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// The random name of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::store) struct SegmentId(pub(in crate::store) [u8; 16]);

impl SegmentId {
    /// Returns the id in a file name `<32 hex digits>.seg`.
    pub(in crate::store) fn from_file_name(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".seg")?;
        let canonical = digits.len() == 32
            && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let value = canonical.then(|| u128::from_str_radix(digits, 16).ok())??;
        Some(Self(value.to_be_bytes()))
    }

    pub(in crate::store) fn file_name(self) -> String {
        format!("{}.seg", hex(&self.0))
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// Returns the lower-case hex digits of `bytes`.
pub(in crate::store) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
