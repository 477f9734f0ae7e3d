//! The program `turntree` inside of the interpreter, called by the script of that name.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the program with these arguments; the first is the calling script. Returns the exit
/// code, with which the script ends the process immediately.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "made of the list of Python for this call")]
pub(crate) fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| turntree_cli::main_of_script(&arguments))
}
