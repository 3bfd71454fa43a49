//! Connect with file connectors, MirrorMaker, and a schema registry that stores in Kafka, through
//! the proxy.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use weir_lab::{Registry, RegistryOptions};

use super::programs::*;
use super::support::*;

/// Writes a properties file and returns its path.
fn properties(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("writes");
    path.display().to_string()
}

fn append(path: &Path, lines: &[String]) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    let text = lines.join("\n") + "\n";
    let written = file.expect("a file").write_all(text.as_bytes());
    written.expect("writes");
}

/// Returns the command of a standalone worker with a source and a sink of the topic.
fn standalone(bootstrap: &str, topic: &str, dir: &Path) -> Command {
    let port = weir_lab::ports::free_port().expect("a port");
    let worker = format!(
        "bootstrap.servers={bootstrap}\nlisteners=http://127.0.0.1:{port}\n\
         key.converter=org.apache.kafka.connect.storage.StringConverter\n\
         value.converter=org.apache.kafka.connect.storage.StringConverter\n\
         offset.storage.file.filename={}\noffset.flush.interval.ms=200\n\
         plugin.discovery=service_load\nconsumer.auto.offset.reset=earliest\n",
        dir.join("offsets").display()
    );
    let connector = |name: &str, class: &str, topics: &str, file: &str| {
        let file = dir.join(file).display().to_string();
        format!(
            "name={name}-{topic}\nconnector.class=org.apache.kafka.connect.file.{class}\n\
             tasks.max=1\nfile={file}\n{topics}={topic}\n"
        )
    };
    let source = connector("source", "FileStreamSourceConnector", "topic", "in.txt");
    let sink = connector("sink", "FileStreamSinkConnector", "topics", "out.txt");
    let mut command = libraries().command("org.apache.kafka.connect.cli.ConnectStandalone");
    command.args([
        properties(dir, "worker.properties", &worker),
        properties(dir, "source.properties", &source),
        properties(dir, "sink.properties", &sink),
    ]);
    command
}

