//! The rules by which a command or a tool has its effect.
//!
//! A rule errs on the side of an effect: the ledger says what may not be undone, and a person
//! decides. A program without a rule is a process whose effects are unknown.

use super::shell::Command;
use super::{Effect, Outside};

/// Programs that only read.
const READERS: [&str; 56] = [
    "[",
    "awk",
    "basename",
    "bat",
    "cat",
    "cd",
    "cmp",
    "column",
    "comm",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "env",
    "false",
    "fd",
    "fgrep",
    "file",
    "find",
    "grep",
    "head",
    "hexdump",
    "id",
    "jq",
    "less",
    "ls",
    "lsof",
    "man",
    "md5sum",
    "more",
    "nl",
    "pgrep",
    "printenv",
    "printf",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sed",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "test",
    "tr",
    "tree",
    "uname",
    "uniq",
    "wc",
    "which",
];

/// Programs that change files.
const WRITERS: [&str; 23] = [
    "apply_patch",
    "chmod",
    "chown",
    "cp",
    "dd",
    "gunzip",
    "gzip",
    "install",
    "ln",
    "mkdir",
    "mv",
    "patch",
    "rm",
    "rmdir",
    "shred",
    "split",
    "tar",
    "tee",
    "touch",
    "truncate",
    "unlink",
    "unzip",
    "zip",
];

/// Programs that read from other machines.
const FETCHERS: [&str; 9] =
    ["curl", "dig", "host", "http", "https", "nslookup", "ping", "traceroute", "wget"];

/// Words that run nothing for real.
const HARMLESS: [&str; 5] = ["--dry-run", "--dryrun", "--help", "--version", "--what-if"];

/// Options before a subcommand that take the next word as their value.
const VALUE_OPTIONS: [&str; 18] = [
    "-C",
    "-H",
    "-R",
    "-c",
    "-f",
    "-n",
    "-w",
    "--context",
    "--cwd",
    "--dir",
    "--kubeconfig",
    "--namespace",
    "--prefix",
    "--profile",
    "--project",
    "--region",
    "--repo",
    "--workspace",
];

