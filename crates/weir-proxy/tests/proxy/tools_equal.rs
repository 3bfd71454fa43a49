//! Kafka's command-line tools print the same at the broker and through the proxy.

use std::process::Stdio;

use weir_lab::LabOptions;

use super::programs::from_source;
use super::support::*;

/// Commands in their order, by class and arguments; NAME is a name of the run. `~`: the output has
/// times and only the exit code is compared. `#`: the output has numbers that change. `!`: takes 10
/// seconds and runs only in the long form.
const COMMANDS: &str = "
TopicCommand --create --topic NAME --partitions 1 --config retention.ms=60000
~ProducerPerformance --topic NAME --num-records 10 --record-size 100 --throughput -1
TopicCommand --create --topic NAME
TopicCommand --describe --topic NAME
TopicCommand --alter --topic NAME --partitions 3
TopicCommand --describe --topic missing
TopicCommand --list
GetOffsetShell --topic NAME
kafka.admin.ConfigCommand --describe --entity-type topics --entity-name NAME --all
kafka.admin.ConfigCommand --alter --entity-type topics --entity-name NAME --add-config \
    max.message.bytes=9
kafka.admin.ConfigCommand --alter --entity-type topics --entity-name NAME --add-config no.such=9
kafka.admin.ConfigCommand --describe --entity-type topics --entity-name NAME
kafka.admin.ConfigCommand --describe --entity-type brokers --entity-name 1 --all
kafka.admin.ConfigCommand --alter --entity-type users --entity-name NAME --add-config \
    producer_byte_rate=5
kafka.admin.ConfigCommand --alter --entity-type users --entity-name NAME --add-config \
    SCRAM-SHA-256=[password=p]
kafka.admin.ConfigCommand --describe --entity-type users --entity-name NAME
kafka.admin.ConfigCommand --describe --entity-type groups --entity-name NAME
kafka.admin.ConfigCommand --alter --entity-type groups --entity-name NAME-share --add-config \
    share.auto.offset.reset=earliest
kafka.admin.ConfigCommand --describe --entity-type client-metrics
AclCommand --add --allow-principal User:NAME --operation Read --operation Write --topic NAME
AclCommand --add --deny-principal User:NAME --operation All --group NAME \
    --resource-pattern-type prefixed
AclCommand --list
AclCommand --list --principal User:NAME
consumer.group.ConsumerGroupCommand --reset-offsets --group NAME --topic NAME --to-earliest \
    --execute
consumer.group.ConsumerGroupCommand --list --state
consumer.group.ConsumerGroupCommand --describe --group NAME
consumer.group.ConsumerGroupCommand --describe --group NAME --members
consumer.group.ConsumerGroupCommand --describe --group NAME --state
consumer.group.ConsumerGroupCommand --describe --group missing
GroupsCommand --list
GroupsCommand --list --protocol share
!~VerifiableShareConsumer --topic NAME --group-id NAME-share --max-messages 5
consumer.group.ShareGroupCommand --list
consumer.group.ShareGroupCommand --describe --group NAME-share
consumer.group.ShareGroupCommand --describe --group NAME-share --state
consumer.group.ShareGroupCommand --reset-offsets --group NAME-share --topic NAME --to-latest \
    --execute
consumer.group.ShareGroupCommand --delete --group NAME-share
streams.StreamsGroupCommand --list
TransactionsCommand list
#TransactionsCommand describe-producers --topic NAME --partition 0
TransactionsCommand describe --transactional-id NAME
TransactionsCommand find-hanging --broker-id 1
#MetadataQuorumCommand describe --status
#MetadataQuorumCommand describe --replication
#FeatureCommand describe
FeatureCommand upgrade --feature no.such=1
#LogDirsCommand --describe --topic-list NAME
LeaderElectionCommand --election-type preferred --all-topic-partitions
ClientMetricsCommand --list
ClusterTool cluster-id
ClusterTool list-endpoints
BrokerApiVersionsCommand
DelegationTokenCommand --describe
consumer.group.ConsumerGroupCommand --delete --group NAME
AclCommand --remove --force --topic NAME
AclCommand --remove --force --group NAME --resource-pattern-type prefixed
TopicCommand --delete --topic NAME
TopicCommand --delete --topic NAME
";

/// APIs between brokers, which the proxy does not offer.
const NOT_OFFERED: [&str; 5] = ["(83)", "(84)", "(85)", "(86)", "(87)"];

