//! Escapes text so that it cannot break out of its place in a document.

/// Escapes text for the content or a quoted attribute of HTML.
pub(super) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Escapes JSON for a script element of HTML without changing its meaning. Nothing in it can end
/// the element or start a comment. The escaped characters occur only in strings.
pub(super) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Returns a text in a Markdown fence that is longer than any run of backticks in the text, so that
/// no line ends the fence. `language` is for syntax highlighting.
pub(super) fn fence(text: &str, language: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    // Only some renderers treat a carriage return as a line end.
    format!("{fence}{language}\n{}{end}{fence}", text.replace('\r', "\u{240d}"))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns Markdown text as a block quote that none of its blocks can leave. Code keeps its text in
/// new fences. Other text cannot become HTML, and pictures, which a reader would load, become
/// links.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let block = match parse_fence(line) {
            None => escape_line(line),
            Some((sign, language)) => {
                let code: Vec<&str> =
                    lines.by_ref().take_while(|line| !is_closing_fence(line, sign)).collect();
                fence(&code.join("\n"), language)
            }
        };
        for line in block.split('\n') {
            quoted.push_str(if line.is_empty() { ">" } else { "> " });
            quoted.push_str(line);
            quoted.push('\n');
        }
    }
    quoted.pop();
    quoted
}

/// Returns the fence and the language of a line that opens a code block.
fn parse_fence(line: &str) -> Option<(&str, &str)> {
    let start = line.trim_start_matches(' ');
    let length = start.bytes().take_while(|byte| *byte == b'`').count();
    let tildes = start.bytes().take_while(|byte| *byte == b'~').count();
    let (sign, rest) = start.split_at_checked(length.max(tildes))?;
    let is_opening = sign.len() >= 3 && line.len() - start.len() < 4 && !rest.contains('`');
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#');
    let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    is_opening.then(|| (sign, rest.get(..end).unwrap_or_default()))
}

fn is_closing_fence(line: &str, sign: &str) -> bool {
    let line = line.trim();
    let same = sign.chars().next();
    line.len() >= sign.len() && line.chars().all(|c| Some(c) == same)
}

/// Escapes one line of Markdown so that it contains no HTML and loads nothing.
///
/// Only code spans that begin and end on this line are kept. Other runs of backticks are escaped,
/// so that they cannot pair with a run on another line.
fn escape_line(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    // Some renderers treat a carriage return as a line end. Dropping it would join backticks around
    // it.
    let line = line.replace('\r', " ");
    let mut rest = line.as_str();
    while let Some(at) = rest.find(['`', '<', '!', '\\']) {
        let (before, found) = rest.split_at(at);
        plain.push_str(before);
        let run = found.bytes().take_while(|byte| *byte == b'`').count();
        let taken = match span_end(found, run) {
            _ if found.starts_with("\\`") => {
                plain.push_str("&#96;");
                2
            }
            Some(end) => {
                plain.push_str(found.get(..end).unwrap_or_default());
                end
            }
            None if run > 0 => {
                plain.push_str(&"&#96;".repeat(run));
                run
            }
            None if found.starts_with('<') => {
                plain.push_str("&lt;");
                1
            }
            None if found.starts_with("![") => {
                plain.push_str("!\\[");
                2
            }
            // Drop the backslash and process the escaped character separately.
            None if found.starts_with("\\<") => 1,
            None => {
                plain.push_str(found.get(..1).unwrap_or_default());
                1
            }
        };
        rest = found.get(taken..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// Returns the end of the code span that starts with `run` backticks at the start of `text`.
fn span_end(text: &str, run: usize) -> Option<usize> {
    if run == 0 {
        return None;
    }
    let mut at = run;
    loop {
        at += text.get(at..)?.find('`')?;
        let length = text.get(at..)?.bytes().take_while(|byte| *byte == b'`').count();
        at += length;
        if length == run {
            return Some(at);
        }
    }
}

/// Escapes text for the middle of a Markdown line.
pub(super) fn escape_inline(text: &str) -> String {
    let marks = |c: char| "\\`*_[]<>#!|&~".contains(c);
    let mut line = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if marks(c) {
            line.push('\\');
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn titles_are_escaped() {
        assert_eq!(
            escape_html("<a b=\"c\">'&'</a>"),
            "&lt;a b=&quot;c&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;"
        );
    }

    #[test]
    fn fences_are_longer_than_their_content() {
        assert_eq!(fence("a\n```\nb", "rust"), "````rust\na\n```\nb\n````");
        assert_eq!(fence("", ""), "```\n```");
    }

    #[test]
    fn quotes_keep_code_and_escape_other_markup() {
        let text = "a <b> `<c>` ![x](http://e)\n# h\n``` rust\n<d>\n```\n` <e> \\` <f> ``g` <h>";
        let expected = "> a &lt;b> `<c>` !\\[x](http://e)\n> # h\n> ```\n> <d>\n> ```\n\
                        > ` <e> \\` &lt;f> &#96;&#96;g&#96; &lt;h>";
        assert_eq!(quote(text), expected);
        assert_eq!(quote("~~~rust x\n```\n~~~~\nend"), "> ````rust\n> ```\n> ````\n> end");
        assert_eq!(escape_inline("a*b\n<c>"), "a\\*b\\<c\\>");
        assert_eq!(quote("```~~~```\r````~~~````"), "> ```~~~``` ````~~~````");
    }

    turntree_properties::properties! {
        #[test]
        fn content_cannot_escape_quotes_or_fences(text in "(`{1,4}|~~~|<script>|</details>|\n|\r| |\\\\|!\\[|a){0,24}") {
            for line in quote(&text).lines() {
                prop_assert!(line.starts_with('>'), "{line}");
            }
            let fenced = fence(&text, "");
            let fence = fenced.lines().next().unwrap().to_owned();
            let inner: Vec<&str> = fenced.lines().collect();
            let ends = inner.iter().filter(|line| line.contains(&fence)).count();
            prop_assert_eq!(ends, 2);
            // In escaped lines, HTML may occur only between backticks of the same line.
            let line = escape_line(&text.replace('\n', " "));
            let mut outside = String::new();
            let mut rest = line.as_str();
            while let Some(at) = rest.find('`') {
                outside.push_str(&rest[..at]);
                let run = rest[at..].bytes().take_while(|byte| *byte == b'`').count();
                let end = span_end(&rest[at..], run);
                prop_assert!(end.is_some(), "{line}: a run without its end");
                rest = &rest[at + end.unwrap()..];
            }
            outside.push_str(rest);
            prop_assert!(!outside.contains('<') && !outside.contains("!["), "{line}");
        }

        #[test]
        fn escaped_json_is_equal_and_cannot_end_a_script(
            text in "(</script|<!--|]]>|\u{2028}|&lt;|\\PC|\n|\"|\\\\){0,20}"
        ) {
            let json = Value::from(text.clone()).to_string();
            let escaped = escape_json(&json);
            let is_clean = !escaped.contains(['<', '>', '&', '\u{2028}', '\u{2029}', '\n']);
            prop_assert!(is_clean, "{}", escaped);
            prop_assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), Value::from(text));
        }
    }
}
