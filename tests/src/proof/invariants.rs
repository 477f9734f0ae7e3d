//! Records the acknowledgements of processes on a real store, and checks that the store keeps them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use turntree::context::export_source;
use turntree::context::sections::SOURCE;
use turntree::object::{ObjectId, ObjectSource as _, RefValue};
use turntree::repo::{BranchName, Repository, pin_ref};
use turntree::store::FindingKind;

use super::content::{Prover, commit, full, open};
use super::processes::{Started, turntree};
use super::worker::{Acknowledged, IMPORTED, SECRETS};
use super::{Effort, content};

/// The most files in the journal after a collection: the segments left for new writers, and those
/// that processes were killed while creating since.
const MAX_SEGMENTS: usize = 24;

/// The most small temporary files that killed processes leave for later generations of the
/// manifest.
const MAX_TEMPORARY: usize = 4;

/// The branch that only checks commit to.
const CHECKS: &str = "checks";

/// The acknowledged changes. Sessions named [`SECRETS`] are redacted, so only numbers of them stay.
#[derive(Debug, Default)]
pub struct Promise {
    /// Commits of workers and of `snapshot`, by branch, in the order of each writer.
    pub commits: BTreeMap<String, Vec<Acknowledged>>,
    /// Branches that are never moved.
    pub forks: BTreeMap<String, ObjectId>,
    /// Pins, by name.
    pub pins: BTreeMap<String, ObjectId>,
    /// Transcripts, by session.
    pub imports: BTreeMap<String, PathBuf>,
    /// The redacted secrets.
    pub redacted: Vec<String>,
    /// The commits whose contexts were read.
    proved: HashSet<ObjectId>,
}

impl Promise {
    /// Records a commit.
    pub fn add(&mut self, acknowledged: Acknowledged) {
        self.commits.entry(acknowledged.branch.clone()).or_default().push(acknowledged);
    }

    /// The number of acknowledged commits.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.commits.values().map(|commits| commits.len() as u64).sum()
    }

    /// Asserts that the store in `dir` keeps all acknowledged changes, that nothing in it is
    /// damaged, and that it accepts commits. No other process may use it. `seed` is one that no
    /// process had. `reread` rereads the commits that earlier checks read.
    ///
    /// # Panics
    /// If the store breaks a promise.
    pub fn check(&mut self, effort: &Effort, dir: &Path, seed: u64, reread: bool) {
        if reread {
            self.proved.clear();
        }
        let repo = open(dir, seed).unwrap_or_else(|error| panic!("open: {}", full(&error)));
        let findings = repo.findings();
        let damage = findings.iter().find(|finding| finding.kind == FindingKind::Damage);
        assert!(damage.is_none(), "{damage:?}");
        self.check_commits(&repo);
        for (name, id) in &self.forks {
            assert_eq!(tip(&repo, name), Some(*id), "branch {name}");
        }
        for (name, id) in &self.pins {
            let full_name = pin_ref(name).expect("the name of a pin");
            let Some(RefValue::Object(pin)) = repo.refs().value(&full_name).cloned() else {
                panic!("pin {name} is lost")
            };
            assert_eq!(repo.peel(&pin).unwrap(), *id, "pin {name}");
        }
        for (session, path) in &self.imports {
            let tip = tip(&repo, session).unwrap_or_else(|| panic!("import {session} is lost"));
            let mut bytes = Vec::new();
            let context = repo.context(&tip).unwrap();
            export_source(&repo, &context, &mut bytes).unwrap();
            assert!(bytes == std::fs::read(path).unwrap(), "import {session} differs");
        }
        drop(repo);
        check_files(effort, dir);
        let repo = open(dir, seed + 1).unwrap();
        let branch = BranchName::main(CHECKS).unwrap();
        let id = commit(&repo, &branch, seed).unwrap_or_else(|error| panic!("{}", full(&error)));
        self.add(Acknowledged { branch: CHECKS.into(), id, number: seed });
    }

    /// Reads every branch with commits, acknowledged or not.
    fn check_commits(&mut self, repo: &Repository) {
        let mut prover = Prover::new(repo);
        let mut names: BTreeSet<String> = self.commits.keys().cloned().collect();
        names.extend(repo.branches().into_iter().map(|(branch, _)| branch.to_string()));
        for name in names {
            let acknowledged = self.commits.get(&name).map_or(&[][..], Vec::as_slice);
            let imported = name.starts_with(IMPORTED);
            if self.forks.contains_key(&name) || imported {
                continue;
            }
            let is_secret = name.split('/').next() == Some(SECRETS);
            let Some(tip) = tip(repo, &name) else {
                // A worker created this branch only to delete it.
                assert!(acknowledged.is_empty(), "branch {name} is lost");
                continue;
            };
            let (mut ids, mut numbers) = (HashSet::new(), HashSet::new());
            for entry in repo.history(&[tip], &[]).unwrap().first_parent() {
                let entry = entry.unwrap_or_else(|error| panic!("{name}: {}", full(&error)));
                let word = entry.commit.message.split(' ').next().unwrap_or_default();
                numbers.insert(u64::from_str_radix(word, 16).unwrap_or_default());
                if !is_secret && self.proved.insert(entry.id) {
                    let proved = prover.turn(&entry.id, &entry.commit);
                    proved.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
                }
                ids.insert(entry.id);
            }
            for Acknowledged { id, number, .. } in acknowledged {
                let there = if is_secret { numbers.contains(number) } else { ids.contains(id) };
                assert!(
                    there,
                    "{name}: commit {id} of turn {number:x} was acknowledged and is lost"
                );
            }
        }
    }

    /// Asserts that a secret is nowhere after its redaction was acknowledged, and that no
    /// unreferenced file is left.
    ///
    /// # Panics
    /// If the secret is found.
    /// When it is somewhere.
    pub fn check_redacted(&mut self, effort: &Effort, dir: &Path, seed: u64, secret: &str) {
        let again = ["redact", secret, "--dry-run"];
        let _ =
            Started::new("redact --dry-run", &mut turntree(effort, dir, &again)).end().expect(&[1]);
        for path in files(dir) {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!holds(&bytes, secret), "{} contains redacted content", path.display());
        }
        let repo = open(dir, seed).unwrap();
        let inventory = repo.store().inventory().unwrap();
        for entry in (0..inventory.positions()).filter_map(|at| inventory.entry(at)) {
            let bytes = repo.read_as(entry.kind, &entry.id).unwrap();
            assert!(
                !holds(&bytes, secret),
                "{} {} contains redacted content",
                entry.kind,
                entry.id
            );
        }
        check_nothing_is_left(&repo, dir);
        self.redacted.push(secret.to_owned());
    }
}

