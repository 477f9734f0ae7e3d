//! Before the program is compiled: its version, and the linker's part of a release.

#[path = "build/commit.rs"]
mod commit;
#[path = "build/unwinding.rs"]
mod unwinding;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    commit::name();
    unwinding::leave_out();
}
