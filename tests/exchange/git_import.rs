//! Git histories become snapshots: real repositories, exported ones, and hostile ones.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::context::{FileEntry, FileMode};
use turntree::maintenance::{Pattern, redact};
use turntree::object::{Kind, ObjectId, ObjectSource, Trigger};
use turntree::repo::{BranchName, LogEntry, Repository};
use turntree_exchange::git::{GitExportOptions, GitImport, GitImportOptions, export, import};
use turntree_tests::git::{Files, Git, is_installed};
use turntree_tests::random_history::{RandomHistory, steps};
use turntree_tests::{Sandbox, stamp};

fn options(session: &str, revisions: &[&str]) -> GitImportOptions {
    GitImportOptions {
        revisions: revisions.iter().map(|name| (*name).to_owned()).collect(),
        session: session.to_owned(),
        stamp: stamp(1),
        max_file_bytes: 1 << 20,
        switch: false,
    }
}

fn try_import(repo: &Repository, dir: &Path) -> turntree::Result<GitImport> {
    import(repo, dir, &options("s", &[]), &mut |_, _| {})
}

fn import_all(repo: &Repository, dir: &Path) -> GitImport {
    try_import(repo, dir).unwrap()
}

/// The files of a snapshot with their git modes.
fn files(repo: &Repository, id: &ObjectId) -> Files {
    let (store, context) = (repo, repo.context(id).unwrap());
    let mut files = Files::new();
    for entry in context.map(store, "files").unwrap().iter(store) {
        let (key, item) = entry.unwrap();
        let file = FileEntry::from_item(&item).unwrap();
        let mode = match file.mode {
            FileMode::Regular => "100644",
            FileMode::Executable => "100755",
            FileMode::Symlink => "120000",
        };
        let bytes = store.read_as(Kind::Blob, &file.blob).unwrap().to_vec();
        assert_eq!(bytes.len() as u64, file.size);
        files.insert(String::from_utf8(key.to_vec()).unwrap(), (mode.to_owned(), bytes));
    }
    files
}

#[test]
fn git_imports_replace_redacted_content() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let dir = sandbox.folder().join("work");
    fs::create_dir(&dir).unwrap();
    let git = Git::init(&dir);
    fs::write(dir.join("login"), "the key is k-1234").unwrap();
    git.run(&["add", "-A"]);
    git.run(&["commit", "-q", "-m", "log in"]);
    let repo = &sandbox.repo;
    import_all(repo, &dir);
    redact(repo, &Pattern::literal("k-1234", "[gone]").unwrap(), &stamp(2)).unwrap();
    let again = import(repo, &dir, &options("again", &[]), &mut |_, _| {}).unwrap();
    assert_eq!(again.notes[0].what, "its content was redacted from the store");
    let tip = repo.tip(&BranchName::main("again").unwrap()).unwrap();
    assert_eq!(files(repo, &tip)["login"].1, b"the key is [gone]");
}

fn turns(repo: &Repository) -> Vec<LogEntry> {
    let starts: Vec<ObjectId> = repo.branches().into_iter().map(|(_, tip)| tip).collect();
    repo.history(&starts, &[]).unwrap().collect::<Result<_, _>>().unwrap()
}

fn branches(repo: &Repository) -> Vec<String> {
    repo.branches().into_iter().map(|(name, _)| name.to_string()).collect()
}

