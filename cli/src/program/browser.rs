//! Opens the user's browser.

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

/// The variable with the browser; the first one, if it lists several.
const BROWSER: &str = "BROWSER";

/// Opens a file or an address in the browser named by `BROWSER`, otherwise in the browser of the
/// desktop. Does not wait for it. Returns true if a browser was started: over ssh and without a
/// display there is none.
///
/// All users of the machine can see the arguments of a process, so `target` must not contain a
/// secret.
pub(crate) fn open(target: &OsStr) -> bool {
    let Some(program) = program(&|name| env::var_os(name)) else { return false };
    let mut browser = Command::new(program);
    browser.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.spawn().is_ok()
}

/// The program to run in this environment.
fn program(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<OsString> {
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let named = variable(BROWSER);
    let first = named.as_ref().and_then(|names| names.to_str()?.split(':').next());
    if let Some(first) = first.filter(|name| !name.is_empty()) {
        return Some(first.into());
    }
    if is_set(&"SSH_CONNECTION") {
        return None;
    }
    if cfg!(target_os = "macos") {
        return Some("open".into());
    }
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(is_set).then(|| "xdg-open".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Option<OsString> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        program(&|name| value(name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_browser_is_the_named_one_or_that_of_the_desktop_in_front_of_somebody() {
        let desktop = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        assert_eq!(with(&[("DISPLAY", ":0")]), Some(desktop.into()));
        assert_eq!(
            with(&[("WAYLAND_DISPLAY", "wayland-0"), ("BROWSER", "")]),
            Some(desktop.into())
        );
        assert_eq!(
            with(&[("DISPLAY", "localhost:10.0"), ("SSH_CONNECTION", "10.0.0.2 1 2")]),
            None
        );
        assert_eq!(with(&[("BROWSER", "w3m:lynx"), ("SSH_CONNECTION", "x")]), Some("w3m".into()));
        assert_eq!(with(&[]), cfg!(target_os = "macos").then(|| desktop.into()));
    }
}