/// The first words of commands without their options, and what they change. A word may list
/// alternatives, and `*` is any word.
const OUTSIDE: &[(&str, Outside)] = &[
    ("git push", Outside::Push),
    ("git send-email", Outside::Message),
    (
        "git am|cherry-pick|commit|merge|pull|rebase|reset|revert|stash|tag|worktree",
        Outside::Repository,
    ),
    ("jj git push", Outside::Push),
    ("hg|svn push|commit|ci", Outside::Push),
    (
        "gh|glab pr|mr|issue|release create|close|comment|delete|edit|merge|note|ready|reopen|review|upload",
        Outside::Forge,
    ),
    ("gh|glab repo archive|create|delete|edit|fork|rename|sync", Outside::Forge),
    (
        "gh|glab workflow|run|ci cancel|delete|disable|enable|rerun|retry|run|trigger",
        Outside::Forge,
    ),
    (
        "gh|glab gist|snippet|label|secret|variable|ssh-key create|clone|delete|edit|set|remove|add",
        Outside::Forge,
    ),
    ("npm|pnpm|yarn|bun publish|unpublish|deprecate", Outside::Publication),
    ("yarn npm publish", Outside::Publication),
    ("npm|pnpm dist-tag|owner|access add|rm|set", Outside::Publication),
    ("cargo publish|yank|owner", Outside::Publication),
    ("twine upload", Outside::Publication),
    ("poetry|uv|hatch|flit|pdm publish", Outside::Publication),
    ("gem push|yank", Outside::Publication),
    ("mvn|mvnw deploy|release:perform", Outside::Publication),
    ("gradle|gradlew publish", Outside::Publication),
    ("dotnet nuget push", Outside::Publication),
    ("docker|podman|buildah|nerdctl push", Outside::Publication),
    ("docker|podman image|manifest push", Outside::Publication),
    ("helm push", Outside::Publication),
    ("helm install|rollback|uninstall|upgrade|delete", Outside::Deployment),
    (
        "kubectl|oc annotate|apply|autoscale|cordon|create|delete|drain|edit|expose|label|patch|replace|rollout|run|scale|set|taint|uncordon",
        Outside::Deployment,
    ),
    ("terraform|tofu|terragrunt apply|destroy|import|taint|untaint", Outside::Deployment),
    ("pulumi up|destroy|import|refresh", Outside::Deployment),
    ("ansible|ansible-playbook *", Outside::Deployment),
    ("cdk|sam|serverless|sls|copilot deploy|destroy|remove|delete", Outside::Deployment),
    ("vercel|now|netlify|surge deploy|promote|rollback|remove", Outside::Deployment),
    ("fly|flyctl deploy|destroy|scale|secrets|launch|machine", Outside::Deployment),
    (
        "heroku apps:create|apps:destroy|config:set|config:unset|container:push|container:release|create|destroy|pg:reset|ps:restart|ps:scale|releases:rollback|restart|rollback|run",
        Outside::Deployment,
    ),
    (
        "wrangler|firebase|railway|render|eb|amplify deploy|publish|delete|up|terminate|push",
        Outside::Deployment,
    ),
    (
        "rails|rake|alembic|prisma|knex|flyway|liquibase|sequelize|dbmate|goose|sqlx|diesel db:drop|db:migrate|db:reset|db:rollback|db:seed|upgrade|downgrade|migrate|migrate:latest|migrate:rollback|update|up|down|db|migration",
        Outside::Database,
    ),
    ("python|python3|uv manage.py migrate|flush|loaddata", Outside::Database),
    ("dropdb|createdb|pg_restore|mongorestore|mysqladmin *", Outside::Database),
    ("mail|mailx|mutt|msmtp|sendmail|swaks *", Outside::Message),
    ("stripe * cancel|capture|confirm|create|delete|pay|refund|update", Outside::Payment),
    (
        "gsutil|s3cmd|mc|rclone|azcopy copy|cp|del|delete|mb|mv|put|purge|rb|rm|rsync|sync|move|remove",
        Outside::Storage,
    ),
    ("scp|sftp *", Outside::Machine),
    (
        "systemctl daemon-reload|disable|enable|kill|mask|reload|restart|start|stop|unmask",
        Outside::System,
    ),
    ("service|rc-service * reload|restart|start|stop", Outside::System),
    (
        "launchctl bootout|bootstrap|disable|enable|kickstart|load|remove|start|stop|unload",
        Outside::System,
    ),
    (
        "useradd|userdel|usermod|passwd|mount|umount|mkfs|reboot|shutdown|iptables|ufw *",
        Outside::System,
    ),
    (
        "apt|apt-get|dnf|yum|apk|brew|snap|choco|winget|scoop|zypper add|autoremove|dist-upgrade|full-upgrade|install|purge|remove|reinstall|uninstall|upgrade",
        Outside::System,
    ),
    ("pip|pip3|pipx|gem|go|cargo install|uninstall", Outside::System),
    ("docker|podman|docker-compose down|kill|rm|rmi|start|stop|restart|up", Outside::System),
    ("docker|podman compose down|kill|restart|rm|start|stop|up", Outside::System),
    (
        "docker|podman container|image|network|system|volume create|prune|rm|remove|stop|kill",
        Outside::System,
    ),
];

/// Options of clients of databases that give a statement, or list databases. Without one of them a
/// client runs what it reads from its input.
const STATEMENT_OPTIONS: [&str; 10] =
    ["-c", "-e", "-l", "-q", "-Q", "--command", "--eval", "--execute", "--list", "--query"];

/// Words by which operations of cloud programs begin that only read.
const CLOUD_READS: [&str; 12] = [
    "batch-get",
    "check",
    "config",
    "describe",
    "filter",
    "get",
    "head",
    "help",
    "list",
    "lookup",
    "ls",
    "show",
];

/// Words of SQL that change a database.
const SQL: [&str; 12] = [
    "alter", "call", "copy", "create", "delete", "drop", "grant", "insert", "merge", "replace",
    "truncate", "update",
];

/// Words in the name of a tool, and what such a tool changes.
const TOOL_WORDS: &[(&[&str], Outside)] = &[
    (
        &[
            "pay", "payment", "charge", "refund", "transfer", "invoice", "checkout", "purchase",
            "order", "payout", "book", "buy", "withdraw", "deposit",
        ],
        Outside::Payment,
    ),
    (
        &["send", "reply", "email", "mail", "notify", "message", "sms", "tweet", "invite"],
        Outside::Message,
    ),
    (&["publish", "release"], Outside::Publication),
    (&["deploy", "rollout", "provision"], Outside::Deployment),
    (&["push", "merge", "fork"], Outside::Push),
    (&["sql", "database", "insert", "upsert", "migrate"], Outside::Database),
];

