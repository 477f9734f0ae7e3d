//! Copied histories: turns that a fork shares, and files that are exported byte for byte.

use std::collections::HashSet;
use std::io::Cursor;

use serde_json::{Value, json};
use turntree::context::{MessagePolicy, Selection, Transcript};
use turntree::maintenance::{Pattern, Policy, Purpose, Scope, collect, fsck, redact, set_policy};
use turntree::object::ObjectId;
use turntree::repo::{BranchName, LogEntry, MergeRequest};
use turntree::store::{Thoroughness, Tier};
use turntree::workspace::write_note;
use turntree_exchange::formats::tool_use;
use turntree_exchange::{FollowOptions, follow};
use turntree_tests::independent_reader::{read, reader_runs};
use turntree_tests::{Sandbox, stamp};

/// Lines of a rollout, with a clock of its own.
struct Rollout {
    id: String,
    clock: u32,
    lines: Vec<Value>,
}

/// The content of a turn: a prompt, a call with a long id or none, and an answer.
struct Said<'a> {
    prompt: &'a str,
    call: Option<&'a str>,
    answer: &'a str,
}

impl Rollout {
    fn new(id: &str, meta: &Value) -> Self {
        let mut rollout = Self { id: id.to_owned(), clock: 0, lines: Vec::new() };
        let mut payload = json!({"id": id, "cwd": "/p", "originator": "codex_cli_rs"});
        payload.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        rollout.push("session_meta", &payload);
        rollout
    }

    /// A fork as older releases write it: a line of its own, then every line of the other one again.
    fn fork(id: &str, meta: &Value, of: &Self, from: usize, until: usize, clock: u32) -> Self {
        let mut fork = Self::new(id, meta);
        fork.clock = clock;
        for line in &of.lines[from..until] {
            let kind = line["type"].as_str().unwrap().to_owned();
            fork.push(&kind, &line["payload"].clone());
        }
        fork
    }

    fn push(&mut self, kind: &str, payload: &Value) {
        self.clock += 37;
        let (seconds, millis) = (self.clock / 1000, self.clock % 1000);
        let time =
            format!("2026-08-03T10:{:02}:{:02}.{millis:03}Z", seconds / 60 % 60, seconds % 60);
        self.lines.push(json!({"timestamp": time, "type": kind, "payload": payload}));
    }

    fn say(&mut self, said: &Said<'_>) {
        let text = |role: &str, kind: &str, text: &str| {
            let content = json!([{"type": kind, "text": text.repeat(20)}]);
            json!({"type": "message", "role": role, "content": content})
        };
        self.push("response_item", &text("user", "input_text", said.prompt));
        self.push("event_msg", &json!({"type": "user_message", "message": said.prompt}));
        if let Some(call) = said.call {
            let arguments = r#"{"command":["ls"]}"#;
            let made = json!({"type": "function_call", "name": "shell", "arguments": arguments, "call_id": call});
            self.push("response_item", &made);
            let output = said.answer.repeat(30);
            let result = json!({"type": "function_call_output", "call_id": call, "output": output});
            self.push("response_item", &result);
        }
        self.push("response_item", &text("assistant", "output_text", said.answer));
    }

    fn compact(&mut self, summary: &str) {
        let said = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": summary}]});
        let payload = json!({"message": "", "replacement_history": [said]});
        self.push("compacted", &payload);
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
    }
}

fn call(turn: usize) -> String {
    format!("call_Zk29dJq0aPx{turn:04}Lw")
}

/// A rollout of `turns` with calls that have ids of their own.
fn parent(id: &str, turns: usize) -> Rollout {
    let mut rollout = Rollout::new(id, &json!({}));
    for turn in 0..turns {
        let (prompt, answer) = (format!("prompt {turn} "), format!("answer {turn} "));
        let call = call(turn);
        rollout.say(&Said { prompt: &prompt, call: Some(&call), answer: &answer });
    }
    rollout
}

fn import(sandbox: &Sandbox, rollout: &Rollout) -> ObjectId {
    let report = sandbox.import(&rollout.id, &rollout.bytes()).unwrap();
    assert!(sandbox.source(&report.head) == rollout.bytes(), "{} differs", rollout.id);
    report.head
}

