//! `turntree replay` with a stand-in client: each interface, differences, refusals, the real model.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

const PATIENCE: Duration = Duration::from_secs(120);

/// Says its addresses, and waits for the word of the test.
const CLIENT: &str =
    "env > vars; mv vars client; while [ ! -e over ]; do sleep 0.02; done; exit $(cat over)";

/// The session: two prompts, a call with its result, three answers.
const CHAT: &str = r#"{"messages": [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "look around"},
    {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "look", "arguments": "{\"where\":\"/recorded/src\"}"}}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 7}},
    {"role": "tool", "tool_call_id": "c1", "content": "nothing in 3 ms"},
    {"role": "assistant", "content": "Nothing is there."},
    {"role": "user", "content": "and now?"},
    {"role": "assistant", "content": "Still nothing."}]}"#;

/// A replay whose client is this test.
struct Replay {
    place: Place,
    child: Child,
    variables: String,
}

/// An answer.
struct Told {
    status: u16,
    head: String,
    body: String,
}

impl Told {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }
}

/// A command in the workspace.
fn command(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(words);
    command.current_dir(place.path().join("work"));
    command
}

fn ok(place: &Place, words: &[&str]) {
    let output = command(place, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn recorded() -> Place {
    let place = Place::new(PROGRAM);
    place.write("chat.json", CHAT);
    ok(&place, &["import", "chat.json", "--session", "work"]);
    place
}

impl Replay {
    fn start(words: &[&str]) -> Self {
        Self::of(recorded(), words, &[])
    }

    fn of(place: Place, words: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command =
            command(&place, &[&["replay", "work"], words, &["--", "sh", "-c", CLIENT]].concat());
        command.envs(variables.iter().copied()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let file = place.path().join("work/client");
        let until = Instant::now() + PATIENCE;
        while !file.exists() {
            assert!(Instant::now() < until, "the client did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let variables = fs::read_to_string(file).unwrap();
        Self { place, child, variables }
    }

    fn variable(&self, name: &str) -> &str {
        let found =
            self.variables.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{name} is not set"))
    }

    /// The port and the path with the key.
    fn address(&self) -> (u16, String) {
        let url = self.variable("ANTHROPIC_BASE_URL").strip_prefix("http://127.0.0.1:").unwrap();
        let (port, key) = url.split_once('/').unwrap();
        (port.parse().unwrap(), format!("/{key}"))
    }

    fn post(&self, path: &str, body: &Value) -> Told {
        let (port, key) = self.address();
        post(port, &format!("{key}{path}"), "", body.to_string().as_bytes())
    }

    /// Ends the client with a code, and waits.
    fn end(self, code: i32) -> Output {
        fs::write(self.place.path().join("work/over.new"), code.to_string()).unwrap();
        let over = self.place.path().join("work/over");
        fs::rename(self.place.path().join("work/over.new"), over).unwrap();
        self.child.wait_with_output().unwrap()
    }

    /// Ends the client, and returns the exit code and the record.
    fn record(self, code: i32) -> (Option<i32>, Value) {
        let output = self.end(code);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let record = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        (output.status.code(), record)
    }
}

fn send(port: u16, request: &[u8]) -> Told {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A server may answer and close before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let head = head.to_ascii_lowercase();
    let body = if head.contains("chunked") { joined(body) } else { body.to_owned() };
    Told { status, head, body }
}

/// The body of an answer in chunks.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&rest[..size]);
        chunks = rest[size..].strip_prefix("\r\n").unwrap_or_default();
    }
    body
}

fn post(port: u16, path: &str, headers: &str, body: &[u8]) -> Told {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    send(port, &[head.as_bytes(), body].concat())
}

/// A request of each interface for an answer of the session, by the number of answers before it.
fn request(interface: &str, answers: usize, streams: bool) -> (String, Value) {
    let call = json!({"where": "/recorded/src"});
    match interface {
        "messages" => {
            let use_ = json!({"type": "tool_use", "id": "c1", "name": "look", "input": call});
            let said = json!({"type": "text", "text": "I look."});
            let result =
                json!({"type": "tool_result", "tool_use_id": "c1", "content": "nothing in 9 ms"});
            let reminder = json!({"type": "text", "text": "<system-reminder>x</system-reminder>"});
            let prompt = json!({"type": "text", "text": "look around", "cache_control": {"type": "ephemeral"}});
            let all = [
                vec![json!({"role": "user", "content": [reminder, prompt]})],
                vec![
                    json!({"role": "assistant", "content": [said, use_]}),
                    json!({"role": "user", "content": [result]}),
                ],
                vec![
                    json!({"role": "assistant", "content": "Nothing is there."}),
                    json!({"role": "user", "content": "and now?"}),
                ],
                vec![
                    json!({"role": "assistant", "content": "Still nothing."}),
                    json!({"role": "user", "content": "more"}),
                ],
            ];
            let messages = all[..=answers].concat();
            let tools = json!([{"name": "look", "input_schema": {}}]);
            let body = json!({"model": "m", "system": "other", "messages": messages, "tools": tools, "stream": streams});
            ("/v1/messages?beta=true".into(), body)
        }
        "chat" => {
            let made = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": call.to_string()}});
            let all = [
                vec![
                    json!({"role": "system", "content": "other"}),
                    json!({"role": "user", "content": "look around"}),
                ],
                vec![
                    json!({"role": "assistant", "content": "I look.", "tool_calls": [made]}),
                    json!({"role": "tool", "tool_call_id": "c1", "content": "nothing in 9 ms"}),
                ],
                vec![
                    json!({"role": "assistant", "content": "Nothing is there."}),
                    json!({"role": "user", "content": "and now?"}),
                ],
                vec![
                    json!({"role": "assistant", "content": "Still nothing."}),
                    json!({"role": "user", "content": "more"}),
                ],
            ];
            let tools = json!([{"type": "function", "function": {"name": "look"}}]);
            let body = json!({"model": "m", "messages": all[..=answers].concat(), "tools": tools, "stream": streams});
            ("/v1/chat/completions".into(), body)
        }
        "responses" => {
            let said = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
            let all = [
                vec![said("developer", "other"), said("user", "look around")],
                vec![
                    said("assistant", "I look."),
                    json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": call.to_string()}),
                    json!({"type": "function_call_output", "call_id": "c1", "output": "nothing in 9 ms"}),
                ],
                vec![said("assistant", "Nothing is there."), said("user", "and now?")],
                vec![said("assistant", "Still nothing."), said("user", "more")],
            ];
            let tools = json!([{"type": "function", "name": "look"}]);
            let body = json!({"model": "m", "input": all[..=answers].concat(), "tools": tools, "stream": streams});
            ("/v1/responses".into(), body)
        }
        _ => {
            let said = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
            let made = json!({"functionCall": {"name": "look", "args": call}});
            let result = json!({"functionResponse": {"name": "look", "response": {"output": "nothing in 9 ms"}}});
            let all = [
                vec![said("user", "look around")],
                vec![
                    json!({"role": "model", "parts": [{"text": "I look."}, made]}),
                    json!({"role": "user", "parts": [result]}),
                ],
                vec![said("model", "Nothing is there."), said("user", "and now?")],
                vec![said("model", "Still nothing."), said("user", "more")],
            ];
            let action = if streams { "streamGenerateContent?alt=sse" } else { "generateContent" };
            let tools = json!([{"functionDeclarations": [{"name": "look"}]}]);
            (
                format!("/v1beta/models/m:{action}"),
                json!({"contents": all[..=answers].concat(), "tools": tools}),
            )
        }
    }
}

const INTERFACES: [&str; 4] = ["messages", "chat", "responses", "gemini"];

#[test]
fn each_interface_is_served_the_recorded_answers_with_and_without_a_stream() {
    let replay = Replay::start(&["--json"]);
    for interface in INTERFACES {
        for streams in [false, true] {
            let said = ["I look.", "Nothing is there.", "Still nothing."];
            for (answers, said) in said.into_iter().enumerate() {
                let (path, body) = request(interface, answers, streams);
                let told = replay.post(&path, &body);
                assert_eq!(told.status, 200, "{interface}: {}", told.body);
                assert!(told.body.contains(said), "{interface}: {}", told.body);
                assert_eq!(
                    told.body.contains("look\""),
                    answers == 0,
                    "{interface}: {}",
                    told.body
                );
                let media = if streams { "text/event-stream" } else { "application/json" };
                assert!(told.head.contains(media), "{interface}: {}", told.head);
            }
        }
    }
    let (path, body) = request("messages", 0, false);
    let whole = replay.post(&path, &body).json();
    let here = &whole["content"][1];
    assert_eq!(here["input"], json!({"where": "/recorded/src"}));
    assert_eq!(
        (&whole["stop_reason"], &whole["usage"]["output_tokens"]),
        (&json!("tool_use"), &json!(7))
    );
    let (exit, record) = replay.record(0);
    assert_eq!(exit, Some(0), "{record}");
    let counts = ["answers", "served", "requests", "refused", "forwarded", "exit"]
        .map(|key| record[key].as_i64().unwrap());
    assert_eq!(counts, [3, 3, 25, 0, 0, 0]);
    assert_eq!((&record["difference"], &record["result_differences"]), (&Value::Null, &json!([])));
}

#[test]
fn streams_are_made_of_the_events_of_their_interface() {
    let replay = Replay::start(&[]);
    for (interface, events) in [
        ("messages", vec!["message_start", "input_json_delta", "message_delta", "message_stop"]),
        (
            "responses",
            vec![
                "response.created",
                "response.output_text.delta",
                "response.function_call_arguments.done",
                "response.completed",
            ],
        ),
        ("chat", vec!["chat.completion.chunk", "\"finish_reason\":\"tool_calls\"", "data: [DONE]"]),
        ("gemini", vec!["functionCall", "\"finishReason\":\"STOP\""]),
    ] {
        let (path, body) = request(interface, 0, true);
        let told = replay.post(&path, &body).body;
        let mut rest = told.as_str();
        for event in events {
            let (_, behind) = rest.split_once(event).unwrap_or_else(|| panic!("{event}: {told}"));
            rest = behind;
        }
        for line in told.lines().filter_map(|line| line.strip_prefix("data: {")) {
            assert!(serde_json::from_str::<Value>(&format!("{{{line}")).is_ok(), "{line}");
        }
    }
    replay.end(0);
}

#[test]
fn the_first_difference_is_refused_and_named() {
    for interface in INTERFACES {
        let replay = Replay::start(&["--json"]);
        let (path, body) = request(interface, 2, false);
        let other: Value =
            serde_json::from_str(&body.to_string().replace("and now?", "and then?")).unwrap();
        let told = replay.post(&path, &other);
        assert_eq!(told.status, 400);
        let message = told.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("after 2 answers"), "{message}");
        // A later request that is the recorded one is served.
        assert_eq!(replay.post(&path, &body).status, 200);
        let (exit, record) = replay.record(0);
        assert_eq!(exit, Some(7), "{record}");
        let difference = &record["difference"];
        assert_eq!((&difference["kind"], &difference["answers"]), (&json!("prompt"), &json!(2)));
        assert_eq!(
            (&difference["expected"], &difference["found"]),
            (&json!("and now?"), &json!("and then?"))
        );
        assert!(difference["place"].as_str().unwrap().ends_with(']'), "{difference}");
    }
    for (was, is, kind) in [
        ("I look.", "I watch.", "text"),
        ("/recorded/src", "/recorded/lib", "arguments"),
        ("\"name\":\"look\"", "\"name\":\"watch\"", "call"),
    ] {
        let replay = Replay::start(&["--json"]);
        let (path, body) = request("messages", 1, false);
        let other: Value = serde_json::from_str(&body.to_string().replace(was, is)).unwrap();
        assert_eq!(replay.post(&path, &other).status, 400);
        assert_eq!(replay.record(3).1["difference"]["kind"], kind);
    }
}

#[test]
fn other_results_are_reported_and_refused_if_strict() {
    let other = |interface: &str| -> (String, Value) {
        let (path, body) = request(interface, 1, false);
        (
            path,
            serde_json::from_str(&body.to_string().replace("nothing in 9 ms", "something"))
                .unwrap(),
        )
    };
    for interface in INTERFACES {
        let replay = Replay::start(&["--json"]);
        let (path, body) = other(interface);
        for _ in 0..2 {
            assert_eq!(replay.post(&path, &body).status, 200);
        }
        let (exit, record) = replay.record(0);
        assert_eq!(exit, Some(0));
        assert_eq!(record["result_differences"].as_array().unwrap().len(), 1, "{record}");
        assert_eq!(record["result_differences"][0]["found"], "something");
    }
    let replay = Replay::start(&["--strict", "--json"]);
    let (path, body) = other("chat");
    assert_eq!(replay.post(&path, &body).status, 400);
    let (exit, record) = replay.record(0);
    assert_eq!((exit, &record["difference"]["kind"]), (Some(7), &json!("result")));
}

#[test]
fn the_end_of_the_recording_is_no_difference() {
    for from in [None, Some("turn:5")] {
        let words: Vec<&str> = from.map_or(vec![], |from| vec!["--from", from]);
        let replay = Replay::start(&words);
        let served = if from.is_some() { 2 } else { 3 };
        for answers in 0..served {
            let (path, body) = request("responses", answers, false);
            assert_eq!(replay.post(&path, &body).status, 200, "{from:?} {answers}");
        }
        let (path, body) = request("responses", served, false);
        let told = replay.post(&path, &body);
        assert_eq!(told.status, 400);
        assert!(told.body.contains("the recording ends here"), "{}", told.body);
        let output = replay.end(5);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{said}");
        let line = format!("replayed {served} of {served} recorded answers, 1 request refused\n");
        assert!(said.ends_with(&line), "{said}");
    }
}

#[test]
fn a_branch_without_answers_serves_none() {
    let replay = Replay::start(&["--from", "turn:1"]);
    let (path, body) = request("chat", 0, false);
    assert_eq!(replay.post(&path, &body).status, 400);
    let output = replay.end(0);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there are no recorded answers"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}

/// A stand-in for the real model: answers one request with a stream, and returns the request.
fn upstream() -> (u16, JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0);
        }
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: r7\r\nconnection: close\r\n\r\ndata: one\n\n").unwrap();
        stream.flush().unwrap();
        stream.write_all(b"data: two\n\n").unwrap();
        (head.to_ascii_lowercase(), String::from_utf8(body).unwrap())
    });
    (port, served)
}

