//! Runs of a plan on agents that the user starts: processes on this machine.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Process, Signal, TestBroker, run_dir, send_signal, text, weir};

const TEST_TIMEOUT: Duration = Duration::from_secs(120);
const CLIENTS: u64 = 40;
/// Time that even a busy machine needs for the last records.
const DRAIN: &str = "20s";
const TOKEN: &str = "6d7b6c0a4a3f4f1e9a5d2c8b7e6f5a4b";

/// Coordinator of a run with its agents.
struct TestRun {
    out: PathBuf,
    coordinator: Process,
    agents: BTreeMap<&'static str, Process>,
}

/// Machines of an inventory with their roles.
type Roles<'a> = &'a [(&'static str, &'a str)];

const TWO: Roles<'_> = &[
    ("load-1", "\"producers\""),
    ("load-2", "\"clients\", \"consumers\""),
];

/// Two machines share all load.
const SHARED_LOAD: Roles<'_> = &[
    ("load-1", "\"producers\", \"clients\", \"consumers\""),
    ("load-2", "\"producers\", \"clients\", \"consumers\""),
];

/// Two machines share the clients; consumers run on the coordinator's.
const SHARED: Roles<'_> = &[
    ("load-1", "\"producers\", \"clients\""),
    ("load-2", "\"clients\""),
];

/// The server runs on a machine of its own, all timestamps are those of another.
const SERVER: Roles<'_> = &[
    ("load-1", "\"producers\", \"clients\", \"probe\""),
    ("server", "\"gateway\""),
];

impl TestRun {
    fn start(
        broker: &TestBroker,
        name: &str,
        machines: Roles<'_>,
        [hold, drain]: [&str; 2],
    ) -> Self {
        let out = broker.scratch.path().join(name);
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = bench(broker, &out, machines, &listen);
        command.args(["--hold", hold, "--drain", drain]);
        command.stdout(Stdio::null());
        command.stderr(fs::File::create(out.with_extension("log")).unwrap());
        let coordinator = Process::spawn(&mut command);
        let agents = machines.iter().map(|(machine, _)| {
            let marker = out.join(machine);
            let mut agent = weir(&["agent", "--coordinator", &listen, "--machine", machine]);
            agent.env("WEIR_AGENT_TOKEN", TOKEN).env(MARKER, marker);
            agent.stdout(Stdio::null());
            agent.stderr(fs::File::create(out.with_extension(machine)).unwrap());
            (*machine, Process::spawn(&mut agent))
        });
        let agents = agents.collect();
        Self {
            out,
            coordinator,
            agents,
        }
    }

    /// Waits for the end of the coordinator. Returns its exit code and `run.json`.
    fn finish(&mut self) -> (Option<i32>, Value) {
        let status = self.coordinator.wait().unwrap();
        let log = fs::read_to_string(self.out.with_extension("log")).unwrap();
        let dir = run_dir(&self.out).unwrap_or_else(|| panic!("{log}"));
        let run = fs::read(dir.join("run.json")).unwrap();
        (status.code(), serde_json::from_slice(&run).unwrap())
    }

    /// Returns the processes of an agent's machine: itself, its sessions and their roles.
    fn processes(&self, machine: &str) -> Vec<u32> {
        let marker = format!("{MARKER}={}", self.out.join(machine).display());
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_here = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|it| it == marker.as_bytes())
        };
        pids.filter(is_here).collect()
    }

    fn wait_for_role(&mut self, machine: &str, role: &str) -> u32 {
        let words = format!("\0load\0{role}\0");
        let mut found = None;
        wait_until(role, || {
            assert!(self.coordinator.try_wait().unwrap().is_none(), "it ended");
            let is_role = |pid: &u32| {
                let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                text(&command).contains(&words)
            };
            found = self.processes(machine).into_iter().find(is_role);
            found.is_some()
        });
        found.unwrap()
    }

    fn assert_no_processes(&self) {
        wait_until("the end of all processes", || {
            let mut machines = self.agents.keys();
            machines.all(|machine| self.processes(machine).is_empty())
        });
    }
}

