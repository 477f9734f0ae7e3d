//! turntree: git for what an agent knows.

pub mod error;
pub mod object;

pub use error::{Error, ErrorKind, Result};
