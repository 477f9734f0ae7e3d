//! Bytes on disk: journal segments, packs, the manifest, refs and operations.
