//! Drives the browser of WebKitGTK over its WebDriver, on a display of its own. Tests skip if one of
//! its programs is not installed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::is_installed;

const DRIVER: &str = "WebKitWebDriver";
const DISPLAY: &str = "Xvfb";

/// The timeout of its start and of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct WebKit {
    display: Child,
    driver: Child,
    port: u16,
    session: String,
    _home: tempfile::TempDir,
}

impl WebKit {
    /// Starts a browser, or prints why the test is skipped.
    ///
    /// # Panics
    /// If an installed browser does not work.
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(program) = program().filter(|_| [DRIVER, DISPLAY].into_iter().all(is_installed))
        else {
            eprintln!("skipped: no WebKit with a driver is installed");
            return None;
        };
        let home = tempfile::tempdir().unwrap();
        let mut display = Command::new(DISPLAY)
            .args(["-displayfd", "1", "-screen", "0", "2000x1200x24", "-nolisten", "tcp"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut number = String::new();
        BufReader::new(display.stdout.take().unwrap()).read_line(&mut number).unwrap();
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let driver = Command::new(DRIVER)
            .args(["-p", &port.to_string()])
            .env("DISPLAY", format!(":{}", number.trim()))
            .env("HOME", home.path())
            .env("TZ", "UTC")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "{DRIVER} does not listen");
            thread::yield_now();
        }
        let mut browser = Self { display, driver, port, session: String::new(), _home: home };
        let options = json!({"binary": program, "args": ["--automation"]});
        let wanted = json!({"alwaysMatch": {"webkitgtk:browserOptions": options}});
        let begun = browser.call("POST", "/session", &json!({ "capabilities": wanted }));
        browser.session = format!("/session/{}", begun["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// Opens a page, and waits until it is shown.
    ///
    /// # Panics
    /// If the page is not shown.
    pub fn visit(&mut self, url: &str) {
        self.post("/url", &json!({"url": "about:blank"}));
        self.post("/url", &json!({ "url": url }));
        self.wait("performance.getEntriesByName('turntree-shown').length > 0");
    }

    /// Evaluates an expression.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn ask(&mut self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// If the expression is still false after some seconds.
    pub fn wait(&mut self, condition: &str) {
        let begun = Instant::now();
        let tried = format!(
            "(() => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }})()"
        );
        while self.ask(&tried) != json!(true) {
            assert!(begun.elapsed() < PATIENCE, "never true: {condition}");
            thread::yield_now();
        }
    }

    /// Clicks on the first element that a selector finds.
    ///
    /// # Panics
    /// If no element matches, or another element covers it.
    pub fn click(&mut self, selector: &str) {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.post("/element", &wanted);
        let id = found.as_object().and_then(|names| names.values().next()?.as_str()).unwrap();
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    /// Presses a key.
    pub fn press(&mut self, key: char) {
        let act = |kind: &str| json!({"type": kind, "value": key.to_string()});
        let actions = [act("keyDown"), act("keyUp")];
        let keyboard = json!([{"type": "key", "id": "keys", "actions": actions}]);
        self.post("/actions", &json!({ "actions": keyboard }));
    }

    /// Goes back in the history of the page.
    pub fn back(&mut self) {
        self.post("/back", &json!({}));
    }

    /// Resizes the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        self.post("/window/rect", &json!({"width": width, "height": height}));
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// Makes a call and returns its result. A refused call fails the test.
    fn call(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let length = body.len();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer of the browser");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
        let answer: Value = serde_json::from_str(body).expect("JSON of the browser");
        answer["value"].clone()
    }
}

/// The program of the browser, which is in no search path.
fn program() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let versions = ["webkitgtk-6.0", "webkit2gtk-4.1", "webkit2gtk-4.0"];
    let programs =
        folders.flat_map(|folder| versions.map(|version| folder.join(version).join("MiniBrowser")));
    programs.into_iter().find(|program| program.is_file())
}

impl Drop for WebKit {
    fn drop(&mut self) {
        for child in [&mut self.driver, &mut self.display] {
            // Its browser ends with the driver, which may have ended before.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
