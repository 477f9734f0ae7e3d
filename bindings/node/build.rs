//! Lets the library be linked without Node, which gives it what it calls when it is loaded.

fn main() {
    napi_build::setup();
}
