//! An encrypted store: its files contain no plaintext, and its behaviour is unchanged.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::maintenance::{Loss, Pattern, Purpose, collect, fsck, redact, repair};
use turntree::object::{ObjectId, RefValue};
use turntree::repo::{BranchName, Repository};
use turntree::store::{
    EncryptionChange, Expected, OpenOptions, RealIo, Store, StoreCipher, StoreKey, StoreKeys,
    Thoroughness, Tier,
};
use turntree_tests::{Sandbox, commit_note, new_store, stamp};

/// The cipher of the first encrypted stores, and the one it is changed to.
const KEY: StoreKey = StoreKey::of(StoreCipher::XChaCha20, [3; 32]);
const OTHER: StoreKey = StoreKey::of(StoreCipher::Aes256Ctr, [4; 32]);

fn open_with(dir: &Path, keys: Option<StoreKeys>, seed: u8) -> turntree::Result<Repository> {
    let options = OpenOptions { keys, ..OpenOptions::new([seed; 16]) };
    Repository::open(Arc::new(RealIo), dir, options)
}

fn encrypted(dir: &Path, seed: u8) -> Repository {
    open_with(dir, Some(KEY.into()), seed).unwrap()
}

/// Every file below a directory with its bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found
}

/// Fails if a file or a file name contains one of `secrets`.
fn expect_hidden(dir: &Path, secrets: &[&[u8]]) {
    for (path, bytes) in files(dir) {
        for secret in secrets {
            let shown = String::from_utf8_lossy(secret).into_owned();
            let in_bytes = bytes.windows(secret.len()).any(|part| part == *secret);
            assert!(!in_bytes, "{shown} in {}", path.display());
            assert!(!path.to_string_lossy().contains(&shown), "{shown}");
        }
    }
}

fn branch(session: &str) -> BranchName {
    BranchName::new(session, "main").unwrap()
}

/// Encrypts the store with this key, whatever its key was.
fn encrypt(repo: &Repository, key: StoreKey, seed: u8) -> EncryptionChange {
    repo.store().change_encryption(Some(key), [seed; 16]).unwrap()
}

fn note(repo: &Repository, session: &str, text: &str, second: i64) -> ObjectId {
    commit_note(repo, &branch(session), ("n", text), &stamp(second))
}

fn expect_whole(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(99).time, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}

#[test]
fn encrypted_stores_contain_no_plaintext() {
    for key in [KEY, OTHER] {
        expect_nothing_in_the_clear(key);
    }
}

fn expect_nothing_in_the_clear(key: StoreKey) {
    let sandbox = Sandbox::new();
    let dir = sandbox.store_dir();
    let encrypted = |dir: &Path, seed| open_with(dir, Some(key.into()), seed).unwrap();
    encrypt(&sandbox.repo, key, 9);
    let repo = encrypted(&dir, 3);
    let mut ids = Vec::new();
    for turn in 0..40 {
        ids.push(note(&repo, "quarterly", &format!("a plain secret {turn}"), turn));
    }
    let secrets = |ids: &[ObjectId]| {
        let mut secrets: Vec<Vec<u8>> =
            vec![b"plain secret".to_vec(), b"quarterly".to_vec(), b"refs/".to_vec()];
        secrets.extend(ids.iter().map(|id| id.as_bytes().to_vec()));
        secrets
    };
    let all = secrets(&ids);
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    expect_hidden(&dir, &all);
    for (seed, tier) in (4..).zip(Tier::ALL) {
        drop(
            collect(&encrypted(&dir, seed), Purpose::Repack(tier), &stamp(100), &mut |_| {})
                .unwrap(),
        );
        expect_hidden(&dir, &all);
        let repo = encrypted(&dir, seed + 10);
        expect_whole(&repo);
        assert_eq!(repo.tip(&branch("quarterly")), ids.last().copied());
    }
}

#[test]
fn unknown_ciphers_are_detected_in_the_superblock() {
    let sandbox = Sandbox::new();
    note(&sandbox.repo, "s", "one", 1);
    let features = || {
        let superblock = fs::read(sandbox.store_dir().join("superblock")).unwrap();
        u64::from_le_bytes(*superblock[40..].first_chunk().unwrap())
    };
    assert_eq!(features(), 0);
    encrypt(&sandbox.repo, KEY, 9);
    assert_eq!(features(), 1, "the first cipher, which every program with encryption knows");
    let repo = encrypted(&sandbox.store_dir(), 3);
    encrypt(&repo, OTHER, 10);
    assert_eq!(features(), 3);
    let repo = open_with(&sandbox.store_dir(), Some(OTHER.into()), 4).unwrap();
    assert!(repo.tip(&branch("s")).is_some());
    repo.store().change_encryption(None, [11; 16]).unwrap();
    assert_eq!(features(), 0);
}