/// A repository with every kind of content.
fn project(dir: &Path) -> Git {
    let git = Git::init(dir);
    let write = |name: &str, text: &str| {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), text).unwrap();
    };
    let commit = |message: &str| {
        git.run(&["add", "-A"]);
        git.run(&["commit", "-q", "--allow-empty-message", "-m", message]);
    };
    write("src/a.rs", "fn a() {}\n");
    write("odd \"é\"\nname", "x");
    write("%2Egit", "kept as it is");
    symlink("src/a.rs", dir.join("link")).unwrap();
    commit("first\n\nwith a body\n\nSigned-off-by: Ada <ada@example>\nReviewed-by: Bob");
    git.run(&["mv", "src/a.rs", "src/b.rs"]);
    write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    commit("rename");
    git.run(&["checkout", "-q", "-b", "feature/x"]);
    write("x", "of x\n");
    commit("x");
    git.run(&["checkout", "-q", "main"]);
    fs::remove_file(dir.join("link")).unwrap();
    write("link/now", "a folder\n");
    fs::set_permissions(dir.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    commit("");
    git.run(&["merge", "-q", "--no-ff", "-m", "merge x", "feature/x"]);
    git.run(&["tag", "-a", "-m", "one", "v1"]);
    git
}

/// Fails unless every commit of the repository is a snapshot with the same files and parents.
fn expect_same(repo: &Repository, git: &Git) {
    let turns = turns(repo);
    let of_git = |id: &ObjectId| repo.commit(id).unwrap().metadata["git-commit"].clone();
    let log = git.run(&["log", "--branches", "--format=%H %P"]);
    let log: BTreeMap<&str, &str> =
        log.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
    assert_eq!(turns.len(), log.len());
    for LogEntry { id, commit, .. } in &turns {
        let name = of_git(id);
        assert_eq!(files(repo, id), git.files(&name), "{}", commit.message);
        let parents: Vec<String> = commit.parents.iter().map(of_git).collect();
        assert_eq!(parents.join(" "), log[name.as_str()]);
    }
}

#[test]
fn git_imports_keep_files_branches_and_merges() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    let report = import_all(repo, &git.dir);
    assert_eq!((report.commits, &report.notes[..]), (5, &[][..]));
    assert_eq!(branches(repo), ["s/feature/x", "s/main"]);
    expect_same(repo, &git);
    let turns = turns(repo);
    assert_eq!(turns[0].commit.trigger, Trigger::Merge);
    assert_eq!((turns[0].commit.turn, turns[0].commit.message.as_str()), (4, "merge x"));
    let first = turns.last().unwrap();
    assert_eq!(first.commit.author.agent, "Ada");
    assert_eq!(first.commit.time.micros, 1_700_000_000_000_000);
    assert_eq!(first.commit.time.offset_minutes, 90);
    assert!(first.commit.message.starts_with("first\n\nwith a body\n"));
    let (store, context) = (repo, repo.context(&first.id).unwrap());
    let entry = |key: &[u8]| {
        let item = context.map(store, "git").unwrap().get(store, key).unwrap().unwrap();
        String::from_utf8(store.read_as(Kind::Blob, &item.link.id).unwrap().to_vec()).unwrap()
    };
    assert_eq!(entry(b"author"), "Ada <ada@example> 1700000000 +0130");
    assert_eq!(entry(b"trailers"), "Signed-off-by: Ada <ada@example>\nReviewed-by: Bob");
    assert_eq!(repo.head().unwrap().branch.to_string(), "s/main");
}

#[test]
fn git_imports_add_new_commits_and_branch_off_rewritten_ones() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    import_all(repo, &git.dir);
    let sequence = repo.refs().sequence;
    assert_eq!(import_all(repo, &git.dir).commits, 0);
    assert_eq!(repo.refs().sequence, sequence, "nothing new is no operation");

    fs::write(git.dir.join("new"), "new\n").unwrap();
    git.run(&["add", "-A"]);
    git.run(&["commit", "-q", "-m", "more"]);
    let report = import_all(repo, &git.dir);
    assert_eq!(report.commits, 1);
    assert_eq!(report.branches.iter().filter(|found| found.moved).count(), 1);
    expect_same(repo, &git);

    let main = BranchName::main("s").unwrap();
    let before = repo.tip(&main).unwrap();
    git.run(&["commit", "-q", "--amend", "-m", "other words"]);
    let report = import_all(repo, &git.dir);
    assert_eq!((report.commits, repo.tip(&main)), (1, Some(before)));
    assert!(report.notes[0].what.starts_with("was rewritten"), "{:?}", report.notes);
    let short = git.run(&["rev-parse", "--short=8", "main"]);
    assert!(branches(repo).contains(&format!("s/main-{short}")));
    assert_eq!(import_all(repo, &git.dir).commits, 0);
}

