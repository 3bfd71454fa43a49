//! End-to-end tests of `weir lab`: output, exit codes and remaining files.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::{Signal, send_signal};

/// A separate directory per test. Dropping it stops the brokers, even after a failure.
struct Lab {
    scratch: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self {
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.scratch.path().join("lab")
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["lab", verb, "--dir"]).arg(self.dir());
        command
    }

    /// Returns `weir lab up` with a small heap and a long timeout.
    fn up(&self) -> Command {
        let mut command = self.command("up");
        command.args(["--heap-mb", "256", "--ready-timeout", "180s"]);
        command.args(["--jvm-arg", "-XX:TieredStopAtLevel=1"]);
        command
    }

    fn status(&self) -> (Option<i32>, serde_json::Value) {
        let output = self.command("status").arg("--json").output().unwrap();
        (
            output.status.code(),
            serde_json::from_slice(&output.stdout).unwrap(),
        )
    }

    fn broker_pid(&self) -> u64 {
        self.status().1["brokers"][0]["pid"].as_u64().unwrap()
    }

    /// Creates an empty directory below the scratch directory.
    fn subdir(&self, name: &str) -> PathBuf {
        let dir = self.scratch.path().join(name);
        fs::create_dir(&dir).unwrap();
        dir
    }

    /// Returns a directory for `PATH` that contains only these programs of the machine.
    fn path_with(&self, programs: &[&str]) -> PathBuf {
        let bin = self.subdir("bin");
        for program in programs {
            symlink(find(program), bin.join(program)).unwrap();
        }
        bin
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.dir().exists() {
            let _ = self.command("down").output();
        }
    }
}

fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut candidates = std::env::split_paths(&path).map(|dir| dir.join(program));
    candidates
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{program} is not in PATH"))
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that the command exits with `code` and that its last line of errors contains `expected`.
#[track_caller]
fn refused(command: &mut Command, code: i32, expected: &str) {
    let output = command.output().unwrap();
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    let last = errors.lines().last().unwrap_or_default();
    assert!(last.contains(expected), "{errors}");
}

fn alive(pid: u64) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 60 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts `weir lab up --foreground` and waits until it reports that it is running.
fn foreground(lab: &Lab) -> (Child, BufReader<ChildStdout>) {
    let mut child = lab
        .up()
        .arg("--foreground")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("is running"), "{line}");
    (child, out)
}

#[test]
fn missing_or_old_java_is_reported() {
    let lab = Lab::new();
    let bin = lab.subdir("bin");
    let up = || {
        let mut command = lab.up();
        command.env_remove("JAVA_HOME").env("PATH", &bin);
        command
    };
    refused(&mut up(), 2, "java not found in PATH");
    refused(
        up().env("JAVA_HOME", "/nowhere"),
        2,
        "java not found in JAVA_HOME (/nowhere/bin/java)",
    );
    let java = bin.join("java");
    script(
        &java,
        "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n",
    );
    refused(&mut up(), 2, "11.0.2 is too old: 17 or newer is needed");
    script(&java, "#!/bin/sh\necho 'no libjvm.so' >&2\nexit 1\n");
    refused(&mut up(), 2, "no libjvm.so; repair or reinstall it");
    assert!(!lab.dir().exists());
}

#[test]
fn failed_kafka_download_is_reported() {
    let lab = Lab::new();
    let cache = lab.subdir("cache");
    let without_maven = lab.path_with(&["java"]);
    let up = || {
        let mut command = lab.up();
        command.env("XDG_CACHE_HOME", &cache);
        command
    };
    let mut no_maven = up();
    no_maven.env_remove("JAVA_HOME").env("PATH", &without_maven);
    refused(&mut no_maven, 2, "mvn not found in PATH");

    // Maven without network: an empty local repository and an unreachable proxy.
    let repository = lab.subdir("repository");
    let cut_off = format!(
        "-Dmaven.repo.local={} -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 \
         -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9",
        repository.display()
    );
    refused(
        up().env("MAVEN_OPTS", cut_off),
        3,
        "could not be downloaded: Could not transfer",
    );
    assert!(!lab.dir().exists());
    let left = fs::read_dir(cache.join("weir")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        left,
        ["kafka-4.3.1.lock"],
        "a failed download must leave no cache entry"
    );
}

#[test]
fn unknown_kafka_versions_are_rejected() {
    let lab = Lab::new();
    let version = |version: &str| {
        let mut command = lab.up();
        command.args(["--kafka-version", version]);
        command
    };
    refused(&mut version("newest"), 2, "is not a release such as 4.3.1");
    refused(&mut version("2.8.0"), 2, "is too old; use 3.9 or newer");

    // The output of Maven, without network access.
    let bin = lab.path_with(&["java", "sh"]);
    script(
        &bin.join("mvn"),
        "#!/bin/sh\necho '[ERROR] Failed to execute goal on project kafka: Could not resolve \
         dependencies for project weir.lab:kafka:pom:1: Could not find artifact \
         org.apache.kafka:kafka_2.13:jar:4.9.9 in central -> [Help 1]'\nexit 1\n",
    );
    let mut missing = version("4.9.9");
    missing.env("XDG_CACHE_HOME", lab.subdir("cache"));
    missing.env_remove("JAVA_HOME").env("PATH", bin);
    refused(
        &mut missing,
        2,
        "Apache Kafka \"4.9.9\" does not exist as a package",
    );
}

