//! Linux, macOS and other Unix systems.

pub(super) mod errors;
pub(super) mod file;
pub(super) mod folder;
pub(super) mod mapping;
pub(super) mod process;
pub(super) mod stat;
#[cfg(target_os = "linux")]
mod sync;

use super::NameRules;

pub(super) const NAME_RULES: NameRules = NameRules::Unix;

pub(super) const HAS_EXECUTABLE_BIT: bool = true;
