//! The native library of the npm package `turntree`: a thin layer over the high-level API of the
//! library.
//!
//! Users call it through `lib/index.cts`. Functions that read, write or hash run on the thread pool
//! of libuv and return a promise. Bytes are passed as `Uint8Array` and returned as `Buffer`. Errors
//! carry their kind.

#![expect(clippy::needless_pass_by_value, reason = "what Node hands over is owned")]

mod error;
mod snapshot;
mod store;
mod transaction;
mod work;

use napi_derive::napi;

/// Returns the version of the library.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
