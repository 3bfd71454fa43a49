//! The Python SDK, through pip into a virtual environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::{INSTALL_BYTES, write};
use crate::cache;
use crate::disk;
use crate::error::LabError;
use crate::host_tools;

/// Version of `lightstreamer-client-lib` for Python.
pub const PYTHON_SDK_VERSION: &str = "2.2.3";

/// Version of the last release that speaks TLCP 2.4.0.
pub const OLD_PYTHON_SDK_VERSION: &str = "1.0.3";

/// The Python SDK: a virtual environment that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSdk {
    /// The virtual environment.
    pub dir: PathBuf,
    /// Its `python`, which imports `lightstreamer.client`.
    pub python_bin: PathBuf,
}

/// The Python SDK, installed through pip into a virtual environment if it is not cached yet.
///
/// # Errors
/// A missing `python3` or its `venv` module, no network, or `stop` was set.
pub fn python(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PythonSdk, LabError> {
    release(PYTHON_SDK_VERSION, REQUIREMENTS, progress, stop)
}

/// As [`python`], in a release that speaks TLCP 2.4.0, with an HTTP library of its time.
///
/// # Errors
/// A missing `python3` or its `venv` module, no network, or `stop` was set.
pub fn old_python(
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<PythonSdk, LabError> {
    release(OLD_PYTHON_SDK_VERSION, OLD_REQUIREMENTS, progress, stop)
}

fn release(
    version: &str,
    requirements: &'static str,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<PythonSdk, LabError> {
    let wanted = VenvSpec {
        name: format!("sdk-python-{version}"),
        what: format!("the Lightstreamer client SDK {version} for Python"),
        requirements,
    };
    let (dir, python_bin) = wanted.find(progress, stop)?;
    Ok(PythonSdk { dir, python_bin })
}

/// The `python` of a virtual environment that has the Kafka client aiokafka, installed through pip
/// if it is not cached yet.
///
/// # Errors
/// A missing `python3` or its `venv` module, no network, or `stop` was set.
pub fn aiokafka(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PathBuf, LabError> {
    let wanted = VenvSpec {
        name: format!("aiokafka-{AIOKAFKA_VERSION}"),
        what: format!("the Kafka client aiokafka {AIOKAFKA_VERSION} for Python"),
        requirements: AIOKAFKA,
    };
    Ok(wanted.find(progress, stop)?.1)
}

/// A virtual environment to be had.
pub struct VenvSpec {
    /// Of the cache's entry, without the interpreter's release.
    pub name: String,
    /// Name of the cache entry.
    pub what: String,
    /// As pip reads them.
    pub requirements: &'static str,
}

impl VenvSpec {
    /// Its folder and interpreter.
    pub fn find(
        &self,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<(PathBuf, PathBuf), LabError> {
        let python = host_tools::find("python3").ok_or_else(|| LabError::MissingTool {
            tool: "python3",
            looked: " in PATH".to_owned(),
            purpose: format!("to run {}", self.what),
            remedy: PYTHON_REMEDY,
        })?;
        let said = host_tools::version_output(&python, "--version")?;
        // An environment belongs to one minor release: its packages lie under that name.
        let release = said.trim().trim_start_matches("Python ");
        let minor: Vec<_> = release.split('.').take(2).collect();
        let name = format!("{}-py{}", self.name, minor.join("."));
        let python_in = |dir: &Path| dir.join("bin/python");
        let old = disk::cache_dir()?.join(&name);
        if old.is_dir() && !python_in(&old).is_file() {
            // Its interpreter, a link to the system's, has been removed.
            disk::remove(&old)?;
        }
        let dir = cache::entry(&name, INSTALL_BYTES, progress, stop, |dir, progress| {
            self.install(&python, dir, progress, stop)
        })?;
        let inner = python_in(&dir);
        Ok((dir, inner))
    }

    fn install(
        &self,
        python: &Path,
        dir: &Path,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
        let (what, inner) = (self.what.clone(), dir.join("bin/python"));
        progress(&format!("fetching {what} through pip (once)"));
        let mut venv = Command::new(python);
        venv.args(["-m", "venv"]).arg(dir);
        let (status, said) = host_tools::run(&mut venv, "making a virtual environment", stop)?;
        if !status.success() {
            return Err(LabError::MissingTool {
                tool: "python3-venv",
                looked: format!(" ({})", last_line(&said)),
                purpose: format!("to install {what}"),
                remedy: PYTHON_REMEDY,
            });
        }
        let requirements = dir.join("requirements.txt");
        write(&requirements, self.requirements)?;
        let mut pip = Command::new(&inner);
        pip.args(["-m", "pip", "install", "--no-input", "--retries", "1"])
            .args(["--disable-pip-version-check", "-r"])
            .arg(&requirements);
        let (status, said) = host_tools::run(&mut pip, "fetching an SDK", stop)?;
        if status.success() {
            return Ok(());
        }
        let detail = pip_error_line(&said);
        Err(LabError::Fetch { what, detail })
    }
}

/// The line of pip's output that says what happened: without a network its errors only say that
/// it found nothing, the reason is in a warning before.
fn pip_error_line(said: &str) -> String {
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

const REQUIREMENTS: &str = include_str!("python/requirements.txt");
/// Version of aiokafka.
/// Newer releases of aiohttp refuse what this SDK passes for TLS.
const OLD_REQUIREMENTS: &str = "lightstreamer-client-lib==1.0.3\naiohttp==3.9.5\n";
const AIOKAFKA_VERSION: &str = "0.12.0";
const AIOKAFKA: &str = "aiokafka==0.12.0\n";
const PYTHON_REMEDY: &str =
    "install Python 3 with venv (Debian, Ubuntu: apt install python3 python3-venv)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_version_is_the_one_named() {
        let python = format!("lightstreamer-client-lib=={PYTHON_SDK_VERSION}\n");
        assert_eq!(REQUIREMENTS, python);
        assert_eq!(AIOKAFKA, format!("aiokafka=={AIOKAFKA_VERSION}\n"));
    }

    #[test]
    fn pip_without_network_is_its_reason() {
        let said = "WARNING: Retrying (Retry(total=0)) after connection broken by 'refused': /x/\n\
                    ERROR: Could not find a version that satisfies the requirement\n";
        assert_eq!(pip_error_line(said), "'refused': /x/");
        let error = "Collecting x\nERROR: No matching distribution found for x\n";
        assert_eq!(
            pip_error_line(error),
            "No matching distribution found for x"
        );
    }
}
