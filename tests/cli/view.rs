//! `turntree view` over HTTP: which requests are answered, with what, and how the server ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server of a store.
pub(super) struct Served {
    child: Child,
    pub(super) url: String,
    pub(super) port: u64,
    pub(super) key: String,
}

/// An answer: its status, its head in lower case, and its body.
pub(super) struct Told {
    pub(super) status: u64,
    pub(super) head: String,
    pub(super) body: String,
}

impl Served {
    pub(super) fn start(place: &Place, words: &[&str]) -> Self {
        Self::of(place.command(&[&["--json", "view"], words].concat()))
    }

    /// Starts a server with a command.
    pub(super) fn of(mut command: Command) -> Self {
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env_remove("BROWSER");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let url = told["url"].as_str().unwrap().to_owned();
        let key = url.split_once("#key=").unwrap().1[..64].to_owned();
        Self { child, url, port: told["port"].as_u64().unwrap(), key }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port as u16)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request, adds the `connection: close` header, and returns the answer.
    fn raw(&self, request: &str) -> Told {
        self.raw_with_body(request, "")
    }

    /// Sends a request with a body, and returns the answer.
    pub(super) fn raw_with_body(&self, request: &str, body: &str) -> Told {
        let mut stream = self.connect();
        // A server that refuses early stops reading.
        let _ = stream.write_all(format!("{request}connection: close\r\n\r\n{body}").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Told::parse(&answer)
    }

    /// Requests a path with the key and more header lines.
    fn ask_with(&self, path: &str, more: &str) -> Told {
        let (port, key) = (self.port, &self.key);
        self.raw(&format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n{more}"
        ))
    }

