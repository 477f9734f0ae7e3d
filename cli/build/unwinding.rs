//! Leaves the tables for unwinding, a tenth of it, out of the released program, where the linker can.
//!
//! The program ends at its first panic (`src/program/fault.rs`), so nothing reads them but profilers and
//! debuggers, which want other profiles anyway. The compiler keeps them for backtraces, and a profile has
//! no word for leaving them out. Linkers differ, so a small program is linked first, as this one is going
//! to be, and run: if that fails, the tables stay.

use std::env::var;
use std::path::Path;
use std::process::{Command, Stdio};

const SCRIPT: &str = "no-unwinding.ld";
const SMALL: &str = "fn main() { std::thread::spawn(|| ()).join().unwrap() }";

pub(super) fn leave_out() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    // Flags and linkers that cargo knows run this again by themselves; `mold -run` comes this way.
    println!("cargo::rerun-if-env-changed=LD_PRELOAD");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    let is_released = is("PROFILE", "release") && is("DEBUG", "false");
    if !is_released || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    let Ok(here) = var("CARGO_MANIFEST_DIR") else { return };
    let arguments = [format!("-Wl,-T,{here}/{SCRIPT}"), "-Wl,--no-eh-frame-hdr".to_owned()];
    if links(&arguments) == Some(true) {
        for argument in arguments {
            println!("cargo::rustc-link-arg-bin=turntree={argument}");
        }
    }
}

/// Whether a program that is linked with these arguments runs; where it would not run here, whether it links.
fn links(arguments: &[String]) -> Option<bool> {
    let folder = var("OUT_DIR").ok()?;
    let [source, program] = ["small.rs", "small"].map(|name| Path::new(&folder).join(name));
    std::fs::write(&source, SMALL).ok()?;
    let target = var("TARGET").ok()?;
    let mut compiler = Command::new(var("RUSTC").ok()?);
    compiler.args(["--crate-type", "bin", "-C", "panic=abort", "--target", &target]);
    compiler.arg("-o").arg(&program).arg(&source);
    if let Ok(linker) = var("RUSTC_LINKER") {
        compiler.arg("-C").arg(format!("linker={linker}"));
    }
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    compiler.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    for argument in arguments {
        compiler.arg("-C").arg(format!("link-arg={argument}"));
    }
    let succeeds = |command: &mut Command| {
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let runs_here = var("HOST").ok()? == target;
    Some(succeeds(&mut compiler) && (!runs_here || succeeds(&mut Command::new(&program))))
}
