//! `bundle`: writes sessions into one verifiable file, and imports them.

mod encryption;
mod input;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use turntree::object::{ObjectId, Time};
use turntree::repo::{BranchName, Repository, SearchScope};
use turntree::store::{BundleWritten, ParityShare, Tier, append_parity};
use turntree::transfer::bundle::{
    Bundle as BundleFile, BundleLosses, BundlePlan, BundleRequest, BundledOperation, Held,
    Manifest, Prerequisite, RefFate, UnbundleOptions, Unbundled, plan_bundle, plan_unbundle,
    unbundle,
};
use turntree::{Error, ErrorKind};

use self::input::Input;
use super::Verb;
use crate::porcelain::read::branches::refuse_forgotten;
use crate::porcelain::read::revision::resolve;
use crate::porcelain::read::secrets::{Passage, SecretGate, refuse, refuse_texts};
use crate::porcelain::transfer::scrub::{Scrubbed, tips, wanted};
use crate::porcelain::transfer::temp_file::{Spool, save_checked};
use crate::program::age_keys::Sealing;
use crate::program::complete::revisions;
use crate::program::directory_map::{MappedDirectory, add_pairs, parse_pair};
use crate::program::invocation::{Invocation, stamp};
use crate::view::error::{Answer, Failure, Result};
use crate::view::output::{FAINT, ID, NAME, Output};
use crate::view::progress::Working;
use crate::view::render::{ID_DIGITS, count, one_line, size};
use crate::view::units::parse_size;
use crate::view::{clock, json};

/// Maximum characters shown of a name from a bundle.
const NAME_CHARS: usize = 100;

/// Create, verify and import single-file bundles
///
/// A bundle holds the branches of a session, with their tags and pins, the whole history of turns,
/// and the operations that made them; its first lines are text. With --not it leaves out turns that
/// are reachable from another revision, and only a store that has those turns can import it. It can
/// be encrypted in age format.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree bundle create nightly -o nightly.bundle
  turntree bundle create --all -o laptop.bundle
  turntree bundle create nightly --not nightly~20 -o since.bundle
  turntree bundle create nightly -o nightly.bundle --scrub
  turntree bundle create nightly -o nightly.bundle.age --encrypt-to age1...
  turntree bundle show nightly.bundle
  turntree bundle show nightly.bundle --operations
  turntree bundle verify nightly.bundle --repair
  turntree bundle unbundle nightly.bundle --dry-run
  turntree bundle unbundle nightly.bundle --session from-home
  turntree bundle unbundle damaged.bundle --partial")]
pub(crate) struct Bundle {
    #[command(subcommand)]
    action: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    Create(Create),
    Show(ShowBundle),
    Verify(Verify),
    Unbundle(Unbundle),
}

/// Write sessions, or single branches and turns, into a new file
///
/// The content is scanned for secrets. If one is found, nothing is written and the exit code is 1,
/// unless --scrub masks them or --allow-secrets includes them. With --scrub, turns from the first
/// one with a secret on have other ids in the bundle.
#[derive(Debug, Args)]
struct Create {
    /// Sessions, branches or other revisions
    #[arg(required_unless_present = "all", value_name = "SESSION|REV",
        add = ArgValueCompleter::new(revisions))]
    names: Vec<String>,
    /// Include every session, for another machine. Not included are HEAD, policies and the
    /// operations for undo; a copy of the store's directory has them too
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The new file, or - for standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,
    /// Leave out turns reachable from this revision; the importing store must have them
    #[arg(long, visible_alias = "since", value_name = "REV", add = ArgValueCompleter::new(revisions))]
    not: Vec<String>,
    /// Level of compression: archive takes several times as long, for a smaller file
    #[arg(long, value_enum, default_value_t = Level::Compacted)]
    tier: Level,
    /// Percent of the file that may be damaged and still be restored: the file grows by this share
    /// and some kilobytes; 0 for none
    #[arg(long, value_name = "PERCENT", default_value_t = ParityShare::default().percent(),
        value_parser = clap::value_parser!(u8).range(..=100))]
    parity: u8,
    #[command(flatten)]
    sealing: Sealing,
    #[command(flatten)]
    gate: SecretGate,
}

