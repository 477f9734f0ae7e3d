//! The options of every command.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::view::output::Color;

/// The variable that names the store; an empty one is as if it were not set.
pub(crate) const STORE: &str = "TURNTREE_STORE";

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Path of the store directory
    #[arg(long, global = true, value_name = "DIR", env = STORE, hide_env_values = true, value_parser = store_parser(), value_hint = clap::ValueHint::DirPath)]
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

/// A directory; an empty one stands for none, where the variable is empty.
fn store_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|value| {
        let is_unset = std::env::var_os(STORE).is_some_and(|set| set.is_empty());
        match value.is_empty() && !is_unset {
            true => Err("an empty path names no directory"),
            false => Ok(PathBuf::from(value)),
        }
    })
}
