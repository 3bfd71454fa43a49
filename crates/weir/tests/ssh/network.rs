//! Networks and clocks of machines in namespaces: a wire that delays and loses packets, and clocks
//! with an offset, a drift and a step.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::machine::wait_until;
use crate::support::{Process, text};

/// Wire between this machine and one in a network namespace.
pub(crate) struct Wire {
    /// Start of the names of its interfaces.
    name: String,
    /// Address of this machine.
    pub(crate) here: String,
    /// Address of the other machine.
    pub(crate) there: String,
    /// Delays in milliseconds, to the other machine and back.
    pub(crate) delays_ms: [f64; 2],
    pub(crate) jitter_ms: f64,
    pub(crate) lost_percent: f64,
}

impl Wire {
    /// Returns the wire `number` of this test, from 1.
    pub(crate) fn new(number: u32, delays_ms: [f64; 2]) -> Self {
        let pid = std::process::id();
        // Addresses for tests of networks (RFC 2544).
        let network = format!("198.18.{}", (pid * 4 + number) % 256);
        Self {
            name: format!("w{pid}n{number}"),
            here: format!("{network}.1"),
            there: format!("{network}.2"),
            delays_ms,
            jitter_ms: 2.0,
            lost_percent: 1.0,
        }
    }

    /// Connects this machine with the network namespace of a process, which enters it soon.
    pub(crate) fn connect(&self, pid: u32) -> Process {
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        wait_until("the network namespace", || {
            let entered = namespace(&pid.to_string());
            entered.is_some() && entered != namespace("self")
        });
        let [there, back] = self.delays_ms.map(|delay| delay.to_string());
        let mut command = Command::new("python3");
        command.arg(file("wire.py"));
        command.args([&self.name, &self.here, &self.there, &pid.to_string()]);
        command.args([there, back]);
        command.args([self.jitter_ms.to_string(), self.lost_percent.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut wire = Process::spawn(&mut command);
        let mut line = String::new();
        let mut output = BufReader::new(wire.stdout.as_mut().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        wire
    }
}

/// Clock of a machine, relative to that of this one.
pub(crate) struct TestClock {
    library: PathBuf,
    pub(crate) offset_ns: i64,
    pub(crate) drift_ns_per_s: i64,
    /// Size of the step that [`STEP_FILE`] makes.
    pub(crate) step_ns: i64,
    /// Time since the start of the system, in nanoseconds, at which the drift begins.
    begin_ns: i64,
}

impl TestClock {
    pub(crate) fn new(library: &Path, offset_ns: i64, drift_ns_per_s: i64) -> Self {
        Self {
            library: library.to_owned(),
            offset_ns,
            drift_ns_per_s,
            step_ns: 200_000_000,
            begin_ns: uptime_ns(),
        }
    }

    /// Returns the variables for programs of the machine with the directory `home`.
    pub(crate) fn variables(&self, home: &Path) -> Vec<(&'static str, String)> {
        let file = home.join(STEP_FILE);
        let numbers = [self.offset_ns, self.drift_ns_per_s, self.begin_ns];
        let [offset, drift, begin] = numbers.map(|number| number.to_string());
        let clock = format!(
            "{offset} {drift} {begin} {} {}",
            file.display(),
            self.step_ns
        );
        let library = self.library.display().to_string();
        vec![("LD_PRELOAD", library), ("TEST_CLOCK", clock)]
    }

    /// Returns the present offset from this machine's clock in nanoseconds, without the step.
    pub(crate) fn offset_now_ns(&self) -> i64 {
        let since_s = (uptime_ns() - self.begin_ns) as f64 / 1e9;
        self.offset_ns + (since_s * self.drift_ns_per_s as f64) as i64
    }
}

/// Returns the time since the start of the system in nanoseconds, to 10 ms.
fn uptime_ns() -> i64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
    (seconds * 1e9) as i64
}

/// Builds the library that shifts clocks into a directory. `None` with a message if this machine
/// has no compiler, or this user may not create namespaces and interfaces.
#[expect(clippy::print_stdout, reason = "says what was skipped")]
pub(crate) fn build_clock(dir: &Path) -> Option<PathBuf> {
    let library = dir.join("clock.so");
    let build = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&library)
        .arg(file("clock.c"))
        .output();
    let enter = Command::new("unshare")
        .args(["--net", "ip", "link"])
        .output();
    let tun = fs::OpenOptions::new().write(true).open("/dev/net/tun");
    let missing = match (build, enter, tun) {
        (Err(error), ..) => format!("cc: {error}"),
        (_, Err(error), _) => format!("unshare: {error}"),
        (_, _, Err(error)) => format!("/dev/net/tun: {error}"),
        (_, Ok(enter), _) if !enter.status.success() => {
            format!("unshare --net: {}", text(&enter.stderr).trim())
        }
        (Ok(build), ..) => {
            assert!(build.status.success(), "{}", text(&build.stderr));
            return Some(library);
        }
    };
    println!("skipped: {missing}: namespaces need root and iproute2");
    None
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/ssh")
        .join(name)
}

/// File in the directory of a machine that makes a step of its wall clock.
pub(crate) const STEP_FILE: &str = "step";