#[test]
fn git_imports_select_branches_tags_and_commits() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    let short = git.run(&["rev-parse", "--short=9", "main~1"]);
    for (session, revision, expected, commits) in [
        ("a", "feature/x", "a/feature/x", 3),
        ("b", "v1", "b/v1", 5),
        ("c", "refs/heads/main", "c/main", 5),
        ("d", &short, &*format!("d/{}", &short[..8]), 3),
    ] {
        let options = options(session, &[revision]);
        let report = import(repo, &git.dir, &options, &mut |_, _| {}).unwrap();
        assert_eq!(report.branches[0].branch.to_string(), expected);
        assert_eq!(report.commits, commits, "{revision}");
    }
    let error = import(repo, &git.dir, &options("e", &["nowhere"]), &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let clone = git.clone_to(&sandbox.folder().join("clone"));
    let options = options("f", &["origin/feature/x"]);
    assert_eq!(import(repo, &clone.dir, &options, &mut |_, _| {}).unwrap().commits, 3);
}

turntree_properties::properties! {
    cases = 12;

    #[test]
    fn git_exports_reimport_with_the_same_files(steps in steps()) {
        if !is_installed() {
            return Ok(());
        }
        let history = RandomHistory::new(&steps);
        let dir = history.sandbox.folder().join("out.git");
        let repo = &history.sandbox.repo;
        export(repo, &dir, &GitExportOptions::default(), &mut |_, _| {}).unwrap();
        let copy = Sandbox::new();
        let report = import_all(&copy.repo, &dir);
        prop_assert_eq!(&report.notes, &[]);
        let names = |repo: &Repository| {
            repo.branches().into_iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        prop_assert_eq!(names(&copy.repo), names(repo));
        for LogEntry { id, commit, .. } in turns(&copy.repo) {
            let before: ObjectId = commit.metadata["git-snapshot"].parse().unwrap();
            prop_assert_eq!(files(&copy.repo, &id), files(repo, &before));
            let original = repo.commit(&before).unwrap();
            prop_assert_eq!(&commit.message, &original.message);
            prop_assert_eq!((commit.turn, commit.time), (original.turn, original.time));
            prop_assert_eq!((commit.author, commit.trigger), (original.author, original.trigger));
        }
        prop_assert_eq!(import_all(&copy.repo, &dir).commits, 0);
    }
}

/// A commit of a tree that git would not create.
fn commit_tree(git: &Git, entries: &[(&str, &str, &str)]) -> String {
    let mut tree = Vec::new();
    for (mode, name, id) in entries {
        tree.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        let bytes = (0..40).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap());
        tree.extend(bytes);
    }
    let hash = ["hash-object", "-t", "tree", "-w", "--stdin", "--literally"];
    let tree = String::from_utf8(git.bytes(&hash, &tree)).unwrap();
    let commit = git.run(&["commit-tree", tree.trim(), "-m", "hostile"]);
    git.run(&["update-ref", "refs/heads/main", &commit]);
    commit
}

