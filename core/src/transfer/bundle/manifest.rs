//! The manifest of a bundle: a text header that can be read without turntree.
//!
//! ```text
//! turntree bundle 2
//! # how to read the file, one line after another: recipe.txt
//! { JSON, one value a line }
//! (an empty line, and then what is not text)
//! ```

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectId;
use crate::repo::{BranchName, SessionLabels};

/// The beginning of the first line of every bundle; the version follows.
const MAGIC: &str = "turntree bundle ";

/// The only version. Version 1, from before the first release, had no recipe.
const VERSION: u32 = 2;

/// Instructions for reading a bundle without turntree: lines that begin with `#`.
const RECIPE: &str = include_str!("recipe.txt");

/// The description of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The sessions, ordered by name.
    pub sessions: Vec<BundledSession>,
    /// The refs, by their full names.
    pub refs: BTreeMap<String, BundledRef>,
    /// Commits that the receiving store must have, oldest first.
    pub prerequisites: Vec<Prerequisite>,
    /// Grafts of commits whose parents are forgotten, ordered by id.
    pub grafts: Vec<Graft>,
    /// The numbers of objects.
    pub objects: Counts,
    /// Number of external objects that objects in the bundle name.
    pub outside: u32,
    /// The number of operations on the refs.
    pub operations: u64,
    /// Titles and labels of sessions, by the session of the branches. Sessions without any are
    /// absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, BundledLabels>,
}

/// Title and labels of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BundledLabels {
    /// The title that the user set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The labels.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
}

/// An id as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextId(pub ObjectId);

/// The turns of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BundledSession {
    /// The name, as recorded in the commits.
    pub session: String,
    /// Number of commits.
    pub turns: u64,
    /// The lowest turn.
    pub first_turn: u64,
    /// The highest turn.
    pub last_turn: u64,
    /// Number of expired turns, which have no context.
    pub elided: u64,
    /// Time of the earliest turn, in UTC.
    pub oldest: String,
    /// Time of the latest turn, in UTC.
    pub newest: String,
}

/// The value of a ref in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BundledRef {
    /// `commit`, or `tag` for a tag object.
    pub kind: String,
    /// The object.
    pub id: TextId,
    /// The turn of the commit that it points to.
    pub turn: u64,
}

/// A commit that is not in a bundle and that the receiving store must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Prerequisite {
    /// The commit.
    pub commit: TextId,
    /// The session of the commit.
    pub session: String,
    /// The turn of the commit.
    pub turn: u64,
    /// True if its context is also required.
    pub context: bool,
}

/// A forgotten commit, and the next commit of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Graft {
    /// The commit that no longer exists anywhere.
    pub forgotten: TextId,
    /// The next commit; `None` if history begins after the forgotten one.
    pub next: Option<TextId>,
}

/// Number of objects of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Number of blobs.
    pub blobs: u32,
    /// Number of tree nodes.
    pub nodes: u32,
    /// Number of snapshots.
    pub commits: u32,
    /// Number of tags, and of pins with a description.
    pub tags: u32,
}

impl From<SessionLabels> for BundledLabels {
    fn from(SessionLabels { title, labels }: SessionLabels) -> Self {
        Self { title, labels }
    }
}

impl From<BundledLabels> for SessionLabels {
    fn from(BundledLabels { title, labels }: BundledLabels) -> Self {
        Self { title, labels }
    }
}

impl Manifest {
    /// Returns an empty manifest.
    pub(super) fn empty() -> Self {
        Self {
            sessions: Vec::new(),
            refs: BTreeMap::new(),
            prerequisites: Vec::new(),
            grafts: Vec::new(),
            objects: Counts::default(),
            outside: 0,
            operations: 0,
            labels: BTreeMap::new(),
        }
    }

    /// Encodes the front of the file.
    ///
    /// # Errors
    /// `InvalidInput`, which cannot occur for a manifest.
    pub(super) fn encode(&self) -> Result<String> {
        let json = self.json()?;
        Ok(format!("{MAGIC}{VERSION}\n{RECIPE}{json}\n\n"))
    }

    /// Decodes the manifest at the beginning of a file.
    ///
    /// # Errors
    /// `Unsupported` for another version, `Corrupt` for bytes that no writer produces.
    pub(super) fn decode(front: &str) -> Result<Self> {
        let place = "the manifest of the bundle";
        check_head(front.as_bytes())?;
        let (_, mut json) = front.split_once('\n').unwrap_or_default();
        let mut recipe = 0;
        // Later writers may change the text of the recipe.
        while let Some((line, rest)) = json.split_once('\n')
            && line.starts_with('#')
        {
            (json, recipe) = (rest, recipe + 1);
        }
        let manifest: Self = serde_json::from_str(json).map_err(|error| {
            let found =
                format_args!("line {} column {}", error.line() + 1 + recipe, error.column());
            Error::corrupt(place, "a manifest of this format", found)
        })?;
        let is_plain = json.strip_suffix("\n\n") == Some(&*manifest.json()?);
        match is_plain && recipe > 0 {
            true => Ok(manifest),
            false => Err(Error::malformed(place, "a manifest in canonical form")),
        }
    }

