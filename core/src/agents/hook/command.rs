//! Whether a command of a shell may destroy what is in files.
//!
//! A guess by the words that it begins with, on the safe side: it decides only whether there is a
//! snapshot before.

/// Programs that delete or overwrite.
const PROGRAMS: &[&str] = &[
    "dd", "install", "mv", "patch", "perl", "rm", "rmdir", "rsync", "shred", "tar", "tee",
    "truncate", "unlink", "unzip",
];

/// What git does to files of the working tree.
const GIT: &[&str] = &[
    "am",
    "apply",
    "checkout",
    "cherry-pick",
    "clean",
    "merge",
    "mv",
    "pull",
    "rebase",
    "reset",
    "restore",
    "revert",
    "rm",
    "stash",
    "switch",
];

/// Programs that run the one behind them.
const RUNNERS: &[&str] =
    &["builtin", "command", "env", "exec", "nice", "nohup", "sudo", "time", "xargs"];

/// Whether `command` may delete or overwrite files.
#[must_use]
pub fn is_destructive(command: &str) -> bool {
    overwrites(command) || command.split([';', '&', '|', '\n', '(', ')', '{', '}', '`']).any(one)
}

fn one(command: &str) -> bool {
    let is_setting = |word: &&str| word.contains('=') && !word.starts_with('-');
    let is_passed = |word: &&str| is_setting(word) || RUNNERS.contains(&base(word));
    let mut words = command.split_whitespace().skip_while(is_passed);
    let Some(program) = words.next().map(base) else { return false };
    match program {
        "git" => words.any(|word| GIT.contains(&word)),
        "sed" => words.any(|word| word.starts_with("-i") || word.starts_with("--in-place")),
        "find" => words.any(|word| matches!(word, "-delete" | "-exec" | "-execdir")),
        program => PROGRAMS.contains(&program),
    }
}

/// Whether output goes to a file in place of what is there.
fn overwrites(command: &str) -> bool {
    command.match_indices('>').any(|(at, _)| {
        let before = command.get(..at).unwrap_or_default();
        let after = command.get(at + 1..).unwrap_or_default();
        let target = after.trim_start_matches('|').trim_start();
        let is_other = after.starts_with(['>', '&', '=']) || before.ends_with(['>', '-', '=']);
        !is_other && !target.is_empty() && !target.starts_with("/dev/")
    })
}

/// The name of a program without the folder that it is in, and without quotes.
fn base(word: &str) -> &str {
    let word = word.trim_matches(['\'', '"', '\\']);
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deletes_or_overwrites_is_known() {
        for command in [
            "rm -rf build",
            "cd src && /bin/rm a.rs",
            "FORCE=1 sudo git -C . reset --hard",
            "git checkout -- .",
            "make 2>&1; git stash",
            "find . -name '*.o' -delete",
            "sed -i.bak s/a/b/ f",
            "echo x > f",
            "cat a >| b",
            "ls | xargs rm",
            "(truncate -s 0 log)",
        ] {
            assert!(is_destructive(command), "{command}");
        }
        for command in [
            "",
            "ls -la",
            "git status && git log",
            "cargo test 2>&1",
            "grep rm src",
            "echo x >> f",
            "make > /dev/null 2>/dev/null",
            "sed -n 1,5p f",
            "find . -name a",
        ] {
            assert!(!is_destructive(command), "{command}");
        }
    }
}