/// Verbs of tools that change something, of what kind is unknown.
const TOOL_VERBS: [&str; 27] = [
    "add", "approve", "archive", "assign", "cancel", "close", "comment", "complete", "create",
    "delete", "disable", "edit", "enable", "move", "patch", "post", "put", "remove", "rename",
    "schedule", "set", "start", "stop", "submit", "update", "upload", "write",
];

/// Verbs of tools that only read.
const TOOL_READS: [&str; 22] = [
    "browse", "check", "count", "describe", "fetch", "find", "get", "glob", "grep", "inspect",
    "is", "list", "lookup", "ls", "open", "query", "read", "resolve", "search", "show", "think",
    "view",
];

/// Tools of clients that only read or keep notes of the client.
const CLIENT_READS: [&str; 20] = [
    "agent",
    "ask_user",
    "askuserquestion",
    "bashoutput",
    "enterplanmode",
    "exitplanmode",
    "skill",
    "task",
    "taskcreate",
    "taskoutput",
    "taskupdate",
    "todo_write",
    "todowrite",
    "toolsearch",
    "update_plan",
    "save_memory",
    "attempt_completion",
    "finish",
    "mark_task_complete",
    "submit",
];

/// Tools of clients that change files of the workspace.
const CLIENT_WRITES: [&str; 16] = [
    "apply_diff",
    "apply_patch",
    "create_file",
    "delete_file",
    "edit",
    "edit_file",
    "insert_content",
    "multiedit",
    "notebookedit",
    "replace",
    "replace_in_file",
    "str_replace_based_edit_tool",
    "str_replace_editor",
    "write",
    "write_file",
    "write_to_file",
];

/// Tools of clients that act on a process which another call has begun.
const CLIENT_PROCESSES: [&str; 6] =
    ["kill_shell", "killbash", "killshell", "stop_bash", "write_bash", "write_stdin"];

/// Verbs with which a package manager of a language changes what is installed for all projects.
const INSTALL_VERBS: [&str; 10] =
    ["add", "i", "install", "link", "remove", "rm", "un", "uninstall", "update", "upgrade"];

/// Tools of clients that read from other machines.
const CLIENT_FETCHES: [&str; 7] = [
    "google_web_search",
    "read_url",
    "web_fetch",
    "web_search",
    "webfetch",
    "websearch",
    "browser",
];

/// Returns the effect of a simple command.
pub(super) fn of_command(command: &Command) -> Effect {
    match program_effect(command) {
        Effect::Reads | Effect::Network if command.writes => Effect::Files,
        effect => effect,
    }
}

fn program_effect(command: &Command) -> Effect {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    let Some((program, arguments)) = words.split_first() else { return Effect::Files };
    let is_harmless = |word: &&str| {
        let name = word.split('=').next().unwrap_or(word);
        HARMLESS.contains(&name) && !word.ends_with("=none")
    };
    if arguments.iter().any(is_harmless) {
        return Effect::Reads;
    }
    let subcommands = without_options(&words);
    if *program == "git" && git_lists(&subcommands, arguments) {
        return Effect::Reads;
    }
    if let Some((_, outside)) = OUTSIDE.iter().find(|(rule, _)| has_rule(rule, &subcommands)) {
        return Effect::Outside(*outside);
    }
    match *program {
        "curl" | "wget" | "http" | "https" | "xh" | "xhs" => request(program, arguments),
        "ssh" if subcommands.len() > 1 => Effect::Outside(Outside::Machine),
        "rsync" if arguments.last().is_some_and(|to| is_remote(to)) => {
            Effect::Outside(Outside::Machine)
        }
        "rsync" => Effect::Files,
        "crontab" if !has_any(arguments, &["-l"]) => Effect::Outside(Outside::System),
        "psql" | "mysql" | "mariadb" | "sqlcmd" | "clickhouse-client" | "mongosh" | "mongo"
        | "redis-cli" | "sqlite3" | "duckdb" | "bq" => database(program, arguments),
        "aws" | "gcloud" | "az" | "doctl" | "oci" | "ibmcloud" => cloud(&subcommands, arguments),
        "gh" | "glab" if subcommands.get(1) == Some(&"api") => forge_call(arguments),
        "gh" | "glab" => Effect::Network,
        "vercel" | "netlify" if has_any(arguments, &["--prod"]) => {
            Effect::Outside(Outside::Deployment)
        }
        "git" => git(&subcommands, arguments),
        "npm" | "pnpm" | "yarn" | "bun"
            if has_any(arguments, &["-g", "--global"])
                && subcommands.get(1).is_some_and(|verb| INSTALL_VERBS.contains(verb)) =>
        {
            Effect::Outside(Outside::System)
        }
        "sed" if arguments.iter().any(|word| is_in_place(word)) => Effect::Files,
        "find" if has_any(arguments, &["-delete", "-exec", "-execdir"]) => Effect::Files,
        program if READERS.contains(&program) => Effect::Reads,
        program if WRITERS.contains(&program) => Effect::Files,
        program if FETCHERS.contains(&program) => Effect::Network,
        _ => Effect::Process,
    }
}

