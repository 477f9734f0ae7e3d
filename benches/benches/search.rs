//! Benchmarks queries on a history of 1,000 turns: grep compared with ripgrep on the same blobs as
//! files, log by path or text, and blame.
//!
//! ripgrep is measured if `rg` is installed, on files in the page cache. ripgrep searches the bytes
//! of messages. grep searches their text, and also finds the first turn of each match. With
//! `--test` the session has 200 turns.

use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use turntree::context::{Context, Selection, Shape};
use turntree::maintenance::{Purpose, collect};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{
    GrepQuery, LinePattern, MayHold, PatternOptions, PickaxeMatch, PickaxeQuery, Repository,
    SearchFilter, SearchScope,
};
use turntree::store::{Durability, Tier};
use turntree::tree::{List, Map};
use turntree_benches::run::is_test;
use turntree_benches::store::{History, stamp};
use turntree_exchange::MessageText;

/// The target directory, whose file system is on disk. `/tmp` is often in memory.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// A word that never occurs, one that occurs often, and an expression without words.
const PATTERNS: [(&str, &str); 3] =
    [("nothing", "quizzical"), ("a string", "return Err"), ("an expression", r"[a-z]+_\d+\(")];

fn searching(criterion: &mut Criterion) {
    let turns = if is_test() { 200 } else { 1_000 };
    let history = History::build(Path::new(FOLDER), turns).expect("a history");
    let (files, bytes) = lay_out(&history);
    let mut group = criterion.benchmark_group("session of 1,000 turns");
    group.sample_size(20);
    group.throughput(Throughput::Bytes(bytes));
    for (name, pattern) in PATTERNS {
        group.bench_function(format!("grep of {name}, from the journal"), |bencher| {
            bencher.iter(|| black_box(grep(&reopen(&history), &history, pattern)));
        });
        ripgrep(&mut group, name, pattern, &files);
    }
    log(&mut group, &history, "the journal");
    let repo = reopen(&history);
    collect(&repo, Purpose::Repack(Tier::Compacted), &stamp(0), &mut |_| {}).expect("a pack");
    drop(repo);
    for (name, pattern) in PATTERNS {
        group.bench_function(format!("grep of {name}, from a pack"), |bencher| {
            bencher.iter(|| black_box(grep(&reopen(&history), &history, pattern)));
        });
    }
    log(&mut group, &history, "a pack");
    group.finish();
}

fn reopen(history: &History) -> Repository {
    history.store.open(Durability::Full).expect("the store opens")
}

fn tip(history: &History) -> ObjectId {
    *history.commits.last().expect("a turn")
}

fn grep(repo: &Repository, history: &History, pattern: &str) -> usize {
    let pattern = LinePattern::new(pattern, PatternOptions::default()).expect("a pattern");
    let messages = MessageText::matching(&pattern);
    let may_hold = messages.test();
    let query = GrepQuery {
        pattern: &pattern,
        wanted: SearchFilter::default(),
        lines: Some(0),
        read: &|format, bytes| messages.read(format, bytes),
        may_hold: may_hold.as_ref().map(|test| test as MayHold<'_>),
    };
    let scope = SearchScope { starts: vec![(tip(history), None)], hide: Vec::new() };
    let grep = repo.grep(&[scope], query, &|_, _| {}).expect("an answer");
    grep.places().iter().map(|place| grep.found(place).expect("lines").lines.len()).sum()
}

/// Writes every blob of every context to a file. Reads each blob once.
fn lay_out(history: &History) -> (TempDir, u64) {
    let repo = reopen(history);
    let mut blobs = BTreeSet::new();
    for commit in &history.commits {
        let context: Context = repo.context(commit).expect("a context");
        for section in context.sections(&repo).expect("sections").into_values() {
            match section.shape {
                Shape::Blob => drop(blobs.insert(section.id)),
                Shape::List => {
                    let list = List::open(&repo, &section.id).expect("a list");
                    // Earlier items are in earlier contexts.
                    let first = list.len().saturating_sub(8);
                    let items = list.iter(&repo, first..list.len());
                    blobs.extend(items.map(|item| item.expect("an item").link.id));
                }
                Shape::Map => {
                    let map = Map::open(&repo, &section.id).expect("a map");
                    blobs.extend(map.iter(&repo).map(|entry| entry.expect("an entry").1.link.id));
                }
            }
        }
    }
    let folder = TempDir::new_in(FOLDER).expect("a folder");
    let mut bytes = 0;
    for blob in blobs {
        let content = repo.read_as(Kind::Blob, &blob).expect("a blob");
        bytes += content.len() as u64;
        fs::write(folder.path().join(blob.to_string()), content).expect("a file");
    }
    (folder, bytes)
}

fn ripgrep(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, pattern: &str, files: &TempDir) {
    let run = || {
        let mut rg = Command::new("rg");
        rg.args(["--no-config", "--no-ignore", "--line-number", "-e", pattern]).arg(files.path());
        rg.stdout(Stdio::null()).status()
    };
    if run().is_err() {
        return;
    }
    group.bench_function(format!("ripgrep of {name}, on the same blobs as files"), |bencher| {
        bencher.iter(|| black_box(run().expect("rg runs")));
    });
}

fn log(group: &mut BenchmarkGroup<'_, WallTime>, history: &History, from: &str) {
    let touched = |touching: PickaxeQuery<'_>| {
        let repo = reopen(history);
        let mut touches = repo.touches(touching);
        let walk = repo.history(&[tip(history)], &[]).expect("a history");
        let entries = walk.map(|entry| entry.expect("a commit"));
        entries.filter(|entry| touches.of(entry).expect("an answer") == PickaxeMatch::Yes).count()
    };
    group.bench_function(format!("log --path of a file, from {from}"), |bencher| {
        let paths = Selection::below(&["files/src/part-07/module-007.rs".to_owned()]);
        bencher.iter(|| black_box(touched(PickaxeQuery { paths: paths.clone(), text: None })));
    });
    group.bench_function(format!("log -S, from {from}"), |bencher| {
        let words = ["quizzical".to_owned()];
        let messages = MessageText::with_words(&words, false);
        let read = |format: &str, bytes: &[u8]| messages.read(format, bytes);
        let count =
            |text: &[u8]| text.windows(9).filter(|part| *part == b"quizzical").count() as u64;
        let text =
            Some((&count as turntree::repo::Count<'_>, &read as turntree::repo::ReadMessage<'_>));
        bencher.iter(|| black_box(touched(PickaxeQuery { paths: Selection::default(), text })));
    });
    group.bench_function(format!("blame of a file, from {from}"), |bencher| {
        bencher.iter(|| {
            let repo = reopen(history);
            let path = "files/src/part-07/module-007.rs";
            black_box(repo.blame(&tip(history), path, false).expect("an answer").parts.len())
        });
    });
}

criterion_group!(benches, searching);
criterion_main!(benches);
