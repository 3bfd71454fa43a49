//! Programs of the host that the lab needs: search, version check and execution.

use std::env;
use std::io::{self, Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{LabError, Result};
use crate::operation::Operation;
use crate::process::POLL_INTERVAL;

/// Returns the path of `java`, version 17 or newer. `purpose` explains in errors why it is needed.
///
/// # Errors
/// Fails if `java` is missing, too old or does not run.
pub fn java(purpose: &str) -> Result<PathBuf> {
    let path = match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => {
            let path = Path::new(&home).join("bin/java");
            if !is_program(&path) {
                return Err(LabError::MissingTool {
                    tool: "java",
                    looked: format!(" in JAVA_HOME ({})", path.display()),
                    purpose: purpose.to_owned(),
                    remedy: JAVA_REMEDY,
                });
            }
            path
        }
        None => require("java", purpose.to_owned(), JAVA_REMEDY)?,
    };
    let output = version_output(&path, "-version")?;
    let (version, major) = java_version(&output)
        .ok_or_else(|| LabError::BrokenTool(path.clone(), first_line(&output)))?;
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

/// Returns the version of the `java` that runs brokers; `None` if there is none.
pub fn java_version_found() -> Option<String> {
    let path = java("to report its version").ok()?;
    let output = version_output(&path, "-version").ok()?;
    java_version(&output).map(|(version, _)| version.to_owned())
}

/// Parses version and feature release of `java -version`; 1.8.0_392 is release 8, 17.0.15 is 17.
fn java_version(output: &str) -> Option<(&str, u32)> {
    let (_, rest) = output.split_once("version \"")?;
    let (version, _) = rest.split_once('"')?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let first: u32 = numbers.next()?.parse().ok()?;
    let major = match first {
        1 => numbers.next()?.parse().ok()?,
        _ => first,
    };
    Some((version, major))
}

/// Returns the path of the program `name` in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let dirs = env::split_paths(&path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(name))
        .find(|program| is_program(program))
}

/// Returns the path of a required program in `PATH`, see [`LabError::MissingTool`].
pub fn require(tool: &'static str, purpose: String, remedy: &'static str) -> Result<PathBuf> {
    find(tool).ok_or_else(|| LabError::MissingTool {
        tool,
        looked: " in PATH".to_owned(),
        purpose,
        remedy,
    })
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Runs a program with one argument, such as `--version`, and returns both of its outputs.
pub(crate) fn version_output(path: &Path, argument: &str) -> Result<String> {
    let broken = |detail| LabError::BrokenTool(path.to_owned(), detail);
    let output = Command::new(path)
        .arg(argument)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| broken(error.to_string()))?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(broken(format!("{}, {}", output.status, first_line(&text)))),
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or("no output").trim().to_owned()
}

/// Runs `command` in its own process group and returns its exit status and both outputs.
///
/// # Errors
/// Fails if the command cannot be run. If `operation` is stopped, kills the whole group and returns
/// [`LabError::Interrupted`], which names the activity `doing`.
pub fn run(
    command: &mut Command,
    doing: &'static str,
    operation: &Operation<'_>,
) -> Result<(ExitStatus, String)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| LabError::io(format!("run {name}"), error);
    // A file instead of a pipe, so that nothing has to read while the program runs.
    let mut output = tempfile::tempfile().map_err(failed)?;
    let clone = || output.try_clone().map_err(failed);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(clone()?)
        .stderr(clone()?)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if operation.is_stopped() {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // Fails only if the group has already ended.
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            child.wait().map_err(failed)?;
            return Err(LabError::Interrupted(doing));
        }
        thread::sleep(POLL_INTERVAL);
    };
    let mut bytes = Vec::new();
    output.rewind().map_err(failed)?;
    output.read_to_end(&mut bytes).map_err(failed)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

const JAVA_OLDEST: u32 = 17;
pub(crate) const JAVA_REMEDY: &str = "install a JDK 17 or newer \
                           (Debian, Ubuntu: apt install openjdk-17-jdk-headless) or set JAVA_HOME";

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn java_version_formats_are_parsed() {
        for (output, expected) in [
            ("openjdk version \"17.0.15\" 2025-04-15", ("17.0.15", 17)),
            ("java version \"1.8.0_392\"\nJava(TM)", ("1.8.0_392", 8)),
            ("openjdk version \"25-ea\" 2025-09-16", ("25-ea", 25)),
            (
                "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21\" 2023",
                ("21", 21),
            ),
        ] {
            assert_eq!(java_version(output), Some(expected));
        }
        assert_eq!(java_version("command not found"), None);
    }

    fn run_unless(command: &mut Command, is_stopped: bool) -> Result<(ExitStatus, String)> {
        let (progress, stop) = (&mut |_: &str| (), &AtomicBool::new(is_stopped));
        run(command, "testing", &Operation { progress, stop })
    }

    #[test]
    fn run_returns_both_outputs() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let (status, output) = run_unless(&mut command, false).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(output, "one\ntwo\n");
    }

    #[test]
    fn run_is_interrupted_by_stop() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600"]);
        let error = run_unless(&mut command, true).unwrap_err();
        assert!(matches!(error, LabError::Interrupted { .. }));
    }
}
