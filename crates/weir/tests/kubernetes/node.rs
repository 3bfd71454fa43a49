//! Node without containers: runs the command of each pod as a process, and serves its log.
//!
//! Paths of volumes become directories of the test, and names of Services loopback addresses. All
//! other fields of the pod are as the API server gives them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::logs::{LogServer, Logs};
use super::support::Process;

/// Running node; its pods are killed when it is dropped.
pub(crate) struct ProcessNode {
    stop: Arc<AtomicBool>,
    pods: Pods,
    thread: Option<JoinHandle<()>>,
}

type Pods = Arc<Mutex<BTreeMap<String, RunningPod>>>;

struct RunningPod {
    process: Process,
    has_ended: bool,
}

impl ProcessNode {
    /// Registers a node that runs pods with `program` as the entry point of their image.
    pub(crate) fn start(cluster: &Arc<Cluster>, program: &str) -> Self {
        let dir = cluster.dir.path();
        let logs = Logs::default();
        let server = LogServer::start(&dir.join("certs"), Arc::clone(&logs));
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NAME } });
        cluster.run(&["create", "-f", "-"], &node.to_string());
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": server.port } },
        } });
        let patch = [
            "patch",
            "node",
            NAME,
            "--subresource=status",
            "--type=merge",
            "-p",
        ];
        cluster.run(&[&patch[..], &[&status.to_string()]].concat(), "");
        let (stop, pods) = (Arc::new(AtomicBool::new(false)), Pods::default());
        let worker = Worker {
            cluster: Arc::clone(cluster),
            program: program.to_owned(),
            pods: Arc::clone(&pods),
            logs,
        };
        let is_stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !is_stopped.load(Ordering::Relaxed) {
                worker.sync();
                thread::sleep(POLL_INTERVAL);
            }
        });
        Self {
            stop,
            pods,
            thread: Some(thread),
        }
    }

    /// Kills the process of the pod whose name begins with `prefix`, as a failing machine does.
    pub(crate) fn kill(&self, prefix: &str) {
        let mut pods = self.pods.lock().unwrap();
        let is_named =
            |(name, pod): &(&String, &mut RunningPod)| name.starts_with(prefix) && !pod.has_ended;
        let mut named = pods.iter_mut().filter(is_named);
        let (_, pod) = named.next().unwrap_or_else(|| panic!("no pod {prefix}"));
        pod.process.kill().unwrap();
    }

    /// Returns the names of pods whose process runs.
    pub(crate) fn running(&self) -> Vec<String> {
        let pods = self.pods.lock().unwrap();
        let running = pods.iter().filter(|(_, pod)| !pod.has_ended);
        running.map(|(name, _)| name.clone()).collect()
    }
}

impl Drop for ProcessNode {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the node failed");
        }
    }
}

struct Worker {
    cluster: Arc<Cluster>,
    program: String,
    pods: Pods,
    logs: Logs,
}

