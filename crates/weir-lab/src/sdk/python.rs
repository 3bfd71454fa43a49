//! The Python SDK, installed with pip into a virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::{INSTALL_BYTES, write};
use crate::cache;
use crate::disk;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;

/// Version of `lightstreamer-client-lib` for Python.
pub const PYTHON_SDK_VERSION: &str = "2.2.3";

/// Version of the last release that uses TLCP 2.4.0.
pub const OLD_PYTHON_SDK_VERSION: &str = "1.0.3";

/// The Python SDK in a virtual environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSdk {
    /// The virtual environment.
    pub dir: PathBuf,
    /// The `python` of the environment, which can import `lightstreamer.client`.
    pub python_bin: PathBuf,
}

/// Returns the Python SDK, installed with pip into a virtual environment if it is not cached.
pub fn python(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PythonSdk> {
    let mut operation = Operation { progress, stop };
    release(PYTHON_SDK_VERSION, REQUIREMENTS, &mut operation)
}

/// Returns the Python SDK in a release that uses TLCP 2.4.0, see [`python`].
///
/// It is installed with an HTTP library of the same time.
pub fn old_python(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PythonSdk> {
    let mut operation = Operation { progress, stop };
    release(OLD_PYTHON_SDK_VERSION, OLD_REQUIREMENTS, &mut operation)
}

fn release(
    version: &str,
    requirements: &'static str,
    operation: &mut Operation<'_>,
) -> Result<PythonSdk> {
    let venv = VenvSpec {
        name: format!("sdk-python-{version}"),
        what: format!("the Lightstreamer client SDK {version} for Python"),
        requirements,
    };
    let (dir, python_bin) = venv.find(operation)?;
    Ok(PythonSdk { dir, python_bin })
}

/// Returns the `python` of a virtual environment with the Kafka client aiokafka.
///
/// It is installed with pip if it is not cached.
pub fn aiokafka(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PathBuf> {
    let venv = VenvSpec {
        name: format!("aiokafka-{AIOKAFKA_VERSION}"),
        what: format!("the Kafka client aiokafka {AIOKAFKA_VERSION} for Python"),
        requirements: AIOKAFKA,
    };
    Ok(venv.find(&mut Operation { progress, stop })?.1)
}

/// A virtual environment to install.
pub struct VenvSpec {
    /// Name of the cache entry, without the Python version.
    pub name: String,
    /// Human-readable name of the content.
    pub what: String,
    /// Content of pip's requirements file.
    pub requirements: &'static str,
}

impl VenvSpec {
    /// Returns the directory and the `python` of the environment, installed if it is not cached.
    pub fn find(&self, operation: &mut Operation<'_>) -> Result<(PathBuf, PathBuf)> {
        let purpose = format!("to run {}", self.what);
        let python = host_tools::require("python3", purpose, PYTHON_REMEDY)?;
        let output = host_tools::version_output(&python, "--version")?;
        // An environment belongs to one minor release of Python, which its directory names contain.
        let release = output.trim().trim_start_matches("Python ");
        let minor: Vec<_> = release.split('.').take(2).collect();
        let name = format!("{}-py{}", self.name, minor.join("."));
        let python_in = |dir: &Path| dir.join("bin/python");
        let old = disk::cache_dir()?.join(&name);
        if old.is_dir() && !python_in(&old).is_file() {
            // Its interpreter is a link to one of the system that was removed.
            disk::remove(&old)?;
        }
        let build = |dir: &Path, op: &mut Operation<'_>| self.install(&python, dir, op);
        let dir = cache::entry(&name, INSTALL_BYTES, operation, build)?;
        let python_bin = python_in(&dir);
        Ok((dir, python_bin))
    }

    fn install(&self, python: &Path, dir: &Path, op: &mut Operation<'_>) -> Result<()> {
        let (what, venv_python) = (self.what.clone(), dir.join("bin/python"));
        (op.progress)(&format!("downloading {what} with pip (once)"));
        let mut venv = Command::new(python);
        venv.args(["-m", "venv"]).arg(dir);
        let (status, output) = host_tools::run(&mut venv, "creating a virtual environment", op)?;
        if !status.success() {
            return Err(LabError::MissingTool {
                tool: "python3-venv",
                looked: format!(" ({})", last_line(&output)),
                purpose: format!("to install {what}"),
                remedy: PYTHON_REMEDY,
            });
        }
        let requirements = dir.join("requirements.txt");
        write(&requirements, self.requirements)?;
        let mut pip = Command::new(&venv_python);
        pip.args(["-m", "pip", "install", "--no-input", "--retries", "1"])
            .args(["--disable-pip-version-check", "-r"])
            .arg(&requirements);
        let (status, output) = host_tools::run(&mut pip, "downloading an SDK", op)?;
        if status.success() {
            return Ok(());
        }
        Err(LabError::Fetch(what, pip_error_line(&output)))
    }
}

/// Returns the line of pip's output that describes the error.
///
/// Without a network, pip's errors only say that it found nothing; a warning contains the reason.
fn pip_error_line(output: &str) -> String {
    let after = |mark| {
        output
            .lines()
            .find_map(|line| Some(line.split_once(mark)?.1))
    };
    let line = after("connection broken by ").or_else(|| after("ERROR: "));
    line.map_or_else(|| last_line(output), |line| line.trim().to_owned())
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("no output").trim().to_owned()
}

const REQUIREMENTS: &str = include_str!("python/requirements.txt");
/// Requirements of the old SDK. Newer releases of aiohttp reject its TLS arguments.
const OLD_REQUIREMENTS: &str = "lightstreamer-client-lib==1.0.3\naiohttp==3.9.5\n";
const AIOKAFKA_VERSION: &str = "0.12.0";
const AIOKAFKA: &str = "aiokafka==0.12.0\n";
const PYTHON_REMEDY: &str =
    "install Python 3 with venv (Debian, Ubuntu: apt install python3 python3-venv)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_pin_the_sdk_version() {
        let python = format!("lightstreamer-client-lib=={PYTHON_SDK_VERSION}\n");
        assert_eq!(REQUIREMENTS, python);
        assert_eq!(AIOKAFKA, format!("aiokafka=={AIOKAFKA_VERSION}\n"));
    }

    #[test]
    fn pip_network_error_is_the_reason() {
        let output = "WARNING: Retrying (total=0) after connection broken by 'refused': /x/\n\
                    ERROR: Could not find a version that satisfies the requirement\n";
        assert_eq!(pip_error_line(output), "'refused': /x/");
        let error = "Collecting x\nERROR: No matching distribution found for x\n";
        assert_eq!(
            pip_error_line(error),
            "No matching distribution found for x"
        );
    }
}
