//! The prices for costs: from a named file, the user's own, or the built-in ones.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use turntree::Error;
use turntree_exchange::PriceTable;

use crate::program::invocation::{input_name, read_input};
use crate::view::error::Result;
use crate::view::json::PricesUsed;

/// The user's file, relative to the configuration directory.
const OWN: &str = "turntree/prices.toml";

/// A price table, and its source.
pub(crate) struct Prices {
    pub(crate) table: PriceTable,
    /// `None` for the built-in prices.
    pub(crate) file: Option<String>,
}

impl Prices {
    /// Reads the prices of the file `named`, otherwise the user's own, otherwise the built-in ones.
    pub(crate) fn of(named: Option<&Path>) -> Result<Self> {
        let Some(path) = named.map(Path::to_path_buf).or_else(own) else {
            return Ok(Self { table: PriceTable::built_in(), file: None });
        };
        let file = input_name(&path);
        let refused = |error: &dyn std::fmt::Display| Error::invalid(format!("{file}: {error}"));
        let bytes = read_input(&path)?;
        let text = std::str::from_utf8(&bytes).map_err(|error| refused(&error))?;
        let table = PriceTable::parse(text).map_err(|error| refused(&error))?;
        Ok(Self { table, file: Some(file) })
    }

    /// The record of the table.
    pub(crate) fn used(&self) -> PricesUsed {
        let (date, adds) = (self.table.date().to_owned(), self.table.adds_to_built_in);
        PricesUsed { date, file: self.file.clone(), adds }
    }
}

/// The user's file, for people.
pub(crate) fn own_file() -> String {
    own_path().map_or_else(|| OWN.to_owned(), |path| path.display().to_string())
}

fn own() -> Option<PathBuf> {
    own_path().filter(|path| path.is_file())
}

fn own_path() -> Option<PathBuf> {
    Some(etcetera::choose_base_strategy().ok()?.config_dir().join(OWN))
}