    /// Encodes the manifest in its canonical form.
    fn json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::invalid("a manifest that is not JSON").with_source(error))
    }

    /// Returns the sessions of its branches.
    pub(super) fn branch_sessions(&self) -> BTreeSet<String> {
        let branches = self.refs.keys().filter_map(|name| BranchName::from_full(name));
        branches.map(|branch| branch.session().to_owned()).collect()
    }

    /// Refuses labels of sessions without a branch in the bundle, and invalid labels.
    ///
    /// # Errors
    /// `Corrupt` if a label is refused.
    pub(super) fn check_labels(&self) -> Result<()> {
        let known = self.branch_sessions();
        for (session, labels) in &self.labels {
            let labels = SessionLabels::from(labels.clone());
            let is_said = labels != SessionLabels::default() && labels.encode().is_ok();
            if !is_said || !known.contains(session) {
                let place = "the labels in the bundle";
                return Err(Error::malformed(place, "a title or labels of a session in it"));
            }
        }
        Ok(())
    }

    /// Returns the session names for display.
    #[must_use]
    pub fn session_names(&self) -> String {
        let names: Vec<&str> = self.sessions.iter().map(|session| &*session.session).collect();
        names.join(", ")
    }
}

/// Refuses a file whose first bytes are not those of a bundle of this version.
///
/// # Errors
/// `InvalidInput` if it is not a bundle, `Unsupported` for another version.
pub(super) fn check_head(head: &[u8]) -> Result<()> {
    let line = head.strip_prefix(MAGIC.as_bytes());
    let line = line.ok_or_else(|| Error::invalid("this is not a turntree bundle"))?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).take(9).count();
    let (digits, rest) = line.split_at(digits);
    let version = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    let remedy = match version.filter(|_| rest.first() == Some(&b'\n')) {
        Some(VERSION) => return Ok(()),
        Some(..VERSION) => "create the bundle again with this turntree",
        Some(_) => "use a newer turntree",
        None => return Err(Error::corrupt("the first line of the bundle", "a version", "none")),
    };
    let found = String::from_utf8_lossy(digits);
    let message = format!("bundle version {found} is unknown, only {VERSION} is known: {remedy}");
    Err(Error::new(ErrorKind::Unsupported, message))
}

impl Serialize for TextId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TextId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| D::Error::custom("an id"))
    }
}

/// Formats a time in UTC as RFC 3339, to the second.
pub(in crate::transfer) fn utc(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days in a calendar whose years begin in March, so that the leap day comes last. The epoch is
    // March 1 of a year divisible by 400, 719,468 days before 1970.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    fn sample() -> Manifest {
        let id = TextId(ObjectId::of(Kind::Commit, b"x"));
        let mut manifest = Manifest::empty();
        let value = BundledRef { kind: "commit".into(), id, turn: 3 };
        manifest.refs.insert("refs/heads/a\"\n/main".into(), value);
        manifest.grafts.push(Graft { forgotten: id, next: None });
        let labels = BTreeSet::from(["draft".to_owned()]);
        let labels = BundledLabels { title: Some("fix \"it\"".into()), labels };
        manifest.labels.insert("a".into(), labels);
        manifest
    }

    #[test]
    fn a_manifest_round_trips_and_only_what_was_written_is_read() {
        let front = sample().encode().unwrap();
        assert_eq!(Manifest::decode(&front).unwrap(), sample());
        assert_eq!(front.find("\n\n"), Some(front.len() - 2), "the first empty line ends it");
        let json = front.find("\n{").unwrap();
        assert!(front.is_ascii() && json < 2200, "{json} bytes of recipe");
        for at in (0..front.len()).filter(|at| *at < 19 || *at >= json) {
            let mut bytes = front.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(manifest) = String::from_utf8(bytes).map(|text| Manifest::decode(&text)) {
                assert!(manifest.is_err() || manifest.unwrap() != sample(), "byte {at}");
            }
            assert!(Manifest::decode(&front[..at]).is_err());
        }
        let other = front.replace(RECIPE, "# see elsewhere\n");
        assert_eq!(Manifest::decode(&other).unwrap(), sample());
        for [from, to] in [[RECIPE, ""], ["\n#", "\n\n#"], ["\n{", "\n#{"]] {
            assert!(Manifest::decode(&front.replacen(from, to, 1)).is_err(), "{to}");
        }
        let nested = format!("turntree bundle 2\n#\n{}\n\n", "[".repeat(100_000));
        assert_eq!(Manifest::decode(&nested).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn other_files_and_other_versions_are_refused() {
        let kind = |head: &[u8]| check_head(head).map_err(|error| error.kind());
        assert_eq!(kind(b"turntree bundle 2\n#"), Ok(()));
        assert_eq!(kind(b"turntree bundle 2"), Err(ErrorKind::Corrupt));
        assert_eq!(kind(b"turntree bundle 11111111111111\n"), Err(ErrorKind::Corrupt));
        assert_eq!(kind(b"turntree bundle \n"), Err(ErrorKind::Corrupt));
        assert_eq!(kind(b"PK\x03\x04"), Err(ErrorKind::InvalidInput));
        for (version, remedy) in [("1", "create the bundle again"), ("3", "use a newer turntree")] {
            let error =
                check_head(format!("turntree bundle {version}\n{{").as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let message = error.to_string();
            assert!(message.contains(&format!("bundle version {version} ")), "{message}");
            assert!(message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_763_779_261, "2025-11-22T02:41:01Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000), text);
        }
        utc(i64::MIN);
        utc(i64::MAX);
    }
}