    /// Requests a change like the page does.
    pub(super) fn post(&self, path: &str, value: &Value) -> Told {
        let (port, key, body) = (self.port, &self.key, value.to_string());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: http://127.0.0.1:{port}\r\n\
             authorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n",
            body.len()
        );
        self.raw_with_body(&head, &body)
    }

    /// The document.
    pub(super) fn page(&self) -> String {
        self.raw(&format!("GET / HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n", self.port)).body
    }

    pub(super) fn ask(&self, path: &str) -> Told {
        self.ask_with(path, "")
    }

    pub(super) fn json(&self, path: &str) -> Value {
        let told = self.ask(path);
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        serde_json::from_str(&told.body).unwrap()
    }

    /// The lines of an answer, each with its letter and its value.
    fn lines(&self, path: &str) -> Vec<(char, Value)> {
        let told = self.ask(path);
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        let line = |line: &str| {
            let letter = line.chars().next().unwrap();
            (letter, serde_json::from_str(&line[1..]).unwrap())
        };
        told.body.lines().map(line).collect()
    }

    /// Interrupts the server like Ctrl-C. Returns the exit code.
    pub(super) fn end(mut self) -> Option<i32> {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Told {
    fn parse(answer: &[u8]) -> Self {
        let text = String::from_utf8_lossy(answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let head = head.to_lowercase();
        let body = match head.contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Self { status, head, body }
    }
}

/// Decodes a chunked body. Lengths count bytes.
fn unchunked(body: &str) -> String {
    let (mut rest, mut whole) = (body.as_bytes(), Vec::new());
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            break;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
    String::from_utf8(whole).unwrap()
}

#[test]
fn only_who_may_ask_is_answered() {
    let place = Place::new(PROGRAM);
    let _ = place.run(&["init"]);
    let served = Served::start(&place, &[]);
    let (port, key) = (served.port, &served.key);
    let host = format!("host: 127.0.0.1:{port}\r\n");
    let with_key = format!("authorization: Bearer {key}\r\n");
    let sessions = "GET /api/sessions HTTP/1.1\r\n";
    let cases = [
        // Correct requests, by both names.
        (200, format!("{sessions}{host}{with_key}")),
        (200, format!("{sessions}host: localhost:{port}\r\n{with_key}")),
        (200, format!("GET / HTTP/1.1\r\n{host}")),
        // Foreign names that resolve to this host, and a missing name.
        (421, format!("{sessions}host: evil.example:{port}\r\n{with_key}")),
        (421, format!("{sessions}host: 127.0.0.1.evil.example:{port}\r\n{with_key}")),
        (421, format!("{sessions}host: 127.0.0.1\r\n{with_key}")),
        (421, format!("GET / HTTP/1.1\r\nhost: evil.example:{port}\r\n")),
        (421, format!("GET http://evil.example:{port}/ HTTP/1.1\r\n{host}")),
        (421, format!("{sessions}{host}host: evil.example\r\n{with_key}")),
        (421, format!("GET /api/sessions HTTP/1.0\r\n{with_key}")),
        // Without the key, with a wrong key, and with the key in the wrong place.
        (401, format!("{sessions}{host}")),
        (401, format!("{sessions}{host}authorization: Bearer {}\r\n", "0".repeat(64))),
        (401, format!("{sessions}{host}authorization: Bearer {}\r\n", &key[..63])),
        (401, format!("{sessions}{host}cookie: key={key}\r\n")),
        (401, format!("GET /api/sessions?key={key} HTTP/1.1\r\n{host}")),
        (401, format!("GET /api/events HTTP/1.1\r\n{host}")),
        // Pages of other origins.
        (403, format!("{sessions}{host}{with_key}origin: http://evil.example\r\n")),
        (403, format!("{sessions}{host}{with_key}origin: null\r\n")),
        (403, format!("{sessions}{host}{with_key}sec-fetch-site: cross-site\r\n")),
        (403, format!("{sessions}{host}{with_key}sec-fetch-site: same-site\r\n")),
        // Oversized requests, and requests with a body.
        (413, format!("{sessions}{host}{with_key}content-length: 5000000\r\n")),
        (413, format!("{sessions}{host}{with_key}transfer-encoding: chunked\r\n")),
        (431, format!("{sessions}{host}{with_key}x: {}\r\n", "a".repeat(20 << 10))),
        // Other paths.
        (404, format!("GET /../superblock HTTP/1.1\r\n{host}{with_key}")),
        (404, format!("GET /s/../../etc/passwd HTTP/1.1\r\n{host}{with_key}")),
        (404, format!("GET /api/story?session=..%2F..%2Fetc HTTP/1.1\r\n{host}{with_key}")),
        (400, format!("GET /api/parts?names=..%2Fsuperblock HTTP/1.1\r\n{host}{with_key}")),
        (400, format!("GET /api/search HTTP/1.1\r\n{host}{with_key}")),
        (400, format!("GET\r\n{host}")),
    ];
    for (status, request) in &cases {
        let told = served.raw(request);
        assert_eq!(told.status, *status, "{request}{}", told.body);
        assert!(!told.head.contains("access-control"), "{request}{}", told.head);
    }
    for method in ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
        for path in ["/", "/api/sessions"] {
            let told = served.raw(&format!("{method} {path} HTTP/1.1\r\n{host}{with_key}"));
            assert_eq!(told.status, 405, "{method} {path}");
            assert!(told.head.contains("allow: get"), "{}", told.head);
        }
    }
    assert_eq!(served.end(), Some(0));
}

#[test]
fn every_answer_says_that_it_is_for_this_page_alone() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let served = Served::start(&place, &[]);
    let page = served.raw(&format!("GET / HTTP/1.1\r\nhost: localhost:{}\r\n", served.port));
    let other = served.raw(&format!("GET /s/work HTTP/1.1\r\nhost: localhost:{}\r\n", served.port));
    assert_eq!((page.status, page.body.as_str()), (200, other.body.as_str()));
    assert!(!page.body.contains("message 1") && !page.body.contains(&served.key));
    let answers = [
        page,
        served.ask("/api/sessions"),
        served.ask("/api/story?session=work"),
        served.ask("/api/story?session=missing"),
        served.ask("/nowhere"),
    ];
    let policies = [
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "cross-origin-resource-policy: same-origin",
        "cross-origin-opener-policy: same-origin",
        "default-src 'none'",
        "frame-ancestors 'none'",
    ];
    for (number, told) in answers.iter().enumerate() {
        for policy in policies {
            assert!(told.head.contains(policy), "{policy}: {}", told.head);
        }
        assert!(!told.head.contains("unsafe-") && !told.head.contains("set-cookie"));
        let is_html = told.head.contains("content-type: text/html");
        assert_eq!(is_html, number == 0, "{}", told.head);
    }
    let policy = answers[0].head.lines().find(|line| line.starts_with("content-security")).unwrap();
    assert!(policy.contains("connect-src 'self'") && policy.contains("script-src 'sha256-"));
}