#[test]
fn git_imports_decode_declared_encodings() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = Git::init(&sandbox.folder().join("latin"));
    let write = |kind: &str, bytes: &[u8]| {
        let words = ["hash-object", "-t", kind, "-w", "--stdin", "--literally"];
        String::from_utf8(git.bytes(&words, bytes)).unwrap().trim().to_owned()
    };
    let tree = write("tree", b"");
    let person = b"Andr\xe9 <a@example.org> 1700000000 +0000\n";
    let mut commit = format!("tree {tree}\nauthor ").into_bytes();
    commit
        .extend([&person[..], b"committer ", person, b"encoding ISO-8859-1\n\ncaf\xe9\n"].concat());
    let commit = write("commit", &commit);
    let mut tag = format!("object {commit}\ntype commit\ntag v1\ntagger ").into_bytes();
    tag.extend([&person[..], b"encoding ISO-8859-1\n\ntagg\xe9\n"].concat());
    let tag = write("tag", &tag);
    git.run(&["update-ref", "refs/heads/main", &commit]);
    git.run(&["update-ref", "refs/tags/v1", &tag]);
    let report = import_all(&sandbox.repo, &git.dir);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    let read = sandbox.repo.commit(&report.branches[0].head).unwrap();
    assert_eq!((read.author.agent.as_str(), read.message.as_str()), ("André", "café"));
    assert_eq!(report.tags.len(), 1);
}

#[test]
fn git_imports_skip_and_report_escaping_paths_and_large_files() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = Git::init(&sandbox.folder().join("hostile"));
    let hash = |bytes: &[u8]| {
        let id = git.bytes(&["hash-object", "-w", "--stdin"], bytes);
        String::from_utf8(id).unwrap().trim().to_owned()
    };
    let (blob, big) = (hash(b"x"), hash(&vec![b'b'; (1 << 20) + 1]));
    let inner = git.bytes(&["mktree"], format!("100644 blob {blob}\tconfig\n").as_bytes());
    let inner = String::from_utf8(inner).unwrap().trim().to_owned();
    commit_tree(
        &git,
        &[
            ("100644", "..", &blob),
            ("40000", ".git", &inner),
            ("40000", "..", &inner),
            ("100644", "a/../../b", &blob),
            ("100644", "big", &big),
            ("100644", "good", &blob),
            ("120000", "link", &hash(b"/etc/passwd")),
            ("160000", "module", &blob),
            ("40000", ".GIT ", &inner),
        ],
    );
    let report = import_all(&sandbox.repo, &git.dir);
    let kept: Vec<String> = files(&sandbox.repo, &report.branches[0].head).into_keys().collect();
    assert_eq!(kept, ["good", "link"]);
    let notes: BTreeMap<&str, &str> =
        report.notes.iter().map(|note| (note.place.as_str(), note.what.as_str())).collect();
    assert_eq!(notes.len(), 6, "{notes:?}");
    assert!(notes[".git/config"].contains("git's or turntree's own"), "{notes:?}");
    assert!(notes["a/../../b"].contains("points outside"), "{notes:?}");
    assert!(notes["big"].contains("larger than 1048576 bytes"), "{notes:?}");
    assert!(notes["module"].contains("a submodule, at commit"), "{notes:?}");
}

#[test]
fn git_tree_bombs_are_rejected() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = Git::init(&sandbox.folder().join("bomb"));
    let id = git.bytes(&["hash-object", "-w", "--stdin"], b"x");
    let mut line = format!("100644 blob {}", String::from_utf8(id).unwrap().trim());
    for _ in 0..9 {
        let tree: String = (0..10).map(|name| format!("{line}\t{name}\n")).collect();
        let id = git.bytes(&["mktree"], tree.as_bytes());
        line = format!("040000 tree {}", String::from_utf8(id).unwrap().trim());
    }
    let commit = git.run(&["commit-tree", &line[12..], "-m", "boom"]);
    git.run(&["update-ref", "refs/heads/main", &commit]);
    let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert_eq!(sandbox.repo.refs().sequence, 0);
}

#[test]
fn git_imports_limit_the_total_path_length() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = Git::init(&sandbox.folder().join("long"));
    let id = git.bytes(&["hash-object", "-w", "--stdin"], b"x");
    let mut line = format!("100644 blob {}", String::from_utf8(id).unwrap().trim());
    for _ in 0..5 {
        let name = |number: usize| format!("{line}\t{number}{}\n", "x".repeat(4000));
        let tree: String = (0..10).map(name).collect();
        let id = git.bytes(&["mktree"], tree.as_bytes());
        line = format!("040000 tree {}", String::from_utf8(id).unwrap().trim());
    }
    let commit = git.run(&["commit-tree", &line[12..], "-m", "boom"]);
    git.run(&["update-ref", "refs/heads/main", &commit]);
    let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("paths"), "{error}");
    assert_eq!(sandbox.repo.refs().sequence, 0);
}

