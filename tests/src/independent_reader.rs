//! Runs the reader that was written only from the pages of `format-spec`, as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the pages and of the reader.
#[must_use]
pub fn format_spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec")
}

/// True if the reader can run here. Prints that the test is skipped if not.
#[must_use]
pub fn reader_runs() -> bool {
    let imports = Command::new("python3").args(["-c", "import blake3, cbor2, zstandard"]).output();
    let runs = imports.is_ok_and(|output| output.status.success());
    if !runs {
        println!("skipped: needs python3 with the packages blake3, cbor2 and zstandard");
    }
    runs
}

/// True if the program that decrypts stores can run here. Prints that the test is skipped if not.
#[must_use]
pub fn decipher_runs() -> bool {
    let imports = Command::new("python3").args(["-c", "import blake3, cryptography"]).output();
    let runs = imports.is_ok_and(|output| output.status.success());
    if !runs {
        println!("skipped: needs python3 with the packages blake3 and cryptography");
    }
    runs
}

/// Writes a decrypted copy of an encrypted store, with the text of its keys.
///
/// # Panics
/// If Python is missing.
#[must_use]
pub fn decipher(store: &Path, key: &Path, target: &Path) -> Output {
    let mut command = Command::new("python3");
    command.arg("-B").arg(format_spec().join("decipher.py")).args([store, key, target]);
    command.output().unwrap()
}

/// Runs the reader on a store or a bundle.
///
/// # Panics
/// If Python is missing.
#[must_use]
pub fn reader(from: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg("-B").arg(format_spec().join("reader.py")).arg(from).args(words);
    command.output().unwrap()
}

/// Runs the reader and returns its output.
///
/// # Panics
/// If it fails, or reports damage.
#[must_use]
pub fn read(from: &Path, words: &[&str]) -> Vec<u8> {
    let Output { status, stdout, stderr } = reader(from, words);
    let told = String::from_utf8_lossy(&stderr);
    assert!(status.success() && told.is_empty(), "{words:?} of {}: {told}", from.display());
    stdout
}
