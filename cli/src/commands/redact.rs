//! `redact`: removes a string or pattern from the whole store, including history.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use turntree::context::sections::{FILES, META};
use turntree::maintenance::{
    DEFAULT_REPLACEMENT, MatchLocation, Pattern, Redacted, RedactionPlace, RedactionPlan,
    Rewritten, plan_redaction, redact,
};
use turntree::object::{Kind, MAX_BLOB_BYTES, ObjectSource};
use turntree::repo::{BranchName, Repository, Signature};
use turntree::workspace::{AdoptionCache, read_regular};
use turntree::{Error, ErrorKind};
use turntree_exchange::{SecretFinding, mask_of};

use super::Verb;
use super::gc::LOG_FILE;
use crate::porcelain::read::secrets::{everything, named, scan};
use crate::porcelain::store::maintenance_wait::Patience;
use crate::porcelain::transfer::transcript_sources::{SourceFile, holding, redact_all, shown};
use crate::program::invocation::{Invocation, read_input, stamp};
use crate::view::error::{Answer, Failure, Hint, Result};
use crate::view::json;
use crate::view::output::{FAINT, ID, Output, STRONG};
use crate::view::render::{ID_DIGITS, count, harmless, size};

/// How often a redaction is repeated for secrets that adjacent text had hidden.
const MAX_ROUNDS: usize = 4;

/// The folder of the caches in a store.
const CACHES: &str = "workspaces/";

const ELSEWHERE: &str = "'turntree grep -iF TEXT --all' finds it in another case, 'turntree secrets \
                         scan' lists the secrets in the store";

const IN_USE: &str =
    "end the processes that have the store open, or repair it if it is damaged, and run this again";

/// Remove a secret from everything, including history
///
/// Every object is searched: contents, paths, messages, names, reasons. A STRING is also found as
/// escaped in JSON, programs and URLs, with colour codes, in UTF-16, and inside base64. Turns that
/// contain it and all later ones are rewritten with new ids; the old ids are reported as redacted.
/// Then all files of the store are replaced, so that none contains it. The operation log starts
/// over: no earlier operation can be undone. The exit code is 1 if nothing matches.
///
/// Agent transcripts that still contain it are listed, and --sources rewrites them without it. A
/// transcript that is left alone cannot bring the secret back: if 'adopt' or a hook imports it
/// again, the store keeps its redacted version. Workspace files are listed and never changed;
/// snapshots leave them out.
///
/// Not covered are other encodings; copies of the store, its archives and exports; and blocks that
/// the file system has not overwritten yet. So also replace a stored secret with a new one.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree redact - --dry-run < secret.txt
  turntree redact sk-1234567890 --yes --sources
  turntree redact --secret 9c1d0a77e3b2 --yes --sources
  turntree redact --regex 'ghp_[A-Za-z0-9]{36}' --replacement TOKEN --yes")]
pub(crate) struct Redact {
    /// The text to remove, or - to read it from stdin, which keeps it out of the shell history and
    /// the process list
    #[arg(value_name = "STRING", required_unless_present_any = ["regex", "secret"],
        conflicts_with_all = ["regex", "secret"])]
    string: Option<String>,
    /// Remove matches of a regular expression in the stored bytes; - reads it from stdin
    #[arg(long, value_name = "PATTERN")]
    regex: Option<String>,
    /// Remove a finding of 'secrets scan' by its id, all findings of a rule, or 'all' that are not
    /// allowed; may be given several times
    #[arg(long, value_name = "ID|RULE", conflicts_with = "regex")]
    secret: Vec<String>,
    /// The replacement: '[redacted]' by default, '[secret: RULE]' for --secret
    #[arg(long, value_name = "TEXT")]
    replacement: Option<String>,
    /// Print the plan without doing it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Remove it: this cannot be undone
    #[arg(short, long, conflicts_with = "dry_run")]
    yes: bool,
    /// Also rewrite transcripts without it, in the directories of agents and in the sources of
    /// adopted sessions; no copy is kept
    #[arg(long)]
    sources: bool,
    #[command(flatten)]
    patience: Patience,
}

