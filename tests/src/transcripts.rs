//! Generated transcripts: a Claude Code session of any length, record by record.

use std::fmt::Write as _;

use crate::sim::Random;

/// A session of `turns` turns: a prompt, then steps of an answer with a tool call and its result.
/// Every eighth record is a prompt. The plan changes and a file is written regularly.
#[must_use]
pub fn claude_code(turns: usize) -> String {
    let mut text = String::new();
    for turn in 0..turns {
        for record in claude_code_turn(turn) {
            writeln!(text, "{record}").expect("writing into a string");
        }
    }
    text
}

/// A transcript of `turns` turns whose tool results have `words` words of 16 random digits. They do
/// not compress, so the transcript stays large.
#[must_use]
pub fn claude_code_of_noise(turns: usize, words: usize) -> String {
    let mut random = Random(1);
    let mut noise = || (0..words).map(|_| format!("{:016x}", random.draw())).collect::<String>();
    let mut text = String::new();
    for (number, part) in claude_code(turns).split("\"content\":\"written\"").enumerate() {
        if number > 0 {
            write!(text, "\"content\":\"{}\"", noise()).expect("writing into a string");
        }
        text.push_str(part);
    }
    text
}

/// The records of one turn.
#[must_use]
pub fn claude_code_turn(turn: usize) -> Vec<String> {
    if turn.is_multiple_of(4) {
        let text = format!("Please look at part {turn} of the parser and say what you find.");
        return vec![record(turn, 0, "user", &format!(r#""role":"user","content":"{text}""#), "")];
    }
    let (call, path) = (format!("call-{turn}"), format!("/project/src/part_{}.rs", turn % 5));
    let content = format!("fn part_{turn}() -> usize {{\\n    {turn}\\n}}\\n").repeat(8);
    let input = format!(r#"{{"file_path":"{path}","content":"{content}"}}"#);
    let assistant = format!(
        r#""role":"assistant","id":"msg-{turn}","model":"model-1","content":[{{"type":"tool_use","id":"{call}","name":"Write","input":{input}}}]"#
    );
    let result = format!(
        r#""role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"written"}}]"#
    );
    let written = format!(
        r#","toolUseResult":{{"type":"create","filePath":"{path}","content":"{content}","originalFile":null,"structuredPatch":[]}}"#
    );
    vec![record(turn, 1, "assistant", &assistant, ""), record(turn, 2, "user", &result, &written)]
}

/// An invalid GitHub token, generated so that no token is in the sources.
#[must_use]
pub fn github_token(seed: u64) -> String {
    let mut random = Random(seed);
    let word = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let drawn: String = (0..36).map(|_| char::from(word[random.below(word.len())])).collect();
    format!("{}_{drawn}", "ghp")
}

fn record(turn: usize, part: usize, kind: &str, message: &str, more: &str) -> String {
    let (minute, second) = (turn / 60 % 60, turn % 60);
    format!(
        r#"{{"type":"{kind}","uuid":"u-{turn}-{part}","sessionId":"s-1","cwd":"/project","version":"2.1.0","timestamp":"2026-11-20T10:{minute:02}:{second:02}.000Z","message":{{{message}}}{more}}}"#
    )
}
