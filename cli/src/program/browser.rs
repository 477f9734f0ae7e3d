//! The browser of who runs this program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

/// Names the browser, as for other programs of the terminal: of several, the first.
const BROWSER: &str = "BROWSER";

/// Opens a file or an address in the browser that `BROWSER` names, or else that of the desktop; it is not
/// waited for. Returns whether one was started: over ssh and without a display there is none.
///
/// Everybody on the machine sees the arguments of a program, so `target` holds no secret.
pub(crate) fn open(target: &OsStr) -> bool {
    let Some(program) = program(&|name| env::var_os(name)) else { return false };
    let mut browser = Command::new(program);
    browser.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.spawn().is_ok()
}

/// The program that opens things for who has this environment.
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
