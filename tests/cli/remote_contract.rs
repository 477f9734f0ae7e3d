//! Every kind of bucket fulfils the contract of remotes: the same tests for all.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use turntree::store::RealIo;
use turntree::transfer::remote::{Bucket, FolderBucket, Pipe, PipeBucket};
use turntree_tests::remote::{MemoryBucket, ObjectServer, expect_bucket};

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// A bucket that the program serves for a URL.
pub(crate) fn served(url: &str, environment: &[(&'static str, String)]) -> Box<dyn Bucket> {
    let (url, environment) = (url.to_owned(), environment.to_vec());
    Box::new(PipeBucket::new(move || {
        let mut command = Command::new(PROGRAM);
        command.args(["remote", "serve", "--make", &url]).env_clear();
        command.envs(environment.clone()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Ok(Pipe { input: Box::new(input), output: Box::new(output), guard: Box::new(Ended(child)) })
    }))
}

/// A process that is killed when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn memory_is_a_bucket() {
    let bucket = MemoryBucket::new(1);
    expect_bucket(&|| Box::new(bucket.client()), 1100);
}

fn folder(path: &Path) -> Box<dyn Bucket> {
    static SALT: AtomicU8 = AtomicU8::new(0);
    let salt = [SALT.fetch_add(1, Ordering::Relaxed); 16];
    Box::new(FolderBucket::create(Arc::new(RealIo), path, salt).unwrap())
}

#[test]
fn a_folder_is_a_bucket() {
    let dir = tempfile::tempdir().unwrap();
    expect_bucket(&|| folder(&dir.path().join("remote")), 20);
}

#[test]
fn a_folder_of_another_machine_is_a_bucket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("remote");
    expect_bucket(&|| served(path.to_str().unwrap(), &[]), 1100);
}

#[test]
fn a_bucket_of_s3_is_one() {
    let server = ObjectServer::start();
    expect_bucket(&|| served(&server.url("team/a"), &server.environment()), 2100);
    assert!(server.objects().is_empty(), "the test objects were deleted");
}

/// Starts a third-party server that prints a word when it is ready. `None` if it is missing or
/// prints nothing.
fn start(command: &mut Command, word: &'static str) -> Option<Ended> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Ended(command.spawn().ok()?);
    let output = BufReader::new(server.0.stdout.take()?);
    let (say, hear) = channel();
    // Keeps reading: a server could block on a full pipe.
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if line.contains(word) {
                let _ = say.send(());
            }
        }
    });
    hear.recv_timeout(Duration::from_secs(60)).ok().map(|()| server)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The folder into which `.ci/run` installs third-party programs.
fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(name)
}

#[test]
fn s3_as_moto_serves_it_is_a_bucket() {
    let port = free_port();
    let script = format!(
        "import boto3, threading
from moto.server import ThreadedMotoServer
ThreadedMotoServer(ip_address='127.0.0.1', port={port}, verbose=False).start()
s3 = boto3.client('s3', endpoint_url='http://127.0.0.1:{port}', region_name='us-east-1',
    aws_access_key_id='a', aws_secret_access_key='b')
s3.create_bucket(Bucket='agents')
print('ready', flush=True)
threading.Event().wait()"
    );
    let python = installed("moto/bin/python");
    let Some(_server) = start(Command::new(python).args(["-c", &script]), "ready") else {
        eprintln!("skipped: moto is not installed, or does not answer");
        return;
    };
    let url = format!("s3://agents/team?region=us-east-1&endpoint=http://127.0.0.1:{port}");
    let keys = [("AWS_ACCESS_KEY_ID", "a".to_owned()), ("AWS_SECRET_ACCESS_KEY", "b".to_owned())];
    expect_bucket(&|| served(&url, &keys), 20);
}

/// The fixed account of every Azurite.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Creates a container, which a remote expects to exist.
const MAKE_CONTAINER: &str = "
import base64, email.utils, hashlib, hmac, sys, urllib.request
endpoint, account, key = sys.argv[1:]
headers = {'x-ms-date': email.utils.formatdate(usegmt=True), 'x-ms-version': '2021-08-06'}
signed = 'PUT' + 12 * '\\n' + ''.join(f'{name}:{headers[name]}\\n' for name in sorted(headers))
signed += f'/{account}/{account}/agents\\nrestype:container'
mac = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
headers['Authorization'] = f'SharedKey {account}:{base64.b64encode(mac).decode()}'
url = f'{endpoint}/agents?restype=container'
urllib.request.urlopen(urllib.request.Request(url, method='PUT', headers=headers), timeout=60)";

#[test]
fn azure_as_azurite_serves_it_is_a_bucket() {
    let port = free_port();
    let main = installed("azurite/node_modules/azurite/dist/src/blob/main.js");
    let mut node = Command::new("node");
    node.arg(&main).args([
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--disableTelemetry",
        "--blobPort",
    ]);
    let server = main.exists().then(|| start(node.arg(port.to_string()), "listens")).flatten();
    let endpoint = format!("http://127.0.0.1:{port}/{ACCOUNT}");
    let mut python = Command::new("python3");
    python.args(["-c", MAKE_CONTAINER, &endpoint, ACCOUNT, KEY]);
    let is_made = server.is_some() && python.status().is_ok_and(|status| status.success());
    if !is_made {
        eprintln!("skipped: Azurite is not installed, or does not answer");
        return;
    }
    let url = format!("az://agents/team?account={ACCOUNT}&endpoint={endpoint}");
    expect_bucket(&|| served(&url, &[("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned())]), 20);
}