#[test]
fn encrypted_stores_open_only_with_their_key() {
    let sandbox = Sandbox::new();
    note(&sandbox.repo, "s", "one", 1);
    encrypt(&sandbox.repo, KEY, 9);
    for keys in [None, Some(OTHER.into()), Some(StoreKeys { newest: KEY, previous: Some(OTHER) })] {
        let error = open_with(&sandbox.store_dir(), keys, 2).map(drop).expect_err("no way in");
        assert_eq!(error.kind(), ErrorKind::Encrypted, "{error}");
        assert!(!error.to_string().contains("4b4b"), "{error}");
    }
    // A handle opened before the encryption cannot commit to the encrypted store, and stops reading
    // at its next refresh.
    let error = sandbox.repo.refresh().expect_err("the keys have changed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let mut change = sandbox.repo.begin();
    change.set_ref("refs/heads/s/late", Expected::Any, None);
    let tip = sandbox.repo.tip(&branch("s")).unwrap();
    change.set_ref("refs/heads/s/late", Expected::Any, Some(RefValue::Object(tip)));
    assert_eq!(change.commit(&stamp(2), "late").unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(encrypted(&sandbox.store_dir(), 3).tip(&branch("s")), Some(tip));
}

#[test]
fn stale_handles_write_no_plaintext() {
    let sandbox = Sandbox::new();
    let dir = sandbox.store_dir();
    note(&sandbox.repo, "s", "before", 1);
    for round in 0..3 {
        // No handle has a segment yet. Each creates one when it commits.
        let stale: Vec<Repository> = match round {
            0 => (20..24).map(|seed| open_with(&dir, None, seed).unwrap()).collect(),
            _ => Vec::new(),
        };
        if round == 0 {
            encrypt(&sandbox.repo, KEY, 9);
        }
        for repo in &stale {
            let mut change = repo.begin();
            let tip = repo.tip(&branch("s")).unwrap();
            change.set_ref("refs/heads/s/late", Expected::Any, Some(RefValue::Object(tip)));
            assert_eq!(change.commit(&stamp(2), "late").unwrap_err().kind(), ErrorKind::Conflict);
        }
        drop(stale);
        let repo = encrypted(&dir, 30 + round);
        for second in 10..14 {
            note(&repo, "s", &format!("a plain secret {round} {second}"), second);
        }
        expect_hidden(&dir, &[b"plain secret", b"refs/heads"]);
    }
    let repo = encrypted(&dir, 50);
    collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(100), &mut |_| {}).unwrap();
    expect_hidden(&dir, &[b"plain secret", b"refs/heads"]);
    expect_whole(&repo);
}

#[test]
fn incomplete_new_encrypted_segments_are_not_damage() {
    let sandbox = Sandbox::new();
    let dir = sandbox.store_dir();
    encrypt(&sandbox.repo, KEY, 9);
    let tip = note(&encrypted(&dir, 2), "s", "acknowledged", 1);
    let journal = dir.join("journal");
    let [(_, segment)] = &files(&journal)[..] else { panic!("one segment") };
    // Only the second head was written, and the file has not its full length.
    let head = &segment[4096..4160];
    for bytes in [4160, 4161, 8192, 62_225, 65_535, 65_536] {
        let mut incomplete = [&[0; 4096][..], head].concat();
        incomplete.resize(bytes, 0);
        fs::write(journal.join(format!("{bytes:032x}.seg")), incomplete).unwrap();
        let repo = encrypted(&dir, 3);
        expect_whole(&repo);
        assert_eq!(repo.tip(&branch("s")), Some(tip));
    }
}

#[test]
fn encryption_keeps_object_ids_and_shares_no_bytes_between_stores() {
    let plain = Sandbox::new();
    let tip = note(&plain.repo, "s", "the same in all of them", 1);
    let mut pieces: HashSet<[u8; 16]> = HashSet::new();
    for (seed, key) in [(2, KEY), (3, OTHER), (4, KEY)] {
        let sandbox = Sandbox::new();
        encrypt(&sandbox.repo, key, seed);
        let repo = open_with(&sandbox.store_dir(), Some(key.into()), seed).unwrap();
        assert_eq!(note(&repo, "s", "the same in all of them", 1), tip);
        for (path, content) in files(&sandbox.store_dir().join("journal")) {
            // Zeros are preallocated.
            let (parts, _) = content.as_chunks::<16>();
            let own: HashSet<[u8; 16]> =
                parts.iter().filter(|part| **part != [0; 16]).copied().collect();
            assert!(own.is_disjoint(&pieces), "{}", path.display());
            pieces.extend(own);
        }
    }
}

#[test]
fn existing_stores_can_be_encrypted_rekeyed_and_decrypted() {
    let sandbox = Sandbox::new();
    let dir = sandbox.store_dir();
    for turn in 0..20 {
        note(&sandbox.repo, "s", &format!("note {turn}"), turn);
    }
    collect(&sandbox.repo, Purpose::Repack(Tier::Archive), &stamp(50), &mut |_| {}).unwrap();
    let tip = note(&sandbox.repo, "s", "behind the pack", 60);
    let plan = sandbox.repo.store().plan_encryption(Some(KEY)).unwrap();
    assert!(plan.files >= 4 && plan.bytes > 1000, "{plan:?}");
    let done = encrypt(&sandbox.repo, KEY, 9);
    assert_eq!(done, plan);

    let repo = encrypted(&dir, 2);
    expect_hidden(&dir, &[b"note 1", b"refs/heads"]);
    assert_eq!(repo.tip(&branch("s")), Some(tip));
    expect_whole(&repo);
    assert_eq!(repo.store().plan_encryption(Some(KEY)).unwrap().files, 0);

    encrypt(&repo, OTHER, 10);
    assert_eq!(open_with(&dir, Some(KEY.into()), 3).err().unwrap().kind(), ErrorKind::Encrypted);
    let repo = open_with(&dir, Some(OTHER.into()), 4).unwrap();
    assert_eq!(repo.tip(&branch("s")), Some(tip));
    expect_whole(&repo);

    repo.store().change_encryption(None, [11; 16]).unwrap();
    let repo = open_with(&dir, None, 5).unwrap();
    assert_eq!(repo.tip(&branch("s")), Some(tip));
    expect_whole(&repo);
    note(&repo, "s", "and on", 70);
}

#[test]
fn interrupted_key_changes_must_be_finished_first() {
    let sandbox = Sandbox::new();
    let dir = sandbox.store_dir();
    let tip = note(&sandbox.repo, "s", "one", 1);
    encrypt(&sandbox.repo, KEY, 9);
    // A folder blocks the copy of a segment.
    let segment = fs::read_dir(dir.join("journal")).unwrap().next().unwrap().unwrap().path();
    let way = PathBuf::from(format!("{}.tmp", segment.display()));
    fs::create_dir(&way).unwrap();
    let failed = encrypted(&dir, 2).store().change_encryption(Some(OTHER), [10; 16]);
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
    fs::remove_dir(&way).unwrap();

    let both = StoreKeys { newest: OTHER, previous: Some(KEY) };
    let repo = open_with(&dir, Some(both), 3).unwrap();
    assert_eq!(repo.tip(&branch("s")), Some(tip));
    let third = repo
        .store()
        .change_encryption(Some(StoreKey::of(StoreCipher::Aes256Ctr, [5; 32])), [11; 16]);
    assert_eq!(third.unwrap_err().kind(), ErrorKind::InvalidInput);
    encrypt(&repo, OTHER, 12);
    let repo = open_with(&dir, Some(OTHER.into()), 4).unwrap();
    assert_eq!(repo.tip(&branch("s")), Some(tip));
    expect_whole(&repo);
}

#[test]
fn redaction_and_repair_work_in_encrypted_stores() {
    let sandbox = Sandbox::new();
    let dir = sandbox.store_dir();
    encrypt(&sandbox.repo, KEY, 9);
    let repo = encrypted(&dir, 2);
    for turn in 0..10 {
        note(&repo, "s", &format!("hunter2 {turn}"), turn);
    }
    redact(&repo, &Pattern::literal("hunter2", "***").unwrap(), &stamp(40)).unwrap();
    drop(repo);
    let repo = encrypted(&dir, 3);
    expect_whole(&repo);
    collect(&repo, Purpose::Repack(Tier::Archive), &stamp(50), &mut |_| {}).unwrap();
    let tip = repo.tip(&branch("s"));
    drop(repo);

    // Parity restores a pack with a bad sector. The parity is encrypted too.
    let pack =
        files(&dir).into_iter().find(|(path, _)| path.extension().is_some_and(|e| e == "pack"));
    let (path, mut bytes) = pack.expect("a pack");
    bytes[70] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let repaired = repair(&encrypted(&dir, 4), Loss::Refuse, &stamp(60), &mut |_, _| {});
    assert!(repaired.is_ok(), "{repaired:?}");
    let repo = encrypted(&dir, 5);
    expect_whole(&repo);
    assert_eq!(repo.tip(&branch("s")), tip);
    drop(repo);

    fs::remove_file(dir.join("superblock")).unwrap();
    assert!(Store::has_lost_superblock(&RealIo, &dir).unwrap());
    assert!(Store::remake_superblock(&RealIo, &dir, None).is_err(), "nothing says whose it is");
    Store::remake_superblock(&RealIo, &dir, Some(KEY.into())).unwrap();
    let repo = encrypted(&dir, 6);
    expect_whole(&repo);
    assert_eq!(repo.tip(&branch("s")), tip);
}

#[test]
fn unencrypted_stores_ignore_keys() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("store");
    drop(new_store(&dir));
    assert!(open_with(&dir, Some(KEY.into()), 2).unwrap().store().keys().is_none());
    assert_eq!(fs::metadata(dir.join("superblock")).unwrap().len(), 96);
}
