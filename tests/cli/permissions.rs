//! The files of a store are accessible only to its owner, for every umask. Exported files follow
//! the umask.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use turntree_tests::every_command::{STEPS, Shell};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

fn shell(umask: &'static str) -> Shell {
    Shell::new(Path::new(PROGRAM), umask)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// The files at and below `folder` that other users can access.
fn open_to_others(folder: &Path) -> Vec<(PathBuf, u32)> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        if mode(&path) != expected {
            found.push((path.clone(), mode(&path)));
        }
    }
    found
}

fn stderr(shell: &Shell, line: &str) -> (Option<i32>, String) {
    let output = shell.run(line);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn whatever_is_in_a_store_is_for_its_owner_alone() {
    let shell = shell("0");
    for step in STEPS {
        let _ = shell.step(step);
        assert_eq!(open_to_others(&shell.store_dir()), [], "after {}", step.line);
    }
    // Failures create files, too.
    let superblock = shell.store_dir().join("superblock");
    let whole = fs::read(&superblock).unwrap();
    fs::write(&superblock, "rubbish").unwrap();
    assert!(shell.run("turntree gc --auto").status.success());
    assert!(shell.store_dir().join("maintenance.log").exists());
    assert_eq!(open_to_others(&shell.store_dir()), []);
    fs::write(&superblock, whole).unwrap();
    for entry in fs::read_dir(shell.store_dir().join("packs")).unwrap() {
        let pack = entry.unwrap().path();
        let mut bytes = fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0);
        fs::write(&pack, bytes).unwrap();
    }
    let _ = shell.run("turntree repair --accept-loss");
    assert!(shell.store_dir().join("quarantine").exists());
    assert_eq!(open_to_others(&shell.store_dir()), []);
}

/// A store may come from another user, with a link in place of its maintenance log.
#[test]
fn the_log_of_maintenance_is_not_written_through_a_link() {
    let shell = shell("077");
    let (store, victim) = (shell.store_dir(), shell.work().join("victim"));
    assert!(shell.run("turntree init").status.success());
    fs::write(store.join("superblock"), "rubbish").unwrap();
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, store.join("maintenance.log")).unwrap();
    assert!(shell.run("turntree gc --auto").status.success());
    assert_eq!(fs::read_to_string(victim).unwrap(), "mine");
    let pipe = "cd .turntree && rm maintenance.log && mkfifo maintenance.log && turntree gc --auto";
    assert!(shell.run(pipe).status.success());
}

#[test]
fn the_commands_that_are_tried_are_all_there_are() {
    let help = shell("077").run("turntree --help").stdout;
    let help = String::from_utf8(help).unwrap();
    let is_command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let lines = help.lines().take_while(|line| !line.trim().starts_with("--"));
    let names = lines.filter(is_command).filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| !name.starts_with('-')) {
        let is_tried = |line: &str| line.starts_with(&format!("turntree {name}"));
        assert!(STEPS.iter().any(|step| is_tried(step.line)), "{name} is not tried");
    }
}

#[test]
fn folders_made_for_a_store_are_for_its_owner_too() {
    let shell = shell("0");
    assert!(shell.run("turntree --store a/b/store init").status.success());
    assert_eq!(open_to_others(&shell.work().join("a")), []);
}

#[test]
fn what_leaves_a_store_is_as_the_umask_says() {
    for (umask, file, program, folder) in
        [("0", 0o666, 0o777, 0o777), ("022", 0o644, 0o755, 0o755), ("077", 0o600, 0o700, 0o700)]
    {
        let shell = shell(umask);
        let state =
            r#"{"files": {"a/b": "text", "a/run": {"content": "x", "mode": "executable"}}}"#;
        for line in [
            "turntree init".to_owned(),
            "turntree import session.jsonl --session work".to_owned(),
            format!("echo '{state}' | turntree snapshot -m files --state -"),
            "turntree restore HEAD --to out".to_owned(),
            "turntree export work --format source -o export".to_owned(),
        ] {
            assert!(shell.run(&line).status.success(), "{line}");
        }
        let found = ["out/files/a/b", "export", "out/files/a/run", "out", "out/files/a"]
            .map(|path| mode(&shell.work().join(path)));
        assert_eq!(found, [file, file, program, folder, folder], "umask {umask}");
    }
}

