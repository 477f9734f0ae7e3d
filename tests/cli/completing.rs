//! What the shell offers: paths of entries, titles, agents; and the scripts of bash, which splits
//! words at colons, of zsh and of fish, in these shells.

use std::process::{Command, Stdio};

use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The values that a shell offers for the last word.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(PROGRAM);
    command.args(["--", "turntree"]).args(words).current_dir(place.path());
    command.env("COMPLETE", "fish").env("TURNTREE_STORE", place.path().join("store"));
    command.env_remove("TURNTREE_BRANCH").env_remove("CLAUDE_CODE_SESSION_ID");
    let output = command.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let values = text.lines().map(|line| line.split('\t').next().unwrap().to_owned());
    values.filter(|value| !value.starts_with('-')).collect()
}

fn sample() -> Place {
    let place = Place::new(PROGRAM);
    std::fs::create_dir_all(place.path().join("work/src/deep")).unwrap();
    place.write("src/main.rs", "a");
    place.write("src/deep/lib.rs", "b");
    let _ = place.with_turns(2);
    let _ = place.run(&["session", "rename", "work", "Fix the parser: keep `quotes`"]);
    place
}

#[test]
fn paths_of_entries_follow_a_revision_level_by_level() {
    let place = sample();
    for (words, expected) in [
        (&["show", "HEAD:fi"][..], &["HEAD:files/"][..]),
        (&["cat", "HEAD:files/s"], &["HEAD:files/src/"]),
        (&["cat", "turn:1:files/src/"], &["turn:1:files/src/deep/", "turn:1:files/src/main.rs"]),
        (&["blame", "work:src/m"], &["work:src/main.rs"]),
        (&["restore", "HEAD~1:notes"], &["HEAD~1:notes.txt"]),
        (&["ls", "HEAD:agents/"], &["HEAD:agents/main/"]),
        (&["cat", "src/"], &["src/deep/", "src/main.rs"]),
        (&["log", "--path", "src/d"], &["src/deep/"]),
        (&["restore", "HEAD", "--only", "scr"], &["scratchpad/"]),
        (&["resume", "HEAD", "--in", "co"], &["codex"]),
    ] {
        assert_eq!(offered(&place, words), expected, "{words:?}");
    }
    assert_eq!(
        offered(&place, &["resume", "HEAD", "--in", ""]),
        ["claude-code", "codex", "gemini-cli", "opencode", "pi"]
    );
    assert!(offered(&place, &["show", "nosuch:fi"]).is_empty());
}

#[test]
fn a_title_is_completed_and_names_its_session() {
    let place = sample();
    for typed in ["fix", "Fix the p"] {
        let [title] = &*offered(&place, &["switch", typed]) else { panic!("{typed}: one title") };
        assert!(title.starts_with(typed), "{title}");
        assert_eq!(title.to_lowercase(), "fix the parser: keep `quotes`");
        let _ = place.run(&["switch", title]);
        let _ = place.run(&["log", "--session", title]);
        assert_eq!(offered(&place, &["log", "--session", typed]), std::slice::from_ref(title));
    }
    assert!(offered(&place, &["switch", "Fi"]).is_empty(), "two characters never name a session");
}

