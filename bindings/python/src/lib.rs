//! The native part of the Python package `turntree`: a thin layer over the high-level API of the
//! library.
//!
//! Framework adapters are Python files on top of it. Bytes are passed and returned as `bytes`.
//! Functions that read, write or hash release the interpreter lock. Errors are exceptions by their
//! kind.

mod error;
mod process;
#[cfg(feature = "program")]
mod program;
mod snapshot;
mod store;
mod transaction;

use pyo3::prelude::*;

/// The primitives of turntree.
#[pymodule(gil_used = false)]
fn _turntree(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::add_to(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<store::Store>()?;
    module.add_class::<store::Log>()?;
    module.add_class::<store::MergeOutcome>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<snapshot::Message>()?;
    module.add_class::<transaction::Transaction>()?;
    #[cfg(feature = "program")]
    module.add_function(wrap_pyfunction!(program::run_program, module)?)?;
    Ok(())
}
