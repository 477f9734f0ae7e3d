//! How long agents keep their sessions: some delete those that have not changed for a time.

use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use turntree::workspace::open_regular;

use super::environment::Environment;

/// Largest file of settings that is read.
const MAX_BYTES: u64 = 1 << 20;

const HOUR: u64 = 60 * 60;
const DAY: u64 = 24 * HOUR;

/// The time for which both keep a session by default.
const USUAL: Duration = Duration::from_secs(30 * DAY);

/// Returns the time after which Claude Code deletes an unchanged session: `cleanupPeriodDays` in its
/// settings. `None` when it keeps sessions, or when its settings cannot be read: then it deletes
/// nothing, either.
pub(super) fn claude_code(environment: &Environment<'_>) -> Option<Duration> {
    let folder = environment.directory_or("CLAUDE_CONFIG_DIR", ".claude");
    match settings(&folder)?.get("cleanupPeriodDays") {
        None => Some(USUAL),
        Some(days) => {
            let days = days.as_u64().filter(|days| *days > 0)?;
            days.checked_mul(DAY).map(Duration::from_secs)
        }
    }
}

/// Returns the time after which Gemini CLI deletes an unchanged session:
/// `general.sessionRetention` in its settings. `None` as for [`claude_code`].
pub(super) fn gemini_cli(environment: &Environment<'_>) -> Option<Duration> {
    let settings = settings(&environment.directory_or("GEMINI_CLI_HOME", "").join(".gemini"))?;
    let rule = |name: &str| settings.pointer(&format!("/general/sessionRetention/{name}"));
    match (rule("enabled"), rule("maxAge")) {
        (Some(Value::Bool(false)), _) => None,
        (_, None) => Some(USUAL),
        (_, Some(age)) => period(age.as_str()?),
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

    use turntree::platform::HOME_VARIABLE;

    use super::*;

    type SweptAfter = fn(&Environment<'_>) -> Option<Duration>;

    /// The hours, with these settings, if any.
    fn hours(swept_after: SweptAfter, settings: Option<&str>) -> Option<u64> {
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
        swept_after(&Environment::new(&variable)?).map(|time| time.as_secs() / HOUR)
    }

    #[test]
    fn settings_say_how_long_sessions_are_kept() {
        let claude = |text: &str| hours(claude_code, Some(text));
        assert_eq!(hours(claude_code, None), Some(30 * 24));
        assert_eq!(claude("{}"), Some(30 * 24));
        assert_eq!(claude(r#"{"cleanupPeriodDays": 99}"#), Some(99 * 24));
        for text in [r#"{"cleanupPeriodDays": 0}"#, r#"{"cleanupPeriodDays": "x"}"#, "{", "[]x"] {
            assert_eq!(claude(text), None, "{text}");
        }
        assert_eq!(claude(r#"{"cleanupPeriodDays": 18446744073709551615}"#), None);

        let gemini = |rule: &str| {
            let text = format!(r#"{{"general": {{"sessionRetention": {rule}}}}}"#);
            hours(gemini_cli, Some(&text))
        };
        assert_eq!(hours(gemini_cli, None), Some(30 * 24));
        assert_eq!(gemini(r#"{"enabled": true, "maxAge": "2w"}"#), Some(14 * 24));
        assert_eq!(gemini(r#"{"maxAge": "24h", "maxCount": 3}"#), Some(24));
        assert_eq!(gemini(r#"{"enabled": false, "maxAge": "24h"}"#), None);
        assert_eq!(gemini(r#"{"maxAge": "ä"}"#), None);
        assert_eq!(gemini("null"), Some(30 * 24));
    }
}
