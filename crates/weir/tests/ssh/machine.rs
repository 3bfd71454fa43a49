//! Machine with an sshd of its own.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::network::{STEP_FILE, TestClock, Wire};
use crate::support::{Process, text};

const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Machine with an sshd of its own, whose programs and files are below `home`.
pub(crate) struct TestMachine {
    pub(crate) address: String,
    port: u16,
    home: PathBuf,
    /// Variables of all its processes.
    environment: Vec<(&'static str, String)>,
    sshd: Process,
    _wire: Option<Process>,
}

impl TestMachine {
    /// Starts a machine at a loopback address.
    pub(crate) fn start(sshd: &str, dir: &Path, address: &str) -> Self {
        let free = TcpListener::bind((address, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let home = create_home(dir, address);
        Self::with(home, (address, port), Vec::new(), |config| {
            let mut command = Command::new(sshd);
            command.args(["-D", "-e", "-f"]).arg(config);
            command.stdin(Stdio::null());
            (command, None)
        })
    }

    /// Starts a machine in a network namespace of its own, at the end of a wire, with another
    /// clock.
    pub(crate) fn behind(wire: &Wire, sshd: &str, dir: &Path, clock: &TestClock) -> Self {
        let home = create_home(dir, &wire.there);
        install_program(&home);
        let environment = clock.variables(&home);
        Self::with(home, (&wire.there, 22), environment, |config| {
            // Has its address once the wire is connected.
            let script = "read -r connected && exec \"$@\"";
            let mut command = Command::new("unshare");
            command.args(["--net", "sh", "-c", script, "sh", sshd, "-D", "-e", "-f"]);
            command.arg(config).stdin(Stdio::piped());
            (command, Some(wire))
        })
    }

    fn with<'w>(
        home: PathBuf,
        (address, port): (&str, u16),
        environment: Vec<(&'static str, String)>,
        command: impl FnOnce(&Path) -> (Command, Option<&'w Wire>),
    ) -> Self {
        let path = |name: &str| home.join(name).display().to_string();
        let set: Vec<String> = environment
            .iter()
            .map(|(name, value)| format!(" \"{name}={value}\""))
            .collect();
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {}\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {}\nPasswordAuthentication no\nSetEnv XDG_CACHE_HOME={}{}\n",
            path("host"),
            path("user.pub"),
            path("cache"),
            set.concat()
        );
        fs::write(home.join("sshd_config"), config).unwrap();
        let (mut command, wire) = command(&home.join("sshd_config"));
        command.stdout(Stdio::null());
        command.stderr(fs::File::create(home.join("log")).unwrap());
        let mut sshd = Process::spawn(&mut command);
        let wire = wire.map(|wire| {
            let connected = wire.connect(sshd.id());
            let mut input = sshd.stdin.take().unwrap();
            input.write_all(b"connected\n").unwrap();
            connected
        });
        wait_until("sshd", || {
            let log = fs::read_to_string(home.join("log")).unwrap();
            log.contains("Server listening")
        });
        Self {
            address: address.to_owned(),
            port,
            home,
            environment,
            sshd,
            _wire: wire,
        }
    }

    /// Returns a command of Weir on this machine, which must be in a namespace of its own.
    pub(crate) fn weir(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let pid = self.sshd.id().to_string();
        command.args(["--target", &pid, "--net", env!("CARGO_BIN_EXE_weir")]);
        command.args(args).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command
    }

    /// Makes a step of the wall clock, as its [`TestClock`] says.
    pub(crate) fn step_clock(&self) {
        fs::write(self.home.join(STEP_FILE), "").unwrap();
    }

    /// Returns its table of an inventory.
    pub(crate) fn inventory(&self, roles: &str) -> String {
        format!(
            "[[machine]]\nname = \"m-{}\"\nssh = \"{}\"\nroles = [{roles}]\n\
             ssh_options = [\"-F\", \"none\", \"-p\", \"{}\", \"-i\", \"{}\", \
             \"-o\", \"StrictHostKeyChecking=no\", \"-o\", \"UserKnownHostsFile=/dev/null\"]\n",
            self.address,
            self.address,
            self.port,
            self.home.join("user").display()
        )
    }

    /// Returns the processes of Weir on this machine.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let cache = self.home.join("cache");
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_here = |pid: &u32| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe.starts_with(&cache))
        };
        pids.filter(is_here).collect()
    }

    /// Returns the files that are left, without the program.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let agents = fs::read_dir(self.home.join("cache/weir/agents")).unwrap();
        let dirs = agents.map(|entry| entry.unwrap().path());
        let files = dirs.flat_map(|dir| fs::read_dir(dir).unwrap());
        let files = files.map(|entry| entry.unwrap().path());
        files.filter(|path| !path.ends_with("weir")).collect()
    }
}

/// Gives a machine the program, which takes long to copy over a slow wire.
fn install_program(home: &Path) {
    let program = env!("CARGO_BIN_EXE_weir");
    let sum = Command::new("sha256sum").arg(program).output().unwrap();
    let sum = text(&sum.stdout);
    let dir = home.join("cache/weir/agents").join(&sum[..64]);
    fs::create_dir_all(&dir).unwrap();
    fs::copy(program, dir.join("weir")).unwrap();
}

/// Creates the directory of a machine, with keys.
fn create_home(dir: &Path, name: &str) -> PathBuf {
    let home = dir.join(name);
    fs::create_dir(&home).unwrap();
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        assert!(keygen.arg(home.join(key)).status().unwrap().success());
    }
    home
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the path of sshd; `None` with a message if there is none.
#[expect(clippy::print_stdout, reason = "says what was skipped")]
pub(crate) fn sshd() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sshd");
    let output = Command::new(script).output().unwrap();
    let found = output.status.success();
    if !found {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        println!("skipped: {}", text(&output.stderr).trim());
    }
    found.then(|| text(&output.stdout).trim().to_owned())
}
