//! The mode of the benches: measurement or test, and the place of recorded sessions.

use std::path::{Path, PathBuf};

/// Returns true if the benches run with `-- --test`. Histories are then short.
#[must_use]
pub fn is_test() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// Returns the folder of recorded sessions, which may not exist: `TURNTREE_SESSIONS`, or
/// `shared/sessions` next to the repository.
#[must_use]
pub fn recorded_sessions() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    std::env::var_os("TURNTREE_SESSIONS").map_or(beside, PathBuf::from)
}