impl Verb for Redact {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let pattern = self.pattern(&repo)?;
        self.patience.apply(&repo);
        let plan = plan_redaction(&repo, &pattern)?;
        // Read first, because a redaction deletes the sources of sessions.
        let adopted = AdoptionCache::peek(&repo)
            .paths()
            .filter(|path| path.exists())
            .map(Path::to_owned)
            .collect();
        let mut outside = Outside {
            sources: holding(&pattern, adopted),
            workspace: workspace_files(&repo, &plan, &pattern)?,
            is_rewritten: self.sources,
        };
        let is_found = has_content(&plan) || self.sources && !outside.sources.is_empty();
        if !is_found {
            if self.yes && !plan.is_empty() {
                // An interrupted redaction may have left caches that hold it.
                let stamp = stamp()?;
                self.patience.again(|| redact(&repo, &pattern, &stamp))?;
            }
            if run.out.json {
                run.out.record(&record(&plan, None, &outside))?;
            } else if outside.sources.is_empty() {
                writeln!(run.out, "nothing found, nothing to take out: {ELSEWHERE}")?;
            } else {
                writeln!(run.out, "nothing found in the store")?;
                outside.write_plan(&mut run.out)?;
            }
            return Ok(Answer::No);
        }
        if !self.yes {
            if self.dry_run {
                run.out.page();
            }
            show(&mut run.out, &plan, &outside)?;
            if self.dry_run {
                return Ok(Answer::Yes);
            }
            let error = Error::invalid("a redaction cannot be undone: nothing was done");
            return Err(Failure::hinted(error, "--yes redacts, --dry-run only shows the plan"));
        }
        let stamp = stamp()?;
        let redacted = self.patience.again(|| redact(&repo, &pattern, &stamp));
        let redacted =
            redacted.hint(ErrorKind::Locked, IN_USE).hint(ErrorKind::Conflict, "run it again")?;
        forget_log(&run.store_dir()?.join(LOG_FILE))?;
        self.verify(&repo, &pattern, &stamp)?;
        if self.sources {
            redact_all(&pattern, &mut outside.sources);
        }
        if run.out.json {
            run.out.record(&record(&plan, Some(&redacted), &outside))?;
        } else {
            if !plan.is_empty() {
                write_places(&mut run.out, &plan)?;
                write_done(&mut run.out, &redacted)?;
            }
            outside.write_done(&mut run.out)?;
        }
        let is_left = outside.sources.iter().any(|file| !file.is_redacted);
        Ok(if self.sources && is_left { Answer::No } else { Answer::Yes })
    }
}

/// Returns true if the store has a match, or files that an interrupted redaction left and that may
/// have one. Caches are always among these files, and are made again.
fn has_content(plan: &RedactionPlan) -> bool {
    plan.matches > 0 || plan.leftovers.iter().any(|name| !name.starts_with(CACHES))
}

/// Files outside of the store that contain it.
struct Outside {
    sources: Vec<SourceFile>,
    /// Files of workspaces, which are never changed.
    workspace: Vec<String>,
    /// True if the sources are to be rewritten.
    is_rewritten: bool,
}

impl Outside {
    fn write_plan(&self, out: &mut Output) -> Result<()> {
        for SourceFile { shown, matches, obstacle, .. } in &self.sources {
            let (path, matches) = (harmless(shown), count(*matches, "match"));
            match obstacle {
                _ if !self.is_rewritten => writeln!(out, "leave {path}: {matches}")?,
                Some(reason) => writeln!(out, "leave {path}: {matches}, but {reason}")?,
                None => writeln!(out, "rewrite {path}: {matches}, and no copy is kept")?,
            }
        }
        self.write_end(out)
    }

    fn write_done(&self, out: &mut Output) -> Result<()> {
        for SourceFile { shown, matches, obstacle, is_redacted, .. } in &self.sources {
            let (path, matches) = (harmless(shown), count(*matches, "match"));
            match obstacle {
                _ if *is_redacted => writeln!(out, "rewrote {path}: {matches}, now none")?,
                Some(reason) if self.is_rewritten => {
                    writeln!(out, "{path} still holds it: {matches}, but {reason}")?;
                }
                _ => writeln!(out, "{path} still holds it: {matches}")?,
            }
        }
        self.write_end(out)
    }

    fn write_end(&self, out: &mut Output) -> Result<()> {
        for path in &self.workspace {
            let path = harmless(path);
            writeln!(out, "leave {path}, a file of a workspace: change it yourself")?;
        }
        if self.sources.is_empty() {
            writeln!(out, "no transcript in the directories of agents contains it")?;
        } else if !self.is_rewritten {
            writeln!(out, "--sources rewrites transcripts without it")?;
        }
        Ok(())
    }
}

/// The workspace files that contain it, among files in snapshots.
fn workspace_files(
    repo: &Repository,
    plan: &RedactionPlan,
    pattern: &Pattern,
) -> Result<Vec<String>> {
    let mut found = BTreeSet::new();
    for place in &plan.places {
        let MatchLocation::Entry { session, section, key, .. } = &place.whereabouts else {
            continue;
        };
        if section != FILES {
            continue;
        }
        let tip = BranchName::main(session).ok().and_then(|branch| repo.tip(&branch));
        let Some(tip) = tip else { continue };
        let meta = repo.context(&tip).and_then(|context| context.map(repo, META));
        // An unreadable entry names no directory.
        let item = meta.and_then(|meta| meta.get(repo, b"cwd")).ok().flatten();
        let cwd = item.and_then(|item| repo.read_as(Kind::Blob, &item.link.id).ok());
        let Some(cwd) = cwd.and_then(|cwd| String::from_utf8(cwd.to_vec()).ok()) else { continue };
        let path = Path::new(&cwd).join(key);
        if read_regular(&path, MAX_BLOB_BYTES as u64).is_ok_and(|bytes| pattern.count(&bytes) > 0) {
            found.insert(shown(pattern, &path));
        }
    }
    Ok(found.into_iter().collect())
}

