//! Runs of a plan on machines that ssh reaches: two sshd on addresses of this machine.

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Process, Signal, TestBroker, run_dir, send_signal, text, weir};

const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Machine with an sshd of its own, whose programs and files are below `home`.
struct TestMachine {
    address: &'static str,
    port: u16,
    home: PathBuf,
    _sshd: Process,
}

impl TestMachine {
    fn start(sshd: &str, dir: &Path, address: &'static str) -> Self {
        let home = dir.join(address);
        fs::create_dir(&home).unwrap();
        for key in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(home.join(key)).status().unwrap().success());
        }
        let free = TcpListener::bind((address, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let path = |name: &str| home.join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {}\nPidFile none\nStrictModes no\n\
             AuthorizedKeysFile {}\nPasswordAuthentication no\nSetEnv XDG_CACHE_HOME={}\n",
            path("host"),
            path("user.pub"),
            path("cache")
        );
        fs::write(home.join("sshd_config"), config).unwrap();
        let mut command = Command::new(sshd);
        command
            .args(["-D", "-e", "-f"])
            .arg(home.join("sshd_config"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(home.join("log")).unwrap());
        let sshd = Process::spawn(&mut command);
        wait_until("sshd", || {
            let log = fs::read_to_string(home.join("log")).unwrap();
            log.contains("Server listening")
        });
        Self {
            address,
            port,
            home,
            _sshd: sshd,
        }
    }

    /// Returns its table of an inventory.
    fn inventory(&self, roles: &str) -> String {
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
    fn processes(&self) -> Vec<u32> {
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
    fn files(&self) -> Vec<PathBuf> {
        let agents = fs::read_dir(self.home.join("cache/weir/agents")).unwrap();
        let dirs = agents.map(|entry| entry.unwrap().path());
        let files = dirs.flat_map(|dir| fs::read_dir(dir).unwrap());
        let files = files.map(|entry| entry.unwrap().path());
        files.filter(|path| !path.ends_with("weir")).collect()
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the path of sshd; `None` with a message if there is none.
#[expect(clippy::print_stdout, reason = "says what was skipped")]
fn sshd() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/sshd");
    let output = Command::new(script).output().unwrap();
    let found = output.status.success();
    if !found {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        println!("skipped: {}", text(&output.stderr).trim());
    }
    found.then(|| text(&output.stdout).trim().to_owned())
}

fn bench(broker: &TestBroker, out: &Path, machines: &[&TestMachine], hold: &str) -> Command {
    let inventory = out.with_extension("toml");
    let [producers, clients] = machines else {
        panic!("two machines")
    };
    let tables = [
        producers.inventory("\"producers\""),
        clients.inventory("\"clients\", \"consumers\""),
    ];
    fs::write(&inventory, tables.concat()).unwrap();
    let mut command = weir(&["bench", "run", "keyed", "--quick", "--engine", "ssh"]);
    command
        .arg("--inventory")
        .arg(inventory)
        .arg("--out")
        .arg(out);
    command.args(["--bootstrap", &broker.bootstrap, "--levels", "40"]);
    command.args(["--rate", "100", "--repetitions", "1", "--warm-up", "1s"]);
    command.args(["--architectures", "floor,standalone", "--drain", "20s"]);
    command.args(["--hold", hold]);
    command
}

#[test]
fn roles_run_on_machines_with_ssh() {
    let Some(sshd) = sshd() else { return };
    let broker = TestBroker::start();
    let dir = broker.scratch.path();
    let (a, b) = (
        TestMachine::start(&sshd, dir, "127.0.0.2"),
        TestMachine::start(&sshd, dir, "127.0.0.3"),
    );
    run_is_measured_on_both(&broker, [&a, &b]);
    lost_process_makes_cell_invalid(&broker, [&a, &b]);
    killed_coordinator_leaves_no_processes(&broker, [&a, &b]);
}

fn run_is_measured_on_both(broker: &TestBroker, machines: [&TestMachine; 2]) {
    let out = broker.scratch.path().join("run");
    let output = bench(broker, &out, &machines, "3s").output().unwrap();
    let stderr = text(&output.stderr);
    let dir = run_dir(&out).unwrap_or_else(|| panic!("{stderr}"));
    let run = fs::read_to_string(dir.join("run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_eq!(run["clock"]["mode"], "offset_estimate", "{run}");
    let bound_ns = run["clock"]["bound_ns"].as_u64().unwrap();
    assert!(bound_ns > 0);
    let host = |role: &str| {
        let mut placement = run["placement"].as_array().unwrap().iter();
        placement.find(|it| it["role"] == role).unwrap()["host"].clone()
    };
    assert_eq!(host("produce"), "m-127.0.0.2");
    assert_eq!(host("clients"), "m-127.0.0.3");
    assert_eq!(host("floor"), "this machine");
    let cells = run["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        // On a busy machine the bound of the clocks may be too wide for these short latencies, and
        // records may be late.
        if let Some(reasons) = cell["status"]["reasons"].as_array() {
            let of_machine = |reason: &Value| {
                let texts = ["than a tenth of the median", "generator behind schedule"];
                texts
                    .iter()
                    .any(|text| reason.as_str().unwrap().contains(text))
            };
            assert!(reasons.iter().all(of_machine), "{cell} {stderr}");
        }
        let delivery = &cell["delivery"];
        for figure in ["lost", "duplicated", "reordered"] {
            assert_eq!(delivery[figure], 0, "{figure}: {cell}");
        }
        assert!(delivery["delivered"].as_u64().unwrap() > 0, "{cell}");
        let receiving = match cell["architecture"].as_str().unwrap() {
            "floor" => "clients",
            _ => "consume",
        };
        for role in ["produce", receiving] {
            let mut roles = cell["roles"].as_array().unwrap().iter();
            let usage = roles.find(|it| it["role"] == role);
            let usage = usage.unwrap_or_else(|| panic!("no usage of {role}: {cell}"));
            assert_eq!(usage["processes"], 1, "{usage}");
            assert!(usage["rss_max_bytes"].as_u64() > Some(0), "{usage}");
        }
    }
    for machine in machines {
        assert_eq!(machine.processes(), Vec::<u32>::new());
        assert_eq!(machine.files(), Vec::<PathBuf>::new());
    }
}

fn lost_process_makes_cell_invalid(broker: &TestBroker, machines: [&TestMachine; 2]) {
    let out = broker.scratch.path().join("lost");
    let mut command = bench(broker, &out, &machines, "5s");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut coordinator = Process::spawn(&mut command);
    let clients = |machine: &TestMachine| {
        let is_role = |pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            text(&command).contains("\0clients\0")
        };
        machine.processes().into_iter().find(is_role)
    };
    let mut found = None;
    wait_until("the clients", || {
        assert!(coordinator.try_wait().unwrap().is_none(), "it ended");
        found = clients(machines[1]);
        found.is_some()
    });
    send_signal(found.unwrap(), Signal::KILL);
    let status = coordinator.wait().unwrap();
    let dir = run_dir(&out).unwrap();
    let run: Value = serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    let lost = &run["cells"][0]["status"];
    assert_eq!(lost["state"], "invalid", "{lost}");
    let reason = lost["reasons"][0].as_str().unwrap();
    assert!(
        reason.starts_with("clients on m-127.0.0.3 exited unexpectedly"),
        "{reason}"
    );
    assert!(!status.success());
}

fn killed_coordinator_leaves_no_processes(broker: &TestBroker, machines: [&TestMachine; 2]) {
    let out = broker.scratch.path().join("killed");
    let mut command = bench(broker, &out, &machines, "10m");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut coordinator = Process::spawn(&mut command);
    // The session of the machine, that of the role, and the process of the role.
    wait_until("all roles", || {
        assert!(coordinator.try_wait().unwrap().is_none(), "it ended");
        machines
            .iter()
            .all(|machine| machine.processes().len() == 3)
    });
    coordinator.kill().unwrap();
    coordinator.wait().unwrap();
    wait_until("the end of all processes", || {
        machines
            .iter()
            .all(|machine| machine.processes().is_empty())
    });
    for machine in machines {
        assert_eq!(machine.files(), Vec::<PathBuf>::new());
    }
}