fn line(sandbox: &Sandbox, head: &ObjectId) -> Vec<ObjectId> {
    let history = sandbox.repo.history(&[*head], &[]).unwrap();
    history.first_parent().map(|entry| entry.map(|LogEntry { id, .. }| id).unwrap()).collect()
}

fn all_turns(sandbox: &Sandbox) -> usize {
    let mut turns = HashSet::new();
    for (_, head) in sandbox.repo.branches() {
        turns.extend(line(sandbox, &head));
    }
    turns.len()
}

fn copied(sandbox: &Sandbox, head: &ObjectId) -> (u64, u64) {
    let context = sandbox.repo.context(head).unwrap();
    let transcript = Transcript::open(&sandbox.repo, &context).unwrap();
    (transcript.copied(), transcript.len())
}

fn own(rollout: &mut Rollout, number: usize) {
    let (prompt, answer) = (format!("own {number} of {} ", rollout.id), format!("done {number} "));
    let call = format!("call_{}Qx7mR2v{number:04}", rollout.id);
    rollout.say(&Said { prompt: &prompt, call: Some(&call), answer: &answer });
}

const NAMED: &str = "019f0001-0000-7000-8000-00000000000a";

#[test]
fn forks_with_copied_lines_share_turns_despite_new_times() {
    for meta in [json!({"forked_from_id": NAMED}), json!({})] {
        let sandbox = Sandbox::new();
        let parent = parent(NAMED, 6);
        let mut fork =
            Rollout::fork("fork-of-lines", &meta, &parent, 1, parent.lines.len(), 90_000);
        own(&mut fork, 0);
        let first = import(&sandbox, &parent);
        let turns = all_turns(&sandbox);
        let second = import(&sandbox, &fork);
        assert_eq!(line(&sandbox, &second).last(), line(&sandbox, &first).last(), "{meta}");
        assert!(line(&sandbox, &second).contains(&first), "{meta}");
        assert!(all_turns(&sandbox) <= turns + 3, "{meta}");
        let (copies, pieces) = copied(&sandbox, &second);
        assert_eq!((copies, pieces), (parent.lines.len() as u64, fork.lines.len() as u64));
        assert_eq!(sandbox.messages(&second).len(), sandbox.messages(&first).len() + 4, "{meta}");
    }
}

#[test]
fn the_first_imported_file_owns_shared_turns() {
    let parent = parent(NAMED, 6);
    let until = 1 + 5 * 3;
    let mut fork = Rollout::fork("b", &json!({}), &parent, 1, until, 90_000);
    own(&mut fork, 0);
    own(&mut fork, 1);
    let mut of_fork = Rollout::fork("c", &json!({}), &fork, 1, fork.lines.len(), 200_000);
    own(&mut of_fork, 0);
    let sandbox = Sandbox::new();
    let mut wanted = None;
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let here = Sandbox::new();
        for number in order {
            import(&here, [&parent, &fork, &of_fork][number]);
        }
        // A file that is a copy and nothing else has a snapshot of its own.
        let turns = all_turns(&here);
        assert!(turns.abs_diff(*wanted.get_or_insert(turns)) <= 2, "{order:?}: {turns}");
    }
    for rollout in [&parent, &fork, &of_fork] {
        import(&sandbox, rollout);
    }
    assert_eq!(Some(all_turns(&sandbox)), wanted);
}

#[test]
fn forks_at_a_compaction_continue_from_it() {
    let mut parent = parent(NAMED, 3);
    parent.compact("what was said so far, in short");
    let from = parent.lines.len() - 1;
    own(&mut parent, 0);
    let sandbox = Sandbox::new();
    let first = import(&sandbox, &parent);
    let turns = all_turns(&sandbox);
    let mut fork = Rollout::fork("part", &json!({}), &parent, from, parent.lines.len(), 90_000);
    own(&mut fork, 1);
    let second = import(&sandbox, &fork);
    assert!(line(&sandbox, &second).contains(&first));
    assert!(all_turns(&sandbox) <= turns + 3);
}