#[test]
fn who_opens_an_address_of_nothing_is_told_so_in_words() {
    let place = Place::new(PROGRAM);
    let _ = place.run(&["init"]);
    let served = Served::start(&place, &[]);
    let host = format!("host: 127.0.0.1:{}\r\n", served.port);
    let browser = "accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    for path in ["/nonsense", "/%3Cscript%3E", "/s/a/b", "/api/nonsense"] {
        let told = served.raw(&format!("GET {path} HTTP/1.1\r\n{host}{browser}"));
        assert_eq!(told.status, 404, "{path}: {}", told.body);
        assert!(told.head.contains("content-type: text/html"), "{}", told.head);
        for policy in ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-store"] {
            assert!(told.head.contains(policy), "{policy}: {}", told.head);
        }
        assert!(told.body.contains("there is nothing at this address"), "{}", told.body);
        assert!(
            told.body.contains("<a href=\"/\">All sessions</a>") && !told.body.contains("<script")
        );
    }
    // A script or a program gets JSON.
    for more in ["", "accept: */*\r\n", "accept: application/json\r\n"] {
        let told = served.raw(&format!("GET /nonsense HTTP/1.1\r\n{host}{more}"));
        assert!(told.head.contains("content-type: application/json"), "{}", told.head);
    }
}

#[test]
fn a_story_of_many_branches_has_the_newest_and_counts_the_rest() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let names: Vec<String> = (0..70).map(|number| format!("fork-{number}")).collect();
    let words: Vec<&str> = ["fork"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let _ = place.run(&words);
    let _ = place.run(&["snapshot", "-m", "newest", "--session", "work", "--branch", "fork-69"]);
    let served = Served::start(&place, &[]);
    let story = served.lines("/api/story?session=work&n=10");
    let branches = story[0].1["branches"].as_array().unwrap();
    assert_eq!((branches.len(), &story[0].1["more"]), (64, &json!(8)));
    assert_eq!(branches[0]["name"], "main");
    assert!(branches.iter().any(|branch| branch["name"] == "fork-69"));
    let compared = served.json("/api/compare?session=work");
    assert_eq!(compared["strategies"].as_array().unwrap().len(), 64);
    assert_eq!(compared["branches"], 72);
}

