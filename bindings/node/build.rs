//! Allows linking the library without Node, which provides the missing symbols at load time.

fn main() {
    napi_build::setup();
}