#[test]
fn equal_prompts_alone_do_not_make_a_fork() {
    let one = parent("one", 3);
    let mut two = Rollout::new("two", &json!({}));
    two.clock = 50_000;
    for turn in 0..3 {
        let (prompt, answer) = (format!("prompt {turn} "), format!("answer {turn} "));
        let call = format!("call_Bn31xWm8sTy{turn:04}Kd");
        two.say(&Said { prompt: &prompt, call: Some(&call), answer: &answer });
    }
    let short = |id: &str| {
        let mut rollout = Rollout::new(id, &json!({}));
        for turn in 0..3 {
            let (prompt, answer) = (format!("prompt {turn} "), format!("answer {turn} "));
            let call = format!("call_{turn}");
            rollout.say(&Said { prompt: &prompt, call: Some(&call), answer: &answer });
        }
        rollout
    };
    let sandbox = Sandbox::new();
    let heads = [one, two, short("three"), short("four")].map(|it| import(&sandbox, &it));
    for (number, head) in heads.iter().enumerate() {
        let session = sandbox.repo.commit(head).unwrap().session;
        for id in line(&sandbox, head) {
            assert_eq!(sandbox.repo.commit(&id).unwrap().session, session, "session {number}");
        }
        assert_eq!(copied(&sandbox, head).0, 0, "session {number}");
    }
}

#[test]
fn repeated_messages_do_not_start_a_copy() {
    let mut first = Rollout::new(NAMED, &json!({}));
    for turn in 0..4 {
        let call = call(turn);
        first.say(&Said { prompt: "go on ", call: Some(&call), answer: "done " });
    }
    let sandbox = Sandbox::new();
    let head = import(&sandbox, &first);
    // A part of it from the third prompt on, which is word for word the first one.
    let from = 1 + 2 * 5;
    let mut part = Rollout::fork("part", &json!({}), &first, from, first.lines.len(), 90_000);
    own(&mut part, 0);
    let second = import(&sandbox, &part);
    assert_eq!(copied(&sandbox, &second).0, 0, "its first call does not begin the other session");
    // The same beginning, which continues differently after the first call.
    let mut fork = Rollout::fork("fork", &json!({}), &first, 1, 1 + 5, 90_000);
    own(&mut fork, 0);
    let third = import(&sandbox, &fork);
    assert_eq!(copied(&sandbox, &third).0, 6);
    let shared =
        line(&sandbox, &third).iter().filter(|id| line(&sandbox, &head).contains(id)).count();
    assert_eq!(shared, 3);
}

#[test]
fn grown_or_truncated_forks_still_round_trip() {
    let parent = parent(NAMED, 4);
    let meta = json!({"forked_from_id": NAMED});
    let mut fork = Rollout::fork("b", &meta, &parent, 1, parent.lines.len(), 90_000);
    let sandbox = Sandbox::new();
    let first = import(&sandbox, &parent);
    let copy = import(&sandbox, &fork);
    assert!(line(&sandbox, &copy).contains(&first), "a copy alone has a snapshot of its own");
    own(&mut fork, 0);
    let grown = import(&sandbox, &fork);
    own(&mut fork, 1);
    let more = import(&sandbox, &fork);
    assert!(line(&sandbox, &more).contains(&grown));
    assert_eq!(sandbox.import("b", &fork.bytes()).unwrap().turns, 0, "nothing is new");
    let all = std::mem::take(&mut fork.lines);
    // Back to the copies, into them, and before them.
    for kept in [all.len() - 5, parent.lines.len(), parent.lines.len() - 4, 7, 1] {
        fork.lines = all[..kept].to_vec();
        own(&mut fork, kept);
        import(&sandbox, &fork);
    }
    fork.lines = all;
    import(&sandbox, &fork);
}

#[test]
fn followed_forks_equal_imported_forks() {
    let parent = parent(NAMED, 4);
    let meta = json!({"forked_from_id": NAMED});
    let mut fork = Rollout::fork("b", &meta, &parent, 1, parent.lines.len(), 90_000);
    let copies = fork.bytes().len();
    own(&mut fork, 0);
    own(&mut fork, 1);
    let bytes = fork.bytes();
    let (imported, live) = (Sandbox::new(), Sandbox::new());
    import(&imported, &parent);
    import(&live, &parent);
    let expected = import(&imported, &fork);
    let ends: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at] == b'\n').map(|at| at + 1).collect();
    let mut notes: Option<Vec<u8>> = None;
    let mut head = None;
    for (number, end) in ends.iter().filter(|end| **end >= copies).enumerate() {
        let options = FollowOptions::new("b", stamp(1));
        let known = notes.as_deref().filter(|_| number % 3 > 0);
        if let Some(now) = follow(&live.repo, Cursor::new(&bytes[..*end]), known, options).unwrap()
        {
            (notes, head) = (now.notes, Some(now.head));
        }
    }
    assert_eq!(head.map(|head| live.source(&head)).unwrap(), bytes);
    assert_eq!(line(&live, &head.unwrap()).len(), line(&imported, &expected).len());
    assert_eq!(live.messages(&head.unwrap()), imported.messages(&expected));
}