/// Print the header of a bundle
#[derive(Debug, Args)]
struct ShowBundle {
    #[command(flatten)]
    input: Input,
    /// List the operations on its refs instead, newest first; verifies the whole bundle
    #[arg(long)]
    operations: bool,
    /// Accept up to this size of content, such as 20GB; by default 1 GiB, or a thousand times the
    /// file
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "operations")]
    max_bytes: Option<u64>,
}

/// Verify every byte of a bundle, and check that the store has its prerequisites
#[derive(Debug, Args)]
struct Verify {
    #[command(flatten)]
    input: Input,
    /// Accept up to this size of content, such as 20GB; by default 1 GiB, or a thousand times the
    /// file
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,
    /// Overwrite damaged bytes of the file with restored ones, and then verify it
    #[arg(long)]
    repair: bool,
}

/// Import a bundle into the store
///
/// A branch that has another history in the store gets a new name, and one that continues a branch
/// of the store fast-forwards it. Titles and labels are imported too; an existing title is kept.
/// The import is one operation, which 'undo' reverts; operations in the bundle are not imported.
#[derive(Debug, Args)]
struct Unbundle {
    #[command(flatten)]
    input: Input,
    /// Put its branches into this session instead of their own
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Map the directories of another computer, as 'turntree session map' does; may be given several
    /// times
    #[arg(long, value_name = "OLD=NEW", value_parser = parse_pair)]
    map: Vec<MappedDirectory>,
    /// Print the outcome without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Import sessions that were forgotten with 'turntree session forget'
    #[arg(long)]
    again: bool,
    /// Import the undamaged part of a bundle that its parity cannot restore: each branch up to its
    /// newest whole turn. Losses are reported, and the exit code is then 1
    #[arg(long)]
    partial: bool,
    /// Accept up to this size of content, such as 20GB; by default 1 GiB, or a thousand times the
    /// file
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,
}

/// The level of compression of a bundle.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    /// Fastest
    Hot,
    /// As 'gc' does
    Compacted,
    /// Smallest
    Archive,
}

impl Verb for Bundle {
    fn reads_only(&self) -> bool {
        !matches!(self.action, BundleCommand::Unbundle(_))
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match &self.action {
            BundleCommand::Create(create) => create.run(run),
            BundleCommand::Show(show) => show.run(run),
            BundleCommand::Verify(verify) => verify.run(run),
            BundleCommand::Unbundle(unbundle) => unbundle.run(run),
        }
    }
}

