//! API server and controllers of Kubernetes on loopback, without containers.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{Process, text};

/// Running cluster; its processes end when it is dropped.
pub(crate) struct Cluster {
    pub(crate) dir: tempfile::TempDir,
    tools: PathBuf,
    processes: Vec<Process>,
}

impl Cluster {
    /// Starts etcd, the API server and the controllers of Jobs and Deployments.
    pub(crate) fn start(tools: &Path) -> Self {
        let mut cluster = Self {
            dir: tempfile::tempdir().unwrap(),
            tools: tools.to_owned(),
            processes: Vec::new(),
        };
        let [clients, peers, api] = free_ports();
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = Command::new("etcd");
        etcd.args(["--unsafe-no-fsync", "--data-dir", "etcd"]);
        etcd.args(["--listen-client-urls", &url(clients)]);
        etcd.args(["--advertise-client-urls", &url(clients)]);
        etcd.args(["--listen-peer-urls", &url(peers)]);
        etcd.args(["--initial-advertise-peer-urls", &url(peers)]);
        etcd.args(["--initial-cluster", &format!("default={}", url(peers))]);
        cluster.spawn("etcd", etcd);
        cluster.write_files(api);
        let mut server = Command::new(tools.join("kube-apiserver"));
        server.args(["--bind-address=127.0.0.1", "--cert-dir=certs"]);
        server.arg(format!("--etcd-servers={}", url(clients)));
        server.arg(format!("--secure-port={api}"));
        server.args([
            "--service-account-key-file=key",
            "--service-account-signing-key-file=key",
        ]);
        server.args(["--service-account-issuer=https://kubernetes.default"]);
        server.args([
            "--token-auth-file=tokens",
            "--authorization-mode=AlwaysAllow",
        ]);
        server.args(["--disable-admission-plugins=ServiceAccount"]);
        server.args(["--service-cluster-ip-range=10.0.0.0/24"]);
        server.arg("--kubelet-preferred-address-types=InternalIP");
        cluster.spawn("kube-apiserver", server);
        wait_until("the API server", || {
            let output = cluster
                .kubectl(&["get", "--raw", "/readyz"])
                .output()
                .unwrap();
            output.status.success()
        });
        let mut manager = Command::new(tools.join("kube-controller-manager"));
        manager.args([
            "--kubeconfig=config",
            "--leader-elect=false",
            "--secure-port=0",
        ]);
        manager.arg(format!("--controllers={CONTROLLERS}"));
        cluster.spawn("kube-controller-manager", manager);
        cluster
    }

    fn spawn(&mut self, name: &str, mut command: Command) {
        let log = fs::File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.processes.push(Process::spawn(&mut command));
    }

    fn write_files(&self, port: u16) {
        let dir = self.dir.path();
        let mut key = Command::new("openssl");
        let key = key.args(["genrsa", "-out"]).arg(dir.join("key")).output();
        succeeded(&key.unwrap());
        let tokens = "secret-of-test,admin,admin,\"system:masters\"\n";
        fs::write(dir.join("tokens"), tokens).unwrap();
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters:\n- name: test\n  \
             cluster:\n    server: https://127.0.0.1:{port}\n    insecure-skip-tls-verify: \
             true\nusers:\n- name: admin\n  user:\n    token: secret-of-test\ncontexts:\n- name: \
             test\n  context:\n    cluster: test\n    user: admin\n"
        );
        fs::write(self.kubeconfig(), config).unwrap();
    }

    /// Returns the file with address and login.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    /// Returns `PATH` with the kubectl of this version first.
    pub(crate) fn path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.tools.display())
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.tools.join("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args);
        command
    }

    /// Runs kubectl with an input. Returns its output.
    pub(crate) fn run(&self, args: &[&str], input: &str) -> String {
        let output = self.try_run(args, input);
        succeeded(&output);
        text(&output.stdout)
    }

    pub(crate) fn try_run(&self, args: &[&str], input: &str) -> Output {
        let mut command = self.kubectl(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    /// Returns objects as JSON.
    pub(crate) fn get(&self, args: &[&str]) -> Value {
        let args = [&["get", "-o", "json"], args].concat();
        serde_json::from_str(&self.run(&args, "")).unwrap()
    }

    /// Waits until a Job has a condition. Returns its status.
    pub(crate) fn wait_for_job(&self, name: &str, condition: &str) -> Value {
        let mut status = Value::Null;
        wait_until(&format!("{condition} of {name}"), || {
            status = self.get(&["job", name])["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let has = |it: &Value| it["type"] == condition && it["status"] == "True";
            conditions.iter().any(has)
        });
        status
    }
}

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|it| it.local_addr().unwrap().port())
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

const CONTROLLERS: &str = "job-controller,garbage-collector-controller,\
    ttl-after-finished-controller,deployment-controller,replicaset-controller";
const TIMEOUT: Duration = Duration::from_secs(240);
