//! The native part of the Python package `turntree`: a thin layer over the high-level API of the
//! library.
//!
//! Framework adapters are Python files on top of it. Content is returned as `bytes`; any buffer and
//! text are accepted.
//! Functions that read, write or hash release the interpreter lock. Errors are exceptions by their
//! kind.

mod branches;
mod error;
#[cfg(feature = "program")]
mod exchange;
mod history;
mod lookup;
mod names;
mod process;
#[cfg(feature = "program")]
mod program;
#[cfg(feature = "program")]
mod program_store;
#[cfg(feature = "program")]
mod remote;
mod restore;
mod search;
mod snapshot;
mod store;
mod transaction;
mod upkeep;
mod values;

use pyo3::prelude::*;
use turntree::local::MessageFormats;

/// The primitives of turntree.
#[pymodule(gil_used = false)]
fn _turntree(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::add_to(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<history::Log>()?;
    module.add_class::<branches::MergeOutcome>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<snapshot::Message>()?;
    module.add_class::<transaction::Transaction>()?;
    #[cfg(feature = "program")]
    module.add_function(wrap_pyfunction!(program::run_program, module)?)?;
    Ok(())
}

/// Returns the readers of message records: with the program, those of all transcript formats.
fn formats() -> MessageFormats {
    #[cfg(feature = "program")]
    let formats = turntree_exchange::MESSAGE_FORMATS;
    #[cfg(not(feature = "program"))]
    let formats = MessageFormats::default();
    formats
}
