//! Runs in Kubernetes: manifests and the engine on a real API server with its controllers, and a
//! node that starts processes. `make test-kubernetes` builds the programs first.

mod cluster;
mod logs;
mod node;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use cluster::{Cluster, wait_until};
use node::ProcessNode;
use serde_json::{Value, json};
use support::{Process, Signal, TestBroker, run_dir, send_signal, text, weir};

/// Returns the directory of the programs; `None` with a message if they are not there.
#[expect(clippy::print_stdout, reason = "says what was skipped")]
fn tools() -> Option<PathBuf> {
    if std::env::var_os("WEIR_KUBERNETES").is_none() {
        println!("skipped: Kubernetes takes minutes; make test-kubernetes runs it");
        return None;
    }
    let script = root().join("scripts/go-tool");
    let output = Command::new(script).arg("kubernetes").output().unwrap();
    if output.status.success() {
        return Some(PathBuf::from(text(&output.stdout).trim()));
    }
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    println!("skipped: {}", text(&output.stderr).trim());
    None
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a short run in the cluster.
fn bench(cluster: &Cluster, broker: &TestBroker, hold: &str) -> Command {
    let mut command = weir(&["bench", "run", "keyed", "--quick", "--engine", "kubernetes"]);
    command.args(["--bootstrap", &broker.bootstrap, "--levels", "40"]);
    command.args(["--rate", "100", "--repetitions", "1", "--warm-up", "1s"]);
    command.args(["--architectures", "floor", "--drain", "20s", "--hold", hold]);
    command.env("KUBECONFIG", cluster.kubeconfig());
    command.env("PATH", cluster.path());
    command
}

#[test]
fn jobs_run_on_a_real_api_server() {
    let Some(tools) = tools() else { return };
    let broker = TestBroker::start();
    let cluster = Arc::new(Cluster::start(&tools));
    let node = ProcessNode::start(&cluster, env!("CARGO_BIN_EXE_weir"));
    manifests_run_to_completion(&cluster, &node, &broker);
    killed_agent_fails_all_jobs(&cluster, &node, &broker);
    engine_collects_results_and_deletes_objects(&cluster, &node, &broker);
    interrupted_run_leaves_nothing(&cluster, &node, &broker);
    shipped_objects_are_accepted(&cluster);
}

fn apply(cluster: &Cluster, broker: &TestBroker, hold: &str) {
    let output = bench(cluster, broker, hold)
        .arg("--print")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    cluster.run(&["apply", "-f", "-"], &text(&output.stdout));
}

fn manifests_run_to_completion(cluster: &Cluster, node: &ProcessNode, broker: &TestBroker) {
    apply(cluster, broker, "3s");
    for job in ["weir-bench-producers", "weir-bench-clients"] {
        let status = cluster.wait_for_job(job, "Complete");
        assert_eq!(status["completedIndexes"], "0", "{job}: {status}");
    }
    // The bound of the clocks may be too wide for these short latencies on a busy machine.
    wait_until("the end of the coordinator", || node.running().is_empty());
    let log = cluster.run(&["logs", "job/weir-bench-coordinator"], "");
    let archive = log.lines().filter(|line| line.starts_with("{\"archive\":"));
    assert!(archive.count() > 2, "{log}");
    delete(cluster);
}

fn killed_agent_fails_all_jobs(cluster: &Cluster, node: &ProcessNode, broker: &TestBroker) {
    apply(cluster, broker, "10m");
    wait_until("the measurement", || {
        let log = cluster.try_run(&["logs", "job/weir-bench-coordinator"], "");
        text(&log.stdout).contains("(2 of 2)") && node.running().len() == 3
    });
    node.kill("weir-bench-clients-0");
    let status = cluster.wait_for_job("weir-bench-clients", "Failed");
    assert_eq!(status["failed"], 1, "{status}");
    cluster.wait_for_job("weir-bench-coordinator", "Failed");
    cluster.wait_for_job("weir-bench-producers", "Complete");
    assert_eq!(node.running(), Vec::<String>::new());
    let log = cluster.run(&["logs", "job/weir-bench-coordinator"], "");
    assert!(log.contains("agent clients-0 was lost"), "{log}");
    delete(cluster);
}

fn delete(cluster: &Cluster) {
    let selector = "--selector=app.kubernetes.io/instance=weir-bench";
    let kinds = "jobs,services,secrets";
    cluster.run(&["delete", kinds, selector, "--cascade=foreground"], "");
    assert_nothing_left(cluster);
}

fn assert_nothing_left(cluster: &Cluster) {
    let selector = "--selector=app.kubernetes.io/name=weir-bench";
    let left = cluster.get(&["jobs,services,secrets,pods", selector]);
    assert_eq!(left["items"].as_array().unwrap().len(), 0, "{left}");
}

fn engine_collects_results_and_deletes_objects(
    cluster: &Cluster,
    node: &ProcessNode,
    broker: &TestBroker,
) {
    let out = broker.scratch.path().join("collected");
    let mut command = bench(cluster, broker, "3s");
    command.args(["--producers-agents", "2", "--clients-agents", "2"]);
    let output = command.arg("--out").arg(&out).output().unwrap();
    let stderr = text(&output.stderr);
    let dir = run_dir(&out).unwrap_or_else(|| panic!("{stderr}"));
    assert!(dir.join("report.html").is_file());
    let run: Value = serde_json::from_slice(&fs::read(dir.join("run.json")).unwrap()).unwrap();
    let cell = &run["cells"][0];
    for figure in ["lost", "duplicated", "reordered"] {
        assert_eq!(cell["delivery"][figure], 0, "{figure}: {cell}");
    }
    assert!(cell["delivery"]["delivered"].as_u64() > Some(0), "{cell}");
    let shares = cell["shares"].as_array().unwrap().iter();
    let shares: Vec<_> = shares.map(|it| (&it["host"], &it["clients"])).collect();
    assert_eq!(
        shares,
        [
            (&json!("clients-0"), &json!(20)),
            (&json!("clients-1"), &json!(20))
        ]
    );
    let mut roles = cell["roles"].as_array().unwrap().iter();
    let producers = roles.find(|it| it["role"] == "produce");
    assert_eq!(producers.unwrap()["processes"], 2, "{cell}");
    let valid = run["outcome"] != "invalid";
    assert_eq!(
        output.status.code(),
        Some(if valid { 0 } else { 4 }),
        "{stderr}"
    );
    assert_nothing_left(cluster);
    assert_eq!(node.running(), Vec::<String>::new());
}

fn interrupted_run_leaves_nothing(cluster: &Cluster, node: &ProcessNode, broker: &TestBroker) {
    let log = broker.scratch.path().join("interrupted.log");
    let mut command = bench(cluster, broker, "10m");
    command
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap());
    let mut engine = Process::spawn(&mut command);
    wait_until("the measurement", || {
        assert!(engine.try_wait().unwrap().is_none(), "it ended");
        fs::read_to_string(&log).unwrap().contains("(2 of 2)")
    });
    send_signal(engine.id(), Signal::INT);
    assert_eq!(engine.wait().unwrap().code(), Some(130));
    assert_nothing_left(cluster);
    wait_until("the end of all pods", || node.running().is_empty());
}

/// The API server accepts the manifest, the patch and, if Helm is there, the chart's output.
fn shipped_objects_are_accepted(cluster: &Cluster) {
    let packaging = root().join("packaging/kubernetes");
    let manifest = packaging.join("weir-gateway.yaml");
    let manifest = fs::read_to_string(manifest).unwrap();
    cluster.run(
        &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
        &manifest,
    );
    let helm = Command::new(root().join("scripts/go-tool"))
        .arg("helm")
        .output()
        .unwrap();
    if helm.status.success() {
        let mut template = Command::new(text(&helm.stdout).trim());
        template
            .args(["template", "other", "--kube-version", "1.36.0"])
            .arg(packaging.join("chart"));
        let output = template.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let objects = text(&output.stdout);
        cluster.run(
            &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
            &objects,
        );
    }
    // The check can fail.
    let wrong = manifest.replace("maxSurge:", "maxSurges:");
    let args = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    assert!(!cluster.try_run(&args, &wrong).status.success());
}
