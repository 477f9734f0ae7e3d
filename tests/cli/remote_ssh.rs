//! Remotes on another machine: the program runs there, started by a configurable command.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use turntree_tests::remote::Team;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A machine `here`, and a replacement for ssh that runs commands on this machine and records its
/// arguments.
fn near(script: &str) -> Team {
    let team =
        Team::new(PROGRAM, [("PATH", "/usr/bin:/bin"), ("TURNTREE_SSH_COMMAND", "../ssh -x")]);
    fs::create_dir(team.path("there")).unwrap();
    fs::create_dir(team.path("bin")).unwrap();
    std::os::unix::fs::symlink(PROGRAM, team.path("bin/turntree")).unwrap();
    fs::write(team.path("ssh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(team.path("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    team.machine("here");
    team.turn("here", "the first");
    team
}

/// Acts like ssh: the last argument goes to the shell of the other machine.
const PASS: &str = r#"echo "$@" >> ../asked
for last; do :; done
cd ../there && PATH="$PWD/../bin:$PATH" exec sh -c "$last""#;

#[test]
fn a_folder_of_another_machine_is_pushed_to_fetched_from_and_cloned() {
    let team = near(PASS);
    team.ok("here", &["remote", "add", "origin", "box:it's here"]);
    team.ok("here", &["push"]);
    team.turn("here", "the second");
    team.ok("here", &["push"]);
    assert!(team.path("there/it's here/heads/default").exists());
    let url = format!("ssh://me@box:2222{}", team.path("there/it's here").display());
    team.ok("here", &["clone", &url, "../other"]);
    assert_eq!(team.tip("other", "HEAD"), team.tip("here", "HEAD"));
    team.turn("other", "of the other");
    team.ok("other", &["push"]);
    team.ok("here", &["sync"]);
    assert_eq!(team.tip("other", "HEAD"), team.tip("here", "HEAD"));
    let asked = fs::read_to_string(team.path("asked")).unwrap();
    assert!(asked.contains("-x box turntree remote serve --make 'it'\\''s here'"), "{asked}");
    assert!(asked.contains("-x -p 2222 me@box turntree remote serve '/"), "{asked}");
}

#[test]
fn whatever_is_at_the_other_end_is_told_and_changes_nothing() {
    let team = near(PASS);
    team.ok("here", &["remote", "add", "origin", "box:remote"]);
    team.ok("here", &["push"]);
    let known = team.tip("here", "origin/main");
    for (script, code, expected) in [
        ("exit 255", 70, "ended before its greeting"),
        ("echo 'Welcome to box'; cat", 70, "Welcome to box"),
        ("yes", 70, "expected \"turntree remote 1\""),
        ("echo 'turntree remote 2'; cat", 70, "turntree remote 2"),
        ("echo 'turntree remote 1'", 70, ""),
        ("echo 'turntree remote 1'; yes", 2, "frame's header"),
        (
            "echo 'turntree remote 1'; printf '\\2\\0\\0\\0\\0\\0\\0\\0{}'; cat >/dev/null",
            4,
            "a frame",
        ),
        // It reads the request, so that the request itself does not fail.
        (
            "echo 'turntree remote 1'; head -c 8 >/dev/null; printf '\\5\\0\\0\\0\\0\\0\\0\\0{\"a'",
            70,
            "read a frame",
        ),
    ] {
        fs::write(team.path("ssh"), format!("#!/bin/sh\n{script}\n")).unwrap();
        for words in [&["fetch"][..], &["push"]] {
            let (_, said) = team.exits(code, "here", words);
            assert!(said.contains(expected), "{script}: {said}");
        }
        assert_eq!(team.tip("here", "origin/main"), known);
    }
    fs::remove_file(team.path("ssh")).unwrap();
    team.exits(70, "here", &["fetch"]);
    team.ok("here", &["fsck"]);
    fs::write(team.path("ssh"), format!("#!/bin/sh\n{PASS}\n")).unwrap();
    fs::set_permissions(team.path("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    team.ok("here", &["fetch"]);
    team.exits(6, "here", &["clone", "box:nothing", "../other"]);
    assert!(!team.path("other/.turntree").exists());
}

#[test]
fn an_encrypted_remote_on_another_machine_shows_it_nothing() {
    const TEXT: &str = "words that the other machine does not see";
    let team = near(PASS);
    team.turn("here", TEXT);
    team.ok("here", &["remote", "add", "origin", "box:sealed", "--encrypt"]);
    team.ok("here", &["push"]);
    team.ok("here", &["clone", "box:sealed", "../other"]);
    team.turn("other", TEXT);
    team.ok("other", &["push"]);
    team.ok("here", &["sync"]);
    assert_eq!(team.tip("other", "HEAD"), team.tip("here", "HEAD"));
    assert_eq!(team.json("here", &["remote", "gc", "--aggressive"])[0]["dry_run"], false);
    let checked = team.json("here", &["remote", "check"]);
    assert_eq!(checked[0]["missing"].as_array().map(Vec::len), Some(0));
    let mut folders = vec![team.path("there/sealed")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            assert!(!entry.to_string_lossy().contains("default"), "{entry:?} names the session");
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let bytes = fs::read(&entry).unwrap();
            let is_seen = bytes.windows(TEXT.len()).any(|part| part == TEXT.as_bytes());
            assert!(!is_seen, "{entry:?}");
        }
    }
    // A user who reaches the machine, but is no member.
    let mut stranger = team.command("here", &["clone", "box:sealed", "../stranger"]);
    let refused = stranger.env("HOME", team.path("stranger")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(!team.path("stranger/.turntree").exists());
}

/// Starts the ssh server on loopback, once per connection on its standard streams.
fn real_ssh(team: &Team) -> Option<String> {
    let sshd = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"]
        .into_iter()
        .find(|path| fs::metadata(path).is_ok())?;
    let quiet = |command: &mut Command| {
        let ended =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|status| status.success())
    };
    for name in ["host", "user"] {
        let file = team.path(name);
        if !quiet(
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file),
        ) {
            return None;
        }
    }
    let at = |name: &str| team.path(name).display().to_string();
    fs::copy(team.path("user.pub"), team.path("keys")).ok()?;
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\nSetEnv PATH={}:/usr/bin:/bin\n",
        at("host"),
        at("keys"),
        at("bin")
    );
    fs::write(team.path("config"), config).ok()?;
    // Inetd mode needs no port: the client's bytes go to the server's standard input.
    let proxy = format!("{sshd} -i -f {}", at("config"));
    let command = format!(
        "ssh -F none -o BatchMode=yes -o ConnectTimeout=30 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o IdentitiesOnly=yes -i {} -o 'ProxyCommand={proxy}'",
        at("user")
    );
    let tried = format!("timeout 60 {command} localhost true");
    quiet(Command::new("sh").args(["-c", &tried])).then_some(command)
}

#[test]
fn the_real_ssh_leads_there() {
    let team = near(PASS);
    let Some(command) = real_ssh(&team) else {
        eprintln!("skipped: the server of OpenSSH is not installed, or refuses this user");
        return;
    };
    let run = |words: &[&str]| {
        let mut run = team.command("here", words);
        run.env("TURNTREE_SSH_COMMAND", &command);
        let output = run.output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    let url = format!("ssh://localhost{}", team.path("there/remote").display());
    run(&["remote", "add", "origin", &url]);
    run(&["push"]);
    run(&["fetch"]);
    run(&["clone", &url, "../other"]);
    assert_eq!(team.tip("other", "HEAD"), team.tip("here", "HEAD"));
}
