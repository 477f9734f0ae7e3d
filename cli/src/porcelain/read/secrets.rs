//! Secrets: scans history, reports findings, and keeps secrets from being sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write;

use clap::Args;
use turntree::repo::{Repository, ScanPart, SearchScope, SecretMode};
use turntree::{Error, ErrorKind};
use turntree_exchange::{
    FoundSecret, RULES, SecretFinding, SecretPlace, SecretScan, find_secrets, mask_secrets,
    scan_secrets,
};

use super::search::warn_of_gaps;
use crate::view::error::{Failure, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, NAME, Output, Palette, STRONG, note, warn};
use crate::view::progress::Working;
use crate::view::render::changes::path_of;
use crate::view::render::{ID_DIGITS, count, harmless};

/// Maximum number of places to show of a finding.
const SHOWN_PLACES: usize = 5;

/// Contents between two progress messages.
const BLOBS_A_WORD: u64 = 1000;

/// Maximum number of damage warnings to show.
const MAX_WARNINGS: usize = 10;

/// The options for secrets in exported content.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct SecretGate {
    /// Write '[secret: RULE]' in place of each secret; the store does not change
    #[arg(long)]
    pub(crate) scrub: bool,
    /// Write the content including its secrets
    #[arg(long, conflicts_with = "scrub")]
    pub(crate) allow_secrets: bool,
}

/// The decision of a check.
#[derive(Debug)]
pub(crate) enum Passage {
    /// No secret was found.
    Free,
    /// Secrets were found, and are to be masked.
    Masked(Vec<SecretFinding>),
    /// Secrets were found, and the user has not chosen an option.
    Refused(Vec<SecretFinding>),
}

impl SecretGate {
    /// Checks `scopes`, and the `texts` sent with them, before they are sent.
    ///
    /// # Errors
    /// The errors of a scan.
    pub(crate) fn check(
        self,
        repo: &Repository,
        scopes: &[SearchScope],
        texts: &[Vec<u8>],
    ) -> Result<Passage> {
        if self.allow_secrets {
            return Ok(Passage::Free);
        }
        let mut found: Vec<SecretFinding> = scan(repo, scopes)?.open().cloned().collect();
        let known: BTreeSet<String> = found.iter().map(|finding| finding.value.clone()).collect();
        let beside = texts.iter().map(|text| open_findings(repo, text));
        let beside = beside.collect::<Result<Vec<_>>>()?.into_iter().flatten();
        found.extend(beside.filter(|finding| !known.contains(&finding.value)));
        Ok(self.passage(found))
    }

    fn passage(self, found: Vec<SecretFinding>) -> Passage {
        match () {
            () if found.is_empty() => Passage::Free,
            () if self.scrub => Passage::Masked(found),
            () => Passage::Refused(found),
        }
    }

    /// Checks contents one by one before they are sent; `scopes` are their source.
    ///
    /// # Errors
    /// The errors of a scan and of `contents`.
    pub(crate) fn check_each(
        self,
        repo: &Repository,
        contents: impl Iterator<Item = turntree::Result<bytes::Bytes>>,
        scopes: &[SearchScope],
    ) -> Result<Passage> {
        if self.allow_secrets {
            return Ok(Passage::Free);
        }
        let mut found: Vec<SecretFinding> = Vec::new();
        for content in contents {
            let open = open_findings(repo, &content?)?.into_iter();
            let new = open.filter(|open| found.iter().all(|known| known.value != open.value));
            found.extend(new.collect::<Vec<_>>());
        }
        self.placed(repo, found, scopes)
    }

    /// Checks bytes before they are sent; `scopes` are their source.
    ///
    /// # Errors
    /// The errors of a scan.
    pub(crate) fn check_bytes(
        self,
        repo: &Repository,
        bytes: &[u8],
        scopes: &[SearchScope],
    ) -> Result<Passage> {
        if self.allow_secrets {
            return Ok(Passage::Free);
        }
        self.placed(repo, open_findings(repo, bytes)?, scopes)
    }

    /// Decides about findings, with their places in `scopes`.
    fn placed(
        self,
        repo: &Repository,
        found: Vec<SecretFinding>,
        scopes: &[SearchScope],
    ) -> Result<Passage> {
        if found.is_empty() {
            return Ok(Passage::Free);
        }
        // Places are searched only for findings.
        let scan = scan(repo, scopes)?;
        let mut places: BTreeMap<&str, &SecretFinding> = BTreeMap::new();
        places.extend(scan.findings.iter().map(|finding| (finding.value.as_str(), finding)));
        let placed = found.into_iter().map(|finding| match places.get(finding.value.as_str()) {
            Some(known) => (*known).clone(),
            None => finding,
        });
        Ok(self.passage(placed.collect()))
    }
}

