//! Runs of a plan on machines that ssh reaches: two sshd on addresses of this machine, and two in
//! network namespaces, behind slow wires and with other clocks.

mod machine;
mod network;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use machine::{TestMachine, sshd, wait_until};
use network::{TestClock, Wire, build_clock};
use serde_json::Value;
use support::{Process, Signal, TestBroker, run_dir, send_signal, text, weir};

/// Returns the tables of an inventory with a machine for the producers and one for the receivers.
fn inventory([producers, clients]: [&TestMachine; 2]) -> String {
    let receiving = clients.inventory("\"clients\", \"consumers\"");
    producers.inventory("\"producers\"") + &receiving
}

fn bench(bootstrap: &str, out: &Path, inventory: &str, options: &[&str]) -> Command {
    let file = out.with_extension("toml");
    fs::write(&file, inventory).unwrap();
    let mut command = weir(&["bench", "run", "keyed", "--quick", "--engine", "ssh"]);
    command.arg("--inventory").arg(file).arg("--out").arg(out);
    command.args(["--bootstrap", bootstrap, "--levels", "40"]);
    command.args(["--rate", "100", "--repetitions", "1", "--warm-up", "1s"]);
    command.args(["--drain", "20s"]).args(options);
    command
}

/// Returns the results of the only run in a directory.
fn results(out: &Path) -> Option<Value> {
    let run = fs::read(run_dir(out)?.join("run.json")).unwrap();
    Some(serde_json::from_slice(&run).unwrap())
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
    let mut command = bench(
        &broker.bootstrap,
        &out,
        &inventory(machines),
        &["--hold", "3s"],
    );
    let output = command.args(ARCHITECTURES).output().unwrap();
    let stderr = text(&output.stderr);
    let run = results(&out).unwrap_or_else(|| panic!("{stderr}"));
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
    let mut command = bench(
        &broker.bootstrap,
        &out,
        &inventory(machines),
        &["--hold", "5s"],
    );
    command.args(ARCHITECTURES);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut coordinator = Process::spawn(&mut command);
    let clients = wait_for_clients(&mut coordinator, machines[1]);
    send_signal(clients, Signal::KILL);
    let status = coordinator.wait().unwrap();
    let run = results(&out).unwrap();
    let lost = &run["cells"][0]["status"];
    assert_eq!(lost["state"], "invalid", "{lost}");
    let reason = lost["reasons"][0].as_str().unwrap();
    assert!(
        reason.starts_with("clients on m-127.0.0.3 exited unexpectedly"),
        "{reason}"
    );
    assert!(!status.success());
}

/// Returns the process of the simulated clients on a machine once it runs.
fn wait_for_clients(coordinator: &mut Process, machine: &TestMachine) -> u32 {
    let is_role = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text(&command).contains("\0clients\0")
    };
    let mut found = None;
    wait_until("the clients", || {
        assert!(coordinator.try_wait().unwrap().is_none(), "it ended");
        found = machine.processes().into_iter().find(is_role);
        found.is_some()
    });
    found.unwrap()
}

