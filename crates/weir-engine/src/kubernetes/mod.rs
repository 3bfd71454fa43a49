//! Kubernetes objects of a run: a coordinator and agents in Jobs, without a custom resource.
//!
//! The coordinator runs the plan with the engine `manual`. Each role has an Indexed Job, whose pods
//! are the machines `ROLE-INDEX` of the inventory.

mod kubectl;
mod yaml;

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::inventory::InventoryRole;

pub use kubectl::{KubernetesError, KubernetesResult};

/// Options of the objects of a run.
#[derive(Debug, Clone)]
pub struct KubernetesRun {
    /// Name of all objects, a DNS label.
    pub name: String,
    /// Namespace; `None`: that of `kubectl`.
    pub namespace: Option<String>,
    /// Image whose entry point is this program.
    pub image: String,
    /// Token of the run.
    pub token: String,
    /// Arguments of the coordinator, without those of the engine.
    pub args: Vec<String>,
    /// Files that the arguments name by `FILES_DIR/NAME`.
    pub files: Vec<(String, String)>,
    /// Roles that run in pods of their own, with their number of pods.
    pub roles: Vec<(InventoryRole, u16)>,
    /// Processors of each pod, as a Kubernetes quantity.
    pub cpu: String,
    /// Memory of each pod, as a Kubernetes quantity.
    pub memory: String,
    /// Allows load on the node of the system under test.
    pub any_node: bool,
    /// Maximum time of the run; then Kubernetes ends its pods.
    pub deadline: Duration,
}

/// Directory of the files in the coordinator's pod.
pub const FILES_DIR: &str = "/etc/weir";
/// Directory of the results in the coordinator's pod.
pub const RESULTS_DIR: &str = "/results";
/// Name of the container of each pod.
pub const CONTAINER: &str = "weir";

impl KubernetesRun {
    /// Returns the objects as a YAML stream for `kubectl apply -f -`.
    pub fn manifests(&self) -> String {
        let objects = self.objects();
        let documents = objects.iter().map(|it| format!("---\n{}", yaml::text(it)));
        documents.collect()
    }