impl Create {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let to_stdout = self.output == Path::new("-");
        if to_stdout && io::stdout().is_terminal() {
            let error = Error::invalid("not writing binary data to a terminal");
            return Err(Failure::hinted(error, "name a file with -o"));
        }
        let wanted = match self.all {
            true => every_session(&repo)?,
            false => {
                let wanted = self.names.iter().map(|name| wanted(&repo, name));
                wanted.collect::<Result<Vec<BundleRequest>>>()?
            }
        };
        let without = self.not.iter().map(|rev| Ok(resolve(&repo, rev)?.commit));
        let without: Vec<ObjectId> = without.collect::<Result<_>>()?;
        if !to_stdout && fs::symlink_metadata(&self.output).is_ok() {
            let message = format!("{} exists already", self.output.display());
            return Err(Error::invalid(message).into());
        }
        let encrypted = self.sealing.is_asked_for();
        let encryptor = encrypted.then(|| self.sealing.encryptor()).transpose()?;
        let working = Working::new("packing");
        let mut plan = plan_bundle(&repo, &wanted, &without)?;
        drop(working);
        let scrubbed = match self.passage(&repo, &plan, &wanted, &without)? {
            Passage::Free => None,
            Passage::Refused(found) => {
                refuse(&mut run.out, &found, !to_stdout)?;
                return Ok(Answer::No);
            }
            Passage::Masked(found) => {
                let copy = Scrubbed::verified(&repo, &wanted, &without, &found)?;
                let wanted: Vec<_> = wanted.iter().map(|wanted| copy.request(wanted)).collect();
                let without: Vec<_> = without.iter().map(|id| copy.commit(id)).collect();
                plan = plan_bundle(copy.repo(), &wanted, &without)?;
                refuse_texts(&repo, &plan.texts(copy.repo())?)?;
                Some(copy)
            }
        };
        let source = scrubbed.as_ref().map_or(&*repo, Scrubbed::repo);
        let working = Working::counting("packing", "objects", source.store().packing());
        let dir = if to_stdout { repo.dir() } else { folder_of(&self.output) };
        let spool = Spool::create(dir)?;
        let written = plan.write(source, self.tier.tier(), spool.file())?;
        let spool = match encryptor {
            Some(encryptor) => {
                let sealed = Spool::create(dir)?;
                encryption::seal(encryptor, spool.reader(), &mut sealed.writer())
                    .map_err(|error| Error::io("encrypt the bundle", error))?;
                sealed
            }
            None => spool,
        };
        let parity = match self.parity {
            0 => 0,
            percent => append_parity(spool.file(), ParityShare::new(percent)?)?,
        };
        let copied =
            |out: &mut dyn Write| io::copy(&mut spool.reader(), out).and_then(|_| out.flush());
        match to_stdout {
            true => copied(&mut run.out)?,
            false => save_checked(&self.output, copied)?,
        }
        drop(working);
        if !to_stdout {
            self.report(&mut run.out, &plan, &written, parity)?;
        }
        Ok(Answer::Yes)
    }

    /// Scans the outgoing content. With --scrub it also scans content that the other store has, so
    /// that it is masked as in an earlier bundle.
    fn passage(
        &self,
        repo: &Repository,
        plan: &BundlePlan,
        wanted: &[BundleRequest],
        without: &[ObjectId],
    ) -> Result<Passage> {
        let hide = if self.gate.scrub { Vec::new() } else { without.to_vec() };
        let scope = SearchScope { starts: tips(repo, wanted), hide };
        self.gate.check(repo, &[scope], &plan.texts(repo)?)
    }

    fn report(
        &self,
        out: &mut Output,
        plan: &BundlePlan,
        written: &BundleWritten,
        parity_bytes: u64,
    ) -> Result<()> {
        let (file, manifest) = (self.output.display().to_string(), &plan.manifest);
        let encrypted = self.sealing.is_asked_for();
        if out.json {
            out.record(&json::BundleWritten {
                file,
                checksum: written.checksum.to_string(),
                encrypted,
                bytes: written.bytes,
                raw_bytes: written.raw_bytes,
                parity_bytes,
                manifest,
            })?;
            return Ok(());
        }
        let turns = count(turns(manifest), "turn");
        let (bytes, raw) = (size(written.bytes), size(written.raw_bytes));
        let how = if encrypted { ", encrypted" } else { "" };
        let parity = match parity_bytes {
            0 => String::new(),
            bytes => format!(", with {} of parity", size(bytes)),
        };
        writeln!(out, "wrote {turns}, {raw}, as {bytes} to {file}{how}{parity}")?;
        requirements(out, &manifest.prerequisites)
    }
}

impl ShowBundle {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let opened = self.input.open()?;
        if self.operations {
            return self.list(&opened.bundle, &mut run.out);
        }
        let shown = opened.shown();
        match run.out.json {
            true => run.out.record(&shown)?,
            false => describe(&mut run.out, &shown)?,
        }
        Ok(Answer::Yes)
    }

    fn list(&self, bundle: &BundleFile, out: &mut Output) -> Result<Answer> {
        let working = Working::new("verifying");
        let contents = bundle.verify(self.max_bytes)?;
        let operations = bundle.operations(&contents)?;
        drop(working);
        out.page();
        for operation in operations.into_iter().rev() {
            list(out, operation)?;
        }
        Ok(Answer::Yes)
    }
}

