//! Programs that the lab needs from the machine: found, checked for age, run until done or stopped.

use std::env;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::LabError;
use crate::process::POLL;

/// A Java of the age that brokers need; `purpose` goes on "it is needed".
pub fn java(purpose: &str) -> Result<PathBuf, LabError> {
    let missing = |looked: String| LabError::MissingTool {
        tool: "java",
        looked,
        purpose: purpose.to_owned(),
        remedy: JAVA_REMEDY,
    };
    let path = match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => {
            let path = Path::new(&home).join("bin/java");
            if !is_program(&path) {
                return Err(missing(format!(" in JAVA_HOME ({})", path.display())));
            }
            path
        }
        None => find("java").ok_or_else(|| missing(" in PATH".to_owned()))?,
    };
    let said = version_output(&path, "-version")?;
    let (version, major) = java_version(&said).ok_or_else(|| LabError::BrokenTool {
        path: path.clone(),
        detail: first_line(&said),
    })?;
    if major < JAVA_OLDEST {
        return Err(LabError::OldTool {
            tool: format!("java ({})", path.display()),
            found: version.to_owned(),
            needed: "17",
            remedy: JAVA_REMEDY,
        });
    }
    Ok(path)
}

/// Version of the Java that brokers are started with; `None` if there is none.
pub fn java_version_found() -> Option<String> {
    let path = java("to tell its version").ok()?;
    let said = version_output(&path, "-version").ok()?;
    java_version(&said).map(|(version, _)| version.to_owned())
}

/// Version text and feature release out of `java -version`: 1.8.0_392 is 8, 17.0.15 is 17.
fn java_version(said: &str) -> Option<(&str, u32)> {
    let (_, rest) = said.split_once("version \"")?;
    let (version, _) = rest.split_once('"')?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let first: u32 = numbers.next()?.parse().ok()?;
    let major = match first {
        1 => numbers.next()?.parse().ok()?,
        _ => first,
    };
    Some((version, major))
}

/// The program `name` in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|program| is_program(program))
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// What a program answers to a question such as `--version`, on either output.
pub(crate) fn version_output(path: &Path, question: &str) -> Result<String, LabError> {
    let broken = |detail: String| LabError::BrokenTool {
        path: path.to_owned(),
        detail,
    };
    let output = Command::new(path)
        .arg(question)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| broken(error.to_string()))?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(said)
    } else {
        Err(broken(format!("{}, {}", output.status, first_line(&said))))
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("it says nothing").trim().to_owned()
}

/// Runs `command` in a process group of its own until it ends; returns how it ended and what it
/// said on both outputs. When `stop` is set meanwhile the whole group is killed.
pub fn run(
    command: &mut Command,
    doing: &'static str,
    stop: &AtomicBool,
) -> Result<(ExitStatus, String), LabError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| LabError::io(format!("run {name}"), error);
    // A file, not a pipe: nothing here has to read while the program runs.
    let (mut said, out, err) = scratch_file().map_err(failed)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                // Fails only when the group is gone already.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait().map_err(failed)?;
            return Err(LabError::Interrupted { doing });
        }
        thread::sleep(POLL);
    };
    let mut bytes = Vec::new();
    said.rewind()
        .and_then(|()| said.read_to_end(&mut bytes))
        .map_err(failed)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// An unnamed file and two more handles on it that append.
fn scratch_file() -> io::Result<(File, File, File)> {
    let number = NEXT_SCRATCH.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("weir-out-{}-{number}", std::process::id()));
    let file = File::options()
        .read(true)
        .append(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok((file.try_clone()?, file.try_clone()?, file))
}

static NEXT_SCRATCH: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

const JAVA_OLDEST: u32 = 17;
const JAVA_REMEDY: &str = "install a JDK 17 or newer (Debian, Ubuntu: apt install openjdk-17-jdk-headless) or set JAVA_HOME";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_old_and_new() {
        for (said, expected) in [
            ("openjdk version \"17.0.15\" 2025-04-15", ("17.0.15", 17)),
            ("java version \"1.8.0_392\"\nJava(TM)", ("1.8.0_392", 8)),
            ("openjdk version \"25-ea\" 2025-09-16", ("25-ea", 25)),
            (
                "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21\" 2023",
                ("21", 21),
            ),
        ] {
            assert_eq!(java_version(said), Some(expected));
        }
        assert_eq!(java_version("command not found"), None);
    }

    #[test]
    fn a_run_returns_both_outputs() {
        let stop = AtomicBool::new(false);
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let (status, said) = run(&mut command, "testing", &stop).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(said, "one\ntwo\n");
    }

    #[test]
    fn a_run_ends_when_told_to_stop() {
        let stop = AtomicBool::new(true);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600"]);
        let error = run(&mut command, "testing", &stop).unwrap_err();
        assert!(matches!(error, LabError::Interrupted { .. }));
    }
}
