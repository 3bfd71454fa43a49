//! Tests of `packaging/`: the Debian package, services, the image, and what releases contain.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::{text, weir};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a program and returns its standard output.
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    succeeded(&output, command);
    text(&output.stdout)
}

fn succeeded(output: &Output, command: &Command) {
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Returns `true` if a program of the machine exists. A missing one skips a test.
#[allow(clippy::print_stdout, reason = "says what was skipped")]
fn has(program: &str) -> bool {
    let is_found = Command::new(program).arg("--version").output().is_ok();
    if !is_found {
        println!("skipped: {program} is not installed");
    }
    is_found
}

/// Builds a package of this binary without symbols.
fn debian_package(dir: &Path) -> PathBuf {
    let binary = dir.join("weir");
    let mut strip = Command::new("strip");
    run(strip.arg("-o").arg(&binary).arg(env!("CARGO_BIN_EXE_weir")));
    let mut build = Command::new(root().join("packaging/deb/build"));
    build.arg(&binary).arg(dir);
    run(build
        .env("DEB_COMPRESSION", "none")
        .env("SOURCE_DATE_EPOCH", "1700000000"));
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut packages = entries.filter(|path| path.extension().is_some_and(|it| it == "deb"));
    packages.next().expect("a package")
}

#[test]
fn debian_package_installs_and_leaves_nothing() {
    if !has("dpkg-deb") || !has("readelf") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = debian_package(dir.path());
    let field = |name: &str| {
        run(Command::new("dpkg-deb")
            .arg("--field")
            .arg(&package)
            .arg(name))
    };
    assert_eq!(field("Version").trim(), env!("CARGO_PKG_VERSION"));
    assert!(
        field("Depends").starts_with("libc6 (>= 2."),
        "{}",
        field("Depends")
    );
    let contents = run(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for path in [
        "./usr/bin/weir",
        "./usr/lib/systemd/system/weir-gateway.service",
        "./usr/lib/systemd/system/weir-proxy.service",
        "./usr/share/man/man1/weir-gateway-run.1.gz",
        "./usr/share/bash-completion/completions/weir",
        "./usr/share/doc/weir/copyright",
    ] {
        assert!(
            contents.contains(&format!(" {path}\n")),
            "{path}: {contents}"
        );
    }
    assert!(
        contents.lines().all(|line| line.contains(" root/root ")),
        "{contents}"
    );

    // The same inputs make the same bytes.
    let first = fs::read(&package).unwrap();
    assert!(
        first == fs::read(debian_package(dir.path())).unwrap(),
        "not reproducible"
    );

    // Only root may install, also into another directory.
    if rustix::process::getuid().is_root() {
        install_and_purge(&package, &dir.path().join("root"));
    }
}

/// Installs a package into a directory, checks it there, and removes it.
fn install_and_purge(package: &Path, root: &Path) {
    for part in ["updates", "info", "triggers"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(part)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(root.join("var/lib/dpkg").join(file), "").unwrap();
    }
    let dpkg = |action: &str, what: &Path| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        // There are no other packages, and no shell for the scripts of this one.
        dpkg.args(["--force-depends", "--force-script-chrootless"]);
        run(dpkg.arg(action).arg(what))
    };
    dpkg("--install", package);
    let version = run(Command::new(root.join("usr/bin/weir")).arg("-V"));
    assert_eq!(version, concat!("weir ", env!("CARGO_PKG_VERSION"), "\n"));
    if has("systemd-sysusers") {
        let users = fs::read_to_string(root.join("etc/passwd")).unwrap();
        assert!(users.contains("weir:x:"), "{users}");
    }
    let config = root.join("etc/weir/gateway.toml");
    fs::write(&config, "# changed by the operator\n").unwrap();
    dpkg("--remove", Path::new("weir"));
    assert!(!root.join("usr/bin/weir").exists());
    let kept = fs::read_to_string(&config).unwrap();
    assert_eq!(kept, "# changed by the operator\n");
    dpkg("--purge", Path::new("weir"));
    assert!(!config.exists() && !root.join("etc/default/weir-gateway").exists());
}

#[test]
fn services_are_sandboxed() {
    if !has("systemd-analyze") {
        return;
    }
    for service in ["weir-gateway", "weir-proxy"] {
        let unit = root().join(format!("packaging/systemd/{service}.service"));
        let mut analyze = Command::new("systemd-analyze");
        // In tenths: 0 is no exposure, 100 that of a service without any restriction.
        analyze.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
        run(analyze.arg(unit));
    }
}

#[test]
fn packaged_configurations_are_valid() {
    let root = root();
    let config = |name: &str| root.join("packaging").join(name);
    let check = |args: &[&str], file: &Path| run(weir(args).arg(file));
    check(
        &["gateway", "check", "--offline", "--config"],
        &config("config/gateway.toml"),
    );
    check(
        &["proxy", "check", "--config"],
        &config("config/proxy.toml"),
    );
    let adapters = config("container/adapters.xml");
    let mut container = weir(&["gateway", "check", "--offline", "--strict", "--adapters"]);
    container.arg(adapters).arg("--config");
    container.arg(config("container/gateway.toml"));
    // The admin port of a container is not on a loopback address, so it needs the token.
    let refused = container.output().unwrap();
    assert!(text(&refused.stdout).contains("ADMIN_TOKEN"), "{refused:?}");
    run(container.env("ADMIN_TOKEN", "t"));
}

/// Returns the variables of all options, from the manual pages.
fn known_variables() -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    run(weir(&["man"]).arg(dir.path()));
    let pages = fs::read_dir(dir.path()).unwrap();
    let pages = pages.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let marker = "Environment variable: ";
    pages
        .flat_map(|page| {
            let lines = page.lines().filter_map(|line| line.strip_prefix(marker));
            lines
                .map(|name| name.trim_end_matches('.').to_owned())
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn packaged_variables_exist() {
    let known = known_variables();
    assert!(
        known.contains("WEIR_GATEWAY_LISTEN") && known.len() > 100,
        "{known:?}"
    );
    let mut checked = 0;
    for path in [
        "packaging/systemd/weir-gateway.service",
        "packaging/systemd/weir-proxy.service",
        "packaging/config/weir-gateway.default",
        "packaging/config/weir-proxy.default",
        "packaging/container/Containerfile",
        "packaging/container/compose.yaml",
        "docs/environment.md",
    ] {
        let text = read(path);
        let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
        for name in text.split(|c: char| !is_part(c)) {
            // Not options: an argument of the build, and the tokens.
            let is_other = name == "WEIR_COMMIT" || name.ends_with("TOKEN") || name == "WEIR_";
            if name.starts_with("WEIR_") && !is_other {
                assert!(known.contains(name), "{path}: {name}");
                checked += 1;
            }
        }
    }
    assert!(checked > 15, "{checked} variables");
}

#[test]
fn image_follows_the_usual_rules() {
    let text = read("packaging/container/Containerfile").replace("\\\n", " ");
    let instructions: Vec<(&str, &str)> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap())
        .collect();
    let of = |name: &str| {
        let found = instructions.iter().filter(|it| it.0 == name);
        found.map(|it| it.1).collect::<Vec<_>>()
    };
    const KNOWN: [&str; 11] = [
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "RUN",
        "STOPSIGNAL",
        "USER",
        "WORKDIR",
    ];
    for (name, _) in &instructions {
        assert!(KNOWN.contains(name), "{name}");
    }
    for image in of("FROM") {
        let image = image.split(' ').next().unwrap();
        let (_, tag) = image.rsplit_once(':').expect("a tag");
        assert!(
            tag != "latest" && image.starts_with("docker.io/"),
            "{image}"
        );
    }
    for run in of("RUN")
        .iter()
        .filter(|run| run.contains("apt-get install"))
    {
        assert!(run.contains("--no-install-recommends"), "{run}");
        assert!(run.contains("rm -rf /var/lib/apt/lists"), "{run}");
    }
    for copied in of("COPY")
        .iter()
        .filter(|copied| !copied.starts_with("--from"))
    {
        let (sources, _) = copied.rsplit_once(' ').unwrap();
        for source in sources.split(' ') {
            assert!(root().join(source).exists(), "COPY {source}");
        }
    }
    for exec in of("ENTRYPOINT").iter().chain(&of("CMD")) {
        assert!(serde_json::from_str::<Vec<String>>(exec).is_ok(), "{exec}");
    }
    let user = of("USER").last().copied().unwrap_or_default();
    assert!(
        !user.is_empty() && !user.starts_with("root") && !user.starts_with("0"),
        "{user}"
    );
    // Docker reads one name, other engines the other.
    assert_eq!(read(".containerignore"), read(".dockerignore"));
}

#[test]
fn images_and_files_of_compose_file_exist() {
    let text = read("packaging/container/compose.yaml");
    for service in ["broker", "producer", "gateway", "page"] {
        assert!(text.contains(&format!("\n  {service}:\n")), "{service}");
    }
    let values = |key: &str| {
        let lines = text.lines().map(str::trim);
        let found = lines.filter_map(|line| line.strip_prefix(key));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    for image in values("image: ").iter().filter(|image| *image != "weir") {
        let (_, tag) = image.rsplit_once(':').expect("a tag");
        assert_ne!(tag, "latest", "{image}");
    }
    let dir = root().join("packaging/container");
    let mounts = values("- ")
        .into_iter()
        .filter(|value| value.starts_with('.'));
    let mounts: Vec<String> = mounts.collect();
    for mount in &mounts {
        let (source, _) = mount.split_once(':').unwrap();
        assert!(dir.join(source).is_file(), "{source}");
    }
    assert_eq!(mounts.len(), 4, "{mounts:?}");
    let [dockerfile] = &values("dockerfile: ")[..] else {
        panic!("one dockerfile");
    };
    assert!(root().join(dockerfile).is_file(), "{dockerfile}");
    let broker = format!("docker.io/apache/kafka:{}", weir_lab::KAFKA_VERSION);
    assert!(values("image: ").contains(&broker), "{broker}");
}

/// Returns the values of a YAML document by path. Knows the block style of the files of this
/// repository: mappings, lists, flow lists as text, and block texts.
fn yaml(document: &str) -> Vec<(String, String)> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut block: Option<usize> = None;
    for line in document.lines().filter(|line| !line.trim().is_empty()) {
        let mut rest = line.trim_start();
        let mut indent = line.len() - rest.len();
        if let Some(parent) = block {
            if indent > parent {
                let (_, text) = found.last_mut().expect("the key of the text");
                *text += &format!("{rest}\n");
                continue;
            }
            block = None;
        }
        if rest.starts_with('#') {
            continue;
        }
        open.retain(|(level, _)| *level < indent);
        while let Some(item) = rest.strip_prefix("- ") {
            open.push((indent, "-"));
            (rest, indent) = (item, indent + 2);
        }
        let (key, value) = match rest
            .split_once(": ")
            .or_else(|| rest.strip_suffix(':').map(|it| (it, "")))
        {
            Some(pair) => pair,
            None => ("", rest),
        };
        let names = open.iter().map(|(_, name)| *name).chain([key]);
        let path = names.collect::<Vec<_>>().join(".");
        if value == "|" {
            block = Some(indent);
            found.push((path, String::new()));
        } else if !value.is_empty() {
            found.push((path, value.trim_matches('"').to_owned()));
        }
        open.push((indent, key));
    }
    found
}

#[test]
fn kubernetes_objects_fit_together() {
    let text = read("packaging/kubernetes/weir-gateway.yaml");
    let objects: Vec<_> = text.split("\n---\n").map(yaml).collect();
    let of = |kind: &str, path: &str| {
        let is_kind = |one: &&Vec<(String, String)>| one.contains(&("kind".into(), kind.into()));
        let object = objects
            .iter()
            .find(is_kind)
            .unwrap_or_else(|| panic!("{kind}"));
        let value = object.iter().find(|it| it.0 == path);
        value.unwrap_or_else(|| panic!("{kind}: {path}")).1.clone()
    };
    assert_eq!(objects.len(), 6);
    for kind in [
        "ConfigMap",
        "Secret",
        "Deployment",
        "PodDisruptionBudget",
        "Service",
    ] {
        assert_eq!(of(kind, "metadata.name"), "weir-gateway");
    }
    let pod = "spec.template.spec";
    let container = |path: &str| of("Deployment", &format!("{pod}.containers.-.{path}"));

    // All selectors select the pods.
    let label = of("Deployment", "spec.template.metadata.labels.app");
    for (kind, path) in [
        ("Deployment", "spec.selector.matchLabels.app"),
        ("PodDisruptionBudget", "spec.selector.matchLabels.app"),
        ("Service", "spec.selector.app"),
        ("NetworkPolicy", "spec.podSelector.matchLabels.app"),
    ] {
        assert_eq!(of(kind, path), label, "{kind}");
    }
    let image = format!("weir:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container("image"), image);
    let ports = [
        container("ports.-.name"),
        of("Service", "spec.ports.-.targetPort"),
    ];
    assert_eq!(ports, ["clients", "clients"]);
    assert_eq!(container("securityContext.readOnlyRootFilesystem"), "true");
    assert_eq!(
        of("Deployment", &format!("{pod}.securityContext.runAsNonRoot")),
        "true"
    );

    // The configuration is valid, and a drain ends before the pod is killed.
    let config = of("ConfigMap", "data.gateway.toml");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.toml");
    fs::write(&file, &config).unwrap();
    let mut check = weir(&["gateway", "check", "--offline", "--strict", "--config"]);
    run(check.arg(file).env("ADMIN_TOKEN", "t"));
    let config: toml::Table = toml::from_str(&config).unwrap();
    let seconds = |key: &str| config[key].as_integer().unwrap() / 1000;
    let sleep: i64 = container("lifecycle.preStop.sleep.seconds")
        .parse()
        .unwrap();
    let grace = of(
        "Deployment",
        &format!("{pod}.terminationGracePeriodSeconds"),
    );
    let drain = sleep + seconds("drain_spread_ms") + seconds("drain_timeout_ms");
    assert!(drain < grace.parse().unwrap(), "{drain} s, of {grace} s");
    let ages = config["session_rule"].as_array().unwrap();
    assert!(ages[0]["max_age"].is_str());
    let admin = config["admin"]["listen"].as_str().unwrap();
    assert!(text.contains(&format!("containerPort: {}", &admin["0.0.0.0:".len()..])));

    // The patch replaces the volume that the container mounts.
    let patch = yaml(&read("packaging/kubernetes/control-link.yaml"));
    let mount = format!("{pod}.volumes.-.name");
    let volumes = patch
        .iter()
        .filter(|it| it.0 == mount)
        .map(|it| it.1.as_str());
    assert_eq!(volumes.collect::<Vec<_>>(), ["template", "config"]);
    assert_eq!(container("volumeMounts.-.name"), "config");
}

/// Returns the pairs of each object by its kind.
fn objects_by_kind(text: &str) -> BTreeMap<String, BTreeSet<(String, String)>> {
    let documents = text.split("---\n").map(yaml);
    let objects = documents.filter_map(|pairs| {
        let (_, kind) = pairs.iter().find(|(path, _)| path == "kind")?;
        Some((kind.clone(), pairs.iter().cloned().collect()))
    });
    objects.collect()
}

/// `make test-chart` installs Helm first.
#[test]
#[expect(clippy::print_stdout, reason = "says what was skipped")]
fn chart_gives_the_objects_of_the_manifest() {
    let mut find = Command::new(root().join("scripts/go-tool"));
    let found = find.arg("helm").output().unwrap();
    if !found.status.success() {
        assert_eq!(found.status.code(), Some(2), "{found:?}");
        return println!("skipped: {}", text(&found.stderr).trim());
    }
    let helm = text(&found.stdout).trim().to_owned();
    let template = |options: &[&str]| {
        let mut command = Command::new(&helm);
        let chart = root().join("packaging/kubernetes/chart");
        command.args(["template", "weir-gateway"]).arg(chart);
        command.args(["--kube-version", "1.30.0"]).args(options);
        command.output().unwrap()
    };
    let render = |options: &[&str]| {
        let output = template(options);
        assert!(output.status.success(), "{output:?}");
        objects_by_kind(&text(&output.stdout))
    };
    let manifest = objects_by_kind(&read("packaging/kubernetes/weir-gateway.yaml"));
    assert_eq!(render(&[]), manifest);

    // The control link as in the patch, and a Secret of the user.
    let linked = render(&["--set", "controlLink.enabled=true,existingSecret=mine"]);
    let patch = yaml(&read("packaging/kubernetes/control-link.yaml"));
    let null = "spec.template.spec.volumes.-.configMap";
    for pair in patch.iter().filter(|(path, _)| path != null) {
        assert!(linked["Deployment"].contains(pair), "{pair:?}");
    }
    assert!(!linked.contains_key("Secret"));
    let closed = render(&["--set", "networkPolicy.egressPorts={9092,8081}"]);
    let port = ("spec.egress.-.ports.-.port".to_owned(), "8081".to_owned());
    assert!(closed["NetworkPolicy"].contains(&port));

    // The schema rejects mistakes.
    for (mistake, expected) in [
        ("replica=3", "replica"),
        ("replicas=0", "replicas"),
        ("service.type=Internal", "type"),
        ("networkPolicy.egressPorts={70000}", "egressPorts"),
    ] {
        let output = template(&["--set", mistake]);
        let stderr = text(&output.stderr);
        assert!(!output.status.success(), "{mistake}");
        assert!(
            stderr.contains("schema") && stderr.contains(expected),
            "{mistake}: {stderr}"
        );
    }
}

#[test]
fn bill_of_materials_lists_all_locked_packages() {
    let bill = run(&mut Command::new(root().join("scripts/sbom")));
    let bill: Value = serde_json::from_str(&bill).unwrap();
    assert_eq!(
        (&bill["bomFormat"], &bill["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    let components = bill["components"].as_array().unwrap();
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut listed: BTreeSet<String> = components.iter().map(|it| of(it, "bom-ref")).collect();
    listed.insert(of(&bill["metadata"]["component"], "bom-ref"));

    let lock: toml::Table = toml::from_str(&read("Cargo.lock")).unwrap();
    let packages = lock["package"].as_array().unwrap().iter();
    let id = |it: &toml::Value| {
        format!(
            "{}@{}",
            it["name"].as_str().unwrap(),
            it["version"].as_str().unwrap()
        )
    };
    let locked: BTreeSet<String> = packages.clone().map(id).collect();
    assert_eq!(listed, locked);
    let hashed = components
        .iter()
        .filter(|it| it["hashes"].is_array())
        .count();
    let from_registry = packages.filter(|it| it.get("checksum").is_some()).count();
    assert_eq!(hashed, from_registry);
    for entry in bill["dependencies"].as_array().unwrap() {
        for target in entry["dependsOn"].as_array().unwrap() {
            assert!(locked.contains(target.as_str().unwrap()), "{entry}");
        }
    }
}

#[test]
fn release_workflow_writes_in_one_job_only() {
    let text = read(".github/workflows/release.yml");
    assert!(text.contains("\npermissions: {}\n"), "{text}");
    assert_eq!(text.matches("contents: write").count(), 1);
    let (_, draft) = text.split_once("\n  draft:\n").unwrap();
    assert!(
        draft.contains("contents: write") && !draft.contains("checkout"),
        "{draft}"
    );
    // Values of the event reach scripts as variables, never as text of the script.
    for run in text.split("run:").skip(1) {
        let script = run.split("\n      - ").next().unwrap();
        let script = script.split("\n  ").filter(|line| !line.contains("with:"));
        assert!(script.clone().all(|line| !line.contains("${{")), "{run}");
    }
    for script in [
        "packaging/release/build",
        "packaging/deb/build",
        "scripts/sbom",
    ] {
        run(Command::new("bash").arg("-n").arg(root().join(script)));
    }
}