fn bench(broker: &TestBroker, out: &Path, machines: Roles<'_>, listen: &str) -> Command {
    let inventory = out.with_extension("toml");
    let tables = machines.iter().map(|(name, roles)| {
        format!("[[machine]]\nname = \"{name}\"\nagent = true\nroles = [{roles}]\n")
    });
    fs::write(&inventory, tables.collect::<String>()).unwrap();
    let token = out.with_extension("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let mut command = weir(&["bench", "run", "keyed", "--quick", "--engine", "manual"]);
    command.arg("--inventory").arg(inventory);
    command.arg("--agent-token-file").arg(token);
    command
        .args(["--agents-listen", listen])
        .arg("--out")
        .arg(out);
    let levels = CLIENTS.to_string();
    command.args(["--bootstrap", &broker.bootstrap, "--levels", &levels]);
    command.args(["--rate", "100", "--repetitions", "1", "--warm-up", "1s"]);
    let architectures = match machines == SERVER {
        true => "floor,gateway",
        false => "floor,standalone",
    };
    command.args(["--architectures", architectures]);
    command
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn roles_run_on_agents() {
    let broker = TestBroker::start();
    two_agents_count_like_one(&broker);
    gateway_runs_on_agent(&broker);
}

#[test]
fn failures_of_agents_end_the_run() {
    let broker = TestBroker::start();
    lost_agent_makes_run_invalid(&broker, "lost", TWO);
    lost_agent_makes_run_invalid(&broker, "lost-share", SHARED);
    silent_machine_makes_cell_invalid(&broker);
    killed_coordinator_ends_agents(&broker);
    missing_agent_is_named(&broker);
}

/// Runs a plan. Returns the number of delivered records of each cell.
fn delivered(broker: &TestBroker, name: &str, machines: Roles<'_>) -> Vec<u64> {
    let mut test = TestRun::start(broker, name, machines, ["3s", DRAIN]);
    let (_, run) = test.finish();
    assert_clock(&run, machines);
    let host = |role: &str| {
        let mut placement = run["placement"].as_array().unwrap().iter();
        placement.find(|it| it["role"] == role).unwrap()["host"].clone()
    };
    let on = |role: &str| {
        let with = machines.iter().filter(|it| it.1.contains(role));
        with.map(|it| it.0).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(host("produce"), on("producers"));
    assert_eq!(host("clients"), on("clients"));
    let server = match machines == SERVER {
        true => "server",
        false => "this machine",
    };
    assert_eq!(host("floor"), server);
    let cells = run["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        // On a busy machine the bound of the clocks may be too wide for these short latencies, and
        // records may be late. The counts are the same.
        if let Some(reasons) = cell["status"]["reasons"].as_array() {
            let of_machine = |reason: &Value| {
                let texts = ["than a tenth of the median", "generator behind schedule"];
                texts
                    .iter()
                    .any(|text| reason.as_str().unwrap().contains(text))
            };
            assert!(reasons.iter().all(of_machine), "{cell}");
        }
        for figure in ["lost", "duplicated", "reordered"] {
            assert_eq!(cell["delivery"][figure], 0, "{figure}: {cell}");
        }
        let (server, receiving, role) = match cell["architecture"].as_str().unwrap() {
            "standalone" => (None, "consume", "consumers"),
            server => (Some(server), "clients", "clients"),
        };
        for role in ["produce", receiving].into_iter().chain(server) {
            let usage = usage(cell, role);
            assert!(usage["rss_max_bytes"].as_u64() > Some(0), "{usage}");
        }
        if cell["architecture"] == "gateway" {
            assert_eq!(host("probe"), on("probe"));
            assert_sdk_client(cell, &on("probe"));
        }
        assert_shares(cell, (receiving, role), machines);
        let producers = usage(cell, "produce");
        assert_eq!(producers["processes"], on("producers").split(", ").count());
    }
    for agent in test.agents.values_mut() {
        assert!(agent.wait().unwrap().success());
    }
    test.assert_no_processes();
    let delivered = cells
        .iter()
        .map(|cell| cell["delivery"]["delivered"].as_u64());
    delivered.map(Option::unwrap).collect()
}

/// Ensures that the SDK client on a machine received all its records, or that a note names the
/// missing program.
#[expect(clippy::print_stdout, reason = "says what was skipped")]
fn assert_sdk_client(cell: &Value, host: &str) {
    let probe = &cell["probe"];
    if probe.is_null() {
        let notes = cell["notes"].as_array().unwrap();
        let mut notes = notes.iter().map(|note| note.as_str().unwrap());
        let start = format!("no SDK client on {host}: ");
        let missing = notes.find_map(|note| note.strip_prefix(&start));
        let missing = missing.unwrap_or_else(|| panic!("no SDK client and no note: {cell}"));
        assert!(missing.contains("not found"), "{missing}");
        println!("skipped: {missing}");
        return;
    }
    assert!(probe["updates"].as_u64() > Some(0), "{cell}");
    assert_eq!(probe["lost"], 0, "{cell}");
    assert!(probe["latency"]["mean_us"].as_f64() > Some(0.0), "{cell}");
}

/// Ensures that a cell with timestamps of several clocks states their bound, and that one with all
/// timestamps of one machine (the echo layout) has none.
fn assert_clock(run: &Value, machines: Roles<'_>) {
    let timed = |roles: &str| roles.contains("clients") || roles.contains("producers");
    let is_echo = machines.iter().filter(|it| timed(it.1)).count() == 1;
    let mut is_bound = false;
    for cell in run["cells"].as_array().unwrap() {
        let notes = cell["notes"].as_array().into_iter().flatten();
        let bounds = notes.filter(|note| note.as_str().unwrap().contains("(clocks)"));
        let is_stated = !is_echo;
        assert_eq!(bounds.count(), usize::from(is_stated), "{cell}");
        is_bound |= is_stated;
    }
    let mode = if is_bound {
        "offset_estimate"
    } else {
        "same_host"
    };
    assert_eq!(run["clock"]["mode"], mode, "{run}");
}

fn usage<'a>(cell: &'a Value, role: &str) -> &'a Value {
    let mut roles = cell["roles"].as_array().unwrap().iter();
    let usage = roles.find(|it| it["role"] == role);
    usage.unwrap_or_else(|| panic!("no usage of {role}: {cell}"))
}

/// Ensures that the machines with the receivers' role ran equal shares, which add up to the whole.
fn assert_shares(cell: &Value, (receiving, role): (&str, &str), machines: Roles<'_>) {
    let with = machines.iter().filter(|it| it.1.contains(role));
    let hosts: Vec<&str> = with.map(|it| it.0).collect();
    let shares = cell["shares"].as_array().cloned().unwrap_or_default();
    if hosts.len() < 2 {
        assert!(shares.is_empty(), "{cell}");
        return;
    }
    let named: Vec<&str> = shares.iter().filter_map(|it| it["host"].as_str()).collect();
    assert_eq!(named, hosts, "{cell}");
    let sum = |figure: &str| {
        let values = shares.iter().map(|it| it[figure].as_u64().unwrap());
        values.sum::<u64>()
    };
    assert_eq!(sum("clients"), CLIENTS, "{cell}");
    assert_eq!(cell["delivery"]["delivered"], sum("delivered"), "{cell}");
    for share in &shares {
        assert_eq!(share["clients"], CLIENTS / hosts.len() as u64, "{share}");
        assert!(share["response"]["count"].as_u64() > Some(0), "{share}");
        assert!(share["rss_max_bytes"].as_u64() > Some(0), "{share}");
    }
    assert_eq!(usage(cell, receiving)["processes"], hosts.len(), "{cell}");
}

fn two_agents_count_like_one(broker: &TestBroker) {
    let two = delivered(broker, "two", TWO);
    let one = "\"producers\", \"clients\", \"consumers\"";
    let one = delivered(broker, "one", &[("load", one)]);
    assert!(two.iter().all(|it| *it > 0), "{two:?}");
    assert_eq!(two, one);
    // The keys of all clients are the same as with one process.
    assert_eq!(delivered(broker, "shared", SHARED_LOAD), one);
}

fn gateway_runs_on_agent(broker: &TestBroker) {
    let counts = delivered(broker, "server", SERVER);
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}");
}

