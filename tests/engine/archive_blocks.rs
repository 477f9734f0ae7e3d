//! Archives without parity: the cost of one bad block, for every block of the archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::context::{Builder, FileMode};
use turntree::maintenance::{
    FsckReport, Loss, Purpose, collect, fsck, newest_whole_turn, plan_repair, repair,
};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{NewStore, OpenOptions, Thoroughness, Tier};
use turntree_tests::sample::open;
use turntree_tests::sim::{Random, SimDisk};
use turntree_tests::stamp;

const SESSIONS: u64 = 6;
const TURNS: u64 = 8;

/// The magic bytes at the start of each frame of a pack.
const FRAME: &[u8] = b"\x89TTB\r\n\x1a\n";

/// Bytes of the header of a frame.
const FRAME_HEADER: usize = 120;

/// Whether an archive has the ids of its objects.
const FORMS: [bool; 2] = [true, false];

/// An archive of sessions. Each turn adds a file that quotes one of the first turns.
struct Archive {
    disk: SimDisk,
    pack: PathBuf,
    bytes: Vec<u8>,
    /// The file that the newest turn of each session added.
    newest: BTreeMap<String, ObjectId>,
}

impl Archive {
    fn new(lists_ids: bool) -> Self {
        let disk = SimDisk::new(Path::new("/disk"));
        let (io, dir) = (Arc::new(disk.clone()), Path::new("/disk/store"));
        let options = OpenOptions::new([1; 16]);
        let repo = Repository::init(io, dir, &NewStore { id: [4; 16] }, options).unwrap();
        let mut newest = BTreeMap::new();
        for session in 1..=SESSIONS {
            let name = format!("s{session}");
            for turn in 1..=TURNS {
                let mut change = repo.begin();
                let mut builder = Builder::new();
                for before in 1..=turn {
                    let file = file(session, before);
                    newest.insert(name.clone(), ObjectId::of(Kind::Blob, &file));
                    let file = Some((FileMode::Regular, file.into()));
                    builder.set_file(&mut change, &format!("file-{before}"), file).unwrap();
                }
                let tree = builder.write(&mut change).unwrap();
                let (branch, stamp) = (BranchName::main(&name).unwrap(), stamp(1));
                change.snapshot(&branch, SnapshotDraft::new(tree, "a turn", &stamp)).unwrap();
                change.commit(&stamp, "snapshot").unwrap();
            }
        }
        drop(repo);
        let archived = Purpose::Repack(Tier::Archive);
        collect(&packer(&disk, 2, lists_ids), archived, &stamp(2), &mut |_| {}).unwrap();
        let files = disk.files();
        let of_kind = |kind: &str| {
            let mut files =
                files.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == kind));
            let (path, bytes) = files.next().unwrap();
            assert!(files.next().is_none(), "one {kind}");
            (path.clone(), bytes.clone())
        };
        let (pack, bytes) = of_kind("pack");
        Self { disk, pack, bytes, newest }
    }

    /// Returns the offset and the kind of each block.
    fn blocks(&self) -> Vec<(usize, u8)> {
        let starts = (0..self.bytes.len()).filter(|at| self.bytes[*at..].starts_with(FRAME));
        starts.map(|at| (at, self.bytes[at + 28])).collect()
    }

    /// Opens the store with one bad block.
    fn hit(&self, block: usize) -> Repository {
        let mut bytes = self.bytes.clone();
        bytes[block + FRAME_HEADER + 10] ^= 1;
        self.disk.damage(&self.pack, bytes);
        open(&self.disk, 3)
    }
}

/// A handle that writes archives without parity, with ids or without.
fn packer(disk: &SimDisk, seed: u8, lists_ids: bool) -> Repository {
    if !lists_ids {
        open(disk, seed).store().allow_archives_without_ids().unwrap();
    }
    let repo = open(disk, seed + 100);
    repo.store().choose_pack_parity(None);
    if !lists_ids {
        repo.store().leave_ids_out();
    }
    repo
}

fn file(session: u64, turn: u64) -> Vec<u8> {
    let noise = |turn: u64, words: usize| {
        let mut random = Random(session * 100 + turn);
        (0..words).flat_map(move |_| random.draw().to_le_bytes()).collect::<Vec<u8>>()
    };
    match turn.checked_sub(TURNS / 2).filter(|quoted| *quoted > 0) {
        None => noise(turn, 8000),
        Some(quoted) => [noise(quoted, 4000), noise(turn, 4000)].concat(),
    }
}

fn check(repo: &Repository) -> FsckReport {
    fsck(repo, Thoroughness::Full, stamp(9).time, &mut |_, _| {}).unwrap()
}

#[test]
fn one_damaged_block_keeps_older_or_newer_turns_of_each_session() {
    FORMS.into_iter().for_each(one_bad_block);
}

