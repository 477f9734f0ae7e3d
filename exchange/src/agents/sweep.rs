//! How long agents keep their sessions: some delete those that have not changed for a time.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use turntree::platform::HOME_VARIABLE;
use turntree::workspace::open_regular;

use serde_json::Value;

/// Largest file of settings that is read.
const MAX_BYTES: u64 = 1 << 20;

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

/// The time for which both keep a session by default.
const USUAL: Duration = Duration::from_secs(30 * DAY);

/// Returns the time after which `agent` deletes an unchanged session, according to the user's
/// settings. `None` when it keeps sessions, when its rule is unknown, or when its settings cannot
/// be read: then the agent deletes nothing, either.
///
/// Claude Code has `cleanupPeriodDays`, Gemini CLI `general.sessionRetention`. `variable` reads the
/// environment, as for [`places`](super::places()).
#[must_use]
pub fn swept_after(agent: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Duration> {
    let directory =
        |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = directory(HOME_VARIABLE)?;
    match agent {
        "claude-code" => {
            let folder = directory("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
            match settings(&folder)?.get("cleanupPeriodDays") {
                None => Some(USUAL),
                Some(days) => {
                    let days = days.as_u64().filter(|days| *days > 0)?;
                    days.checked_mul(DAY).map(Duration::from_secs)
                }
            }
        }
        "gemini-cli" => {
            let folder = directory("GEMINI_CLI_HOME").unwrap_or(home).join(".gemini");
            let settings = settings(&folder)?;
            let rule = |name: &str| settings.pointer(&format!("/general/sessionRetention/{name}"));
            match (rule("enabled"), rule("maxAge")) {
                (Some(Value::Bool(false)), _) => None,
                (_, None) => Some(USUAL),
                (_, Some(age)) => period(age.as_str()?),
            }
        }
        _ => None,
    }
}

/// Returns the settings in `folder`: null without a settings file, `None` if it cannot be read.
fn settings(folder: &Path) -> Option<Value> {
    let file = match open_regular(&folder.join("settings.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Value::Null),
        file => file.ok()?,
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Parses a period of Gemini CLI's settings: `24h`, `30d`, `4w`, `6m`.
fn period(text: &str) -> Option<Duration> {
    let (unit_at, unit) = text.char_indices().next_back()?;
    let number: u64 = text.get(..unit_at)?.parse().ok()?;
    let unit = match unit {
        'h' => HOUR,
        'd' => DAY,
        'w' => 7 * DAY,
        'm' => 30 * DAY,
        _ => return None,
    };
    number.checked_mul(unit).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The hours, with these settings, if any.
    fn hours(agent: &str, settings: Option<&str>) -> Option<u64> {
        let home = tempfile::tempdir().unwrap();
        let folders = [home.path().join(".claude"), home.path().join("there/.gemini")];
        for folder in folders {
            fs::create_dir_all(&folder).unwrap();
            if let Some(text) = settings {
                fs::write(folder.join("settings.json"), text).unwrap();
            }
        }
        let variable = |name: &str| match name {
            HOME_VARIABLE => Some(home.path().into()),
            "GEMINI_CLI_HOME" => Some(home.path().join("there").into()),
            _ => None,
        };
        swept_after(agent, &variable).map(|time| time.as_secs() / HOUR)
    }

    #[test]
    fn settings_say_how_long_sessions_are_kept() {
        let claude_code = |text: &str| hours("claude-code", Some(text));
        assert_eq!(hours("claude-code", None), Some(30 * 24));
        assert_eq!(claude_code("{}"), Some(30 * 24));
        assert_eq!(claude_code(r#"{"cleanupPeriodDays": 99}"#), Some(99 * 24));
        for text in [r#"{"cleanupPeriodDays": 0}"#, r#"{"cleanupPeriodDays": "x"}"#, "{", "[]x"] {
            assert_eq!(claude_code(text), None, "{text}");
        }
        assert_eq!(claude_code(r#"{"cleanupPeriodDays": 18446744073709551615}"#), None);

        let gemini = |rule: &str| {
            let text = format!(r#"{{"general": {{"sessionRetention": {rule}}}}}"#);
            hours("gemini-cli", Some(&text))
        };
        assert_eq!(hours("gemini-cli", None), Some(30 * 24));
        assert_eq!(gemini(r#"{"enabled": true, "maxAge": "2w"}"#), Some(14 * 24));
        assert_eq!(gemini(r#"{"maxAge": "24h", "maxCount": 3}"#), Some(24));
        assert_eq!(gemini(r#"{"enabled": false, "maxAge": "24h"}"#), None);
        assert_eq!(gemini(r#"{"maxAge": "ä"}"#), None);
        assert_eq!(gemini("null"), Some(30 * 24));
        assert_eq!(hours("codex", None), None);
    }
}
