//! Runs the commands of README.md, `docs/` and `examples/` with the built binary.
//!
//! Blocks marked `sh test` run in a directory with the examples. Blocks marked `sh lab` run with a
//! broker, which the first one starts. All others are listed with a reason, and their calls of
//! `weir` are at least parsed.

mod support;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::Process;

/// Upper limit of every wait; reached only by failing tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Documents and first lines of blocks that are not run, each with the reason.
const NOT_RUN: &[(&str, &str, &str)] = &[
    (
        "README.md",
        "make demo",
        "minutes; the test of `weir demo` runs it",
    ),
    (
        "README.md",
        "weir bench run keyed --quick",
        "minutes; tests of plans run shorter ones",
    ),
    (
        "README.md",
        "weir bench run filter-deep-key",
        "minutes; tests of plans run shorter ones",
    ),
    (
        "README.md",
        "weir proxy run",
        "runs in the tests of the proxy",
    ),
    ("docs/behind-a-proxy.md", "nginx -t", "needs nginx"),
    ("docs/behind-a-proxy.md", "haproxy -c", "needs HAProxy"),
    (
        "docs/client-libraries.md",
        "weir bench run client-libraries",
        "minutes",
    ),
    (
        "docs/connector.md",
        "weir gateway explain",
        "README.md runs it",
    ),
    (
        "docs/containers.md",
        "docker compose",
        "needs a container engine",
    ),
    (
        "docs/containers.md",
        "docker build",
        "needs a container engine",
    ),
    (
        "docs/deploy-systemd.md",
        "weir gateway check",
        "a file of an installed package",
    ),
    (
        "docs/deploy-systemd.md",
        "sudo systemctl",
        "changes the machine",
    ),
    (
        "docs/deploy-systemd.md",
        "sudo chgrp",
        "changes the machine",
    ),
    (
        "docs/deploy-systemd.md",
        "systemd-analyze",
        "needs systemd; tests/packaging.rs runs it",
    ),
    (
        "docs/drivers.md",
        "weir bench check-driver",
        "needs a driver; tests of drivers run it",
    ),
    ("docs/experiments.md", "weir bench run", "minutes"),
    ("docs/kubernetes.md", "kubectl", "needs a cluster"),
    (
        "docs/kubernetes.md",
        "helm install",
        "needs a cluster; tests of packages render the chart",
    ),
    (
        "docs/many-machines.md",
        "weir bench run keyed --bootstrap",
        "needs a gateway on another machine; tests of gateways run it with one here",
    ),
    ("docs/lab.md", "weir lab up", "tests of the lab run it"),
    (
        "docs/load.md",
        "weir load",
        "needs topics, machines or agents; tests of load run each",
    ),
    (
        "docs/many-machines.md",
        "weir bench run broadcast",
        "needs an inventory; tests of inventories and dry runs cover it",
    ),
    (
        "docs/many-machines.md",
        "weir bench run keyed --engine ssh",
        "needs other machines; tests/ssh runs it",
    ),
    (
        "docs/many-machines.md",
        "this$    weir bench run keyed --engine manual",
        "needs other machines; tests/agents.rs runs it with agents here",
    ),
    (
        "docs/many-machines.md",
        "weir bench run keyed --engine kubernetes",
        "needs a cluster; make test-kubernetes runs it",
    ),
    ("docs/opentelemetry.md", "cargo build", "minutes"),
    (
        "docs/without-sdk.md",
        "curl",
        "tests of server-sent events read the same addresses",
    ),
    (
        "docs/proxy.md",
        "weir proxy user",
        "tests of the command run it",
    ),
    ("docs/method.md", "weir bench run", "minutes"),
    (
        "docs/migrate-from-lightstreamer.md",
        "weir gateway",
        "needs files of a Lightstreamer server",
    ),
    (
        "docs/proxy.md",
        "weir proxy run",
        "needs Kafka's tools; tests of the proxy run it",
    ),
    ("docs/proxy.md", "kafka-acls.sh", "needs Kafka's tools"),
    ("docs/releasing.md", "make", "releases"),
    ("docs/releasing.md", "cargo install", "minutes"),
    (
        "docs/session-administration.md",
        "weir gateway sessions",
        "tests/cli runs each",
    ),
    ("docs/sizing.md", "weir bench run", "minutes"),
    (
        "docs/tls.md",
        "weir gateway check",
        "the file is one of the reader",
    ),
    ("docs/tls.md", "#!/bin/sh", "a hook of certbot"),
    (
        "docs/troubleshoot.md",
        "curl",
        "needs a gateway on the default port",
    ),
    (
        "docs/troubleshoot.md",
        "weir gateway explain",
        "README.md runs it",
    ),
    ("docs/upgrade.md", "./weir-new", "needs two versions"),
    (
        "docs/upgrade.md",
        "weir proxy run --config /etc/weir/proxy.toml --take-over",
        "runs until its successor is ready; the test of take-over runs it",
    ),
    (
        "docs/without-sdk.md",
        "curl",
        "needs a gateway on the default port; tests of the gateway run it",
    ),
    (
        "examples/events/README.md",
        "curl",
        "needs a gateway on the default port; tests of the gateway run it",
    ),
    (
        "examples/events/README.md",
        "node",
        "needs a gateway on the default port; tests of the gateway run it",
    ),
    (
        "examples/README.md",
        "weir demo --serve",
        "minutes; the test of `weir demo` runs it",
    ),
    (
        "examples/README.md",
        "weir lab up",
        "README.md runs the same commands",
    ),
    (
        "examples/node/README.md",
        "cd examples/node",
        "needs npm; tests/examples.rs runs it",
    ),
    (
        "examples/browser/README.md",
        "cd examples",
        "needs npm; tests of pages run it",
    ),
    (
        "examples/java/README.md",
        "cd examples",
        "needs Maven; tests/examples.rs runs it",
    ),
    (
        "examples/python/README.md",
        "cd examples",
        "needs PyPI; tests/examples.rs runs it",
    ),
];

