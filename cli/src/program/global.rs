//! The options of every command.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use turntree::store::SUPERBLOCK_FILE;

use crate::view::output::Color;

/// The variable with the store; an empty value counts as unset.
const STORE: &str = "TURNTREE_STORE";

/// The default directory of a store.
pub(crate) const STORE_DIR: &str = ".turntree";

/// Options of every command. The help of a command does not repeat them.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Path of the store directory
    #[arg(long, global = true, value_name = "DIR", value_parser = store_parser(), value_hint = clap::ValueHint::DirPath)]
    pub(crate) store: Option<PathBuf>,
    /// Read the store as it was after this operation, see 'turntree op log'
    #[arg(long, global = true, value_name = "OP")]
    pub(crate) at_op: Option<String>,
    /// Print JSON, as format-spec/json.md describes it
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
    /// Never start a pager
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Do not start maintenance of the store after a change
    #[arg(long, global = true)]
    pub(crate) no_maintenance: bool,
}

/// Returns the store named by the environment. Clap does not read the variable: it would show an
/// option that the user did not give in every usage line.
pub(crate) fn store_of_environment() -> Option<PathBuf> {
    std::env::var_os(STORE).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Returns the store that a named directory is, or has in its `.turntree`.
pub(crate) fn store_in(dir: &Path) -> PathBuf {
    let inside = dir.join(STORE_DIR);
    let is_store = |dir: &Path| dir.join(SUPERBLOCK_FILE).is_file();
    if !is_store(dir) && is_store(&inside) { inside } else { dir.to_owned() }
}

/// Parses a directory whose path is not empty.
fn store_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|value| match value.is_empty() {
        true => Err("an empty path names no directory"),
        false => Ok(PathBuf::from(value)),
    })
}
