//! Splits files into pieces. The concatenation of the pieces is the file.

pub mod document;
pub(crate) mod enumeration;
pub(crate) mod json;
mod line_record;
pub mod lines;
pub(crate) mod piece;
pub(crate) mod shape;
pub mod spelling;
#[cfg(feature = "sqlite")]
#[cfg_attr(
    not(feature = "codesign"),
    allow(dead_code, reason = "open-codesign also reads databases from memory")
)]
pub(crate) mod sqlite;
mod torn_line;
pub(crate) mod unique_name;
pub(crate) mod unpack;
pub(crate) mod zstd;
