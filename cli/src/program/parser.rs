//! The parser of the whole program, for the command that describes all commands.
//!
//! The parser is built above the commands, so it is handed down when a run begins.

use std::sync::OnceLock;

static PARSER: OnceLock<fn() -> clap::Command> = OnceLock::new();

/// Sets the function that builds the parser; later calls change nothing.
pub(crate) fn provide(parser: fn() -> clap::Command) {
    PARSER.get_or_init(|| parser);
}

/// The parser with all commands and their help. Empty before [`provide`].
pub(crate) fn whole() -> clap::Command {
    PARSER.get().map_or_else(|| clap::Command::new("turntree"), |parser| parser())
}
