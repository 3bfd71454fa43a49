//! The official Lightstreamer client SDKs, unmodified, installed once into the per-user cache.
//!
//! The Node package names a git address for `xmlhttprequest`. Our `package-lock.json` names the
//! published release in its place, so that the package registry alone is enough; `overrides` in
//! `package.json` would say the same, but the npm 9.2 of Debian and Ubuntu fails on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::disk;
use crate::error::LabError;
use crate::tool;

/// Version of `lightstreamer-client-node`.
pub const NODE_SDK_VERSION: &str = "9.2.2";
/// Version of `lightstreamer-client-lib` for Python.
pub const PYTHON_SDK_VERSION: &str = "2.2.3";

/// The Node SDK and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSdk {
    /// Directory with `node_modules`; a script finds the SDK with `NODE_PATH=<dir>/node_modules`.
    pub dir: PathBuf,
    /// The `node` program.
    pub node_bin: PathBuf,
}

impl NodeSdk {
    /// The directory that `NODE_PATH` has to name.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.dir.join("node_modules")
    }
}

/// The Python SDK: a virtual environment that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSdk {
    /// The virtual environment.
    pub dir: PathBuf,
    /// Its `python`, which imports `lightstreamer.client`.
    pub python_bin: PathBuf,
}

/// The Node SDK, installed through npm if it is not cached yet.
///
/// # Errors
/// A missing or old `node`, a missing `npm`, no network, or `stop` was set.
pub fn node(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk, LabError> {
    let node_bin = tool::find("node").ok_or_else(|| LabError::MissingTool {
        tool: "node",
        looked: " in PATH".to_owned(),
        purpose: "to run the Lightstreamer client SDK for Node".to_owned(),
        remedy: NODE_REMEDY,
    })?;
    let said = tool::first_words(&node_bin, "--version")?;
    let found = said.trim().trim_start_matches('v');
    let major: Option<u32> = found.split('.').next().and_then(|text| text.parse().ok());
    if major.is_none_or(|major| major < NODE_OLDEST) {
        return Err(LabError::OldTool {
            tool: format!("node ({})", node_bin.display()),
            found: found.to_owned(),
            needed: "18",
            remedy: NODE_REMEDY,
        });
    }
    let name = format!("sdk-node-{NODE_SDK_VERSION}");
    let dir = cache::entry(&name, INSTALL_BYTES, progress, stop, |dir, progress| {
        install_node(dir, progress, stop)
    })?;
    Ok(NodeSdk { dir, node_bin })
}

fn install_node(
    dir: &Path,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let npm = tool::find("npm").ok_or_else(|| LabError::MissingTool {
        tool: "npm",
        looked: " in PATH".to_owned(),
        purpose: "to fetch the Lightstreamer client SDK for Node, which is not cached yet"
            .to_owned(),
        remedy: "install npm (Debian, Ubuntu: apt install npm)",
    })?;
    let what = format!("the Lightstreamer client SDK {NODE_SDK_VERSION} for Node");
    progress(&format!("fetching {what} through npm (once)"));
    write(&dir.join("package.json"), PACKAGE_JSON)?;
    write(&dir.join("package-lock.json"), PACKAGE_LOCK)?;
    let mut command = Command::new(npm);
    command
        .args(["ci", "--ignore-scripts"])
        .args(["--no-audit", "--no-fund", "--no-update-notifier"])
        .args(["--loglevel=error", "--fetch-retries=1"])
        .current_dir(dir);
    let (status, said) = tool::run(&mut command, "fetching an SDK", stop)?;
    let sdk = dir.join("node_modules/lightstreamer-client-node/package.json");
    if status.success() && sdk.is_file() {
        return Ok(());
    }
    let detail = npm_trouble(&said);
    Err(LabError::Fetch { what, detail })
}

/// The line of npm's output that says what happened, without its prefix.
fn npm_trouble(said: &str) -> String {
    let lines = || {
        said.lines()
            .map(|line| line.trim_start_matches("npm ").trim_start_matches("ERR!"))
            .map(|line| line.trim_start_matches("error").trim())
    };
    let is_bookkeeping =
        |line: &&str| line.is_empty() || BOOKKEEPING.iter().any(|start| line.starts_with(start));
    let line = lines()
        .find(|line| line.contains("request to "))
        .or_else(|| lines().find(|line| !is_bookkeeping(line)));
    line.unwrap_or("npm ended without a word").to_owned()
}

/// The Python SDK, installed through pip into a virtual environment if it is not cached yet.
///
/// # Errors
/// A missing `python3` or its `venv` module, no network, or `stop` was set.
pub fn python(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PythonSdk, LabError> {
    let python = tool::find("python3").ok_or_else(|| LabError::MissingTool {
        tool: "python3",
        looked: " in PATH".to_owned(),
        purpose: "to run the Lightstreamer client SDK for Python".to_owned(),
        remedy: PYTHON_REMEDY,
    })?;
    let said = tool::first_words(&python, "--version")?;
    // An environment belongs to one minor release: its packages lie under that name.
    let release = said.trim().trim_start_matches("Python ");
    let minor: Vec<_> = release.split('.').take(2).collect();
    let name = format!("sdk-python-{PYTHON_SDK_VERSION}-py{}", minor.join("."));
    let python_in = |dir: &Path| dir.join("bin/python");
    let old = disk::cache_dir()?.join(&name);
    if old.is_dir() && !python_in(&old).is_file() {
        // Its interpreter, a link to the system's, has been removed.
        disk::remove(&old)?;
    }
    let dir = cache::entry(&name, INSTALL_BYTES, progress, stop, |dir, progress| {
        install_python(&python, &python_in(dir), dir, progress, stop)
    })?;
    Ok(PythonSdk {
        python_bin: python_in(&dir),
        dir,
    })
}

fn install_python(
    python: &Path,
    inner: &Path,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let what = format!("the Lightstreamer client SDK {PYTHON_SDK_VERSION} for Python");
    progress(&format!("fetching {what} through pip (once)"));
    let mut venv = Command::new(python);
    venv.args(["-m", "venv"]).arg(dir);
    let (status, said) = tool::run(&mut venv, "making a virtual environment", stop)?;
    if !status.success() {
        return Err(LabError::MissingTool {
            tool: "python3-venv",
            looked: format!(" ({})", last_line(&said)),
            purpose: "to install the Lightstreamer client SDK for Python".to_owned(),
            remedy: PYTHON_REMEDY,
        });
    }
    let requirements = dir.join("requirements.txt");
    write(&requirements, REQUIREMENTS)?;
    let mut pip = Command::new(inner);
    pip.args(["-m", "pip", "install", "--no-input", "--retries", "1"])
        .args(["--disable-pip-version-check", "-r"])
        .arg(&requirements);
    let (status, said) = tool::run(&mut pip, "fetching an SDK", stop)?;
    if status.success() {
        return Ok(());
    }
    let detail = pip_trouble(&said);
    Err(LabError::Fetch { what, detail })
}

/// The line of pip's output that says what happened: without a network its errors only say that
/// it found nothing, the reason is in a warning before.
fn pip_trouble(said: &str) -> String {
    let broken = said
        .lines()
        .find_map(|line| line.split_once("connection broken by ").map(|(_, why)| why));
    let error = said
        .lines()
        .find_map(|line| line.split_once("ERROR: ").map(|(_, error)| error));
    broken
        .or(error)
        .map_or_else(|| last_line(said), |line| line.trim().to_owned())
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it said nothing").trim().to_owned()
}

fn write(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(|error| LabError::io(format!("write {}", path.display()), error))
}

const PACKAGE_JSON: &str = include_str!("sdk/package.json");
const PACKAGE_LOCK: &str = include_str!("sdk/package-lock.json");
const REQUIREMENTS: &str = include_str!("sdk/requirements.txt");
const NODE_OLDEST: u32 = 18;
const NODE_REMEDY: &str = "install Node.js 18 or newer (Debian, Ubuntu: apt install nodejs npm)";
const PYTHON_REMEDY: &str =
    "install Python 3 with venv (Debian, Ubuntu: apt install python3 python3-venv)";
/// Starts of npm's lines that say where, not what.
const BOOKKEEPING: [&str; 7] = [
    "code ",
    "syscall ",
    "errno ",
    "path ",
    "warn ",
    "A complete",
    "at ",
];
/// Room for one SDK; the larger one takes 40 MB.
const INSTALL_BYTES: u64 = 100 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_versions_are_the_ones_named() {
        let node = format!("\"lightstreamer-client-node\": \"{NODE_SDK_VERSION}\"");
        assert!(PACKAGE_JSON.contains(&node));
        let python = format!("lightstreamer-client-lib=={PYTHON_SDK_VERSION}\n");
        assert_eq!(REQUIREMENTS, python);
    }

    #[test]
    fn npm_without_network_is_one_line() {
        let said = "npm error code ECONNREFUSED\nnpm error errno ECONNREFUSED\n\
                    npm error FetchError: request to x failed, reason: connect ECONNREFUSED\n\
                    npm error     at ClientRequest\nnpm error A complete log\n";
        assert_eq!(
            npm_trouble(said),
            "FetchError: request to x failed, reason: connect ECONNREFUSED"
        );
        let old = "npm ERR! code E404\nnpm ERR! 404 Not Found - GET x\n";
        assert_eq!(npm_trouble(old), "404 Not Found - GET x");
    }

    #[test]
    fn pip_without_network_is_its_reason() {
        let said = "WARNING: Retrying (Retry(total=0)) after connection broken by 'refused': /x/\n\
                    ERROR: Could not find a version that satisfies the requirement\n";
        assert_eq!(pip_trouble(said), "'refused': /x/");
        let error = "Collecting x\nERROR: No matching distribution found for x\n";
        assert_eq!(pip_trouble(error), "No matching distribution found for x");
    }
}