    /// Returns the objects: Secret, Service, and the Jobs.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = vec![self.secret(), self.service(), self.coordinator()];
        objects.extend(self.roles.iter().map(|role| self.agents(*role)));
        objects
    }

    /// Returns the label selector of all objects.
    pub fn selector(&self) -> String {
        format!("{INSTANCE_LABEL}={}", self.name)
    }

    /// Returns the name of the coordinator's Job.
    pub fn coordinator_job(&self) -> String {
        format!("{}-{COORDINATOR}", self.name)
    }

    fn metadata(&self, name: &str, component: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("labels".to_owned(), self.labels(component));
        if let Some(namespace) = &self.namespace {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
        metadata.into()
    }

    fn labels(&self, component: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "weir-bench",
            INSTANCE_LABEL: self.name,
            COMPONENT_LABEL: component,
        })
    }

    /// Returns the Secret with the token, the inventory and the files.
    fn secret(&self) -> Value {
        let mut data = Map::new();
        data.insert(TOKEN_KEY.to_owned(), self.token.as_str().into());
        data.insert(INVENTORY_KEY.to_owned(), self.inventory().into());
        let files = self.files.iter();
        data.extend(files.map(|(name, text)| (name.clone(), text.as_str().into())));
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(&self.name, COORDINATOR),
            "stringData": data,
        })
    }

    /// Returns the inventory: one machine per pod.
    fn inventory(&self) -> String {
        let roles = self.roles.iter();
        let pods = roles.flat_map(|(role, pods)| (0..*pods).map(move |index| (role, index)));
        let tables = pods.map(|(role, index)| {
            let name = format!("{role}-{index}");
            format!("[[machine]]\nname = \"{name}\"\nagent = true\nroles = [\"{role}\"]\n")
        });
        tables.collect()
    }

    /// Returns the headless Service at which agents find the coordinator before it is ready.
    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata(&self.name, COORDINATOR),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": { INSTANCE_LABEL: self.name, COMPONENT_LABEL: COORDINATOR },
                "ports": [{ "name": "agents", "port": AGENTS_PORT, "targetPort": "agents" }],
            },
        })
    }

    fn coordinator(&self) -> Value {
        let engine = [
            "--engine".to_owned(),
            "manual".to_owned(),
            "--inventory".to_owned(),
            format!("{FILES_DIR}/{INVENTORY_KEY}"),
            "--agents-listen".to_owned(),
            format!("$(POD_IP):{AGENTS_PORT}"),
            "--out".to_owned(),
            RESULTS_DIR.to_owned(),
        ];
        let args: Vec<&String> = self.args.iter().chain(&engine).collect();
        let mut container = self.container(&args);
        container["ports"] = json!([{ "name": "agents", "containerPort": AGENTS_PORT }]);
        if let Some(variables) = container["env"].as_array_mut() {
            let address = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
            variables.push(json!({ "name": "POD_IP", "valueFrom": address }));
        }
        let mounts = [
            (FILES_DIR, "files"),
            (RESULTS_DIR, "results"),
            ("/tmp", "tmp"),
        ];
        container["volumeMounts"] = mounts
            .map(|(path, name)| json!({ "name": name, "mountPath": path }))
            .to_vec()
            .into();
        let volumes = json!([
            { "name": "files", "secret": { "secretName": self.name, "defaultMode": 0o440 } },
            { "name": "results", "emptyDir": {} },
            { "name": "tmp", "emptyDir": {} },
        ]);
        let pod = self.pod(COORDINATOR, container, volumes);
        let mut spec = self.job_spec(pod);
        spec["backoffLimit"] = 0.into();
        self.job(COORDINATOR, spec)
    }

    fn agents(&self, (role, pods): (InventoryRole, u16)) -> Value {
        let args = [
            "agent".to_owned(),
            "--coordinator".to_owned(),
            format!("{}:{AGENTS_PORT}", self.name),
            "--machine".to_owned(),
            format!("{role}-$(JOB_COMPLETION_INDEX)"),
            "--connect-timeout".to_owned(),
            AGENT_CONNECT_TIMEOUT.to_owned(),
        ];
        let mut container = self.container(&args.iter().collect::<Vec<_>>());
        container["volumeMounts"] = json!([{ "name": "tmp", "mountPath": "/tmp" }]);
        let volumes = json!([{ "name": "tmp", "emptyDir": {} }]);
        let mut pod = self.pod(role.name(), container, volumes);
        if !self.any_node {
            pod["spec"]["affinity"] = self.not_next_to_coordinator();
        }
        let mut spec = self.job_spec(pod);
        spec["completionMode"] = "Indexed".into();
        spec["completions"] = pods.into();
        spec["parallelism"] = pods.into();
        // A replaced agent cannot join again, so each failure ends the Job.
        spec["backoffLimitPerIndex"] = 0.into();
        spec["maxFailedIndexes"] = 0.into();
        self.job(role.name(), spec)
    }

    /// Returns the rule that keeps load away from the gateway, which the coordinator starts.
    fn not_next_to_coordinator(&self) -> Value {
        json!({
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {
                        "matchLabels": { INSTANCE_LABEL: self.name, COMPONENT_LABEL: COORDINATOR },
                    },
                }],
            },
        })
    }

    fn job(&self, component: &str, spec: Value) -> Value {
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(&format!("{}-{component}", self.name), component),
            "spec": spec,
        })
    }

    fn job_spec(&self, template: Value) -> Value {
        let disruption = json!([{ "type": "DisruptionTarget", "status": "True" }]);
        let usage = json!({ "containerName": CONTAINER, "operator": "In", "values": [2] });
        json!({
            "activeDeadlineSeconds": self.deadline.as_secs().max(1),
            "ttlSecondsAfterFinished": TTL_S,
            "podFailurePolicy": {
                "rules": [
                    { "action": "FailJob", "onExitCodes": usage },
                    { "action": "FailJob", "onPodConditions": disruption },
                ],
            },
            "template": template,
        })
    }

    fn pod(&self, component: &str, container: Value, volumes: Value) -> Value {
        json!({
            "metadata": { "labels": self.labels(component) },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                // Variables of Services in the namespace could look like options.
                "enableServiceLinks": false,
                "terminationGracePeriodSeconds": 30,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": USER,
                    "runAsGroup": USER,
                    "fsGroup": USER,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                "containers": [container],
                "volumes": volumes,
            },
        })
    }

    /// Returns the container. Requests equal limits, so that the pods are of class Guaranteed.
    fn container(&self, args: &[&String]) -> Value {
        let resources = json!({ "cpu": self.cpu, "memory": self.memory });
        let token = json!({ "secretKeyRef": { "name": self.name, "key": TOKEN_KEY } });
        json!({
            "name": CONTAINER,
            "image": self.image,
            "args": args,
            "env": [{ "name": crate::client_agents::TOKEN_VARIABLE, "valueFrom": token }],
            "resources": { "requests": resources, "limits": resources },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        })
    }
}

const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
const COORDINATOR: &str = "coordinator";
const TOKEN_KEY: &str = "token";
const INVENTORY_KEY: &str = "machines.toml";
const AGENTS_PORT: u16 = 7070;
/// Time for nodes to get the image and for the Service to get its address.
const AGENT_CONNECT_TIMEOUT: &str = "5m";
/// Time for which ended Jobs and their logs remain.
const TTL_S: u32 = 3600;
/// The user of the image.
const USER: u32 = 65532;

#[cfg(test)]
mod tests;
