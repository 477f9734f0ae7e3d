//! turntree: git for what an agent knows.

pub mod context;
pub mod error;
pub mod exchange;
pub mod object;
pub mod repo;
pub mod store;
pub mod tree;
pub mod workspace;

pub use error::{Error, ErrorKind, Result};
