//! The version that the program prints: that of the package, with commit and day in a release build.
//!
//! Other builds leave the commit out, so that a commit does not compile the program again. A package of
//! a registry has no repository, and neither has an archive of the sources: they print the version alone.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let version = var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_release = var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = is_release.then(commit).flatten();
    let Some((commit, day)) = found else {
        println!("cargo::rustc-env=TURNTREE_VERSION={version}");
        return;
    };
    println!("cargo::rustc-env=TURNTREE_VERSION={version} ({commit} {day})");
    println!("cargo::rustc-env=TURNTREE_COMMIT={commit}");
    println!("cargo::rustc-env=TURNTREE_DATE={day}");
}

/// The commit of the sources, and its day in UTC or that of `SOURCE_DATE_EPOCH`.
fn commit() -> Option<(String, String)> {
    // A repository around a package that is not part of it, such as one of a home directory, is not ours.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={head}");
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let epoch = match var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => epoch,
        Err(_) => git(&["log", "-1", "--format=%ct"])?,
    };
    Some((commit, day(epoch.trim().parse().ok()?)))
}

/// The output of git in the folder of the package.
fn git(arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    (done.status.success()).then(|| text.trim().to_owned())
}

/// A day of the Gregorian calendar, as `2026-01-31`, by the algorithm of Howard Hinnant: years begin in
/// March, so that the day of a leap year comes last.
fn day(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
