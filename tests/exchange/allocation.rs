//! Memory: untrusted input determines how much is read, never how much is allocated.
//!
//! The limits are those of `format-spec/store.md`, "Memory".

use std::alloc::System;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use peakmem_alloc::{INSTRUMENTED_SYSTEM, PeakMemAlloc, PeakMemAllocTrait};
use serde_json::{Value, json};
use turntree::context::export_source;
use turntree::maintenance::{Loss, fsck, repair};
use turntree::object::ObjectSource;
use turntree::store::Thoroughness;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{AdoptOptions, Outcome, SessionPlace, adopt, find};
use turntree_exchange::{ImportOptions, PriceTable, formats, import, turn_facts};
use turntree_tests::checksums::{mend_manifest, mend_segment, mend_superblock, replace_pack};
use turntree_tests::sample::{Sample, try_open, used};
use turntree_tests::sim::SimDisk;
use turntree_tests::{new_store, stamp};

#[global_allocator]
static ALLOCATOR: &PeakMemAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEGABYTE: usize = 1 << 20;

/// The peak memory of `work` in bytes, beyond the memory before it.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATOR.reset_peak_memory();
    let result = work();
    (result, ALLOCATOR.get_peak_memory())
}

/// Runs `work` in a separate process, since memory is measured for a whole process: this program
/// again, with only the test `name` of this file.
fn alone(name: &str, work: impl FnOnce()) {
    const ALONE: &str = "TURNTREE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return work();
    }
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "--nocapture", &format!("allocation::{name}")]).env(ALONE, "1");
    let ended = process.output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && text.contains("1 passed"), "{text}");
    println!("{text}");
}

/// Replaces the file at `path` by `bytes` with valid checksums.
fn damage(disk: &SimDisk, path: &Path, mut bytes: Vec<u8>) {
    let name = path.file_name().unwrap().to_string_lossy();
    match name.rsplit_once('.') {
        Some((_, "pack")) => return replace_pack(disk, path, bytes),
        Some(_) => mend_segment(&mut bytes),
        None if name.starts_with("manifest-") => mend_manifest(&mut bytes),
        None => mend_superblock(&mut bytes),
    }
    disk.damage(path, bytes);
}

#[test]
fn memory_is_not_allocated_by_declared_lengths() {
    alone("memory_is_not_allocated_by_declared_lengths", || {
        let sample = Sample::small(6);
        let (mut opening, mut reading, mut checking, mut mending) = (0, 0, 0, 0);
        for (path, bytes) in sample.disk.files() {
            let end = used(&bytes);
            let ends = (0..end.min(320)).chain(end.saturating_sub(320)..end);
            for (number, at) in ends.filter(|at| at % 4 == 0 && at + 8 <= end).enumerate() {
                let values: [&[u8]; 3] = [
                    &u32::MAX.to_le_bytes(),
                    &(u32::MAX / 2).to_le_bytes(),
                    &u64::MAX.to_le_bytes(),
                ];
                let mut changed = bytes.clone();
                let value = values[number % 3];
                changed[at..at + value.len()].copy_from_slice(value);
                let disk = sample.copy();
                damage(&disk, &path, changed);
                let what = format!("{} at {at}", path.display());
                let (opened, memory) = peak(|| try_open(&disk, 60));
                assert!(memory < MEGABYTE, "{what}: opening takes {memory} bytes");
                opening = opening.max(memory);
                let Ok(repo) = opened else { continue };
                for id in sample.objects.keys() {
                    let (_, memory) = peak(|| repo.read(id).is_ok());
                    assert!(memory < MEGABYTE, "{what}: reading {id} takes {memory} bytes");
                    reading = reading.max(memory);
                }
                if number % 5 != 0 {
                    continue;
                }
                let now = stamp(60).time;
                let (_, memory) =
                    peak(|| fsck(&repo, Thoroughness::Full, now, &mut |_, _| {}).is_ok());
                assert!(memory < 2 * MEGABYTE, "{what}: checking takes {memory} bytes");
                checking = checking.max(memory);
                let (_, memory) =
                    peak(|| repair(&repo, Loss::Refuse, &stamp(60), &mut |_, _| {}).is_ok());
                assert!(memory < 8 * MEGABYTE, "{what}: mending takes {memory} bytes");
                mending = mending.max(memory);
            }
        }
        println!(
            "opening {opening}, reading {reading}, checking {checking}, mending {mending} bytes"
        );
    });
}