#[test]
fn requests_beyond_the_recording_are_forwarded_as_they_are() {
    for (interface, path) in [
        ("messages", "/v1/messages?beta=true"),
        ("chat", "/v1/chat/completions"),
        ("gemini", "/v1beta/models/m:streamgeneratecontent?alt=sse"),
    ] {
        let (port, served) = upstream();
        let url = format!("http://127.0.0.1:{port}/base");
        let replay = Replay::start(&["--then", "forward", "--upstream", &url, "--json"]);
        let (first, body) = request(interface, 2, true);
        assert!(replay.post(&first, &body).body.contains("Still nothing."));
        let (beyond, body) = request(interface, 3, true);
        let (gate, key) = replay.address();
        let headers = "x-api-key: secret\r\nanthropic-beta: b\r\n";
        let told = post(gate, &format!("{key}{beyond}"), headers, body.to_string().as_bytes());
        assert_eq!((told.status, told.body.as_str()), (200, "data: one\n\ndata: two\n\n"));
        assert!(told.head.contains("request-id: r7"), "{}", told.head);
        let (head, sent) = served.join().unwrap();
        assert!(head.starts_with(&format!("post /base{path} http/1.1\r\n")), "{head}");
        assert!(head.contains("x-api-key: secret") && head.contains("anthropic-beta: b"), "{head}");
        assert!(
            head.contains(&format!("host: 127.0.0.1:{port}")) && !head.contains(&key),
            "{head}"
        );
        assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), body);
        let (exit, record) = replay.record(0);
        assert_eq!(
            (exit, &record["forwarded"], &record["difference"]),
            (Some(0), &json!(1), &Value::Null)
        );
    }
}

