//! Reports invalid arguments: suggests our commands for words of git and of other programs.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::view::error::{Exit, Report};

/// Words that users type, and the corresponding command.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["find", "ag", "rg"],
        "'turntree search WORDS' finds words in every session, 'turntree grep PATTERN --all' lines",
    ),
    (&["commit", "save", "checkpoint"], "'turntree snapshot -m TEXT' takes a snapshot"),
    (
        &["add", "stage"],
        "there is no staging area: 'turntree snapshot --workspace . -m TEXT' takes all",
    ),
    (
        &["config", "settings"],
        "there is no configuration file: 'turntree --help' lists options and variables, 'turntree \
         retention' sets policies",
    ),
    (
        &["share", "copy"],
        "'turntree bundle create SESSION -o FILE' writes one file, 'turntree bundle unbundle FILE' reads \
         it elsewhere; 'turntree git export DIR' writes a git repository",
    ),
    (&["pull"], "'turntree sync' fetches, merges and pushes, 'turntree fetch' only fetches"),
    (&["cost", "tokens", "price", "spend"], "'turntree usage' sums up tokens and their cost"),
    (&["list", "branches"], "'turntree sessions' lists sessions, 'turntree branch' branches"),
    (
        &["continue", "handoff"],
        "'turntree resume REV' continues a turn in its agent, or with --in in another",
    ),
    (
        &["checkout", "co"],
        "'turntree switch BRANCH' moves HEAD, 'turntree restore REV' restores a snapshot, \
         'turntree restore REV --to DIR' writes its files",
    ),
    (&["worktree"], "'turntree fork NAME --worktree DIR' makes a branch and a directory for it"),
    (&["history", "timeline"], "'turntree log' shows snapshots, newest first"),
    (&["lg", "graph", "tree"], "'turntree log --graph' draws the graph of snapshots"),
    (&["reflog", "oplog"], "'turntree op log' lists every change of a branch"),
    (
        &["reset", "rewind", "back"],
        "'turntree rollback' goes back by turns, 'turntree undo' takes back the last command",
    ),
    (&["revert"], "'turntree undo' takes back a command, 'turntree rollback' goes back by turns"),
    (
        &["stash"],
        "'turntree snapshot --workspace . -m TEXT' saves the files, 'turntree restore REV' \
         restores them",
    ),
    (&["rebase"], "'turntree cherry-pick REV' applies the changes of single snapshots"),
    (&["annotate", "praise"], "'turntree blame PATH' shows which turn wrote each line"),
    (&["prune", "clean", "vacuum"], "'turntree gc' deletes turns that retention has dropped"),
    (&["size", "du"], "'turntree stats' shows where the bytes are"),
    (&["verify", "check", "doctor"], "'turntree fsck' verifies the store"),
    (&["install", "setup"], "'turntree init' makes a store, 'turntree hook install' the hooks"),
    (&["html", "web", "open"], "'turntree export REV --format html -o FILE' writes a page"),
    (&["backup"], "'turntree bundle create --all -o FILE' writes sessions to one file"),
    (&["new"], "'turntree fork NAME' begins a branch, 'turntree init' makes a store"),
    (&["remove", "rm", "delete"], "'turntree branch --delete NAME' deletes a branch"),
    (
        &["rename", "mv"],
        "'turntree session rename SESSION TITLE' names a session, 'turntree branch --rename OLD NEW' \
         a branch",
    ),
    (&["operations"], "'turntree op log' lists operations"),
];

/// Options of git commands, and the corresponding command. An empty option stands for a plain word,
/// `-N` for a number.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    ("log", &["-p", "--patch"], "'turntree diff REV~1 REV' shows the changes of a turn"),
    ("log", &["--stat"], "'turntree diff --stat REV~1 REV' sums up the changes of a turn"),
    ("log", &["--limit", "--max", "-N"], "'turntree log -n 3' stops after 3"),
    ("log", &["--grep", "--author"], "'turntree grep TEXT' searches, 'log --message' filters"),
    ("log", &["--follow"], "'turntree log --path PATH' shows the turns that changed a file"),
    ("branch", &["", "-c", "--copy"], "'turntree fork NAME [REV]' begins a branch"),
    (
        "branch",
        &["-D"],
        "'turntree branch -d NAME' deletes a branch, 'turntree undo' brings it back",
    ),
    ("branch", &["-a", "--all", "-v", "-l", "--list"], "'turntree branch' lists all of them"),
    ("branch", &["-M"], "'turntree branch -m OLD NEW' renames a branch"),
    ("switch", &["-c", "-b", "--create"], "'turntree fork NAME --switch' begins a branch"),
    ("fork", &["-b", "-c"], "'turntree fork NAME [REV]' begins a branch"),
    ("snapshot", &["-a", "--all", "-am"], "'turntree snapshot --workspace . -m TEXT' takes all"),
    (
        "diff",
        &["--cached", "--staged"],
        "there is no staging area: use 'turntree diff HEAD~1 HEAD'",
    ),
    ("diff", &["--name-only", "--name-status"], "'turntree diff --stat A B' lists the entries"),
    ("show", &["--stat", "-p"], "'turntree diff --stat REV~1 REV' shows the changes of a turn"),
    ("tag", &["-a", "-l", "--list"], "'turntree tag NAME REV -m TEXT', 'turntree tag' lists them"),
    ("merge", &["--abort"], "'turntree undo' undoes a merge"),
    (
        "merge",
        &["--branch", "--session"],
        "'turntree merge REV --into BRANCH' merges into a branch",
    ),
    (
        "cherry-pick",
        &["--branch", "--session"],
        "'turntree cherry-pick REV --into BRANCH' picks onto it",
    ),
    (
        "resolve",
        &["--file", "-f"],
        "'turntree resolve PATH --take FILE' takes the content of a file",
    ),
    (
        "resolve",
        &["--into", "--session"],
        "'turntree resolve --branch SESSION/BRANCH' names the branch",
    ),
    (
        "resume",
        &["--file", "-f"],
        "'turntree resume REV --in AGENT' writes a session that it opens",
    ),
    ("rollback", &["--hard", "--soft"], "'turntree rollback' brings the files too; see --only"),
    ("restore", &["--source", "-s"], "'turntree restore REV' names the snapshot first"),
    ("status", &["-s", "--short", "-sb"], "'turntree status --json' is for scripts"),
    ("grep", &["-n", "--line-number"], "hits name their turn and entry; 'turntree cat' prints one"),
    ("bundle", &["import", "open"], "'turntree bundle unbundle FILE' reads a bundle"),
    ("bundle", &["--all"], "'turntree bundle create --all -o FILE' writes every branch"),
    ("secrets", &["ls", "list"], "'turntree secrets scan' lists what it finds"),
    ("gc", &["--aggressive"], "'turntree repack --archive' packs as small as it can"),
];

