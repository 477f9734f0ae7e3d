//! Rollouts that Codex has compressed: the same sessions as before, decompressed while they are
//! read.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use turntree::ErrorKind;
use turntree::workspace::AdoptionCache;
use turntree_exchange::agents::{
    AdoptOptions, Adopted, FoundSessions, Outcome, adopt, find, places,
};
use turntree_tests::{Sandbox, stamp};

const ROLLOUT: &str = ".codex/sessions/2026/05/01/rollout-2026-05-01T10-00-00-ab.jsonl";
const SESSION: &str = "rollout-2026-05-01T10-00-00-ab";

fn rollout(turns: usize) -> String {
    let line = |kind: &str, payload: serde_json::Value| {
        json!({"timestamp": "2026-05-01T10:00:00Z", "type": kind, "payload": payload}).to_string()
            + "\n"
    };
    let mut text = line("session_meta", json!({"id": "ab", "cwd": "/p"}));
    for turn in 0..turns {
        for (role, kind) in [("user", "input_text"), ("assistant", "output_text")] {
            let content = json!([{"type": kind, "text": format!("{role} says {turn}")}]);
            text += &line(
                "response_item",
                json!({"type": "message", "role": role, "content": content}),
            );
        }
    }
    text
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

struct Home {
    sandbox: Sandbox,
    path: PathBuf,
}

impl Home {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let path = sandbox.folder().join("home");
        fs::create_dir_all(path.join(ROLLOUT).parent().unwrap()).unwrap();
        Self { sandbox, path }
    }

    fn plain(&self) -> PathBuf {
        self.path.join(ROLLOUT)
    }

    fn compressed(&self) -> PathBuf {
        self.path.join(format!("{ROLLOUT}.zst"))
    }

    fn find(&self) -> FoundSessions {
        let home = self.path.clone().into_os_string();
        find(&places(&|name| (name == "HOME").then(|| home.clone())))
    }

    fn adopt(&self) -> Vec<Adopted> {
        let found = self.find();
        assert!(found.odd.is_empty());
        let options = AdoptOptions {
            stamp: stamp(1),
            adoption: Arc::default(),
            is_live: false,
            head: None,
            passed: &|_| {},
        };
        let mut seen = AdoptionCache::open(&self.sandbox.repo);
        adopt(&self.sandbox.repo, found.sessions, &options, &mut seen).unwrap()
    }

    /// The new turns of the only session.
    fn new_turns(&self) -> u64 {
        let adopted = self.adopt();
        assert_eq!((adopted.len(), adopted[0].found.session.as_str()), (1, SESSION));
        match &adopted[0].outcome {
            Outcome::Imported(report) => report.turns,
            outcome => panic!("{outcome:?}"),
        }
    }

    fn refused(&self) -> String {
        let before = self.sandbox.repo.refs();
        let adopted = self.adopt();
        let Outcome::Failed(error) = &adopted[0].outcome else { panic!("it was imported") };
        assert_eq!(self.sandbox.repo.refs(), before, "an error leaves no trace");
        let mut message = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            message += &format!(": {inner}");
            source = inner.source();
        }
        message
    }
}

#[test]
fn compressed_rollouts_continue_their_session() {
    let home = Home::new();
    fs::write(home.plain(), rollout(3)).unwrap();
    let first = home.new_turns();
    assert!(first >= 3);
    // During compression both files exist.
    fs::write(home.compressed(), packed(rollout(3).as_bytes())).unwrap();
    assert_eq!(home.new_turns(), 0);
    fs::remove_file(home.plain()).unwrap();
    assert_eq!(home.new_turns(), 0);
    // In two frames, like an appended file.
    let longer = rollout(4);
    let (begin, end) = longer.as_bytes().split_at(rollout(3).len());
    fs::write(home.compressed(), [packed(begin), packed(end)].concat()).unwrap();
    assert!(home.new_turns() > 0);
    let repo = &home.sandbox.repo;
    let head = repo.resolve(SESSION).unwrap().commit;
    assert_eq!(home.sandbox.source(&head), longer.as_bytes());
    assert!(repo.resolve(&format!("{SESSION}/main-2")).is_err());
}

#[test]
fn import_reads_compressed_rollouts() {
    let sandbox = Sandbox::new();
    let report = sandbox.import("s", &packed(rollout(2).as_bytes())).unwrap();
    assert_eq!(report.format, "codex");
    let again = sandbox.import("s", rollout(2).as_bytes()).unwrap();
    assert_eq!((again.turns, again.new_bytes), (0, 0));
    assert!(
        sandbox.import("t", &packed(b"")).unwrap_err().to_string().contains("the file is empty")
    );
}

#[test]
fn damaged_compressed_files_are_invalid_input() {
    let whole = packed(rollout(300).as_bytes());
    let sandbox = Sandbox::new();
    for end in [4, 5, 9, whole.len() / 2, whole.len() - 1] {
        let error = sandbox.import("s", &whole[..end]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{end}: {error}");
        assert!(error.to_string().contains("expected a whole zstd stream"), "{error}");
    }
    assert_eq!(sandbox.repo.branches().len(), 0);
}

#[test]
fn decompression_bombs_and_truncated_files_leave_the_store_unchanged() {
    let home = Home::new();
    let mut bomb = rollout(2).into_bytes();
    for _ in 0..80 {
        bomb.resize(bomb.len() + (1 << 20), b' ');
        bomb.push(b'\n');
    }
    fs::write(home.compressed(), packed(&bomb)).unwrap();
    let error = home.refused();
    assert!(error.contains("unpack to more than"), "{error}");

    let whole = packed(rollout(900).as_bytes());
    fs::write(home.compressed(), &whole[..whole.len() - 9]).unwrap();
    home.refused();

    // A window of 128 MiB is more than a decoder must support.
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    std::io::Write::write_all(&mut encoder, rollout(900).as_bytes()).unwrap();
    let wide = encoder.finish().unwrap();
    fs::write(home.compressed(), wide).unwrap();
    let odd = home.find().odd;
    assert_eq!(odd[0].error.kind(), ErrorKind::Corrupt);

    fs::write(home.compressed(), whole).unwrap();
    assert!(home.new_turns() >= 900);
}