#[test]
fn a_difference_is_forwarded_where_that_is_wanted_and_a_failure_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    drop(listener);
    let vendor = [("ANTHROPIC_BASE_URL", url.as_str())];
    let replay = Replay::of(recorded(), &["--then", "forward"], &vendor);
    assert!(!replay.variables.contains("turntree-replay"), "{}", replay.variables);
    let (path, body) = request("messages", 1, false);
    let other: Value = serde_json::from_str(&body.to_string().replace("I look.", "I go.")).unwrap();
    let told = replay.post(&path, &other);
    assert_eq!(told.status, 502, "{}", told.body);
    let output = replay.end(0);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in [
        "the first request that differs before the first answer",
        "could not be forwarded",
        "1 request forwarded",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn only_the_client_is_served_and_only_answers() {
    let replay = Replay::start(&["--json"]);
    let (port, key) = replay.address();
    assert_eq!(key.len(), 65);
    assert_eq!(replay.variable("OPENAI_BASE_URL"), format!("http://127.0.0.1:{port}{key}/v1"));
    assert_eq!(replay.variable("GOOGLE_GEMINI_BASE_URL"), format!("http://127.0.0.1:{port}{key}"));
    assert_eq!(replay.variable("OPENAI_API_KEY"), "turntree-replay");
    assert!(replay.variable("NO_PROXY").ends_with("127.0.0.1"));
    let (path, body) = request("messages", 0, false);
    let body = body.to_string();
    for wrong in ["", "/", "/x", &format!("/{}", "0".repeat(64)), &key[..64], &format!("{key}0")] {
        let told = post(port, &format!("{wrong}{path}"), "", body.as_bytes());
        assert_eq!(told.status, 401, "{wrong}: {}", told.body);
        assert!(!told.body.contains("look"), "{}", told.body);
    }
    let foreign = format!(
        "POST {key}{path} HTTP/1.1\r\nhost: evil.example:{port}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    assert_eq!(send(port, foreign.as_bytes()).status, 421);
    let huge = format!(
        "POST {key}/v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        65 << 20
    );
    let huge = [huge.as_bytes(), &vec![b' '; 65 << 20]].concat();
    assert_eq!(send(port, &huge).status, 413);
    let gzip = post(port, &format!("{key}/v1/messages"), "content-encoding: gzip\r\n", b"x");
    assert_eq!(gzip.status, 415);
    for odd in
        [&b""[..], b"{", b"[]", b"{\"messages\": 1}", b"\xff\xfe", "[".repeat(100_000).as_bytes()]
    {
        assert_eq!(post(port, &format!("{key}/v1/messages"), "", odd).status, 400);
    }
    let continued = json!({"previous_response_id": "r", "input": "x"});
    assert!(replay.post("/v1/responses", &continued).body.contains("whole conversation"));
    assert_eq!(replay.post("/v1/embeddings", &json!({})).status, 404);
    assert_eq!(
        replay.post("/v1/messages/count_tokens", &json!({})).json(),
        json!({"input_tokens": 0})
    );
    let models = format!(
        "GET {key}/v1/models HTTP/1.1\r\nhost: localhost:{port}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(send(port, models.as_bytes()).json()["data"], json!([]));
    // Without tools, a request is none of the conversation.
    let title = json!({"model": "m", "messages": [{"role": "user", "content": "a title"}]});
    assert_eq!(replay.post("/v1/messages", &title).status, 200);
    let schema = json!({"properties": {"is": {"type": "boolean"}}});
    let judged = json!({"contents": [], "generationConfig": {"responseJsonSchema": schema}});
    let judged = replay.post("/v1beta/models/m:generateContent", &judged).json();
    assert_eq!(judged["candidates"][0]["content"]["parts"][0]["text"], "{\"is\":false}");
    let (exit, record) = replay.record(0);
    assert_eq!((exit, &record["side_requests"]), (Some(0), &json!(2)), "{record}");
    assert_eq!((&record["requests"], &record["difference"]), (&json!(0), &Value::Null));
}

#[test]
fn a_client_that_ignores_the_gateway_is_noticed() {
    let said = |replay: Replay| String::from_utf8(replay.end(0).stderr).unwrap();
    let ignored = said(Replay::start(&[]));
    assert!(ignored.contains("sent no request to the gateway"), "{ignored}");
    let asked = Replay::start(&[]);
    let title = json!({"messages": [{"role": "user", "content": "a title"}]});
    assert_eq!(asked.post("/v1/messages", &title).status, 200);
    let asked = said(asked);
    assert!(!asked.contains("sent no request"), "{asked}");
}

#[test]
fn the_recorded_directory_stands_for_the_current_one() {
    let place = Place::new(PROGRAM);
    let line = |kind: &str, id: u8, content: Value| {
        json!({"type": kind, "uuid": format!("u{id}"), "parentUuid": (id > 1).then(|| format!("u{}", id - 1)),
            "sessionId": "s", "cwd": "/recorded/project", "timestamp": "2026-01-01T00:00:00.000Z", "version": "2.0.0",
            "message": {"role": kind, "id": format!("m{id}"), "model": "m", "content": content}})
        .to_string()
    };
    let call = json!([{"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "/recorded/project/a"}}]);
    let lines = [
        line("user", 1, json!("write")),
        line("assistant", 2, call),
        line(
            "user",
            3,
            json!([{"type": "tool_result", "tool_use_id": "t", "content": "wrote /recorded/project/a"}]),
        ),
        line("assistant", 4, json!([{"type": "text", "text": "Done."}])),
    ];
    place.write("session.jsonl", lines.join("\n") + "\n");
    ok(&place, &["import", "session.jsonl", "--session", "work"]);
    let here = place.path().canonicalize().unwrap().join("work");
    let replay = Replay::of(place, &["--json"], &[]);
    let tools = json!([{"name": "Write"}]);
    let prompt = json!({"role": "user", "content": "write"});
    let first = replay.post("/v1/messages", &json!({"messages": [prompt], "tools": tools})).json();
    let file = here.join("a");
    let file = file.to_str().unwrap();
    assert_eq!(first["content"][0]["input"]["file_path"], file, "{first}");
    let result =
        json!([{"type": "tool_result", "tool_use_id": "t", "content": format!("wrote {file}")}]);
    let messages = json!([prompt, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": result}]);
    let last = replay.post("/v1/messages", &json!({"messages": messages, "tools": tools})).json();
    assert_eq!(last["content"][0]["text"], "Done.", "{last}");
    let (exit, record) = replay.record(0);
    assert_eq!((exit, &record["result_differences"]), (Some(0), &json!([])), "{record}");
}

#[test]
fn a_signal_ends_the_command_and_then_the_replay() {
    for signal in [Signal::INT, Signal::TERM] {
        let replay = Replay::start(&[]);
        let (port, _) = replay.address();
        kill_process(Pid::from_child(&replay.child), signal).unwrap();
        let output = replay.child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()));
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the gateway still listens");
    }
}

#[test]
fn what_cannot_run_is_said_before_anything_does() {
    let place = recorded();
    ok(&place, &["fork", "side", "turn:2"]);
    ok(&place, &["snapshot", "-m", "x", "--branch", "side", "--append-message", "user=x"]);
    let failed = |words: &[&str]| {
        let output = command(&place, words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = failed(&["replay", "work", "--upstream", "https://x", "--", "true"]);
    assert!(said.contains("--then forward"), "{said}");
    let said = failed(&["replay", "work", "--then", "forward", "--upstream", "x", "--", "true"]);
    assert!(said.contains("expected an address"), "{said}");
    let said = failed(&["replay", "work/main", "--from", "side", "--", "true"]);
    assert!(said.contains("side is not a turn of work/main"), "{said}");
    let said = failed(&["replay", "work", "--", "/no/such/program"]);
    assert!(said.contains("cannot be run"), "{said}");
    let Output { status, .. } = Command::new(PROGRAM).args(["replay", "x"]).output().unwrap();
    assert_eq!(status.code(), Some(2));
}
