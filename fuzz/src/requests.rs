//! Fuzzes lines that programs write to `turntree serve`.

use std::sync::OnceLock;

use serde_json::Value;
use turntree_tests::{Sandbox, claude_code};

/// Maximum number of answered lines of an input: each opens the store.
const MAX_LINES: usize = 20;

/// Passes `bytes` to a server as its input.
///
/// # Panics
/// If it fails, an answer is not a JSON-RPC message on one line, or the number of answers does not
/// match the number of lines that need one.
pub fn requests(bytes: &[u8]) {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    let sandbox = SANDBOX.get_or_init(|| {
        let sandbox = Sandbox::new();
        sandbox.import("default", claude_code(4).as_bytes()).unwrap();
        sandbox
    });
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').take(MAX_LINES).collect();
    let mut output = Vec::new();
    turntree_cli::answer_lines(&sandbox.store_dir(), &lines.concat(), &mut output).unwrap();
    let mut answers = output.split_inclusive(|byte| *byte == b'\n');
    for line in lines {
        let line = line.trim_ascii();
        let asked = serde_json::from_slice::<Value>(line);
        let is_notification = asked.as_ref().is_ok_and(|asked| {
            asked["jsonrpc"] == "2.0" && asked["method"].is_string() && asked.get("id").is_none()
        });
        if line.is_empty() || is_notification {
            continue;
        }
        let answer = answers.next().expect("an answer for each line");
        assert_eq!(answer.last(), Some(&b'\n'));
        let answer: Value = serde_json::from_slice(answer).expect("an answer is JSON");
        assert_eq!(answer["jsonrpc"], "2.0");
        assert!(answer["error"]["code"].is_i64() != answer["result"].is_object(), "{answer}");
        let id = asked.ok().and_then(|asked| asked.get("id").cloned()).unwrap_or_default();
        assert!(
            answer["id"] == id || id.is_object() || id.is_array() || id.is_boolean(),
            "{answer}"
        );
    }
    assert_eq!(answers.next(), None, "an answer without a request");
}