#[test]
fn invalid_options_and_directories_are_rejected() {
    let lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = format!("port {port} is in use by ");
    refused(lab.up().arg("--port").arg(port.to_string()), 2, &taken);
    let owner = format!("(pid {})", std::process::id());
    refused(lab.up().arg("--port").arg(port.to_string()), 2, &owner);
    refused(lab.up().args(["--brokers", "4"]), 2, "must be 1, 2 or 3");
    refused(
        lab.up().args(["--set", "listeners=x"]),
        2,
        "is set by the lab itself",
    );
    refused(
        lab.up().args(["--min-free-mb", "99999999"]),
        2,
        "disk full at",
    );
    assert!(!lab.dir().exists());

    fs::write(lab.dir(), "a file").unwrap();
    refused(&mut lab.up(), 2, "cannot be used");
    fs::remove_file(lab.dir()).unwrap();
    fs::create_dir(lab.dir()).unwrap();
    fs::write(lab.dir().join("thesis.txt"), "dear").unwrap();
    refused(&mut lab.up(), 2, "is not a lab directory");
    let left: Vec<_> = fs::read_dir(lab.dir()).unwrap().collect();
    assert_eq!(left.len(), 1);
    fs::write(lab.dir().join("lab.json"), "{").unwrap();
    refused(&mut lab.command("status"), 2, "lab.json is invalid");
    fs::remove_dir_all(lab.dir()).unwrap();

    let nothing = lab.command("down").output().unwrap();
    assert_eq!(nothing.status.code(), Some(0));
    assert_eq!(lab.status().0, Some(3));
}

#[test]
fn repeated_up_then_status_then_down() {
    let lab = Lab::new();
    let first = lab.up().output().unwrap();
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    // Maven is not needed because Kafka is cached.
    let path = lab.path_with(&["java", "sh", "cut", "sleep", "rm"]);
    let up = || {
        let mut command = lab.up();
        command.env_remove("JAVA_HOME").env("PATH", &path);
        command
    };
    let again = up().output().unwrap();
    let out = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert!(
        out.contains("is already running, 1 broker(s): 127.0.0.1:"),
        "{out}"
    );
    assert!(out.contains("weir lab down --dir"), "{out}");
    refused(
        up().args(["--brokers", "2"]),
        2,
        "a lab is already running in",
    );

    let (code, status) = lab.status();
    assert_eq!(code, Some(0));
    assert_eq!(status["state"], "running");
    assert_eq!(status["kafka_version"], "4.3.1");
    let pid = lab.broker_pid();

    // Status reports a killed broker, and the next start removes its data.
    send_signal(u32::try_from(pid).unwrap(), Signal::KILL);
    eventually("the broker has ended", || !alive(pid));
    let (code, status) = lab.status();
    assert_eq!(code, Some(3));
    assert_eq!(status["state"], "incomplete");
    let after = up().output().unwrap();
    assert_eq!(after.status.code(), Some(0), "{}", stderr(&after));
    assert!(
        stderr(&after).contains("not shut down cleanly"),
        "{}",
        stderr(&after)
    );

    let pid = lab.broker_pid();
    let down = lab.command("down").output().unwrap();
    assert_eq!(down.status.code(), Some(0), "{}", stderr(&down));
    assert!(!alive(pid));
    assert!(!lab.dir().exists());
}

#[test]
fn brokers_end_with_their_foreground_command() {
    let lab = Lab::new();
    let (mut weir, _out) = foreground(&lab);
    let pid = lab.broker_pid();
    send_signal(weir.id(), Signal::INT);
    assert_eq!(weir.wait().unwrap().code(), Some(0));
    assert!(!alive(pid));
    assert!(!lab.dir().exists());

    // After SIGKILL of the command, the watchdog of the broker ends it.
    let (mut weir, _out) = foreground(&lab);
    let pid = lab.broker_pid();
    weir.kill().unwrap();
    weir.wait().unwrap();
    eventually("the broker has ended", || !alive(pid));
}

#[test]
fn interrupted_start_leaves_nothing() {
    let lab = Lab::new();
    let mut weir = lab.up().stderr(Stdio::piped()).spawn().unwrap();
    let state = lab.dir().join("lab.json");
    let spawned = || fs::read_to_string(&state).is_ok_and(|text| text.contains("\"pid\""));
    eventually("a broker is started", spawned);
    let pid = lab.broker_pid();
    send_signal(weir.id(), Signal::INT);
    assert_eq!(weir.wait().unwrap().code(), Some(130));
    assert!(!alive(pid));
    assert!(!lab.dir().exists());
}