#[test]
fn connect_copies_a_file_and_continues() {
    let proxy = proxy("");
    let to = proxy.bootstrap();
    let topic = topic(&to, "lines", 1, 1);
    let dir = tempfile::tempdir().expect("a directory");
    let (input, output) = (dir.path().join("in.txt"), dir.path().join("out.txt"));
    let lines = numbered("line", 400);
    let copied = || std::fs::read_to_string(&output).unwrap_or_default();
    for part in lines.chunks(200) {
        append(&input, part);
        let command = standalone(&to, &topic, dir.path());
        let mut connect = Program::start("connect", command, dir.path());
        let last = part.last().expect("lines");
        connect.await_that("the last line", || copied().ends_with(&format!("{last}\n")));
        connect.stop();
    }
    let copied = copied();
    assert!(
        copied.lines().eq(&lines),
        "every line once, in its order: {copied}"
    );
    assert_eq!(consume(&broker(), &topic, lines.len()), lines);
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

/// Properties of MirrorMaker from cluster `a` to cluster `b`.
fn mirror(a: &str, b: &str, topic: &str) -> String {
    let replicas = [
        "checkpoints.topic",
        "heartbeats.topic",
        "offset-syncs.topic",
    ];
    let internal = ["offset.storage", "status.storage", "config.storage"];
    let factors: String = replicas
        .iter()
        .chain(&internal)
        .map(|name| format!("{name}.replication.factor=1\n"))
        .collect();
    format!(
        "clusters=a,b\na.bootstrap.servers={a}\nb.bootstrap.servers={b}\n{factors}\
         replication.factor=1\na->b.enabled=true\na->b.topics={topic}\n\
         a->b.groups=read-.*\nb->a.enabled=false\nb->a.emit.heartbeats.enabled=false\n\
         sync.topic.acls.enabled=false\nsync.group.offsets.enabled=true\n\
         sync.group.offsets.interval.seconds=1\nemit.checkpoints.interval.seconds=1\n\
         refresh.topics.interval.seconds=1\nrefresh.groups.interval.seconds=1\n\
         offset.lag.max=0\nb.exactly.once.source.support=enabled\n\
         plugin.discovery=service_load\n"
    )
}

#[test]
fn mirror_maker_copies_between_virtual_clusters() {
    if !takes_minutes("MirrorMaker") {
        return;
    }
    let source = lab(1);
    let target = lab(1);
    let more = format!(
        "[[cluster]]\nname = \"b\"\nupstream = \"{}\"\nlisten = \"127.0.0.1:0\"\n",
        target.bootstrap()
    );
    let proxy = proxy_to(&source.bootstrap(), &format!("name = \"a\"\n{more}"));
    await_that("both clusters", || proxy.get().is_ready());
    let addresses: Vec<_> = proxy.get().addresses().collect();
    let [a, b] = &addresses[..] else {
        panic!("{addresses:?}");
    };
    let (a, b) = (a.1.to_string(), b.1.to_string());
    let topic = topic(&source.bootstrap(), "mirrored", 2, 1);
    let values = numbered("value", 1_000);
    produce(&client_config(&a), &topic, &values[..600]);
    let group = unique("read");
    commit(&a, &group, &topic);

    let dir = tempfile::tempdir().expect("a directory");
    let config = properties(dir.path(), "mm2.properties", &mirror(&a, &b, &topic));
    let start = || {
        let mut command = libraries().command("org.apache.kafka.connect.mirror.MirrorMaker");
        command.arg(&config);
        Program::start("mirror", command, dir.path())
    };
    let copy = format!("a.{topic}");
    let copies = |count| stored_values(&b, &copy).len() >= count;
    let mut program = start();
    program.await_that("copies", || copies(600));
    // Killed in the middle of a transaction, or between two.
    produce(&client_config(&a), &topic, &values[600..]);
    program.kill();
    let mut program = start();
    program.await_that("all copies", || copies(values.len()));
    program.await_that("offsets of the group", || position(&b, &group, &copy) > 0);
    program.stop();
    let mut copied = stored_values(&b, &copy);
    copied.sort_unstable();
    assert_eq!(copied, values, "every value once");
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

/// Returns a consumer with the first partition of a topic.
fn member(bootstrap: &str, group: &str, topic: &str) -> (BaseConsumer, TopicPartitionList) {
    let mut client_config = client_config(bootstrap);
    let consumer = client_config.set("group.id", group).create();
    let mut first = TopicPartitionList::new();
    first.add_partition(topic, 0);
    (consumer.expect("valid configuration"), first)
}

/// Commits the offset 100 of the first partition.
fn commit(bootstrap: &str, group: &str, topic: &str) {
    let (consumer, mut first) = member(bootstrap, group, topic);
    let set = first.set_partition_offset(topic, 0, Offset::Offset(100));
    set.expect("an offset");
    let committed = consumer.commit(&first, CommitMode::Sync);
    committed.expect("committed");
}

/// Returns the committed offset of the first partition, 0 if there is none.
fn position(bootstrap: &str, group: &str, topic: &str) -> i64 {
    let (consumer, first) = member(bootstrap, group, topic);
    let offsets = consumer.committed_offsets(first, TEST_TIMEOUT);
    let offsets = offsets.expect("a response");
    match offsets.elements()[0].offset() {
        Offset::Offset(offset) => offset,
        _ => 0,
    }
}

#[test]
fn registry_stores_its_schemas() {
    if !takes_minutes("a registry that stores in Kafka") {
        return;
    }
    let lab = lab(1);
    let proxy = proxy_to(&lab.bootstrap(), "");
    await_that("the cluster", || proxy.get().is_ready());
    let options = RegistryOptions {
        kafka: Some(proxy.bootstrap()),
        ..RegistryOptions::default()
    };
    let start = || {
        let registry = Registry::start(&options, &mut |_| (), &AtomicBool::new(false));
        registry.expect("starts")
    };
    let register = |registry: &Registry, name: &str| {
        let schema = format!("{{\"type\":\"enum\",\"name\":\"{name}\",\"symbols\":[\"A\"]}}");
        registry
            .register(name, "AVRO", &schema, &[])
            .expect("an id")
    };
    let registry = start();
    let ids = ["first", "second", "third"].map(|name| register(&registry, name));
    assert_eq!(ids, [1, 2, 3]);
    drop(registry);
    // Another registry reads all from Kafka: in an empty one, the third would be the first.
    assert_eq!(register(&start(), "third"), 3);
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}
