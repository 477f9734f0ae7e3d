//! How the benches are run: measured, or only tried, and with which recorded sessions.

use std::path::{Path, PathBuf};

/// Whether the benches only have to run, as `-- --test` asks for: then histories are short.
#[must_use]
pub fn is_test() -> bool {
    std::env::args().any(|argument| argument == "--test")
}

/// The folder of recorded sessions, which need not be there: `TURNTREE_SESSIONS`, else
/// `shared/sessions` beside the repository.
#[must_use]
pub fn recorded_sessions() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/sessions");
    std::env::var_os("TURNTREE_SESSIONS").map_or(beside, PathBuf::from)
}