impl Verify {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        match self.verify(run) {
            Err(failure)
                if matches!(&failure, Failure::Library { error, .. }
                    if error.kind() == ErrorKind::Corrupt) =>
            {
                self.tell_whole(run)?;
                Err(failure)
            }
            verified => verified,
        }
    }

    /// Prints the undamaged part of a damaged bundle, if there is any.
    fn tell_whole(&self, run: &mut Invocation) -> Result<()> {
        let Ok((opened, losses)) = self.input.open_partial(false, self.max_bytes) else {
            return Ok(());
        };
        let shown = opened.shown();
        if run.out.json {
            let (repaired, lost) = (self.repair.then_some(false), Some((&losses).into()));
            run.out.record(&json::BundleVerified { shown, repaired, missing: None, lost })?;
            return Ok(());
        }
        writeln!(run.out, "intact are:")?;
        describe(&mut run.out, &shown)?;
        tell_lost(&mut run.out, &losses)
    }

    fn verify(&self, run: &mut Invocation) -> Result<Answer> {
        let repaired = self.repair.then(|| self.input.repair()).transpose()?;
        let opened = self.input.open()?;
        let bundle = &opened.bundle;
        let working = Working::new("verifying");
        let missing = match run.open() {
            Ok(repo) => {
                let options =
                    UnbundleOptions { max_bytes: self.max_bytes, ..UnbundleOptions::default() };
                Some(plan_unbundle(&repo, bundle, &options)?.missing)
            }
            Err(Failure::Library { error, .. })
                if error.kind() == ErrorKind::NotFound && run.named_store().is_none() =>
            {
                bundle.verify(self.max_bytes)?;
                None
            }
            Err(failure) => return Err(failure),
        };
        drop(working);
        let has_all = missing.as_ref().is_none_or(Vec::is_empty);
        let shown = opened.shown();
        if run.out.json {
            let repaired = repaired.map(|damage| !damage.is_none());
            run.out.record(&json::BundleVerified {
                shown,
                repaired,
                missing: missing.as_deref(),
                lost: None,
            })?;
        } else {
            describe(&mut run.out, &shown)?;
            match repaired.filter(|damage| !damage.is_none()) {
                Some(damage) => {
                    let shards = count(damage.damaged.len() as u64, "shard");
                    let parity = match damage.lost_units {
                        0 => String::new(),
                        units => format!(", and {} of its parity", count(units, "unit")),
                    };
                    writeln!(run.out, "repaired {shards}{parity}")?;
                }
                None if self.repair => writeln!(run.out, "nothing to repair")?,
                None => {}
            }
            match opened.is_damaged() {
                true => writeln!(run.out, "every byte verifies after repair by its parity")?,
                false => writeln!(run.out, "every byte verifies")?,
            }
            for missing in missing.iter().flatten() {
                writeln!(run.out, "this store lacks {}", name_of(missing))?;
            }
        }
        Ok(if has_all && !opened.is_damaged() { Answer::Yes } else { Answer::No })
    }
}

