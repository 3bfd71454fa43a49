//! Apache Kafka's own tools, which use its Java client, through the proxy.

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use kafka_protocol::messages::ShareFetchRequest;
use kafka_protocol::protocol::Request as _;
use weir_lab::{KAFKA_VERSION, KafkaTools};

use super::equivalence::{api_versions, broker_address, offers};
use super::support::*;

/// Runs a tool to its end and returns its output.
pub(crate) fn tool(class: &str, args: &[&str]) -> String {
    tool_with("", class, args)
}

/// Runs a tool with options of the JVM.
pub(crate) fn tool_with(jvm_options: &str, class: &str, args: &[&str]) -> String {
    static TOOLS: OnceLock<KafkaTools> = OnceLock::new();
    let tools = TOOLS.get_or_init(|| {
        KafkaTools::find(KAFKA_VERSION, &mut |_| (), &AtomicBool::new(false)).expect("tools")
    });
    let mut command = tools.command(&format!("org.apache.kafka.tools.{class}"));
    command.env("JAVA_TOOL_OPTIONS", jvm_options).args(args);
    let output = command.output().expect("runs");
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{class} {args:?}\n{output_text}\n{errors}"
    );
    output_text
}

#[test]
fn topics_producers_groups_and_endpoints() {
    let proxy = proxy("");
    let to = proxy.bootstrap();
    let name = unique("tools");
    let create = ["--create", "--topic", &name, "--partitions", "2"];
    let at = ["--bootstrap-server", &to];
    tool("TopicCommand", &[&at[..], &create].concat());
    let made = ["--topic", &name, "--max-messages", "1000"];
    let output_text = tool("VerifiableProducer", &[&at[..], &made].concat());
    assert!(output_text.contains("\"acked\":1000"), "{output_text}");
    let read = [
        "--topic",
        &name,
        "--from-beginning",
        "--max-messages",
        "1000",
        "--timeout-ms",
        "60000",
    ];
    let output_text = tool("consumer.ConsoleConsumer", &[&at[..], &read].concat());
    let mut values: Vec<i32> = output_text
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    values.sort_unstable();
    assert_eq!(values, (0..1000).collect::<Vec<_>>());
    // Sends DescribeCluster.
    let output_text = tool("ClusterTool", &[&["list-endpoints"], &at[..]].concat());
    let advertised = proxy.get().brokers("default");
    for row in &advertised {
        let (_, port) = row.advertised.rsplit_once(':').expect("a port");
        assert!(output_text.contains(port), "{output_text}");
        let (_, port) = row.upstream.rsplit_once(':').expect("a port");
        assert!(
            !output_text.contains(port),
            "the broker's own port in {output_text}"
        );
    }
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
}

#[test]
fn transactions_copy_and_share_groups_read() {
    let proxy = proxy("");
    let to = proxy.bootstrap();
    let from = topic(&to, "from", 1, 1);
    let copy = topic(&to, "copy", 1, 1);
    let values = numbered("copied", 500);
    produce(&client_config(&to), &from, &values);
    let (id, group) = (unique("copier"), unique("copiers"));
    let args = [
        "--broker-list",
        &to,
        "--transactional-id",
        &id,
        "--consumer-group",
        &group,
        "--input-topic",
        &from,
        "--input-partition",
        "0",
        "--output-topic",
        &copy,
        "--transaction-size",
        "50",
        "--max-messages",
        "500",
        "--enable-random-aborts",
    ];
    tool("TransactionalMessageCopier", &args);
    assert_eq!(consume(&to, &copy, 500), values);

    if !offers(&api_versions(broker_address(), 3), ShareFetchRequest::KEY) {
        let text = "\nskipped: share groups need a broker of Kafka 4.0 or later";
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    }
    let group = unique("sharing");
    let args = [
        "--bootstrap-server",
        &to,
        "--topic",
        &from,
        "--group-id",
        &group,
        "--offset-reset-strategy",
        "earliest",
        "--acknowledgement-mode",
        "auto",
        "--max-messages",
        "500",
    ];
    let output_text = tool("VerifiableShareConsumer", &args);
    let read: u64 = output_text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|event| event["name"] == "records_consumed")
        .filter_map(|event| event["count"].as_u64())
        .sum();
    assert!(read >= 500, "{output_text}");
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}
