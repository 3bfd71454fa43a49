//! Node and npm, used by the SDKs and drivers written in JavaScript.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::write;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;

/// Packages to install with npm, with fixed versions.
#[derive(Debug)]
pub struct Packages {
    /// Text of `package.json`.
    pub json: &'static str,
    /// Text of `package-lock.json`.
    pub lock: &'static str,
    /// The main package; the others are its dependencies.
    pub package: &'static str,
}

#[cfg(test)]
impl Packages {
    /// Returns `true` if both files fix the main package to this version.
    pub(crate) fn is_pinned_to(&self, version: &str) -> bool {
        let pinned = format!("\"{}\": \"{version}\"", self.package);
        self.json.contains(&pinned) && self.lock.contains(&pinned)
    }
}

/// Returns the path of `node`, version 18 or newer. `purpose` explains in errors why it is needed.
pub fn node(purpose: &str) -> Result<PathBuf> {
    node_since(NODE_OLDEST, purpose)
}

/// Returns the path of `node`, of this version or newer, see [`node`].
pub(crate) fn node_since(needed: &'static str, purpose: &str) -> Result<PathBuf> {
    let node_bin = host_tools::require("node", purpose.to_owned(), NODE_REMEDY)?;
    let output = host_tools::version_output(&node_bin, "--version")?;
    let found = output.trim().trim_start_matches('v');
    if is_older(found, needed) {
        return Err(LabError::OldTool {
            tool: format!("node ({})", node_bin.display()),
            found: found.to_owned(),
            needed,
            remedy: NODE_REMEDY,
        });
    }
    Ok(node_bin)
}

/// Compares versions number by number. One that is not understood counts as old.
fn is_older(found: &str, needed: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let parts = text.split('.').map_while(|part| part.parse().ok());
        parts.collect()
    };
    numbers(found) < numbers(needed)
}

/// Installs the packages into `dir/node_modules`.
pub fn install(
    packages: &Packages,
    what: &str,
    dir: &Path,
    operation: &mut Operation<'_>,
) -> Result<()> {
    let purpose = format!("to download {what}, which is not cached yet");
    let remedy = "install npm (Debian, Ubuntu: apt install npm)";
    let npm = host_tools::require("npm", purpose, remedy)?;
    (operation.progress)(&format!("downloading {what} with npm (once)"));
    write(&dir.join("package.json"), packages.json)?;
    write(&dir.join("package-lock.json"), packages.lock)?;
    let mut command = Command::new(npm);
    command
        .args(["ci", "--ignore-scripts"])
        .args(["--no-audit", "--no-fund", "--no-update-notifier"])
        .args(["--loglevel=error", "--fetch-retries=1"])
        .current_dir(dir);
    let (status, output) = host_tools::run(&mut command, "downloading an SDK", operation)?;
    let sdk = dir.join("node_modules").join(packages.package);
    if status.success() && sdk.join("package.json").is_file() {
        return Ok(());
    }
    Err(LabError::Fetch(what.to_owned(), error_line(&output)))
}

/// Returns the line of npm's output that describes the error, without its prefix.
fn error_line(output: &str) -> String {
    let lines = || {
        let lines = output.lines().map(|line| line.trim_start_matches("npm "));
        let lines = lines.map(|line| line.trim_start_matches("ERR!"));
        lines.map(|line| line.trim_start_matches("error").trim())
    };
    let is_bookkeeping =
        |line: &&str| line.is_empty() || BOOKKEEPING.iter().any(|start| line.starts_with(start));
    let line = lines()
        .find(|line| line.contains("request to "))
        .or_else(|| lines().find(|line| !is_bookkeeping(line)));
    line.unwrap_or("npm printed no error").to_owned()
}

const NODE_OLDEST: &str = "18";
const NODE_REMEDY: &str = "install Node.js 18 or newer (Debian, Ubuntu: apt install nodejs npm)";
/// Starts of npm's output lines that do not describe the error.
const BOOKKEEPING: [&str; 7] = [
    "code ", "syscall ", "errno ", "path ", "warn ", "A compl", "at ",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (found, needed, older) in [
            ("18.0.0", "18", false),
            ("17.9.1", "18", true),
            ("20.2.0", "20.12", true),
            ("20.12.0", "20.12", false),
            ("22.1.0", "20.12", false),
            ("nightly", "18", true),
        ] {
            assert_eq!(is_older(found, needed), older, "{found} {needed}");
        }
    }

    #[test]
    fn npm_network_error_is_one_line() {
        let output = "npm error code ECONNREFUSED\nnpm error errno ECONNREFUSED\n\
                    npm error FetchError: request to x failed, reason: connect ECONNREFUSED\n\
                    npm error     at ClientRequest\nnpm error A complete log\n";
        assert_eq!(
            error_line(output),
            "FetchError: request to x failed, reason: connect ECONNREFUSED"
        );
        let old = "npm ERR! code E404\nnpm ERR! 404 Not Found - GET x\n";
        assert_eq!(error_line(old), "404 Not Found - GET x");
    }
}