#[test]
fn an_export_that_replaces_a_private_file_stays_private() {
    let shell = shell("022");
    for line in [
        "turntree import session.jsonl --session work",
        "touch export && chmod 600 export",
        "turntree export work --format source -o export --force && cmp export session.jsonl",
    ] {
        let (exit, said) = stderr(&shell, line);
        assert_eq!(exit, Some(0), "{line}: {said}");
    }
    assert_eq!(mode(&shell.work().join("export")), 0o600);
}

#[test]
fn an_export_never_replaces_or_follows_what_it_should_not() {
    let shell = shell("022");
    let work = shell.work();
    assert!(shell.run("turntree import session.jsonl --session work").status.success());
    fs::write(work.join("precious"), "mine").unwrap();
    std::os::unix::fs::symlink("precious", work.join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", work.join("dangling")).unwrap();
    let export = "turntree export work --format source";
    for (target, expected) in [
        ("precious", "exists already"),
        ("link", "exists already"),
        ("dangling", "exists already"),
        ("project", "is not a file"),
        ("project --force", "is not a file"),
        ("missing/export", "write missing/export"),
    ] {
        let (exit, said) = stderr(&shell, &format!("{export} -o {target}"));
        assert!(exit != Some(0) && said.contains(expected), "{target}: {said}");
    }
    assert!(!work.join("nowhere").exists());
    assert!(shell.run(&format!("{export} -o link --force")).status.success());
    assert_eq!(fs::read_to_string(work.join("precious")).unwrap(), "mine");
    assert!(fs::symlink_metadata(work.join("link")).unwrap().is_file());
    // A pipe is written to and not replaced.
    let piped = shell.run(&format!("mkfifo pipe; {export} -o pipe & cmp pipe session.jsonl"));
    assert!(piped.status.success());
    let mut names = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().starts_with(".turntree-part-")));
}

#[test]
fn a_store_that_others_may_read_is_warned_of() {
    let shell = shell("022");
    assert!(shell.run("turntree import session.jsonl --session work").status.success());
    fs::rename(shell.work().join("project"), shell.work().join("p")).unwrap();
    let store = shell.run("turntree --store shared init && chmod -R a+rX shared");
    assert!(store.status.success());
    let (exit, said) = stderr(&shell, "turntree --store shared fsck");
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("other users can read or change 6 entries"), "{said}");
    assert!(said.contains("'chmod -R go= shared'"), "{said}");
    // No other user can enter the folder, so none can read its content.
    let (_, said) = stderr(&shell, "chmod 700 shared && turntree --store shared fsck");
    assert_eq!(said, "");
}

#[test]
fn a_store_of_somebody_else_is_not_used_unasked() {
    let shell = shell("022");
    assert!(shell.run("turntree init").status.success());
    if chown(shell.store_dir(), Some(54_321), None).is_err() {
        eprintln!("skipped: only root may give a store away");
        return;
    }
    let (exit, said) = stderr(&shell, "turntree log");
    assert_eq!(exit, Some(2));
    assert!(said.contains("belongs to user 54321, and this is user"), "{said}");
    assert!(said.contains("--store"), "{said}");
    let (exit, said) = stderr(&shell, "turntree --store .turntree branch");
    assert_eq!(exit, Some(0), "{said}");
}

#[test]
fn a_store_that_may_not_be_read_says_whose_it_is() {
    let shell = shell("022");
    assert!(shell.run("turntree init").status.success());
    fs::set_permissions(shell.work().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    let other = "setpriv --reuid 54321 --clear-groups turntree --store";
    if !shell.run(&format!("{other} none version")).status.success() {
        eprintln!("skipped: only root may become another user, and the program must be readable");
        return;
    }
    let owner = fs::metadata(shell.store_dir()).unwrap().uid();
    let (exit, said) = stderr(&shell, &format!("{other} .turntree log"));
    assert_eq!(exit, Some(70));
    assert!(said.contains(&format!("the store belongs to user {owner}")), "{said}");
    let (exit, said) = stderr(&shell, &format!("chmod 755 .turntree; {other} .turntree log"));
    assert_eq!(exit, Some(70));
    assert!(said.contains(&format!("the store belongs to user {owner}")), "{said}");
}
