//! Guesses whether a shell command may destroy the content of files.
//!
//! The guess is by the first words of the command and errs on the safe side: it decides only
//! whether a snapshot is taken before the command.

/// Programs that delete or overwrite.
const PROGRAMS: &[&str] = &[
    "cp", "dd", "install", "ln", "mv", "patch", "perl", "rm", "rmdir", "rsync", "shred", "tar",
    "tee", "truncate", "unlink", "unzip",
];

/// Commands of git that change files of the working tree.
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

/// Programs that run the program in their arguments.
const RUNNERS: &[&str] = &[
    "builtin", "command", "doas", "env", "eval", "exec", "ionice", "nice", "nohup", "parallel",
    "setsid", "stdbuf", "sudo", "time", "timeout", "xargs",
];

/// Shells, to which a command is given as a word.
const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "sh", "zsh"];

/// Words of a shell before a command.
const KEYWORDS: &[&str] = &["!", "do", "elif", "else", "if", "then", "until", "while"];

/// Returns true if `command` may delete or overwrite files.
#[must_use]
pub fn is_destructive(command: &str) -> bool {
    overwrites(command) || command.split([';', '&', '|', '\n', '(', ')', '{', '}', '`']).any(one)
}

fn one(command: &str) -> bool {
    let is_setting = |word: &&str| word.contains('=') && !word.starts_with('-');
    let is_passed = |word: &&str| is_setting(word) || KEYWORDS.contains(word);
    let mut words = command.split_whitespace().skip_while(is_passed);
    let Some(program) = words.next().map(base) else { return false };
    // Options of these programs may have values: any later word may be the program.
    if RUNNERS.contains(&program) || SHELLS.contains(&program) {
        let words: Vec<&str> = words.collect();
        return (0..words.len()).any(|at| words.get(at..).is_some_and(runs));
    }
    runs(&std::iter::once(program).chain(words).collect::<Vec<_>>())
}

/// Returns true if the first of `words` is a program that deletes or overwrites files with the
/// given arguments.
fn runs(words: &[&str]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let mut rest = rest.iter();
    match base(program) {
        "git" => rest.any(|word| GIT.contains(&base(word))),
        "sed" => rest.any(|word| is_in_place(word)),
        "find" => rest.any(|word| matches!(*word, "-delete" | "-exec" | "-execdir")),
        program => PROGRAMS.contains(&program),
    }
}

/// Returns true if an option of sed is `-i`, maybe among others, or its long form.
fn is_in_place(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => long.starts_with("in-place"),
        None => word.strip_prefix('-').is_some_and(|letters| letters.contains('i')),
    }
}

/// Returns true if a redirection overwrites a file.
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
            "for f in *.o; do rm $f; done",
            "if test -e a; then rm a; fi",
            "! rm a",
            "find . -print0 | xargs -0 rm",
            "sudo -u me rm a",
            "timeout 5 rm -rf a",
            "env -i PATH=/bin rm a",
            "bash -lc 'rm -rf build'",
            "bash -lc rm -rf build",
            "sh -c \"git reset --hard\"",
            "sh -c 'git stash'",
            "sed -Ei s/a/b/ f",
            "cp a b",
            "ln -sf a b",
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
            "bash -lc 'ls -la'",
            "timeout 60 cargo test",
            "if git status; then ls; fi",
            "sed -E s/a/b/ f",
        ] {
            assert!(!is_destructive(command), "{command}");
        }
    }
}