/// Ends the agent `load-2` while its clients run.
fn lost_agent_makes_run_invalid(broker: &TestBroker, name: &str, machines: Roles<'_>) {
    let mut test = TestRun::start(broker, name, machines, ["5s", DRAIN]);
    test.wait_for_role("load-2", "clients");
    let agent = test.agents.get_mut("load-2").unwrap();
    send_signal(agent.id(), Signal::TERM);
    assert_eq!(agent.wait().unwrap().code(), Some(130));
    let (code, run) = test.finish();
    assert_eq!(code, Some(4), "{run}");
    assert_eq!(run["outcome"], "invalid", "{run}");
    let lost = &run["cells"][0]["status"];
    assert_eq!(lost["state"], "invalid", "{lost}");
    let reason = lost["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("clients on load-2 exited"), "{reason}");
    // Its connection ended or was reset.
    assert!(reason.contains("agent load-2 was lost: "), "{reason}");
    let next = &run["cells"][1]["status"];
    assert_eq!(next["state"], "skipped", "{next}");
    assert!(
        next["reason"]
            .as_str()
            .unwrap()
            .contains("agent load-2 was lost")
    );
    test.assert_no_processes();
}

/// Stops the clients of one machine in the middle, so that their result does not come.
fn silent_machine_makes_cell_invalid(broker: &TestBroker) {
    let mut test = TestRun::start(broker, "silent", SHARED, ["3s", "1s"]);
    let clients = test.wait_for_role("load-2", "clients");
    wait_until("the measured window", || {
        let dir = run_dir(&test.out).expect("a run directory");
        let mut cells = fs::read_dir(dir).unwrap().flatten();
        let events =
            cells.find_map(|it| fs::read_to_string(it.path().join("clients-2.jsonl")).ok());
        events.is_some_and(|it| it.contains("\"event\":\"interval\""))
    });
    send_signal(clients, Signal::STOP);
    let (_, run) = test.finish();
    let silent = &run["cells"][0]["status"];
    assert_eq!(silent["state"], "invalid", "{silent}");
    let reason = silent["reasons"][0].as_str().unwrap();
    assert_eq!(reason, "clients on load-2 sent no summary in time");
    test.assert_no_processes();
}

fn killed_coordinator_ends_agents(broker: &TestBroker) {
    let mut test = TestRun::start(broker, "killed", TWO, ["10m", DRAIN]);
    test.wait_for_role("load-1", "produce");
    test.wait_for_role("load-2", "clients");
    test.coordinator.kill().unwrap();
    test.coordinator.wait().unwrap();
    for (machine, agent) in &mut test.agents {
        assert_eq!(agent.wait().unwrap().code(), Some(4));
        let log = fs::read_to_string(test.out.with_extension(machine)).unwrap();
        assert!(
            log.contains("all processes of this agent were ended"),
            "{log}"
        );
        assert!(!log.contains(TOKEN), "{log}");
    }
    test.assert_no_processes();
}

fn missing_agent_is_named(broker: &TestBroker) {
    let out = broker.scratch.path().join("missing");
    let mut command = bench(broker, &out, TWO, "127.0.0.1:0");
    let output = command.args(["--join-timeout", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("no agent joined within 1 s for load-1, load-2"),
        "{stderr}"
    );
    assert!(!stderr.contains(TOKEN), "{stderr}");
    // Ctrl-C ends the wait.
    let log = out.with_extension("log");
    let mut command = bench(broker, &out, TWO, "127.0.0.1:0");
    command.stdout(fs::File::create(&log).unwrap());
    let mut waiting = Process::spawn(&mut command);
    wait_until("the wait", || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("waiting for agents")
    });
    send_signal(waiting.id(), Signal::INT);
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
}

/// Variable by which the processes of an agent are found; they inherit it.
const MARKER: &str = "AGENT_OF_TEST";
