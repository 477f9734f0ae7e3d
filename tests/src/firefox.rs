//! Drives a headless Firefox over the socket of its Marionette. Tests skip if no Firefox is
//! installed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::browser::is_installed;

/// The names of its program on different systems.
const NAMES: [&str; 2] = ["firefox-esr", "firefox"];

/// The timeout of its start and of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The file of a profile in which a started browser writes its port.
const PORT: &str = "MarionetteActivePort";

/// Settings of the profile: any free port, and no requests of the browser's own.
const SETTINGS: &str = r#"user_pref("marionette.port", 0);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"#;

/// Errors of scripts and policies that the browser has noted about pages, not about itself.
const PROBLEMS: &str = "const found = [];
for (const message of Services.console.getMessageArray()) {
  try {
    message.QueryInterface(Ci.nsIScriptError);
    const isError = !(message.flags & message.warningFlag) && message.category !== 'Async Pan/Zoom';
    if (isError && /^(http|file):/.test(message.sourceName)) found.push(message.errorMessage);
  } catch { /* No error of a script. */ }
}
Services.console.reset();
return found;";

/// A browser with one page.
pub struct Firefox {
    child: Child,
    output: TcpStream,
    input: BufReader<TcpStream>,
    next: u64,
    _profile: tempfile::TempDir,
}

impl Firefox {
    /// Starts a browser, or prints why the test is skipped.
    ///
    /// # Panics
    /// If an installed browser does not work.
    #[must_use]
    pub fn start() -> Option<Self> {
        let Some(program) = NAMES.into_iter().find(|name| is_installed(name)) else {
            eprintln!("skipped: no Firefox is installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        fs::write(profile.path().join("user.js"), SETTINGS).unwrap();
        let child = Command::new(program)
            .args(["--headless", "--no-remote", "--marionette", "--remote-allow-system-access"])
            .arg("--profile")
            .arg(profile.path())
            .env("HOME", profile.path())
            .env("TZ", "UTC")
            .env("MOZ_CRASHREPORTER_DISABLE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let port = loop {
            let port = fs::read_to_string(profile.path().join(PORT)).unwrap_or_default();
            if let Ok(port) = port.trim().parse::<u16>() {
                break port;
            }
            assert!(begun.elapsed() < PATIENCE, "{program} gives no port");
            thread::yield_now();
        };
        let output = TcpStream::connect(("127.0.0.1", port)).unwrap();
        output.set_read_timeout(Some(PATIENCE)).unwrap();
        let input = BufReader::new(output.try_clone().unwrap());
        let mut browser = Self { child, output, input, next: 0, _profile: profile };
        assert_eq!(browser.receive()["marionetteProtocol"], 3);
        browser.call("WebDriver:NewSession", &json!({}));
        Some(browser)
    }

    /// Opens a page of a server, and waits until it is shown.
    ///
    /// # Panics
    /// If the page is not shown.
    pub fn visit(&mut self, url: &str) {
        self.call("WebDriver:Navigate", &json!({"url": "about:blank"}));
        self.call("WebDriver:Navigate", &json!({ "url": url }));
        self.wait("performance.getEntriesByName('turntree-shown').length > 0");
    }

    /// Evaluates an expression. Awaits a promise.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn ask(&mut self, expression: &str) -> Value {
        let script = format!(
            "const kept = arguments[0]; Promise.resolve((() => ({expression}))()).then(kept);"
        );
        self.call("WebDriver:ExecuteAsyncScript", &json!({"script": script, "args": []}))["value"]
            .clone()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// If the expression is still false after some seconds.
    pub fn wait(&mut self, condition: &str) {
        let promise = format!(
            "new Promise((kept) => {{ const until = Date.now() + 20000; const look = () => {{ \
             let is = false; try {{ is = Boolean({condition}); }} catch {{}} \
             if (is || Date.now() > until) kept(is); else setTimeout(look, 10); }}; look(); }})"
        );
        let script = format!("const kept = arguments[0]; {promise}.then(kept);");
        // A page that is unloading drops its promises, so ask again.
        for _ in 0..5 {
            let asked = json!({"script": script, "args": []});
            if self.exchange("WebDriver:ExecuteAsyncScript", &asked).1["value"] == json!(true) {
                return;
            }
        }
        panic!("never true: {condition}");
    }

    /// Clicks on the first element that a selector finds.
    ///
    /// # Panics
    /// If no element matches, or another element covers it.
    pub fn click(&mut self, selector: &str) {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.call("WebDriver:FindElement", &wanted);
        let id = found["value"].as_object().and_then(|names| names.values().next());
        self.call("WebDriver:ElementClick", &json!({"id": id}));
    }

    /// Presses keys together: characters, or [codes](https://www.w3.org/TR/webdriver2/#keyboard-actions).
    pub fn press(&mut self, keys: &[char]) {
        let act = |kind: &str, key: &char| json!({"type": kind, "value": key.to_string()});
        let down = keys.iter().map(|key| act("keyDown", key));
        let up = keys.iter().rev().map(|key| act("keyUp", key));
        let actions: Vec<Value> = down.chain(up).collect();
        let keyboard = json!([{"type": "key", "id": "keys", "actions": actions}]);
        self.call("WebDriver:PerformActions", &json!({ "actions": keyboard }));
    }

    /// Goes back in the history of the page.
    pub fn back(&mut self) {
        self.call("WebDriver:Back", &json!({}));
    }

    /// Resizes the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        self.call("WebDriver:SetWindowRect", &json!({"width": width, "height": height}));
    }

    /// Returns the errors of scripts and policies since the last call.
    pub fn problems(&mut self) -> Vec<String> {
        self.call("Marionette:SetContext", &json!({"value": "chrome"}));
        let asked = json!({"script": PROBLEMS, "args": []});
        let found = self.call("WebDriver:ExecuteScript", &asked)["value"].clone();
        self.call("Marionette:SetContext", &json!({"value": "content"}));
        serde_json::from_value(found).expect("a list of texts")
    }

    /// Makes a call and returns its result. A refused call fails the test.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        let (error, result) = self.exchange(method, params);
        assert!(error.is_null(), "{method}: {error}");
        result
    }

    /// Makes a call and returns the error and the result.
    fn exchange(&mut self, method: &str, params: &Value) -> (Value, Value) {
        self.next += 1;
        let message = json!([0, self.next, method, params]).to_string();
        let framed = format!("{}:{message}", message.len());
        self.output.write_all(framed.as_bytes()).expect("the browser is installed");
        loop {
            let answer = self.receive();
            if answer[1] == json!(self.next) {
                return (answer[2].clone(), answer[3].clone());
            }
        }
    }

    /// Reads a message: its length, a colon, and JSON.
    fn receive(&mut self) -> Value {
        let mut length = Vec::new();
        self.input.read_until(b':', &mut length).expect("an answer of the browser");
        let length = String::from_utf8_lossy(&length);
        let mut message = vec![0; length.trim_end_matches(':').parse().expect("a length")];
        self.input.read_exact(&mut message).expect("an answer of the browser");
        serde_json::from_slice(&message).expect("JSON of the browser")
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        // Its processes end with the first one, which may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
