//! One headless Chromium shared by all clients of the web SDK, each with a separate profile.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use super::test_env::{LOOK, TEST_TIMEOUT};

/// A running browser. Dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct Browser {
    child: Child,
    endpoint: String,
}

impl Browser {
    /// Starts the browser and waits for its DevTools endpoint. Profile and log are stored in `dir`.
    pub(crate) fn start(program: &Path, dir: &Path) -> Result<Self> {
        let profile = dir.join("profile");
        let log = File::create(dir.join("browser.log"))?;
        let child = Command::new(program)
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} did not start", program.display()))?;
        let mut browser = Self {
            child,
            endpoint: String::new(),
        };
        let file = profile.join("DevToolsActivePort");
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            // The second line is written last.
            let text = fs::read_to_string(&file).unwrap_or_default();
            if let Some((port, path)) = text.split_once('\n') {
                if path.starts_with('/') {
                    browser.endpoint = format!("ws://127.0.0.1:{port}{}", path.trim_end());
                    return Ok(browser);
                }
            }
            if let Some(status) = browser.child.try_wait()? {
                bail!("the browser ended before it was ready: {status}");
            }
            ensure!(
                Instant::now() < deadline,
                "the browser is not ready after {TEST_TIMEOUT:?}"
            );
            thread::sleep(LOOK);
        }
    }

    /// Returns the DevTools endpoint.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // Fails only if all processes have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Options: headless; no sandbox, which root cannot use and Weir's own pages do not need; no
/// external requests; background pages run like visible ones; no process for a page to come, whose
/// start costs as much as that of a page in use.
const OPTIONS: [&str; 18] = [
    "--headless",
    "--remote-debugging-port=0",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-features=SpareRendererForSitePerProcess",
    // Trust the key of `weir-net/tests/tls/server.pem`, which is not signed by a known CA.
    "--ignore-certificate-errors-spki-list=QwEoYRPkmA6IuDBhqyObwC6oq2Cw/OT047oizyRIyWo=",
];
