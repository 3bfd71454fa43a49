//! Runs of plans with gateways that the plan does not configure: a running TLCP server, and servers
//! of other makers as far as they are installed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::{TestBroker, gateway, run_dir, text, weir};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a plan with 20 clients. Returns its cells and what it printed.
fn bench(plan: &str, out: &Path, change: impl FnOnce(&mut Command)) -> (Vec<Value>, Output) {
    let mut command = weir(&["bench", "run", plan, "--quick", "--repetitions", "1"]);
    command.args(["--levels", "20", "--rate", "50", "--warm-up", "1s"]);
    command.args([
        "--hold",
        "3s",
        "--drain",
        "20s",
        "--architectures",
        "gateway",
    ]);
    command.arg("--out").arg(out);
    change(&mut command);
    let output = command.output().unwrap();
    let run = run_dir(out).map(|dir| fs::read_to_string(dir.join("run.json")).unwrap());
    let run = run.map(|run| serde_json::from_str::<Value>(&run).unwrap());
    let cells = run.and_then(|run| run["cells"].as_array().cloned());
    (cells.unwrap_or_default(), output)
}

fn require_complete_delivery(cell: &Value, output: &Output) {
    let delivery = &cell["delivery"];
    for figure in ["lost", "duplicated", "reordered"] {
        assert_eq!(
            delivery[figure],
            0,
            "{figure}: {cell} {}",
            text(&output.stderr)
        );
    }
    assert!(delivery["delivered"].as_u64() > Some(20), "{cell}");
    assert_eq!(delivery["delivered"], delivery["expected"], "{cell}");
}

fn gateway_usage(cell: &Value) -> Option<&Value> {
    let roles = cell["roles"].as_array().unwrap();
    roles.iter().find(|usage| usage["role"] == "gateway")
}

#[test]
fn running_gateway_is_measured_by_its_url() {
    let broker = TestBroker::start();
    let dir = broker.scratch.path();
    let topic = format!("gateways-{}", std::process::id());
    let create = [
        "load",
        "produce",
        "--create-topic",
        "--count",
        "1",
        "--max-lag",
        "1m",
    ];
    let created = weir(&create)
        .args(["--topic", &topic])
        .args(["--bootstrap", &broker.bootstrap])
        .output()
        .unwrap();
    assert!(created.status.success(), "{}", text(&created.stderr));
    let adapters = include_str!("../../../plans/keyed-adapters.xml")
        .replace("@TOPIC@", &topic)
        .replace("@BOOTSTRAP@", &broker.bootstrap);
    let (_process, listen) = gateway(dir, "running", &adapters);
    let port = listen.rsplit_once(':').unwrap().1.to_owned();
    let existing = ["--bootstrap", &broker.bootstrap, "--topic", &topic];

    // The process that listens on this machine is sampled.
    let url = format!("ws://{listen}");
    let (cells, output) = bench("keyed", &dir.join("here"), |command| {
        command.args(existing).args(["--gateway", &url]);
    });
    let [cell] = cells.as_slice() else {
        panic!("one cell: {cells:?} {}", text(&output.stderr));
    };
    require_complete_delivery(cell, &output);
    assert_eq!(cell["variant"], "external", "{cell}");
    let usage = gateway_usage(cell).unwrap_or_else(|| panic!("no usage: {cell}"));
    assert!(usage["rss_max_bytes"].as_u64() > Some(0), "{usage}");

    // This address is not known to be one of this machine.
    let url = format!("ws://0.0.0.0:{port}");
    let (cells, output) = bench("keyed", &dir.join("elsewhere"), |command| {
        command.args(existing).args(["--gateway", &url]);
    });
    require_complete_delivery(&cells[0], &output);
    assert_eq!(gateway_usage(&cells[0]), None);
    let note = "the gateway runs elsewhere: its CPU and memory were not measured";
    assert!(
        cells[0]["notes"].as_array().unwrap().contains(&note.into()),
        "{cells:?}"
    );
    let table = text(&output.stdout);
    assert!(
        table.contains(note) && !table.contains("0.0 us CPU"),
        "{table}"
    );

    let (_, output) = bench("keyed", &dir.join("no-topic"), |command| {
        command.args(["--bootstrap", &broker.bootstrap, "--gateway", &url]);
    });
    assert_eq!(output.status.code(), Some(2));
    let expected = "name the topic that it reads with --topic";
    assert!(text(&output.stderr).contains(expected), "{output:?}");
    others_are_measured_next_to_weir(&broker);
}

/// `make test-peers` installs Centrifugo first.
#[expect(clippy::print_stdout, reason = "says what was left out")]
fn others_are_measured_next_to_weir(broker: &TestBroker) {
    let peers = root().join("bench/peers");
    let mut find = Command::new(root().join("scripts/go-tool"));
    let found = find.arg("centrifugo").output().unwrap();
    let has_centrifugo = found.status.success();
    let program = PathBuf::from(text(&found.stdout).trim());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = program.parent().map(Path::to_owned).into_iter();
    let path = std::env::join_paths(dirs.chain(std::env::split_paths(&path))).unwrap();
    let plan = peers.join("plan.toml");
    let out = broker.scratch.path().join("others");
    let (cells, output) = bench(plan.to_str().unwrap(), &out, |command| {
        command.args(["--bootstrap", &broker.bootstrap, "--skip-missing"]);
        command.arg("--gateways").arg(peers.join("gateways.toml"));
        command
            .env("WEIR", env!("CARGO_BIN_EXE_weir"))
            .env("PATH", path);
        // Packages of Node.js that this machine may have would make the test longer.
        command
            .env("PEERS_NODE_MODULES", broker.scratch.path())
            .env("NGINX", "no-nginx");
    });
    let stderr = text(&output.stderr);
    for missing in ["node-ws", "uwebsockets", "nchan"] {
        let line = format!("left out gateway \"{missing}\": ");
        assert!(stderr.contains(&line), "{missing}: {stderr}");
    }
    let mut expected = vec!["weir", "weir-sse"];
    match has_centrifugo {
        true => expected.push("centrifugo"),
        false => println!("skipped: {}", text(&found.stderr).trim()),
    }
    let variants: Vec<&str> = cells
        .iter()
        .filter_map(|cell| cell["variant"].as_str())
        .collect();
    assert_eq!(variants, expected, "{stderr}");
    for cell in &cells {
        require_complete_delivery(cell, &output);
        assert!(gateway_usage(cell).is_some(), "{cell}");
    }
}