/// Fenced block of a document.
struct Block {
    document: String,
    /// Number of its first line.
    line: usize,
    /// Text after the fence.
    language: String,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }

    /// Returns the commands, with continued lines joined.
    fn commands(&self) -> Vec<String> {
        let text = self.text.replace("\\\n", " ");
        let lines = text.lines().map(str::trim);
        let is_command = |line: &&str| !line.is_empty() && !line.starts_with('#');
        lines.filter(is_command).map(str::to_owned).collect()
    }

    fn is_shell(&self) -> bool {
        let is_marked = self.language.split(' ').next() == Some("sh");
        is_marked || (self.language.is_empty() && self.text.starts_with("weir "))
    }
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// Returns the shell blocks of all documents for users.
fn blocks() -> Vec<Block> {
    let root = root();
    let list = |dir: &str| {
        let entries = fs::read_dir(root.join(dir)).expect(dir);
        let paths = entries.map(|entry| entry.expect(dir).path());
        paths.collect::<BTreeSet<_>>()
    };
    let pages = list("docs").into_iter();
    let pages = pages.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let examples = list("examples")
        .into_iter()
        .map(|dir| dir.join("README.md"));
    let mut documents: Vec<PathBuf> = vec![root.join("README.md"), root.join("examples/README.md")];
    documents.extend(pages.chain(examples.filter(|path| path.is_file())));
    let parsed = documents.iter().flat_map(|path| {
        let name = path.strip_prefix(&root).expect("a path below the root");
        let text = fs::read_to_string(path).expect("a readable document");
        parse(&name.display().to_string(), &text)
    });
    parsed.filter(Block::is_shell).collect()
}

/// Returns the fenced blocks of a document; those in lists are indented.
fn parse(document: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.trim().strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block {
                    document: document.to_owned(),
                    line: index + 2,
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, None) => {}
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
        }
    }
    blocks
}

/// Returns a search path that begins with the directory of the built binary.
fn search_path() -> OsString {
    let binary = Path::new(env!("CARGO_BIN_EXE_weir"));
    let mut path = vec![binary.parent().expect("a directory").to_owned()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    env::join_paths(path).expect("names without separators")
}

fn shell(text: &str, dir: &Path) -> Command {
    let mut command = Command::new("bash");
    command.args(["-eu", "-o", "pipefail", "-c", text]);
    command.current_dir(dir).env("PATH", search_path());
    command
}

/// Runs a command that must end with one of the exit codes.
fn run(command: &mut Command, codes: &[i32], place: &str) {
    let output = command.output().expect("bash can be started");
    let (stdout, stderr) = (support::text(&output.stdout), support::text(&output.stderr));
    let is_expected = output
        .status
        .code()
        .is_some_and(|code| codes.contains(&code));
    assert!(
        is_expected,
        "{place}: {}: {command:?}\n{stdout}{stderr}",
        output.status
    );
}

#[test]
fn commands_without_a_broker_work() {
    let blocks = blocks();
    let marked = blocks.iter().filter(|block| block.language == "sh test");
    let mut count = 0;
    for block in marked {
        let dir = tempfile::tempdir().expect("a directory");
        let link = symlink(root().join("examples"), dir.path().join("examples"));
        link.expect("a link in an empty directory");
        run(&mut shell(&block.text, dir.path()), &[0], &block.place());
        count += 1;
    }
    assert!(count >= 6, "{count} blocks");
}

#[test]
fn other_blocks_are_listed_with_a_reason() {
    let blocks = blocks();
    let is_listed = |block: &&Block, (document, start, _): &(&str, &str, &str)| {
        block.document == *document && block.text.trim_start().starts_with(start)
    };
    let is_run = |block: &&Block| ["sh test", "sh lab"].contains(&block.language.as_str());
    let others: Vec<&Block> = blocks.iter().filter(|block| !is_run(block)).collect();
    let is_known = |block: &Block| NOT_RUN.iter().any(|row| is_listed(&block, row));
    let unknown = others.iter().filter(|block| !is_known(block));
    let places: Vec<String> = unknown.map(|block| block.place()).collect();
    assert!(
        places.is_empty(),
        "mark these blocks `sh test` or `sh lab`, or add a reason: {places:?}"
    );
    for row in NOT_RUN {
        assert!(
            others.iter().any(|block| is_listed(block, row)),
            "no such block: {row:?}"
        );
    }
}

/// With `--help` at the end, `weir` checks the names and values before it and does nothing.
#[test]
fn each_call_of_weir_is_accepted() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut count = 0;
    for block in blocks() {
        for line in block.commands() {
            let line = line.split(" # ").next().unwrap_or_default();
            let Some(start) = line.find("weir ").filter(|at| !line[..*at].contains(' ')) else {
                continue;
            };
            if start > 0 && !line[..start].ends_with('/') {
                continue;
            }
            let call = line[start..]
                .split(['>', '<', '|'])
                .next()
                .unwrap_or_default();
            let has_help = ["--help", "--version"].iter().any(|it| call.contains(it));
            let help = if has_help { "" } else { " --help" };
            run(
                &mut shell(&format!("{call}{help}"), dir.path()),
                &[0],
                &block.place(),
            );
            count += 1;
        }
    }
    assert!(count > 60, "{count} calls");
}

