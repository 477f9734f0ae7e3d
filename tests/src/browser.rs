//! Drives a headless Chromium over the pipe of its developer tools, without a port or a network.
//! Tests skip if no Chromium is installed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The names of its program on different systems.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The developer tools read messages from descriptor 3 and write to 4. A zero byte ends each
/// message.
const LAUNCH: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: Option<String>,
    problems: Vec<String>,
    /// The server that the page may request from.
    origin: Option<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser, or prints why the test is skipped.
    ///
    /// # Panics
    /// If an installed browser does not work.
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(program) = NAMES.into_iter().find(|name| is_installed(name)) else {
            eprintln!("skipped: no Chromium is installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", LAUNCH, "sh", program, "--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe"])
            .args(["--hide-scrollbars", "--window-size=1400,900"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let sent = serde_json::from_slice(&message).map(|value| sender.send(value));
                if !matches!(sent, Ok(Ok(()))) {
                    break;
                }
                message.clear();
            }
        });
        let (session, problems, origin) = (None, Vec::new(), None);
        let mut browser =
            Self { child, input, messages, next: 0, session, problems, origin, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Opens a file, at an anchor such as `#turn-3`, and waits until it is shown.
    ///
    /// # Panics
    /// If the page is not shown.
    pub fn open(&mut self, file: &Path, place: &str) {
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        let url = format!("file://{}{place}", file.display());
        self.call("Page.navigate", &json!({"url": url}));
        self.wait("performance.getEntriesByName('turntree-shown').length > 0");
    }

    /// Runs a script in every page before the page's own scripts.
    pub fn before(&mut self, script: &str) {
        let source = json!({"source": script});
        self.call("Page.addScriptToEvaluateOnNewDocument", &source);
    }

    /// Opens a page of a server, and waits until it is shown.
    ///
    /// # Panics
    /// If the page is not shown.
    pub fn visit(&mut self, url: &str) {
        self.go(url);
        self.wait("performance.getEntriesByName('turntree-shown').length > 0");
    }

    /// Opens a page of a server that waits before it shows anything.
    pub fn go(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": "about:blank"}));
        self.origin = url.split('/').nth(2).map(|host| format!("http://{host}/"));
        self.call("Page.navigate", &json!({"url": url}));
    }

    /// Evaluates an expression after pending changes are drawn. Awaits a promise.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn ask(&mut self, expression: &str) -> Value {
        // A page that is unloading drops its promise, and a page that is not drawn has a second.
        let drawn = "new Promise((kept) => { setTimeout(kept, 1000); \
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(kept))); })";
        self.call("Runtime.evaluate", &json!({"expression": drawn, "awaitPromise": true}));
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// If the expression is still false after some seconds.
    pub fn wait(&mut self, condition: &str) {
        let promise = format!(
            "new Promise((kept) => {{ const until = Date.now() + 50000; const look = () => {{ \
             let is = false; try {{ is = Boolean({condition}); }} catch {{}} \
             if (is || Date.now() > until) kept(is); else setTimeout(look, 10); }}; look(); }})"
        );
        // A page that is unloading drops or refuses its promises, so ask again.
        for _ in 0..5 {
            let asked = json!({"expression": promise, "awaitPromise": true, "returnByValue": true});
            let message = self.exchange("Runtime.evaluate", &asked);
            if message["result"]["result"]["value"] == json!(true) {
                return;
            }
        }
        panic!("never true: {condition}");
    }

    /// Clicks on the middle of the first element that a selector finds.
    ///
    /// # Panics
    /// If no element matches.
    pub fn click(&mut self, selector: &str) {
        let selector = Value::from(selector);
        let place = self.ask(&format!(
            "(() => {{ const one = document.querySelector({selector}); \
             one.scrollIntoView({{block: 'center'}}); const box = one.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        self.click_at(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    }

    /// Clicks on a point of the window.
    pub fn click_at(&mut self, x: f64, y: f64) {
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Drags the element at a point to another point.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        for (kind, (x, y), buttons) in [
            ("mouseMoved", from, 0),
            ("mousePressed", from, 1),
            ("mouseMoved", to, 1),
            ("mouseReleased", to, 0),
        ] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses a key: a character, or a name such as `Escape`.
    pub fn press(&mut self, key: &str) {
        let down = match key.chars().count() {
            1 => json!({"type": "keyDown", "key": key, "text": key}),
            // Browsers identify the Escape key by its code.
            _ => json!({"type": "keyDown", "key": key, "code": key,
                "windowsVirtualKeyCode": if key == "Escape" { 27 } else { 0 }}),
        };
        self.call("Input.dispatchKeyEvent", &down);
        self.call("Input.dispatchKeyEvent", &json!({"type": "keyUp", "key": key}));
    }

    /// Turns the mouse wheel at a point of the window.
    pub fn wheel(&mut self, x: f64, y: f64, by: f64) {
        let event = json!({"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by});
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Resizes the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        // Waits until the page is drawn at the new size.
        self.ask("new Promise((kept) => requestAnimationFrame(() => requestAnimationFrame(() => kept(1))))");
    }

    /// Types into the focused element.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", &json!({"text": text}));
    }

    /// Sets a media feature, such as `prefers-color-scheme`.
    pub fn prefer(&mut self, feature: &str, value: &str) {
        let features = json!([{"name": feature, "value": value}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Takes a picture of the window: PNG in base64.
    pub fn screenshot(&mut self) -> String {
        let format = json!({"format": "png", "optimizeForSpeed": true});
        let shot = self.call("Page.captureScreenshot", &format);
        shot["data"].as_str().unwrap_or_default().to_owned()
    }

    /// Prints the page as PDF, in base64.
    pub fn print(&mut self) -> String {
        let printed = self.call("Page.printToPDF", &json!({}));
        printed["data"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the problems since the last call: errors in the console, exceptions, dialogs, and
    /// requests for anything but files, data in the page and the server of the page.
    pub fn problems(&mut self) -> Vec<String> {
        self.ask("1");
        std::mem::take(&mut self.problems)
    }

    /// Makes a call and returns its result. A refused call fails the test.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let message = self.exchange(method, params);
        assert!(message.get("error").is_none(), "{method}: {message}");
        message["result"].clone()
    }

    /// Makes a call and returns the browser's answer.
    fn exchange(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("the browser is installed");
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("an answer of the browser");
            if message["id"] == json!(id) {
                return message;
            }
            self.problems.extend(problem(&message, self.origin.as_deref()));
            if message["method"] == "Page.javascriptDialogOpening" {
                panic!("a dialog was opened: {message}");
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Describes an event that should not have happened.
fn problem(event: &Value, origin: Option<&str>) -> Option<String> {
    let params = &event["params"];
    let is_bad = match event["method"].as_str()? {
        "Runtime.exceptionThrown" => true,
        "Runtime.consoleAPICalled" => params["type"] == "error" || params["type"] == "assert",
        "Log.entryAdded" => params["entry"]["level"] == "error",
        "Network.requestWillBeSent" => {
            let url = params["request"]["url"].as_str().unwrap_or_default();
            !["file:", "data:", "about:"]
                .into_iter()
                .chain(origin)
                .any(|start| url.starts_with(start))
        }
        _ => false,
    };
    is_bad.then(|| event.to_string())
}

/// Returns true if a program is in the search path.
pub(crate) fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}