impl Redact {
    /// Verifies the result before it is reported as done. Secrets that are found only after
    /// adjacent text was removed are redacted too.
    fn verify(&self, repo: &Repository, pattern: &Pattern, stamp: &Signature) -> Result<()> {
        let left = self.patience.again(|| plan_redaction(repo, pattern))?.matches;
        if left > 0 {
            let left = count(left, "match");
            let message = format!("{left} is in the store after the redaction, by another commit");
            return Err(Failure::hinted(Error::new(ErrorKind::Conflict, message), "run it again"));
        }
        for _ in 0..MAX_ROUNDS {
            let left = self.still_found(repo)?;
            if left.is_empty() {
                return Ok(());
            }
            let pattern = self.masks(&left)?;
            self.patience.again(|| redact(repo, &pattern, stamp))?;
        }
        let left = self.still_found(repo)?;
        let Some(first) = left.first() else { return Ok(()) };
        let (secrets, id) = (count(left.len() as u64, "secret"), &first.id);
        let message = format!("{secrets} with the given name is found after the redaction");
        let hint = format!("'turntree redact --secret {id}' removes one of them");
        Err(Failure::hinted(Error::new(ErrorKind::Conflict, message), hint))
    }

    /// The findings selected by `--secret` that a scan still finds.
    fn still_found(&self, repo: &Repository) -> Result<Vec<SecretFinding>> {
        if self.secret.is_empty() {
            return Ok(Vec::new());
        }
        let is_named = |finding: &SecretFinding, name: &String| match name.as_str() {
            "all" => !finding.is_allowed,
            name => finding.id == name || finding.rule == name,
        };
        let mut found = scan(repo, &everything(repo))?.findings;
        found.retain(|finding| self.secret.iter().any(|name| is_named(finding, name)));
        Ok(found)
    }

    fn masks(&self, chosen: &[SecretFinding]) -> Result<Pattern> {
        let replacement = |rule| self.replacement.clone().unwrap_or_else(|| mask_of(rule));
        let values = chosen.iter().map(|it| (it.value.as_str(), replacement(it.rule)));
        Ok(Pattern::literals(values)?)
    }

    fn pattern(&self, repo: &Repository) -> Result<Pattern> {
        if !self.secret.is_empty() {
            let chosen = named(&scan(repo, &everything(repo))?, &self.secret)?;
            return self.masks(&chosen);
        }
        let replacement = self.replacement.as_deref().unwrap_or(DEFAULT_REPLACEMENT);
        let given = self.string.as_ref().or(self.regex.as_ref()).map_or("", String::as_str);
        let read = if given == "-" { Some(line_of_stdin()?) } else { None };
        let text = read.as_deref().unwrap_or(given);
        let make = if self.regex.is_some() { Pattern::regex } else { Pattern::literal };
        Ok(make(text, replacement)?)
    }
}

/// Reads stdin without the final line end.
fn line_of_stdin() -> Result<String> {
    let bytes = read_input(Path::new("-"))?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|source| Error::invalid("standard input is not UTF-8").with_source(source))?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn show(out: &mut Output, plan: &RedactionPlan, outside: &Outside) -> Result<()> {
    if out.json {
        out.record(&record(plan, None, outside))?;
        return Ok(());
    }
    if !plan.is_empty() {
        write_places(out, plan)?;
        write_plan(out, plan)?;
    }
    outside.write_plan(out)?;
    writeln!(out, "nothing was done")?;
    Ok(())
}

/// Deletes the log of maintenance, because its messages may contain redacted names.
fn forget_log(log: &Path) -> Result<()> {
    match fs::remove_file(log) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", log.display()), error).into())
        }
        _ => Ok(()),
    }
}

fn write_places(out: &mut Output, plan: &RedactionPlan) -> Result<()> {
    let paint = out.paint;
    for place in &plan.places {
        let spots = place.spots.iter().map(|spot| format!("{}:{}", spot.line, spot.offset));
        let spots = spots.collect::<Vec<_>>().join(", ");
        let more = if place.matches > place.spots.len() as u64 { ", ..." } else { "" };
        let words = harmless(&place.whereabouts.to_string());
        let part = place.part.name();
        let at = format!("{part}, {} at {spots}{more}", count(place.matches, "match"));
        let id = place.object.map(|id| id.short(ID_DIGITS)).unwrap_or_default();
        writeln!(out, "{words}  {}  {}", paint.paint(FAINT, at), paint.paint(ID, id))?;
    }
    Ok(())
}

