//! A store with a workspace, a command alone in a folder, and servers with a line protocol.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::schema;

/// Runs a program alone in a folder, which is also its home, and checks its exit code.
///
/// # Panics
/// If it exits with another code.
pub fn ends_with(code: i32, program: &str, folder: &Path, words: &[&str]) -> Output {
    let output = run_alone(program, folder, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    output
}

/// Runs a program alone in a folder, which is also its home.
///
/// # Panics
/// If the program cannot be started.
#[must_use]
pub fn run_alone(program: &str, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("HOME", folder.join("home")).env("TURNTREE_MAINTENANCE", "off");
    // The passphrase for encrypted stores in such a folder.
    command.env("TURNTREE_PASSPHRASE", "open sesame");
    command.output().unwrap()
}

/// The timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with a store and a workspace in it.
pub struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    /// A new folder, for `program`.
    ///
    /// # Panics
    /// If the folder cannot be created.
    #[must_use]
    pub fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder, program: program.into() }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the workspace.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path().join("work").join(name), content).unwrap();
    }

    /// A file of the workspace, if it exists.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path().join("work").join(name)).ok()
    }

    /// A command of the program on this store.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--store", "store"]).args(words).current_dir(self.path());
        command.env("TURNTREE_MAINTENANCE", "off").env("TURNTREE_ACTOR", "ann");
        command.env_remove("TURNTREE_BRANCH").env_remove("TURNTREE_STORE");
        command.env_remove("CLAUDE_CODE_SESSION_ID").env_remove("CODEX_THREAD_ID");
        command
    }

    /// The same command for a user whose home, with the keys, is the folder of the store.
    #[must_use]
    pub fn command_at_home(&self, words: &[&str]) -> Command {
        let mut command = self.command(words);
        command.env("HOME", self.path()).env_remove("XDG_CONFIG_HOME");
        command.env_remove("TURNTREE_IDENTITY");
        command
    }

    /// Runs the program and returns its output.
    ///
    /// # Panics
    /// If the program fails.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Commits turns with a conversation, notes and files, a second branch that begins before the
    /// last one, and a payload. Returns the URI of the payload. Turn `n` of `work/main` has the
    /// message `message n` and `n` in the note and the file.
    ///
    /// # Panics
    /// If the program fails.
    #[must_use]
    pub fn with_turns(&self, turns: usize) -> String {
        for turn in 1..=turns {
            self.write("notes.txt", format!("{turn}\n"));
            let said = |n: usize| json!({"role": "user", "content": format!("message {n}")});
            let messages: Vec<Value> = (1..=turn).map(said).collect();
            let state = json!({
                "agents": {"main": {"messages": messages}},
                "scratchpad": {"note": {"content": format!("note {turn}")}},
            });
            fs::write(self.path().join("state.json"), state.to_string()).unwrap();
            let (message, state) = (format!("turn {turn}"), "state.json");
            let words = ["snapshot", "-m", &message, "--state", state, "--session", "work"];
            let _ = self.run(&[&words[..], &["--workspace", "work"]].concat());
        }
        let _ = self.run(&["switch", "work"]);
        let before = format!("turn:{}", turns.saturating_sub(1).max(1));
        let _ = self.run(&["fork", "plan-b", &before]);
        fs::write(self.path().join("long.log"), "line ä\n".repeat(10_000)).unwrap();
        self.run(&["vfs", "put", "long.log"]).trim().to_owned()
    }

    /// Expires all turns of `work` except the last two of each branch.
    ///
    /// # Panics
    /// If the program fails.
    pub fn expire(&self) {
        let _ = self.run(&["retention", "set", "--keep-last", "2", "work"]);
        // The newest operations are kept for undo, so those of the turns must not be among them.
        let mut server = self.server(&["serve", "--stdio"]);
        for number in 0..40 {
            let params = json!({"message": format!("{number}"), "session": "other"});
            server.call("snapshot", &params).unwrap();
        }
        let _ = server.end();
        let _ = self.run(&["gc"]);
    }

    /// A server of this store.
    #[must_use]
    pub fn server(&self, words: &[&str]) -> Server {
        Server::start(&mut self.command(words))
    }

    /// A server of the Model Context Protocol that has completed its initialization.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn mcp(&self, words: &[&str]) -> Server {
        let mut server = self.server(&[&["mcp"], words].concat());
        Self::greet(&mut server);
        server
    }

    /// Completes the initialization of the Model Context Protocol.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn greet(server: &mut Server) {
        let client = json!({"name": "a test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let answer = server.call("initialize", &hello).unwrap();
        assert_eq!(answer["protocolVersion"], "2025-11-25");
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }
}

/// A program that reads a message per line and answers the same way.
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    last: u64,
}

impl Server {
    /// Starts a server with this command.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { input: child.stdin.take(), child, lines, last: 0 }
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Writes a line.
    ///
    /// # Panics
    /// If the server does not read it.
    pub fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// The next line, which must be JSON.
    ///
    /// # Panics
    /// If no line is received in time.
    #[must_use]
    pub fn receive(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer");
        let value: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(value["jsonrpc"], "2.0");
        value
    }

    /// Sends a request, and returns its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string());
        id
    }

    /// Calls a method.
    ///
    /// # Errors
    /// The error in the server's answer.
    ///
    /// # Panics
    /// If the answer is invalid.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.ask(method, params);
        let mut answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        match answer.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(answer["result"].take()),
        }
    }

    /// Calls a tool, and checks its answer against the schema of the tool.
    ///
    /// # Errors
    /// The error record when the tool failed.
    ///
    /// # Panics
    /// If the answer is not one of a tool, or does not conform to the schema.
    pub fn tool(&mut self, name: &str, arguments: &Value) -> Result<Value, Value> {
        let tools = self.call("tools/list", &json!({})).unwrap();
        let tools = tools["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).expect(name);
        let params = json!({"name": name, "arguments": arguments});
        let answer = self.call("tools/call", &params).unwrap();
        let text = answer["content"][0]["text"].as_str().unwrap();
        let said: Value = serde_json::from_str(text).unwrap();
        if answer["isError"] == true {
            assert!(answer.get("structuredContent").is_none());
            return Err(said);
        }
        let told = &answer["structuredContent"];
        assert_eq!(*told, said);
        schema::check(&tool["outputSchema"], told)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        schema::check(&tool["inputSchema"], arguments)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Ok(said)
    }

    /// Closes its input, and returns its exit code and its stderr.
    ///
    /// # Panics
    /// If the wait for the server fails.
    #[must_use]
    pub fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        let rest: Vec<String> = self.lines.iter().collect();
        assert_eq!(rest, Vec::<String>::new(), "answers without requests");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