#[test]
fn a_story_is_told_by_turns_and_then_by_what_is_asked_for() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(2);
    let served = Served::start(&place, &["work/plan-b"]);
    assert!(served.url.contains("/s/work#key=") && served.url.ends_with("&overview@plan-b"));
    let sessions = served.json("/api/sessions");
    assert_eq!((&sessions["total"], &sessions["next"]), (&json!(1), &json!(null)));
    assert_eq!(sessions["sessions"][0]["session"], "work");
    assert_eq!(served.json("/api/sessions?q=nothing+such")["sessions"], json!([]));
    assert_eq!(served.json("/api/sessions?q=WORK&n=1")["total"], 1);
    let compared = served.json("/api/compare?session=work");
    assert_eq!(compared["strategies"].as_array().unwrap().len(), 2);

    let story = served.lines("/api/story?session=work");
    let letters: String = story.iter().map(|(letter, _)| *letter).collect();
    assert_eq!(letters, "htt");
    let branches = &story[0].1["branches"];
    assert_eq!(story[0].1["title"], sessions["sessions"][0]["title"]);
    // The newest branch is first.
    assert_eq!((&branches[0]["name"], &branches[0]["tip"]), (&json!("main"), &story[1].1["id"]));
    assert_eq!(branches[1]["name"], "plan-b");
    let last = &story[1].1;
    assert_eq!(last["parents"], json!([story[2].1["id"]]));
    let older = &story[2].1["change"];
    let texts = [&older["files"][0][3], &older["entries"][0][2]];
    assert_eq!(last["change"]["before"], json!(texts));
    assert_eq!(older["before"], json!([null, null]));
    let message = last["change"]["lists"]["agents/main/messages"][0][2][0].as_str().unwrap();
    let file = last["change"]["files"][0][3].as_str().unwrap();
    let gone = "0".repeat(64);
    let parts = served.lines(&format!("/api/parts?names={message},{file},{gone},{gone}."));
    let letters: String = parts.iter().map(|(letter, _)| *letter).collect();
    assert_eq!(letters, "mxxm");
    assert_eq!((&parts[0].1["text"], &parts[1].1), (&json!("message 2"), &json!("2\n")));
    assert_eq!((&parts[2].1["why"], &parts[3].1["role"]), (&json!("lost"), &json!("other")));

    let hits = served.ask("/api/search?q=MESSAGE+2").body;
    let hit: Value = serde_json::from_str(hits.trim()).unwrap();
    assert_eq!((&hit["turn"], &hit["role"]), (&json!(2), &json!("user")));
    assert_eq!(hit["lines"], json!(["message 2"]));

    // Known turns are left out on every branch.
    let tip = last["id"].as_str().unwrap();
    assert_eq!(served.lines(&format!("/api/story?session=work&known={tip}")).len(), 1);
    let _ = place.run(&["snapshot", "-m", "more", "--session", "work"]);
    let news = served.lines(&format!("/api/story?session=work&known={tip},{gone}"));
    assert_eq!(news.len(), 2);
    assert_eq!(
        (&news[1].1["message"], &news[1].1["change"]["lists"]),
        (&json!("more"), &json!({}))
    );
}

#[test]
fn a_story_that_is_told_in_parts_is_the_one_that_is_told_at_once() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(4);
    for (branch, from) in [("plan-c", "work~2"), ("plan-d", "work/plan-b"), ("plan-e", "work~1")] {
        let _ = place.run(&["fork", branch, from]);
        let _ = place.run(&["snapshot", "-m", branch, "--branch", &format!("work/{branch}")]);
    }
    let _ = place.run(&["merge", "work/plan-c", "--into", "work/plan-d"]);
    let served = Served::start(&place, &[]);
    let known = place.run(&["rev-parse", "work~3"]).trim().to_owned();
    for known in ["", &known] {
        let address = format!("/api/story?session=work&known={known}");
        let whole = served.lines(&address);
        for most in 1..6 {
            let (mut told, mut from) = (Vec::new(), String::new());
            loop {
                let mut part = served.lines(&format!("{address}&from={from}&n={most}"));
                let rest = part.pop_if(|(letter, _)| *letter == 'n');
                let turns = part.iter().filter(|(letter, _)| *letter == 't').count();
                assert!(turns <= most && (turns == most || rest.is_none()), "{turns} of {most}");
                told.extend(part);
                let Some((_, ids)) = rest else { break };
                let ids = ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap());
                from = ids.collect::<Vec<_>>().join(",");
            }
            assert_eq!(told, whole, "{most} at a time");
        }
    }
    let gone = "0".repeat(64);
    assert_eq!(served.ask(&format!("/api/story?session=work&from={gone}")).status, 404);
}

