//! Exports for training and evaluation: an exploration with a stand-in agent becomes samples, pairs,
//! groups, rollouts and a task folder, which the owners of the formats read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use turntree_tests::github_token;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A stand-in for an agent: it writes its answer, and records a call with its result and a last
/// word.
const AGENT: &str = r#"#!/bin/sh
set -e
name=$TURNTREE_STRATEGY
case $name in
  wrong) printf 'bad\n' > answer.txt; rm -r kept ;;
  *) printf 'good, says %s\n' "$name" > answer.txt; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh
     ln -s answer.txt link; mkdir -p "it's a dir"; echo x > "it's a dir/-rf"; rm kept/old.txt
     mv kept/turned folder; mkdir kept/turned; echo y > kept/turned/in ;;
esac
printf '%s\n' \
  "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"write\",\"arguments\":\"{\\\"by\\\":\\\"$name\\\"}\"}}]}" \
  '{"role":"tool","tool_call_id":"c1","content":"written"}' \
  "{\"role\":\"assistant\",\"content\":\"done by $name\"}" > "$NOTES/$name.jsonl"
"$TURNTREE" snapshot -m 'a turn' --append "$NOTES/$name.jsonl" > /dev/null
"#;

const CHECK: &str = "grep -q good answer.txt || exit 1; echo \"score: $(wc -c < answer.txt)\"";

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    /// A project, and an exploration of three strategies with the same prompt.
    fn explored() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        for dir in ["home", "project/kept", "notes"] {
            fs::create_dir_all(place.path(dir)).unwrap();
        }
        fs::write(place.path("agent.sh"), AGENT).unwrap();
        fs::set_permissions(place.path("agent.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.path("project/answer.txt"), "none yet\n").unwrap();
        fs::write(place.path("project/kept/old.txt"), "old\n").unwrap();
        fs::write(place.path("project/kept/turned"), "a file\n").unwrap();
        place.ok(&["init"]);
        place.ok(&[
            "snapshot",
            "-m",
            "a",
            "--append-message",
            "system=be brief",
            "--workspace",
            ".",
        ]);
        place.ok(&[
            "snapshot",
            "-m",
            "b",
            "--append-message",
            "user=answer well",
            "--workspace",
            ".",
        ]);
        let agent = place.path("agent.sh");
        let mut words = vec!["explore", "--jobs", "1", "--check", CHECK];
        for strategy in ["wrong=answer well", "short=answer well", "longer=answer well"] {
            words.extend(["--strategy", strategy]);
        }
        words.extend(["--", agent.to_str().unwrap()]);
        place.ok(&words);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn output(&self, words: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.path("project")).env_clear();
        command.env("HOME", self.path("home")).env("PATH", std::env::var_os("PATH").unwrap());
        command.env("TURNTREE_MAINTENANCE", "off").env("TURNTREE_ACTOR", "ann");
        command.env("NOTES", self.path("notes")).env("TURNTREE", PROGRAM).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn must(&self, exit: i32, words: &[&str]) -> (String, String) {
        let output = self.output(words);
        let told =
            [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        assert_eq!(output.status.code(), Some(exit), "{words:?}\n{}\n{}", told[0], told[1]);
        let [out, err] = told;
        (out, err)
    }

    fn ok(&self, words: &[&str]) -> String {
        self.must(0, words).0
    }

    /// The documents of an export, one per line.
    fn rows(&self, words: &[&str]) -> Vec<Value> {
        let text = self.ok(&[&["export"], words].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The messages of a document as words: the role, the content, and `*` if it is trained.
fn said(messages: &Value) -> Vec<String> {
    let word = |message: &Value| {
        let call = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap_or_default();
        let train = if message["train"] == true { "*" } else { "" };
        let (role, text) =
            (message["role"].as_str().unwrap(), message["content"].as_str().unwrap());
        format!("{role}{train}: {text}{call}")
    };
    messages.as_array().unwrap().iter().map(word).collect()
}

fn answers(name: &str) -> [String; 3] {
    [
        format!("assistant*: {{\"by\":\"{name}\"}}"),
        "tool: written".to_owned(),
        format!("assistant*: done by {name}"),
    ]
}

#[test]
fn an_exploration_becomes_a_group_with_its_prompt_once() {
    let place = Place::explored();
    let groups = place.rows(&["--exploration", "explore", "--format", "grpo"]);
    let [group] = &*groups else { panic!("{groups:?}") };
    assert_eq!(said(&group["prompt"]), ["system: be brief", "user: answer well"]);
    assert_eq!((&group["by"], &group["parent"]), (&json!("answer"), &Value::Null));
    let told: Vec<(&str, f64)> = group["rollouts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["branches"][0].as_str().unwrap(), it["reward"].as_f64().unwrap()))
        .collect();
    let session = group["session"].as_str().unwrap();
    let name = |branch: &str| format!("{session}/{branch}");
    let expected = [(name("wrong"), 0.0), (name("short"), 1.0), (name("longer"), 1.0)];
    assert_eq!(told, expected.iter().map(|(name, reward)| (&**name, *reward)).collect::<Vec<_>>());
    for (rollout, name) in
        group["rollouts"].as_array().unwrap().iter().zip(["wrong", "short", "longer"])
    {
        assert_eq!(said(&rollout["messages"]), answers(name));
    }
    assert_eq!(group["tools"][0]["function"]["name"], "write");
    let scored = place.output(&["export", session, "--format", "grpo", "--reward", "score"]);
    let row: Value = serde_json::from_slice(&scored.stdout).unwrap();
    let rewards: Vec<&Value> =
        row["rollouts"].as_array().unwrap().iter().map(|it| &it["reward"]).collect();
    assert_eq!(rewards, [&json!(18.0), &json!(17.0)], "a failed check has no score");
    let told = String::from_utf8_lossy(&scored.stderr).into_owned();
    assert!(told.contains("1 continuation left out"), "{told}");

    // Pairs: every better one against the worse one.
    let pairs = place.rows(&["--exploration", "explore", "--format", "dpo"]);
    let chosen: Vec<Vec<String>> = pairs.iter().map(|pair| said(&pair["chosen"])).collect();
    assert_eq!(chosen, [answers("short"), answers("longer")]);
    for pair in &pairs {
        assert_eq!(said(&pair["rejected"]), answers("wrong"));
        assert_eq!(said(&pair["prompt"]), ["system: be brief", "user: answer well"]);
    }

    // A later kept merge of the winner is no further sample, and each answer is trained once.
    place.ok(&["explore", "keep"]);
    let rows = place.rows(&[session, "--format", "sft"]);
    let ids: Vec<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(BTreeSet::from_iter(ids), BTreeSet::from_iter(expected.iter().map(|it| &*it.0)));
    for row in &rows {
        let all = said(&row["messages"]);
        assert_eq!(all[..2], ["system: be brief", "user: answer well"]);
        assert_eq!(all[2..], answers(row["id"].as_str().unwrap().rsplit('/').next().unwrap()));
    }
    let passed = place.rows(&[session, "--format", "sft", "--passed"]);
    assert!(passed.iter().all(|row| row["passed"] == true && row["reward"] == 1.0));
    assert_eq!(passed.len(), 2);
    // Compressed, it is the same.
    let words = ["export", session, "--format", "sft", "--compress", "-o", "../rows.zst"];
    place.ok(&words);
    let mut text = String::new();
    let packed = fs::File::open(place.path("rows.zst")).unwrap();
    zstd::Decoder::new(packed).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, place.ok(&["export", session, "--format", "sft"]));
}

#[test]
fn a_fork_of_a_fork_is_a_group_and_shared_answers_are_trained_once() {
    let place = Place::explored();
    for (name, passed) in [("left", "passed"), ("right", "failed")] {
        place.ok(&["fork", name, "short"]);
        let (text, check) = (format!("assistant=more by {name}"), format!("check={passed}"));
        let words = ["snapshot", "-m", "more", "--branch", name, "--append-message", "user=more"];
        place.ok(&[&words[..], &["--append-message", &text, "--check", &check]].concat());
    }
    let session =
        place.rows(&["--exploration", "explore", "--format", "grpo"])[0]["session"].clone();
    let session = session.as_str().unwrap();
    let groups = place.rows(&[session, "--format", "grpo"]);
    let outer = &groups[0]["rollouts"];
    let short =
        outer.as_array().unwrap().iter().find(|it| it["branches"].as_array().unwrap().len() == 3);
    // The mean of what ends in it: short and left passed, right failed.
    let reward = short.unwrap()["reward"].as_f64().unwrap();
    assert!((reward - 2.0 / 3.0).abs() < 1e-9, "{outer}");
    let inner = &groups[1];
    assert_eq!(inner["parent"]["rollout"], short.unwrap()["id"]);
    assert_eq!(inner["prompt"].as_array().unwrap().len(), 6);
    let more: Vec<Vec<String>> =
        inner["rollouts"].as_array().unwrap().iter().map(|it| said(&it["messages"])).collect();
    assert_eq!(more, [["assistant*: more by left"], ["assistant*: more by right"]]);
    let rows = place.rows(&[session, "--format", "sft"]);
    let trained = rows.iter().flat_map(|row| said(&row["messages"]));
    let mut trained: Vec<String> = trained.filter(|word| word.starts_with("assistant*")).collect();
    let number = trained.len();
    trained.sort();
    trained.dedup();
    assert_eq!((trained.len(), number), (8, 8));
    // Prompts that differ are no choice of the model.
    for name in ["one", "two"] {
        place.ok(&["fork", name, "wrong"]);
        let (prompt, answer) = (format!("user=try {name}"), format!("assistant=tried {name}"));
        let words = ["--append-message", &prompt, "--append-message", &answer, "--check"];
        let check = format!("c={}", if name == "one" { "passed" } else { "failed" });
        let all = [&["snapshot", "-m", "x", "--branch", name], &words[..], &[&check]].concat();
        place.ok(&all);
    }
    let words = ["export", "one", "two", "--format", "dpo"];
    let (out, told) = place.must(0, &words);
    assert!(out.is_empty() && told.contains("1 fork left out"), "{out}{told}");
    for (words, why) in [
        (&["export", "one", "--format", "grpo"][..], "the branches do not part"),
        (&["export", "two", "--format", "sft", "--passed"], "no branch passed its checks"),
    ] {
        let (out, told) = place.must(0, words);
        assert!(out.is_empty() && told.contains(why), "{out}{told}");
    }
    let group = &place.rows(&["one", "two", "--format", "grpo"])[0];
    assert_eq!(group["by"], "prompt");
    assert_eq!(said(&group["rollouts"][0]["messages"]), ["user: try one", "assistant*: tried one"]);
}

/// The Python with the readers, if `.ci/run` has installed it.
fn readers() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/training/bin/python");
    let python = std::env::var_os("TURNTREE_TRAINING_PYTHON").map_or(own, PathBuf::from);
    Some(python).filter(|python| python.exists())
}

#[test]
fn verifiers_and_inspect_read_what_they_own() {
    let place = Place::explored();
    place.ok(&["fork", "helped", "short"]);
    let words = ["snapshot", "-m", "x", "--branch", "helped", "--append-to", "reviewer@main"];
    place.ok(&[
        &words[..],
        &["--append-message", "user=look", "--append-message", "assistant=fine"],
    ]
    .concat());
    place.ok(&[
        "export",
        "wrong",
        "short",
        "helped",
        "--format",
        "verifiers",
        "-o",
        "../traces.jsonl",
    ]);
    place.ok(&["export", "wrong", "short", "helped", "--format", "inspect", "-o", "../log.json"]);
    let Some(python) = readers() else {
        return eprintln!("skipped: verifiers and inspect-ai are not installed");
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/training_readers.py");
    let mut command = Command::new(python);
    command.arg(script).arg(place.path("")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read: Value = serde_json::from_slice(&output.stdout).unwrap();
    let roles = json!(["system", "user", "assistant", "tool", "assistant"]);
    let sampled = json!([false, false, true, false, true]);
    let traces: Vec<&Value> = read["episodes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|episode| {
            assert_eq!(episode["prompt"], "answer well");
            episode["traces"].as_array().unwrap()
        })
        .collect();
    let told: Vec<(&str, f64)> = traces
        .iter()
        .map(|it| (it["last"].as_str().unwrap(), it["reward"].as_f64().unwrap()))
        .collect();
    let helped = [("done by short", 1.0), ("fine", 1.0)];
    assert_eq!(told, [&[("done by wrong", 0.0), ("done by short", 1.0)], &helped[..]].concat());
    assert_eq!((&traces[0]["roles"], &traces[0]["sampled"]), (&roles, &sampled));
    assert_eq!(traces[3]["agent"], "reviewer@main");
    assert!(traces[3]["parent"].as_str().unwrap().ends_with("/helped"));

    let inspect = &read["inspect"];
    assert_eq!(inspect["status"], "success");
    let sample = &inspect["samples"][0];
    assert_eq!((&sample["roles"], &sample["generated"]), (&roles, &sampled));
    assert_eq!(sample["calls"], json!([{"function": "write", "arguments": {"by": "wrong"}}]));
    assert_eq!(
        (&sample["completion"], &sample["scores"]["check"]),
        (&json!("done by wrong"), &json!(0.0))
    );
    assert_eq!(inspect["samples"][1]["scores"], json!({"check": 1.0, "score": 17.0}));
}

/// The files below a folder: contents and modes; a link has its target.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(dir) = folders.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let own = path.strip_prefix(folder).unwrap().to_owned();
            if found.is_dir() {
                files.insert(own, (Vec::new(), 0));
                folders.push(path);
            } else if found.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                files.insert(own, (target.to_str().unwrap().into(), 1));
            } else {
                files.insert(own, (fs::read(&path).unwrap(), found.permissions().mode()));
            }
        }
    }
    files
}

fn copied(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-RPp").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

#[test]
fn a_task_folder_reproduces_its_end_and_checks_it() {
    let place = Place::explored();
    for name in ["short", "wrong"] {
        let folder = place.path(&format!("task-{name}"));
        let to = folder.to_str().unwrap();
        let told = place.ok(&["export", name, "--format", "environment", "-o", to]);
        assert!(told.contains("files") && told.contains(to), "{told}");
        let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
        assert_eq!(read("instruction.md"), "answer well\n");
        assert_eq!(read("tests/check.sh"), format!("{CHECK}\n"));
        assert!(read("task.toml").starts_with("schema_version = \"1.4\"\n"));
        let (start, end) = (folder.join("environment/files"), folder.join("solution/files"));
        let restored = place.path(&format!("restored-{name}"));
        let branch = format!("{name}:files");
        place.ok(&["restore", &branch, "--to", restored.to_str().unwrap()]);
        assert_eq!(tree(&end), tree(&restored.join("files")), "{name}");
        assert_eq!(fs::read_to_string(start.join("answer.txt")).unwrap(), "none yet\n");

        // A runner without containers: copy the start, check, solve, check.
        let work = place.path(&format!("work-{name}"));
        copied(&start, &work);
        let logs = place.path(&format!("logs-{name}"));
        let run = |script: &str| {
            let mut command = Command::new(folder.join(script));
            command.current_dir(&work).env("TURNTREE_LOGS", &logs).stdout(Stdio::null());
            command.status().unwrap().code()
        };
        assert_eq!(run("tests/test.sh"), Some(1), "the start does not pass");
        assert_eq!(run("solution/solve.sh"), Some(0));
        assert_eq!(tree(&work), tree(&end), "{name}");
        let (code, reward) = if name == "short" { (0, "1\n") } else { (1, "0\n") };
        assert_eq!(run("tests/test.sh"), Some(code));
        assert_eq!(fs::read_to_string(logs.join("reward.txt")).unwrap(), reward);
        // It never writes over anything.
        let (_, told) = place.must(2, &["export", name, "--format", "environment", "-o", to]);
        assert!(told.contains("exists already"), "{told}");
    }
    // A branch that no exploration made says what it lacks.
    let (_, told) = place.must(6, &["export", "main", "--format", "environment", "-o", "../x"]);
    assert!(told.contains("--check gives"), "{told}");
    let words = ["export", "main", "--format", "environment", "-o", "../x", "--check", "true"];
    let (_, told) = place.must(6, &[&words[..], &["--from", "main"]].concat());
    assert!(told.contains("no prompt after its start"), "{told}");
    assert!(!place.path("x").exists());
}

#[test]
fn hostile_names_stay_in_the_task_folder_and_in_their_quotes() {
    let place = Place::explored();
    place.ok(&["fork", "hostile", "short"]);
    let mut words = vec!["snapshot", "-m", "h", "--branch", "hostile"];
    let names = ["../../evil", ".git/hooks/post", "a\nb'\"$(touch pwned)", "-rf", "/etc/evil"];
    let set: Vec<String> = names.iter().map(|name| format!("files/{name}=x")).collect();
    words.extend(set.iter().flat_map(|set| ["--set", set]));
    place.ok(&words);
    // Back again: the solution deletes them.
    place.ok(&["fork", "back", "hostile"]);
    let mut words = vec!["snapshot", "-m", "b", "--branch", "back"];
    let unset: Vec<String> = names.iter().map(|name| format!("files/{name}")).collect();
    words.extend(unset.iter().flat_map(|path| ["--unset", path]));
    words.extend(["--append-message", "user=go back"]);
    place.ok(&words);
    let before = tree(&place.path(""));
    let words = ["export", "back", "--format", "environment", "-o", "../task", "--check", "true"];
    place.ok(&[&words[..], &["--from", "hostile"]].concat());
    let folder = place.path("task");
    let own = |path: &PathBuf| !path.starts_with("task") && !path.starts_with("project/.turntree");
    let mut after = tree(&place.path(""));
    after.retain(|path, _| own(path));
    assert!(before.keys().filter(|path| own(path)).eq(after.keys()), "only the folder is new");
    assert_eq!(tree(&folder.join("environment/files/%2E./%2E.")).len(), 1);
    let work = place.path("work");
    copied(&folder.join("environment/files"), &work);
    let solved = Command::new(folder.join("solution/solve.sh")).current_dir(&work).status();
    assert!(solved.unwrap().success());
    assert_eq!(tree(&work), tree(&folder.join("solution/files")));
}

#[test]
fn secrets_are_refused_or_masked_in_every_format() {
    let place = Place::explored();
    let token = github_token(3);
    fs::write(place.path("project/answer.txt"), format!("good {token}\n")).unwrap();
    let text = format!("assistant=use {token}");
    place.ok(&["fork", "leak", "short"]);
    let words = ["snapshot", "-m", "x", "--branch", "leak", "--append-message", &text];
    place.ok(&[&words[..], &["--workspace", ".", "--check", "c=passed"]].concat());
    for format in ["sft", "dpo", "grpo", "verifiers", "inspect", "environment"] {
        let out = place.path(&format!("out-{format}"));
        let mut export = vec!["export", "leak", "--format", format, "-o", out.to_str().unwrap()];
        match format {
            "environment" => export.extend(["--check", "true", "--from", "main~1"]),
            _ => export.insert(1, "wrong"),
        }
        let refused = place.output(&export);
        assert_eq!(refused.status.code(), Some(1), "{format}: {refused:?}");
        assert!(!out.exists(), "{format}");
        place.ok(&[&export[..], &["--scrub"]].concat());
        let written = match format {
            "environment" => tree(&out).into_values().flat_map(|it| it.0).collect(),
            _ => fs::read(&out).unwrap(),
        };
        let written = String::from_utf8_lossy(&written).into_owned();
        assert!(!written.contains(&token) && written.contains("[secret: github"), "{format}");
        // The reward is that of the original, though the copy has no exploration.
        if format == "grpo" {
            let row: Value = serde_json::from_str(&written).unwrap();
            assert_eq!(
                (&row["rollouts"][0]["reward"], &row["rollouts"][1]["reward"]),
                (&json!(0.0), &json!(1.0))
            );
        }
    }
}