fn write_plan(out: &mut Output, plan: &RedactionPlan) -> Result<()> {
    let paint = out.paint;
    let matches = count(plan.matches, "match");
    writeln!(out, "\n{}", paint.paint(STRONG, format!("{matches}; this would be done:")))?;
    if plan.rewritten != Rewritten::default() {
        writeln!(out, "rewrite {}, with new ids", written_again(&plan.rewritten))?;
    }
    for name in &plan.refs {
        writeln!(out, "move {}", harmless(name))?;
    }
    writeln!(out, "report the old ids as redacted")?;
    let operations = count(plan.operations, "operation");
    writeln!(out, "forget {operations}: undo cannot go back before this")?;
    if plan.lost_commits > 0 {
        let lost = count(plan.lost_commits, "snapshot");
        writeln!(out, "drop {lost} that are unreachable from branches, tags and pins")?;
    }
    for name in &plan.leftovers {
        writeln!(out, "remove {name}, which is unreferenced")?;
    }
    writeln!(out, "replace every file of the store")?;
    for name in &plan.in_use {
        writeln!(out, "but not while a process writes to {name}")?;
    }
    Ok(())
}

fn write_done(out: &mut Output, redacted: &Redacted) -> Result<()> {
    let again = written_again(&redacted.rewritten);
    let ids = count(redacted.redacted_ids, "old id");
    let (before, after) = (size(redacted.replaced_bytes), size(redacted.written_bytes));
    writeln!(out, "rewrote {again}; {ids} are reported as redacted")?;
    writeln!(out, "replaced every file of the store: {before} before, {after} now")?;
    Ok(())
}

fn written_again(rewritten: &Rewritten) -> String {
    let contents = count(rewritten.blobs + rewritten.nodes, "object");
    let mut words = vec![contents, count(rewritten.commits, "snapshot")];
    words.extend((rewritten.tags > 0).then(|| count(rewritten.tags, "tag object")));
    let last = words.pop().unwrap_or_default();
    format!("{} and {last}", words.join(", "))
}

fn record(plan: &RedactionPlan, redacted: Option<&Redacted>, outside: &Outside) -> json::Redaction {
    let source = |file: &SourceFile| json::RedactionSource {
        path: file.shown.clone(),
        matches: file.matches,
        redacted: file.is_redacted,
        obstacle: file.obstacle.clone(),
    };
    let rewritten = redacted.map_or(plan.rewritten, |redacted| redacted.rewritten);
    json::Redaction {
        dry_run: redacted.is_none(),
        matches: plan.matches,
        places: plan.places.iter().map(place).collect(),
        rewritten: json::Rewritten {
            blobs: rewritten.blobs,
            nodes: rewritten.nodes,
            commits: rewritten.commits,
            tags: rewritten.tags,
        },
        refs: plan.refs.clone(),
        operations: plan.operations,
        lost_commits: plan.lost_commits,
        leftovers: plan.leftovers.clone(),
        in_use: plan.in_use.clone(),
        redacted_ids: redacted.map(|redacted| redacted.redacted_ids),
        sources: outside.sources.iter().map(source).collect(),
        workspace_files: outside.workspace.clone(),
    }
}

fn place(place: &RedactionPlace) -> json::RedactionPlace {
    let at = |spot: &turntree::maintenance::PatternMatch| json::Position {
        line: spot.line,
        offset: spot.offset,
    };
    let mut record = json::RedactionPlace {
        part: place.part.name(),
        id: place.object.map(|id| id.to_string()),
        matches: place.matches,
        at: place.spots.iter().map(at).collect(),
        ..json::RedactionPlace::default()
    };
    match &place.whereabouts {
        MatchLocation::Entry { session, first_turn, last_turn, section, key } => {
            record.kind = "entry";
            record.section = Some(section.clone());
            record.key = Some(key.clone());
            record.session = Some(session.clone());
            (record.first_turn, record.last_turn) = (Some(*first_turn), Some(*last_turn));
        }
        MatchLocation::Commits { session, first_turn, last_turn } => {
            record.kind = "commit";
            record.session = Some(session.clone());
            (record.first_turn, record.last_turn) = (Some(*first_turn), Some(*last_turn));
        }
        MatchLocation::Tag(name) => (record.kind, record.name) = ("tag", Some(name.clone())),
        MatchLocation::Ref(name) => (record.kind, record.name) = ("ref", Some(name.clone())),
        MatchLocation::Operation(sequence) => {
            (record.kind, record.operation) = ("operation", Some(*sequence));
        }
        MatchLocation::Unreached(_) => record.kind = "unreached",
    }
    record
}