/// The beginnings of lines that follow the parser's message.
const ENDS: [&str; 2] = ["Usage:", "For more information"];

/// Prints the parser's message: help and version on stdout, usage errors on stderr.
pub(crate) fn report_usage(mut error: clap::Error, arguments: &[OsString]) -> Exit {
    if !error.use_stderr() {
        // A closed pipe is not an error: the reader had enough.
        let _ = error.print();
        return Exit::Success;
    }
    advise(&mut error, arguments);
    if arguments.iter().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let (message, tips) = in_parts(&text);
        Report::usage(message, &tips).print(true);
    } else {
        let _ = error.print();
    }
    Exit::Usage
}

/// Replaces the parser's advice with ours, if there is any.
fn advise(error: &mut clap::Error, arguments: &[OsString]) {
    let word = match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => Some(word.clone()),
        _ => None,
    };
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => Some(option.clone()),
        _ => None,
    };
    let verb = verb_of(arguments);
    let tip = match (&word, &unknown, &verb) {
        (Some(word), _, Some(verb)) if word == verb => word_here(word),
        (Some(word), _, Some(verb)) => option_here(verb, word),
        (_, Some(option), Some(verb)) => option_here(verb, option),
        _ => None,
    };
    if let Some(tip) = tip {
        error.remove(ContextKind::SuggestedSubcommand);
        if error.remove(ContextKind::SuggestedArg).is_some() {
            // The usage line is about the argument that the parser would have suggested.
            error.remove(ContextKind::Usage);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    } else if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        // Users of short names know them.
        let names: Vec<String> = names.iter().filter(|name| name.len() > 2).cloned().collect();
        error.remove(ContextKind::SuggestedSubcommand);
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    } else if unknown.is_some_and(|option| option.starts_with('-')) {
        // The parser suggests passing the option as a value, which is never meant.
        error.remove(ContextKind::Suggested);
    }
}

/// The command in a command line; options may come before and after it.
fn verb_of(arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        match &*word {
            "--store" | "--at-op" | "--color" => drop(words.next()),
            option if option.starts_with('-') => {}
            _ => return Some(word.into_owned()),
        }
    }
    None
}

fn word_here(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    WORDS.iter().find(|(words, _)| words.contains(&&*word)).map(|(_, tip)| *tip)
}

fn option_here(verb: &str, option: &str) -> Option<&'static str> {
    let is_number = option.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok());
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    let fits = |known: &&str| match *known {
        "-N" => is_number,
        "" => !option.starts_with('-'),
        known => known == name,
    };
    let row = OPTIONS.iter().find(|(of, options, _)| *of == verb && options.iter().any(fits));
    row.map(|(.., tip)| *tip)
}

/// Splits the parser's output into the message with its listed arguments, and the tips.
fn in_parts(text: &str) -> (String, String) {
    let text = text.trim_start_matches("error: ");
    let lines = || text.lines().take_while(|line| !ENDS.iter().any(|end| line.starts_with(end)));
    let is_tip = |line: &&str| line.trim_start().starts_with("tip: ");
    let message: Vec<&str> = lines()
        .filter(|line| !is_tip(line))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let tips: Vec<&str> =
        lines().filter(is_tip).map(|line| line.trim_start().trim_start_matches("tip: ")).collect();
    (message.join(" "), tips.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_options_of_git_are_known() {
        for word in ["find", "commit", "config", "share", "cost", "checkout", "history", "Pull"] {
            assert!(word_here(word).is_some(), "{word}");
        }
        assert_eq!(word_here("nothing-known"), None);
        for (verb, option) in
            [("log", "-p"), ("log", "--limit=3"), ("log", "-3"), ("branch", "x"), ("branch", "-D")]
        {
            assert!(option_here(verb, option).is_some(), "{verb} {option}");
        }
        assert_eq!(option_here("log", "--nonsense"), None);
        assert_eq!(option_here("branch", "--nonsense"), None);
    }

    #[test]
    fn messages_keep_the_arguments_that_are_missing() {
        let text =
            "error: these were not provided:\n  --message <TEXT>\n\n  tip: try\n\nUsage: x\n";
        let expected = ("these were not provided: --message <TEXT>".to_owned(), "try".to_owned());
        assert_eq!(in_parts(text), expected);
    }
}