/// Checks that `fsck` finds nothing, and that collections leave no unreferenced file. The commit of
/// the last check gives `repack` something to do.
fn check_files(effort: &Effort, dir: &Path) {
    for arguments in [&["fsck"][..], &["repack", "--tier", "hot"], &["gc"], &["fsck", "--json"]] {
        let what = arguments.join(" ");
        let _ = Started::new(what, &mut turntree(effort, dir, arguments)).end().expect(&[0]);
    }
    let repo = open(dir, 0).unwrap();
    check_nothing_is_left(&repo, dir);
}

/// Checks that the store references every file in it.
fn check_nothing_is_left(repo: &Repository, dir: &Path) {
    let summary = repo.summary().unwrap();
    let count = |folder: &str| std::fs::read_dir(dir.join(folder)).unwrap().count();
    let names =
        || files(dir).iter().map(|path| format!("\n{}", path.display())).collect::<String>();
    let is_parity = |path: &PathBuf| path.extension().is_some_and(|end| end == "parity");
    let (parities, packs): (Vec<_>, Vec<_>) =
        files(&dir.join("packs")).into_iter().partition(is_parity);
    assert_eq!(packs.len(), summary.packs, "packs without an owner: {}", names());
    let has_pack = |parity: &PathBuf| packs.contains(&parity.with_extension("pack"));
    assert!(parities.iter().all(has_pack), "a parity of no pack: {}", names());
    let segments = summary.active_segments + summary.sealed_segments;
    assert_eq!(count("journal"), segments, "segments without an owner: {}", names());
    assert!(segments <= MAX_SEGMENTS, "{segments} segments: {}", names());
    let is_temporary =
        |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "tmp");
    // The temporary files of the last generation, and of a process that was killed while it created
    // the store.
    let temporary = files(dir).iter().filter(is_temporary).count();
    assert!(temporary <= MAX_TEMPORARY, "temporary files: {}", names());
}

fn tip(repo: &Repository, name: &str) -> Option<ObjectId> {
    let (session, branch) = name.split_once('/').unwrap_or((name, "main"));
    repo.tip(&BranchName::new(session, branch).ok()?)
}

fn holds(bytes: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(bytes).contains(text)
}

/// Every file in a folder and below.
#[must_use]
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&path)),
            _ => found.push(path),
        }
    }
    found.sort();
    found
}

/// Asserts that a worker wrote all files that `restore` has laid out.
///
/// # Panics
/// If it did not.
pub fn check_restored(dir: &Path) {
    let restored = files(dir);
    assert!(!restored.is_empty(), "nothing was restored");
    for path in restored.iter().filter(|path| path.extension().is_none_or(|e| e != "jsonl")) {
        let bytes = std::fs::read(path).unwrap();
        let proved = match path.file_name().is_some_and(|name| name == SOURCE) {
            true => content::prove_records(&bytes),
            false => content::prove(&bytes).map(drop),
        };
        proved.unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()));
    }
}
