//! Before the program is compiled: its version, and the linker's part of a release.

mod commit;
mod unwinding;

fn main() {
    println!("cargo::rerun-if-changed=build");
    commit::name();
    unwinding::leave_out();
}