#[test]
fn redacted_content_stays_removed_from_forks() {
    let parent = parent(NAMED, 4);
    let meta = json!({"forked_from_id": NAMED});
    let mut fork = Rollout::fork("b", &meta, &parent, 1, parent.lines.len(), 90_000);
    own(&mut fork, 0);
    let mut of_fork =
        Rollout::fork("c", &json!({"forked_from_id": "b"}), &fork, 1, fork.lines.len(), 200_000);
    own(&mut of_fork, 0);
    let sandbox = Sandbox::new();
    let rollouts = [&parent, &fork, &of_fork];
    for rollout in rollouts {
        import(&sandbox, rollout);
    }
    redact(&sandbox.repo, &Pattern::literal("answer 2", "[gone]").unwrap(), &stamp(9)).unwrap();
    let masked = |rollout: &Rollout| {
        String::from_utf8(rollout.bytes()).unwrap().replace("answer 2", "[gone]").into_bytes()
    };
    let check = |sandbox: &Sandbox| {
        for rollout in rollouts {
            let main = BranchName::main(&rollout.id).unwrap();
            let head = sandbox.repo.tip(&main).unwrap();
            assert!(sandbox.source(&head) == masked(rollout), "{}", rollout.id);
        }
    };
    check(&sandbox);
    let turns = all_turns(&sandbox);
    // The files of the agent have it still.
    for rollout in rollouts {
        sandbox.import(&rollout.id, &rollout.bytes()).unwrap();
    }
    check(&sandbox);
    assert_eq!(all_turns(&sandbox), turns);
}

#[test]
fn forks_of_expired_turns_keep_their_own_records() {
    let parent = parent(NAMED, 6);
    let meta = json!({"forked_from_id": NAMED});
    let mut fork = Rollout::fork("b", &meta, &parent, 1, 1 + 3 * 5, 90_000);
    own(&mut fork, 0);
    let (alone, sandbox) = (Sandbox::new(), Sandbox::new());
    let expected = import(&alone, &fork);
    import(&sandbox, &parent);
    let policy = Policy { keep_last: Some(2), strict: true, ..Policy::default() };
    let mut change = sandbox.repo.begin();
    set_policy(&mut change, Scope::Session(NAMED), &policy).unwrap();
    change.commit(&stamp(2), "retention").unwrap();
    collect(&sandbox.repo, Purpose::Gc, &stamp(3), &mut |_| {}).unwrap();
    let head = import(&sandbox, &fork);
    assert_eq!(sandbox.messages(&head), alone.messages(&expected));
    assert_eq!(copied(&sandbox, &head).0, 0, "no turn can be continued");
}

#[test]
fn merges_keep_the_transcript_of_one_side() {
    for (into, messages) in [
        (NAMED, MessagePolicy::Append),
        (NAMED, MessagePolicy::Theirs),
        ("b", MessagePolicy::Append),
        ("b", MessagePolicy::Theirs),
    ] {
        let mut parent = parent(NAMED, 4);
        let meta = json!({"forked_from_id": NAMED});
        let mut fork = Rollout::fork("b", &meta, &parent, 1, parent.lines.len(), 90_000);
        own(&mut fork, 0);
        let sandbox = Sandbox::new();
        import(&sandbox, &parent);
        let of_fork = import(&sandbox, &fork);
        own(&mut parent, 1);
        let of_parent = import(&sandbox, &parent);
        let is_theirs = messages == MessagePolicy::Theirs;
        let mut change = sandbox.repo.begin();
        let request = MergeRequest {
            into: BranchName::main(into).unwrap(),
            theirs: if into == "b" { of_parent } else { of_fork },
            label: "theirs".to_owned(),
            messages,
            only: Selection::default(),
            tools: &tool_use,
            message: None,
        };
        let merged = change.merge(&request, &stamp(3)).unwrap().commit;
        change.commit(&stamp(3), "merge").unwrap();
        let side = if (into == "b") != is_theirs { &fork } else { &parent };
        assert!(sandbox.source(&merged) == side.bytes(), "{into}, theirs: {is_theirs}");
    }
}

