//! Words of commands that people paste into a shell, and that agents run. Pure, so that the words of
//! every system are tested everywhere.

use super::system;

/// Quotes a word for the shells of this system.
pub(crate) fn shell_word(word: &str) -> String {
    if system::IS_WINDOWS { windows_word(word) } else { posix_word(word) }
}

/// Quotes the path of a program, or another path, in a command that an agent runs.
pub(crate) fn hook_word(path: &str) -> String {
    if system::IS_WINDOWS { windows_hook_word(path) } else { posix_word(path) }
}

/// Returns the commands that run `commands` in the directory `dir`, each with its words quoted.
pub(crate) fn commands_in(dir: &str, commands: &[String]) -> String {
    if system::IS_WINDOWS { windows_commands(dir, commands) } else { posix_commands(dir, commands) }
}

fn posix_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn posix_commands(dir: &str, commands: &[String]) -> String {
    format!("cd {dir} && {}", commands.join(" && "))
}

/// Quotes a word for PowerShell, and, unless it has characters with a meaning in one of them, also
/// for cmd: that knows double quotes only. No path of Windows contains a double quote.
fn windows_word(word: &str) -> String {
    match word.contains(['$', '`', '%', '"', '\n']) {
        true => format!("'{}'", word.replace('\'', "''")),
        false => format!("\"{word}\""),
    }
}

/// Quotes a path for all shells that agents use on Windows: bash takes a backslash for a quote, cmd
/// knows double quotes only.
fn windows_hook_word(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "/"))
}

/// One command a line: `&&` is unknown to the PowerShell of Windows, and only `pushd` changes the
/// drive in both shells.
fn windows_commands(dir: &str, commands: &[String]) -> String {
    format!("pushd {dir}\n{}", commands.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shells_of_each_system() {
        assert_eq!(posix_word("it's"), r"'it'\''s'");
        let path = r"C:\Users\Ann Müller\p";
        assert_eq!(windows_word(path), "\"C:\\Users\\Ann Müller\\p\"");
        assert_eq!(windows_word(r"C:\it's $5"), r"'C:\it''s $5'");
        assert_eq!(windows_hook_word(path), "\"C:/Users/Ann Müller/p\"");
        let commands = ["claude --resume 1".to_owned(), "b".to_owned()];
        assert_eq!(posix_commands("/p", &commands), "cd /p && claude --resume 1 && b");
        let expected = "pushd \"C:\\p\"\nclaude --resume 1\nb";
        assert_eq!(windows_commands(&windows_word(r"C:\p"), &commands), expected);
    }
}
