//! Remotes in PostgreSQL, on a real server: the contract of a bucket, passwords, encrypted
//! connections, lost connections, and what two machines see of each other.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use turntree_tests::remote::{Team, expect_bucket};

use crate::remote_contract::served;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");
const PASSWORD: &str = "a:word\\of ours";

/// A server of PostgreSQL with its own data. It stops when dropped.
struct Server {
    dir: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server with the user `ann`, who needs a password; `None` without PostgreSQL.
    fn start() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin")).max()?;
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { dir, programs, port };
        fs::write(server.path("password"), PASSWORD).unwrap();
        let data = server.path("data");
        fs::create_dir(&data).unwrap();
        if is_root() {
            // The server refuses to run as root.
            let owner =
                Command::new("chown").args(["-R", "postgres"]).arg(server.dir.path()).status();
            assert!(owner.unwrap().success());
        }
        let file = format!("--pwfile={}", server.path("password").display());
        let words = ["--username=ann", "--auth=scram-sha-256", "--no-sync", &file, "-D"];
        server.run("initdb", &[&words[..], &[data.to_str().unwrap()]].concat());
        server.begin(&[]);
        Some(server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the server on its data, with these settings.
    fn begin(&self, settings: &[String]) {
        let sockets = self.dir.path().display();
        let mut options = format!("-p {} -k {sockets} -h 127.0.0.1", self.port);
        options.extend(settings.iter().map(|setting| format!(" -c {setting}")));
        let (data, log) = (self.path("data"), self.path("log"));
        let [data, log] = [&data, &log].map(|path| path.to_str().unwrap());
        self.run("pg_ctl", &["-D", data, "-l", log, "-w", "-o", &options, "start"]);
    }

    fn stop(&self) {
        let data = self.path("data");
        self.run("pg_ctl", &["-D", data.to_str().unwrap(), "-m", "immediate", "-w", "stop"]);
    }

    /// Runs a program of PostgreSQL as a user who may.
    fn run(&self, program: &str, words: &[&str]) {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let command = command.args(words).current_dir(self.dir.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a statement, and returns its rows as text.
    fn sql(&self, statement: &str) -> String {
        let url = format!("postgres://ann@127.0.0.1:{}/postgres", self.port);
        let mut command = Command::new(self.programs.join("psql"));
        let command = command.args(["-At", "-c", statement, &url]).env("PGPASSWORD", PASSWORD);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn url(&self, prefix: &str) -> String {
        format!("postgres://ann@127.0.0.1:{}/postgres/{prefix}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        } else if let Ok(text) = fs::read_to_string(self.path("data/postmaster.pid")) {
            let process = text.lines().next().unwrap_or_default().to_owned();
            let _ = Command::new("kill").args(["-QUIT", &process]).status();
        }
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().unwrap();
    output.stdout == b"0\n"
}

fn skipped() {
    eprintln!("skipped: PostgreSQL is not installed");
}

fn password() -> [(&'static str, String); 1] {
    [("PGPASSWORD", PASSWORD.to_owned())]
}

#[test]
fn postgresql_is_a_bucket() {
    let Some(server) = Server::start() else { return skipped() };
    // Commits are durable, whatever the server's default is.
    server.sql("ALTER SYSTEM SET synchronous_commit = off");
    server.sql("SELECT pg_reload_conf()");
    expect_bucket(&|| served(&server.url("team/a"), &password()), 10_100);
    let rows =
        "SELECT (SELECT count(*) FROM turntree_objects) + (SELECT count(*) FROM turntree_parts)";
    assert_eq!(server.sql(rows), "0", "deleted and replaced objects leave no row");
}

#[test]
fn two_machines_share_sessions_through_a_database() {
    let Some(server) = Server::start() else { return skipped() };
    let team = Team::new(PROGRAM, password());
    for (prefix, options) in [("plain", &[][..]), ("sealed", &["--encrypt"][..])] {
        let (url, here) = (server.url(prefix), |name: &str| format!("{name}-{prefix}"));
        team.machine(&here("ann"));
        team.turn(&here("ann"), "the first");
        team.ok(&here("ann"), &[&["remote", "add", "origin", &url], options].concat());
        team.ok(&here("ann"), &["push"]);
        team.ok(".", &["clone", &url, &here("bob")]);
        assert_eq!(team.tip(&here("bob"), "HEAD"), team.tip(&here("ann"), "HEAD"));
        // Both go on; the second push finds that it is late, and sync merges.
        team.turn(&here("ann"), "hers");
        team.turn(&here("bob"), "his");
        team.ok(&here("ann"), &["push"]);
        team.exits(3, &here("bob"), &["push"]);
        team.ok(&here("bob"), &["sync"]);
        team.ok(&here("ann"), &["sync"]);
        assert_eq!(team.tip(&here("bob"), "HEAD"), team.tip(&here("ann"), "HEAD"));
        team.ok(&here("ann"), &["remote", "check"]);
    }
    let names = |prefix: &str| {
        let found = "SELECT count(*) > 0 FROM turntree_objects WHERE key LIKE '%default%'";
        server.sql(&format!("{found} AND prefix = '{prefix}'"))
    };
    assert_eq!((names("plain").as_str(), names("sealed").as_str()), ("t", "f"));
}

#[test]
fn a_server_that_is_gone_or_comes_back_loses_nothing() {
    let Some(server) = Server::start() else { return skipped() };
    let team = Team::new(PROGRAM, password());
    team.machine("ann");
    team.turn("ann", "the first");
    team.ok("ann", &["remote", "add", "origin", &server.url("a")]);
    team.ok("ann", &["push"]);
    server.stop();
    team.turn("ann", "the second");
    let (_, errors) = team.exits(70, "ann", &["push"]);
    assert!(errors.contains("connect in postgres://ann@127.0.0.1"), "{errors}");
    server.begin(&[]);
    team.ok("ann", &["push"]);
    team.ok(".", &["clone", &server.url("a"), "bob"]);
    assert_eq!(team.tip("bob", "HEAD"), team.tip("ann", "HEAD"));
    // Kills pushes of large content at several points: the remote is whole, and the next push works.
    let work = team.path("ann/work");
    fs::create_dir(&work).unwrap();
    for round in 0..6_u32 {
        let bytes: Vec<u8> =
            (0..3_000_000_u32).map(|at| (at.wrapping_mul(round + 7) >> 11) as u8).collect();
        fs::write(work.join("large"), bytes).unwrap();
        team.ok("ann", &["snapshot", "-m", "large", "--workspace", "work"]);
        let mut push = team.command("ann", &["push"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(u64::from(round) * 15));
        let _ = push.kill();
        let _ = push.wait();
        team.ok("bob", &["fetch"]);
        team.ok("bob", &["remote", "check"]);
    }
    team.ok("ann", &["push"]);
    let orphans = "SELECT count(*) FROM turntree_parts \
         WHERE version NOT IN (SELECT version FROM turntree_objects)";
    assert_eq!(server.sql(orphans), "0");
}

#[test]
fn passwords_come_from_a_private_file_and_never_from_a_url() {
    let Some(server) = Server::start() else { return skipped() };
    let team = Team::new(PROGRAM, [("PGPASSFILE", "secrets")]);
    team.machine("ann");
    let add = |code, url: &str| team.exits(code, "ann", &["remote", "add", "origin", url]).1;
    let (scheme, rest) = ("postgres://", format!("127.0.0.1:{}/postgres", server.port));
    let errors = add(2, &format!("{scheme}ann:hush@{rest}"));
    assert!(errors.contains("put the password into PGPASSWORD or ~/.pgpass"), "{errors}");
    assert!(!errors.contains("hush"), "{errors}");
    let errors = add(70, &server.url(""));
    assert!(errors.contains("passwords come from PGPASSWORD or ~/.pgpass"), "{errors}");
    let file = team.path("ann/secrets");
    fs::write(&file, "*:*:*:ann:a\\:word\\\\of ours\n").unwrap();
    set_mode(&file, 0o644);
    let errors = add(70, &server.url(""));
    assert!(errors.contains("other users can read the passwords"), "{errors}");
    assert!(errors.contains("chmod 600"), "{errors}");
    set_mode(&file, 0o600);
    team.ok("ann", &["remote", "add", "origin", &server.url("")]);
    let stored = team.ok("ann", &["remote", "ls", "--json"]);
    assert!(!stored.contains("word"), "{stored}");
    let missing = server.url("").replace("/postgres/", "/nowhere/");
    let (_, errors) = team.exits(6, "ann", &["remote", "add", "other", &missing]);
    assert!(errors.contains("the server has no such database"), "{errors}");
    server.sql("DROP TABLE turntree_objects");
    team.turn("ann", "the first");
    let (_, errors) = team.exits(6, "ann", &["push"]);
    assert!(errors.contains("has no tables of turntree"), "{errors}");
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_encrypted_connection_verifies_the_server() {
    let Some(server) = Server::start() else { return skipped() };
    let (key, certificate) = (server.path("data/key.pem"), server.path("data/certificate.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"])
        .args([Path::new("-keyout"), &key, Path::new("-out"), &certificate])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    if is_root() {
        let owner = Command::new("chown").arg("postgres").args([&key, &certificate]).status();
        assert!(owner.unwrap().success());
    }
    set_mode(&key, 0o600);
    server.stop();
    let setting = |name: &str, path: &Path| format!("{name}={}", path.display());
    server.begin(&[
        "ssl=on".to_owned(),
        setting("ssl_key_file", &key),
        setting("ssl_cert_file", &certificate),
    ]);
    let url = server.url("a?sslmode=require");
    let team = Team::new(PROGRAM, password());
    team.machine("ann");
    let (_, errors) = team.exits(70, "ann", &["remote", "add", "origin", &url]);
    assert!(errors.contains("the certificate of the server is not trusted"), "{errors}");
    assert!(errors.contains("SSL_CERT_FILE"), "{errors}");
    let known = certificate.display().to_string();
    let knows = [("PGPASSWORD", PASSWORD.to_owned()), ("SSL_CERT_FILE", known)];
    let team = Team::new(PROGRAM, knows);
    team.machine("bob");
    team.turn("bob", "the first");
    team.ok("bob", &["remote", "add", "origin", &url]);
    team.ok("bob", &["push"]);
}