impl Unbundle {
    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        self.take_in(run).map_err(|failure| match failure {
            Failure::Library { error, hint: None, .. }
                if error.kind() == ErrorKind::Corrupt && !self.partial && self.is_damaged() =>
            {
                Failure::hinted(error, "--partial imports the intact turns of a damaged bundle")
            }
            failure => failure,
        })
    }

    /// Returns true if the bundle is damaged, and not the importing store.
    fn is_damaged(&self) -> bool {
        let verified = self.input.open().map(|opened| opened.bundle.verify(self.max_bytes));
        verified.is_err() || verified.is_ok_and(|verified| verified.is_err())
    }

    fn take_in(&self, run: &mut Invocation) -> Result<Answer> {
        let (bundle, losses) = match self.partial {
            true => {
                let (opened, losses) = self.input.open_partial(true, self.max_bytes)?;
                (opened.bundle, losses)
            }
            false => (self.input.open()?.bundle, BundleLosses::default()),
        };
        let (session, max_bytes) = (self.session.clone(), self.max_bytes);
        let options = UnbundleOptions { session, max_bytes, remote: None };
        let repo = if self.dry_run { run.open()? } else { run.open_or_create()? };
        let named = bundle.manifest().refs.keys().filter_map(|name| BranchName::from_full(name));
        let named: BTreeSet<String> = match &self.session {
            Some(session) => BTreeSet::from([session.clone()]),
            None => named.map(|branch| branch.session().to_owned()).collect(),
        };
        refuse_forgotten(&repo, named.iter().map(String::as_str), self.again)?;
        let working = Working::new("verifying");
        let done = if self.dry_run {
            let plan = plan_unbundle(&repo, &bundle, &options)?;
            Unbundled { plan, operation: None, new_bytes: 0 }
        } else {
            let done = unbundle(&repo, &bundle, &options, &stamp()?)?;
            add_pairs(&self.map)?;
            done
        };
        drop(working);
        self.report(&mut run.out, &done, &losses)?;
        done.plan.check()?;
        Ok(if losses.is_none() { Answer::Yes } else { Answer::No })
    }

    fn report(&self, out: &mut Output, done: &Unbundled, losses: &BundleLosses) -> Result<()> {
        let plan = &done.plan;
        if out.json {
            let refs = plan.refs.iter().map(|planned| json::BundleRef {
                name: planned.name.clone(),
                local_name: planned.becomes.clone(),
                change: fate(planned.fate),
                id: planned.id.to_string(),
                turn: planned.turn,
            });
            let labels = plan.labels.iter().map(|planned| json::BundleLabels {
                session: planned.session.clone(),
                title: planned.title.clone(),
                labels: planned.labels.iter().cloned().collect(),
            });
            out.record(&json::UnbundlePlan {
                dry_run: self.dry_run,
                refs: refs.collect(),
                new_objects: plan.new_objects,
                known_objects: plan.known_objects,
                labels: labels.collect(),
                redacted: plan.redacted,
                missing: &plan.missing,
                operation: done.operation,
                new_bytes: done.new_bytes,
                lost: (!losses.is_none()).then(|| losses.into()),
            })?;
            return Ok(());
        }
        for planned in &plan.refs {
            let turn = planned.turn;
            let becomes = out.paint.paint(NAME, one_line(&planned.becomes, NAME_CHARS));
            let what = match planned.fate {
                RefFate::New if planned.name != planned.becomes => {
                    format!("new, for {}", one_line(&planned.name, NAME_CHARS))
                }
                RefFate::New => "new".to_owned(),
                RefFate::Forward => "moves on".to_owned(),
                RefFate::Known => "known".to_owned(),
            };
            writeln!(out, "{becomes}  turn {turn}, {what}")?;
        }
        for planned in &plan.labels {
            let session = out.paint.paint(NAME, one_line(&planned.session, NAME_CHARS));
            let title = planned.title.as_ref().map(|title| one_line(title, NAME_CHARS));
            let title = title.map(|title| format!("title '{title}'"));
            let labels = (!planned.labels.is_empty()).then(|| {
                let labels: Vec<&str> = planned.labels.iter().map(String::as_str).collect();
                format!("labels {}", one_line(&labels.join(", "), NAME_CHARS))
            });
            let what: Vec<String> = title.into_iter().chain(labels).collect();
            writeln!(out, "{session}  {}", what.join(", "))?;
        }
        let (new, known) = (count(plan.new_objects, "new object"), plan.known_objects);
        if plan.missing.is_empty() {
            let nothing = if plan.is_empty() { "; nothing to do" } else { "" };
            writeln!(out, "{new}, {known} known{nothing}")?;
        }
        if plan.redacted > 0 {
            let contents = count(plan.redacted, "content");
            writeln!(out, "{contents} left out: redacted in this store")?;
        }
        if self.dry_run && !plan.is_empty() {
            writeln!(out, "nothing was done")?;
        }
        tell_lost(out, losses)
    }
}

impl Level {
    fn tier(self) -> Tier {
        match self {
            Self::Hot => Tier::Hot,
            Self::Compacted => Tier::Compacted,
            Self::Archive => Tier::Archive,
        }
    }
}

fn every_session(repo: &Repository) -> Result<Vec<BundleRequest>> {
    let names: BTreeSet<String> =
        repo.branches().into_iter().map(|(branch, _)| branch.session().to_owned()).collect();
    if names.is_empty() {
        return Err(Error::not_found("there is no session to bundle").into());
    }
    Ok(names.into_iter().map(BundleRequest::Session).collect())
}

/// Lists the losses, if any.
fn tell_lost(out: &mut Output, losses: &BundleLosses) -> Result<()> {
    for lost in &losses.refs {
        let name = out.paint.paint(NAME, one_line(&lost.name, NAME_CHARS));
        let turn = lost.turn;
        match lost.whole {
            Some(whole) if whole + 1 < turn => {
                writeln!(out, "{name}  turns {} to {turn} are lost", whole + 1)?;
            }
            Some(_) => writeln!(out, "{name}  turn {turn} is lost")?,
            None => writeln!(out, "{name}  is lost, with turn {turn}")?,
        }
    }
    if !losses.is_none() {
        let (objects, turns) = (losses.objects, count(losses.turns, "turn"));
        let all = count(losses.of_objects, "object");
        writeln!(out, "{objects} of {all} and {turns} are lost")?;
    }
    Ok(())
}

fn turns(manifest: &Manifest) -> u64 {
    manifest.sessions.iter().map(|session| session.turns).sum()
}

