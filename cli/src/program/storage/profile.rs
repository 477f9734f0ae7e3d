//! AWS profiles: the files with keys and regions of the AWS tools.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::PathBuf;

use turntree::workspace::read_regular_text;
use turntree::{Error, ErrorKind, Result};

/// Maximum bytes of such a file to read.
const MAX_BYTES: u64 = 1 << 20;

/// The settings of a profile by name.
pub(super) type Profile = BTreeMap<String, String>;

/// Settings for sources of keys that only the AWS tools support.
const FOREIGN: [&str; 5] =
    ["sso_session", "sso_start_url", "credential_process", "role_arn", "login_session"];

/// Reads a profile: the named one, the one of the environment, or the default one; `None` if there
/// is no default profile.
///
/// # Errors
/// `NotFound` if a named profile is missing; `Unsupported` if its keys come from another
/// source.
pub(super) fn load(named: Option<&str>) -> Result<Option<Profile>> {
    let of_environment =
        || ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"].iter().find_map(|name| var(name));
    let named = named.map(str::to_owned).or_else(of_environment);
    let name = named.as_deref().unwrap_or("default");
    let mut found = None;
    for (variable, file) in
        [("AWS_CONFIG_FILE", ".aws/config"), ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")]
    {
        let home = || env::home_dir().map(|home| home.join(file));
        let Some(path) = var(variable).map(PathBuf::from).or_else(home) else { continue };
        if fs::metadata(&path).is_ok_and(|data| data.len() > MAX_BYTES) {
            return Err(Error::limit(path.display(), MAX_BYTES, MAX_BYTES + 1));
        }
        // Skips a file that is missing, or that this user cannot read.
        let Ok(text) = read_regular_text(&path, MAX_BYTES) else { continue };
        if let Some(settings) = section(&text, name) {
            found.get_or_insert_with(Profile::new).extend(settings);
        }
    }
    if found.is_none() && named.is_some() {
        return Err(Error::not_found(format!("there is no AWS profile {name:?}")));
    }
    let Some(profile) = found else { return Ok(None) };
    let foreign = FOREIGN.iter().find(|setting| profile.contains_key(**setting));
    match foreign {
        Some(setting) if !profile.contains_key("aws_access_key_id") => {
            let message = format!(
                "the AWS profile {name:?} gets its keys by {setting}: 'aws configure export-credentials \
                 --profile {name} --format env' prints variables that are understood"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        _ => Ok(Some(profile)),
    }
}

/// The value of an environment variable, if not empty.
pub(super) fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The settings below `[name]` or `[profile name]`.
fn section(text: &str, name: &str) -> Option<Profile> {
    let mut found = None;
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(title) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let title = title.trim();
            is_inside = title.strip_prefix("profile ").map_or(title, str::trim) == name;
            if is_inside {
                found.get_or_insert_with(Profile::new);
            }
            continue;
        }
        // An indented line belongs to a nested setting.
        let is_setting = is_inside && !line.starts_with([' ', '\t', '#', ';']);
        if let (true, Some((key, value)), Some(settings)) =
            (is_setting, line.split_once('='), found.as_mut())
        {
            settings.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_found_by_either_title_and_has_its_own_settings() {
        let text = "[default]\nregion = eu-west-1\n\n# a comment = no\n[profile work]\n\
                    aws_access_key_id=AKIA\nS3 =\n  max = 2\nregion=us-east-2\n[other]\nregion = x\n";
        assert_eq!(section(text, "default").unwrap()["region"], "eu-west-1");
        let work = section(text, "work").unwrap();
        assert_eq!(
            (work["aws_access_key_id"].as_str(), work["region"].as_str()),
            ("AKIA", "us-east-2")
        );
        assert!(!work.contains_key("max"));
        assert_eq!(section(text, "missing"), None);
    }
}
