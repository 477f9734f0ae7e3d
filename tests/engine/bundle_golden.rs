//! A bundle written when the format was made opens forever. An independent reader sees the same in
//! it, and in bundles of today, as the library.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use turntree::maintenance::fsck;
use turntree::object::{ObjectSource, Time};
use turntree::repo::Repository;
use turntree::store::{Access, Io, ParityShare, RealIo, Thoroughness, Tier, append_parity};
use turntree::transfer::bundle::{
    Bundle, BundleRequest, Held, UnbundleOptions, plan_bundle, plan_unbundle, unbundle,
};
use turntree_tests::sample::{Sample, try_open};
use turntree_tests::{Sandbox, claude_code, recorded_sessions, stamp};

/// Sessions with elided turns, a pin and a fork, and an increment with later turns.
const GOLDEN: [&str; 2] = ["bundle-v2.bundle", "bundle-v2-since.bundle"];

/// The turn that the increment requires.
const SINCE: &str = "two~3";

/// The first golden bundle with parity appended.
const WITH_PARITY: &str = "bundle-v2-parity.bundle";

fn format_spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec")
}

fn golden(name: &str) -> PathBuf {
    format_spec().join("vectors").join(name)
}

fn open(path: &Path) -> Bundle {
    Bundle::open(Arc::new(RealIo.open(path, Access::Read).unwrap())).unwrap()
}

fn everything(repo: &Repository) -> Vec<BundleRequest> {
    let branches = repo.branches().into_iter();
    branches.map(|(branch, _)| BundleRequest::Session(branch.session().to_owned())).collect()
}

#[test]
#[ignore = "writes the golden bundles of a new version, which is done once"]
fn write_golden_bundles() {
    let repo = try_open(&Sample::new().disk, 70).unwrap();
    let since = repo.resolve(SINCE).unwrap().commit;
    for (name, known) in GOLDEN.into_iter().zip([&[][..], &[since]]) {
        let plan = plan_bundle(&repo, &everything(&repo), known).unwrap();
        plan.write(&repo, Tier::Archive, &RealIo.create(&golden(name)).unwrap()).unwrap();
    }
}

#[test]
#[ignore = "writes the golden bundle with parity, which is done once"]
fn write_golden_parity() {
    let file = RealIo.create(&golden(WITH_PARITY)).unwrap();
    file.write_at(&std::fs::read(golden(GOLDEN[0])).unwrap(), 0).unwrap();
    append_parity(&file, ParityShare::default()).unwrap();
}