fn describe(out: &mut Output, shown: &json::BundleShown<'_>) -> Result<()> {
    let manifest = shown.manifest;
    let checksum: String = shown.checksum.chars().take(ID_DIGITS).collect();
    let how = if shown.encrypted { ", encrypted" } else { "" };
    let (bytes, raw) = (size(shown.bytes), size(shown.raw_bytes));
    let parity = shown.parity.as_ref().map(|parity| format!(", {} of parity", size(parity.bytes)));
    writeln!(out, "bundle {checksum}: {bytes} for {raw}{how}{}", parity.unwrap_or_default())?;
    for session in &manifest.sessions {
        let name = out.paint.paint(NAME, one_line(&session.session, NAME_CHARS));
        let (first, last) = (session.first_turn, session.last_turn);
        let (oldest, newest) = (&session.oldest, &session.newest);
        let turns = count(session.turns, "turn");
        write!(out, "{name}: {turns}, {first} to {last}, ")?;
        write!(out, "{} to {}", one_line(oldest, NAME_CHARS), one_line(newest, NAME_CHARS))?;
        match session.elided {
            0 => writeln!(out)?,
            elided => writeln!(out, "; {elided} without their context")?,
        }
    }
    for (session, labels) in &manifest.labels {
        let title = labels.title.as_ref().map(|title| one_line(title, NAME_CHARS));
        let labels = labels.labels.iter().map(|label| format!("#{}", one_line(label, NAME_CHARS)));
        let said: Vec<String> = title.into_iter().chain(labels).collect();
        writeln!(out, "{} is called: {}", one_line(session, NAME_CHARS), said.join(" "))?;
    }
    for (name, value) in &manifest.refs {
        let (name, turn) = (one_line(name, NAME_CHARS), value.turn);
        let id = out.paint.paint(FAINT, value.id.0.short(ID_DIGITS));
        writeln!(out, "  {name}  turn {turn}  {id}")?;
    }
    if manifest.operations > 0 {
        writeln!(out, "{}", count(manifest.operations, "operation"))?;
    }
    requirements(out, &manifest.prerequisites)
}

/// Writes an operation with the refs that it changed.
fn list(out: &mut Output, operation: BundledOperation) -> Result<()> {
    let text = |held: Option<Held>| held.map(|held| held.to_string());
    let changes = operation.changes.into_iter().map(|change| json::ChangedRef {
        name: change.name,
        old: text(change.old),
        new: text(change.new),
    });
    let changes: Vec<json::ChangedRef> = changes.collect();
    let time = Time { micros: operation.time_micros, offset_minutes: 0 };
    if out.json {
        out.record(&json::BundledOperation {
            operation: operation.sequence,
            time: clock::rfc3339(time),
            actor: operation.actor,
            reason: operation.reason,
            undoes: operation.undoes,
            changes,
        })?;
        return Ok(());
    }
    let (paint, sequence) = (out.paint, operation.sequence);
    let time = paint.paint(FAINT, clock::rfc3339(time));
    let (actor, reason) = (one_line(&operation.actor, 20), one_line(&operation.reason, NAME_CHARS));
    writeln!(out, "{sequence:>5} {time}  {actor}  {reason}")?;
    for json::ChangedRef { name, old, new } in &changes {
        let name = paint.paint(NAME, name.strip_prefix("refs/").unwrap_or(name));
        let value = |held: &Option<String>| match held {
            None => paint.paint(FAINT, "nothing".to_owned()),
            Some(id) => paint.paint(ID, id.chars().take(ID_DIGITS).collect()),
        };
        writeln!(out, "  {name} {} -> {}", value(old), value(new))?;
    }
    Ok(())
}

fn requirements(out: &mut Output, prerequisites: &[Prerequisite]) -> Result<()> {
    for known in prerequisites {
        writeln!(out, "requires {}", name_of(known))?;
    }
    Ok(())
}

fn name_of(known: &Prerequisite) -> String {
    let (turn, session) = (known.turn, one_line(&known.session, NAME_CHARS));
    format!("turn {turn} of {session} ({})", known.commit.0.short(ID_DIGITS))
}

const fn fate(fate: RefFate) -> &'static str {
    match fate {
        RefFate::New => "new",
        RefFate::Forward => "forward",
        RefFate::Known => "known",
    }
}

/// The directory of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