#[test]
fn damaged_git_objects_are_rejected_without_store_changes() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = project(&sandbox.folder().join("project"));
    let objects: Vec<String> = git
        .run(&["rev-list", "--objects", "--all", "--no-object-names"])
        .lines()
        .map(str::to_owned)
        .collect();
    let tag = git.run(&["rev-parse", "v1"]);
    for id in objects.iter().filter(|id| **id != tag) {
        let path = git.dir.join(".git/objects").join(&id[..2]).join(&id[2..]);
        let whole = fs::read(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let other = objects.iter().find(|other| *other != id && **other != tag).unwrap();
        let other =
            fs::read(git.dir.join(".git/objects").join(&other[..2]).join(&other[2..])).unwrap();
        let mut flipped = whole.clone();
        let at = flipped.len() / 2;
        flipped[at] ^= 0x20;
        for wrong in [&whole[..whole.len() / 2], b"", &flipped, &other] {
            fs::write(&path, wrong).unwrap();
            assert!(try_import(&sandbox.repo, &git.dir).is_err(), "{id}");
        }
        fs::write(&path, &whole).unwrap();
    }
    assert_eq!(sandbox.repo.refs().sequence, 0);
    assert_eq!(import_all(&sandbox.repo, &git.dir).commits, 5);
}

#[test]
fn pipes_and_devices_in_a_git_repository_are_not_read() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = project(&sandbox.folder().join("project"));
    let dot = git.dir.join(".git");
    fs::write(dot.join("refs/heads/symbolic"), "ref: refs/heads/main\n").unwrap();
    fs::create_dir_all(dot.join("objects/info")).unwrap();
    let beside = sandbox.folder().join("beside");
    fs::create_dir_all(beside.join("info")).unwrap();
    let leads = format!("# others\n{}\n", beside.display());
    fs::write(dot.join("objects/info/alternates"), leads).unwrap();
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    };
    let endless = |path: &Path| symlink("/dev/zero", path).unwrap();
    let huge = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    let makers: [&dyn Fn(&Path); 3] = [&pipe, &endless, &huge];
    let places = [
        dot.join("HEAD"),
        dot.join("config"),
        dot.join("config.worktree"),
        dot.join("commondir"),
        dot.join("packed-refs"),
        dot.join("shallow"),
        dot.join("refs/heads/main"),
        dot.join("objects/info/alternates"),
        beside.join("info/alternates"),
    ];
    for place in places {
        let before = fs::read(&place).ok();
        for make in makers {
            let _ = fs::remove_file(&place);
            make(&place);
            let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::LimitExceeded),
                "{error}"
            );
            assert!(error.to_string().contains(place.to_str().unwrap()), "{error}");
        }
        fs::remove_file(&place).unwrap();
        before.into_iter().for_each(|bytes| fs::write(&place, bytes).unwrap());
    }
    let tree = sandbox.folder().join("tree");
    fs::create_dir(&tree).unwrap();
    for make in makers {
        make(&tree.join(".git"));
        assert!(try_import(&sandbox.repo, &tree).is_err());
        fs::remove_file(tree.join(".git")).unwrap();
    }
    assert_eq!(sandbox.repo.refs().sequence, 0);
    assert_eq!(import_all(&sandbox.repo, &git.dir).commits, 5);
}