fn one_bad_block(lists_ids: bool) {
    let archive = Archive::new(lists_ids);
    let (mut spared_older, mut spared_newer) = (0, 0);
    for (block, kind) in archive.blocks() {
        let repo = archive.hit(block);
        let report = check(&repo);
        assert!(!report.is_ok(), "block at {block}");
        for damage in &report.sessions {
            let whole = damage.newest_whole.map_or(0, |whole| whole.turn);
            let newest = &archive.newest[&damage.session];
            let can_read = repo.read(newest).is_ok_and(|found| found.is_some());
            assert!(whole >= TURNS / 2 || can_read, "block at {block} of kind {kind}: {damage:?}");
            spared_older += usize::from(whole >= TURNS / 2 && !can_read);
            spared_newer += usize::from(whole < TURNS / 2 && can_read);
        }
    }
    assert!(spared_older > 0 && spared_newer > 0, "{spared_older} and {spared_newer}");
}

#[test]
fn sessions_with_lost_commits_fall_back_to_their_newest_intact_turn() {
    FORMS.into_iter().for_each(newest_commits_are_lost);
}

fn newest_commits_are_lost(lists_ids: bool) {
    let archive = Archive::new(lists_ids);
    let commits: Vec<usize> = archive
        .blocks()
        .into_iter()
        .filter(|(_, kind)| *kind == Kind::Commit.code())
        .map(|(at, _)| at)
        .collect();
    let repo = archive.hit(*commits.last().unwrap());
    let report = check(&repo);
    assert_eq!(report.sessions.len() as u64, SESSIONS, "{report:?}");
    for damage in &report.sessions {
        assert!(damage.lost_commits && damage.lost.is_empty(), "{damage:?}");
        let whole = damage.newest_whole.unwrap();
        assert_eq!(whole.turn, TURNS / 2);
        assert_eq!(repo.commit(&whole.id).unwrap().session, damage.session);
        let (tip, now) = (repo.tip(&BranchName::main(&damage.session).unwrap()), stamp(9).time);
        let found = newest_whole_turn(&repo, &damage.session, tip.unwrap(), now, &mut |_, _| {});
        assert_eq!(found.unwrap(), Some(whole));
    }
    let plan = plan_repair(&repo, &stamp(9), &mut |_, _| {}).unwrap();
    assert_eq!(plan.refs.len() as u64, SESSIONS, "{plan:?}");
    let repaired = repair(&repo, Loss::Accept, &stamp(9), &mut |_, _| {}).unwrap();
    assert!(repaired.report.is_ok(), "{repaired:?}");
    let repo = open(&archive.disk, 4);
    for session in archive.newest.keys() {
        let tip = repo.resolve(session).unwrap().commit;
        assert_eq!(repo.commit(&tip).unwrap().turn, TURNS / 2, "{session}");
    }
}

#[test]
fn lost_turns_are_reported_as_runs_with_the_newest_intact_turn() {
    let archive = Archive::new(true);
    let blobs: Vec<usize> = archive
        .blocks()
        .into_iter()
        .filter(|(_, kind)| *kind == Kind::Blob.code())
        .map(|(at, _)| at)
        .collect();
    let report = check(&archive.hit(*blobs.last().unwrap()));
    assert!(!report.sessions.is_empty());
    for damage in &report.sessions {
        let [(first, last)] = damage.lost[..] else { panic!("{damage:?}") };
        assert!(!damage.lost_commits && first > TURNS / 2 && last == TURNS, "{damage:?}");
        assert_eq!(damage.newest_whole.map(|whole| whole.turn), Some(first - 1));
    }
}

#[test]
fn damage_in_archives_without_ids_loses_the_affected_and_later_turns() {
    let archive = Archive::new(false);
    let blobs = archive.blocks().into_iter().filter(|(_, kind)| *kind == Kind::Blob.code());
    let newest = blobs.map(|(at, _)| at).next_back().unwrap();
    let report = check(&archive.hit(newest));
    assert!(report.findings.iter().any(|it| it.message.contains("cannot be identified")));
    assert!(!report.sessions.is_empty());
    for damage in &report.sessions {
        let whole = damage.newest_whole.unwrap();
        assert!(damage.lost_commits && whole.turn >= TURNS / 2, "{damage:?}");
    }
    let repo = open(&archive.disk, 5);
    let repaired = repair(&repo, Loss::Accept, &stamp(9), &mut |_, _| {}).unwrap();
    assert!(repaired.report.is_ok(), "{repaired:?}");
}

#[test]
fn archives_are_rewritten_to_add_or_remove_ids() {
    let archive = Archive::new(true);
    let repack = |seed, lists_ids| {
        let repack = Purpose::Repack(Tier::Archive);
        let repo = packer(&archive.disk, seed, lists_ids);
        let steps = collect(&repo, repack, &stamp(9), &mut |_| {}).unwrap().steps;
        drop(repo);
        assert!(check(&open(&archive.disk, seed + 1)).is_ok());
        let files = archive.disk.files().into_iter();
        let packs = files.filter(|(path, _)| path.extension().is_some_and(|it| it == "pack"));
        (steps, packs.map(|(_, bytes)| bytes.len()).sum::<usize>())
    };
    assert_eq!(repack(10, true), (0, archive.bytes.len()), "as it is");
    let (steps, without) = repack(20, false);
    assert!(steps == 1 && without < archive.bytes.len(), "{without}");
    assert_eq!(repack(30, false), (0, without), "as it is");
    assert_eq!(repack(40, true), (1, archive.bytes.len()));
}