#[test]
fn command_line_tools_print_the_same() {
    let properties = [
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("super.users", "User:ANONYMOUS"),
    ];
    let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let lab = lab_with(LabOptions {
        properties: properties.to_vec(),
        ..LabOptions::default()
    });
    let proxy = proxy_to(&lab.bootstrap(), "");
    await_that("the cluster", || proxy.get().is_ready());
    // The first run creates Kafka's own topics. Columns are as wide as the names.
    let runs = [
        (lab.bootstrap(), "first-run"),
        (lab.bootstrap(), "at-broker"),
        (proxy.bootstrap(), "via-proxy"),
    ];
    let results = run(&runs);
    let count = results.len() / runs.len();
    let without_ports = |mut text: String| {
        for row in proxy.get().brokers("default") {
            for address in [&row.upstream, &row.advertised] {
                let (_, port) = address.rsplit_once(':').expect("a port");
                text = text.replace(port, "PORT");
            }
        }
        text.replace(&proxy.address.port().to_string(), "PORT")
    };
    let (direct, through) = results[count..].split_at(count);
    let mut different = Vec::new();
    for (index, command) in commands().enumerate() {
        let [direct, through] =
            [(direct, runs[1].1), (through, runs[2].1)].map(|(results, name)| {
                let (code, text) = &results[index];
                let text = without_ports(text.replace(name, "NAME"));
                (*code, comparable(command, &text))
            });
        if direct != through {
            let [direct, through] = [(&direct, &through), (&through, &direct)]
                .map(|(one, other)| only_in(&one.1, &other.1));
            different.push(format!(
                "{command}\n{direct:?}\nthrough the proxy\n{through:?}"
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

/// Returns the lines that `others` lacks.
fn only_in<'a>(lines: &'a [String], others: &[String]) -> Vec<&'a String> {
    let lines = lines.iter();
    lines.filter(|line| !others.contains(line)).collect()
}

fn commands() -> impl Iterator<Item = &'static str> {
    let is_long = std::env::var_os("WEIR_ECOSYSTEM").is_some();
    COMMANDS
        .lines()
        .filter(move |line| !line.is_empty() && (is_long || !line.starts_with('!')))
        .map(|line| line.trim_start_matches('!'))
}

/// Runs all commands with each address and name. Returns exit codes and outputs.
fn run(runs: &[(String, &str)]) -> Vec<(i32, String)> {
    let mut input = String::new();
    for (at, name) in runs {
        for command in commands() {
            let command = command.trim_start_matches(['~', '#']);
            let command = command.replace("NAME", name);
            let (class, args) = command.split_once(' ').unwrap_or((&command, ""));
            let mut words: Vec<_> = args.split(' ').filter(|word| !word.is_empty()).collect();
            // Tools with commands have this option before the command, except for one.
            let place = usize::from(class == "ClusterTool");
            words.splice(place..place, ["--bootstrap-server", at]);
            if !class.starts_with("kafka.") {
                input += "org.apache.kafka.tools.";
            }
            input += &format!("{class}\t{}\n", words.join("\t"));
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("commands");
    std::fs::write(&path, input).expect("writes");
    let output = from_source("Tools.java")
        .stdin(std::fs::File::open(&path).expect("opens"))
        .stderr(Stdio::inherit())
        .output();
    let output = output.expect("runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut parts = text.split('\u{c}');
    let mut before = parts.next().expect("a part").to_owned();
    let mut results = Vec::new();
    for part in parts {
        let (code, next) = part.split_once('\n').expect("an exit code");
        results.push((code.parse().expect("a number"), before));
        before = next.to_owned();
    }
    assert_eq!(results.len(), runs.len() * commands().count(), "{text}");
    results
}

/// Returns the sorted lines of an output, without what differs between two equal clusters.
fn comparable(command: &str, text: &str) -> Vec<String> {
    if command.starts_with('~') {
        return Vec::new();
    }
    let is_stack = |line: &str| line.starts_with("\tat ");
    let is_known =
        |line: &&str| !is_stack(line) && !NOT_OFFERED.iter().any(|api| line.contains(api));
    let mut lines: Vec<_> = text
        .lines()
        .filter(is_known)
        .map(|line| {
            // Listeners of controllers are not shown through the proxy, and ids are random.
            let line = without(line.trim(), ", \"endpoints\"", "}]");
            let line = without(&line, "TopicId: ", "\t");
            match command.starts_with('#') {
                // Columns are as wide as the numbers.
                true => line.replace(|one: char| one.is_ascii_digit() || one == ' ', ""),
                false => line,
            }
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// Removes `start` and what follows up to `end`.
fn without(line: &str, start: &str, end: &str) -> String {
    let Some((before, rest)) = line.split_once(start) else {
        return line.to_owned();
    };
    let after = rest.find(end).map_or("", |at| &rest[at..]);
    format!("{before}{after}")
}