fn has_any(arguments: &[&str], wanted: &[&str]) -> bool {
    arguments.iter().any(|word| wanted.contains(word))
}

/// Returns the words of a command without options and their values.
fn without_options<'w>(words: &[&'w str]) -> Vec<&'w str> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if VALUE_OPTIONS.contains(word) {
            words.next();
        } else if !word.starts_with('-') {
            kept.push(*word);
        }
    }
    kept
}

/// Returns true if a command begins with the words of a rule.
fn has_rule(rule: &str, words: &[&str]) -> bool {
    let is = |alternatives: &str, word: &str| {
        alternatives == "*" || alternatives.split('|').any(|name| name == word)
    };
    let mut rule = rule.split(' ');
    let mut words = words.iter();
    rule.all(|alternatives| words.next().is_some_and(|word| is(alternatives, word)))
}

fn is_in_place(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => long.starts_with("in-place"),
        None => word.strip_prefix('-').is_some_and(|letters| letters.contains('i')),
    }
}

/// Returns true for a path on another machine, as in `host:path`.
fn is_remote(path: &str) -> bool {
    path.split_once(':').is_some_and(|(host, _)| host.len() > 1 && !host.contains('/'))
}

/// Returns the effect of an HTTP request: one with a body or a method that changes something is an
/// effect, unless this machine answers it.
fn request(program: &str, arguments: &[&str]) -> Effect {
    let is_here = arguments.iter().any(|word| {
        ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"].iter().any(|here| word.contains(here))
    });
    let is_method = |word: &str| {
        matches!(word.to_ascii_uppercase().as_str(), "POST" | "PUT" | "PATCH" | "DELETE")
    };
    let named = arguments.windows(2).any(|pair| match pair {
        [option, method] => matches!(*option, "-X" | "--request" | "--method") && is_method(method),
        _ => false,
    });
    let joined = arguments.iter().any(|word| {
        ["-X", "--request=", "--method="]
            .iter()
            .any(|option| word.strip_prefix(option).is_some_and(is_method))
    });
    let has_body = arguments.iter().any(|word| match program {
        "curl" => {
            let is_read = *word == "-G" || *word == "--get";
            !is_read
                && ["-d", "-F", "-T", "--data", "--form", "--json", "--upload-file"]
                    .iter()
                    .any(|option| word.starts_with(option))
        }
        "wget" => word.starts_with("--post") || word.starts_with("--body"),
        _ => {
            is_method(word) || (word.contains('=') && !word.contains("==") && !word.contains("://"))
        }
    });
    let reads = has_any(arguments, &["-G", "--get"]);
    match named || joined || (has_body && !reads) {
        true if is_here => Effect::Process,
        true => Effect::Outside(Outside::Request),
        false => Effect::Network,
    }
}

/// Returns the effect of a call of the API of a forge, which sends fields by POST.
fn forge_call(arguments: &[&str]) -> Effect {
    let sends = has_any(arguments, &["-f", "-F", "--field", "--raw-field", "--input"]);
    let is_get =
        arguments.windows(2).any(|pair| matches!(pair, ["-X" | "--method", "GET" | "get"]));
    match request("curl", arguments) {
        Effect::Outside(_) => Effect::Outside(Outside::Forge),
        _ if sends && !is_get => Effect::Outside(Outside::Forge),
        effect => effect,
    }
}

/// Returns true for the forms of commands of git that only list.
fn git_lists(subcommands: &[&str], arguments: &[&str]) -> bool {
    match subcommands {
        [_, "stash" | "worktree", "list" | "show", ..] => true,
        [_, "tag"] => !has_any(arguments, &["-d", "-f"]),
        [_, "tag", ..] => has_any(arguments, &["-l", "--list", "-n", "--contains"]),
        _ => false,
    }
}

