//! Splits a shell script into its simple commands, as far as the effects of a command need it.

/// Longest script that is read, in bytes.
const MAX_SCRIPT_BYTES: usize = 64 << 10;

/// Scripts inside of scripts, as in `bash -c "ssh host 'rm a'"`.
const MAX_DEPTH: usize = 4;

/// Words of a shell before a command.
const KEYWORDS: [&str; 10] =
    ["!", "do", "elif", "else", "if", "then", "time", "until", "while", "exec"];

/// Programs that run the program in their arguments.
const RUNNERS: [&str; 15] = [
    "builtin", "command", "doas", "env", "eval", "ionice", "nice", "nohup", "npx", "setsid",
    "stdbuf", "sudo", "timeout", "watch", "xargs",
];

/// Options of runners that take the next word as their value.
const RUNNER_VALUES: [&str; 12] =
    ["-u", "-g", "-n", "-c", "-k", "-s", "-i", "-I", "-L", "-P", "-d", "-p"];

/// Shells, to which a script is given as a word.
const SHELLS: [&str; 8] = ["ash", "bash", "dash", "fish", "ksh", "pwsh", "sh", "zsh"];

/// A simple command: a program, its arguments, and whether it writes to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// The program without its folder, then the arguments, all without quotes.
    pub(super) words: Vec<String>,
    /// True if its output is redirected to a file.
    pub(super) writes: bool,
}

impl Command {
    /// Returns the command in one line.
    pub(super) fn line(&self) -> String {
        self.words.join(" ")
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && !self.writes
    }
}

/// Returns the simple commands of a script, in order, without the programs and shells that only run
/// them. A script that is too long has none.
pub(super) fn commands(script: &str) -> Vec<Command> {
    let mut found = Vec::new();
    if script.len() <= MAX_SCRIPT_BYTES {
        add_commands(script, 0, &mut found);
    }
    found
}

fn add_commands(script: &str, depth: usize, found: &mut Vec<Command>) {
    for command in split(script) {
        match inner(command) {
            Inner::Command(command) if command.is_empty() => {}
            Inner::Command(command) => found.push(command),
            Inner::Script(script) if depth < MAX_DEPTH => add_commands(&script, depth + 1, found),
            Inner::Script(_) => {}
        }
    }
}

/// The command or the script inside of a command.
enum Inner {
    Command(Command),
    Script(String),
}

/// Removes settings, keywords and runners before the program.
fn inner(mut command: Command) -> Inner {
    loop {
        let Some(first) = command.words.first() else { return Inner::Command(command) };
        let program = base(first).to_owned();
        let is_setting = first.contains('=') && !first.starts_with(['-', '=', '/', '.']);
        if is_setting || KEYWORDS.contains(&&*program) {
            command.words.remove(0);
        } else if SHELLS.contains(&&*program) {
            let given = command.words.iter().position(|word| is_command_option(word));
            return match given.and_then(|at| command.words.get(at + 1)) {
                Some(script) => Inner::Script(script.clone()),
                None => Inner::Command(command),
            };
        } else if RUNNERS.contains(&&*program) {
            let rest = after_options(&command.words, &program);
            if rest >= command.words.len() {
                return Inner::Command(command);
            }
            command.words.drain(..rest);
        } else {
            if let Some(first) = command.words.first_mut() {
                *first = program;
            }
            return Inner::Command(command);
        }
    }
}

/// Returns true for `-c`, maybe among other letters, as in `-lc`.
fn is_command_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|word| !word.starts_with('-'));
    letters.is_some_and(|letters| letters.contains('c')) || word == "-Command"
}

/// Returns the position of the program that a runner runs.
fn after_options(words: &[String], runner: &str) -> usize {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let takes_value = RUNNER_VALUES.contains(&word.as_str()) && runner != "npx";
        let is_duration = runner == "timeout" && word.starts_with(|c: char| c.is_ascii_digit());
        match word {
            word if word == "--" => return at + 1,
            _ if takes_value => at += 2,
            word if word.starts_with('-') || is_duration => at += 1,
            word if runner == "env" && word.contains('=') => at += 1,
            _ => break,
        }
    }
    at
}

/// Returns the name of a program without the folder that it is in.
fn base(word: &str) -> &str {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    name.strip_suffix(".exe").unwrap_or(name)
}