#[test]
fn files_storage_and_operations_are_told() {
    let place = Place::new(PROGRAM);
    fs::create_dir(place.path().join("work/src")).unwrap();
    place.write("src/z'; $(true).txt", "hostile\n");
    let _ = place.with_turns(2);
    place.write("notes.txt", "2\nthree\n");
    let _ = place.run(&["snapshot", "-m", "more", "--session", "work", "--workspace", "work"]);
    let _ = place.run(&["pin", "work", "--name", "kept"]);
    let served = Served::start(&place, &[]);
    let tip = place.run(&["rev-parse", "work"]).trim().to_owned();
    // Folder by folder.
    let files = |path: &str| served.json(&format!("/api/files?at={tip}&path={path}"));
    let top = files("files");
    assert_eq!((&top["commit"], &top["next"]), (&json!(tip), &json!(null)));
    let names: Vec<&str> =
        top["entries"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["notes.txt", "src/"]);
    assert_eq!(files("files%2Fsrc")["entries"][0]["name"], "z'; $(true).txt");
    let none = served.ask(&format!("/api/files?at={tip}&path=files%2Fnowhere"));
    assert_eq!(none.status, 404, "{}", none.body);
    assert_eq!(served.ask(&format!("/api/files?at={}&path=files", "0".repeat(64))).status, 404);
    // Each line with the turn that wrote it, as in `blame`.
    let lines = served.ask(&format!("/api/blame?at={tip}&path=files%2Fnotes.txt")).body;
    assert_eq!(lines, place.run(&["--json", "blame", "work:files/notes.txt"]));
    let turns: Vec<u64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["turn"].as_u64().unwrap())
        .collect();
    assert_eq!(turns, [2, 3]);
    // The log of operations, page by page, and undone operations.
    let _ = place.run(&["undo"]);
    let told = |path: &str| -> Vec<Value> {
        served.ask(path).body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = told("/api/operations");
    assert_eq!(all[1]["in_force"], json!(false));
    assert_eq!(all[0]["undoes"], all[1]["id"]);
    let two = told("/api/operations?n=2");
    assert_eq!(two, all[..2]);
    let rest = told(&format!("/api/operations?before={}", two[1]["operation"]));
    assert_eq!(rest, all[2..]);
    // The sizes of sessions, and the pins.
    let storage = served.json("/api/storage");
    assert_eq!(
        (&storage["sessions"][0]["session"], &storage["pins"]),
        (&json!("work"), &json!([]))
    );
    assert!(storage["garbage"]["bytes"].is_u64() && storage["files"].is_array());
    let open = served.json("/api/conflicts?branch=work%2Fmain");
    assert_eq!((&open["branch"], &open["conflicts"]), (&json!("main"), &json!([])));
    assert_eq!(served.ask("/api/conflicts?branch=missing").status, 404);
}