fn git(subcommands: &[&str], arguments: &[&str]) -> Effect {
    match subcommands.get(1).copied().unwrap_or_default() {
        "fetch" | "clone" | "ls-remote" => Effect::Network,
        "add" | "apply" | "checkout" | "clean" | "mv" | "restore" | "rm" | "switch" => {
            Effect::Files
        }
        "branch" if has_any(arguments, &["-d", "-D", "-m", "-M", "--delete", "--move"]) => {
            Effect::Outside(Outside::Repository)
        }
        _ => Effect::Reads,
    }
}

/// Returns the effect of a client of a database, by the words of its statements.
fn database(program: &str, arguments: &[&str]) -> Effect {
    let text = arguments.join(" ").to_lowercase();
    let mut words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    let changes = match program {
        "redis-cli" => words.any(|word| {
            [
                "del", "set", "flushall", "flushdb", "expire", "lpush", "rpush", "hset", "incr",
                "unlink", "publish",
            ]
            .contains(&word)
        }),
        "mongosh" | "mongo" => {
            ["insert", "update", "delete", "drop", "remove", "replace", "rename"]
                .iter()
                .any(|verb| text.contains(&format!(".{verb}")))
        }
        "sqlite3" | "duckdb" | "bq" => words.any(|word| SQL.contains(&word)),
        _ => words.any(|word| SQL.contains(&word)) || !has_any(arguments, &STATEMENT_OPTIONS),
    };
    match (changes, program) {
        // Files that a snapshot may have.
        (true, "sqlite3" | "duckdb") => Effect::Files,
        (true, _) => Effect::Outside(Outside::Database),
        (false, "sqlite3" | "duckdb") => Effect::Reads,
        (false, _) => Effect::Network,
    }
}

/// Returns the effect of a program of a cloud: an operation that does not only read is an effect.
fn cloud(subcommands: &[&str], arguments: &[&str]) -> Effect {
    let outside = match subcommands.get(1).copied().unwrap_or_default() {
        "s3" | "s3api" | "storage" => Outside::Storage,
        _ => Outside::Deployment,
    };
    if matches!(subcommands, [_, "s3", "cp" | "sync" | "mv", ..])
        && !arguments.last().is_some_and(|to| to.contains("://"))
    {
        return Effect::Network;
    }
    let reads = |word: &&str| CLOUD_READS.iter().any(|read| word.starts_with(read));
    match subcommands.len() < 3 || subcommands.iter().skip(1).any(reads) {
        true => Effect::Network,
        false => Effect::Outside(outside),
    }
}

/// Returns the effect of a tool that is no shell, by its name.
pub(super) fn of_tool(name: &str) -> Effect {
    let lower = name.to_ascii_lowercase();
    let own = lower.rsplit("__").next().unwrap_or(&lower);
    let is_served = lower.contains("__");
    if !is_served {
        for (names, effect) in [
            (&CLIENT_READS[..], Effect::Reads),
            (&CLIENT_WRITES[..], Effect::Files),
            (&CLIENT_FETCHES[..], Effect::Network),
            (&CLIENT_PROCESSES[..], Effect::Process),
        ] {
            if names.contains(&own) {
                return effect;
            }
        }
    }
    let words = words_of(name.rsplit("__").next().unwrap_or(name));
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
    let is_of_files = lower.contains("filesystem") || has(&["file", "files", "directory"]);
    let first = words.first().map_or("", String::as_str);
    if TOOL_READS.contains(&first) {
        return if is_served && !is_of_files { Effect::Network } else { Effect::Reads };
    }
    if is_of_files && has(&TOOL_VERBS) {
        return Effect::Files;
    }
    if let Some((_, outside)) = TOOL_WORDS.iter().find(|(wanted, _)| has(wanted)) {
        return Effect::Outside(*outside);
    }
    match has(&TOOL_VERBS) {
        true => Effect::Outside(Outside::Request),
        false => Effect::Process,
    }
}

/// Returns the words of a name in any style, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for char in name.chars() {
        let begins = char.is_ascii_uppercase() && was_lower;
        was_lower = char.is_ascii_lowercase() || char.is_ascii_digit();
        if begins || !char.is_alphanumeric() {
            words.push(String::new());
        }
        if char.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(char.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
