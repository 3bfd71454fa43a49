//! A page of Weir in the browser of the suite: its content, requests and errors.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::test_env::{Case, TEST_TIMEOUT};

/// Interval at which the state of a page is polled; three processes take part in it.
const PAGE_LOOK: Duration = Duration::from_millis(100);

/// A tab with a separate profile, closed when dropped.
#[derive(Debug)]
pub(crate) struct Page {
    child: Child,
    stdin: RefCell<ChildStdin>,
    lines: Receiver<String>,
    seen: RefCell<PageState>,
}

/// Requests and errors of the page so far.
#[derive(Debug, Default)]
struct PageState {
    requests: Vec<String>,
    complaints: Vec<String>,
}

impl Page {
    /// Opens an address.
    pub(crate) fn open(case: &Case<'_>, url: &str) -> Result<Self> {
        let (mut command, _) = case.sdk().page_command().context("no browser")?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(case.dir().join("page.log"))?)
            .spawn()
            .context("the page's driver did not start")?;
        let stdin = child.stdin.take().context("the driver's stdin")?;
        let stdout = child.stdout.take().context("the driver's stdout")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let page = Self {
            child,
            stdin: RefCell::new(stdin),
            lines,
            seen: RefCell::default(),
        };
        page.navigate(url)?;
        Ok(page)
    }

    /// Opens another address and waits until it is loaded.
    pub(crate) fn navigate(&self, url: &str) -> Result<()> {
        self.ask(&json!({ "cmd": "open", "url": url })).map(drop)
    }

    fn ask(&self, command: &Value) -> Result<Value> {
        writeln!(self.stdin.borrow_mut(), "{command}").context("the page reads no command")?;
        loop {
            let line = self.lines.recv_timeout(TEST_TIMEOUT);
            let line = line.with_context(|| format!("no answer to {command}"))?;
            let mut line: Value = serde_json::from_str(&line)?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if let Some(answer) = line.get_mut("answer") {
                return Ok(answer.take());
            }
            let mut seen = self.seen.borrow_mut();
            match (&line["error"], &line["request"], &line["complaint"]) {
                (Value::String(error), _, _) => bail!("{command}: {error}"),
                (_, request @ Value::String(_), _) => seen.requests.push(text(request)),
                (_, _, complaint) => seen.complaints.push(text(complaint)),
            }
        }
    }

    /// Returns the value of a JavaScript expression.
    pub(crate) fn evaluate(&self, expression: &str) -> Result<Value> {
        self.ask(&json!({ "cmd": "evaluate", "expression": expression }))
    }

    /// Presses a key, with the name that browsers give it.
    pub(crate) fn press(&self, key: &str) -> Result<()> {
        self.ask(&json!({ "cmd": "press", "key": key })).map(drop)
    }

    /// Types a text into the element that has the keyboard.
    pub(crate) fn type_text(&self, text: &str) -> Result<()> {
        self.ask(&json!({ "cmd": "type", "text": text })).map(drop)
    }

    /// Returns what axe-core finds.
    pub(crate) fn audit(&self) -> Result<Value> {
        self.ask(&json!({ "cmd": "audit" }))
    }

    /// Waits until the value of an expression is accepted.
    pub(crate) fn until(
        &self,
        expression: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let value = self.evaluate(expression)?;
            if wanted(&value) {
                return Ok(value);
            }
            ensure!(
                Instant::now() < deadline,
                "{expression} stays {value}; {:?}",
                self.seen.borrow().complaints
            );
            thread::sleep(PAGE_LOOK);
        }
    }

    /// Waits until an expression has this value.
    pub(crate) fn until_is(&self, expression: &str, wanted: &str) -> Result<()> {
        self.until(expression, |value| value == wanted).map(drop)
    }

    /// Sets the window size and the color scheme, light or dark, and saves a screenshot.
    pub(crate) fn view(&self, size: (u32, u32), scheme: &str, picture: &Path) -> Result<()> {
        let (width, height) = size;
        self.ask(&json!({ "cmd": "view", "width": width, "height": height, "scheme": scheme }))?;
        self.ask(&json!({ "cmd": "picture", "file": picture }))?;
        Ok(())
    }

    /// Checks that the page has no errors and warnings, and that all its requests start with one of
    /// these texts.
    pub(crate) fn finish(self, own: &[&str]) -> Result<()> {
        self.evaluate("0")?;
        let seen = self.seen.borrow();
        let is_own = |url: &&String| own.iter().any(|begin| url.starts_with(begin));
        let foreign: Vec<_> = seen.requests.iter().filter(|url| !is_own(url)).collect();
        ensure!(!seen.requests.is_empty(), "requests are not seen");
        ensure!(foreign.is_empty(), "the page asks for {foreign:?}");
        ensure!(seen.complaints.is_empty(), "{:?}", seen.complaints);
        Ok(())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