#[test]
fn the_script_of_other_screens_is_the_one_that_the_document_knows() {
    let place = Place::new(PROGRAM);
    let _ = place.run(&["init"]);
    let served = Served::start(&place, &[]);
    let host = format!("host: 127.0.0.1:{}\r\n", served.port);
    let told = served.raw(&format!("GET /screens.js HTTP/1.1\r\n{host}"));
    assert_eq!(told.status, 200);
    assert!(told.head.contains("content-type: text/javascript") && told.head.contains("nosniff"));
    let page = served.page();
    let hash = page.split("name=\"screens\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    // The policy allows this script and the one in the document, and no other.
    let policy = page.split("script-src ").nth(1).unwrap().split(';').next().unwrap();
    assert!(policy.contains(&format!("'{hash}'")), "{policy}");
    assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
    for path in ["/operations", "/storage"] {
        assert_eq!(served.raw(&format!("GET {path} HTTP/1.1\r\n{host}")).body, page);
    }
}

#[test]
fn whatever_a_store_holds_goes_out_as_data() {
    let place = Place::new(PROGRAM);
    let corpus = [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\u{202e}gnp.exe\u{2066}",
        "\u{2028}\u{2029}\"'`${alert(1)}",
        "javascript:alert(1)\r\nset-cookie: a=b",
        "e{\"message\":\"no\"}\nt{}",
    ];
    for text in corpus {
        place.write("evil.txt", text);
        let state = json!({
            "agents": {"main": {"messages": [{"role": "user", "content": text}]}},
            "scratchpad": {text: {"content": text, "title": text}},
        });
        fs::write(place.path().join("state.json"), state.to_string()).unwrap();
        let words = ["snapshot", "-m", text, "--state", "state.json", "--session", "evil"];
        let _ = place.run(&[&words[..], &["--workspace", "work"]].concat());
    }
    let served = Served::start(&place, &["evil"]);
    let story = served.lines("/api/story?session=evil");
    assert_eq!(story.len(), corpus.len() + 1);
    for ((letter, turn), text) in story.iter().skip(1).rev().zip(corpus) {
        assert_eq!((*letter, &turn["message"]), ('t', &json!(text)));
        let message = &turn["change"]["lists"]["agents/main/messages"][0][2][0];
        let parts = served.lines(&format!("/api/parts?names={}", message.as_str().unwrap()));
        assert_eq!(parts[0].1["text"], json!(text));
    }
    let told = served.ask("/api/sessions?q=%3C%2Fscript%3E%0D%0Aset-cookie%3A%20x");
    assert_eq!(told.status, 200);
    assert!(!told.head.contains("set-cookie"));
    let told = served.ask("/api/story?session=%3Cscript%3E%0D%0Ax%3A+y");
    assert_eq!(told.status, 404);
    assert!(!told.head.contains("x: y"));
    let _: Value = serde_json::from_str(&told.body).unwrap();
}

#[test]
fn who_listens_hears_which_session_has_moved() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let served = Served::start(&place, &[]);
    let mut stream = served.connect();
    let (port, key) = (served.port, &served.key);
    let request = format!(
        "GET /api/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut next = || lines.find(|line| line.starts_with('{')).unwrap();
    assert_eq!(next(), "{\"sessions\":null}");
    for session in ["work", "other"] {
        let _ = place.run(&["snapshot", "-m", "more", "--session", session]);
        let said: Value = serde_json::from_str(&next()).unwrap();
        assert_eq!(said["sessions"], json!([session]));
    }
}

#[test]
fn too_many_connections_are_turned_away_and_it_goes_on() {
    let place = Place::new(PROGRAM);
    let _ = place.run(&["init"]);
    let served = Served::start(&place, &[]);
    let idle: Vec<TcpStream> = (0..40).map(|_| served.connect()).collect();
    let mut said = [0; 12];
    (&idle[39]).read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 503");
    drop(idle);
    // Until the server notices that they are closed.
    while served.ask("/api/sessions").status != 200 {}
}

#[test]
fn it_is_found_again_and_sees_what_becomes_of_its_store() {
    let place = Place::new(PROGRAM);
    let _ = place.with_turns(1);
    let served = Served::start(&place, &[]);
    // A second server returns the first's address, and opens a browser only if one exists.
    let mut second = Served::start(&place, &["work", "--open"]);
    assert_eq!((second.port, &second.key), (served.port, &served.key));
    assert_eq!(second.child.wait().unwrap().code(), Some(0));

    fs::rename(place.path().join("store"), place.path().join("away")).unwrap();
    assert_eq!(served.ask("/api/sessions").status, 404);
    fs::rename(place.path().join("away"), place.path().join("store")).unwrap();
    assert_eq!(served.json("/api/sessions")["total"], 1);
    // Moved and not deleted: the server may still write what it caches.
    fs::rename(place.path().join("store"), place.path().join("gone")).unwrap();
    let _ = place.run(&["init"]);
    assert_eq!(served.json("/api/sessions")["total"], 0);

    // A restarted server has the same address and another key.
    let _ = place.with_turns(1);
    let (port, key) = (served.port, served.key.clone());
    assert_eq!(served.end(), Some(0));
    let again = Served::start(&place, &["--port", &port.to_string()]);
    assert_eq!(again.port, port);
    assert_ne!(again.key, key);
    let old = format!("authorization: Bearer {key}\r\n");
    let request = format!("GET /api/sessions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{old}");
    assert_eq!(again.raw(&request).status, 401);
    drop(again);
    let other = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = other.local_addr().unwrap().port().to_string();
    let taken = place.command(&["view", "--port", &port]).output().unwrap();
    assert_eq!(taken.status.code(), Some(5), "{}", String::from_utf8_lossy(&taken.stderr));
}