impl Worker {
    /// Binds and starts new pods, reports ended ones, and removes deleted ones.
    fn sync(&self) {
        let pods = self.cluster.get(&["pods"]);
        for pod in pods["items"].as_array().unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let is_deleted = pod["metadata"]["deletionTimestamp"].is_string();
            let is_known = self.pods.lock().unwrap().contains_key(name);
            match (is_deleted, is_known) {
                (true, _) => self.remove(name),
                (false, false) => self.start(name, pod),
                (false, true) => self.report_end(name),
            }
        }
    }

    fn start(&self, name: &str, pod: &Value) {
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": NAME });
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": name },
            "target": target,
        });
        let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
        let bound = self
            .cluster
            .try_run(&["create", "--raw", &path, "-f", "-"], &binding.to_string());
        if !bound.status.success() {
            // It may have been deleted.
            return;
        }
        let container = &pod["spec"]["containers"][0];
        let mut replaced = self.volumes(name, pod);
        replaced.extend(self.services());
        let replace = |text: &str| {
            let start = text.to_owned();
            replaced
                .iter()
                .fold(start, |text, (from, to)| text.replace(from, to))
        };
        let variables = self.variables(container, pod);
        let mut command = Command::new(&self.program);
        for arg in container["args"].as_array().into_iter().flatten() {
            let mut arg = arg.as_str().unwrap().to_owned();
            for (name, value) in &variables {
                arg = arg.replace(&format!("$({name})"), value);
            }
            command.arg(replace(&arg));
        }
        let log = self.cluster.dir.path().join(format!("{name}.log"));
        let output = fs::File::create(&log).unwrap();
        command.envs(variables).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        self.logs
            .lock()
            .unwrap()
            .insert(name.to_owned(), (log, false));
        let process = Process::spawn(&mut command);
        let pod = RunningPod {
            process,
            has_ended: false,
        };
        self.pods.lock().unwrap().insert(name.to_owned(), pod);
        self.report(name, "Running", &json!({ "running": {} }));
    }

    /// Creates the volumes of a pod. Returns their paths with those of the test.
    fn volumes(&self, name: &str, pod: &Value) -> Vec<(String, String)> {
        let root = self.cluster.dir.path().join(format!("{name}.volumes"));
        let spec = &pod["spec"];
        let volume = |mount: &Value| -> (String, PathBuf) {
            let path = mount["mountPath"].as_str().unwrap().to_owned();
            let dir = root.join(mount["name"].as_str().unwrap());
            fs::create_dir_all(&dir).unwrap();
            let mut volumes = spec["volumes"].as_array().unwrap().iter();
            let volume = volumes.find(|it| it["name"] == mount["name"]).unwrap();
            if let Some(secret) = volume["secret"]["secretName"].as_str() {
                for (key, value) in self.secret(secret) {
                    fs::write(dir.join(key), value).unwrap();
                }
            }
            (path, dir)
        };
        let mounts = spec["containers"][0]["volumeMounts"].as_array();
        let volumes = mounts.into_iter().flatten().map(volume);
        // Not the directory of the test, which is below /tmp.
        let volumes = volumes.filter(|(path, _)| path != "/tmp");
        volumes
            .map(|(path, dir)| (path, dir.display().to_string()))
            .collect()
    }

    fn secret(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        use base64::Engine as _;
        let secret = self.cluster.get(&["secret", name]);
        let data = secret["data"].as_object().unwrap().iter();
        let decode = |value: &Value| {
            let standard = base64::engine::general_purpose::STANDARD;
            standard.decode(value.as_str().unwrap()).unwrap()
        };
        data.map(|(key, value)| (key.clone(), decode(value)))
            .collect()
    }

    /// Returns the names of Services with their port, and the loopback address.
    fn services(&self) -> Vec<(String, String)> {
        let services = self.cluster.get(&["services"]);
        let items = services["items"].as_array().unwrap().iter();
        let pairs = items.map(|service| {
            let name = service["metadata"]["name"].as_str().unwrap();
            let port = &service["spec"]["ports"][0]["port"];
            (format!("{name}:{port}"), format!("127.0.0.1:{port}"))
        });
        pairs.collect()
    }

    fn variables(&self, container: &Value, pod: &Value) -> BTreeMap<String, String> {
        let variables = container["env"].as_array().into_iter().flatten();
        let value = |variable: &Value| {
            let from = &variable["valueFrom"];
            if let Some(key) = from["secretKeyRef"]["key"].as_str() {
                let secret = self.secret(from["secretKeyRef"]["name"].as_str().unwrap());
                let mut entries = secret.into_iter();
                let (_, value) = entries.find(|(name, _)| name == key).unwrap();
                return String::from_utf8(value).unwrap();
            }
            match from["fieldRef"]["fieldPath"].as_str() {
                Some("status.podIP") => "127.0.0.1".to_owned(),
                Some(path) => {
                    let (kind, key) = path.split_once("['").unwrap();
                    let kind = kind.strip_prefix("metadata.").unwrap();
                    let value = &pod["metadata"][kind][key.trim_end_matches("']")];
                    value
                        .as_str()
                        .unwrap_or_else(|| panic!("{path}"))
                        .to_owned()
                }
                None => variable["value"].as_str().unwrap().to_owned(),
            }
        };
        let pair = |it: &Value| (it["name"].as_str().unwrap().to_owned(), value(it));
        variables.map(pair).collect()
    }

    fn report_end(&self, name: &str) {
        let code = {
            let mut pods = self.pods.lock().unwrap();
            let pod = pods.get_mut(name).unwrap();
            let Some(status) = pod.process.try_wait().unwrap().filter(|_| !pod.has_ended) else {
                return;
            };
            pod.has_ended = true;
            status.code().unwrap_or(137)
        };
        self.end_log(name);
        let phase = match code {
            0 => "Succeeded",
            _ => "Failed",
        };
        self.report(name, phase, &json!({ "terminated": { "exitCode": code } }));
    }

    fn end_log(&self, name: &str) {
        if let Some((_, has_ended)) = self.logs.lock().unwrap().get_mut(name) {
            *has_ended = true;
        }
    }

    fn remove(&self, name: &str) {
        if let Some(mut pod) = self.pods.lock().unwrap().remove(name) {
            // Fails if it has ended.
            let _ = pod.process.kill();
        }
        self.end_log(name);
        let _ = self
            .cluster
            .try_run(&["delete", "pod", name, "--grace-period=0", "--force"], "");
    }

    fn report(&self, name: &str, phase: &str, state: &Value) {
        let status = json!({ "status": {
            "phase": phase,
            "podIP": "127.0.0.1",
            "podIPs": [{ "ip": "127.0.0.1" }],
            "hostIP": "127.0.0.1",
            "hostIPs": [{ "ip": "127.0.0.1" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
            "containerStatuses": [{
                "name": "weir", "image": "weir", "imageID": "weir", "ready": phase == "Running",
                "restartCount": 0, "state": state,
            }],
        } });
        let patch = [
            "patch",
            "pod",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
        ];
        // Fails if it has been deleted.
        let _ = self
            .cluster
            .try_run(&[&patch[..], &[&status.to_string()]].concat(), "");
    }
}

const NAME: &str = "process-node";
const POLL_INTERVAL: Duration = Duration::from_millis(300);