/// The findings in some bytes that are not allowed, without places.
pub(in crate::porcelain) fn open_findings(
    repo: &Repository,
    bytes: &[u8],
) -> Result<Vec<SecretFinding>> {
    let secrets = find_secrets(bytes);
    if secrets.is_empty() {
        return Ok(Vec::new());
    }
    let settings = repo.secret_settings()?;
    let findings = secrets.iter().map(|secret| SecretFinding::new(repo, &settings, secret));
    Ok(findings.filter(|finding| !finding.is_allowed).collect())
}

/// The secrets of a scrubbed copy that are not allowed in the original store.
///
/// # Errors
/// The errors of reading the settings.
pub(crate) fn open_in_copy(repo: &Repository, copy: &SecretScan) -> Result<Vec<SecretFinding>> {
    let settings = repo.secret_settings()?;
    let findings = copy.findings.iter().map(|finding| {
        let (rule, value) = (finding.rule, finding.value.clone());
        SecretFinding::new(repo, &settings, &FoundSecret { rule, value, offset: 0, end: 0 })
    });
    Ok(findings.filter(|finding| !finding.is_allowed).collect())
}

/// The error for secrets left after masking.
pub(crate) fn still_found(left: &[SecretFinding]) -> Failure {
    let rules: BTreeSet<&str> = left.iter().map(|finding| finding.rule).collect();
    let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
    let secrets = count(left.len() as u64, "secret");
    let error = Error::invalid(format!("{secrets} would still be written after masking: {rules}"));
    let id = left.first().map_or("", |finding| &finding.id);
    Failure::hinted(
        error,
        format!("nothing was written; 'turntree redact --secret {id}' removes it from the store"),
    )
}

/// Masks all secrets in a text that are not allowed.
///
/// # Errors
/// The errors of [`masked`] and of reading the settings.
pub(crate) fn without_secrets(repo: &Repository, text: Vec<u8>) -> Result<Vec<u8>> {
    let settings = repo.secret_settings()?;
    let is_open = |secret: &FoundSecret| !SecretFinding::new(repo, &settings, secret).is_allowed;
    Ok(mask_secrets(&text, &is_open)?.unwrap_or(text))
}

/// Refuses texts sent with a scrubbed copy that still contain a secret.
///
/// # Errors
/// `InvalidInput` for such a text, and the errors of reading the settings.
pub(crate) fn refuse_texts(repo: &Repository, texts: &[Vec<u8>]) -> Result<()> {
    for text in texts {
        let left = open_findings(repo, text)?;
        if !left.is_empty() {
            return Err(still_found(&left));
        }
    }
    Ok(())
}

/// Scans scopes for secrets, and warns about unreadable content.
///
/// # Errors
/// The errors of [`scan_secrets`]; `Corrupt` if parts of the history could not be read.
pub(crate) fn scan(repo: &Repository, scopes: &[SearchScope]) -> Result<SecretScan> {
    let working = Working::new("looking at the turns");
    let progress = |done: u64, all: u64| {
        if done.is_multiple_of(BLOBS_A_WORD) {
            working.say(format!("looking for secrets: {done} of {}", count(all, "content")));
        }
    };
    let scan = scan_secrets(repo, scopes, &progress)?;
    drop(working);
    for text in scan.damage.iter().take(MAX_WARNINGS) {
        warn(&format!("not scanned: {text}"));
    }
    if scan.damage.is_empty() {
        return Ok(scan);
    }
    let parts = count(scan.damage.len() as u64, "part");
    let message = format!("{parts} of this history could not be read");
    let damaged = Error::new(ErrorKind::Corrupt, message);
    Err(Failure::hinted(damaged, "'turntree fsck' lists the damage"))
}

/// Every branch of every session.
pub(crate) fn everything(repo: &Repository) -> Vec<SearchScope> {
    let branches = repo.branches().into_iter();
    let starts = branches.map(|(name, tip)| (tip, Some(name))).collect();
    vec![SearchScope { starts, hide: Vec::new() }]
}

/// Reports refused secrets and the options on stderr, and as JSON on stdout if stdout is not used
/// for the content.
///
/// # Errors
/// The errors of writing.
pub(crate) fn refuse(out: &mut Output, findings: &[SecretFinding], is_free: bool) -> Result<()> {
    if out.json && is_free {
        let refused = findings.iter().map(record).collect();
        out.record(&json::SecretsRefused { refused: true, secrets: refused })?;
    } else {
        let mut text = Vec::new();
        write_findings(&mut text, Palette::default(), findings.iter())?;
        for line in String::from_utf8_lossy(&text).lines() {
            note(line);
        }
    }
    let secrets = count(findings.len() as u64, "secret");
    warn(&format!("nothing was written: it would contain {secrets}"));
    let id = findings.first().map_or("", |finding| &finding.id);
    note(&format!(
        "--scrub masks them, --allow-secrets writes them; 'turntree secrets allow {id}' allows one that is not a secret"
    ));
    Ok(())
}

