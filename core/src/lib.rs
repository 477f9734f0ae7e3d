//! turntree: git for what an agent knows.

pub mod context;
pub mod error;
pub mod exchange;
pub mod object;
pub mod store;
pub mod tree;

pub use error::{Error, ErrorKind, Result};