#[test]
fn golden_parity_is_reproducible_and_restores() {
    let (plain, whole) = (golden(GOLDEN[0]), golden(WITH_PARITY));
    let [plain, whole] = [plain, whole].map(|path| std::fs::read(path).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle");
    let file = RealIo.create(&path).unwrap();
    file.write_at(&plain, 0).unwrap();
    append_parity(&file, ParityShare::default()).unwrap();
    assert!(std::fs::read(&path).unwrap() == whole);
    let (checksum, manifest) = (open(&golden(GOLDEN[0])).checksum(), told(&open(&path)));
    file.write_at(&[0; 512], plain.len() as u64 / 2 / 512 * 512).unwrap();
    assert_eq!((open(&path).checksum(), told(&open(&path))), (checksum, manifest));
}

#[test]
fn golden_bundles_can_be_imported() {
    let [whole, since] = GOLDEN.map(|name| open(&golden(name)));
    let target = Sandbox::new();
    let plan = plan_unbundle(&target.repo, &since, &UnbundleOptions::default()).unwrap();
    assert!(!plan.missing.is_empty());
    for bundle in [&whole, &since, &whole] {
        bundle.verify(None).unwrap();
        unbundle(&target.repo, bundle, &UnbundleOptions::default(), &stamp(90)).unwrap();
    }
    let found = fsck(&target.repo, Thoroughness::Full, Time::default(), &mut |_, _| {}).unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    // The same source, built again, has the same commits.
    let again = try_open(&Sample::new().disk, 70).unwrap();
    for (branch, tip) in again.branches() {
        assert_eq!(target.repo.tip(&branch), Some(tip), "{branch}");
    }
    assert!(whole.manifest().sessions.iter().any(|session| session.elided > 0));
}

/// Prints the operations of a bundle as the independent reader does.
fn told(bundle: &Bundle) -> String {
    let mut text = String::new();
    let value = |id: Option<Held>| id.map_or_else(|| "None".to_owned(), |id| id.to_string());
    for told in bundle.operations(&bundle.verify(None).unwrap()).unwrap() {
        let undoes = told.undoes.map_or_else(|| "None".to_owned(), |undone| undone.to_string());
        let (sequence, micros) = (told.sequence, told.time_micros);
        let (actor, reason) = (told.actor, told.reason);
        writeln!(text, "{sequence}\t{micros}\t{actor}\t{reason}\t{undoes}").unwrap();
        for change in told.changes {
            let (old, new) = (value(change.old), value(change.new));
            writeln!(text, "\t{}\t{old}\t{new}", change.name).unwrap();
        }
    }
    assert_ne!(bundle.manifest().operations, 0);
    text
}

fn reader(path: &Path, arguments: &[&str]) -> (bool, Vec<u8>) {
    let program = if arguments.is_empty() { "bundle.py" } else { "reader.py" };
    let mut command = Command::new("python3");
    command.arg("-B").arg(format_spec().join(program)).arg(path).args(arguments);
    let output = command.output().unwrap();
    (output.status.success(), output.stdout)
}

#[test]
fn the_independent_reader_sees_the_same_objects() {
    let imports = Command::new("python3").args(["-c", "import blake3, cbor2, zstandard"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        println!("skipped: needs python3 with the packages blake3, cbor2 and zstandard");
        return;
    }
    let sandbox = Sandbox::new();
    let recorded = recorded_sessions().into_iter();
    let smallest = recorded.min_by_key(|file| std::fs::metadata(file).map_or(0, |it| it.len()));
    let bytes = smallest.map(|file| std::fs::read(file).unwrap());
    sandbox.import("work", &bytes.unwrap_or_else(|| claude_code(20).into_bytes())).unwrap();
    // Rewinds, undoes the rewind, and rewinds again. The bundle contains none of the abandoned
    // turns.
    for back in [Some("work~1"), None, Some("work~1")] {
        match back {
            None => {
                let last = sandbox.repo.operations().next().unwrap().unwrap();
                let plan = sandbox.repo.plan_undo(last).unwrap();
                sandbox.repo.undo(&plan, &stamp(80), "undo").unwrap();
            }
            Some(revision) => {
                let mut change = sandbox.repo.begin();
                let to = sandbox.repo.resolve(revision).unwrap().commit;
                change.move_branch(&"work/main".parse().unwrap(), Some(to));
                change.commit(&stamp(80), "back").unwrap();
            }
        }
    }
    let made = sandbox.folder().join("work.bundle");
    let plan = plan_bundle(&sandbox.repo, &everything(&sandbox.repo), &[]).unwrap();
    plan.write(&sandbox.repo, Tier::Archive, &RealIo.create(&made).unwrap()).unwrap();

    let target = Sandbox::new();
    let names = GOLDEN.into_iter().chain([WITH_PARITY]);
    for path in names.map(golden).chain([made.clone()]) {
        let bundle = open(&path);
        unbundle(&target.repo, &bundle, &UnbundleOptions::default(), &stamp(90)).unwrap();
        let (ok, listed) = reader(&path, &["objects"]);
        assert!(ok, "{}", path.display());
        let listed = String::from_utf8(listed).unwrap();
        let counts = bundle.manifest().objects;
        let all = counts.blobs + counts.nodes + counts.commits + counts.tags;
        let sized = |line: &&str| line.ends_with(|last: char| last.is_ascii_digit());
        assert_eq!(listed.lines().filter(sized).count(), usize::try_from(all).unwrap());
        for line in listed.lines().filter(sized) {
            let (id, rest) = line.split_once('\t').unwrap();
            let object = target.repo.read(&id.parse().unwrap()).unwrap().unwrap();
            assert_eq!(rest, format!("{}\t{}", object.kind, object.bytes.len()));
        }
        assert_eq!(reader(&path, &[]).1, told(&bundle).into_bytes());
        let (_, refs) = reader(&path, &["refs"]);
        let refs = String::from_utf8(refs).unwrap();
        assert_eq!(refs.lines().count(), bundle.manifest().refs.len() + 1, "and HEAD");
        for (name, value) in &bundle.manifest().refs {
            assert!(refs.contains(&format!("{name}\t{}\n", value.id.0)), "{refs}");
            let (is_all, log) = reader(&path, &["log", name]);
            let log = String::from_utf8(log).unwrap();
            assert!(is_all || !bundle.manifest().prerequisites.is_empty(), "{name}");
            assert_eq!(log.split('\t').nth(1), Some(&*value.turn.to_string()), "{log}");
        }
    }
    let mut bytes = std::fs::read(&made).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&made, bytes).unwrap();
    assert!(!reader(&made, &["refs"]).0, "a changed byte is refused");
}