#[test]
fn dangling_refs_and_reftables_are_reported() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = project(&sandbox.folder().join("project"));
    let missing = git.dir.join(".git/refs/heads/missing");
    fs::write(&missing, format!("{}\n", "1".repeat(40))).unwrap();
    let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("refs/heads/missing"), "{error}");
    fs::remove_file(&missing).unwrap();
    git.run(&["config", "core.repositoryFormatVersion", "1"]);
    git.run(&["config", "extensions.refStorage", "reftable"]);
    let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("reftable"), "{error}");
}

#[test]
fn impossible_paths_in_a_git_repository_are_invalid_input() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = project(&sandbox.folder().join("project"));
    for place in ["a\0b".to_owned(), "x".repeat(300)] {
        fs::write(git.dir.join(".git/objects/info/alternates"), place).unwrap();
        let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("it is not a valid path of a file"), "{error}");
    }
    fs::remove_file(git.dir.join(".git/objects/info/alternates")).unwrap();
    let long = format!("refs/heads/{}", "x".repeat(300));
    let asked = options("s", &[&long]);
    let error = import(&sandbox.repo, &git.dir, &asked, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    fs::write(git.dir.join(".git/refs/heads/leads"), format!("ref: {long}\n")).unwrap();
    let error = try_import(&sandbox.repo, &git.dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn git_imports_ignore_repository_settings_and_hooks() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = project(&sandbox.folder().join("project"));
    let mark = sandbox.folder().join("pwned");
    let touch = format!("touch {}", mark.display());
    for name in ["post-checkout", "reference-transaction", "fsmonitor-watchman"] {
        let hook = git.dir.join(".git/hooks").join(name);
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, format!("#!/bin/sh\n{touch}\n")).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(git.dir.join(".gitattributes"), "* filter=evil\n").unwrap();
    let config = fs::read_to_string(git.dir.join(".git/config")).unwrap();
    let evil = format!(
        "{config}[core]\n\tfsmonitor = {touch}\n\tsshCommand = {touch}\n\teditor = {touch}\n[filter \"evil\"]\n\tsmudge = {touch}\n\tclean = {touch}\n[include]\n\tpath = /etc/shadow\n"
    );
    fs::write(git.dir.join(".git/config"), evil).unwrap();
    assert_eq!(import_all(&sandbox.repo, &git.dir).commits, 5);
    assert!(!mark.exists());
    let error = try_import(&sandbox.repo, sandbox.folder()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("not a readable git repository"), "{error}");
}

#[test]
fn shallow_git_histories_begin_at_their_boundary() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let git = project(&sandbox.folder().join("project"));
    let dir = sandbox.folder().join("shallow");
    let from = format!("file://{}", git.dir.display());
    git.run(&["clone", "-q", "--depth", "1", &from, dir.to_str().unwrap()]);
    let report = import_all(&sandbox.repo, &dir);
    assert_eq!(report.commits, 1);
    assert!(report.notes[0].what.contains("history begins here"), "{:?}", report.notes);
    assert_eq!(files(&sandbox.repo, &report.branches[0].head), git.files("main"));
}

#[test]
fn git_commits_on_an_export_import_as_file_changes() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    sandbox.import("talk", turntree_tests::claude_code(12).as_bytes()).unwrap();
    let dir = sandbox.folder().join("out.git");
    export(repo, &dir, &GitExportOptions::default(), &mut |_, _| {}).unwrap();
    import_all(repo, &dir);
    let work = Git::at(&dir).clone_to(&sandbox.folder().join("work"));
    fs::create_dir_all(work.dir.join("files")).unwrap();
    fs::write(work.dir.join("files/by-hand"), "mine\n").unwrap();
    work.run(&["add", "-A"]);
    work.run(&["commit", "-q", "-m", "by hand"]);
    let report = import_all(repo, &work.dir);
    assert_eq!(report.commits, 1);
    let head = report.branches[0].head;
    let found = files(repo, &head);
    assert_eq!(found["by-hand"], ("100644".to_owned(), b"mine\n".to_vec()));
    assert!(found.keys().all(|path| !path.starts_with("agents/")), "{:?}", found.keys());
}