#[test]
fn fork_origins_are_found_without_the_note() {
    let parent = parent(NAMED, 4);
    let mut fork = Rollout::fork("b", &json!({}), &parent, 1, parent.lines.len(), 90_000);
    own(&mut fork, 0);
    let sandbox = Sandbox::new();
    let first = import(&sandbox, &parent);
    write_note(&sandbox.repo, "origins of codex", b"").unwrap();
    let second = import(&sandbox, &fork);
    assert!(line(&sandbox, &second).contains(&first));
    if reader_runs() {
        let read = read(&sandbox.store_dir(), &["transcript", "refs/heads/b/main"]);
        assert!(read == fork.bytes(), "the independent reader reads copies");
    }
    let mut change = sandbox.repo.begin();
    change.delete_branch(&BranchName::main(NAMED).unwrap());
    change.commit(&stamp(2), "delete").unwrap();
    collect(&sandbox.repo, Purpose::Repack(Tier::Archive), &stamp(3), &mut |_| {}).unwrap();
    assert!(sandbox.source(&second) == fork.bytes());
    let report = fsck(&sandbox.repo, Thoroughness::Full, stamp(3).time, &mut |_, _| {});
    assert!(report.unwrap().findings.is_empty());
}

#[test]
fn claude_code_copies_under_another_session_are_forks() {
    let uuid = |n: usize| format!("{n:08x}-7d1e-4c2b-9a35-6f0e8d4b{n:04x}");
    let file = |session: &str, numbers: std::ops::Range<usize>| -> Vec<u8> {
        let mut lines = String::new();
        for n in numbers {
            let parent = n.checked_sub(1).map(uuid);
            let (kind, role, text) = match n % 2 {
                0 => ("user", "user", format!("prompt {n} ").repeat(30)),
                _ => ("assistant", "assistant", format!("answer {n} ").repeat(30)),
            };
            let content =
                if kind == "user" { json!(text) } else { json!([{"type": "text", "text": text}]) };
            let message = json!({"id": format!("msg_{n}"), "role": role, "content": content});
            let line = json!({"parentUuid": parent, "sessionId": session, "cwd": "/p", "type": kind,
                "uuid": uuid(n), "timestamp": "2026-08-03T10:00:00.000Z", "message": message});
            lines += &format!("{line}\n");
        }
        lines.into_bytes()
    };
    let sandbox = Sandbox::new();
    let parent = file("0a5c4f3e-a", 0..20);
    let first = sandbox.import("0a5c4f3e-a", &parent).unwrap().head;
    let fork = [file("0a5c4f3e-b", 0..12), file("0a5c4f3e-b", 100..102)].concat();
    // Its own lines continue from the last copy.
    let fork = String::from_utf8(fork).unwrap().replace(
        &format!("\"parentUuid\":\"{}\"", uuid(99)),
        &format!("\"parentUuid\":\"{}\"", uuid(11)),
    );
    let second = sandbox.import("0a5c4f3e-b", fork.as_bytes()).unwrap().head;
    assert_eq!(sandbox.source(&second), fork.as_bytes());
    assert_eq!(sandbox.source(&first), parent);
    let (one, two) = (line(&sandbox, &first), line(&sandbox, &second));
    assert_eq!(two.iter().filter(|id| one.contains(id)).count(), 12);
    assert_eq!(copied(&sandbox, &second).0, 12);
}

#[test]
fn a_file_of_copies_alone_keeps_the_time_of_its_origin() {
    let parent = parent(NAMED, 4);
    let fork = Rollout::fork("b", &json!({}), &parent, 1, parent.lines.len(), 0);
    let sandbox = Sandbox::new();
    let time = |head: &ObjectId| sandbox.repo.commit(head).unwrap().time;
    let first = time(&import(&sandbox, &parent));
    let second = import(&sandbox, &fork);
    assert_eq!(time(&second), first);
    assert!(sandbox.source(&second) == fork.bytes());
}