/// Broker, gateway and producers of the blocks marked `sh lab`.
struct DocumentLab {
    dir: tempfile::TempDir,
    ports: [u16; 3],
    /// Commands that run until they are stopped: the gateway, and producers.
    gateway: Option<Process>,
    producers: Vec<Process>,
}

impl DocumentLab {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let ports = weir_lab::ports::free_ports(Ipv4Addr::LOCALHOST, 4).expect("ports");
        let [broker, _, clients, admin] = ports[..] else {
            panic!("four ports");
        };
        let ports = [broker, clients, admin];
        fs::create_dir(dir.path().join("examples")).expect("a directory");
        let xml = fs::read_to_string(root().join("examples/adapters.xml")).expect("a file");
        let lab = Self {
            dir,
            ports,
            gateway: None,
            producers: Vec::new(),
        };
        let file = lab.dir.path().join("examples/adapters.xml");
        fs::write(file, lab.adapted(&xml)).expect("writes");
        lab
    }

    /// Returns a text with free ports, and with shorter times.
    fn adapted(&self, text: &str) -> String {
        text.replace("localhost:9092", &format!("localhost:{}", self.ports[0]))
            .replace("--port 9092", &format!("--port {}", self.ports[0]))
            .replace("--duration 30s", "--duration 1s")
            .replace("--clients 1000", "--clients 10")
            .replace("--consumers 100", "--consumers 2")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = shell(&self.adapted(line), self.dir.path());
        let [broker, clients, admin] = self.ports;
        command
            .env("XDG_STATE_HOME", self.dir.path())
            .env("WEIR_LAB_HEAP_MB", "256")
            .env("WEIR_LOAD_BOOTSTRAP", format!("localhost:{broker}"))
            .env("WEIR_LOAD_URL", format!("ws://127.0.0.1:{clients}"))
            .env("WEIR_GATEWAY_URL", format!("ws://127.0.0.1:{clients}"))
            .env("WEIR_GATEWAY_LISTEN", format!("127.0.0.1:{clients}"))
            .env("WEIR_GATEWAY_ADMIN", format!("127.0.0.1:{admin}"))
            .env("WEIR_GATEWAY_COUNT", "1");
        command
    }

    /// Runs a command to its end, or until it is ready if it would run on.
    fn run(&mut self, line: &str, place: &str) {
        // Without a shell in between, the program itself is stopped at the end.
        let mut command = self.command(&format!("exec {line}"));
        if line.starts_with("weir gateway run") {
            self.gateway = None;
            let ready = self.dir.path().join("ready.json");
            let _ = fs::remove_file(&ready);
            command.env("WEIR_GATEWAY_READY_FILE", &ready);
            self.gateway = Some(Process::spawn(background(&mut command)));
            let deadline = Instant::now() + TEST_TIMEOUT;
            while !ready.exists() {
                assert!(
                    Instant::now() < deadline,
                    "{place}: the gateway is not ready"
                );
                std::thread::sleep(POLL_INTERVAL);
            }
        } else if line.starts_with("weir load produce") && !line.contains("--count") {
            self.producers
                .push(Process::spawn(background(&mut command)));
        } else {
            // Exit code 4: this machine was too busy for a valid measurement.
            let codes: &[i32] = if line.starts_with("weir load") {
                &[0, 4]
            } else {
                &[0]
            };
            run(&mut command, codes, place);
        }
    }
}

impl Drop for DocumentLab {
    fn drop(&mut self) {
        let _ = self.command("weir lab down").output();
    }
}

fn background(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

#[test]
fn commands_with_a_broker_work() {
    let mut lab = DocumentLab::new();
    let mut blocks = blocks();
    blocks.retain(|block| block.language == "sh lab");
    // The block that starts the broker comes first.
    blocks.sort_by_key(|block| !block.text.contains("weir lab up"));
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    let orders = "weir load produce --topic orders --create-topic --kind json --count 50";
    for (index, block) in blocks.iter().enumerate() {
        for line in block.commands() {
            lab.run(&line, &block.place());
        }
        if index == 0 {
            lab.run(orders, "topic orders");
        }
    }
}