/// Splits a script at its operators, and each command into words.
fn split(script: &str) -> Vec<Command> {
    let mut split = Splitter::default();
    let mut chars = script.chars().peekable();
    while let Some(char) = chars.next() {
        if split.quote == Some('\'') && char != '\'' {
            split.push(char);
            continue;
        }
        match (split.quote, char) {
            (Some('\''), _) | (Some('"'), '"') => split.quote = None,
            (_, '\\') => match chars.next() {
                Some('\n') | None => {}
                Some(escaped) => split.push(escaped),
            },
            // A substitution runs a command. The rest of the outer command counts as another.
            (_, '$') if chars.peek() == Some(&'(') => {
                chars.next();
                split.begin_substitution();
            }
            (None, ')') => split.end_substitution(),
            (None, '\'' | '"') => split.begin_quote(char),
            (None, '#') if split.word.is_none() => {
                while chars.next_if(|char| *char != '\n').is_some() {}
            }
            (None, '\n') => {
                split.end_command();
                for end in std::mem::take(&mut split.documents) {
                    skip_document(&mut chars, &end);
                }
            }
            (_, '`') | (None, ';' | '&' | '|' | '(' | '{' | '}') => split.end_command(),
            (None, '<') if chars.next_if_eq(&'<').is_some() => {
                let is_string = chars.next_if_eq(&'<').is_some();
                split.end_word();
                if !is_string {
                    split.documents.push(document_end(&mut chars));
                }
            }
            (None, '>') => {
                // `2>&1` and `>/dev/null` write no file.
                let is_number = split
                    .word
                    .as_ref()
                    .is_some_and(|word| word.chars().all(|char| char.is_ascii_digit()));
                if is_number {
                    split.word = None;
                }
                split.end_word();
                while chars.next_if(|char| matches!(char, '>' | '|' | ' ')).is_some() {}
                if chars.next_if_eq(&'&').is_some() {
                    while chars.next_if(|char| char.is_ascii_digit() || *char == '-').is_some() {}
                } else {
                    split.is_target = true;
                }
            }
            (None, char) if char.is_whitespace() => split.end_word(),
            (_, char) => split.push(char),
        }
    }
    split.end_command();
    split.commands
}

/// Returns the word that ends a here-document.
fn document_end(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    while chars.next_if(|char| matches!(char, '-' | ' ' | '\'' | '"')).is_some() {}
    let mut end = String::new();
    while let Some(char) = chars.next_if(|char| char.is_alphanumeric() || *char == '_') {
        end.push(char);
    }
    while chars.next_if(|char| matches!(char, '\'' | '"')).is_some() {}
    end
}

/// Skips the lines of a here-document.
fn skip_document(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, end: &str) {
    while chars.peek().is_some() {
        let line: String = chars.by_ref().take_while(|char| *char != '\n').collect();
        if line.trim() == end {
            return;
        }
    }
}

/// The commands of a script as far as it was read.
#[derive(Debug, Default)]
struct Splitter {
    commands: Vec<Command>,
    command: Command,
    word: Option<String>,
    quote: Option<char>,
    /// True if the next word is the file of a redirection.
    is_target: bool,
    /// The ends of here-documents that begin with the next line.
    documents: Vec<String>,
    /// The quotes around the substitutions that are open.
    substitutions: Vec<Option<char>>,
}

impl Splitter {
    fn push(&mut self, char: char) {
        self.word.get_or_insert_default().push(char);
    }

    fn begin_quote(&mut self, quote: char) {
        self.quote = Some(quote);
        self.word.get_or_insert_default();
    }

    fn begin_substitution(&mut self) {
        self.substitutions.push(self.quote.take());
        // Its output is not known.
        self.push('…');
        self.end_command();
    }

    fn end_substitution(&mut self) {
        self.end_command();
        self.quote = self.substitutions.pop().flatten();
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.is_target) {
            true => self.command.writes |= !word.starts_with("/dev/"),
            false => self.command.words.push(word),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_target = false;
        let command = std::mem::take(&mut self.command);
        if !command.is_empty() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(script: &str) -> Vec<String> {
        let line = |command: Command| {
            let mark = if command.writes { " >" } else { "" };
            format!("{}{mark}", command.line())
        };
        commands(script).into_iter().map(line).collect()
    }

    #[test]
    fn scripts_are_split_into_the_commands_that_run() {
        for (script, expected) in [
            ("git push", &["git push"][..]),
            ("cd src && /usr/bin/git push origin main", &["cd src", "git push origin main"]),
            ("FOO=1 sudo -u me env A=b git push", &["git push"]),
            (
                "bash -lc 'git add . && git commit -m \"a; b\"'",
                &["git add .", "git commit -m a; b"],
            ),
            (
                "echo \"$(curl -X POST http://a)\" | tee b",
                &["echo …", "curl -X POST http://a", "tee b"],
            ),
            ("make 2>&1 >/dev/null", &["make"]),
            ("echo a > b; cat < c", &["echo a >", "cat < c"]),
            ("cat > f <<'EOF'\ngit push\nEOF\nls", &["cat >", "ls"]),
            ("cat <<EOF | psql\ndrop table a\nEOF", &["cat", "psql"]),
            ("timeout 60 cargo publish # git push", &["cargo publish"]),
            ("if gh pr view; then gh pr merge 1; fi", &["gh pr view", "gh pr merge 1", "fi"]),
            ("for f in *; do rm $f; done", &["for f in *", "rm $f", "done"]),
            ("ls | xargs -n 1 rm", &["ls", "rm"]),
            ("git commit -m 'it''s' \\\n --amend", &["git commit -m its --amend"]),
            ("", &[]),
            ("'", &[""]),
        ] {
            assert_eq!(lines(script), expected, "{script}");
        }
        assert!(commands(&"a ".repeat(MAX_SCRIPT_BYTES)).is_empty());
    }
}
