use super::*;
use crate::inventory::Inventory;

fn run() -> KubernetesRun {
    KubernetesRun {
        name: "night".to_owned(),
        namespace: Some("load".to_owned()),
        image: "registry.example/weir:0.2.0".to_owned(),
        token: "0123456789abcdef".to_owned(),
        args: ["bench", "run", "keyed", "--rate", "100"]
            .map(str::to_owned)
            .to_vec(),
        files: vec![(
            "client.properties".to_owned(),
            "a=b\n\nc = \"d\"\n".to_owned(),
        )],
        roles: vec![(InventoryRole::Producers, 1), (InventoryRole::Clients, 3)],
        cpu: "2".to_owned(),
        memory: "4Gi".to_owned(),
        any_node: false,
        deadline: Duration::from_secs(900),
    }
}

/// Returns the object of a kind and name.
fn object(run: &KubernetesRun, kind: &str, name: &str) -> Value {
    let mut objects = run.objects().into_iter();
    let found = objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
fn agents_of_the_inventory_have_jobs() {
    let run = run();
    assert_eq!(run.objects().len(), 5);
    let secret = object(&run, "Secret", "night");
    let inventory = secret["stringData"]["machines.toml"].as_str().unwrap();
    let inventory = Inventory::parse(inventory, "machines.toml").unwrap();
    assert_eq!(inventory.machines.len(), 4);
    for machine in &inventory.machines {
        let [role] = machine.roles[..] else {
            panic!("{machine:?}");
        };
        let job = object(&run, "Job", &format!("night-{role}"));
        let spec = &job["spec"];
        assert_eq!(spec["completionMode"], "Indexed");
        assert_eq!(spec["completions"], spec["parallelism"]);
        let index = machine.name.strip_prefix(&format!("{role}-")).unwrap();
        let pods = spec["completions"].as_u64().unwrap();
        assert!(index.parse::<u64>().unwrap() < pods, "{machine:?}");
        assert_eq!(spec["backoffLimitPerIndex"], 0);
        assert_eq!(spec["maxFailedIndexes"], 0);
        let container = &spec["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().unwrap();
        let own = |it: &Value| {
            it.as_str()
                .unwrap()
                .replace("$(JOB_COMPLETION_INDEX)", index)
        };
        assert!(
            args.iter().map(own).any(|it| it == machine.name),
            "{args:?}"
        );
        let affinity = &spec["template"]["spec"]["affinity"]["podAntiAffinity"];
        let rule = &affinity["requiredDuringSchedulingIgnoredDuringExecution"][0];
        let labels = &rule["labelSelector"]["matchLabels"];
        assert_eq!(labels["app.kubernetes.io/component"], "coordinator");
    }
    let mixed = KubernetesRun {
        any_node: true,
        ..run
    };
    let job = object(&mixed, "Job", "night-clients");
    assert!(job["spec"]["template"]["spec"]["affinity"].is_null());
}

#[test]
fn objects_refer_to_each_other() {
    let run = run();
    let coordinator = object(&run, "Job", &run.coordinator_job());
    let template = &coordinator["spec"]["template"];
    let service = object(&run, "Service", "night");
    let labels = &template["metadata"]["labels"];
    for (label, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(&labels[label], value);
    }
    let container = &template["spec"]["containers"][0];
    assert_eq!(
        container["ports"][0]["name"],
        service["spec"]["ports"][0]["targetPort"]
    );
    let secret = object(&run, "Secret", "night");
    for object in run.objects() {
        assert_eq!(object["metadata"]["namespace"], "load");
        assert_eq!(
            object["metadata"]["labels"]["app.kubernetes.io/instance"],
            "night"
        );
        if object["kind"] != "Job" {
            continue;
        }
        let spec = &object["spec"];
        assert_eq!(spec["activeDeadlineSeconds"], 900);
        assert!(spec["ttlSecondsAfterFinished"].is_u64());
        let rules = spec["podFailurePolicy"]["rules"].as_array().unwrap();
        assert!(rules.iter().all(|rule| rule["action"] == "FailJob"));
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never");
        let container = &spec["template"]["spec"]["containers"][0];
        assert_eq!(
            container["resources"]["requests"],
            container["resources"]["limits"]
        );
        assert_eq!(rules[0]["onExitCodes"]["containerName"], container["name"]);
        let token = &container["env"][0]["valueFrom"]["secretKeyRef"];
        assert_eq!(token["name"], secret["metadata"]["name"]);
        assert_eq!(
            secret["stringData"][token["key"].as_str().unwrap()],
            run.token
        );
        // The token is in the Secret only.
        assert!(!object.to_string().contains(&run.token));
        let volumes = spec["template"]["spec"]["volumes"].as_array().unwrap();
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(
                volumes.iter().any(|it| it["name"] == mount["name"]),
                "{mount}"
            );
        }
    }
}

#[test]
fn text_has_the_values_of_the_objects() {
    let text = yaml::text(&json!({
        "list": ["a b", "on", 1, true, null, [], {}, { "x": "1", "y": ["z"] }, ["n"]],
        "map": { "block": "one\n two\n", "quoted": "a\n\nb\n", "path": "/etc/weir" },
    }));
    let expected = [
        "list:",
        r#"  - "a b""#,
        r#"  - "on""#,
        "  - 1",
        "  - true",
        "  - null",
        "  - []",
        "  - {}",
        r#"  - x: "1""#,
        r#"    "y":"#,
        "      - z",
        r#"  - - "n""#,
        "map:",
        "  block: |",
        "    one",
        "     two",
        "  path: /etc/weir",
        r#"  quoted: "a\n\nb\n""#,
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let manifests = run().manifests();
    assert_eq!(manifests.matches("---\n").count(), 5);
    let file = "  client.properties: \"a=b\\n\\nc = \\\"d\\\"\\n\"\n";
    assert!(manifests.contains(file), "{manifests}");
}