/// Imports a transcript and exports it again. Returns the number of turns, and the peak memory.
fn import_peak(text: &[u8]) -> (u64, usize) {
    let folder = tempfile::tempdir().unwrap();
    let repo = new_store(&folder.path().join("store"));
    let format = Some(formats::named("claude-code").unwrap());
    let options = ImportOptions {
        format,
        session: "one".into(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    };
    let (done, memory) = peak(|| import(&repo, text, &options));
    let report = done.unwrap();
    let context = repo.context(&report.head).unwrap();
    let mut out = Vec::new();
    export_source(&repo, &context, &mut out).unwrap();
    assert!(out == text, "another file comes out");
    (report.turns, memory)
}

#[test]
fn import_memory_is_bounded_by_the_longest_record() {
    alone("import_memory_is_bounded_by_the_longest_record", || {
        let line = |content: &str| {
            let message = format!("{{\"role\":\"user\",\"content\":\"{content}\"}}");
            format!("{{\"type\":\"user\",\"uuid\":\"a\",\"message\":{message}}}\n")
        };
        let deep = MEGABYTE;
        for (what, text) in [
            ("many turns", line("text").repeat(4000)),
            ("a long line", line(&"x".repeat(200 * MEGABYTE))),
            ("a deep line", format!("{}{}\n", "[".repeat(deep), "]".repeat(deep))),
            ("escapes", line(&"\\u0041".repeat(MEGABYTE))),
            ("empty records", "{}\n".repeat(MEGABYTE / 4)),
        ] {
            let record = text.lines().map(str::len).max().unwrap_or(0);
            let (turns, memory) = import_peak(text.as_bytes());
            let limit = 3 * record + 32 * MEGABYTE + 4096 * usize::try_from(turns).unwrap();
            println!("{what}: {} bytes, {memory} bytes of memory", text.len());
            assert!(memory < limit, "{what}: {memory} bytes of memory of {limit}");
        }
    });
}

#[test]
fn adoption_memory_grows_only_with_the_journal_index() {
    alone("adoption_memory_grows_only_with_the_journal_index", || {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("sessions");
        std::fs::create_dir(&home).unwrap();
        let mut peaks = Vec::new();
        let mut written = 0;
        for sessions in [8, 48] {
            while written < sessions {
                let text = turntree_tests::claude_code(300).replace("part", &format!("p{written}"));
                std::fs::write(home.join(format!("{written}.jsonl")), text).unwrap();
                written += 1;
            }
            let dir = folder.path().join(format!("store-{sessions}"));
            let repo = new_store(&dir);
            let options = AdoptOptions {
                stamp: stamp(1),
                adoption: Arc::default(),
                is_live: false,
                head: None,
                passed: &|_| {},
            };
            let place = SessionPlace { agent: String::new(), path: home.clone() };
            let (adopted, memory) = peak(|| {
                let found = find(std::slice::from_ref(&place)).sessions;
                adopt(&repo, found, &options, &mut AdoptionCache::default()).unwrap()
            });
            assert!(adopted.iter().all(|it| matches!(it.outcome, Outcome::Imported(_))));
            peaks.push(memory);
        }
        println!("8 sessions {}, 48 sessions {} bytes of memory", peaks[0], peaks[1]);
        // Only the index of the journal grows: some 300 bytes an object. Batches bound that.
        assert!(peaks[1] < peaks[0] + 32 * MEGABYTE, "{peaks:?}");
    });
}

#[test]
fn new_branches_take_no_memory_for_earlier_records() {
    alone("new_branches_take_no_memory_for_earlier_records", || {
        let record = |number: u32| {
            let (parent, kind) = match number {
                0 => (Value::Null, "user"),
                _ => ("0".into(), "assistant"),
            };
            let line = json!({"uuid": number.to_string(), "parentUuid": parent, "sessionId": "s",
                "version": "1.0.0", "cwd": "/w", "isSidechain": false, "type": kind,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "message": {"role": kind, "content": format!("m{number}")}});
            format!("{line}\n")
        };
        let transcript: String = (0..4_000).map(record).collect();
        let folder = tempfile::tempdir().unwrap();
        let repo = new_store(&folder.path().join("store"));
        let options = ImportOptions {
            format: None,
            session: "s".to_owned(),
            stamp: stamp(1),
            switch: false,
            adoption: None,
            branch: None,
        };
        import(&repo, transcript.as_bytes(), &options).unwrap();
        let prices = PriceTable::built_in();
        let branches = repo.branches();
        assert!(branches.len() > 3_900, "{}", branches.len());
        let mut most = 0;
        for (_, tip) in branches.iter().step_by(100) {
            let entry = repo.history(&[*tip], &[]).unwrap().next().unwrap().unwrap();
            let (facts, memory) = peak(|| turn_facts(&repo, &entry, &prices).unwrap());
            assert!(facts.is_some());
            most = most.max(memory);
        }
        println!("{most} bytes of memory for a turn");
        assert!(most < MEGABYTE / 4, "{most} bytes of memory for a turn");
    });
}
