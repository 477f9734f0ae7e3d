//! A chat with Claude Code as hooks see it: prompts, calls and results, each with its event and its
//! record.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use turntree::object::ObjectId;
use turntree_exchange::is_prompt;

use crate::client::Client;

/// A chat with Claude Code, whose transcript grows as the client writes it.
pub struct Chat {
    /// The client.
    pub client: Client,
    flags: &'static [&'static str],
    records: usize,
}

impl Chat {
    /// A chat in a project with these files, whose hooks run `program` with `flags`.
    #[must_use]
    pub fn begin(
        program: &'static str,
        flags: &'static [&'static str],
        files: &[(&str, &str)],
    ) -> Self {
        let chat = Self { client: Client::new(program, "s-1.jsonl"), flags, records: 0 };
        for (name, content) in files {
            chat.client.write(name, content);
        }
        fs::write(&chat.client.transcript, "").unwrap();
        chat.client.event(flags, "SessionStart", json!({"source": "startup"}));
        chat
    }

    /// Sends an event and returns the hook's answer. The log may report that the client continues
    /// after a rollback.
    pub fn event(&self, name: &str, more: Value) -> Option<Value> {
        let output =
            self.client.give(self.flags, self.client.payload(name, more).to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0));
        let log = self.client.log();
        assert!(log.lines().all(|line| line.contains("continue after a rollback")), "{log}");
        (!output.stdout.is_empty()).then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Appends a record to the transcript, as the client does.
    pub fn record(&mut self, mut record: Value) {
        self.records += 1;
        let number = self.records;
        let common = json!({"uuid": format!("u-{number}"), "sessionId": "s-1",
            "cwd": self.client.project(), "version": "2.1.330",
            "timestamp": format!("2026-11-20T10:{:02}:{:02}.000Z", number / 60, number % 60)});
        record.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        let known = fs::read_to_string(&self.client.transcript).unwrap();
        fs::write(&self.client.transcript, format!("{known}{record}\n")).unwrap();
    }

    /// Sends a prompt that the agent answers by writing a file and a final message.
    pub fn ask(&mut self, said: &str, file: &str, content: &str) -> Option<Value> {
        let told = self.prompt(said);
        self.write(file, content);
        self.stop(&format!("{said}: done"));
        told
    }

    /// Sends a prompt and returns the hook's answer.
    pub fn prompt(&mut self, said: &str) -> Option<Value> {
        let told = self.event("UserPromptSubmit", json!({"prompt": said}));
        self.record(json!({"type": "user", "message": {"role": "user", "content": said}}));
        told
    }

    /// Records a tool call by the agent. Returns the id of the call.
    pub fn call(&mut self, tool: &str, input: &Value) -> String {
        let id = format!("toolu_{}", self.records + 1);
        let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
        self.record(json!({"type": "assistant",
            "message": {"role": "assistant", "id": format!("m-{id}"), "content": call}}));
        id
    }

    /// Records the result of a call.
    pub fn result(&mut self, id: &str, text: &str) {
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": text}]);
        self.record(json!({"type": "user", "message": {"role": "user", "content": result}}));
    }

    /// The agent writes a file, and the client sends the earlier content. Returns the answer of the hook.
    pub fn write(&mut self, file: &str, content: &str) -> Option<Value> {
        let path = self.client.project().join(file);
        let input = json!({"file_path": path, "content": content});
        let id = self.call("Write", &input);
        let before = fs::read_to_string(&path).ok();
        self.client.write(file, content);
        let told = self.event(
            "PostToolUse",
            json!({"tool_name": "Write", "tool_use_id": id,
            "tool_input": input, "tool_response": {"originalFile": before}}),
        );
        self.result(&id, "written");
        told
    }

    /// Records the agent's final message and sends the stop event.
    pub fn stop(&mut self, said: &str) {
        let id = format!("d-{}", self.records);
        let done = json!([{"type": "text", "text": said}]);
        self.record(json!({"type": "assistant",
            "message": {"role": "assistant", "id": id, "content": done}}));
        self.event("Stop", json!({}));
    }

    /// Sends a prompt that the hook blocks. The client records only the block.
    pub fn back(&mut self, said: &str) -> String {
        let told = self.event("UserPromptSubmit", json!({"prompt": said})).unwrap();
        assert_eq!(told["decision"], "block", "{told}");
        let reason = told["reason"].as_str().unwrap().to_owned();
        let content = format!("UserPromptSubmit operation blocked by hook:\n{reason}");
        self.record(json!({"type": "system", "subtype": "informational", "content": content}));
        reason
    }

    /// Runs the program in the project, as a user does. Returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.client.command(arguments);
        let output = command.env_remove("TURNTREE_BRANCH").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Switches to another agent on its own branch.
    pub fn turn_to(&mut self, branch: &'static str, transcript: &str) {
        self.client.branch = Some(branch);
        self.client.transcript = self.client.root.path().join(transcript);
        let known = fs::read(&self.client.transcript).unwrap_or_default();
        fs::write(&self.client.transcript, known).unwrap();
        self.event("SessionStart", json!({"source": "startup"}));
    }

    /// The newest snapshot of a branch.
    pub fn tip(&self, branch: &str) -> ObjectId {
        self.client.repo().tip(&branch.parse().unwrap()).unwrap()
    }

    /// The prompts on the line of a branch, including rewound ones.
    pub fn prompts(&self, branch: &str) -> u64 {
        let repo = self.client.repo();
        repo.prompts(Some(&is_prompt)).unwrap().count(&self.tip(branch)).unwrap()
    }

    /// The files of the project.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, String> {
        let entries =
            fs::read_dir(self.client.project()).unwrap().map(|entry| entry.unwrap().path());
        let entries = entries.filter(|path| path.is_file());
        let named =
            |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
        entries.map(|path| (named(&path), fs::read_to_string(&path).unwrap())).collect()
    }
}