/// Writes findings with their places.
///
/// # Errors
/// The errors of writing.
pub(crate) fn write_findings<'f>(
    out: &mut dyn Write,
    paint: Palette,
    findings: impl Iterator<Item = &'f SecretFinding>,
) -> Result<()> {
    for finding in findings {
        let rule = paint.paint(STRONG, finding.rule);
        let id = paint.paint(ID, &finding.id);
        let about = RULES.iter().find(|rule| rule.id == finding.rule).map_or("", |rule| rule.about);
        let places = match finding.places.len() as u64 {
            0 => "in its metadata".to_owned(),
            places => format!("in {}", count(places, "place")),
        };
        let allowed = if finding.is_allowed { ", allowed" } else { "" };
        writeln!(out, "{rule} {id}  {about}, {places}{allowed}")?;
        for place in finding.places.iter().take(SHOWN_PLACES) {
            writeln!(out, "  {}", words_of(place, paint))?;
        }
        if let Some(more) = finding.places.len().checked_sub(SHOWN_PLACES).filter(|more| *more > 0)
        {
            writeln!(out, "  {}", paint.paint(FAINT, format!("and {more} more")))?;
        }
    }
    Ok(())
}

fn words_of(place: &SecretPlace, paint: Palette) -> String {
    let mut words = format!(
        "{} {} turn {}",
        paint.paint(ID, place.commit.short(ID_DIGITS)),
        harmless(&place.session),
        place.turn
    );
    if place.prompt > 0 {
        let _ = write!(words, ", prompt {}", place.prompt);
    }
    let path = match place.part {
        ScanPart::Commit => "the metadata of the turn".to_owned(),
        ScanPart::Key => format!("a name in {}", harmless(&place.section)),
        ScanPart::Content => harmless(&path_of(&place.section, &place.key)),
    };
    let _ = write!(words, "  {}", paint.paint(NAME, path));
    if let Some(line) = place.line {
        let _ = write!(words, ":{line}");
    }
    if let Some(field) = &place.field {
        let _ = write!(words, " {}", harmless(field));
    }
    if let Some(role) = place.role {
        let _ = write!(words, "  {role}");
    }
    words
}

/// The JSON record of a finding.
pub(crate) fn record(finding: &SecretFinding) -> json::SecretFinding {
    let place = |place: &SecretPlace| json::SecretPlace {
        session: place.session.clone(),
        turn: place.turn,
        id: place.commit.to_string(),
        prompt: place.prompt,
        part: match place.part {
            ScanPart::Content => "content",
            ScanPart::Key => "key",
            ScanPart::Commit => "commit",
        },
        path: path_of(&place.section, &place.key),
        role: place.role.map(turntree::context::Role::name),
        field: place.field.clone(),
        line: place.line,
    };
    json::SecretFinding {
        rule: finding.rule,
        id: finding.id.clone(),
        allowed: finding.is_allowed,
        count: finding.places.len() as u64,
        places: finding.places.iter().map(place).collect(),
    }
}

/// Describes what happens to imported secrets.
pub(crate) fn about_mode(mode: SecretMode) -> &'static str {
    match mode {
        SecretMode::Warn => "imported secrets are stored and reported",
        SecretMode::Mask => "imported secrets are masked, and files with one are left out",
        SecretMode::Off => "imports are not scanned for secrets",
    }
}

/// Selects findings by id, by rule, or all that are not allowed.
///
/// # Errors
/// `NotFound` for a name without a finding.
pub(crate) fn named(scan: &SecretScan, names: &[String]) -> Result<Vec<SecretFinding>> {
    let mut chosen: BTreeMap<&str, &SecretFinding> = BTreeMap::new();
    for name in names {
        let matching = scan.findings.iter().filter(|finding| match name.as_str() {
            "all" => !finding.is_allowed,
            name => finding.id == name || finding.rule == name,
        });
        let before = chosen.len();
        let mut found = false;
        for finding in matching {
            found = true;
            chosen.insert(&finding.id, finding);
        }
        if !found && chosen.len() == before {
            let error = Error::not_found(format!("no secret of this store has the name {name}"));
            return Err(Failure::hinted(error, "'turntree secrets scan --all' lists them"));
        }
    }
    Ok(chosen.into_values().cloned().collect())
}

/// Warns about turns that could not be scanned.
pub(crate) fn warn_of_unscanned(scan: &SecretScan) {
    if !scan.gaps.list().is_empty() {
        warn_of_gaps(&scan.gaps);
    }
}