fn killed_coordinator_leaves_no_processes(broker: &TestBroker, machines: [&TestMachine; 2]) {
    let out = broker.scratch.path().join("killed");
    let mut command = bench(
        &broker.bootstrap,
        &out,
        &inventory(machines),
        &["--hold", "10m"],
    );
    command.args(ARCHITECTURES);
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

#[test]
fn clocks_are_bounded_behind_slow_wires() {
    let Some(sshd) = sshd() else { return };
    let broker = TestBroker::start();
    let dir = broker.scratch.path();
    let Some(library) = build_clock(dir) else {
        return;
    };
    // Records take the slow directions. Half of each round trip as the delay of both directions
    // would make their latencies 32.5 ms too small.
    let wires = [Wire::new(1, [5.0, 30.0]), Wire::new(2, [60.0, 20.0])];
    let clocks = [
        TestClock::new(&library, 3_700_000_000, 40_000),
        TestClock::new(&library, -2_100_000_000, -60_000),
    ];
    let machines = [0, 1].map(|at| TestMachine::behind(&wires[at], &sshd, dir, &clocks[at]));
    let [producers, clients] = &machines;
    // Addresses of the broker that the machines can reach.
    let proxy = proxy(dir, &broker, &wires[0].here);
    let here = format!(
        "[[machine]]\nname = \"here\"\nroles = [\"gateway\"]\naddress = \"{}\"\n",
        wires[0].here
    );
    let inventory = inventory([producers, clients]) + &here;
    let floor = ["--architectures", "floor", "--hold", "5s"];

    let measured = [0, 1].map(|at| MeasuredClock::start(&machines[at], &clocks[at]));
    let out = dir.join("wires");
    let output = bench(&proxy.bootstrap, &out, &inventory, &floor)
        .output()
        .unwrap();
    let run = results(&out).unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    assert_latency_within_bound(&run, wires[0].delays_ms[1] + wires[1].delays_ms[0]);
    for clock in measured {
        clock.assert_contains_truth();
    }

    let out = dir.join("step");
    let mut command = bench(&proxy.bootstrap, &out, &inventory, &floor);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut coordinator = Process::spawn(&mut command);
    wait_for_clients(&mut coordinator, clients);
    clients.step_clock();
    assert!(!coordinator.wait().unwrap().success());
    let run = results(&out).unwrap();
    let reason = run["cells"][0]["status"]["reasons"][0].as_str().unwrap();
    let start = format!("clock of machine m-{}: ", clients.address);
    assert!(
        reason.starts_with(&start) && reason.contains("step"),
        "{reason}"
    );
}

/// Ensures that the median latency of a cell is that of the wires, within the stated bound, and
/// that the bound, which is wide because of the wires, makes the cell invalid.
fn assert_latency_within_bound(run: &Value, delay_ms: f64) {
    let bound_ms = run["clock"]["bound_ns"].as_f64().unwrap() / 1e6;
    assert!((32.5..100.0).contains(&bound_ms), "{bound_ms}");
    let cell = &run["cells"][0];
    let p50_ms = cell["latency"]["response"]["p50_us"].as_f64().unwrap() / 1e3;
    let most_ms = delay_ms + bound_ms + PROCESSING_MAX_MS;
    assert!(
        (delay_ms - bound_ms..most_ms).contains(&p50_ms),
        "{p50_ms} ± {bound_ms}"
    );
    for figure in ["lost", "duplicated", "reordered"] {
        assert_eq!(cell["delivery"][figure], 0, "{figure}: {cell}");
    }
    let reasons = cell["status"]["reasons"].as_array().unwrap();
    let mut reasons = reasons.iter().map(|reason| reason.as_str().unwrap());
    assert!(
        reasons.any(|it| it.contains("than a tenth of the median")),
        "{cell}"
    );
}

/// Measurement of a machine's clock with `weir load clock`.
struct MeasuredClock {
    _echo: Process,
    meter: Process,
    /// True offset in nanoseconds at the start and at the end of the time span of the bound.
    truth_ns: [i64; 2],
}

impl MeasuredClock {
    fn start(machine: &TestMachine, clock: &TestClock) -> Self {
        let address = format!("{}:7071", machine.address);
        let mut echo = machine.weir(&["load", "clock", "--json", "--listen", &address]);
        let mut echo = Process::spawn(echo.stdout(Stdio::piped()));
        let mut line = String::new();
        let mut output = BufReader::new(echo.stdout.as_mut().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.contains("ready"), "{line}");
        let span = format!("{SPAN_S}s");
        let mut meter = weir(&[
            "load",
            "clock",
            "--json",
            "--peer",
            &address,
            "--duration",
            &span,
        ]);
        let now_ns = clock.offset_now_ns();
        Self {
            _echo: echo,
            meter: Process::spawn(meter.stdout(Stdio::piped()).stderr(Stdio::piped())),
            truth_ns: [LEAD_S, LEAD_S + SPAN_S].map(|s| now_ns + s * clock.drift_ns_per_s),
        }
    }

    fn assert_contains_truth(self) {
        let output = self.meter.output();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stated: Value = serde_json::from_slice(&output.stdout).unwrap();
        let stated_ns = |figure: &str| stated[figure].as_i64().unwrap();
        for truth_ns in self.truth_ns {
            let error_ns = (truth_ns - stated_ns("offset_ns")).abs();
            assert!(error_ns <= stated_ns("error_ns"), "{truth_ns}: {stated}");
        }
        // Half of a round trip and the jitter.
        assert!(stated_ns("error_ns") < 50_000_000, "{stated}");
    }
}

/// Proxy of the broker at an address that the machines reach.
struct TestProxy {
    bootstrap: String,
    _process: Process,
}

fn proxy(dir: &Path, broker: &TestBroker, address: &str) -> TestProxy {
    let free = TcpListener::bind((address, 0)).unwrap();
    let bootstrap = free.local_addr().unwrap().to_string();
    drop(free);
    let ready = dir.join("proxy-ready.json");
    let mut command = weir(&["proxy", "run", "--upstream", &broker.bootstrap]);
    command.args([
        "--listen",
        &bootstrap,
        "--admin",
        "127.0.0.1:0",
        "--ready-file",
    ]);
    command
        .arg(&ready)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let process = Process::spawn(&mut command);
    wait_until("the proxy", || ready.exists());
    TestProxy {
        bootstrap,
        _process: process,
    }
}

const ARCHITECTURES: [&str; 2] = ["--architectures", "floor,standalone"];
/// Time in seconds of the exchanges before and after the time span of a bound.
const LEAD_S: i64 = 8;
const SPAN_S: i64 = 5;
/// Largest median time in milliseconds of a record in producers, broker, floor and clients on a
/// busy machine.
const PROCESSING_MAX_MS: f64 = 200.0;
