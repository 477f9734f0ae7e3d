//! The native library of the npm package `turntree`: primitives, thin over the front door of the library.
//!
//! `lib/index.cts` is what users see of it. Whatever reads, writes or hashes runs on the thread pool of
//! libuv and is a promise; bytes go in as `Uint8Array` and out as `Buffer`; errors carry their kind.

#![expect(clippy::needless_pass_by_value, reason = "what Node hands over is owned")]

mod error;
mod snapshot;
mod store;
mod transaction;
mod work;

use napi_derive::napi;

/// The version of the library.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