/// A shell with the program in its path and the store in its environment.
#[cfg(unix)]
fn shell(place: &Place, name: &str) -> Command {
    let bin = place.path().join("bin");
    let _ = std::fs::create_dir(&bin);
    let _ = std::os::unix::fs::symlink(PROGRAM, bin.join("turntree"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(name);
    command.current_dir(place.path()).env("PATH", path).env("HOME", place.path());
    command.env("TURNTREE_STORE", place.path().join("store")).env_remove("TURNTREE_BRANCH");
    command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME").env_remove("ZDOTDIR");
    command.stdin(Stdio::null());
    command
}

/// Runs the script of bash with the words as bash splits them; returns its replies.
#[cfg(unix)]
fn replies(place: &Place, line: &str, words: &[&str], last: &str) -> Option<Vec<String>> {
    let quoted: Vec<String> =
        words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    let line_word = format!("'{}'", line.replace('\'', "'\\''"));
    let (words_in_line, point, at) = (quoted.join(" "), line.len(), words.len() - 1);
    let script = format!(
        "eval \"$(turntree completions bash)\"\n\
         COMP_LINE={line_word} COMP_POINT={point} COMP_CWORD={at} COMP_TYPE=9\n\
         COMP_WORDS=({words_in_line})\n\
         _turntree turntree '{last}' x\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    );
    let output = shell(place, "bash").args(["--norc", "-c", &script]).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[cfg(unix)]
#[test]
fn bash_completes_words_that_it_splits() {
    let place = sample();
    for (line, words, last, expected) in [
        (
            "turntree show HEAD:",
            &["turntree", "show", "HEAD", ":"][..],
            "",
            &["agents/", "files/", "notes.txt", "scratchpad/", "src/"][..],
        ),
        ("turntree show HEAD:fi", &["turntree", "show", "HEAD", ":", "fi"], "fi", &["files/"]),
        (
            "turntree cat turn:1:files/src/m",
            &["turntree", "cat", "turn", ":", "1", ":", "files/src/m"],
            "files/src/m",
            &["files/src/main.rs"],
        ),
        (
            "turntree resume HEAD --in=co",
            &["turntree", "resume", "HEAD", "--in", "=", "co"],
            "co",
            &["codex"],
        ),
        (
            "turntree switch fix",
            &["turntree", "switch", "fix"],
            "fix",
            &["fix\\ the\\ parser:\\ keep\\ \\`quotes\\`"],
        ),
        (
            "turntree switch 'fix th",
            &["turntree", "switch", "'fix th"],
            "fix th",
            &["fix the parser: keep `quotes`"],
        ),
    ] {
        let Some(replies) = replies(&place, line, words, last) else {
            eprintln!("skipped: there is no bash");
            return;
        };
        assert_eq!(replies, expected, "{line}");
    }
}

/// Types lines and a tab into a zsh at a terminal of its own; returns the lines as they are then.
/// The script is sourced, or a file in `fpath`, as packages install it.
#[cfg(unix)]
fn typed_into_zsh(place: &Place, lines: &[&str], is_installed: bool) -> Option<Vec<String>> {
    let functions = place.path().join("functions");
    std::fs::create_dir_all(&functions).unwrap();
    let script = shell(place, "sh").args(["-c", "turntree completions zsh"]).output().unwrap();
    std::fs::write(functions.join("_turntree"), script.stdout).unwrap();
    let (prepare, source) = match is_installed {
        true => ("fpath=($PWD/functions $fpath); ", ""),
        false => ("", "source functions/_turntree; "),
    };
    let script = format!(
        "zmodload zsh/zpty\n\
         await() {{ repeat 600; do [[ -e $1 ]] && return; zpty -r -t z said; sleep 0.1; done; exit 9 }}\n\
         zpty z 'TERM=dumb zsh -f -i'\n\
         zpty -w z '{prepare}autoload -U compinit; compinit -u -D; {source}'\n\
         zpty -w z 'shown() {{ print -r -- \"$BUFFER\" > line; mv line shown; BUFFER= }}'\n\
         zpty -w z 'zle -N shown; bindkey \"^X\" shown; touch ready'\n\
         await ready\n\
         for line in \"$@\"; do\n\
             zpty -w -n z \"$line\"$'\\t\\x18'\n\
             await shown; cat shown; rm shown\n\
         done\nrm ready; zpty -d z\n"
    );
    let output =
        shell(place, "zsh").args(["-f", "-c", &script, "zsh"]).args(lines).output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[cfg(unix)]
#[test]
fn zsh_completes_paths_level_by_level_and_words_in_quotes() {
    let place = sample();
    let cases = [
        ("turntree show HEAD:fi", "turntree show HEAD:files/"),
        ("turntree cat turn:1:files/src/m", "turntree cat turn:1:files/src/main.rs "),
        ("turntree log --path src/d", "turntree log --path src/deep/"),
        ("turntree resume HEAD --in=co", "turntree resume HEAD --in=codex "),
        ("turntree resume HEAD --in co", "turntree resume HEAD --in codex "),
        ("turntree switch fix", "turntree switch fix\\ the\\ parser:\\ keep\\ \\`quotes\\` "),
        ("turntree switch 'fix th", "turntree switch 'fix the parser: keep `quotes`' "),
        ("turntree switch fix\\ th", "turntree switch fix\\ the\\ parser:\\ keep\\ \\`quotes\\` "),
        ("turntree complet", "turntree completions "),
    ];
    let (lines, expected): (Vec<&str>, Vec<&str>) = cases.into_iter().unzip();
    for is_installed in [false, true] {
        let Some(found) = typed_into_zsh(&place, &lines, is_installed) else {
            eprintln!("skipped: there is no zsh");
            return;
        };
        assert_eq!(found, expected, "installed: {is_installed}");
    }
}

#[cfg(unix)]
#[test]
fn fish_completes_paths_level_by_level_and_words_in_quotes() {
    let place = sample();
    for (line, expected) in [
        ("turntree show HEAD:fi", &["HEAD:files/"][..]),
        ("turntree cat turn:1:files/src/", &["turn:1:files/src/deep/", "turn:1:files/src/main.rs"]),
        ("turntree resume HEAD --in=co", &["--in=codex"]),
        ("turntree resume HEAD --in co", &["codex"]),
        ("turntree switch fix", &["fix the parser: keep `quotes`"]),
        ("turntree switch 'fix th", &["fix the parser: keep `quotes`"]),
        ("turntree switch \"fix th", &["fix the parser: keep `quotes`"]),
        ("turntree switch fix\\ th", &["fix the parser: keep `quotes`"]),
    ] {
        let script = "turntree completions fish | source; complete -C $argv[1]";
        let mut fish = shell(&place, "fish");
        let Ok(output) = fish.args(["--no-config", "-c", script, line]).output() else {
            eprintln!("skipped: there is no fish");
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let values: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(values, expected, "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
